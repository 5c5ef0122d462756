-- Segments: roll, seal, and their views.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 3);
CREATE VIEW segments AS
SELECT segment_no, state, records, batches, offset_ranges, sealed_at IS NOT NULL AS sealed, sealed_at >= created_at AS in_order,
	first_published_at <= last_published_at AS has_times, bytes > 0 AS has_bytes, total_bytes > 0 AS has_size, xid_age >= 0 AS has_age,
	to_regclass(table_name) IS NOT NULL AS has_table
FROM stream.segment_status WHERE stream = 's' ORDER BY 1;

-- An empty segment is not rolled.
SELECT * FROM segments;
CALL stream.roll_segment('s');
CALL stream.roll_segment('s');
SELECT * FROM segments;

-- One that has records is, and sealed, for nobody writes to it.
SELECT stream.publish('s', 'k' || g, to_jsonb(g)) IS NOT NULL AS published FROM generate_series(1, 3) g;
SELECT * FROM segments;
CALL stream.roll_segment('s');
SELECT * FROM segments;
CALL stream.roll_segment('s');
SELECT segment_no, state FROM segments;
SELECT stream, segments, records FROM stream.stream_status;
SELECT * FROM offsets('s');
SELECT * FROM records('s');
SELECT * FROM stream.verify_log('s');

-- Publishing and reading go on, over any number of segments.
DO $$
BEGIN
	FOR i IN 1..6 LOOP
		PERFORM stream.publish('s', NULL, to_jsonb(i * 100 + g), "partition" => i % 2) FROM generate_series(1, 20) g;
		COMMIT;
		CALL stream.roll_segment('s');
	END LOOP;
	PERFORM stream.publish('s', NULL, '"active"', "partition" => 0);
END
$$;
SELECT segment_no, state, records, offset_ranges FROM segments;
SELECT * FROM offsets('s');
SELECT sum(records), count(DISTINCT table_name) FROM stream.segment_status;
SELECT "partition", count(*), min(record_offset), max(record_offset),
	max(record_offset) - min(record_offset) + 1 - count(*) AS missing FROM records('s') GROUP BY 1 ORDER BY 1;
-- from every offset on, with few records a call, also where a segment has nothing of the partition
SELECT p, count(*) AS wrong
FROM offsets('s') o, LATERAL (SELECT o."partition" AS p, generate_series(0, o.log_end) AS f) f
WHERE (SELECT array_agg(record_offset) FROM stream.read('s', p, f, 5)) IS DISTINCT FROM
	(SELECT array_agg(g ORDER BY g) FROM generate_series(f, least(f + 5, o.log_end) - 1) g)
GROUP BY p;
SELECT count(*) FROM streams.s;
SELECT stream.offset_at('s', 0, 'infinity');
SELECT * FROM stream.verify_log('s');
SELECT records, bytes > 0 AS has_bytes FROM stream.stream_status;

-- With publishers in the transaction that calls it: they are committed first.
SELECT count(*) AS before FROM segments \gset
DO $$
BEGIN
	PERFORM stream.publish('s', NULL, '"before the roll"', "partition" => 2);
	CALL stream.roll_segment('s');
	PERFORM stream.publish('s', NULL, '"after the roll"', "partition" => 2);
END
$$;
SELECT record_offset, value FROM stream.read('s', 2) WHERE value::text LIKE '%the roll%';
SELECT count(*) - :before AS more FROM segments;
SELECT state, offset_ranges[3] AS range FROM segments ORDER BY segment_no DESC LIMIT 2;
-- only what was rolled back was written to it
CALL stream.roll_segment('s');
BEGIN;
SELECT count(stream.publish('s', NULL, to_jsonb(noise))) FROM generate_series(1, 1000) g,
	LATERAL (SELECT string_agg(md5(g || ' ' || n), '') AS noise FROM generate_series(1, 60) n) n;
SELECT pg_relation_size(table_name::regclass) > 0 AS written FROM stream.segment_status WHERE state = 'active';
ROLLBACK;
CALL stream.roll_segment('s');
SELECT segment_no - :before AS segment_no, state, records, batches, offset_ranges FROM segments WHERE segment_no > :before;
SELECT * FROM stream.verify_log('s');
SELECT stream.publish('s', NULL, '"behind the hole"', "partition" => 2) IS NOT NULL AS published;
SELECT value FROM stream.read('s', 2) ORDER BY record_offset DESC LIMIT 2;

-- Where it cannot be called.
BEGIN;
CALL stream.roll_segment('s'); \echo :SQLSTATE
ROLLBACK;
BEGIN;
SAVEPOINT a;
CALL stream.roll_segment('s'); \echo :SQLSTATE
ROLLBACK;
CREATE FUNCTION roll() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL stream.roll_segment('s'); END $$;
SELECT roll(); \echo :SQLSTATE
DROP FUNCTION roll;
DO $$
BEGIN
	BEGIN
		CALL stream.roll_segment('s');
	EXCEPTION WHEN division_by_zero THEN
		NULL;
	END;
END
$$; \echo :SQLSTATE
SELECT stream.roll_segment('s'); \echo :SQLSTATE
SET default_transaction_read_only = on;
CALL stream.roll_segment('s'); \echo :SQLSTATE
RESET default_transaction_read_only;
CALL stream.roll_segment(NULL); \echo :SQLSTATE
CALL stream.roll_segment(''); \echo :SQLSTATE
CALL stream.roll_segment('nobody'); \echo :SQLSTATE
CALL stream.roll_segment(repeat('n', 64)); \echo :SQLSTATE
CREATE ROLE regress_stream_other;
GRANT SELECT, INSERT ON streams.s TO regress_stream_other;
SET ROLE regress_stream_other;
CALL stream.roll_segment('s'); \echo :SQLSTATE
RESET ROLE;
DROP OWNED BY regress_stream_other;
DROP ROLE regress_stream_other;
-- none of them left a lock
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype IN ('object', 'relation') AND mode <> 'AccessShareLock';
SELECT count(*) FROM stream.progress;
CALL stream.roll_segment('s');
SELECT state FROM segments ORDER BY segment_no DESC LIMIT 2;

-- A sealed segment's table asks to be frozen, once; the active one never for what is inserted.
SELECT reloptions @> '{autovacuum_vacuum_insert_threshold=0,autovacuum_vacuum_insert_scale_factor=0,autovacuum_freeze_min_age=0}' AS frozen_soon, count(*)
FROM stream.segment_status JOIN pg_class c ON c.oid = table_name::regclass WHERE state = 'sealed' GROUP BY 1;
SELECT reloptions @> '{autovacuum_vacuum_insert_threshold=-1}' AS not_yet, count(*)
FROM stream.segment_status JOIN pg_class c ON c.oid = table_name::regclass WHERE state = 'active' GROUP BY 1;
SELECT table_name AS sealed FROM stream.segment_status WHERE segment_no = 2 \gset
SELECT xid_age AS before FROM stream.segment_status WHERE segment_no = 2 \gset
VACUUM (FREEZE) :sealed;
SELECT xid_age < :before AS younger FROM stream.segment_status WHERE segment_no = 2;
SELECT count(*), sum(records) - (SELECT count(*) FROM records('s')) AS differ FROM stream.segment_status;
SELECT * FROM stream.verify_log('s');

-- verify_log's arguments
SELECT * FROM stream.verify_log(NULL); \echo :SQLSTATE
SELECT * FROM stream.verify_log(''); \echo :SQLSTATE
SELECT * FROM stream.verify_log('nobody'); \echo :SQLSTATE

-- A dropped stream takes all its segments along.
DROP VIEW segments;
SELECT stream.drop_stream('s');
SELECT * FROM left_over();
