-- The view group_status, and scaling_advice: relations between columns, since rates depend on the clock.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 2);
SELECT stream.create_consumer_group('s', 'g');
SELECT stream.create_consumer_group('s', 'other', on_offset_out_of_range => 'latest', max_poll_interval => '90 s');
CREATE VIEW status AS
	SELECT consumer_group AS g, state, paused, members, workers, partitions, lag, oldest_unread_at IS NOT NULL AS unread, lag_seconds > 0 AS late,
		arrival_rate > 0 AS arrives, worker_rate IS NOT NULL AS measured, capacity IS NULL AS no_capacity, utilization IS NULL AS no_utilization
	FROM stream.group_status ORDER BY 1;
CREATE VIEW relations AS
	SELECT consumer_group AS g, abs(capacity - worker_rate * least(workers, partitions)) < 1e-6 AS capacity, abs(utilization - arrival_rate / capacity) < 1e-9 AS utilization,
		abs(headroom - (1 - utilization)) < 1e-9 AS headroom,
		abs(headroom_one_worker_fewer - (1 - arrival_rate / (worker_rate * nullif(least(workers - 1, partitions), 0)))) < 1e-9 AS one_fewer,
		measured_at BETWEEN committed_at AND clock_timestamp() AS measured_at
	FROM stream.group_status ORDER BY 1;
CREATE VIEW advice AS
	SELECT target, a.workers, a.limited_by_partitions AS limited, a.lag, a.note,
		a.workers = least(2, ceil((a.lag / extract(epoch FROM target)::float8 + a.arrival_rate) / a.worker_rate)) AS as_defined
	FROM unnest('{1 ms,1 s,1 min,1 hour,24 days}'::interval[]) target, stream.scaling_advice('s', 'g', target) a ORDER BY 1;
CREATE FUNCTION take(n int) RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM stream.consume('s', 'g', n) $$;

-- Nothing yet: a stream of less than a second has no rate, and nothing was consumed.
UPDATE stream_internal.streams SET created_at = created_at + interval '1 hour';
SELECT stream.alter_stream('s', compression => 'lz4');
TABLE status;
SELECT workers, arrival_rate, note FROM stream.scaling_advice('s', 'g', '1 s');
UPDATE stream_internal.streams SET created_at = created_at - interval '1 hour 2 s';
SELECT stream.alter_stream('s', compression => 'lz4');
TABLE status;
TABLE advice;
-- a call that finds nothing is one of somebody
SELECT take(10);
TABLE status;
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => g % 2)) FROM generate_series(1, 1000) g;
TABLE status;
TABLE advice;

-- Measured on full batches only.
SELECT take(2000);
TABLE status;
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => g % 2)) FROM generate_series(1, 1000) g;
-- rolled back: nothing
BEGIN; SELECT take(100); ROLLBACK;
BEGIN; SAVEPOINT a; SELECT take(100); ROLLBACK TO a; COMMIT;
TABLE status;
-- that of exactly all there is was not full
SELECT take(1000);
TABLE status;
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => g % 2)) FROM generate_series(1, 1000) g;
SELECT take(100);
TABLE status;
TABLE relations;
-- by bytes too, and several calls in a transaction
SELECT measured_at AS before FROM stream.group_status WHERE consumer_group = 'g' \gset
SELECT count(*) > 0 FROM stream.consume('s', 'g', NULL, 100, autocommit => true);
SELECT measured_at > :'before' AS measured FROM stream.group_status WHERE consumer_group = 'g';
SELECT measured_at AS before FROM stream.group_status WHERE consumer_group = 'g' \gset
BEGIN; SELECT take(10), pg_sleep(0.01); SELECT take(1000) > 0; COMMIT;
SELECT measured_at > :'before' AS measured FROM stream.group_status WHERE consumer_group = 'g';
-- the rate is that of the time it took: 100 records in a tenth of a second and more, again and again
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => g % 2)) FROM generate_series(1, 4000) g;
DO $$ BEGIN
	FOR i IN 1..30 LOOP
		PERFORM take(100);
		PERFORM pg_sleep(0.05);
		COMMIT;
	END LOOP;
END $$;
SELECT worker_rate BETWEEN 1 AND 3000 AS slow FROM stream.group_status WHERE consumer_group = 'g';

-- Advice: as defined, and bounded by the partitions.
SELECT target, lag, as_defined, (note IS NOT NULL) = limited AS noted FROM advice;
SELECT workers, limited_by_partitions, note ~ 'it catches up in \d+ s|arrive faster' AS says_when FROM stream.scaling_advice('s', 'g', '1 ms');
SELECT failure($$SELECT stream.scaling_advice('s', 'g', '0')$$);
SELECT failure($$SELECT stream.scaling_advice('s', 'g', '-1 s')$$);
SELECT failure($$SELECT stream.scaling_advice('s', 'missing', '1 s')$$);
SELECT failure($$SELECT stream.scaling_advice('missing', 'g', '1 s')$$);
SELECT failure($$SELECT stream.scaling_advice('s', 'g', NULL)$$);
SELECT workers FROM stream.scaling_advice('s', 'other', '1 s');

-- Options and pauses.
SELECT consumer_group, state, paused, on_offset_out_of_range, max_poll_interval FROM stream.group_status ORDER BY 1;
SELECT stream.pause_consumer_group('s', 'g');
SELECT paused FROM stream.group_status WHERE consumer_group = 'g';
SELECT stream.resume_consumer_group('s', 'g');

-- Two sessions would be two workers, of which each partition takes one at a time: here is one.
SELECT workers, headroom_one_worker_fewer IS NULL AS no_other FROM stream.group_status WHERE consumer_group = 'g';

-- With members: their number counts, and who has a partition is shown.
SELECT member_id, member_epoch FROM stream.join_group('s', 'other', 'm1') \gset
SELECT consumer_group, state, group_epoch, target_epoch, members, workers FROM stream.group_status WHERE consumer_group = 'other';
SELECT "partition", member_id FROM stream.consumer_lag WHERE consumer_group = 'other' ORDER BY 1;
SELECT member_epoch AS epoch2 FROM stream.join_group('s', 'other', 'm2') \gset
SELECT consumer_group, state, members, workers FROM stream.group_status WHERE consumer_group = 'other';
SELECT "partition", member_id FROM stream.consumer_lag WHERE consumer_group = 'other' ORDER BY 1;
SELECT member_epoch, assigned, revoking FROM stream.heartbeat('s', 'other', 'm1', :member_epoch, '{0,1}') \gset
SELECT state FROM stream.group_status WHERE consumer_group = 'other';
SELECT member_epoch FROM stream.heartbeat('s', 'other', 'm1', :member_epoch, :'assigned') \gset
SELECT assigned, member_epoch AS epoch2 FROM stream.heartbeat('s', 'other', 'm2', :epoch2, '{}') \gset
SELECT :'assigned' AS assigned;
SELECT state FROM stream.group_status WHERE consumer_group = 'other';
SELECT "partition", member_id FROM stream.consumer_lag WHERE consumer_group = 'other' ORDER BY 1;
-- what a member polls is processed when it goes on behind it, or has committed it
CREATE PROCEDURE poll_slowly(after stream.record_position[], commits stream.record_position[], epoch int, INOUT last text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_sleep(0.02);
	SELECT max(stream.record_position(p."partition", p.record_offset)::text) INTO last
	FROM stream.poll('s', 'other', 'm2', epoch, after, commits, 10) p;
END $$;
CREATE VIEW measured AS SELECT worker_rate BETWEEN 1 AND 500 AS slow FROM stream.group_status WHERE consumer_group = 'other';
CALL poll_slowly(NULL, NULL, :epoch2, NULL) \gset
-- the answer was lost
CALL poll_slowly(NULL, NULL, :epoch2, NULL) \gset
TABLE measured;
CALL poll_slowly(ARRAY[:'last']::stream.record_position[], NULL, :epoch2, NULL) \gset
TABLE measured;
SELECT measured_at AS before FROM stream.group_status WHERE consumer_group = 'other' \gset
CALL poll_slowly(NULL, ARRAY[:'last']::stream.record_position[], :epoch2, NULL) \gset
SELECT measured_at > :'before' AS measured FROM stream.group_status WHERE consumer_group = 'other';
SELECT measured_at AS before FROM stream.group_status WHERE consumer_group = 'other' \gset
SELECT stream.commit_offsets('s', 'other', 'm2', :epoch2, ARRAY[:'last']::stream.record_position[]);
CALL poll_slowly(NULL, NULL, :epoch2, NULL) \gset
SELECT measured_at > :'before' AS measured FROM stream.group_status WHERE consumer_group = 'other';
TABLE measured;
DROP VIEW measured;
DROP PROCEDURE poll_slowly;
SELECT stream.drop_consumer_group('s', 'other'); \echo :SQLSTATE

-- Privileges.
CREATE ROLE regress_stream_nobody;
SET ROLE regress_stream_nobody;
SELECT count(*) FROM stream.group_status;
SELECT stream.scaling_advice('s', 'g', '1 s'); \echo :SQLSTATE
RESET ROLE;
DROP ROLE regress_stream_nobody;

DROP VIEW status, relations, advice;
DROP FUNCTION take;
SELECT stream.drop_stream('s');
SELECT count(*) FROM stream.group_status;
