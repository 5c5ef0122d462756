-- INSERT and COPY into the foreign table of a stream: publishing by blocks.
\set SHOW_CONTEXT never

-- 10,000 rows over 7 partitions arrive as they are, in order, in full batches.
CREATE TABLE source AS
	SELECT g AS n, CASE WHEN g % 10 > 0 THEN 'key ' || g % 100 END AS key, jsonb_build_object('n', g, 'x', md5(g::text)) AS value,
		CASE WHEN g % 3 = 0 THEN jsonb_build_object('h', g) END AS headers
	FROM generate_series(1, 10000) g;
SELECT stream.create_stream('s', 7);
INSERT INTO streams.s (key, value, headers) SELECT key, value, headers FROM source ORDER BY n;
CREATE VIEW difference AS
	(SELECT key, value, headers FROM source EXCEPT ALL SELECT key, value, headers FROM streams.s)
	UNION ALL (SELECT key, value, headers FROM streams.s EXCEPT ALL SELECT key, value, headers FROM source);
SELECT count(*) FROM difference;
CREATE FUNCTION is_in_order(stream text) RETURNS TABLE (partitions bigint, out_of_order bigint, holes bigint) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT count(DISTINCT partition), count(*) FILTER (WHERE n <= before), count(*) FILTER (WHERE record_offset <> before_offset + 1)
		FROM (SELECT partition, (value ->> ''n'')::int AS n, record_offset, lag((value ->> ''n'')::int) OVER w AS before,
			lag(record_offset) OVER w AS before_offset FROM streams.%I WINDOW w AS (PARTITION BY partition ORDER BY record_offset)) o', stream);
END
$$;
SELECT * FROM is_in_order('s');
SELECT count(*) FROM streams.s WHERE key IS NOT NULL GROUP BY key HAVING count(DISTINCT "partition") > 1;
-- where publish would have put them
SELECT count(*) FROM (SELECT DISTINCT key, "partition" FROM streams.s WHERE key IS NOT NULL) s
	JOIN (SELECT DISTINCT key, stream.partition_of(stream.publish('s', key, '{"n": 10001}')) AS p FROM source WHERE n < 100 AND key IS NOT NULL) p USING (key)
	WHERE s."partition" <> p.p;
SELECT stream, records, records / batches > 40 AS full_batches FROM stream.segment_status;
SELECT * FROM stream.verify_log('s');
-- COPY of the same, in each format
SELECT stream.create_stream('copied', 7);
DO $$ BEGIN EXECUTE format('COPY (SELECT key, value, headers FROM source ORDER BY n) TO %L', current_setting('data_directory') || '/bulk.txt'); END $$;
DO $$ BEGIN EXECUTE format('COPY (SELECT key, value, headers FROM source ORDER BY n) TO %L WITH (FORMAT csv, HEADER)', current_setting('data_directory') || '/bulk.csv'); END $$;
DO $$ BEGIN EXECUTE format('COPY (SELECT key, value, headers FROM source ORDER BY n) TO %L WITH (FORMAT binary)', current_setting('data_directory') || '/bulk.bin'); END $$;
DO $$ BEGIN EXECUTE format('COPY streams.copied (key, value, headers) FROM %L', current_setting('data_directory') || '/bulk.txt'); END $$;
SELECT * FROM is_in_order('copied');
SELECT stream, records, records / batches > 40 AS full_batches FROM stream.segment_status ORDER BY 1;
DO $$ BEGIN EXECUTE format('COPY streams.copied (key, value, headers) FROM %L WITH (FORMAT csv, HEADER)', current_setting('data_directory') || '/bulk.csv'); END $$;
DO $$ BEGIN EXECUTE format('COPY streams.copied (key, value, headers) FROM %L WITH (FORMAT binary)', current_setting('data_directory') || '/bulk.bin'); END $$;
SELECT count(*) FROM (SELECT key, value, headers, count(*) FROM streams.copied GROUP BY 1, 2, 3
	EXCEPT ALL SELECT key, value, headers, 3 FROM source) d;
SELECT count(*) FROM streams.copied;
SELECT stream, records, records / batches > 40 AS full_batches FROM stream.segment_status ORDER BY 1;
SELECT * FROM stream.verify_log('copied');
-- COPY … WHERE, into named partitions
DO $$ BEGIN EXECUTE format('COPY streams.copied (key, value, headers) FROM %L WHERE key = ''key 7''', current_setting('data_directory') || '/bulk.txt'); END $$;
SELECT count(*) - 30000 AS more FROM streams.copied;
COPY streams.copied ("partition", key, value) FROM stdin WITH (FORMAT csv);
6,key 7,"{""n"": 7}"
0,key 7,7
,,"""no key"""
\.
SELECT "partition", value FROM streams.copied WHERE value IN ('7', '{"n": 7}') ORDER BY 1;
SELECT stream.drop_stream('copied');

-- An error in the middle: nothing of it.
SELECT count(*) AS before FROM streams.s \gset
INSERT INTO streams.s (key, value) SELECT key, CASE WHEN n < 5000 THEN value END FROM source; \echo :SQLSTATE
INSERT INTO streams.s ("partition", value) SELECT n / 1000, value FROM source ORDER BY n; \echo :SQLSTATE
INSERT INTO streams.s (value) SELECT to_jsonb(1 / (n - 6000)) FROM source ORDER BY n; \echo :SQLSTATE
COPY streams.s (key, value) FROM stdin;
k	1
k	no json
k	3
\.
COPY streams.s ("partition", key, value) FROM stdin;
0	k	1
7	k	2
\.
COPY streams.s (key, value) FROM stdin;
k	1
k	\N
\.
COPY streams.s (key, value, headers) FROM stdin;
k	1	[1]
\.
COPY streams.s (key, value) FROM stdin;
k	1	more
\.
COPY streams.s (published_at, value) FROM stdin;
2020-01-01	1
\.
COPY streams.s FROM stdin;
0	1000000	2020-01-01	k	1	\N
\.
SELECT count(*) - :before AS more FROM streams.s;
-- what came before it in the transaction stays, when a savepoint keeps it
BEGIN;
INSERT INTO streams.s (key, value) SELECT 'kept', to_jsonb(n) FROM source WHERE n <= 1500;
SAVEPOINT a;
INSERT INTO streams.s (key, value) SELECT 'lost', CASE WHEN n < 1400 THEN to_jsonb(n) END FROM source WHERE n <= 1500; \echo :SQLSTATE
ROLLBACK TO a;
COPY streams.s (key, value) FROM stdin;
kept	1501
\.
SAVEPOINT b;
COPY streams.s (key, value) FROM stdin;
lost	1
lost	no json
\.
ROLLBACK TO b;
SAVEPOINT c;
INSERT INTO streams.s (key, value) SELECT 'released', to_jsonb(n) FROM source WHERE n <= 10;
RELEASE c;
SELECT stream.offset_of(stream.publish('s', 'kept', '1502')) > 0 AS published;
COMMIT;
SELECT key, count(*), count(DISTINCT value), max(value::int) FROM streams.s WHERE key IN ('kept', 'lost', 'released') GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM (SELECT value, lag(value) OVER (ORDER BY record_offset) AS before FROM streams.s WHERE key = 'kept') o WHERE value <= before;
CREATE PROCEDURE with_blocks() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..5 LOOP
		BEGIN
			INSERT INTO streams.s (key, value) SELECT 'block', to_jsonb(g) FROM generate_series(1, 10) g;
			IF i % 2 = 0 THEN
				RAISE EXCEPTION 'no';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			INSERT INTO streams.s (key, value) VALUES ('handler', to_jsonb(i));
		END;
	END LOOP;
END
$$;
CALL with_blocks();
SELECT key, count(*) FROM streams.s WHERE key IN ('block', 'handler') GROUP BY 1 ORDER BY 1;
DROP PROCEDURE with_blocks;

-- RETURNING is where the records are.
CREATE TABLE returned ("partition" int, record_offset bigint, published_at timestamptz, key text, value jsonb, headers jsonb);
WITH i AS (INSERT INTO streams.s (key, value, headers) SELECT 'returned', to_jsonb(n), headers FROM source WHERE n <= 2500 RETURNING *)
INSERT INTO returned SELECT * FROM i;
SELECT count(*), count(DISTINCT ("partition", record_offset)) FROM returned;
SELECT count(*) FROM (TABLE returned EXCEPT ALL SELECT * FROM streams.s WHERE key = 'returned') d;
SELECT count(*) FROM (SELECT value::int AS n, lag(value::int) OVER (ORDER BY record_offset) AS before FROM returned) o WHERE n <= before;
INSERT INTO streams.s ("partition", key, value) VALUES (3, 'r', '1'), (3, 'r', '2')
	RETURNING tableoid::regclass, "partition", key || '!', value, published_at > now() - interval '1 hour' AS is_new;
INSERT INTO streams.s AS t ("partition", value) VALUES (5, '"row"') RETURNING (t).value, t IS NULL;
DROP TABLE returned;

-- Values: jsonb is wanted, text that is a literal or a parameter is parsed; others are cast by name.
CREATE TABLE kinds (t text, v varchar, j json, b jsonb, n int, d numeric, u text);
INSERT INTO kinds VALUES ('{"t": 1}', '[2]', '{"j":  3}', '{"b": 4}', 5, 6.50, 'no json');
INSERT INTO streams.s (key, value) VALUES ('kinds', '5'), ('kinds', '"five"'), ('kinds', 'null');
INSERT INTO streams.s (key, value) SELECT 'kinds', j FROM kinds;
INSERT INTO streams.s (key, value) SELECT 'kinds', b FROM kinds;
INSERT INTO streams.s (key, value) SELECT 'kinds', t::jsonb FROM kinds;
INSERT INTO streams.s (key, value) SELECT 'kinds', to_jsonb(d) FROM kinds;
INSERT INTO streams.s (key, value) SELECT 'kinds', to_jsonb(k) FROM kinds k;
INSERT INTO streams.s (key, value) SELECT 'kinds', '"literal of a SELECT"' FROM kinds;
SELECT value FROM streams.s WHERE key = 'kinds' ORDER BY value;
INSERT INTO streams.s (key, value) SELECT 'kinds', t FROM kinds; \echo :SQLSTATE
INSERT INTO streams.s (key, value) SELECT 'kinds', v FROM kinds; \echo :SQLSTATE
INSERT INTO streams.s (key, value) SELECT 'kinds', n FROM kinds; \echo :SQLSTATE
INSERT INTO streams.s (key, value) VALUES ('kinds', 5); \echo :SQLSTATE
INSERT INTO streams.s (key, value) SELECT 'kinds', u::jsonb FROM kinds; \echo :SQLSTATE
-- keys are text
INSERT INTO streams.s (key, value) SELECT n, b FROM kinds RETURNING key;
INSERT INTO streams.s (key, value) VALUES (12.50, '1') RETURNING key;
PREPARE p AS INSERT INTO streams.s (key, value) VALUES ($1, $2) RETURNING key, value;
EXECUTE p('prepared', '{"x": 1}');
EXECUTE p('prepared', '{"x": 2}'::json);
EXECUTE p(3, '3');
EXECUTE p('prepared', 3); \echo :SQLSTATE
DEALLOCATE p;
-- bytes
SELECT stream.create_stream('bytes', 1, 'bytea');
INSERT INTO streams.bytes (key, value) VALUES ('hex', '\x00ff'), ('escaped', 'a\\b'), ('empty', '');
INSERT INTO streams.bytes (key, value) SELECT t, convert_to(t, 'UTF8') FROM kinds;
COPY streams.bytes (key, value) FROM stdin;
copied	\\xdeadbeef
\.
SELECT key, value FROM streams.bytes;
INSERT INTO streams.bytes (key, value) SELECT 'json', b FROM kinds; \echo :SQLSTATE
SELECT stream.drop_stream('bytes');
-- large ones
INSERT INTO streams.s (key, value) SELECT 'large', to_jsonb(repeat(md5(g::text), 10000)) FROM generate_series(1, 40) g;
SELECT count(*), sum(length(value #>> '{}')), count(DISTINCT value) FROM streams.s WHERE key = 'large';
DROP TABLE kinds;

-- Defaults and constraints of the table.
SELECT stream.create_stream('d');
ALTER FOREIGN TABLE streams.d ALTER headers SET DEFAULT '{"d": 1}', ALTER key SET DEFAULT current_user || '!' , ALTER value SET DEFAULT '"nothing"';
INSERT INTO streams.d (value) VALUES ('1') RETURNING key = current_user || '!' AS key, headers;
INSERT INTO streams.d DEFAULT VALUES RETURNING value;
INSERT INTO streams.d (key, value, headers) VALUES ('k', DEFAULT, NULL) RETURNING value, headers;
COPY streams.d (key, value) FROM stdin;
copied	1
\.
SELECT key, value, headers FROM streams.d WHERE key = 'copied';
-- publish knows of none
SELECT stream.publish('d', NULL, '"published"') IS NOT NULL AS published;
SELECT key, headers FROM streams.d WHERE value = '"published"';
-- constraints, as on any foreign table, are promises that PostgreSQL does not check
ALTER FOREIGN TABLE streams.d ADD CONSTRAINT good CHECK (key <> 'bad'), ALTER key SET NOT NULL;
INSERT INTO streams.d (key, value) VALUES ('good', '1'), ('bad', '1');
INSERT INTO streams.d (key, value) VALUES (NULL, '1');
COPY streams.d (key, value) FROM stdin;
good	1
bad	1
\.
SELECT count(*) FROM streams.d WHERE key IN ('good', 'bad');
ALTER FOREIGN TABLE streams.d DROP CONSTRAINT good, ALTER key DROP NOT NULL, ALTER key DROP DEFAULT, ALTER value DROP DEFAULT, ALTER headers DROP DEFAULT;

-- Triggers: what they publish has its place among the rows.
CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM stream.publish('d', TG_WHEN || ' ' || TG_LEVEL, CASE WHEN TG_LEVEL = 'ROW' THEN NEW.value ELSE '0' END);
	RETURN NEW;
END
$$;
CREATE VIEW marked AS SELECT string_agg(key || ' ' || value, ', ' ORDER BY record_offset) AS records
	FROM streams.d WHERE record_offset > (SELECT max(record_offset) FROM streams.d WHERE key = 'start');
CREATE PROCEDURE start() LANGUAGE sql AS $$ INSERT INTO streams.d (key, value) VALUES ('start', '0') $$;
CREATE TRIGGER a BEFORE INSERT ON streams.d FOR EACH STATEMENT EXECUTE FUNCTION mark();
ALTER FOREIGN TABLE streams.d DISABLE TRIGGER a;
CALL start();
ALTER FOREIGN TABLE streams.d ENABLE TRIGGER a;
INSERT INTO streams.d (key, value) VALUES ('insert', '1'), ('insert', '2');
COPY streams.d (key, value) FROM stdin;
copy	1
copy	2
\.
TABLE marked;
DROP TRIGGER a ON streams.d;
CALL start();
CREATE TRIGGER b AFTER INSERT ON streams.d FOR EACH STATEMENT EXECUTE FUNCTION mark();
INSERT INTO streams.d (key, value) VALUES ('insert', '1'), ('insert', '2');
COPY streams.d (key, value) FROM stdin;
copy	1
copy	2
\.
TABLE marked;
DROP TRIGGER b ON streams.d;
CALL start();
CREATE TRIGGER c BEFORE INSERT ON streams.d FOR EACH ROW EXECUTE FUNCTION mark();
INSERT INTO streams.d (key, value) VALUES ('insert', '1'), ('insert', '2');
COPY streams.d (key, value) FROM stdin;
copy	1
copy	2
\.
TABLE marked;
DROP TRIGGER c ON streams.d;
CALL start();
CREATE TRIGGER d AFTER INSERT ON streams.d FOR EACH ROW WHEN (NEW.value <> '2') EXECUTE FUNCTION mark();
INSERT INTO streams.d (key, value) VALUES ('insert', '1'), ('insert', '2'), ('insert', '3');
COPY streams.d (key, value) FROM stdin;
copy	1
copy	2
copy	3
\.
TABLE marked;
DROP TRIGGER d ON streams.d;
DROP VIEW marked;
-- what a row's trigger returns is published; null: nothing
CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.value := jsonb_build_object('was', NEW.value);
	NEW."partition" := 0;
	RETURN CASE WHEN NEW.key <> 'dropped' THEN NEW END;
END
$$;
CREATE TRIGGER c BEFORE INSERT ON streams.d FOR EACH ROW EXECUTE FUNCTION change();
INSERT INTO streams.d (key, value) VALUES ('changed', '1'), ('dropped', '2') RETURNING key, value;
COPY streams.d (key, value) FROM stdin;
changed	3
dropped	4
\.
SELECT key, value FROM streams.d WHERE key IN ('changed', 'dropped');
DROP TRIGGER c ON streams.d;
-- and an error undoes all
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.value = '3' THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$;
CREATE TRIGGER d AFTER INSERT ON streams.d FOR EACH ROW EXECUTE FUNCTION refuse();
INSERT INTO streams.d (key, value) VALUES ('refused', '1'), ('refused', '3'); \echo :SQLSTATE
COPY streams.d (key, value) FROM stdin;
refused	1
refused	3
\.
SELECT count(*) FROM streams.d WHERE key = 'refused';
DROP TRIGGER d ON streams.d;
-- those that PostgreSQL refuses for foreign tables
SELECT failure(command) FROM unnest(ARRAY[
	'CREATE TRIGGER t INSTEAD OF INSERT ON streams.d FOR EACH ROW EXECUTE FUNCTION mark()',
	'CREATE CONSTRAINT TRIGGER t AFTER INSERT ON streams.d DEFERRABLE FOR EACH ROW EXECUTE FUNCTION mark()',
	'CREATE TRIGGER t AFTER INSERT ON streams.d REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION mark()']) command;
DROP FUNCTION mark, change, refuse;
DROP PROCEDURE start;

-- Through views, also with a condition on what may go in.
CREATE VIEW entry AS SELECT key, value, "partition" FROM streams.d WHERE key LIKE 'entry%' WITH CHECK OPTION;
INSERT INTO entry (key, value) VALUES ('entry 1', '1') RETURNING *;
INSERT INTO entry (key, value) SELECT 'entry ' || g, to_jsonb(g) FROM generate_series(2, 1200) g;
\set VERBOSITY terse
INSERT INTO entry (key, value) VALUES ('entry 3', '1'), ('other', '1'); \echo :SQLSTATE
INSERT INTO entry (key, value) SELECT CASE WHEN g < 1100 THEN 'entry x' ELSE 'other' END, '1' FROM generate_series(1, 1200) g; \echo :SQLSTATE
\set VERBOSITY default
SELECT failure('COPY entry (key, value) FROM ''/dev/null''');
SELECT count(*), count(DISTINCT key) FROM entry;
UPDATE entry SET value = '2'; \echo :SQLSTATE
DELETE FROM entry; \echo :SQLSTATE
DROP VIEW entry;
SELECT failure('CREATE RULE r AS ON INSERT TO streams.d DO ALSO SELECT 1');

-- A partition of a partitioned table.
CREATE TABLE parent ("partition" int, record_offset bigint, published_at timestamptz, key text, value jsonb, headers jsonb) PARTITION BY LIST (key);
CREATE TABLE local PARTITION OF parent FOR VALUES IN ('local');
ALTER TABLE parent ATTACH PARTITION streams.d FOR VALUES IN ('remote');
INSERT INTO parent (key, value) VALUES ('remote', '1'), ('local', '2'), ('remote', '3') RETURNING tableoid::regclass, key, value;
COPY parent (key, value) FROM stdin;
remote	4
local	5
\.
SELECT tableoid::regclass, key, value FROM parent WHERE key IN ('remote', 'local') ORDER BY value;
-- the partition's bounds are not checked either
INSERT INTO streams.d (key, value) VALUES ('neither', '1');
INSERT INTO parent (key, value) VALUES ('neither', '1'); \echo :SQLSTATE
UPDATE parent SET value = '7'; \echo :SQLSTATE
UPDATE parent SET key = 'remote' WHERE key = 'local' RETURNING tableoid::regclass, key, value;
SELECT count(*) FROM streams.d WHERE key = 'remote';
DELETE FROM parent; \echo :SQLSTATE
TRUNCATE parent; \echo :SQLSTATE
ALTER TABLE parent DETACH PARTITION streams.d;
DROP TABLE parent;

-- What a log does not do.
INSERT INTO streams.d (key, value) VALUES ('k', '1') ON CONFLICT DO NOTHING; \echo :SQLSTATE
INSERT INTO streams.d (key, value) VALUES ('k', '1') ON CONFLICT (key) DO UPDATE SET value = '2'; \echo :SQLSTATE
MERGE INTO streams.d USING source ON false WHEN NOT MATCHED THEN INSERT (key, value) VALUES (source.key, source.value); \echo :SQLSTATE
SELECT failure(command) FROM unnest(ARRAY[
	'INSERT INTO streams.d (key, value) VALUES (''k'', ''1'') ON CONFLICT DO NOTHING',
	'UPDATE streams.d SET value = ''1''',
	'EXPLAIN UPDATE streams.d SET value = ''1'' WHERE false',
	'DELETE FROM streams.d',
	'DELETE FROM streams.d USING source WHERE streams.d.key = source.key',
	'WITH d AS (DELETE FROM streams.d RETURNING *) SELECT * FROM d',
	'TRUNCATE streams.d',
	'TRUNCATE source, streams.d',
	'UPDATE streams.s SET key = DEFAULT WHERE CURRENT OF c']) command;
SELECT count(*) > 0 AS still_there FROM source;
-- no change
SELECT failure('EXPLAIN (COSTS OFF) INSERT INTO streams.d (key, value) VALUES (''k'', ''1'')');
SELECT count(*) FROM streams.d WHERE key = 'k';
BEGIN TRANSACTION READ ONLY;
SELECT failure('COPY streams.d (key, value) FROM ''/dev/null''');
ROLLBACK;

-- Rows with the offset of a record, as in a dump of the table, are passed over, also in bulk.
SELECT count(*) AS before FROM streams.s \gset
INSERT INTO streams.s SELECT * FROM streams.s; \echo :ROW_COUNT
WITH i AS (INSERT INTO streams.s SELECT * FROM streams.s WHERE record_offset < 10 RETURNING *) SELECT count(*) FROM i;
DO $$ BEGIN EXECUTE format('COPY (SELECT * FROM streams.s) TO %L', current_setting('data_directory') || '/bulk.txt'); END $$;
DO $$ BEGIN EXECUTE format('COPY streams.s FROM %L', current_setting('data_directory') || '/bulk.txt'); END $$;
SELECT count(*) - :before AS more FROM streams.s;
-- new ones among them are published
INSERT INTO streams.s (record_offset, "partition", key, value) SELECT CASE WHEN g % 2 = 0 THEN g END, 0, 'among', to_jsonb(g) FROM generate_series(1, 20) g; \echo :ROW_COUNT
SELECT array_agg(value ORDER BY record_offset) FROM streams.s WHERE key = 'among';
DO $$ BEGIN EXECUTE format('COPY (SELECT 1) TO %L', current_setting('data_directory') || '/bulk.txt'); END $$;

DROP VIEW difference;
DROP FUNCTION is_in_order;
DROP TABLE source;
SELECT * FROM stream.verify_log('s');
SELECT * FROM stream.verify_log('d');
SELECT stream.drop_stream('s'), stream.drop_stream('d');
SELECT * FROM left_over();
