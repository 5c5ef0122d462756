-- The setting stream.auto_create_groups.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 2);
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => g % 2)) FROM generate_series(1, 6) g;
CREATE VIEW groups AS SELECT consumer_group, on_offset_out_of_range, max_poll_interval, paused FROM stream_internal.consumer_groups ORDER BY 1;
-- off
SELECT failure($$SELECT * FROM stream.consume('s', 'g', autocommit => true)$$);
SELECT failure($$SELECT stream.wait_for_records('s', 'g', '0')$$);
TABLE groups;
SET stream.auto_create_groups = on;

-- Consuming creates it as create_consumer_group does, and begins at the log start, in the same statement.
SELECT count(*) FROM stream.consume('s', 'g', 4, autocommit => true);
SELECT stream.create_consumer_group('s', 'by hand');
TABLE groups;
SELECT count(*) FROM stream.consume('s', 'g', autocommit => true);
SELECT count(*) FROM stream.consume('s', 'g', autocommit => true);
SELECT consumer_group, sum(lag) FROM stream.consumer_lag GROUP BY 1 ORDER BY 1;
-- rolled back with the rest
BEGIN;
SELECT count(*) FROM stream.consume('s', 'new');
ROLLBACK;
BEGIN;
SAVEPOINT a;
SELECT count(*) FROM stream.consume('s', 'new', 2);
ROLLBACK TO a;
SELECT count(*) FROM stream.consume('s', 'new', 2);
SELECT count(*) FROM stream.consume('s', 'new', 3);
COMMIT;
SELECT count(*) FROM stream.consume('s', 'new', autocommit => true);
-- under an older snapshot
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM streams.s;
SELECT count(*) FROM stream.consume('s', 'repeatable', 2);
COMMIT;

-- Waiting does not create it, but tells whether consuming would find something.
SELECT stream.wait_for_records('s', 'waiter', '0');
SELECT stream.create_stream('empty');
SELECT stream.wait_for_records('empty', 'waiter', '0');
SELECT stream.publish('empty', 'k', '1');
SELECT stream.wait_for_records('empty', 'waiter', '0');
SELECT count(*) FROM groups WHERE consumer_group = 'waiter';
SELECT value FROM stream.consume('empty', 'waiter', autocommit => true);
SELECT stream.wait_for_records('empty', 'waiter', '0');

-- Other functions do not, nor is everything a name.
SELECT call, failure(call) FROM (VALUES
	($$SELECT * FROM stream.reset_offsets('s', 'none', 'latest')$$),
	($$SELECT stream.alter_consumer_group('s', 'none')$$),
	($$SELECT stream.drop_consumer_group('s', 'none')$$),
	($$SELECT stream.pause_consumer_group('s', 'none')$$),
	($$SELECT stream.skip_record('s', 'none', '0:0', 'r')$$),
	($$SELECT * FROM stream.consume('s', '', autocommit => true)$$),
	($$SELECT * FROM stream.consume('s', repeat('x', 64), autocommit => true)$$),
	($$SELECT stream.wait_for_records('s', '', '0')$$),
	($$SELECT * FROM stream.consume('missing', 'g', autocommit => true)$$)) c (call);
CREATE ROLE regress_stream_nobody;
SET ROLE regress_stream_nobody;
SELECT * FROM stream.consume('s', 'mine', autocommit => true); \echo :SQLSTATE
RESET ROLE;
DROP ROLE regress_stream_nobody;
SELECT consumer_group FROM groups;
RESET stream.auto_create_groups;
SELECT stream.drop_stream('s');
SELECT stream.drop_stream('empty');
TABLE groups;
DROP VIEW groups;
