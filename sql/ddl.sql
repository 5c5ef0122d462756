-- DDL on the foreign table of a stream is carried through to the stream or refused, and
-- never leaves a part of a stream behind.
\set SHOW_CONTEXT never
\set VERBOSITY terse

-- All parts: what left_over() counts, the internal tables and sequences wherever they are,
-- and partitions with state in shared memory once it has been given up.
CREATE VIEW parts AS
	SELECT concat_ws(' ', (SELECT 'streams: ' || string_agg(stream, ', ' ORDER BY stream) FROM stream_internal.streams),
		(SELECT string_agg(catalog || ' ' || n, ', ' ORDER BY catalog) FROM left_over() WHERE catalog <> 'streams' AND n > 0),
		(SELECT 'state of ' || used FROM stream.memory_status WHERE area = 'partitions' AND used > 0),
		(SELECT 'astray: ' || string_agg(oid::regclass::text, ', ') FROM pg_class
			WHERE relname ~ '^s\d+_p?\d+' AND relnamespace <> 'stream_internal'::regnamespace)) AS parts;
TABLE parts;

-- RENAME renames the stream.
SELECT stream.create_stream('a', 2), stream.create_stream('b', 2);
SELECT count(stream.publish(s, 'k', '1', NULL, p)) FROM unnest('{a,b}'::text[]) s, generate_series(0, 1) p;
CALL stream.roll_segment('a');
TABLE parts;
ALTER FOREIGN TABLE streams.a RENAME TO "A b";
ALTER TABLE streams."A b" RENAME TO c;
ALTER VIEW streams.c RENAME TO d; \echo :SQLSTATE
ALTER FOREIGN TABLE streams.c RENAME TO b; \echo :SQLSTATE
ALTER TABLE IF EXISTS streams.c RENAME TO a;
SELECT stream.publish('a', 'k', '2') IS NOT NULL AS published;
-- two names exchanged under a publisher: each record goes where its name was when it was published
BEGIN;
SELECT count(stream.publish(s, 'k', to_jsonb('old ' || s))) FROM unnest('{a,b}'::text[]) s;
ALTER FOREIGN TABLE streams.a RENAME TO tmp;
ALTER FOREIGN TABLE streams.b RENAME TO a;
ALTER FOREIGN TABLE streams.tmp RENAME TO b;
SELECT count(stream.publish(s, 'k', to_jsonb('new ' || s))) FROM unnest('{a,b}'::text[]) s;
INSERT INTO streams.a (key, value) VALUES ('k', '"inserted into a"');
COMMIT;
SELECT value FROM streams.a WHERE jsonb_typeof(value) = 'string' ORDER BY record_offset;
SELECT value FROM streams.b WHERE jsonb_typeof(value) = 'string' ORDER BY record_offset;
-- a rename that is rolled back
BEGIN;
SELECT stream.publish('a', 'back', '1') IS NOT NULL AS published;
SAVEPOINT x;
ALTER FOREIGN TABLE streams.a RENAME TO other;
SELECT stream.publish('other', 'back', '2') IS NOT NULL AS published;
ROLLBACK TO x;
SELECT stream.publish('a', 'back', '3') IS NOT NULL AS published;
COMMIT;
SELECT value FROM streams.a WHERE key = 'back';
SELECT * FROM stream.verify_log('a');
SELECT * FROM stream.verify_log('b');
TABLE parts;

-- What is refused, with a hint.
\set VERBOSITY default
SELECT failure(command) FROM unnest(ARRAY[
	'ALTER FOREIGN TABLE streams.a SET SCHEMA public',
	'ALTER FOREIGN TABLE streams.a ADD COLUMN x int',
	'ALTER FOREIGN TABLE streams.a ADD COLUMN g int GENERATED ALWAYS AS (1) STORED',
	'ALTER FOREIGN TABLE streams.a DROP COLUMN headers',
	'ALTER FOREIGN TABLE streams.a DROP COLUMN key CASCADE',
	'ALTER FOREIGN TABLE streams.a RENAME key TO name',
	'ALTER SCHEMA streams RENAME TO other',
	'ALTER SCHEMA stream RENAME TO other',
	'ALTER SCHEMA stream_internal RENAME TO other',
	'DROP SCHEMA streams',
	'DROP SCHEMA streams CASCADE',
	'DROP SCHEMA stream_internal CASCADE',
	'DROP SERVER stream CASCADE',
	'DROP FOREIGN DATA WRAPPER stream CASCADE',
	'ALTER EXTENSION stream SET SCHEMA pg_catalog',
	'DROP TYPE streams.a',
	'DROP TYPE streams.a CASCADE']) command;
\set VERBOSITY terse
\set VERBOSITY sqlstate
ALTER FOREIGN TABLE streams.a ALTER value TYPE text;
ALTER FOREIGN TABLE streams.a ALTER key TYPE varchar(10);
\set VERBOSITY terse
-- what is inside can go alone, as pg_restore --clean needs it; then the stream says what is missing, and can be dropped
CREATE FUNCTION segment_of(stream text) RETURNS text LANGUAGE sql
	AS $$ SELECT table_name FROM stream.segment_status s WHERE s.stream = $1 ORDER BY segment_no LIMIT 1 $$;
BEGIN;
DO $$ BEGIN EXECUTE format('DROP TABLE %s', segment_of('a')); END $$;
SELECT regexp_replace(failure(command), 's\d+_\d+', 'PART', 'g') AS failure FROM unnest(ARRAY['SELECT * FROM streams.a', 'SELECT count(*) FROM streams.a',
	'SELECT * FROM stream.read(''a'', 0)', 'INSERT INTO streams.a (key, value) VALUES (''k'', ''1'')']) command;
DROP FOREIGN TABLE streams.a;
TABLE parts;
ROLLBACK;
DROP FUNCTION segment_of;
TABLE parts;
SELECT count(*), (SELECT count(*) FROM streams.b) FROM streams.a;

-- What PostgreSQL leaves to the table: comments, statistics, defaults, labels, options of columns.
COMMENT ON FOREIGN TABLE streams.a IS 'first';
ALTER FOREIGN TABLE streams.a ALTER key SET STATISTICS 200, ALTER key SET (n_distinct = 5);
ALTER FOREIGN TABLE streams.a ALTER headers SET DEFAULT '{}', ALTER headers DROP DEFAULT;
CREATE STATISTICS streams_of_a ON "partition", key FROM streams.a;
ANALYZE streams.a;
SELECT count(*) FROM pg_statistic_ext WHERE stxname = 'streams_of_a';
DROP STATISTICS streams_of_a;
SELECT failure(command) FROM unnest(ARRAY[
	'CREATE INDEX ON streams.a (key)',
	'ALTER FOREIGN TABLE streams.a ENABLE ROW LEVEL SECURITY',
	'CREATE POLICY p ON streams.a USING (true)',
	'ALTER FOREIGN TABLE streams.a SET TABLESPACE pg_default',
	'ALTER FOREIGN TABLE streams.a OPTIONS (ADD x ''y'')']) command;
CREATE TABLE heir_of () INHERITS (streams.a);
INSERT INTO heir_of (key, value) VALUES ('heir', '1');
SELECT tableoid::regclass, value FROM streams.a WHERE key = 'heir';
SELECT count(*) FROM ONLY streams.a WHERE key = 'heir';
DROP TABLE heir_of;
TABLE parts;

-- As a partition, or the heir of a table.
CREATE TABLE parent ("partition" int, record_offset bigint, published_at timestamptz, key text, value jsonb, headers jsonb) PARTITION BY LIST (key);
ALTER TABLE parent ATTACH PARTITION streams.a FOR VALUES IN ('k');
ALTER TABLE parent ADD COLUMN x int; \echo :SQLSTATE
ALTER TABLE parent RENAME COLUMN key TO kk; \echo :SQLSTATE
ALTER TABLE parent DROP COLUMN headers; \echo :SQLSTATE
\set VERBOSITY sqlstate
ALTER TABLE parent ALTER COLUMN value TYPE text;
\set VERBOSITY terse
ALTER TABLE parent DETACH PARTITION streams.a;
CREATE TABLE ancestor ("partition" int, key text);
ALTER FOREIGN TABLE streams.a INHERIT ancestor;
ALTER TABLE ancestor ADD COLUMN x int; \echo :SQLSTATE
DROP TABLE ancestor; \echo :SQLSTATE
SELECT count(*) > 0 AS inherits FROM ancestor;
ALTER FOREIGN TABLE streams.a NO INHERIT ancestor;
DROP TABLE ancestor;
TABLE parts;
ALTER TABLE parent ATTACH PARTITION streams.a FOR VALUES IN ('k');
DROP TABLE parent;
TABLE parts;

-- DROP, within transactions.
BEGIN;
SELECT stream.publish('b', 'k', '1') IS NOT NULL AS published;
DROP FOREIGN TABLE streams.b;
SELECT stream.publish('b', 'k', '1'); \echo :SQLSTATE
ROLLBACK;
SELECT count(*) FROM streams.b WHERE key = 'k' AND jsonb_typeof(value) = 'number';
BEGIN;
SELECT stream.publish('b', 'kept', '1') IS NOT NULL AS published;
SAVEPOINT x;
DROP FOREIGN TABLE streams.b;
ROLLBACK TO x;
COMMIT;
SELECT value FROM streams.b WHERE key = 'kept';
BEGIN;
SELECT stream.publish('b', 'k', '"discarded"') IS NOT NULL AS published;
DROP FOREIGN TABLE streams.b;
SELECT stream.create_stream('b', 3);
SELECT stream.publish('b', 'k', '"new"', "partition" => 2);
COMMIT;
SELECT "partition", record_offset, value FROM streams.b;
TABLE parts;
BEGIN;
DROP FOREIGN TABLE streams.b;
CREATE TABLE streams.b (x int);
SELECT stream.publish('b', 'k', '1'); \echo :SQLSTATE
ROLLBACK;
-- under a cursor, refused; with a prepared statement, which then reads the new one
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM streams.b;
FETCH 0 FROM c;
SAVEPOINT x;
DROP FOREIGN TABLE streams.b; \echo :SQLSTATE
ROLLBACK TO x;
SELECT stream.drop_stream('b'); \echo :SQLSTATE
ROLLBACK;
PREPARE counting AS SELECT count(*) FROM streams.b;
PREPARE inserting AS INSERT INTO streams.b (key, value) VALUES ('prepared', '1') RETURNING record_offset;
EXECUTE counting; EXECUTE inserting;
SELECT stream.drop_stream('b');
SELECT stream.create_stream('b');
EXECUTE counting; EXECUTE inserting; EXECUTE counting;
DEALLOCATE ALL;
-- with dependent objects
CREATE VIEW dependent AS SELECT * FROM streams.b;
CREATE FUNCTION of_type(r streams.b) RETURNS text LANGUAGE sql AS 'SELECT r.key';
DROP FOREIGN TABLE streams.b; \echo :SQLSTATE
SELECT stream.drop_stream('b'); \echo :SQLSTATE
SELECT stream.publish('b', 'k', '1') IS NOT NULL AS published;
SET client_min_messages = warning;
DROP FOREIGN TABLE streams.b CASCADE;
RESET client_min_messages;
TABLE parts;
DROP FOREIGN TABLE streams.b; \echo :SQLSTATE
DROP FOREIGN TABLE IF EXISTS streams.b;
-- several at once, with other tables
SELECT stream.create_stream('a', 2), stream.create_stream('b', 2), stream.create_stream('c', 2, 'bytea');
SELECT count(stream.publish(s, 'k', '1')) FROM unnest('{a,b}'::text[]) s;
CALL stream.roll_segment('b');
SELECT stream.publish('b', 'k', '2') IS NOT NULL AS published;
DROP FOREIGN TABLE streams.a, streams.b;
TABLE parts;
DROP TABLE streams.c; \echo :SQLSTATE
SELECT stream.drop_stream('c');
TABLE parts;

-- Event triggers see the same commands, and may refuse them.
CREATE TABLE told (n serial, what text);
CREATE FUNCTION tell() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	IF tg_event = 'sql_drop' THEN
		FOR r IN SELECT * FROM pg_event_trigger_dropped_objects() WHERE object_type = 'foreign table' OR (object_type IN ('table', 'sequence') AND original) LOOP
			INSERT INTO public.told (what) VALUES (concat_ws(' ', tg_tag, 'drops', r.object_type, regexp_replace(r.object_identity, 's\d+_p?\d+', 'PART')));
		END LOOP;
	ELSE
		FOR r IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE object_type = 'foreign table' LOOP
			INSERT INTO public.told (what) VALUES (concat_ws(' ', tg_tag, r.object_identity));
		END LOOP;
	END IF;
END
$$;
CREATE EVENT TRIGGER regress_stream_drop ON sql_drop EXECUTE FUNCTION tell();
CREATE EVENT TRIGGER regress_stream_end ON ddl_command_end EXECUTE FUNCTION tell();
SELECT stream.create_stream('a', 2);
ALTER FOREIGN TABLE streams.a RENAME TO b;
CALL stream.roll_segment('b');
DROP FOREIGN TABLE streams.b;
SELECT stream.create_stream('a', 2);
SELECT stream.drop_stream('a');
SELECT what FROM told ORDER BY n;
CREATE OR REPLACE FUNCTION tell() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN IF tg_event = 'sql_drop' THEN RAISE EXCEPTION 'no drops'; END IF; END $$;
SELECT stream.create_stream('a', 2);
SELECT stream.publish('a', 'k', '1') IS NOT NULL AS published;
DROP FOREIGN TABLE streams.a; \echo :SQLSTATE
SELECT stream.drop_stream('a'); \echo :SQLSTATE
SELECT stream.publish('a', 'k', '2') IS NOT NULL AS published;
SELECT count(*) FROM streams.a;
DROP EVENT TRIGGER regress_stream_drop;
DROP EVENT TRIGGER regress_stream_end;
DROP FUNCTION tell;
DROP TABLE told;
SELECT stream.drop_stream('a');
TABLE parts;

-- OWNER TO, REASSIGN OWNED, DROP OWNED.
CREATE ROLE regress_stream_one;
CREATE ROLE regress_stream_two;
GRANT CREATE ON SCHEMA streams TO regress_stream_one, regress_stream_two;
SET ROLE regress_stream_one;
SELECT stream.create_stream('r', 2);
SELECT stream.publish('r', 'k', '1') IS NOT NULL AS published;
\set VERBOSITY sqlstate
ALTER FOREIGN TABLE streams.r OWNER TO regress_stream_two;
\set VERBOSITY terse
RESET ROLE;
ALTER FOREIGN TABLE streams.r OWNER TO regress_stream_two;
SET ROLE regress_stream_one;
SELECT failure(command) FROM unnest(ARRAY['SELECT stream.publish(''r'', ''k'', ''1'')', 'SELECT stream.drop_stream(''r'')',
	'DROP FOREIGN TABLE streams.r', 'ALTER FOREIGN TABLE streams.r RENAME TO mine']) command;
SET ROLE regress_stream_two;
SELECT stream.publish('r', 'k', '2') IS NOT NULL AS published;
ALTER FOREIGN TABLE streams.r RENAME TO renamed;
CALL stream.roll_segment('renamed');
SELECT count(*) FROM streams.renamed;
RESET ROLE;
SELECT count(*), bool_and(relowner = (SELECT extowner FROM pg_extension WHERE extname = 'stream'))
FROM pg_class WHERE relnamespace = 'stream_internal'::regnamespace AND relname ~ '^s\d' AND relkind IN ('r', 'S');
DROP OWNED BY regress_stream_one;
SELECT stream FROM stream.stream_status;
REASSIGN OWNED BY regress_stream_two TO regress_stream_one;
SELECT relowner::regrole FROM pg_class WHERE oid = 'streams.renamed'::regclass;
GRANT CREATE ON SCHEMA streams TO regress_stream_one;
CREATE VIEW dependent AS SELECT * FROM streams.renamed;
DROP OWNED BY regress_stream_one; \echo :SQLSTATE
SELECT stream.publish('renamed', 'k', '3') IS NOT NULL AS published;
SET client_min_messages = warning;
DROP OWNED BY regress_stream_one CASCADE;
RESET client_min_messages;
TABLE parts;
DROP OWNED BY regress_stream_two;
DROP ROLE regress_stream_one, regress_stream_two;

-- Others may put tables into schema streams; a name that is taken is taken.
CREATE TABLE streams.plain (a int);
SELECT stream.create_stream('plain'); \echo :SQLSTATE
SELECT stream.drop_stream('plain'); \echo :SQLSTATE
SELECT stream.publish('plain', 'k', '1'); \echo :SQLSTATE
ALTER TABLE streams.plain RENAME TO plain2;
ALTER TABLE streams.plain2 SET SCHEMA public;
DROP TABLE plain2;
-- a forged one is refused at use, also as a partition, and its DDL is its own
CREATE FOREIGN TABLE forged ("partition" int, record_offset bigint, published_at timestamptz, key text, value jsonb, headers jsonb) SERVER stream;
SELECT failure(command) FROM unnest(ARRAY['SELECT * FROM forged', 'SELECT count(*) FROM forged', 'INSERT INTO forged (key, value) VALUES (''k'', ''1'')',
	'COPY forged (key, value) FROM ''/dev/null''', 'EXPLAIN SELECT * FROM forged', 'ANALYZE forged', 'UPDATE forged SET key = ''x''']) command;
COPY forged (key, value) FROM stdin;
k	1
\.
ALTER FOREIGN TABLE forged ADD COLUMN x int, DROP COLUMN key;
ALTER FOREIGN TABLE forged SET SCHEMA streams;
SELECT stream.publish('forged', 'k', '1'); \echo :SQLSTATE
SELECT stream.drop_stream('forged'); \echo :SQLSTATE
DROP FOREIGN TABLE streams.forged;
TABLE parts;

-- DROP EXTENSION takes all, rolled back nothing.
SELECT stream.create_stream('a', 2), stream.create_stream('b');
SELECT count(stream.publish(s, 'k', '1')) FROM unnest('{a,b}'::text[]) s;
CALL stream.roll_segment('a');
DROP EXTENSION stream; \echo :SQLSTATE
SET client_min_messages = warning;
BEGIN;
DROP EXTENSION stream CASCADE;
ROLLBACK;
SELECT count(*) FROM streams.a;
SELECT stream.publish('a', 'k', '2') IS NOT NULL AS published;
SELECT count(*) FROM streams.a;
-- (definitions of SQL functions do not hold it back)
DROP VIEW parts;
DROP EXTENSION stream CASCADE;
RESET client_min_messages;
SELECT count(*) FROM pg_class WHERE relname ~ '^s\d+_p?\d+';
SELECT count(*) FROM pg_namespace WHERE nspname IN ('stream', 'streams', 'stream_internal');
CREATE EXTENSION stream;
SELECT * FROM left_over();
SELECT used FROM stream.memory_status WHERE area = 'partitions';
