-- A database whose encoding is not UTF-8.
\set SHOW_CONTEXT never
\set database :DBNAME
CREATE DATABASE regress_stream_latin1 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0;
\c regress_stream_latin1
SHOW server_encoding;
SET client_encoding = 'UTF8';
CREATE EXTENSION stream;
SELECT stream.create_stream('ünïcödé', 100);
SELECT encoding FROM stream_internal.streams;
-- keys lie where they would in UTF-8, as in Kafka
SELECT stream.publish('ünïcödé', 'é', '"é"'), stream.publish('ünïcödé', 'Zürich', '{"ü": "ß"}', '{"ö": 1}'), stream.publish('ünïcödé', 'foobar', '1');
SELECT "partition", record_offset, key, value, headers, octet_length(key) AS bytes FROM streams."ünïcödé" ORDER BY key;
SELECT p, stream.offset_of(p) FROM stream.publish_batch('ünïcödé', '{é,Zürich,foobar}', '{1,2,3}') p;
INSERT INTO streams."ünïcödé" (key, value) VALUES ('é', '4'), ('Zürich', '5') RETURNING "partition", record_offset;
-- 17 words this one in another way
\set VERBOSITY sqlstate
SELECT stream.publish('ünïcödé', 'k', '"\u20ac"');
\set VERBOSITY default
-- 63 bytes here are 63 characters
SELECT stream.create_stream(repeat('ü', 63));
SELECT stream.publish(repeat('ü', 63), 'k', '1');
SELECT stream.create_stream(repeat('ü', 64)); \echo :SQLSTATE
SELECT * FROM stream.verify_log('ünïcödé');
-- the same keys in UTF-8
\c :database
SELECT stream.create_stream('ünïcödé', 100);
SELECT stream.publish('ünïcödé', 'é', '"é"'), stream.publish('ünïcödé', 'Zürich', '{"ü": "ß"}', '{"ö": 1}'), stream.publish('ünïcödé', 'foobar', '1');
SELECT stream.drop_stream('ünïcödé');

-- Dropping the database drops the state of its streams.
SELECT used AS partitions FROM stream.memory_status WHERE area = 'partitions' \gset
DROP DATABASE regress_stream_latin1;
SELECT used - :partitions AS partitions FROM stream.memory_status WHERE area = 'partitions';
