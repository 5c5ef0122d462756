-- What a projection's SQL may do, and what it leaves behind: nothing of the worker's rights, and nothing in the worker.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
SELECT stream.create_stream('s', 1);
CREATE ROLE regress_stream_maker;
CREATE SCHEMA own AUTHORIZATION regress_stream_maker;
GRANT SELECT ON streams.s TO regress_stream_maker;
CREATE VIEW letters AS
	SELECT projection, record_offset, d.key, sqlstate FROM stream_internal.dead_letters d JOIN stream_internal.projections ON projection_id = group_id;

-- Each command is tried by an applier, as the owner.
SET ROLE regress_stream_maker;
SET search_path = own;
CREATE TABLE tried (n serial, command text, result text);
CREATE FUNCTION try(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE command;
	RETURN 'done';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
SELECT stream.create_projection('tries', 's', statement => $$
	INSERT INTO tried (command, result) SELECT key, try(key) FROM batch WHERE value->>'what' = 'try' ORDER BY record_offset $$);
RESET ROLE;
RESET search_path;
SELECT count(stream.publish('s', command, '{"what": "try"}')) FROM unnest(ARRAY[
	'SET ROLE NONE', 'SET SESSION AUTHORIZATION DEFAULT', 'RESET ROLE', 'RESET SESSION AUTHORIZATION',
	$$SELECT set_config('role', 'none', false)$$, $$SELECT set_config('session_authorization', 'default', true)$$,
	'SET session_replication_role = replica', 'SELECT * FROM stream_internal.projections', $$SELECT pg_read_file('PG_VERSION')$$,
	'COPY tried TO PROGRAM ''true''', 'ALTER ROLE regress_stream_maker SUPERUSER', 'CREATE TEMP TABLE t (i int)', 'LISTEN x',
	'DECLARE c CURSOR WITH HOLD FOR SELECT 1', 'PREPARE p AS SELECT 1', 'DISCARD ALL', 'COMMIT',
	'SELECT pg_advisory_lock(4711)', 'SELECT pg_advisory_lock_shared(4712)', 'SET search_path = pg_catalog, own', 'SET synchronous_commit = on',
	'SET work_mem = 64']) WITH ORDINALITY u (command, n);
SELECT stream.wait_for('tries', timeout => '30 s');
SELECT command, result FROM own.tried ORDER BY n;
-- nobody has the locks any more
SELECT pg_try_advisory_lock(4711), pg_try_advisory_lock(4712);
SELECT pg_advisory_unlock_all();

-- Nor when the batch fails.
CREATE TABLE n (i int);
SELECT stream.create_projection('fails', 's', start => 'latest', on_error => 'dead_letter', statement => $$
	INSERT INTO n SELECT 1 / (length(key) - 1) FROM batch, LATERAL (SELECT pg_advisory_lock(4713)) l $$);
SELECT stream.publish('s', 'x', '{}');
SELECT stream.wait_for('fails', timeout => '30 s');
SELECT * FROM letters;
SELECT pg_try_advisory_lock(4713);
SELECT pg_advisory_unlock_all();
SELECT stream.drop_projection('fails');

-- A statement does not take its projection, or the offset, away under itself.
CREATE TABLE refused (command text, state text);
CREATE FUNCTION refusal(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE command;
	RETURN 'done';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT stream.create_stream('t');
SELECT stream.create_projection('further', 't', statement => 'SELECT 1 FROM batch');
SELECT stream.create_projection('itself', 's', start => 'latest', statement =>
	'INSERT INTO refused SELECT command, refusal(command) FROM batch, LATERAL jsonb_array_elements_text(value) WITH ORDINALITY u (command, n) ORDER BY n');
SELECT stream.publish('s', 'x', jsonb_build_array($$SELECT stream.drop_projection('itself')$$, $$SELECT stream.drop_stream('t')$$,
	$$SELECT stream.skip_projection_record('itself', '0:23', 'no')$$, $$SELECT count(*) FROM stream.retry_dead_letters('itself')$$,
	$$SELECT stream.pause_projection('itself')$$));
SELECT stream.wait_for('itself', timeout => '30 s');
TABLE refused;
SELECT projection, state FROM stream.projection_status ORDER BY 1;
SELECT stream.drop_projection('itself');
SELECT stream.drop_stream('t');
SELECT count(*) FROM stream_internal.offsets WHERE group_id NOT IN (SELECT projection_id FROM stream_internal.projections);
DROP TABLE refused;
DROP FUNCTION refusal;

-- Constraints that could wait for the commit are checked while the record at fault can be found: uniqueness and a foreign
-- key, deferred; another index's uniqueness; a check.
CREATE TABLE parent (id int PRIMARY KEY);
INSERT INTO parent SELECT generate_series(0, 9);
CREATE TABLE target (k text PRIMARY KEY, u int UNIQUE DEFERRABLE INITIALLY DEFERRED, v int UNIQUE, c int CHECK (c > 0),
	f int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
SELECT stream.create_projection('strict', 's', 'target', start => 'latest', on_error => 'dead_letter', query =>
	$$ SELECT key AS k, (value->>'u')::int AS u, (value->>'v')::int AS v, (value->>'c')::int AS c, (value->>'f')::int AS f FROM batch $$,
	merge => '{"u": "max", "v": "max", "c": "max", "f": "max"}');
BEGIN;
SELECT count(stream.publish('s', 'k' || i, jsonb_build_object('u', i, 'v', i, 'c', 1, 'f', i % 10))) FROM generate_series(1, 100) i;
SELECT count(stream.publish('s', key, value)) FROM (VALUES ('u', '{"u": 7}'::jsonb), ('v', '{"v": 7}'), ('c', '{"c": 0}'), ('f', '{"f": 10}')) u (key, value);
SELECT count(stream.publish('s', 'k' || i, jsonb_build_object('u', i, 'v', i, 'c', 1, 'f', i % 10))) FROM generate_series(101, 150) i;
COMMIT;
SELECT stream.wait_for('strict', timeout => '30 s');
SELECT count(*), sum(u) FROM target;
SELECT key, sqlstate FROM letters ORDER BY record_offset;
-- also when one is tried again, and then to the end of the transaction
BEGIN;
INSERT INTO parent VALUES (10);
UPDATE target SET f = 11 WHERE k = 'k1';
UPDATE target SET f = 1 WHERE k = 'k1';
SELECT applied, sqlstate FROM stream.retry_dead_letters('strict');
UPDATE target SET f = 11 WHERE k = 'k1'; \echo :SQLSTATE
ROLLBACK;
SELECT stream.drop_projection('strict');

-- A role that is created after the owner has gone is another one, whatever its name: it does not run what that one wrote.
SELECT stream.drop_projection('tries');
CREATE TABLE ran (as_user name);
GRANT INSERT ON ran TO public;
GRANT SELECT ON streams.s TO public;
SET ROLE regress_stream_maker;
SELECT stream.create_projection('orphan', 's', start => 'latest', statement => 'INSERT INTO ran SELECT current_user FROM batch');
RESET ROLE;
DROP OWNED BY regress_stream_maker CASCADE;
DROP ROLE regress_stream_maker;
CREATE ROLE regress_stream_maker SUPERUSER;
SELECT stream.publish('s', 'x', '{}');
CREATE FUNCTION await_error(name text) RETURNS TABLE (sqlstate text, message text, stopped boolean) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 3000 LOOP
		RETURN QUERY SELECT e.sqlstate, e.message, e.stopped FROM stream_internal.projection_errors e
			JOIN stream_internal.projections USING (projection_id) WHERE projection = name;
		EXIT WHEN FOUND;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
SELECT * FROM await_error('orphan');
ALTER ROLE regress_stream_maker NOSUPERUSER;
SET ROLE regress_stream_maker;
SELECT stream.pause_projection('orphan');
RESET ROLE;
SELECT count(*) FROM ran;
-- until somebody who may says so
SELECT stream.alter_projection('orphan', owner => 'regress_stream_maker');
SELECT stream.wait_for('orphan', timeout => '30 s');
SELECT * FROM ran;

-- clean up
SELECT stream.drop_stream('s');
DROP OWNED BY regress_stream_maker CASCADE;
DROP ROLE regress_stream_maker;
DROP FUNCTION await_error;
DROP VIEW letters;
DROP TABLE n, target, parent, ran;
