-- Projections: what is created from which arguments, and what is refused.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 3);
SELECT stream.create_stream('bytes', value_type => 'bytea');
CREATE TABLE inbox (conversation text, member text, last_seq bigint, messages bigint, PRIMARY KEY (conversation, member));
SELECT stream.create_projection('inbox', 's', 'inbox',
	query => $$ SELECT value->>'conversation' AS conversation, value->>'member' AS member,
		max((value->>'seq')::bigint) AS last_seq, count(*) AS messages
		FROM batch GROUP BY 1, 2; -- all of them$$,
	merge => '{"last_seq": "max", "messages": "sum"}');
SELECT stream.create_projection('copy', 's', statement => 'INSERT INTO inbox (conversation, member) SELECT key, key FROM batch; -- each');
\x
SELECT projection, stream, target, key, query, merge, statement, apply_sql, replay_safe, on_error, workers, batch_records, paused,
	owner = current_user AS owner, search_path, created_at BETWEEN now() - interval '1 hour' AND clock_timestamp() AS is_new
FROM stream.projection_definition ORDER BY projection DESC;
\x
-- nothing but a name, and every option
SELECT stream.create_projection('Every "option"', 's', 'inbox', query => 'SELECT key AS conversation, key AS member FROM batch',
	merge => '{}', start => 'latest', on_error => 'dead_letter', workers => 3, batch_records => 500);
\x
SELECT * FROM stream.projection_definition WHERE projection LIKE 'Every%' \gset e_
\echo :e_key :e_merge :e_replay_safe :e_on_error :e_workers :e_batch_records
\echo :e_apply_sql
\x

-- Where to start.  Not for the workers to see.
SELECT stream.create_stream('starts', 3);
SELECT count(stream.publish('starts', 'k', to_jsonb(g), "partition" => g % 3)) FROM generate_series(0, 29) g;
BEGIN;
SELECT count(stream.create_projection('from ' || s, 'starts', statement => 'SELECT 1 FROM batch', start => s))
FROM unnest('{earliest,latest,offset 7,offset 100,duration 1 hour,datetime 2999-01-01}'::text[]) s;
SELECT p.projection, string_agg(o.committed_offset::text, ' ' ORDER BY o."partition") AS offsets
FROM stream_internal.projections p LEFT JOIN stream_internal.offsets o ON group_id = projection_id WHERE p.projection LIKE 'from %' GROUP BY 1 ORDER BY 1;
ROLLBACK;
SELECT stream.drop_stream('starts');
-- a number is a group's or a projection's
SELECT stream.create_consumer_group('s', 'g');
SELECT count(*), count(DISTINCT n)
FROM (SELECT group_id AS n FROM stream_internal.consumer_groups UNION ALL SELECT projection_id FROM stream_internal.projections) u;

-- Refused: the arguments.
CREATE TABLE attempts (n serial, command text);
INSERT INTO attempts (command) VALUES
	($$SELECT stream.create_projection(NULL, 's', statement => 'SELECT 1 FROM batch')$$),
	($$SELECT stream.create_projection('', 's', statement => 'SELECT 1 FROM batch')$$),
	($$SELECT stream.create_projection(repeat('x', 64), 's', statement => 'SELECT 1 FROM batch')$$),
	($$SELECT stream.create_projection('inbox', 's', statement => 'SELECT 1 FROM batch')$$),
	($$SELECT stream.create_projection('p', NULL, statement => 'SELECT 1 FROM batch')$$),
	($$SELECT stream.create_projection('p', 'nowhere', statement => 'SELECT 1 FROM batch')$$),
	($$SELECT stream.create_projection('p', 's')$$),
	($$SELECT stream.create_projection('p', 's', 'inbox')$$),
	($$SELECT stream.create_projection('p', 's', 'inbox', 'SELECT 1')$$),
	($$SELECT stream.create_projection('p', 's', 'inbox', 'SELECT 1', '{}', 'SELECT 1')$$),
	($$SELECT stream.create_projection('p', 's', merge => '{}', statement => 'SELECT 1')$$),
	($$SELECT stream.create_projection('p', 's', NULL, 'SELECT 1', '{}')$$),
	($$SELECT stream.create_projection('p', 's', statement => 'SELECT 1 FROM batch', start => 'current')$$),
	($$SELECT stream.create_projection('p', 's', statement => 'SELECT 1 FROM batch', start => 'shift 1')$$),
	($$SELECT stream.create_projection('p', 's', statement => 'SELECT 1 FROM batch', start => 'yesterday')$$),
	($$SELECT stream.create_projection('p', 's', statement => 'SELECT 1 FROM batch', start => NULL)$$),
	($$SELECT stream.create_projection('p', 's', statement => 'SELECT 1 FROM batch', on_error => 'skip')$$),
	($$SELECT stream.create_projection('p', 's', statement => 'SELECT 1 FROM batch', on_error => NULL)$$),
	($$SELECT stream.create_projection('p', 's', statement => 'SELECT 1 FROM batch', workers => 0)$$),
	($$SELECT stream.create_projection('p', 's', statement => 'SELECT 1 FROM batch', workers => 1025)$$),
	($$SELECT stream.create_projection('p', 's', statement => 'SELECT 1 FROM batch', workers => NULL)$$),
	($$SELECT stream.create_projection('p', 's', statement => 'SELECT 1 FROM batch', batch_records => -1)$$),
	($$SELECT stream.create_projection('p', 's', statement => 'SELECT 1 FROM batch', batch_records => 1000001)$$);
SELECT n, command, failure(command) FROM attempts ORDER BY n;

-- Refused: the statement.
TRUNCATE attempts RESTART IDENTITY;
INSERT INTO attempts (command)
SELECT format($$SELECT stream.create_projection('p', 's', statement => %L)$$, s) FROM unnest(ARRAY[
	'', 'nonsense', 'SELECT 1; SELECT 2', 'SELECT $1 FROM batch', 'SELECT nothing FROM batch', 'SELECT * FROM batches',
	'SELECT * INTO x FROM batch', 'CREATE TABLE x ()', 'EXPLAIN SELECT 1', 'ANALYZE SELECT 1', '(ANALYZE) SELECT 1', 'COMMIT',
	'DELETE FROM batch', 'INSERT INTO inbox SELECT key FROM batch WHERE value > 1']) s;
SELECT n, command, failure(command) FROM attempts ORDER BY n;
-- the position is one in the statement
SELECT stream.create_projection('p', 's', statement => 'SELECT nothing FROM batch');
SELECT stream.create_projection('p', 's', 'inbox', 'SELECT key AS conversation, nothing AS member FROM batch', '{}');

-- Refused: the query.
TRUNCATE attempts RESTART IDENTITY;
INSERT INTO attempts (command)
SELECT format($$SELECT stream.create_projection('p', 's', 'inbox', %L, '{"last_seq": "max"}')$$, s) FROM unnest(ARRAY[
	'', 'INSERT INTO inbox SELECT key FROM batch RETURNING *', 'SELECT 1) q; DROP TABLE inbox; --', 'SELECT 1; SELECT 2', 'VALUES (1)',
	'WITH x AS (DELETE FROM inbox RETURNING *) SELECT conversation, member, last_seq FROM x, batch',
	'SELECT conversation, member, last_seq FROM inbox', 'SELECT key AS conversation, key AS member FROM batch',
	'SELECT key AS conversation, key AS member, record_offset FROM batch', 'SELECT key, key AS member, record_offset AS last_seq FROM batch',
	'SELECT key AS conversation, key AS conversation, record_offset AS last_seq FROM batch',
	'SELECT record_offset AS last_seq FROM batch', 'SELECT key AS conversation, record_offset AS last_seq FROM batch',
	'SELECT key AS conversation, key AS member, messages, record_offset AS last_seq FROM batch, inbox',
	'SELECT key AS conversation, key AS member, value AS last_seq FROM batch', 'SELECT key AS conversation, key AS member, key AS last_seq FROM batch',
	'SELECT value AS conversation, key AS member, record_offset AS last_seq, ctid FROM batch, inbox',
	'SELECT FROM batch']) s;
SELECT n, command, failure(command) FROM attempts ORDER BY n;
-- an assignment cast is enough
SELECT stream.create_projection('cast', 's', 'inbox',
	'SELECT key::varchar AS conversation, value AS member, record_offset::numeric AS last_seq FROM batch', '{"last_seq": "max"}');
SELECT stream.drop_projection('cast');

-- Refused: the merge.
CREATE TABLE t (id int PRIMARY KEY, i int, n numeric, t text, b boolean, j json, jb jsonb, p point, r int4range, m int4multirange, ia int[], ja json[],
	bits bit(4), d date, iv interval, x xml, u uuid, by_ts timestamptz);
CREATE TABLE merges (n serial, "column" text, expression text, merge text);
INSERT INTO merges ("column", expression, merge) VALUES
	('i', 'record_offset::int', '"maximum"'), ('i', 'record_offset::int', '""'), ('i', 'record_offset::int', '"MAX"'), ('i', 'record_offset::int', '1'),
	('i', 'record_offset::int', 'null'), ('i', 'record_offset::int', '["max"]'), ('i', 'record_offset::int', '"latest"'), ('i', 'record_offset::int', '"latest by "'),
	('i', 'record_offset::int', '"latest by nothing"'), ('i', 'record_offset::int', '"latest by id"'), ('i', 'record_offset::int', '"latest by i"'),
	('i', 'record_offset::int', '"earliest by id"'),
	('j', '''{}''::json', '"max"'), ('j', '''{}''::json', '"min"'), ('p', 'point(0, 0)', '"max"'), ('x', 'null::xml', '"min"'), ('ja', 'ARRAY[''{}''::json]', '"max"'),
	('i', 'record_offset::int', '"and"'), ('t', 'key', '"or"'), ('t', 'key', '"bit_and"'), ('n', 'record_offset', '"bit_or"'), ('iv', 'interval ''1 s''', '"bit_or"'),
	('i', 'record_offset::int', '"union"'), ('r', 'int4range(1, 2)', '"union"'), ('ja', 'ARRAY[''{}''::json]', '"union"'), ('m', 'int8range(1, 2)', '"union"'),
	('ia', 'ARRAY[key]', '"union"'), ('ia', 'key', '"union"'), ('m', 'ARRAY[1]', '"union"'),
	('t', 'key', '"sum"'), ('d', 'current_date', '"sum"'), ('jb', 'value', '"sum"'), ('b', 'true', '"sum"'), ('ia', 'ARRAY[1]', '"sum"'), ('p', 'point(0, 0)', '"sum"'),
	('t', 'key', '"count"'), ('b', 'true', '"count"'), ('j', 'key', '"count"'), ('i', 'value', '"max"'), ('d', 'record_offset', '"max"');
SELECT "column" AS c, merge, failure(format($$SELECT stream.create_projection('p', 's', 't', %L, %L)$$,
	format('SELECT record_offset::int AS id, %s AS %I FROM batch', expression, "column"), format('{"%s": %s}', "column", merge)))
FROM merges ORDER BY n;
TRUNCATE attempts RESTART IDENTITY;
INSERT INTO attempts (command)
SELECT format($$SELECT stream.create_projection('p', 's', 't', 'SELECT record_offset::int AS id, record_offset::int AS i, value AS jb, published_at AS by_ts FROM batch', %L)$$, m)
FROM unnest(ARRAY['"max"', '["max"]', 'null', '{"i": "max", "jb": "max"}', '{"i": "max", "jb": "max", "by_ts": "max", "other": "max"}',
	'{"i": "max", "jb": "latest by by_ts", "by_ts": "min"}', '{"i": "max", "jb": "earliest by by_ts", "by_ts": "max"}',
	'{"i": "latest by jb", "jb": "latest by by_ts", "by_ts": "max"}', '{"id": "max", "i": "max", "jb": "max", "by_ts": "max"}']) m;
INSERT INTO attempts (command) VALUES
	($$SELECT stream.create_projection('p', 's', 't', 'SELECT record_offset::int AS id, count(*) AS i FROM batch GROUP BY 1', '{"i": "count"}')$$),
	($$SELECT stream.create_projection('p', 's', 't', 'SELECT record_offset::int AS id, max(key) AS i FROM batch GROUP BY 1', '{"i": "count"}')$$),
	($$SELECT stream.create_projection('p', 's', 't', 'SELECT record_offset::int AS id, count(*) AS i FROM batch GROUP BY 1', '{"i": "max"}')$$),
	($$SELECT stream.create_projection('p', 's', 't', 'SELECT record_offset::int AS id, sum(value::int)::int::numeric AS n FROM batch GROUP BY 1', '{"n": "max"}')$$),
	($$SELECT stream.create_projection('p', 's', 't', 'SELECT record_offset::int AS id, count(*)::text AS t, max(published_at) AS by_ts FROM batch GROUP BY 1', '{"t": "latest by by_ts", "by_ts": "max"}')$$),
	($$SELECT stream.create_projection('p', 's', 't', 'SELECT record_offset::int AS id, avg(value::int)::numeric AS n FROM batch GROUP BY 1', '{"n": "sum"}')$$),
	($$SELECT stream.create_projection('p', 's', 't', 'SELECT record_offset::int AS id, value::json AS j, published_at AS by_ts FROM batch', '{"j": "latest by by_ts", "by_ts": "max"}')$$);
SELECT n, command, failure(command) FROM attempts ORDER BY n;

-- Refused: the target.
CREATE TABLE plain (id int, v int);
CREATE TABLE nullable (id int UNIQUE, v int);
CREATE TABLE nulls_equal (id int UNIQUE NULLS NOT DISTINCT, v int);
CREATE TABLE partial (id int NOT NULL, v int);
CREATE UNIQUE INDEX ON partial (id) WHERE v > 0;
CREATE TABLE expression (id int NOT NULL, v int);
CREATE UNIQUE INDEX ON expression (abs(id));
CREATE TABLE deferred (id int PRIMARY KEY DEFERRABLE, v int);
CREATE TABLE wider (id int, v int, w int DEFAULT 0, PRIMARY KEY (id, w));
CREATE TABLE including (id int NOT NULL, v int);
CREATE UNIQUE INDEX ON including (id) INCLUDE (v);
CREATE TABLE exclusion (id int NOT NULL, v int, EXCLUDE USING btree (id WITH =));
CREATE TABLE generated (id int PRIMARY KEY, v int GENERATED ALWAYS AS (id + 1) STORED);
CREATE TABLE identity_key (id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, v int);
CREATE TABLE identity_default (id int PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, v int);
CREATE TABLE more_columns (id int PRIMARY KEY, v int, needed int NOT NULL);
CREATE TABLE filled_columns (id int PRIMARY KEY, v int, filled int NOT NULL DEFAULT 0, counted int GENERATED ALWAYS AS IDENTITY, twice int NOT NULL GENERATED ALWAYS AS (id * 2) STORED);
CREATE TEMP TABLE temporary (id int PRIMARY KEY, v int);
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY, v int);
CREATE VIEW view AS SELECT * FROM wider;
CREATE MATERIALIZED VIEW matview AS SELECT * FROM plain;
CREATE SEQUENCE sequence;
CREATE TABLE ruled (id int PRIMARY KEY, v int);
CREATE RULE r AS ON INSERT TO ruled DO ALSO DELETE FROM plain;
CREATE TABLE partitioned (id int PRIMARY KEY, v int) PARTITION BY HASH (id);
CREATE TABLE "Some, ""table""" ("The ""key""" int PRIMARY KEY, v int);
CREATE SCHEMA elsewhere;
CREATE TABLE elsewhere.plain (id int PRIMARY KEY, v int);
SELECT target, failure(format($$SELECT stream.create_projection('p ' || %L, 's', %L, 'SELECT record_offset::int AS id, 1 AS v FROM batch', '{"v": "max"}')$$, target, target))
FROM unnest('{plain,nullable,nulls_equal,partial,expression,deferred,wider,including,exclusion,generated,identity_key,identity_default,more_columns,filled_columns,
	temporary,unlogged,view,matview,sequence,ruled,partitioned,elsewhere.plain,streams.s,pg_class,stream_internal.offsets,plain_pkey,nowhere,12345678}'::text[]) target;
SELECT failure($$SELECT stream.create_projection('p "', 's', '"Some, ""table"""', 'SELECT record_offset::int AS "The ""key""", 1 AS v FROM batch', '{"v": "max"}')$$);
SELECT apply_sql FROM stream.projection_definition WHERE projection = 'p "';
-- a statement needs no key
SELECT stream.create_projection('keyless', 's', 'plain', statement => 'INSERT INTO plain SELECT record_offset, 1 FROM batch');
SELECT projection, target, key FROM stream.projection_definition WHERE target IS NOT NULL ORDER BY 1;

-- The value's type is the stream's.
SELECT failure($$SELECT stream.create_projection('b', 'bytes', 't', 'SELECT record_offset::int AS id, value AS jb FROM batch', '{"jb": "max"}')$$);
SELECT stream.create_projection('b', 'bytes', 't', 'SELECT record_offset::int AS id, encode(value, ''escape'') AS t FROM batch', '{"t": "max"}');

-- What is safe to repeat, as far as it can be told.
CREATE TABLE safety (n serial, query text, merge text);
INSERT INTO safety (query, merge) VALUES
	('SELECT record_offset::int AS id, 1 AS i FROM batch', 'max'), ('SELECT record_offset::int AS id, 1 AS i FROM batch', 'sum'), ('SELECT record_offset::int AS id, 1 AS i FROM batch', 'count'),
	('SELECT record_offset::int AS id, max(1) AS i FROM batch GROUP BY 1', 'max'), ('SELECT record_offset::int AS id, length(string_agg(key, '''')) AS i FROM batch GROUP BY 1', 'max'),
	('SELECT record_offset::int AS id, count(*) AS i FROM batch GROUP BY 1', 'sum'),
	('SELECT record_offset::int AS id, (random() * 10)::int AS i FROM batch', 'max'), ('SELECT record_offset::int AS id, 1 AS i FROM batch LIMIT 1', 'max'),
	('SELECT record_offset::int AS id, row_number() OVER ()::int AS i FROM batch', 'max'), ('SELECT max(record_offset::int) AS id, 1 AS i FROM batch HAVING count(*) > 1', 'max'),
	('SELECT record_offset::int AS id, 1 AS i FROM batch UNION SELECT 1, 2', 'max'), ('SELECT record_offset::int AS id, 1 AS i FROM batch EXCEPT SELECT 1, 2', 'max'),
	('SELECT DISTINCT record_offset::int AS id, 1 AS i FROM batch', 'max'), ('SELECT DISTINCT ON (key) record_offset::int AS id, 1 AS i FROM batch', 'max'),
	('WITH w AS (SELECT record_offset::int AS id, sum(1)::int AS i FROM batch GROUP BY 1) TABLE w', 'max'),
	-- aggregates that do, and do not, go on as the merge does
	('SELECT record_offset::int AS id, max(length(key)) FILTER (WHERE key > ''k'') AS i FROM batch GROUP BY 1', 'max'), ('SELECT record_offset::int AS id, max(length(key)) AS i FROM batch GROUP BY 1', 'min'),
	('SELECT record_offset::int AS id, -max(length(key)) AS i FROM batch GROUP BY 1', 'max'), ('SELECT record_offset::int AS id, max(key)::int AS i FROM batch GROUP BY 1', 'max'),
	('SELECT max(record_offset)::int AS id, length(key) AS i FROM batch GROUP BY 2', 'max'), ('SELECT record_offset::int AS id, max(length(key)::bigint) AS i FROM batch GROUP BY 1', 'max'),
	('SELECT id, max(i) AS i FROM (SELECT record_offset::int AS id, length(key) AS i FROM batch) r GROUP BY 1', 'max'),
	-- records that see each other
	('SELECT a.record_offset::int AS id, 1 AS i FROM batch a JOIN batch b USING (record_offset)', 'max'), ('SELECT record_offset::int AS id, (SELECT max(length(key)) FROM batch) AS i FROM batch', 'max'),
	('SELECT n AS id, length(key) AS i FROM generate_series(1, 3) n LEFT JOIN batch ON record_offset = n', 'max'), ('SELECT record_offset::int AS id, n AS i FROM batch LEFT JOIN generate_series(1, 3) n ON record_offset = n', 'max'),
	('WITH w AS (SELECT record_offset::int AS id FROM batch) SELECT a.id, 1 AS i FROM w a JOIN w b USING (id)', 'max'), ('WITH w AS (SELECT record_offset::int AS id FROM batch) SELECT id, 1 AS i FROM w', 'max'),
	('SELECT record_offset::int AS id, (SELECT max(x) FROM generate_series(1, length(key)) x) AS i FROM batch', 'max'),
	-- another time, or other tables
	('SELECT record_offset::int AS id, extract(year FROM now())::int AS i FROM batch', 'max'), ('SELECT record_offset::int AS id, extract(year FROM current_date)::int AS i FROM batch', 'max'),
	('SELECT record_offset::int AS id, extract(year FROM (value->>''at'')::timestamptz)::int AS i FROM batch', 'max'),
	('SELECT record_offset::int AS id, plain.v AS i FROM batch JOIN plain ON plain.id = record_offset', 'max'), ('SELECT record_offset::int AS id, 1 AS i FROM batch WHERE EXISTS (SELECT FROM plain)', 'max'),
	('SELECT record_offset::int AS id, look_up() AS i FROM batch', 'max');
-- the deciding column must be the aggregate of the same, and ties break as the merge breaks them
CREATE TABLE firsts (n serial, query text, merge jsonb);
INSERT INTO firsts (query, merge) VALUES
	('SELECT record_offset::int AS id, max(length(key)) AS i, stream.latest(key, length(key)) AS t FROM batch GROUP BY 1', '{"i": "max", "t": "latest by i"}'),
	('SELECT record_offset::int AS id, min(length(key)) AS i, stream.earliest(key, length(key)) AS t FROM batch GROUP BY 1', '{"i": "min", "t": "earliest by i"}'),
	('SELECT record_offset::int AS id, max(length(key)) AS i, stream.earliest(key, length(key)) AS t FROM batch GROUP BY 1', '{"i": "max", "t": "latest by i"}'),
	('SELECT record_offset::int AS id, max(length(key)) AS i, stream.latest(key, -length(key)) AS t FROM batch GROUP BY 1', '{"i": "max", "t": "latest by i"}'),
	('SELECT record_offset::int AS id, max(length(key)) AS i, stream.latest(key, length(key)) FILTER (WHERE key > '''') AS t FROM batch GROUP BY 1', '{"i": "max", "t": "latest by i"}'),
	('SELECT record_offset::int AS id, max(length(key)) AS i, stream.latest(key, length(key)) AS t, stream.latest(value, length(key)) AS jb FROM batch GROUP BY 1', '{"i": "max", "t": "latest by i", "jb": "latest by i"}');
CREATE FUNCTION look_up() RETURNS int LANGUAGE sql STABLE AS 'SELECT v FROM plain LIMIT 1';
SELECT count(stream.create_projection('safe ' || n, 's', 't', query, jsonb_build_object('i', merge))) FROM safety;
SELECT query, safety.merge, replay_safe FROM safety JOIN stream.projection_definition d USING (query) WHERE d.merge ->> 'i' = safety.merge ORDER BY n;
SELECT count(stream.create_projection('first ' || n, 's', 't', query, merge)) FROM firsts;
SELECT query, replay_safe FROM firsts JOIN stream.projection_definition d USING (query) ORDER BY n;
-- What workers do not see.
CREATE TEMPORARY TABLE mine (id int);
SELECT failure($$SELECT stream.create_projection('mine', 's', 't', 'SELECT mine.id, 1 AS i FROM batch JOIN mine ON mine.id = record_offset', '{"i": "max"}')$$);
SELECT failure($$SELECT stream.create_projection('mine', 's', statement => 'INSERT INTO mine SELECT record_offset FROM batch')$$);
DROP TABLE mine;

-- The search path is the one at creation.
CREATE FUNCTION elsewhere.seven() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 7';
BEGIN;
SET LOCAL search_path = elsewhere, nowhere, pg_temp, "$user", pg_catalog;
SELECT stream.create_projection('path', 's', 'plain', 'SELECT record_offset::int AS id, seven() AS v FROM batch', '{"v": "max"}');
SET LOCAL search_path = '';
SELECT stream.create_projection('no path', 's', 'elsewhere.plain', 'SELECT record_offset::int AS id, elsewhere.seven() AS v FROM batch', '{"v": "max"}');
COMMIT;
SELECT projection, target, search_path FROM stream.projection_definition WHERE projection IN ('path', 'no path') ORDER BY 1;
SHOW search_path;

-- A stream goes with its projections, and says so.
DROP FOREIGN TABLE streams.bytes;
SELECT stream.drop_projection(projection) FROM stream.projection_definition WHERE projection NOT IN ('inbox', 'copy') ORDER BY projection \g /dev/null
SELECT stream.drop_stream('s');
SELECT count(*) FROM stream.projection_definition;
SELECT count(*) FROM stream_internal.offsets;
SET client_min_messages = warning;
DROP SCHEMA elsewhere CASCADE;
DROP TABLE inbox, t, plain, nullable, nulls_equal, partial, expression, deferred, wider, including, exclusion, generated, identity_key, identity_default, more_columns,
	filled_columns, temporary, unlogged, ruled, partitioned, "Some, ""table""", attempts, merges, safety, firsts CASCADE;
DROP FUNCTION look_up;
DROP SEQUENCE sequence;
