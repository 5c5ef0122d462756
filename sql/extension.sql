-- CREATE EXTENSION and DROP EXTENSION.
\set SHOW_CONTEXT never
SELECT used AS partitions FROM stream.memory_status WHERE area = 'partitions' \gset
SELECT stream.create_stream('s', 2);
SELECT stream.create_stream('other');
SELECT count(stream.publish('s', 'key ' || g, to_jsonb(g))) FROM generate_series(1, 10) g;
CALL stream.roll_segment('s');
SELECT stream.publish('s', 'key 11', '11') IS NOT NULL AS published, stream.publish('other', 'k', '1');

-- Refused while there is a stream.
\set VERBOSITY sqlstate
DROP EXTENSION stream;
DROP SCHEMA streams CASCADE;
DROP SCHEMA stream_internal CASCADE;
DROP SERVER stream CASCADE;
DROP FOREIGN DATA WRAPPER stream CASCADE;
DROP FUNCTION stream.publish(text, text, jsonb, jsonb, int);
DROP TABLE stream_internal.streams;
DROP TYPE stream.record_position CASCADE;
ALTER EXTENSION stream SET SCHEMA information_schema;
CREATE EXTENSION stream;
\set VERBOSITY default
SELECT count(*) FROM records('s');

-- Rolled back: all goes on.
SET client_min_messages = warning;
BEGIN;
DROP EXTENSION stream CASCADE;
SELECT to_regnamespace('stream'), to_regnamespace('streams'), to_regnamespace('stream_internal');
SELECT stream.publish('s', 'k', '1'); \echo :SQLSTATE
ROLLBACK;
SELECT count(*) FROM records('s');
SELECT stream.publish('s', 'after rollback', '12') IS NOT NULL AS published;
BEGIN;
SELECT stream.publish('s', 'before', '13') IS NOT NULL AS published;
SAVEPOINT a;
DROP EXTENSION stream CASCADE;
ROLLBACK TO a;
SELECT stream.publish('s', 'after', '14') IS NOT NULL AS published;
COMMIT;
SELECT count(*), count(*) FILTER (WHERE key IN ('before', 'after')) AS last_ones FROM records('s');
SELECT sum(log_end), sum(watermark), sum(held_back) FROM offsets('s');
-- dropped and created anew, with a stream of the same name, and rolled back
BEGIN;
SELECT stream.publish('s', 'lost', '15') IS NOT NULL AS published;
DROP EXTENSION stream CASCADE;
CREATE EXTENSION stream;
SELECT stream.create_stream('s');
SELECT stream.publish('s', 'new', '1');
SELECT * FROM offsets('s');
ROLLBACK;
SELECT count(*), count(*) FILTER (WHERE key IN ('lost', 'new')) AS wrong_ones FROM records('s');
SELECT sum(log_end), sum(watermark), sum(held_back) FROM offsets('s');
SELECT stream.publish('s', 'k', '16') IS NOT NULL AS published;
SELECT * FROM stream.verify_log('s');
SELECT count(*) FROM stream.open_publishers;
-- created in a subtransaction that is rolled back
BEGIN;
DROP EXTENSION stream CASCADE;
SAVEPOINT a;
CREATE EXTENSION stream;
SELECT stream.create_stream('s');
SELECT stream.publish('s', 'new', '1');
ROLLBACK TO a;
SELECT stream.create_stream('s'); \echo :SQLSTATE
ROLLBACK;
SELECT stream.publish('s', 'k', '17') IS NOT NULL AS published;
SELECT count(*) FROM records('s');

-- Dropped with all streams: nothing stays.
DROP EXTENSION stream CASCADE;
SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'stream%';
SELECT count(*) FROM pg_class WHERE relname ~ '^s\d+_[p\d]';
SELECT count(*) FROM pg_foreign_server;
SELECT stream.create_stream('s'); \echo :SQLSTATE
-- created again: numbers of streams start anew, and no state is left of the old ones
CREATE EXTENSION stream;
SELECT * FROM left_over();
SELECT used - :partitions AS partitions FROM stream.memory_status WHERE area = 'partitions';
SELECT stream.create_stream('s', 2);
SELECT * FROM offsets('s');
SELECT stream.publish('s', 'key 1', '"anew"');
SELECT * FROM offsets('s');
SELECT key, value FROM records('s');
SELECT segment_no, state FROM stream.segment_status;
SELECT * FROM stream.verify_log('s');
-- without streams it needs no CASCADE
SELECT stream.drop_stream('s');
DROP EXTENSION stream;
CREATE EXTENSION stream;

-- Dropped and created anew in one transaction, with publishers before and after.
SELECT stream.create_stream('s', 2);
SELECT count(stream.publish('s', 'key ' || g, to_jsonb(g))) FROM generate_series(1, 10) g;
CALL stream.roll_segment('s');
SELECT count(stream.publish('s', 'key ' || g, to_jsonb(g))) FROM generate_series(1, 10) g;
BEGIN;
SELECT stream.publish('s', 'lost', '1') IS NOT NULL AS published;
DROP EXTENSION stream CASCADE;
CREATE EXTENSION stream;
SELECT stream.create_stream('s', 2);
SELECT stream.publish('s', 'key 1', '"anew"');
SELECT * FROM offsets('s');
COMMIT;
SELECT watermark, held_back FROM offsets('s');
SELECT key, value FROM records('s');
SELECT stream.offset_of(stream.publish('s', 'key 1', '"again"')) > 0 AS goes_on;
SELECT key, value FROM records('s');
SELECT segment_no, state, records FROM stream.segment_status;
SELECT * FROM stream.verify_log('s');
SELECT count(*) FROM stream.open_publishers;
SELECT used - :partitions AS partitions FROM stream.memory_status WHERE area = 'partitions';
-- the same by one that has not published before
SELECT count(stream.publish('s', 'key ' || g, to_jsonb(g))) FROM generate_series(1, 10) g;
CALL stream.roll_segment('s');
SELECT count(stream.publish('s', 'key ' || g, to_jsonb(g))) FROM generate_series(1, 10) g;
BEGIN;
DROP EXTENSION stream CASCADE;
CREATE EXTENSION stream;
SELECT stream.create_stream('s', 2);
SELECT stream.publish('s', 'key 1', '"once more"');
COMMIT;
SELECT watermark, held_back FROM offsets('s');
SELECT key, value FROM records('s');
RESET client_min_messages;


-- In a database without it there is nothing.
\set database :DBNAME
\c template1
SELECT stream.create_stream('s'); \echo :SQLSTATE
\c :database
SELECT count(*) FROM records('s');
SELECT stream.drop_stream('s');
SELECT * FROM left_over();
