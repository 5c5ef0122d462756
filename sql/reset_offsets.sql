-- reset_offsets.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 3);
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => g % 2)) FROM generate_series(0, 19) g;
SELECT pg_sleep(0.01), clock_timestamp() AS middle \gset
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => g % 2)) FROM generate_series(0, 9) g;
SELECT stream.create_consumer_group('s', 'g', 'offset 6');
CREATE VIEW offsets AS SELECT string_agg(committed_offset::text, ' ' ORDER BY "partition") AS offsets, sum(lag) AS lag FROM stream.consumer_lag;
TABLE offsets;

-- Every way, as a dry run: nothing changes.
SELECT CASE WHEN target LIKE 'datetime %:%:%' THEN 'datetime of a record' ELSE target END AS target, r.* FROM unnest(ARRAY['earliest', 'latest', 'current', 'offset 0', 'offset 3', 'offset 15', 'offset 16', 'offset -1',
		'offset 9223372036854775807', 'offset -9223372036854775808', 'shift 0', 'shift 3', 'shift +3', 'shift -3', 'shift -6', 'shift -7', 'shift 9', 'shift 10',
		'shift 9223372036854775807', 'shift -9223372036854775808',
		'datetime ' || :'middle', 'datetime -infinity', 'datetime infinity', 'datetime 2000-01-01 00:00+00', 'duration 1 hour', 'duration 0', 'duration -1 day'])
		WITH ORDINALITY t(target, n), stream.reset_offsets('s', 'g', target) r ORDER BY n, r."partition";
TABLE offsets;
SELECT * FROM stream.reset_offsets('s', 'g', 'earliest', NULL, false, true);
TABLE offsets;
-- a dry run may be made by who may only look
BEGIN READ ONLY;
SELECT * FROM stream.reset_offsets('s', 'g', 'latest');
SELECT * FROM stream.reset_offsets('s', 'g', 'latest', execute => true); \echo :SQLSTATE
ROLLBACK;

-- Executed.
SELECT * FROM stream.reset_offsets('s', 'g', 'latest', execute => true);
TABLE offsets;
SELECT count(*) FROM stream.consume('s', 'g', autocommit => true);
SELECT * FROM stream.reset_offsets('s', 'g', 'shift -2', execute => true);
TABLE offsets;
SELECT "partition", record_offset FROM stream.consume('s', 'g', autocommit => true) ORDER BY 1, 2;
SELECT * FROM stream.reset_offsets('s', 'g', 'datetime ' || :'middle', execute => true);
TABLE offsets;
SELECT "partition", count(*), min(record_offset) FROM stream.consume('s', 'g', autocommit => true) GROUP BY 1 ORDER BY 1;
SELECT * FROM stream.reset_offsets('s', 'g', 'offset 1000', execute => true);
SELECT * FROM stream.reset_offsets('s', 'g', 'current', execute => true);
SELECT * FROM stream.reset_offsets('s', 'g', 'offset -1000', execute => true);
TABLE offsets;
SELECT * FROM stream.reset_offsets('s', 'g', 'duration 1 hour', execute => true, force => true);
SELECT "partition", count(*), min(record_offset) FROM stream.consume('s', 'g', autocommit => true) GROUP BY 1 ORDER BY 1;
-- an offset that stays is committed again, so that it counts as moved for statements before
SELECT count(*) AS commits FROM stream_internal.offsets \gset
SELECT * FROM stream.reset_offsets('s', 'g', 'latest', execute => true);
SELECT count(*) - :commits AS commits FROM stream_internal.offsets;

-- Some partitions.
SELECT * FROM stream.reset_offsets('s', 'g', 'earliest', ARRAY[1]);
SELECT * FROM stream.reset_offsets('s', 'g', 'earliest', '{1,1,0}', execute => true);
TABLE offsets;
SELECT * FROM stream.reset_offsets('s', 'g', 'latest', partitions => '{1}', execute => true);
TABLE offsets;
SELECT * FROM stream.reset_offsets('s', 'g', 'latest', '{}', execute => true);
SELECT * FROM stream.reset_offsets('s', 'g', 'latest', '{{0,1},{2,2}}');
SELECT failure($$SELECT * FROM stream.reset_offsets('s', 'g', 'latest', '{0,3}', execute => true)$$);
SELECT failure($$SELECT * FROM stream.reset_offsets('s', 'g', 'latest', '{-1}')$$);
SELECT failure($$SELECT * FROM stream.reset_offsets('s', 'g', 'latest', '{0,NULL}', execute => true)$$);
TABLE offsets;

-- Bad arguments.
SELECT arguments, failure('SELECT * FROM stream.reset_offsets(' || arguments || ')') FROM (VALUES
	($$NULL, 'g', 'latest'$$), ($$'s', NULL, 'latest'$$), ($$'s', 'g', NULL$$), ($$'s', 'g', 'latest', execute => NULL$$),
	($$'s', 'g', 'latest', force => NULL$$), ($$'missing', 'g', 'latest'$$), ($$'s', 'missing', 'latest'$$),
	($$'s', 'g', ''$$), ($$'s', 'g', 'Latest'$$), ($$'s', 'g', 'offset'$$), ($$'s', 'g', 'offset x'$$), ($$'s', 'g', 'shift'$$),
	($$'s', 'g', 'shift x'$$), ($$'s', 'g', 'datetime x'$$), ($$'s', 'g', 'duration x'$$), ($$'s', 'g', '5'$$)) AS v (arguments);

-- In transactions.
BEGIN;
SELECT * FROM stream.reset_offsets('s', 'g', 'earliest', execute => true);
SELECT count(*) FROM stream.consume('s', 'g');
SELECT * FROM stream.reset_offsets('s', 'g', 'offset 14', execute => true);
SELECT "partition", record_offset FROM stream.consume('s', 'g') ORDER BY 1, 2;
ROLLBACK;
TABLE offsets;
-- a statement that consumes does not see a reset of its own
BEGIN;
SELECT r."partition", new_offset, (SELECT count(*) FROM stream.consume('s', 'g', 100 + r."partition")) AS records
FROM stream.reset_offsets('s', 'g', 'latest', execute => true) r;
ROLLBACK;
SELECT count(*) FROM stream.consume('s', 'g', autocommit => true);
TABLE offsets;

-- Holes: a target among them, and the watermark behind them.
BEGIN; SELECT count(stream.publish('s', 'lost', '0', "partition" => 2)) FROM generate_series(1, 5); ROLLBACK;
SELECT * FROM stream.reset_offsets('s', 'g', 'offset 3', '{2}', execute => true);
TABLE offsets;
SELECT * FROM stream.reset_offsets('s', 'g', 'latest', '{2}', execute => true);
-- below the log start
UPDATE stream_internal.partitions SET log_start_offset = 4 WHERE "partition" = 0
	AND stream_id = (SELECT stream_id FROM stream_internal.streams WHERE stream = 's');
SELECT stream.alter_stream('s', compression => 'lz4');
SELECT * FROM stream.reset_offsets('s', 'g', 'offset 2', '{0,1}', execute => true);
SELECT * FROM stream.reset_offsets('s', 'g', 'earliest', '{0,1}', execute => true);
SELECT * FROM stream.reset_offsets('s', 'g', 'shift -1', '{0}', execute => true);
SELECT * FROM stream.reset_offsets('s', 'g', 'datetime -infinity', '{0,1}');
-- and back from it
UPDATE stream_internal.partitions SET log_start_offset = 8 WHERE "partition" = 0
	AND stream_id = (SELECT stream_id FROM stream_internal.streams WHERE stream = 's');
SELECT stream.alter_stream('s', compression => 'lz4');
SELECT failure($$SELECT * FROM stream.consume('s', 'g', autocommit => true)$$);
SELECT * FROM stream.reset_offsets('s', 'g', 'current', execute => true);
SELECT "partition", count(*), min(record_offset) FROM stream.consume('s', 'g', autocommit => true) GROUP BY 1 ORDER BY 1;
SELECT sum(records_skipped) FROM stream.consumer_lag;

DROP VIEW offsets;
SELECT stream.drop_stream('s');
