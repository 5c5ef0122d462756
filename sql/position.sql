-- The type stream.record_position.

-- Text form.
SELECT '0:0'::stream.record_position, '3:1042'::stream.record_position,
	'2147483647:9223372036854775807'::stream.record_position, '007:0042'::stream.record_position;
SELECT text, failure(format('SELECT %L::stream.record_position', text)) FROM unnest(ARRAY[
	'', ':', '1', '1:', ':1', '1:2:3', '-1:0', '0:-1', '+1:0', ' 1:0', '1:0 ', '1 :0', '1: 0', 'a:0', '1:b',
	'1.0:1', '1:0x1', '(1,2)', '2147483648:0', '0:9223372036854775808', '99999999999999999999:0'
]) text;
SELECT NULL::stream.record_position IS NULL AS is_null;
SELECT '3:1042'::stream.record_position::text || '', format('%s', '3:1042'::stream.record_position);
SELECT text::stream.record_position FROM (VALUES ('1:2'::text)) v (text);

-- Made and taken apart.
SELECT stream.record_position(3, 1042), stream.partition_of('3:1042'), stream.offset_of('3:1042');
SELECT stream.record_position(p, o), failure(format('SELECT stream.record_position(%L, %L)', p, o))
FROM (VALUES (0, 0::bigint), (2147483647, 9223372036854775807)) v (p, o);
SELECT failure('SELECT stream.record_position(-1, 0)');
SELECT failure('SELECT stream.record_position(0, -1)');
SELECT stream.record_position(NULL, 0) IS NULL, stream.record_position(0, NULL) IS NULL,
	stream.partition_of(NULL) IS NULL, stream.offset_of(NULL) IS NULL;
-- an array's element, a domain's base, in JSON
SELECT '{1:2,3:4}'::stream.record_position[], ('{1:2,3:4}'::stream.record_position[])[2];
CREATE DOMAIN first_partition AS stream.record_position CHECK (stream.partition_of(VALUE) = 0);
SELECT '0:1'::first_partition;
SELECT '1:1'::first_partition; \echo :SQLSTATE
DROP DOMAIN first_partition;
SELECT to_jsonb('3:1042'::stream.record_position), to_json(ARRAY['3:1042'::stream.record_position]);

-- Comparison: by partition, then by offset, as numbers.
SET search_path = public, stream;
SELECT stream.record_position(stream.partition_of(p), stream.offset_of(p)) = p AS same
FROM (VALUES ('5:6'::stream.record_position)) v (p);
WITH v (a, b) AS (VALUES
	('1:1'::record_position, '1:1'::record_position), ('1:1', '1:2'), ('1:2', '1:1'), ('1:9', '2:0'), ('2:0', '1:9'),
	('9:1', '10:1'), ('1:9', '1:10'), ('0:9223372036854775807', '1:0'), ('0:4294967296', '0:1'))
SELECT a, b, a = b AS eq, a <> b AS ne, a < b AS lt, a <= b AS le, a > b AS gt, a >= b AS ge FROM v;
SELECT '1:1'::record_position IN ('1:2', '1:1') AS found, '1:1' = ANY ('{1:2,1:3}'::record_position[]) AS found_in_array,
	ROW('1:1'::record_position, 1) < ROW('1:1'::record_position, 2) AS row_less, '1:1'::record_position IS DISTINCT FROM '1:1' AS is_distinct;
SELECT min(text::record_position::text), array_agg(text ORDER BY text::record_position) FROM unnest(ARRAY['10:1', '9:10', '9:9']) text;
CREATE TABLE positions AS
SELECT record_position(g % 5, (g * 7 % 200)::bigint) AS position, g FROM generate_series(1, 1000) g;
SELECT position, g FROM positions ORDER BY position, g LIMIT 5;
SELECT position, g FROM positions ORDER BY position DESC, g LIMIT 3;
SELECT count(*) FROM (
	SELECT position, lag(position) OVER (ORDER BY position) AS previous FROM positions
) o WHERE (stream.partition_of(position), stream.offset_of(position)) < (stream.partition_of(previous), stream.offset_of(previous));
SELECT count(DISTINCT position), count(*) FROM positions;
SELECT count(*) FROM (SELECT DISTINCT position FROM positions) d;
SELECT count(*), max(n) FROM (SELECT position, count(*) AS n FROM positions GROUP BY position) d;

-- Joins of every kind give the same.
SET enable_hashjoin = off; SET enable_mergejoin = off;
SELECT count(*), sum(a.g + b.g) FROM positions a JOIN positions b USING (position);
RESET enable_mergejoin; SET enable_nestloop = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM positions a JOIN positions b USING (position);
SELECT count(*), sum(a.g + b.g) FROM positions a JOIN positions b USING (position);
RESET enable_hashjoin; SET enable_mergejoin = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM positions a JOIN positions b USING (position);
SELECT count(*), sum(a.g + b.g) FROM positions a JOIN positions b USING (position);
RESET enable_mergejoin; RESET enable_nestloop;

-- Hash values: equal for equal ones, and spread.
SELECT stream_internal.record_position_hash('1:2') = stream_internal.record_position_hash('01:002') AS same,
	stream_internal.record_position_hash('1:2') = stream_internal.record_position_hash('2:1') AS same_swapped,
	stream_internal.record_position_hash_extended('1:2', 0)::bit(32) = stream_internal.record_position_hash('1:2')::bit(32) AS extended_is_compatible,
	stream_internal.record_position_hash_extended('1:2', 1) = stream_internal.record_position_hash_extended('1:2', 2) AS ignores_seed;
SELECT count(DISTINCT stream_internal.record_position_hash(position)) = count(DISTINCT position) AS spread FROM positions;
CREATE TABLE by_hash (position stream.record_position) PARTITION BY HASH (position);
CREATE TABLE by_hash_0 PARTITION OF by_hash FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE by_hash_1 PARTITION OF by_hash FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO by_hash SELECT DISTINCT position FROM positions;
SELECT (SELECT count(*) FROM by_hash_0) > 50 AND (SELECT count(*) FROM by_hash_1) > 50 AS both_used;
DROP TABLE by_hash;

-- Indexes.
CREATE INDEX positions_btree ON positions (position);
CREATE INDEX positions_hash ON positions USING hash (position);
ANALYZE positions;
SET enable_seqscan = off; SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM positions WHERE position BETWEEN '1:100' AND '1:200';
SELECT count(*) FROM positions WHERE position BETWEEN '1:100' AND '1:200';
SELECT count(*) FROM positions WHERE stream.partition_of(position) = 1 AND stream.offset_of(position) BETWEEN 100 AND 200;
DROP INDEX positions_btree;
EXPLAIN (COSTS OFF) SELECT count(*) FROM positions WHERE position = '1:1';
SELECT count(*) FROM positions WHERE position = '1:7';
SELECT count(*) FROM positions WHERE stream.partition_of(position) = 1 AND stream.offset_of(position) = 7;
RESET enable_seqscan; RESET enable_bitmapscan;
\set VERBOSITY terse
CREATE UNIQUE INDEX positions_unique ON positions (position); \echo :SQLSTATE
\set VERBOSITY default
DROP TABLE positions;
CREATE TABLE checkpoints (consumer text PRIMARY KEY, position stream.record_position NOT NULL UNIQUE);
INSERT INTO checkpoints VALUES ('a', '1:2'), ('b', '1:3');
INSERT INTO checkpoints VALUES ('c', '1:2'); \echo :SQLSTATE
INSERT INTO checkpoints VALUES ('a', '1:4') ON CONFLICT (consumer) DO UPDATE SET position = excluded.position RETURNING *;
DROP TABLE checkpoints;
RESET search_path;
-- sorting, grouping and unique indexes find the operators by their class, whatever the path
SELECT p, count(*) FROM unnest('{1:2,0:7,1:2}'::stream.record_position[]) p GROUP BY p ORDER BY p DESC;
SELECT '1:1'::stream.record_position OPERATOR(stream.=) '1:1' AS equal;

-- Binary form: int4 partition, int8 offset.
SELECT stream_internal.record_position_send('3:1042');
CREATE TABLE positions (position stream.record_position);
INSERT INTO positions VALUES ('0:0'), ('2147483647:9223372036854775807'), ('3:1042'), (NULL);
\getenv abs_builddir PG_ABS_BUILDDIR
\cd :abs_builddir
\copy positions TO 'results/position.bin' (FORMAT binary)
CREATE TABLE copied (LIKE positions);
\copy copied FROM 'results/position.bin' (FORMAT binary)
SELECT * FROM copied ORDER BY position;
-- a bigint 8 bytes wide is no position
CREATE TABLE numbers (number bigint);
INSERT INTO numbers VALUES (1);
\copy numbers TO 'results/position.bin' (FORMAT binary)
\set SHOW_CONTEXT never
\set VERBOSITY sqlstate
\copy copied FROM 'results/position.bin' (FORMAT binary)
-- nor is one that is negative
CREATE TABLE bytes (b bytea);
INSERT INTO bytes VALUES ('\xffffffff0000000000000001');
\copy bytes TO 'results/position.bin' (FORMAT binary)
\copy copied FROM 'results/position.bin' (FORMAT binary)
TRUNCATE bytes;
INSERT INTO bytes VALUES ('\x00000001ffffffffffffffff');
\copy bytes TO 'results/position.bin' (FORMAT binary)
\copy copied FROM 'results/position.bin' (FORMAT binary)
\set VERBOSITY default
-- text
COPY positions TO stdout;
COPY copied FROM stdin;
7:8
\.
COPY copied FROM stdin;
7;8
\.
SELECT count(*) FROM copied;
DROP TABLE positions, copied, numbers, bytes;
