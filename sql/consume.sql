-- Transactional consume.
\set SHOW_CONTEXT never
-- a transaction left prepared by mistake would hang the rest
SET lock_timeout = '10 s';
SELECT stream.create_stream('s', 2);
SELECT stream.create_stream('one');
SELECT stream.create_stream('bytes', 1, 'bytea');
SELECT stream.create_consumer_group(s, 'g') FROM unnest('{s,one,bytes}'::text[]) s;
SELECT count(stream.publish('s', 'key ' || g, to_jsonb(g), CASE WHEN g % 5 = 0 THEN '{"h": 1}'::jsonb END, g % 2)) FROM generate_series(0, 19) g;
SELECT count(stream.publish('one', 'key ' || g, to_jsonb(g))) FROM generate_series(0, 19) g;
-- where group g of a stream is
CREATE FUNCTION at(stream text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(committed_offset::text, ' ' ORDER BY "partition") || ' lag ' || sum(lag)
	FROM stream.consumer_lag l WHERE l.stream = $1 AND consumer_group = 'g'
$$;
-- sets it back
CREATE FUNCTION again(stream text) RETURNS void LANGUAGE sql AS $$
	SELECT FROM stream.reset_offsets($1, 'g', 'earliest', execute => true)
$$;
-- without columns that differ
CREATE VIEW next_two AS SELECT "partition", record_offset, key, value, headers FROM stream.consume('one', 'g', 2);

-- All columns of what read gives, once.
BEGIN;
CREATE TEMP TABLE got ON COMMIT DROP AS SELECT * FROM stream.consume('s', 'g');
SELECT count(*), bool_and(r.* IS NOT DISTINCT FROM got.*) AS same
FROM got JOIN LATERAL stream.read('s', got."partition", got.record_offset, 1) r USING ("partition", record_offset);
SELECT * FROM (SELECT "partition", record_offset, key, value, headers FROM got) g ORDER BY 1, 2 LIMIT 4;
SELECT at('s');
ROLLBACK;
SELECT at('s');
-- in order within each partition
BEGIN;
SELECT "partition", count(*), array_agg(record_offset ORDER BY n) = array_agg(record_offset ORDER BY record_offset) AS in_order
FROM stream.consume('s', 'g') WITH ORDINALITY r("partition", record_offset, published_at, key, value, headers, n) GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM stream.consume('s', 'g');
COMMIT;
SELECT at('s');
SELECT count(*) FROM stream.consume('s', 'g', autocommit => true);

-- Calls go on where the one before ended, in the transaction and after it.
BEGIN;
TABLE next_two;
TABLE next_two;
COMMIT;
BEGIN;
TABLE next_two;
SAVEPOINT a;
TABLE next_two;
ROLLBACK TO a;
TABLE next_two;
RELEASE a;
SAVEPOINT a;
TABLE next_two;
SAVEPOINT b;
TABLE next_two;
RELEASE b;
ROLLBACK TO a;
TABLE next_two;
ROLLBACK;
SELECT at('one');
-- an error gives back, too
BEGIN;
TABLE next_two;
SELECT 1 / 0;
COMMIT;
DO $$ BEGIN
	PERFORM FROM next_two;
	RAISE 'failed';
END $$;
SELECT at('one');
DO $$ BEGIN
	BEGIN
		PERFORM FROM next_two;
		PERFORM 1 / 0;
	EXCEPTION WHEN division_by_zero THEN
		PERFORM FROM stream.consume('one', 'g', 1);
	END;
END $$;
SELECT at('one');
-- in a cursor
BEGIN;
DECLARE c CURSOR FOR TABLE next_two;
FETCH 1 FROM c;
SELECT record_offset FROM stream.consume('one', 'g', 2);
FETCH 10 FROM c;
CLOSE c;
COMMIT;
SELECT at('one');

-- Once in a statement: the partition has moved since the statement's snapshot.
BEGIN;
SELECT again('one');
SELECT (SELECT count(*) FROM next_two) AS first, (SELECT count(*) FROM next_two) AS second;
SELECT count(*) FROM (TABLE next_two UNION ALL TABLE next_two) t;
SELECT n, record_offset FROM generate_series(1, 3) n LEFT JOIN LATERAL stream.consume('one', 'g', n) ON true;
TABLE next_two;
-- a function's statements have snapshots of their own
CREATE FUNCTION offsets_of_three_calls() RETURNS TABLE (call int, record_offset bigint) LANGUAGE plpgsql AS $$
BEGIN
	FOR call IN 1 .. 3 LOOP
		RETURN QUERY SELECT call, c.record_offset FROM stream.consume('one', 'g', 2) c;
	END LOOP;
END
$$;
SELECT * FROM offsets_of_three_calls();
-- unless it is declared not to change anything
ALTER FUNCTION offsets_of_three_calls() STABLE;
SELECT * FROM offsets_of_three_calls();
ROLLBACK;

-- Limits.
BEGIN;
SELECT again('one');
SELECT count(*) FROM stream.consume('one', 'g', 0);
SELECT at('one');
SELECT count(*) FROM stream.consume('one', 'g', 1);
SELECT count(*) FROM stream.consume('one', 'g', 2147483647, 9223372036854775807);
SELECT again('one');
SELECT count(*) FROM stream.consume('one', 'g', NULL, NULL);
SELECT again('one');
SELECT count(*) FROM stream.consume('one', 'g', autocommit => NULL);
ROLLBACK;
SELECT failure($$SELECT * FROM stream.consume('one', 'g', -1, autocommit => true)$$);
SELECT failure($$SELECT * FROM stream.consume('one', 'g', -2147483648, autocommit => true)$$);
SELECT failure($$SELECT * FROM stream.consume('one', 'g', max_bytes => -1, autocommit => true)$$);
-- defaults: 100 records, 1 MB
BEGIN;
SELECT count(stream.publish('one', 'k', to_jsonb(g))) FROM generate_series(1, 230) g;
COMMIT;
BEGIN;
SELECT again('one');
SELECT count(*) FROM stream.consume('one', 'g');
SELECT count(*) FROM stream.consume('one', 'g');
SELECT count(*) FROM stream.consume('one', 'g');
SELECT count(*) FROM stream.consume('one', 'g');
-- about so many bytes, and at least one record
SELECT again('one');
SELECT count(*) FROM stream.consume('one', 'g', NULL, 0);
SELECT count(*) FROM stream.consume('one', 'g', NULL, 1);
SELECT count(*) BETWEEN 5 AND 20 AS some FROM stream.consume('one', 'g', NULL, 200);
COMMIT;
SELECT count(*) > 200 AS rest FROM stream.consume('one', 'g', NULL, autocommit => true);
-- one that is larger than the limit comes alone, and stops nobody
SELECT stream.publish('one', 'small', '1'), stream.publish('one', 'big', to_jsonb(repeat('x', 3000000))), stream.publish('one', 'small', '2');
BEGIN;
SELECT key, length(value #>> '{}') FROM stream.consume('one', 'g');
SELECT key, length(value #>> '{}') FROM stream.consume('one', 'g');
SELECT key, length(value #>> '{}') FROM stream.consume('one', 'g');
SELECT key, length(value #>> '{}') FROM stream.consume('one', 'g');
COMMIT;
-- with several partitions the limits are for all of them
SELECT again('s');
BEGIN;
SELECT count(*), count(DISTINCT "partition") AS partitions FROM stream.consume('s', 'g', 10);
SELECT count(*), count(DISTINCT "partition") AS partitions FROM stream.consume('s', 'g', 15);
ROLLBACK;
-- and no partition starves
DO $$ BEGIN
	FOR i IN 1 .. 60 LOOP
		PERFORM FROM stream.consume('s', 'g', 1);
		EXIT WHEN (SELECT min(committed_offset) > 0 FROM stream.consumer_lag WHERE stream = 's');
	END LOOP;
END $$;
SELECT min(committed_offset) > 0 AS all_served FROM stream.consumer_lag WHERE stream = 's';

-- A bare SELECT would commit before the client has the records.
SELECT again('one');
SELECT count(*) FROM stream.consume('one', 'g'); \echo :SQLSTATE
SELECT stream.consume('one', 'g'); \echo :SQLSTATE
TABLE next_two; \echo :SQLSTATE
VALUES ((SELECT count(*) FROM next_two)); \echo :SQLSTATE
WITH t AS (TABLE next_two) SELECT * FROM t; \echo :SQLSTATE
SELECT 1 WHERE EXISTS (SELECT FROM next_two); \echo :SQLSTATE
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) TABLE next_two; \echo :SQLSTATE
-- (psql 18 does not set SQLSTATE after a COPY)
COPY (TABLE next_two) TO STDOUT;
DECLARE c CURSOR WITH HOLD FOR TABLE next_two; \echo :SQLSTATE
PREPARE p AS TABLE next_two;
EXECUTE p; \echo :SQLSTATE
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE p; \echo :SQLSTATE
SELECT count(*) FROM stream.consume_bytes('bytes', 'g'); \echo :SQLSTATE
SELECT * FROM stream.consume('one', 'g', autocommit => false); \echo :SQLSTATE
SELECT * FROM stream.consume('one', 'g', autocommit => NULL); \echo :SQLSTATE
SELECT at('one');
-- an EXPLAIN without ANALYZE does nothing
EXPLAIN (COSTS OFF) SELECT * FROM stream.consume('one', 'g');
-- the session is as before
BEGIN;
EXECUTE p;
ROLLBACK;

-- What does something with the records in the same transaction is not meant.
CREATE TABLE effects (n serial, how text, record_offset bigint);
INSERT INTO effects (how, record_offset) SELECT 'INSERT', record_offset FROM next_two;
WITH i AS (INSERT INTO effects (how, record_offset) SELECT 'WITH', record_offset FROM next_two RETURNING *) SELECT count(*) FROM i;
INSERT INTO effects (how, record_offset) SELECT 'RETURNING', record_offset FROM next_two RETURNING how, record_offset;
UPDATE effects SET how = 'UPDATE' FROM stream.consume('one', 'g', 1) c WHERE c.record_offset = effects.record_offset + 6;
DELETE FROM effects USING stream.consume('one', 'g', 1) c WHERE how = 'UPDATE' AND c.record_offset = effects.record_offset + 6;
CREATE TABLE created AS TABLE next_two;
SELECT * INTO selected FROM next_two;
CREATE MATERIALIZED VIEW materialized AS TABLE next_two;
DO $$ BEGIN INSERT INTO effects (how, record_offset) SELECT 'DO', record_offset FROM next_two; END $$;
CREATE FUNCTION take() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT count(*) FROM next_two);
END
$$;
SELECT take();
CREATE FUNCTION take_sql() RETURNS SETOF bigint LANGUAGE sql AS 'SELECT record_offset FROM next_two';
SELECT * FROM take_sql();
CREATE PROCEDURE take_twice(INOUT n int) LANGUAGE plpgsql AS $$
BEGIN
	n := (SELECT count(*) FROM next_two);
	COMMIT;
	n := n + (SELECT count(*) FROM next_two);
	ROLLBACK;
END
$$;
CALL take_twice(0);
-- a loop over a query has a portal of its own
CREATE PROCEDURE take_in_loop() LANGUAGE plpgsql AS $$
DECLARE
	r record;
	c refcursor;
BEGIN
	FOR r IN TABLE next_two LOOP
		INSERT INTO effects (how, record_offset) VALUES ('loop', r.record_offset);
	END LOOP;
	COMMIT;
	BEGIN
		FOR r IN TABLE next_two LOOP
			INSERT INTO effects (how, record_offset) VALUES ('exception block', r.record_offset);
		END LOOP;
	EXCEPTION WHEN division_by_zero THEN NULL;
	END;
	OPEN c FOR TABLE next_two;
	FETCH c INTO r;
	INSERT INTO effects (how, record_offset) VALUES ('cursor', r.record_offset);
	CLOSE c;
END
$$;
CALL take_in_loop();
CREATE PROCEDURE take_in_atomic_loop() LANGUAGE plpgsql SET work_mem = '4MB' AS $$
DECLARE
	r record;
BEGIN
	FOR r IN TABLE next_two LOOP
		INSERT INTO effects (how, record_offset) VALUES ('atomic loop', r.record_offset);
	END LOOP;
END
$$;
CALL take_in_atomic_loop();
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT take() \g /dev/null
PREPARE i AS INSERT INTO effects (how, record_offset) SELECT 'EXECUTE', record_offset FROM next_two;
EXECUTE i;
-- statements sent together are one transaction
SELECT record_offset FROM next_two\; SELECT record_offset FROM next_two;
SELECT record_offset FROM next_two\; SELECT 1 / 0;
-- as asked for
SELECT record_offset FROM stream.consume('one', 'g', 2, autocommit => true);
SELECT record_offset FROM stream.consume('one', 'g', 2, 100, true);
PREPARE a AS SELECT record_offset FROM stream.consume('one', 'g', $1, autocommit => true);
EXECUTE a(1);
BEGIN;
EXECUTE a(1);
ROLLBACK;
EXECUTE a(1);
COPY (SELECT record_offset FROM stream.consume('one', 'g', 2, autocommit => true)) TO STDOUT;
SELECT how, record_offset FROM effects ORDER BY n;
SELECT count(*) FROM created UNION ALL SELECT count(*) FROM selected UNION ALL SELECT count(*) FROM materialized;
SELECT at('one');
-- a trigger that consumes, whatever fires it
CREATE FUNCTION take_one() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO effects (how, record_offset) SELECT 'trigger', record_offset FROM stream.consume('one', 'g', 1);
	RETURN NULL;
END
$$;
TRUNCATE effects;
CREATE TRIGGER take_one AFTER INSERT ON created FOR EACH ROW EXECUTE FUNCTION take_one();
INSERT INTO created (key) VALUES ('plain');
COPY created (key) FROM STDIN;
copied
\.
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) INSERT INTO created (key) VALUES ('explained') \g /dev/null
CREATE CONSTRAINT TRIGGER take_late AFTER UPDATE ON created DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION take_one();
UPDATE created SET key = 'deferred' WHERE key = 'plain';
SELECT how, count(*) FROM effects GROUP BY 1;

-- Read-only transactions, two-phase commit.
BEGIN READ ONLY;
TABLE next_two; \echo :SQLSTATE
ROLLBACK;
BEGIN;
SELECT count(*) FROM next_two;
PREPARE TRANSACTION 'consumed'; \echo :SQLSTATE
-- What one publishes is read when it is committed.
SELECT stream.create_stream('own');
SELECT stream.create_consumer_group('own', 'g');
BEGIN;
SELECT stream.publish('own', 'k', '1');
SELECT count(*) FROM stream.consume('own', 'g');
COMMIT;
BEGIN;
SELECT count(*) FROM stream.consume('own', 'g');
SELECT stream.publish('own', 'k', '2');
COMMIT;
SELECT record_offset FROM stream.consume('own', 'g', autocommit => true);
-- from one stream to another
BEGIN;
SELECT count(stream.publish('own', key, value)) FROM stream.consume('s', 'g', 3);
ROLLBACK;
SELECT count(*) FROM stream.consume('own', 'g', autocommit => true);
SELECT at('own');
INSERT INTO streams.own (key, value) SELECT key, value FROM stream.consume('s', 'g', 3);
SELECT count(*) FROM stream.consume('own', 'g', autocommit => true);

-- Bytes.
SELECT stream.publish_bytes('bytes', 'k', '\x00ff', '{"h": 1}'), stream.publish_bytes('bytes', NULL, '\x'), stream.publish_tombstone('bytes', 'gone');
BEGIN;
SELECT record_offset, key, value, headers FROM stream.consume_bytes('bytes', 'g', 2);
SELECT record_offset, key, value, headers FROM stream.consume_bytes('bytes', 'g', max_records => NULL, max_bytes => NULL);
COMMIT;
SELECT count(*) FROM stream.consume_bytes('bytes', 'g', autocommit => true);
SELECT failure($$SELECT * FROM stream.consume('bytes', 'g', autocommit => true)$$);
SELECT failure($$SELECT * FROM stream.consume_bytes('one', 'g', autocommit => true)$$);
SELECT failure($$SELECT * FROM stream.consume_bytes('bytes', 'missing', autocommit => true)$$);
-- a tombstone of a jsonb stream, and records without a key
SELECT stream.publish_tombstone('one', 'gone'), stream.publish('one', NULL, 'null');
SELECT again('one');
SELECT key, value, value IS NULL AS is_null FROM stream.consume('one', 'g', NULL, NULL, true) WHERE key IS NULL OR value IS NULL;

-- wait_for_records: its arguments.
SELECT stream.wait_for_records('one', 'g', '0');
SELECT stream.wait_for_records(timeout => '1 ms', consumer_group => 'g', stream => 'one');
SELECT failure($$SELECT stream.wait_for_records('one', 'g', NULL)$$);
SELECT failure($$SELECT stream.wait_for_records('one', 'g', '-1 s')$$);

-- Retention has passed the committed offset.
CREATE PROCEDURE start_log_at(stream text, first_offset bigint) LANGUAGE plpgsql AS $$
BEGIN
	UPDATE stream_internal.partitions p SET log_start_offset = first_offset
	FROM stream_internal.streams s WHERE s.stream_id = p.stream_id AND s.stream = start_log_at.stream;
	PERFORM stream.alter_stream(stream, compression => 'lz4');
END
$$;
SELECT stream.create_stream('short');
SELECT count(stream.publish('short', 'k', to_jsonb(g))) FROM generate_series(0, 9) g;
SELECT stream.create_consumer_group('short', g, on_offset_out_of_range => g) FROM unnest('{error,earliest,latest}'::text[]) g;
SELECT count(*) FROM unnest('{error,earliest,latest}'::text[]) g, stream.consume('short', g, 2, autocommit => true);
CREATE VIEW short AS SELECT consumer_group, committed_offset, lag, records_skipped FROM stream.consumer_lag WHERE stream = 'short' ORDER BY 1;
-- at the log start nothing is lost
CALL start_log_at('short', 2);
SELECT g, record_offset FROM unnest('{error,earliest,latest}'::text[]) g, stream.consume('short', g, 1, autocommit => true);
CALL start_log_at('short', 6);
SELECT failure($$SELECT * FROM stream.consume('short', 'error', autocommit => true)$$);
SELECT stream.wait_for_records('short', 'error', '0');
SELECT record_offset FROM stream.consume('short', 'earliest', 2, autocommit => true);
SELECT record_offset FROM stream.consume('short', 'latest', 2, autocommit => true);
TABLE short;
SELECT stream.publish('short', 'k', '10');
SELECT record_offset FROM stream.consume('short', 'latest', 2, autocommit => true);
SELECT record_offset FROM stream.consume('short', 'earliest', 100, autocommit => true);
-- changed, and rolled back
SELECT stream.alter_consumer_group('short', 'error', 'earliest');
BEGIN;
SELECT record_offset FROM stream.consume('short', 'error', 1);
TABLE short;
ROLLBACK;
TABLE short;
-- it adds up
CALL start_log_at('short', 11);
SELECT count(*) FROM stream.consume('short', 'error', autocommit => true);
SELECT count(stream.publish('short', 'k', to_jsonb(g))) FROM generate_series(11, 19) g;
CALL start_log_at('short', 15);
SELECT count(*) FROM unnest('{error,earliest,latest}'::text[]) g, stream.consume('short', g, 1, autocommit => true);
TABLE short;

-- Folding: many commits leave few rows.
SELECT stream.create_stream('busy', 2);
SELECT stream.create_consumer_group('busy', g) FROM unnest('{g,idle}'::text[]) g;
SELECT count(stream.publish('busy', 'k', to_jsonb(g), "partition" => 0)) FROM generate_series(0, 999) g;
CREATE FUNCTION rows_of(g text) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM stream_internal.offsets JOIN stream_internal.consumer_groups USING (group_id)
		JOIN stream_internal.streams s USING (stream_id) WHERE s.stream = 'busy' AND consumer_group = g
$$;
DO $$
DECLARE
	wrong int := 0;
	o bigint;
BEGIN
	FOR i IN 0 .. 999 LOOP
		SELECT record_offset INTO o FROM stream.consume('busy', 'g', 1);
		wrong := wrong + (o IS DISTINCT FROM i)::int;
		-- every third commit follows a rollback
		IF i % 3 = 0 THEN
			ROLLBACK;
			SELECT record_offset INTO o FROM stream.consume('busy', 'g', 1);
			wrong := wrong + (o IS DISTINCT FROM i)::int;
		END IF;
		COMMIT;
	END LOOP;
	RAISE NOTICE 'wrong: %', wrong;
END $$;
SELECT rows_of('g') BETWEEN 2 AND 299 AS few, rows_of('idle') AS idle;
SELECT consumer_group, "partition", committed_offset, lag FROM stream.consumer_lag WHERE stream = 'busy' ORDER BY 1, 2;
-- a fold that is rolled back
SELECT FROM stream.reset_offsets('busy', 'g', 'earliest', execute => true);
BEGIN;
DO $$ BEGIN FOR i IN 0 .. 499 LOOP PERFORM FROM stream.consume('busy', 'g', 1); END LOOP; END $$;
SELECT rows_of('g') < 300 AS few;
ROLLBACK;
SELECT at('busy');
DO $$ BEGIN
	FOR i IN 0 .. 499 LOOP
		BEGIN
			PERFORM FROM stream.consume('busy', 'g', 1);
			IF i % 2 = 0 THEN RAISE 'undo'; END IF;
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
	END LOOP;
END $$;
SELECT at('busy'), rows_of('g') < 300 AS few;

DROP TRIGGER take_one ON created;
DROP MATERIALIZED VIEW materialized;
DROP TABLE effects, created, selected;
DROP VIEW next_two, short;
DROP FUNCTION at, again, take, take_sql, take_one, rows_of;
DROP PROCEDURE take_twice, take_in_loop, take_in_atomic_loop, start_log_at;
SELECT stream.drop_stream(s) FROM unnest('{s,one,bytes,own,short,busy}'::text[]) s;
SELECT * FROM left_over();
