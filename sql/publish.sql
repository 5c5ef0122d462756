-- Publishing one record.
\set SHOW_CONTEXT never
-- a transaction left prepared by mistake would hang the rest
SET lock_timeout = '10 s';
SELECT stream.create_stream('s');
SELECT stream.create_stream('bytes', value_type => 'bytea');

-- A value as an untyped literal, text, json or jsonb.
SELECT stream.publish('s', 'literal', '{"b": 1, "a": [2, null]}');
SELECT stream.publish('s', 'text', '{"b": 1, "a": [2, null]}'::text);
SELECT stream.publish('s', 'varchar', '{"b": 1, "a": [2, null]}'::varchar);
SELECT stream.publish('s', 'json', '{"b": 1, "a": [2, null]}'::json);
SELECT stream.publish('s', 'jsonb', '{"b": 1, "a": [2, null]}'::jsonb);
SELECT stream.publish('s', 'built', jsonb_build_object('n', 12345678901234567890.123456789));
SELECT stream.publish('s', 'to_json', to_json(ARRAY[1, 2]));
SELECT stream.publish('s', 'scalar', '"string"'), stream.publish('s', 'scalar', '1'), stream.publish('s', 'scalar', 'true'),
	stream.publish('s', 'scalar', '""'), stream.publish('s', 'scalar', '{}'), stream.publish('s', 'scalar', '[]');
-- JSON's null is a value
SELECT stream.publish('s', 'null', 'null'), stream.publish('s', 'null', 'null'::json), stream.publish('s', 'null', 'null'::jsonb);
PREPARE with_text(text) AS SELECT stream.publish('s', 'parameter', $1);
EXECUTE with_text('{"parameter": "text"}');
PREPARE with_jsonb(jsonb) AS SELECT stream.publish('s', 'parameter', $1);
EXECUTE with_jsonb('{"parameter": "jsonb"}');
PREPARE untyped AS SELECT stream.publish('s', 'parameter', $1);
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'untyped';
EXECUTE untyped('{"parameter": "untyped"}');
DEALLOCATE ALL;
SELECT record_offset, key, value, headers, value IS NULL AS is_null FROM records('s');
-- named arguments, in any order
SELECT stream.publish(value => '1', key => 'named', stream => 's');
SELECT stream.publish(stream => 's', key => 'named', value => '2'::jsonb, headers => '{"h": "x"}', "partition" => 0);
-- headers; no key; an empty key
SELECT stream.publish('s', 'k', '3', '{"trace": "abc", "n": [1, {"deep": null}]}');
SELECT stream.publish('s', 'k', '4', '{}'), stream.publish('s', 'k', '5', NULL);
SELECT stream.publish('s', NULL, '6'), stream.publish('s', '', '7');
SELECT record_offset, key, key IS NULL AS no_key, value, headers FROM records('s') WHERE record_offset >= 18;

-- Tombstones.
SELECT stream.publish_tombstone('s', 'gone');
SELECT stream.publish_tombstone('s', 'gone', '{"why": "left"}');
SELECT stream.publish_tombstone('s', '');
SELECT stream.publish_tombstone('bytes', 'gone');
SELECT stream.publish_tombstone('s', NULL); \echo :SQLSTATE
SELECT stream.publish_tombstone(NULL, 'gone'); \echo :SQLSTATE
SELECT stream.publish_tombstone('s', 'gone', '"x"'); \echo :SQLSTATE
SELECT record_offset, key, value IS NULL AS is_tombstone, headers FROM records('s') WHERE value IS NULL;

-- Bytes.
SELECT stream.publish_bytes('bytes', 'k', '\x'), stream.publish_bytes('bytes', 'k', '\x00010200'),
	stream.publish_bytes('bytes', NULL, 'text', '{"h": 1}'), stream.publish_bytes('bytes', 'k', decode(repeat('ff', 10), 'hex'), NULL, 0);
SELECT record_offset, key, value, value IS NULL AS is_tombstone, headers FROM stream.read_bytes('bytes', 0);
SELECT stream.publish('bytes', 'k', '1'::jsonb); \echo :SQLSTATE
SELECT stream.publish('bytes', 'k', '1'::json); \echo :SQLSTATE
SELECT stream.publish('bytes', 'k', '1'::text); \echo :SQLSTATE
SELECT stream.publish_bytes('s', 'k', '1'); \echo :SQLSTATE

-- Nulls where a value is needed; drivers turn what is undefined into them.
SELECT log_end AS before FROM offsets('s') \gset
SELECT stream.publish('s', 'k', NULL); \echo :SQLSTATE
SELECT stream.publish('s', 'k', NULL::jsonb); \echo :SQLSTATE
SELECT stream.publish('s', 'k', NULL::json); \echo :SQLSTATE
SELECT stream.publish('s', 'k', NULL::text); \echo :SQLSTATE
SELECT stream.publish('s', 'k', to_jsonb(NULL::int)); \echo :SQLSTATE
SELECT stream.publish_bytes('bytes', 'k', NULL); \echo :SQLSTATE
SELECT stream.publish(NULL, 'k', '1'); \echo :SQLSTATE
SELECT stream.publish(NULL, 'k', '1'::json); \echo :SQLSTATE
SELECT stream.publish(NULL, 'k', '1'::jsonb); \echo :SQLSTATE
SELECT stream.publish_bytes(NULL, 'k', '1'); \echo :SQLSTATE
-- no JSON
SELECT stream.publish('s', 'k', ''); \echo :SQLSTATE
SELECT stream.publish('s', 'k', 'no json'::text); \echo :SQLSTATE
SELECT stream.publish('s', 'k', '{"a": }'); \echo :SQLSTATE
SELECT stream.publish('s', 'k', '1 2'); \echo :SQLSTATE
SELECT stream.publish('s', 'k', '"\u0000"'::text); \echo :SQLSTATE
SELECT stream.publish('s', 'k', '"\u0000"'::json); \echo :SQLSTATE
SELECT stream.publish('s', 'k', 1); \echo :SQLSTATE
-- headers that are no object
SELECT stream.publish('s', 'k', '1', '[]'); \echo :SQLSTATE
SELECT stream.publish('s', 'k', '1', 'null'); \echo :SQLSTATE
SELECT stream.publish('s', 'k', '1', '"h"'); \echo :SQLSTATE
SELECT stream.publish('s', 'k', '1'::jsonb, '1'); \echo :SQLSTATE
SELECT stream.publish_bytes('bytes', 'k', '1', '[{}]'); \echo :SQLSTATE
-- streams and partitions that are none
SELECT stream.publish('nobody', 'k', '1'); \echo :SQLSTATE
SELECT stream.publish('S', 'k', '1'); \echo :SQLSTATE
SELECT stream.publish('', 'k', '1'); \echo :SQLSTATE
SELECT stream.publish(repeat('n', 64), 'k', '1'); \echo :SQLSTATE
SELECT stream.publish('s', 'k', '1', "partition" => 1); \echo :SQLSTATE
SELECT stream.publish('s', 'k', '1', "partition" => -1); \echo :SQLSTATE
SELECT stream.publish('s', 'k', '1', "partition" => 2147483647); \echo :SQLSTATE
SELECT stream.publish_bytes('bytes', 'k', '1', "partition" => 1); \echo :SQLSTATE
-- none of them issued an offset or opened a publisher
SELECT log_end - :before AS issued, held_back FROM offsets('s');
SELECT count(*) FROM stream.open_publishers;

-- Not in a read-only transaction, not with two phases.
BEGIN TRANSACTION READ ONLY;
SELECT stream.publish('s', 'k', '1'); \echo :SQLSTATE
ROLLBACK;
BEGIN TRANSACTION READ ONLY;
SELECT stream.publish_tombstone('s', 'k'); \echo :SQLSTATE
ROLLBACK;
BEGIN TRANSACTION READ ONLY;
SELECT stream.publish_bytes('bytes', 'k', '1'); \echo :SQLSTATE
ROLLBACK;
-- one that became so in its course
BEGIN;
SELECT stream.publish('s', 'k', '"before"');
SAVEPOINT a;
SET TRANSACTION READ ONLY;
SELECT stream.publish('s', 'k', '"in it"'); \echo :SQLSTATE
ROLLBACK TO a;
SELECT stream.publish('s', 'k', '"after"');
COMMIT;
BEGIN;
SELECT stream.publish('s', 'k', '"also commits"');
SET TRANSACTION READ ONLY;
COMMIT;
SELECT value FROM records('s') WHERE record_offset >= :before;
BEGIN;
SELECT stream.publish('s', 'k', '1');
PREPARE TRANSACTION 'stream'; \echo :SQLSTATE
BEGIN;
SAVEPOINT a;
SELECT stream.publish('s', 'k', '1');
RELEASE a;
PREPARE TRANSACTION 'stream'; \echo :SQLSTATE
-- what is rolled back does not count
BEGIN;
SAVEPOINT a;
SELECT stream.publish('s', 'k', '1');
ROLLBACK TO a;
CREATE TABLE two_phases (a int);
PREPARE TRANSACTION 'stream'; \echo :SQLSTATE
SELECT held_back FROM offsets('s');
COMMIT PREPARED 'stream';
DROP TABLE two_phases;
-- but what holds back a watermark does
BEGIN;
SELECT stream.publish('s', 'k', '1');
SAVEPOINT a;
SELECT stream.publish('s', 'k', '1');
ROLLBACK TO a;
PREPARE TRANSACTION 'stream'; \echo :SQLSTATE
SELECT held_back FROM offsets('s');
-- not in a parallel plan
CREATE FUNCTION publish_in_parallel(n int) RETURNS text
	LANGUAGE plpgsql PARALLEL SAFE AS $$
BEGIN
	RETURN stream.publish('s', 'parallel', to_jsonb(n));
END
$$;
CREATE TABLE rows AS SELECT g AS n FROM generate_series(1, 10) g;
ALTER TABLE rows SET (parallel_workers = 2);
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
EXPLAIN (COSTS OFF) SELECT max(publish_in_parallel(n)) FROM rows;
SELECT max(publish_in_parallel(n)) FROM rows; \echo :SQLSTATE
-- the functions themselves keep a plan from being parallel
EXPLAIN (COSTS OFF) SELECT count(stream.publish('s', 'k', '1')) FROM rows WHERE n > 3;
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size;
SELECT count(*) FROM records('s') WHERE key = 'parallel';
DROP TABLE rows;
DROP FUNCTION publish_in_parallel;

-- Big keys and headers.
SELECT stream.publish('s', repeat('k', 100000), '1', jsonb_build_object('h', repeat('h', 100000)));
SELECT length(key), length(headers ->> 'h'), value FROM records('s') ORDER BY record_offset DESC LIMIT 1;
SELECT * FROM stream.verify_log('s');
SELECT * FROM stream.verify_log('bytes');
SELECT stream.drop_stream('s'), stream.drop_stream('bytes');
