-- Shared memory and open publishers, as the views show them.
SELECT stream.create_stream('s', 4);
SELECT used AS partitions FROM stream.memory_status WHERE area = 'partitions' \gset
SELECT area, used >= 0 AS has_used, capacity > used AS has_room, bytes >= capacity AS has_bytes, setting,
	area = 'waiters' OR capacity = current_setting(setting)::int AS as_set
FROM stream.memory_status WHERE area <> 'databases' ORDER BY area;

-- Only a reservation makes a partition's state: no reader does, nor a view.
SELECT count(*) FROM records('s');
SELECT count(*) FROM streams.s;
SELECT stream.wait_for_offset('s', '0:0', '0'), stream.offset_at('s', 0, now());
SELECT count(*) FROM stream.verify_log('s');
SELECT count(*) FROM offsets('s');
CALL stream.roll_segment('s');
SELECT used - :partitions AS partitions FROM stream.memory_status WHERE area = 'partitions';

BEGIN;
SELECT stream.publish('s', NULL, '1', "partition" => 0), stream.publish('s', NULL, '1', "partition" => 2), stream.publish('s', NULL, '1', "partition" => 2);
SELECT area, used - CASE area WHEN 'partitions' THEN :partitions ELSE 0 END AS used FROM stream.memory_status WHERE area IN ('members', 'partitions', 'publishers', 'waiters') ORDER BY area;
SELECT pid = pg_backend_pid() AS mine, "user" = current_user AS me, application_name = current_setting('application_name') AS application,
	stream, "partition", first_offset, age BETWEEN '0' AND '1 minute' AS has_age
FROM stream.open_publishers ORDER BY stream, "partition";
SELECT "partition", records_held_back, seconds_held_back > 0 AND seconds_held_back < 60 AS for_a_time, seconds_held_back = 0 AS not_at_all
FROM stream.partition_status WHERE stream = 's' ORDER BY 1;
-- one entry a partition, however deep; the first offset stays
SAVEPOINT a;
SELECT stream.publish('s', NULL, '1', "partition" => 2);
SAVEPOINT b;
SELECT stream.publish('s', NULL, '1', "partition" => 3);
SELECT stream, "partition", first_offset FROM stream.open_publishers ORDER BY 2;
ROLLBACK TO a;
SELECT stream, "partition", first_offset FROM stream.open_publishers ORDER BY 2;
SELECT area, used - CASE area WHEN 'partitions' THEN :partitions ELSE 0 END AS used FROM stream.memory_status WHERE area IN ('members', 'partitions', 'publishers', 'waiters') ORDER BY area;
COMMIT;
SELECT area, used - CASE area WHEN 'partitions' THEN :partitions ELSE 0 END AS used FROM stream.memory_status WHERE area IN ('members', 'partitions', 'publishers', 'waiters') ORDER BY area;
SELECT count(*) FROM stream.open_publishers;

-- Nothing leaks in many transactions, whatever their ends.
DO $$
BEGIN
	FOR i IN 1..200 LOOP
		PERFORM stream.publish('s', NULL, to_jsonb(i));
		BEGIN
			PERFORM stream.publish('s', NULL, to_jsonb(i));
			PERFORM stream.publish('s', NULL, NULL::jsonb);
		EXCEPTION WHEN null_value_not_allowed THEN
			NULL;
		END;
		IF i % 2 = 0 THEN COMMIT; ELSE ROLLBACK; END IF;
	END LOOP;
END
$$;
SELECT area, used - CASE area WHEN 'partitions' THEN :partitions ELSE 0 END AS used FROM stream.memory_status WHERE area IN ('members', 'partitions', 'publishers', 'waiters') ORDER BY area;
SELECT sum(held_back), sum(log_end) - 5 AS issued, sum(records) - 3 AS kept FROM offsets('s');

-- A dropped stream's state goes at the commit, that of one never committed at the rollback.
BEGIN;
SELECT stream.drop_stream('s');
SELECT used - :partitions AS partitions FROM stream.memory_status WHERE area = 'partitions';
ROLLBACK;
SELECT used - :partitions AS partitions FROM stream.memory_status WHERE area = 'partitions';
SELECT stream.drop_stream('s');
SELECT used - :partitions AS partitions FROM stream.memory_status WHERE area = 'partitions';
BEGIN;
SELECT stream.create_stream('s', 4);
SELECT count(stream.publish('s', NULL, '1')) FROM generate_series(1, 4);
SELECT used - :partitions AS partitions FROM stream.memory_status WHERE area = 'partitions';
ROLLBACK;
SELECT used - :partitions AS partitions FROM stream.memory_status WHERE area = 'partitions';
BEGIN;
SAVEPOINT a;
SELECT stream.create_stream('s', 4);
SAVEPOINT b;
SELECT count(stream.publish('s', NULL, '1')) FROM generate_series(1, 4);
RELEASE b;
ROLLBACK TO a;
SELECT area, used - CASE area WHEN 'partitions' THEN :partitions ELSE 0 END AS used FROM stream.memory_status WHERE area IN ('members', 'partitions', 'publishers', 'waiters') ORDER BY area;
COMMIT;
-- created and dropped by one transaction that commits
BEGIN;
SELECT stream.create_stream('s', 4);
SELECT count(stream.publish('s', NULL, '1')) FROM generate_series(1, 4);
SELECT stream.drop_stream('s');
COMMIT;
SELECT area, used - CASE area WHEN 'partitions' THEN :partitions ELSE 0 END AS used FROM stream.memory_status WHERE area IN ('members', 'partitions', 'publishers', 'waiters') ORDER BY area;

-- Settings.
SELECT name, boot_val, unit, context, vartype, min_val, short_desc <> '' AS has_description FROM pg_settings
WHERE name LIKE 'stream.%' ORDER BY name;
\set VERBOSITY sqlstate
SET stream.max_partitions = 100;
SET stream.max_publishers = 100;
SET stream.publish_timeout = -1;
SET stream.publish_timeout = 'soon';
SET stream.max_wait = -1;
SET stream.max_waits = 1;
\set VERBOSITY default
-- a timeout that does not come
SELECT stream.create_stream('s');
SET stream.publish_timeout = '1 min';
SHOW stream.publish_timeout;
BEGIN;
SELECT stream.publish('s', NULL, '1');
SAVEPOINT a;
SELECT stream.publish('s', NULL, '2');
ROLLBACK TO a;
COMMIT;
RESET stream.publish_timeout;
-- nor one that was short, once the publishing has ended
SET stream.publish_timeout = '1 s';
SELECT stream.publish('s', NULL, '3');
BEGIN;
SAVEPOINT a;
SELECT stream.publish('s', NULL, '4');
ROLLBACK TO a;
SELECT pg_sleep(1.1);
COMMIT;
RESET stream.publish_timeout;
SELECT value FROM records('s');
SELECT stream.drop_stream('s');
