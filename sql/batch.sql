-- Publishing many records in one call.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 3);
SELECT stream.create_stream('bytes', 3, 'bytea');

-- Positions come in the order of the input.
SELECT * FROM stream.publish_batch('s', ARRAY['a', 'b', 'c', 'a', 'd', 'b', 'a'],
	ARRAY['1', '{"two": 2}', 'null', '"four"', '[5]', '6', '7']::jsonb[]) WITH ORDINALITY b (position, n);
SELECT "partition", record_offset, key, value, headers FROM records('s');
SELECT * FROM offsets('s');
-- headers, some of them null; keys that are null
SELECT count(*) FROM stream.publish_batch('s', ARRAY['a', NULL, ''], ARRAY['8', '9', '10']::jsonb[], ARRAY['{"h": 1}', NULL, '{}']::jsonb[]);
SELECT key, key IS NULL AS no_key, value, headers FROM records('s') WHERE value IN ('8', '9', '10') ORDER BY value;
-- no keys at all, no headers at all
SELECT count(*) FROM stream.publish_batch('s', NULL, ARRAY['11', '12', '13']::jsonb[]);
SELECT count(*), count(key), count(DISTINCT "partition") FROM records('s') WHERE value IN ('11', '12', '13');
SELECT count(*) FROM stream.publish_batch('s', ARRAY['a'], ARRAY['14']::jsonb[], NULL);
-- bytes
SELECT * FROM stream.publish_bytes_batch('bytes', ARRAY['a', 'b', 'a'], ARRAY['\x01', '\x', '\xff00']::bytea[], ARRAY[NULL, '{"h": 1}', NULL]::jsonb[]);
SELECT * FROM stream.publish_bytes_batch('bytes', ARRAY[NULL]::text[], ARRAY['\x02']::bytea[]) b WHERE false;
SELECT r.key, r.value, r.headers FROM generate_series(0, 2) p, stream.read_bytes('bytes', p) r ORDER BY r."partition", r.record_offset;
-- empty arrays publish nothing
CREATE TEMP TABLE before AS SELECT * FROM offsets('s');
SELECT * FROM stream.publish_batch('s', ARRAY[]::text[], ARRAY[]::jsonb[]);
SELECT * FROM stream.publish_batch('s', '{}', '{}', '{}');
SELECT * FROM stream.publish_batch('s', NULL, '{}');
SELECT * FROM stream.publish_bytes_batch('bytes', '{}', '{}');
SELECT count(*) AS changed FROM (SELECT * FROM offsets('s') EXCEPT SELECT * FROM before) o;
DROP TABLE before;
-- in the select list, and as one value
SELECT stream.publish_batch('bytes', ARRAY['a', 'a'], ARRAY['15', '16']::jsonb[]); \echo :SQLSTATE
SELECT stream.publish_bytes_batch('bytes', ARRAY['a', 'a'], ARRAY['15', '16']::bytea[]);
SELECT array(SELECT stream.publish_bytes_batch('bytes', ARRAY['a', 'a'], ARRAY['17', '18']::bytea[]));
-- an array that does not begin at 1
SELECT * FROM stream.publish_bytes_batch('bytes', '[5:6]={a,a}', '[0:1]={19,20}');
-- arrays from a query
SELECT count(*) FROM (SELECT array_agg('key ' || g ORDER BY g) AS keys, array_agg(jsonb_build_object('n', g) ORDER BY g) AS record_values
	FROM generate_series(1, 10) g) a, stream.publish_batch('s', keys, record_values);

-- What is wrong with the arrays: nothing is published.
CREATE TEMP TABLE before AS SELECT * FROM offsets('s');
SELECT * FROM stream.publish_batch('s', ARRAY['a'], ARRAY['1', '2']::jsonb[]); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('s', ARRAY['a', 'b'], ARRAY['1']::jsonb[]); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('s', '{}', ARRAY['1']::jsonb[]); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('s', ARRAY['a'], '{}'); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('s', ARRAY['a'], ARRAY['1']::jsonb[], ARRAY['{}', '{}']::jsonb[]); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('s', ARRAY['a'], ARRAY['1']::jsonb[], '{}'); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('s', '{{a,b},{c,d}}', '{1,2,3,4}'); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('s', '{a,b,c,d}', '{{1,2},{3,4}}'); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('s', '{a}', '{{1}}'); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('s', '{a}', '{1}', ARRAY[ARRAY['{}']]::jsonb[]); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('s', ARRAY['a', 'b', 'c'], ARRAY['1', '2', NULL]::jsonb[]); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('s', ARRAY['a', 'b'], ARRAY[NULL, '2']::jsonb[]); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('s', ARRAY['a'], NULL); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('s', NULL, NULL); \echo :SQLSTATE
SELECT * FROM stream.publish_batch(NULL, ARRAY['a'], ARRAY['1']::jsonb[]); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('nobody', ARRAY['a'], ARRAY['1']::jsonb[]); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('s', ARRAY['a', 'b'], ARRAY['1', '2']::jsonb[], ARRAY['{}', '[]']::jsonb[]); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('s', ARRAY['a'], ARRAY['no json']::jsonb[]); \echo :SQLSTATE
SELECT * FROM stream.publish_batch('bytes', ARRAY['a'], ARRAY['1']::jsonb[]); \echo :SQLSTATE
SELECT * FROM stream.publish_bytes_batch('s', ARRAY['a'], ARRAY['1']::bytea[]); \echo :SQLSTATE
SELECT * FROM stream.publish_bytes_batch('bytes', ARRAY['a', 'b'], ARRAY['1', NULL]::bytea[]); \echo :SQLSTATE
SELECT * FROM stream.publish_bytes_batch('bytes', ARRAY['a'], NULL); \echo :SQLSTATE
SELECT * FROM stream.publish_bytes_batch('bytes', ARRAY['a', 'b'], ARRAY['1']::bytea[]); \echo :SQLSTATE
SELECT * FROM stream.publish_bytes_batch('bytes', '{a}', '{{1}}'); \echo :SQLSTATE
SELECT * FROM stream.publish_bytes_batch(NULL, ARRAY['a'], ARRAY['1']::bytea[]); \echo :SQLSTATE
BEGIN TRANSACTION READ ONLY;
SELECT * FROM stream.publish_batch('s', ARRAY['a'], ARRAY['1']::jsonb[]); \echo :SQLSTATE
ROLLBACK;
BEGIN TRANSACTION READ ONLY;
SELECT * FROM stream.publish_bytes_batch('bytes', ARRAY['a'], ARRAY['1']::bytea[]); \echo :SQLSTATE
ROLLBACK;
SELECT count(*) AS changed FROM (SELECT * FROM offsets('s') EXCEPT SELECT * FROM before) o;
-- in the middle of a transaction that goes on
BEGIN;
SELECT stream.publish('s', 'rest', '1') IS NOT NULL AS published;
SAVEPOINT a;
SELECT * FROM stream.publish_batch('s', ARRAY['rest', 'rest'], ARRAY['2', NULL]::jsonb[]); \echo :SQLSTATE
ROLLBACK TO a;
SELECT count(*) FROM stream.publish_batch('s', ARRAY['rest', 'rest'], ARRAY['3', '4']::jsonb[]);
COMMIT;
SELECT value FROM records('s') WHERE key = 'rest';

-- 5000 records over 7 partitions: read back as they went in.
SELECT stream.create_stream('many', 7);
CREATE TABLE input AS
SELECT g AS n, CASE WHEN g % 11 > 0 THEN 'key ' || g % 777 END AS key,
	jsonb_build_object('n', g, 'text', repeat(md5(g::text), g % 7)) AS value,
	CASE WHEN g % 5 = 0 THEN jsonb_build_object('h', g) END AS headers
FROM generate_series(1, 5000) g;
CREATE TABLE output AS
SELECT b.n, b.position, stream.partition_of(b.position) AS "partition", stream.offset_of(b.position) AS record_offset
FROM (SELECT array_agg(key ORDER BY n) AS keys, array_agg(value ORDER BY n) AS record_values, array_agg(headers ORDER BY n) AS headers FROM input) i,
	stream.publish_batch('many', i.keys, i.record_values, i.headers) WITH ORDINALITY b (position, n);
SELECT count(*) AS same
FROM input JOIN output USING (n) JOIN records('many') r USING ("partition", record_offset)
WHERE r.key IS NOT DISTINCT FROM input.key AND r.value = input.value AND r.headers IS NOT DISTINCT FROM input.headers;
SELECT count(*), count(DISTINCT "partition"), count(DISTINCT ("partition", record_offset)) FROM records('many');
SELECT sum(log_end), sum(watermark), sum(records) FROM offsets('many');
-- in each partition the offsets follow the input, without a gap
SELECT count(*) AS out_of_order
FROM (SELECT n, record_offset, row_number() OVER (PARTITION BY "partition" ORDER BY n) AS expected FROM output) o
WHERE record_offset <> expected - 1;
-- one block in each partition: few batches
SELECT batches <= 210 AS few_batches FROM stream.segment_status WHERE stream = 'many';
-- a second call goes on behind, also in a transaction with other ways to publish
BEGIN;
SELECT count(stream.publish('many', key, value)) FROM input WHERE n <= 10;
SELECT count(*) FROM (SELECT array_agg(key) AS keys, array_agg(value) AS record_values FROM input WHERE n <= 3000) i,
	stream.publish_batch('many', i.keys, i.record_values);
INSERT INTO streams.many (key, value) SELECT key, value FROM input WHERE n <= 10;
COMMIT;
SELECT count(*), count(DISTINCT ("partition", record_offset)) FROM records('many');
SELECT sum(log_end), sum(watermark), sum(records) FROM offsets('many');
SELECT * FROM stream.verify_log('many');

-- Many calls of few records in one transaction: contiguous, so packed.
SELECT stream.create_stream('calls');
SELECT count(p) FROM generate_series(1, 500) g, stream.publish_batch('calls', ARRAY['a', 'b'], ARRAY[to_jsonb(g), to_jsonb(-g)]) p;
SELECT records, batches <= 3 AS packed, offset_ranges FROM stream.segment_status WHERE stream = 'calls';
SELECT count(*) FROM records('calls') WHERE value <> to_jsonb((record_offset / 2 + 1) * CASE record_offset % 2 WHEN 0 THEN 1 ELSE -1 END);

DROP TABLE input, output, before;
SELECT stream.drop_stream('s'), stream.drop_stream('bytes'), stream.drop_stream('many'), stream.drop_stream('calls');
