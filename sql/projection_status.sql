-- What projection_status measures: capacity on batches that left records behind, and what follows from it.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 2);
CREATE TABLE t (k text PRIMARY KEY, n int);
SELECT stream.create_projection('t', 's', 't', 'SELECT key AS k, value::int AS n FROM batch', '{"n": "max"}', workers => 2, batch_records => 10);
CREATE VIEW measured AS SELECT measured_at, worker_rate, capacity, utilization, headroom, headroom_one_worker_fewer, downtime_share
	FROM stream.projection_status WHERE projection = 't';

-- one record after the other, or a batch that is just full, is no backlog
SELECT stream.publish('s', 'k', '1', partition => 0) AS position \gset
SELECT stream.wait_for('t', ARRAY[:'position']::stream.record_position[]);
SELECT count(*) FROM (SELECT stream.publish('s', 'k', to_jsonb(i), partition => 0) FROM generate_series(1, 10) i) p;
SELECT stream.wait_for('t');
TABLE measured;
SELECT stream.stale_after('t', '1 h');

-- a backlog is
SELECT stream.pause_projection('t');
SELECT count(*) FROM (SELECT stream.publish('s', 'k' || i, to_jsonb(i), partition => i % 2) FROM generate_series(1, 100) i) p;
SELECT state, lag, lag_seconds > 0 AS stale, catch_up_seconds FROM stream.projection_status;
SELECT stream.resume_projection('t');
SELECT stream.wait_for('t');
SELECT lag, lag_seconds, catch_up_seconds, worker_rate > 0 AS worker_rate, abs(capacity - 2 * worker_rate) < 1e-6 AS capacity,
	(abs(utilization - arrival_rate / capacity) < 1e-9) IS NOT FALSE AS utilization, (abs(headroom - (1 - utilization)) < 1e-9) IS NOT FALSE AS headroom,
	(abs(headroom_one_worker_fewer - (1 - arrival_rate / worker_rate)) < 1e-9) IS NOT FALSE AS one_fewer,
	(downtime_share = greatest(headroom, 0)) IS NOT FALSE AS downtime_share
FROM stream.projection_status;
SELECT count(*), sum(n) FROM t;
-- younger than a second, a stream has no rate of arrivals yet
SELECT CASE WHEN utilization IS NULL THEN stale IS NULL
		WHEN utilization < 1 THEN abs(extract(epoch FROM stale) * (1 - utilization) - 3600) < 360 ELSE stale IS NULL END AS stale_after
FROM measured, stream.stale_after('t', '1 h') AS stale;
DROP VIEW measured;
SELECT stream.drop_stream('s');
DROP TABLE t;
