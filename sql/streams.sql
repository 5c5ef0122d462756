-- Streams: create, alter, drop.
\set SHOW_CONTEXT never
-- a transaction left prepared by mistake would hang the rest
SET lock_timeout = '10 s';

-- Defaults and options.
SELECT stream.create_stream('plain');
SELECT stream.create_stream('wide', 1024);
SELECT stream.create_stream('options', partitions => 3, value_type => 'bytea', compression => 'none');
SELECT stream, partitions, value_type, compression, segments, records, bytes,
	total_bytes > 0 AS has_size, created_at <= clock_timestamp() AS has_time
FROM stream.stream_status ORDER BY stream;
SELECT stream, count(*), min("partition"), max("partition"), sum(log_end_offset)
FROM stream.partition_status GROUP BY stream ORDER BY stream;
-- the foreign tables have the columns of a record
SELECT relname, relkind, pg_get_userbyid(relowner) = current_user AS own,
	string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) AS columns
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND attnum > 0
WHERE relnamespace = 'streams'::regnamespace
GROUP BY c.oid ORDER BY relname;
SELECT stream.publish('plain', 'k', '{"a": 1}');
SELECT stream.publish('wide', NULL, '1', "partition" => 1023);
SELECT stream.publish_bytes('options', 'k', '\x00ff');
SELECT * FROM records('plain');
SELECT * FROM records('wide');
SELECT key, value FROM streams.options;

-- Options that are not right: nothing is created.
SELECT stream.create_stream('bad', 0); \echo :SQLSTATE
SELECT stream.create_stream('bad', 1025); \echo :SQLSTATE
SELECT stream.create_stream('bad', -1); \echo :SQLSTATE
SELECT stream.create_stream('bad', NULL); \echo :SQLSTATE
SELECT stream.create_stream('bad', value_type => 'text'); \echo :SQLSTATE
SELECT stream.create_stream('bad', value_type => 'JSONB'); \echo :SQLSTATE
SELECT stream.create_stream('bad', value_type => NULL); \echo :SQLSTATE
SELECT stream.create_stream('bad', compression => 'zstd'); \echo :SQLSTATE
SELECT stream.create_stream('bad', compression => ''); \echo :SQLSTATE
SELECT stream.create_stream('bad', compression => NULL); \echo :SQLSTATE
SELECT stream.create_stream('bad', 3, 'jsonb, x int); --'); \echo :SQLSTATE

-- Names that are none.
SELECT stream.create_stream(''); \echo :SQLSTATE
SELECT stream.create_stream(NULL); \echo :SQLSTATE
SELECT stream.create_stream(repeat('n', 64)); \echo :SQLSTATE
-- 63 bytes are the limit, not 63 characters
SELECT stream.create_stream(repeat('ü', 31) || 'nn'); \echo :SQLSTATE
SELECT stream.create_stream('plain'); \echo :SQLSTATE
SELECT stream.create_stream('plain', 2, 'bytea'); \echo :SQLSTATE
-- a name that something else in the schema has
CREATE TABLE streams.occupied (a int);
SELECT stream.create_stream('occupied'); \echo :SQLSTATE
SELECT stream.publish('occupied', 'k', '1'); \echo :SQLSTATE
SELECT stream.drop_stream('occupied'); \echo :SQLSTATE
DROP TABLE streams.occupied;
CREATE TYPE streams.occupied AS ENUM ('a');
SELECT stream.create_stream('occupied'); \echo :SQLSTATE
DROP TYPE streams.occupied;
SELECT * FROM left_over();

-- Any name that an identifier can be.
CREATE TABLE names (n int, name text);
INSERT INTO names VALUES
	(1, 'UPPER'), (2, 'upper'), (3, 'with space'), (4, 'with.dot'), (5, 'with"quote'),
	(6, 'with''apostrophe'), (7, '"quoted"'), (8, 'select'), (9, 'ünïcödé 流'), (10, 'back\slash'),
	(11, ' '), (12, '1'), (13, '%s%n$1'), (14, repeat('n', 63)), (15, repeat('ü', 31) || 'n'),
	(16, 'plain; DROP SCHEMA streams'), (17, E'line\nbreak'), (18, 'pg_catalog'), (19, 'partition');
SELECT count(stream.create_stream(name, 2)) FROM names;
SELECT count(stream.publish(name, n::text, to_jsonb(name))) FROM names;
SELECT n, stream.record_position(r."partition", record_offset) AS position, key = n::text AS has_key, value = to_jsonb(name) AS has_value
FROM names, records(name) r ORDER BY n;
SELECT key, value FROM streams."with""quote";
SELECT key, value FROM streams."UPPER";
SELECT key, value FROM streams.upper;
-- status by name, and wrong spellings
SELECT n, (SELECT count(*) FROM stream.partition_status WHERE stream = name) FROM names ORDER BY n;
SELECT stream.publish('Upper', 'k', '1'); \echo :SQLSTATE
SELECT stream.publish('streams.upper', 'k', '1'); \echo :SQLSTATE
SELECT stream.publish('"UPPER"', 'k', '1'); \echo :SQLSTATE
SELECT stream.publish('UPPER ', 'k', '1'); \echo :SQLSTATE
SELECT count(stream.alter_stream(name, compression => 'none')) FROM names;
SELECT stream, compression FROM stream.stream_status WHERE stream IN ('upper', 'UPPER') ORDER BY stream;
SELECT count(stream.drop_stream(name)) FROM names;
SELECT * FROM left_over();

-- Alter.
SELECT stream.alter_stream('plain'); \echo :SQLSTATE
SELECT stream.alter_stream('plain', partitions => 1); \echo :SQLSTATE
SELECT stream.alter_stream('plain', partitions => 2); \echo :SQLSTATE
SELECT stream.alter_stream('options', partitions => 2); \echo :SQLSTATE
SELECT stream.alter_stream('options', partitions => 0, compression => 'lz4'); \echo :SQLSTATE
SELECT stream.alter_stream('plain', compression => 'gzip'); \echo :SQLSTATE
SELECT stream.alter_stream('nobody'); \echo :SQLSTATE
SELECT stream.alter_stream(NULL); \echo :SQLSTATE
SELECT stream.alter_stream(''); \echo :SQLSTATE
SELECT stream, partitions, compression FROM stream.stream_status ORDER BY stream;
-- another compression is for the batches to come; the old ones are still read
SELECT stream.publish('plain', 'k', to_jsonb(repeat('x', 1000)));
SELECT stream.alter_stream('plain', compression => 'none');
SELECT bytes AS before FROM stream.partition_status WHERE stream = 'plain' \gset
SELECT stream.publish('plain', 'k', to_jsonb(repeat('x', 1000)));
SELECT bytes - :before > 1000 AS not_compressed FROM stream.partition_status WHERE stream = 'plain';
SELECT stream.alter_stream('plain', compression => 'lz4');
SELECT bytes AS before FROM stream.partition_status WHERE stream = 'plain' \gset
SELECT stream.publish('plain', 'k', to_jsonb(repeat('x', 1000)));
SELECT bytes - :before < 200 AS compressed FROM stream.partition_status WHERE stream = 'plain';
SELECT record_offset, left(value::text, 10) AS value, length(value::text) FROM records('plain');
-- in the middle of a transaction
BEGIN;
SELECT stream.publish('plain', 'k', '"before"');
SELECT stream.alter_stream('plain', compression => 'none');
SELECT stream.publish('plain', 'k', '"after"');
ROLLBACK;
SELECT compression FROM stream.stream_status WHERE stream = 'plain';

-- Drop.
SELECT stream.drop_stream('nobody'); \echo :SQLSTATE
SELECT stream.drop_stream(NULL); \echo :SQLSTATE
SELECT stream.drop_stream(''); \echo :SQLSTATE
SELECT stream.drop_stream(repeat('n', 64)); \echo :SQLSTATE
SELECT stream.drop_stream('plain');
SELECT stream.drop_stream('plain'); \echo :SQLSTATE
SELECT stream.publish('plain', 'k', '1'); \echo :SQLSTATE
SELECT stream.read('plain', 0); \echo :SQLSTATE
SELECT * FROM streams.plain; \echo :SQLSTATE
SELECT stream.drop_stream('wide'), stream.drop_stream('options');
SELECT * FROM left_over();
-- views that stand on a stream keep it
SELECT stream.create_stream('seen');
CREATE VIEW on_stream AS SELECT key FROM streams.seen;
\set VERBOSITY sqlstate
SELECT stream.drop_stream('seen');
\set VERBOSITY default
SELECT stream.publish('seen', 'still there', '1');
SELECT * FROM on_stream;
DROP VIEW on_stream;
SELECT stream.drop_stream('seen');

-- As a table: DROP FOREIGN TABLE drops the stream.
SELECT stream.create_stream('face', 2);
SELECT count(stream.publish('face', g::text, '1')) FROM generate_series(1, 10) g;
DROP FOREIGN TABLE streams.face;
SELECT * FROM left_over();
SELECT stream.create_stream('face', 2);
SELECT * FROM offsets('face');
SELECT * FROM records('face');
SELECT stream.drop_stream('face');

-- In a read-only transaction.
BEGIN TRANSACTION READ ONLY;
SELECT stream.create_stream('readonly'); \echo :SQLSTATE
ROLLBACK;
SELECT stream.create_stream('readonly');
BEGIN TRANSACTION READ ONLY;
SELECT stream.alter_stream('readonly', compression => 'none'); \echo :SQLSTATE
ROLLBACK;
BEGIN TRANSACTION READ ONLY;
SELECT stream.drop_stream('readonly'); \echo :SQLSTATE
ROLLBACK;
SELECT stream, compression FROM stream.stream_status;
SELECT stream.drop_stream('readonly');
-- two-phase
BEGIN;
SELECT stream.create_stream('twophase');
PREPARE TRANSACTION 'stream'; \echo :SQLSTATE
SELECT stream.create_stream('twophase');
BEGIN;
SELECT stream.drop_stream('twophase');
PREPARE TRANSACTION 'stream'; \echo :SQLSTATE
SELECT stream.drop_stream('twophase');
SELECT * FROM left_over();
