-- Projections: altered, paused, resumed, dropped, and by whom.
\set SHOW_CONTEXT never
CREATE ROLE regress_stream_owner;
CREATE ROLE regress_stream_other;
CREATE ROLE regress_stream_member;
CREATE ROLE regress_stream_nobody;
CREATE SCHEMA work;
GRANT USAGE, CREATE ON SCHEMA work TO regress_stream_owner, regress_stream_other;
SELECT stream.create_stream('s', 2);
GRANT SELECT ON streams.s TO regress_stream_owner;
CREATE VIEW shown AS
	SELECT projection, target, on_error, workers, batch_records, paused, owner FROM stream.projection_definition ORDER BY projection;
GRANT SELECT ON shown TO PUBLIC;

-- What it takes to create one.
CREATE TABLE work.lookup (k text PRIMARY KEY, v int);
CREATE TABLE work.foreign_target (k text PRIMARY KEY, v int);
GRANT ALL ON work.foreign_target TO regress_stream_owner;
SET ROLE regress_stream_owner;
SET search_path = work;
CREATE TABLE target (k text PRIMARY KEY, v int);
SELECT public.failure($$SELECT stream.create_projection('p', 's', 'foreign_target', 'SELECT key AS k, 1 AS v FROM batch', '{"v": "max"}')$$);
SELECT public.failure($$SELECT stream.create_projection('p', 's', 'foreign_target', statement => 'SELECT 1 FROM batch')$$);
SELECT public.failure($$SELECT stream.create_projection('p', 's', 'target', 'SELECT b.key AS k, v FROM batch b JOIN lookup ON k = key', '{"v": "max"}')$$);
SELECT public.failure($$SELECT stream.create_projection('p', 's', statement => 'INSERT INTO lookup SELECT key FROM batch')$$);
SELECT public.failure($$SELECT stream.create_projection('p', 's', statement => 'SELECT pg_reload_conf() FROM batch')$$);
SELECT stream.create_projection('p', 's', 'target', 'SELECT key AS k, value::int AS v FROM batch', '{"v": "max"}');
-- its own table, without the right to write to it
REVOKE INSERT ON target FROM regress_stream_owner;
SELECT public.failure($$SELECT stream.create_projection('q', 's', 'target', 'SELECT key AS k, 1 AS v FROM batch', '{"v": "max"}')$$);
GRANT INSERT ON target TO regress_stream_owner;
RESET ROLE;
RESET search_path;
SET ROLE regress_stream_other;
CREATE TABLE work.other_target (k text PRIMARY KEY, v int);
SELECT failure($$SELECT stream.create_projection('q', 's', 'work.other_target', 'SELECT key AS k, 1 AS v FROM batch', '{"v": "max"}')$$);
RESET ROLE;

-- It runs as its owner, also to apply.
SELECT count(stream.publish('s', 'k', to_jsonb(g))) FROM generate_series(1, 5) g;
SELECT stream.wait_for('p', timeout => '60 s');
TABLE work.target;

-- Altered: null keeps a value.
SELECT stream.alter_projection('p');
TABLE shown;
SELECT stream.alter_projection('p', on_error => 'dead_letter', workers => 2, batch_records => 10);
TABLE shown;
SELECT stream.alter_projection('p', batch_records => 0);
SELECT stream.alter_projection('p', workers => 1024);
TABLE shown;
-- paused, twice, and resumed
SELECT stream.pause_projection('p');
SELECT stream.pause_projection('p');
TABLE shown;
SELECT stream.publish('s', 'k', '6') IS NOT NULL AS published;
SELECT stream.wait_for('p', timeout => '100 ms');
TABLE work.target;
SELECT stream.resume_projection('p');
SELECT stream.resume_projection('p');
SELECT stream.wait_for('p', timeout => '60 s');
TABLE work.target;
-- rolled back
BEGIN;
SELECT stream.alter_projection('p', workers => 5);
SELECT stream.pause_projection('p');
SELECT stream.drop_projection('p');
SELECT stream.create_projection('p', 's', statement => 'SELECT 1 FROM batch');
TABLE shown;
ROLLBACK;
TABLE shown;
-- refused
SELECT c, failure(c) FROM unnest(ARRAY[
	$$SELECT stream.alter_projection('nobody')$$, $$SELECT stream.drop_projection('nobody')$$, $$SELECT stream.pause_projection('nobody')$$,
	$$SELECT stream.resume_projection('nobody')$$, $$SELECT stream.alter_projection(NULL)$$, $$SELECT stream.drop_projection(NULL)$$, $$SELECT stream.drop_projection(repeat('p', 100))$$,
	$$SELECT stream.alter_projection('p', on_error => 'skip')$$, $$SELECT stream.alter_projection('p', workers => 0)$$, $$SELECT stream.alter_projection('p', workers => 1025)$$,
	$$SELECT stream.alter_projection('p', batch_records => -1)$$, $$SELECT stream.alter_projection('p', batch_records => 1000001)$$, $$SELECT stream.alter_projection('p', owner => 'nobody')$$]) c;
BEGIN READ ONLY;
SELECT stream.create_projection('q', 's', statement => 'SELECT 1 FROM batch'); \echo :SQLSTATE
ROLLBACK;
BEGIN READ ONLY;
SELECT stream.drop_projection('p'); \echo :SQLSTATE
ROLLBACK;

-- By whom: the owner and its members.
CREATE TABLE attempts (n serial, command text);
INSERT INTO attempts (command) VALUES ($$SELECT stream.alter_projection('p', workers => 3)$$), ($$SELECT stream.pause_projection('p')$$), ($$SELECT stream.resume_projection('p')$$),
	($$SELECT stream.alter_projection('p', owner => 'regress_stream_other')$$), ($$SELECT stream.drop_projection('p')$$), ($$SELECT * FROM stream_internal.projections$$),
	($$SELECT count(*) FROM stream_internal.projection_definition()$$);
GRANT SELECT ON attempts TO PUBLIC;
SET ROLE regress_stream_nobody;
SELECT n, command, failure(command) FROM attempts ORDER BY n;
-- shown to those who may read the stream
TABLE shown;
RESET ROLE;
GRANT SELECT ON streams.s TO regress_stream_other;
SET ROLE regress_stream_other;
SELECT n, command, failure(command) FROM attempts ORDER BY n;
TABLE shown;
RESET ROLE;
GRANT regress_stream_owner TO regress_stream_member;
SET ROLE regress_stream_member;
SELECT n, command, left(failure(command), 8) FROM attempts WHERE n <= 4 ORDER BY n;
RESET ROLE;

-- Another owner: one that may read the stream and owns the target.
SELECT failure($$SELECT stream.alter_projection('p', owner => 'regress_stream_nobody')$$);
SELECT failure($$SELECT stream.alter_projection('p', owner => 'regress_stream_other')$$);
GRANT regress_stream_owner TO regress_stream_other;
SELECT stream.alter_projection('p', owner => 'regress_stream_other');
TABLE shown;
SET ROLE regress_stream_owner;
SELECT failure($$SELECT stream.drop_projection('p')$$);
RESET ROLE;
-- a name that is no role's any more
ALTER ROLE regress_stream_other RENAME TO regress_stream_renamed;
TABLE shown;
SET ROLE regress_stream_renamed;
SELECT failure($$SELECT stream.drop_projection('p')$$);
RESET ROLE;
SELECT stream.alter_projection('p', owner => 'regress_stream_renamed', workers => 1);
SELECT stream.publish('s', 'k', '7') IS NOT NULL AS published;
SELECT stream.wait_for('p', timeout => '60 s');
TABLE work.target;

-- Another target, of the caller's and of the owner's; the SQL that is run follows, and is analysed as the owner.
CREATE TABLE work.wider (k text PRIMARY KEY, v numeric, more int);
CREATE TABLE work.parts (k text PRIMARY KEY, v int) PARTITION BY HASH (k);
CREATE UNLOGGED TABLE work.part PARTITION OF work.parts FOR VALUES WITH (MODULUS 1, REMAINDER 0);
SELECT failure($$SELECT stream.alter_projection('p', target => 'work.wider')$$);
ALTER TABLE work.wider OWNER TO regress_stream_renamed;
ALTER TABLE work.parts OWNER TO regress_stream_renamed;
SELECT failure($$SELECT stream.alter_projection('p', target => 'work.parts')$$);
SELECT failure($$SELECT stream.alter_projection('p', target => 'work.lookup', owner => 'regress_stream_renamed')$$);
SET ROLE regress_stream_renamed;
SELECT failure($$SELECT stream.alter_projection('p', target => 'work.foreign_target')$$);
SELECT stream.alter_projection('p', target => 'work.wider');
RESET ROLE;
SELECT target, key, query, apply_sql LIKE 'INSERT INTO work.wider %::numeric%' AS follows, replay_safe FROM stream.projection_definition;
SELECT stream.publish('s', 'k', '8') IS NOT NULL AS published;
SELECT stream.wait_for('p', timeout => '60 s');
TABLE work.target;
TABLE work.wider;
-- with owner and target both gone over to somebody else
SELECT stream.alter_projection('p', owner => 'regress_stream_owner', target => 'work.target');
SELECT target, owner FROM stream.projection_definition;
ALTER TABLE work.wider OWNER TO regress_stream_renamed;
SELECT stream.alter_projection('p', owner => 'regress_stream_renamed', target => 'work.wider');
SELECT count(*) FROM stream_internal.projection_targets;

-- Dropped: the target stays, the rest goes.
SET ROLE regress_stream_renamed;
SELECT stream.drop_projection('p');
RESET ROLE;
SELECT stream.drop_projection('p'); \echo :SQLSTATE
TABLE shown;
SELECT (SELECT count(*) FROM stream_internal.offsets) AS offsets, (SELECT count(*) FROM stream_internal.projection_errors) AS errors, (SELECT count(*) FROM stream_internal.projection_targets) AS targets, (SELECT count(*) FROM stream_internal.dead_letters) AS dead_letters;
TABLE work.target;
-- created anew, it starts anew
SELECT stream.create_projection('p', 's', 'work.lookup', 'SELECT key AS k, value::int AS v FROM batch', '{"v": "min"}');
SELECT stream.wait_for('p', timeout => '60 s');
TABLE work.lookup;
-- the stream renamed
ALTER FOREIGN TABLE streams.s RENAME TO t;
SELECT stream.publish('t', 'k', '0') IS NOT NULL AS published;
SELECT stream.wait_for('p', timeout => '60 s');
TABLE work.lookup;
SELECT stream, projection FROM stream.projection_definition;

SELECT stream.drop_stream('t');
SET client_min_messages = warning;
DROP SCHEMA work CASCADE;
DROP VIEW shown;
DROP TABLE attempts;
DROP ROLE regress_stream_owner, regress_stream_renamed, regress_stream_member, regress_stream_nobody;
