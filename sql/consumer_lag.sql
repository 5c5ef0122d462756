-- The view consumer_lag.
\set SHOW_CONTEXT never
CREATE VIEW lag AS
	SELECT "partition", committed_offset AS committed, high_watermark AS watermark, lag, oldest_unread_at IS NOT NULL AS unread,
		lag_seconds > 0 AS late, pid = pg_backend_pid() AS own, "user" = current_user AS own_user, application_name AS application, records_skipped AS skipped
	FROM stream.consumer_lag WHERE stream = 's' AND consumer_group = 'g' ORDER BY 1;
CREATE PROCEDURE take(n int) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM FROM stream.consume('s', 'g', n);
END
$$;
SELECT count(*) FROM stream.consumer_lag;
SELECT stream.create_stream('s', 2);
SELECT count(*) FROM stream.consumer_lag;
SELECT stream.create_consumer_group('s', 'g');

-- Nothing yet; then records, and a consumer that stops.
TABLE lag;
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => 0)) FROM generate_series(1, 10) g;
TABLE lag;
CALL take(4);
TABLE lag;
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => 0)) FROM generate_series(1, 10) g;
TABLE lag;
-- the oldest unread record's time, and its age
SELECT l.oldest_unread_at = r.published_at AS is_its_time,
	abs(extract(epoch FROM clock_timestamp() - r.published_at) - l.lag_seconds) < 1 AS is_its_age,
	l.committed_at BETWEEN r.published_at AND clock_timestamp() AS has_time
FROM stream.consumer_lag l, stream.read('s', 0, l.committed_offset, 1) r WHERE l."partition" = 0;
-- within the transaction the own offset is seen, and who has the partition
SET application_name = 'regress consumer';
BEGIN;
CALL take(3);
TABLE lag;
SAVEPOINT a;
CALL take(100);
TABLE lag;
ROLLBACK TO a;
TABLE lag;
ROLLBACK;
TABLE lag;
RESET application_name;

-- Back to zero, over holes too.
CALL take(100);
TABLE lag;
BEGIN;
SELECT count(stream.publish('s', 'lost', '0', "partition" => p)) FROM generate_series(1, 7), generate_series(0, 1) p;
-- what is held back is late, though it cannot be read
TABLE lag;
ROLLBACK;
TABLE lag;
CALL take(100);
TABLE lag;
-- holes before, between and behind records
BEGIN; SELECT count(stream.publish('s', 'lost', '0', "partition" => 0)) FROM generate_series(1, 3); ROLLBACK;
SELECT stream.publish('s', 'k', '1', "partition" => 0);
BEGIN; SELECT count(stream.publish('s', 'lost', '0', "partition" => 0)) FROM generate_series(1, 3); ROLLBACK;
SELECT stream.publish('s', 'k', '2', "partition" => 0);
BEGIN; SELECT count(stream.publish('s', 'lost', '0', "partition" => 0)) FROM generate_series(1, 3); ROLLBACK;
CALL take(1);
TABLE lag;
CALL take(100);
TABLE lag;
-- with a call that ends at the last record, the next one passes the holes
SELECT stream.publish('s', 'k', '3', "partition" => 0);
BEGIN; SELECT count(stream.publish('s', 'lost', '0', "partition" => 0)) FROM generate_series(1, 3); ROLLBACK;
CALL take(1);
CALL take(1);
TABLE lag;

-- Across segments.
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => 0)) FROM generate_series(1, 10) g;
CALL stream.roll_segment('s');
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => 0)) FROM generate_series(1, 10) g;
CALL stream.roll_segment('s');
TABLE lag;
CALL take(15);
TABLE lag;
CALL take(100);
TABLE lag;

-- Each group has its own.
SELECT stream.create_consumer_group('s', 'late', 'earliest');
SELECT stream.create_consumer_group('s', 'new', 'latest');
SELECT consumer_group, "partition", lag FROM stream.consumer_lag ORDER BY 1, 2;
-- and each stream
SELECT stream.create_stream('other');
SELECT stream.create_consumer_group('other', 'g');
SELECT stream.publish('other', 'k', '1');
SELECT consumer_group, stream, lag FROM stream.consumer_lag WHERE stream = 'other';
TABLE lag;

-- A removed beginning of the log: what is lost counts until it is passed.
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => 1)) FROM generate_series(1, 10) g;
UPDATE stream_internal.partitions SET log_start_offset = 12 WHERE "partition" = 1
	AND stream_id = (SELECT stream_id FROM stream_internal.streams WHERE stream = 's');
SELECT stream.alter_stream('s', compression => 'lz4');
TABLE lag;
SELECT stream.alter_consumer_group('s', 'g', 'earliest');
CALL take(1);
TABLE lag;

DROP VIEW lag;
DROP PROCEDURE take;
SELECT stream.drop_stream('s');
SELECT stream.drop_stream('other');
SELECT count(*) FROM stream.consumer_lag;
