-- Consumer groups as objects.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 3);
SELECT stream.create_stream('t');
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => g % 3)) FROM generate_series(0, 29) g;
-- what there is of groups and their offsets
CREATE VIEW groups AS
	SELECT s.stream, g.consumer_group, g.on_offset_out_of_range AS out_of_range, g.max_poll_interval, g.paused,
		g.created_at BETWEEN now() - interval '1 hour' AND clock_timestamp() AS is_new,
		(SELECT string_agg(o.committed_offset::text, ' ' ORDER BY o."partition")
		 FROM stream_internal.offsets o WHERE o.group_id = g.group_id) AS offsets
	FROM stream_internal.consumer_groups g LEFT JOIN stream_internal.streams s USING (stream_id);

-- Created with defaults, and with everything.
SELECT stream.create_consumer_group('s', 'default');
SELECT stream.create_consumer_group('s', 'latest', 'latest', 'latest', '90 s');
SELECT stream.create_consumer_group(consumer_group => 'named', max_poll_interval => '1 ms', stream => 's',
	on_offset_out_of_range => 'earliest', start => 'earliest');
TABLE groups ORDER BY 1, 2;
-- groups belong to a stream
SELECT stream.create_consumer_group('t', 'default');
SELECT stream.create_consumer_group('s', 'default'); \echo :SQLSTATE
SELECT failure($$SELECT stream.create_consumer_group('s', 'default', 'latest')$$);

-- Where to start.
SELECT stream.create_consumer_group('s', 'offset 0', 'offset 0');
SELECT stream.create_consumer_group('s', 'offset 7', 'offset 7');
SELECT stream.create_consumer_group('s', 'offset 10', 'offset   10');
-- what is out of the log is clamped
SELECT stream.create_consumer_group('s', 'offset 11', 'offset 11');
SELECT stream.create_consumer_group('s', 'offset max', 'offset 9223372036854775807');
SELECT stream.create_consumer_group('s', 'offset -1', 'offset -1');
SELECT r.published_at AS "at" FROM stream.read('s', 0, 0, 1) r \gset
SELECT pg_sleep(0.01), clock_timestamp() AS later \gset
SELECT stream.publish('s', 'k', '30', "partition" => 1);
SELECT stream.create_consumer_group('s', 'at', 'datetime ' || :'at');
SELECT stream.create_consumer_group('s', 'later', 'datetime ' || :'later');
SELECT stream.create_consumer_group('s', 'iso', 'datetime 2000-01-01T00:00:00Z');
SELECT stream.create_consumer_group('s', 'future', 'datetime 2999-01-01');
SELECT stream.create_consumer_group('s', 'infinity', 'datetime infinity');
SELECT stream.create_consumer_group('s', '-infinity', 'datetime -infinity');
SELECT stream.create_consumer_group('s', 'hour', 'duration 1 hour');
SELECT stream.create_consumer_group('s', 'zero', 'duration 0');
SELECT stream.create_consumer_group('s', 'ago', 'duration -1 hour');
SELECT stream.create_consumer_group('s', 'iso interval', 'duration PT1H30M');
SELECT consumer_group, offsets FROM groups WHERE stream = 's' ORDER BY 1;
-- a new group on what was rolled back
BEGIN;
SELECT count(stream.publish('s', 'k', '0', "partition" => 2)) FROM generate_series(1, 5);
-- an open publisher's records are below nobody's start
SELECT stream.create_consumer_group('s', 'within', 'latest');
SELECT consumer_group, offsets FROM groups WHERE consumer_group = 'within';
ROLLBACK;
SELECT stream.create_consumer_group('s', 'behind', 'latest');
SELECT consumer_group, offsets FROM groups WHERE consumer_group IN ('within', 'behind');
-- nonsense
CREATE TABLE starts (n serial, start text);
INSERT INTO starts (start) VALUES (''), ('EARLIEST'), ('earliest '), (' latest'), ('first'), ('current'), ('shift 5'), ('shift'), ('offset'), ('offset '),
	('offset x'), ('offset 1 2'), ('offset 1.5'), ('offset 9223372036854775808'), ('offset0'), ('datetime'), ('datetime '), ('datetime yesterdy'),
	('datetime 2024-02-31'), ('duration'), ('duration x'), ('duration 1'), ('duration 1 fortnight'), ('5'), (NULL);
SELECT start, failure(format('SELECT stream.create_consumer_group(%L, %L, %L)', 's', 'bad', start)) FROM starts WHERE start <> 'duration 1' ORDER BY n;

-- The other arguments.
SELECT arguments, failure('SELECT stream.create_consumer_group(' || arguments || ')') FROM (VALUES
	($$NULL, 'bad'$$), ($$'s', NULL$$),
	($$'missing', 'bad'$$), ($$'S', 'bad'$$), ($$'streams.s', 'bad'$$),
	($$'s', ''$$), ($$'s', repeat('x', 64)$$), ($$'s', repeat('ü', 32)$$),
	($$'s', 'bad', on_offset_out_of_range => 'none'$$), ($$'s', 'bad', on_offset_out_of_range => ''$$),
	($$'s', 'bad', on_offset_out_of_range => 'ERROR'$$), ($$'s', 'bad', on_offset_out_of_range => NULL$$),
	($$'s', 'bad', max_poll_interval => '0'$$), ($$'s', 'bad', max_poll_interval => '-1 s'$$),
	($$'s', 'bad', max_poll_interval => '0.0009 s'$$), ($$'s', 'bad', max_poll_interval => '25 days'$$),
	($$'s', 'bad', max_poll_interval => '1 month'$$), ($$'s', 'bad', max_poll_interval => '1000000 years'$$),
	($$'s', 'bad', max_poll_interval => NULL$$)) AS v (arguments);
SELECT count(*) FROM groups WHERE consumer_group = 'bad';
SELECT stream.create_consumer_group('t', 'longest', max_poll_interval => '24 days');
SELECT stream.create_consumer_group('t', 'odd', max_poll_interval => '1.5 s');
SELECT consumer_group, max_poll_interval FROM groups WHERE consumer_group IN ('longest', 'odd') ORDER BY 1;
-- any name
SELECT stream.create_consumer_group('t', n), stream.consumer_lag.committed_offset IS NULL AS is_new
FROM unnest(ARRAY[repeat('x', 63), repeat('ü', 31), ' ', 'it''s "odd"', E'two\nlines', 'Default', 'default ']) n
	LEFT JOIN stream.consumer_lag ON consumer_group = n;
SELECT consumer_group, octet_length(consumer_group::text) FROM groups WHERE stream = 't' ORDER BY consumer_group;
SELECT count(*) AS records FROM stream.consume('t', 'it''s "odd"', autocommit => true);

-- An unknown group: the hint can be pasted.
CREATE TABLE calls (n serial, call text);
INSERT INTO calls (call) VALUES
	($$SELECT * FROM stream.consume('t', 'it''s new', autocommit => true)$$),
	($$SELECT stream.wait_for_records('t', 'it''s new', '0')$$),
	($$SELECT * FROM stream.reset_offsets('t', 'it''s new', 'latest')$$),
	($$SELECT * FROM stream.reset_offsets('t', 'it''s new', 'latest', execute => true)$$),
	($$SELECT stream.alter_consumer_group('t', 'it''s new')$$),
	($$SELECT stream.drop_consumer_group('t', 'it''s new')$$),
	($$SELECT stream.pause_consumer_group('t', 'it''s new')$$),
	($$SELECT stream.resume_consumer_group('t', 'it''s new')$$);
SELECT call, failure(call) FROM calls ORDER BY n;
SELECT stream.create_consumer_group('t', 'it''s new');
SELECT call, failure(call) FROM calls ORDER BY n;
-- of an unknown stream, and with null names
SELECT call, split_part(failure(replace(call, '''t''', '''missing''')), E'\n', 1) AS failure FROM calls ORDER BY n;
SELECT call, failure(replace(call, '''t''', 'NULL')) FROM calls ORDER BY n;
SELECT call, failure(replace(call, '''it''''s new''', 'NULL')) FROM calls ORDER BY n;

-- Altered.
SELECT stream.alter_consumer_group('s', 'default');
SELECT stream.alter_consumer_group('s', 'default', 'latest');
SELECT stream.alter_consumer_group('s', 'default', max_poll_interval => '10 min');
SELECT * FROM groups WHERE stream = 's' AND consumer_group IN ('default', 'named') ORDER BY 2;
SELECT stream.alter_consumer_group('s', 'default', 'earliest', '10 s');
SELECT stream.alter_consumer_group(consumer_group => 'named', stream => 's', on_offset_out_of_range => 'error', max_poll_interval => '20 s');
SELECT failure($$SELECT stream.alter_consumer_group('s', 'default', 'never')$$);
SELECT failure($$SELECT stream.alter_consumer_group('s', 'default', max_poll_interval => '0')$$);
SELECT failure($$SELECT stream.alter_consumer_group('s', 'default', 'latest', '-1 s')$$);
SELECT * FROM groups WHERE stream = 's' AND consumer_group IN ('default', 'named') ORDER BY 2;

-- Paused: nothing is delivered, and nobody is told that there is something.
SELECT stream.pause_consumer_group('s', 'default');
SELECT stream.pause_consumer_group('s', 'default');
SELECT paused FROM groups WHERE stream = 's' AND consumer_group = 'default';
SELECT count(*) FROM stream.consume('s', 'default', autocommit => true);
SELECT stream.wait_for_records('s', 'default', '10 ms');
SELECT sum(lag) AS lag, count(pid) AS owners FROM stream.consumer_lag WHERE stream = 's' AND consumer_group = 'default';
SELECT count(*) FROM stream.consume('s', 'named', autocommit => true);
SELECT stream.resume_consumer_group('s', 'default');
SELECT stream.resume_consumer_group('s', 'default');
SELECT stream.wait_for_records('s', 'default', '0');
SELECT count(*) FROM stream.consume('s', 'default', autocommit => true);

-- Dropped; the name is free, and begins where it is told to.
SELECT stream.drop_consumer_group('s', 'default');
SELECT stream.drop_consumer_group('s', 'default'); \echo :SQLSTATE
SELECT count(*) FROM stream_internal.offsets WHERE group_id NOT IN (SELECT group_id FROM stream_internal.consumer_groups);
SELECT stream.create_consumer_group('s', 'default');
SELECT count(*) FROM stream.consume('s', 'default', autocommit => true);

-- In transactions.
BEGIN;
SELECT stream.create_consumer_group('s', 'new');
SELECT count(*) FROM stream.consume('s', 'new');
SAVEPOINT a;
SELECT stream.drop_consumer_group('s', 'new');
SELECT count(*) FROM stream.consume('s', 'new'); \echo :SQLSTATE
ROLLBACK TO a;
SELECT count(*) FROM stream.consume('s', 'new');
SELECT stream.drop_consumer_group('s', 'new');
SELECT stream.create_consumer_group('s', 'new', 'offset 9');
SELECT "partition", record_offset FROM stream.consume('s', 'new') ORDER BY 1, 2;
ROLLBACK;
SELECT * FROM stream.consume('s', 'new', autocommit => true); \echo :SQLSTATE
BEGIN;
SAVEPOINT a;
SELECT stream.create_consumer_group('s', 'new');
ROLLBACK TO a;
SELECT stream.create_consumer_group('s', 'new', 'latest');
SELECT stream.pause_consumer_group('s', 'new');
SAVEPOINT a;
SELECT stream.resume_consumer_group('s', 'new');
SELECT stream.alter_consumer_group('s', 'new', 'latest');
ROLLBACK TO a;
COMMIT;
SELECT * FROM groups WHERE consumer_group = 'new';
BEGIN;
SELECT stream.drop_consumer_group('s', 'new');
ROLLBACK;
SELECT count(*) FROM groups WHERE consumer_group = 'new';
SELECT stream.drop_consumer_group('s', 'new');

-- Read-only transactions.
BEGIN READ ONLY;
SELECT stream.create_consumer_group('s', 'new'); \echo :SQLSTATE
ROLLBACK;
SET default_transaction_read_only = on;
SELECT call, failure(replace(call, 'it''''s new', 'default')) FROM calls ORDER BY n;
RESET default_transaction_read_only;

-- Privileges: who may read a stream may have groups on it.
CREATE ROLE regress_stream_reader;
CREATE ROLE regress_stream_writer;
GRANT SELECT ON streams.s TO regress_stream_reader;
GRANT INSERT ON streams.s TO regress_stream_writer;
GRANT SELECT ON calls TO PUBLIC;
SET ROLE regress_stream_writer;
SELECT stream.create_consumer_group('s', 'mine'); \echo :SQLSTATE
SELECT call, failure(replace(replace(call, 'it''''s new', 'default'), '''t''', '''s''')) FROM calls ORDER BY n;
SELECT count(*) FROM stream.consumer_lag;
SET ROLE regress_stream_reader;
SELECT stream.create_consumer_group('s', 'mine');
SELECT count(*) FROM stream.consume('s', 'mine', autocommit => true);
SELECT call, failure(replace(replace(call, 'it''''s new', 'mine'), '''t''', '''s''')) FROM calls ORDER BY n;
-- of the streams that it may read
SELECT stream, count(*) > 1 AS some FROM stream.consumer_lag GROUP BY 1;
-- not past the functions
SELECT count(*) FROM stream_internal.offsets; \echo :SQLSTATE
SELECT count(*) FROM stream_internal.consumer_groups; \echo :SQLSTATE
SELECT count(*) FROM stream_internal.consumer_lag(); \echo :SQLSTATE
RESET ROLE;
REVOKE ALL ON streams.s FROM regress_stream_reader;
SET ROLE regress_stream_reader;
SELECT count(*) FROM stream.consume('s', 'mine', autocommit => true); \echo :SQLSTATE
RESET ROLE;
REVOKE ALL ON streams.s FROM regress_stream_writer;
DROP ROLE regress_stream_reader;
DROP ROLE regress_stream_writer;

-- What refers to a stream goes with it.
SELECT stream.drop_stream('t');
SELECT count(*) FROM groups WHERE stream IS DISTINCT FROM 's';
SELECT stream.create_stream('t');
SELECT count(*) FROM stream.consumer_lag WHERE stream = 't';
SELECT * FROM stream.consume('t', 'default', autocommit => true); \echo :SQLSTATE
SELECT stream.drop_stream('t');
BEGIN;
SELECT stream.drop_stream('s');
SELECT count(*) FROM stream.consumer_lag;
ROLLBACK;
SELECT count(*) > 0 AS some FROM groups;
SELECT stream.drop_stream('s');
SELECT count(*) FROM groups;
SELECT count(*) FROM stream_internal.offsets;
SELECT count(*) FROM stream.consumer_lag;
-- and with the extension
DROP VIEW groups;
SELECT stream.create_stream('s');
SELECT stream.create_consumer_group('s', 'g');
SELECT count(*) FROM stream.consume('s', 'g', autocommit => true);
SET client_min_messages = warning;
DROP EXTENSION stream CASCADE;
CREATE EXTENSION stream;
RESET client_min_messages;
SELECT count(*) FROM stream_internal.consumer_groups;
SELECT stream.create_stream('s');
SELECT stream.create_consumer_group('s', 'g');
SELECT group_id, consumer_group FROM stream_internal.consumer_groups;
SELECT stream.drop_stream('s');
SELECT * FROM left_over();
DROP TABLE starts, calls;
