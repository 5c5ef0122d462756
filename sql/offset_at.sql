-- The offset at a time.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 3);
SELECT stream.offset_at('s', 0, 'infinity'), stream.offset_at('s', 0, '-infinity'), stream.offset_at('s', 0, now());

-- One record a transaction.
SELECT clock_timestamp() AS begin \gset
DO $$
BEGIN
	FOR i IN 1..50 LOOP
		PERFORM stream.publish('s', NULL, to_jsonb(i), "partition" => 0);
		IF i % 7 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
END
$$;
SELECT clock_timestamp() AS middle \gset
-- many in one transaction, by one call and by many
SELECT count(*) FROM stream.publish_batch('s', NULL, array_fill('"batch"'::jsonb, ARRAY[600])) p;
SELECT count(stream.publish('s', NULL, to_jsonb(g), "partition" => 0)) FROM generate_series(1, 1000) g;
SELECT clock_timestamp() AS after \gset
SELECT stream.offset_at('s', 0, :'begin'), stream.offset_at('s', 0, :'middle'), stream.offset_at('s', 0, :'after'),
	stream.offset_at('s', 0, '-infinity') AS start, stream.offset_at('s', 0, 'infinity') AS "end", stream.offset_at('s', 1, :'begin') AS other;
SELECT watermark FROM offsets('s');
-- against all records: the first one published at or after that time, and nowhere a step back
CREATE VIEW wrong AS
WITH r AS MATERIALIZED (SELECT r.* FROM generate_series(0, 2) p, stream.read('s', p, NULL, NULL, NULL) r),
	w AS MATERIALIZED (SELECT "partition", watermark FROM offsets('s')),
	t AS (SELECT p, published_at + d * interval '1 microsecond' AS at FROM generate_series(0, 2) p,
		(SELECT DISTINCT published_at FROM r WHERE record_offset < 60 OR record_offset % 50 < 2) r, generate_series(-1, 1) d)
SELECT count(*) AS asked, count(*) FILTER (WHERE stream.offset_at('s', p, at) IS DISTINCT FROM coalesce(
	(SELECT min(record_offset) FROM r WHERE "partition" = p AND published_at >= at), (SELECT watermark FROM w WHERE "partition" = p))) AS wrong
FROM t;
SELECT asked > 100 AS enough, wrong FROM wrong;
SELECT count(*) FROM (
	SELECT published_at, lag(published_at) OVER (PARTITION BY "partition" ORDER BY record_offset) AS previous
	FROM generate_series(0, 2) p, stream.read('s', p, NULL, NULL, NULL)) r
WHERE published_at < previous;
-- over several segments, one of which has nothing of a partition
CALL stream.roll_segment('s');
SELECT count(stream.publish('s', NULL, to_jsonb(g), "partition" => 2)) FROM generate_series(1, 10) g;
CALL stream.roll_segment('s');
SELECT count(stream.publish('s', NULL, to_jsonb(g), "partition" => 0)) FROM generate_series(1, 10) g;
SELECT asked > 100 AS enough, wrong FROM wrong;
CALL stream.roll_segment('s');
SELECT asked > 100 AS enough, wrong FROM wrong;
SELECT stream.offset_at('s', p, 'infinity') AS "end", watermark FROM generate_series(0, 2) p JOIN offsets('s') ON "partition" = p;
-- a tail that was rolled back, and one that is in flight
BEGIN;
SELECT count(stream.publish('s', NULL, '1', "partition" => 1)) FROM generate_series(1, 5);
ROLLBACK;
SELECT log_end AS before FROM offsets('s') WHERE "partition" = 1 \gset
BEGIN;
SELECT clock_timestamp() AS now \gset
SELECT count(stream.publish('s', NULL, '1', "partition" => 1)) FROM generate_series(1, 5);
SELECT stream.offset_at('s', 1, :'now') - :before AS behind, stream.offset_at('s', 1, 'infinity') - :before AS behind;
COMMIT;
SELECT stream.offset_at('s', 1, :'now') - :before AS behind, stream.offset_at('s', 1, 'infinity') - :before AS behind;

-- What is wrong with the arguments.
SELECT stream.offset_at('s', 3, now()); \echo :SQLSTATE
SELECT stream.offset_at('s', -1, now()); \echo :SQLSTATE
SELECT stream.offset_at('s', NULL, now()); \echo :SQLSTATE
SELECT stream.offset_at('s', 0, NULL); \echo :SQLSTATE
SELECT stream.offset_at(NULL, 0, now()); \echo :SQLSTATE
SELECT stream.offset_at('nobody', 0, now()); \echo :SQLSTATE
SELECT stream.offset_at('', 0, now()); \echo :SQLSTATE
-- the type of the values does not matter
SELECT stream.create_stream('bytes', 1, 'bytea');
SELECT stream.publish_bytes('bytes', 'k', '1');
SELECT stream.offset_at('bytes', 0, '-infinity'), stream.offset_at('bytes', 0, 'infinity');

DROP VIEW wrong;
SELECT stream.drop_stream('s'), stream.drop_stream('bytes');
