-- Reading.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 2);
SELECT stream.create_stream('bytes', 1, 'bytea');

-- Nothing yet.
SELECT * FROM stream.read('s', 0);
SELECT * FROM stream.read('s', 0, 0);
SELECT * FROM stream.read('s', 0, 1); \echo :SQLSTATE

-- From an offset on, with limits.
SELECT count(stream.publish('s', 'key ' || g, to_jsonb(g), CASE WHEN g % 2 = 0 THEN jsonb_build_object('h', g) END, 0)) FROM generate_series(0, 249) g;
SELECT "partition", record_offset, key, value, headers, published_at BETWEEN now() - interval '1 hour' AND clock_timestamp() AS has_time
FROM stream.read('s', 0, 0, 3);
SELECT count(*), min(record_offset), max(record_offset) FROM stream.read('s', 0);
SELECT count(*), min(record_offset), max(record_offset) FROM stream.read('s', 0, NULL);
SELECT count(*), min(record_offset), max(record_offset) FROM stream.read('s', 0, 100);
SELECT count(*), min(record_offset), max(record_offset) FROM stream.read('s', 0, 240);
SELECT count(*), min(record_offset), max(record_offset) FROM stream.read('s', 0, 249);
SELECT count(*), min(record_offset), max(record_offset) FROM stream.read('s', 0, 10, 5);
SELECT count(*), min(record_offset), max(record_offset) FROM stream.read('s', 0, 10, NULL);
SELECT count(*), min(record_offset), max(record_offset) FROM stream.read('s', 0, 10, 2147483647);
SELECT count(*) FROM stream.read('s', 0, 10, 0);
SELECT count(*) FROM stream.read('s', 1);
SELECT count(*) FILTER (WHERE value <> to_jsonb(record_offset) OR key <> 'key ' || record_offset
	OR headers IS DISTINCT FROM CASE WHEN record_offset % 2 = 0 THEN jsonb_build_object('h', record_offset) END) AS wrong
FROM stream.read('s', 0, max_records => NULL, max_bytes => NULL);
-- as a reader does it: from where the last call ended
CREATE FUNCTION follow(stream text, p int, step int) RETURNS TABLE (calls int, n int, in_order boolean) LANGUAGE plpgsql AS $$
DECLARE
	next bigint := 0;
	got int;
	r record;
BEGIN
	calls := 0;
	n := 0;
	in_order := true;
	LOOP
		got := 0;
		FOR r IN SELECT * FROM stream.read(stream, p, next, step) LOOP
			in_order := in_order AND r.record_offset >= next;
			next := r.record_offset + 1;
			got := got + 1;
		END LOOP;
		calls := calls + 1;
		n := n + got;
		EXIT WHEN got = 0;
	END LOOP;
	RETURN NEXT;
END
$$;
SELECT * FROM follow('s', 0, 1);
SELECT * FROM follow('s', 0, 7);
SELECT * FROM follow('s', 0, 1000);
SELECT * FROM follow('s', 1, 1);

-- The log's end gives nothing; beyond it is an error, as no record was ever there.
SELECT * FROM stream.read('s', 0, 250);
SELECT * FROM stream.read('s', 0, 251); \echo :SQLSTATE
SELECT * FROM stream.read('s', 0, 9223372036854775807); \echo :SQLSTATE
SELECT * FROM stream.read('s', 1, 1); \echo :SQLSTATE
-- an offset that was issued and rolled back is a hole, and no error
BEGIN;
SELECT count(stream.publish('s', 'lost', '0', "partition" => 0)) FROM generate_series(1, 10);
-- what is in flight is not read, by its own transaction neither
SELECT * FROM stream.read('s', 0, 250);
SELECT * FROM stream.read('s', 0, 260);
SELECT * FROM stream.read('s', 0, 261); \echo :SQLSTATE
ROLLBACK;
SELECT * FROM stream.read('s', 0, 250);
SELECT * FROM stream.read('s', 0, 255);
SELECT * FROM stream.read('s', 0, 260);
SELECT * FROM stream.read('s', 0, 261); \echo :SQLSTATE
SELECT stream.publish('s', 'after', '1', "partition" => 0);
SELECT record_offset, key FROM stream.read('s', 0, 249);
SELECT record_offset, key FROM stream.read('s', 0, 252);
SELECT record_offset, key FROM stream.read('s', 0, 260);
SELECT * FROM follow('s', 0, 7);
-- holes in the middle, of any size
DO $$
BEGIN
	FOR i IN 1..60 LOOP
		PERFORM stream.publish('s', 'hole', to_jsonb(i), "partition" => 1) FROM generate_series(1, i % 9 * (i % 4) + 1);
		IF i % 3 = 0 THEN COMMIT; ELSE ROLLBACK; END IF;
	END LOOP;
END
$$;
SELECT count(*), max(record_offset) + 1 > count(*) AS has_holes FROM records('s') WHERE key = 'hole';
SELECT * FROM follow('s', 1, 5);
SELECT * FROM follow('s', 1, 1);
SELECT count(*) AS wrong FROM generate_series(0, (SELECT log_end FROM offsets('s') WHERE "partition" = 1)) o
WHERE (SELECT array_agg(record_offset) FROM stream.read('s', 1, o, 4)) IS DISTINCT FROM
	(SELECT array_agg(record_offset) FROM (SELECT record_offset FROM records('s') WHERE "partition" = 1 AND record_offset >= o ORDER BY 1 LIMIT 4) r);
-- one that is not committed hides none before it
BEGIN;
SELECT stream.publish('s', 'open', '1', "partition" => 1) IS NOT NULL AS published;
SELECT count(*) FROM stream.read('s', 1, max_records => NULL) WHERE key = 'open';
SELECT count(*) > 0 AS has_rest FROM stream.read('s', 1);
COMMIT;

-- A limit in bytes counts key, value and headers; the first record always comes.
SELECT count(stream.publish_bytes('bytes', 'k' || g, '\x0102030405060708')) FROM generate_series(0, 9) g;
SELECT record_offset FROM stream.read_bytes('bytes', 0, max_bytes => 30);
SELECT record_offset FROM stream.read_bytes('bytes', 0, max_bytes => 29);
SELECT record_offset FROM stream.read_bytes('bytes', 0, 8, max_bytes => 1);
SELECT record_offset FROM stream.read_bytes('bytes', 0, 8, max_bytes => 0);
SELECT count(*) FROM stream.read_bytes('bytes', 0, 8, 0, max_bytes => 0);
SELECT count(*) FROM stream.read_bytes('bytes', 0, max_bytes => NULL);
SELECT stream.publish_bytes('bytes', 'big', decode(repeat('ab', 3000000), 'hex')), stream.publish_bytes('bytes', 'small', '\x00');
SELECT record_offset, key, length(value) FROM stream.read_bytes('bytes', 0, 9);
SELECT record_offset, key, length(value) FROM stream.read_bytes('bytes', 0, 10);
SELECT record_offset, key, length(value) FROM stream.read_bytes('bytes', 0, 10, max_bytes => 3000009);
SELECT record_offset, key, length(value) FROM stream.read_bytes('bytes', 0, 10, max_bytes => 10000000);

-- What is wrong with the arguments.
SELECT * FROM stream.read('s', 0, 0, -1); \echo :SQLSTATE
SELECT * FROM stream.read('s', 0, 0, 1, -1); \echo :SQLSTATE
SELECT * FROM stream.read('s', 0, -1); \echo :SQLSTATE
SELECT * FROM stream.read('s', 0, -9223372036854775808); \echo :SQLSTATE
SELECT * FROM stream.read('s', 2); \echo :SQLSTATE
SELECT * FROM stream.read('s', -1); \echo :SQLSTATE
SELECT * FROM stream.read('s', NULL); \echo :SQLSTATE
SELECT * FROM stream.read(NULL, 0); \echo :SQLSTATE
SELECT * FROM stream.read('nobody', 0); \echo :SQLSTATE
SELECT * FROM stream.read('', 0); \echo :SQLSTATE
SELECT * FROM stream.read('bytes', 0); \echo :SQLSTATE
SELECT * FROM stream.read_bytes('s', 0); \echo :SQLSTATE
SELECT * FROM stream.read_bytes('bytes', 0, 0, -1); \echo :SQLSTATE
SELECT * FROM stream.read_bytes('bytes', 0, -1); \echo :SQLSTATE
SELECT * FROM stream.read_bytes('bytes', 1); \echo :SQLSTATE
SELECT * FROM stream.read_bytes('bytes', NULL); \echo :SQLSTATE
SELECT * FROM stream.read_bytes(NULL, 0); \echo :SQLSTATE
SELECT * FROM stream.read_bytes('bytes', 0, 13); \echo :SQLSTATE

-- Below the log start, as after retention.
SELECT stream.create_stream('old');
SELECT count(stream.publish('old', NULL, to_jsonb(g))) FROM generate_series(0, 19) g;
UPDATE stream_internal.partitions SET log_start_offset = 5
WHERE stream_id = (SELECT stream_id FROM stream_internal.streams WHERE stream = 'old');
-- catalogs are not meant to be updated by hand: this one's cache is
SELECT stream.alter_stream('old', compression => 'lz4');
SELECT * FROM stream.read('old', 0, 4); \echo :SQLSTATE
SELECT * FROM stream.read('old', 0, 0); \echo :SQLSTATE
SELECT record_offset, value FROM stream.read('old', 0, 5, 2);
SELECT record_offset, value FROM stream.read('old', 0, max_records => 2);
SELECT min(record_offset), count(*) FROM streams.old;
SELECT stream.offset_at('old', 0, '-infinity');
SELECT log_start, watermark FROM offsets('old');

-- In every kind of query.
SELECT r.record_offset, p FROM generate_series(0, 1) p, stream.read('s', p, 0, 2) r WHERE p = 0;
SELECT (stream.read('s', 0, 10, 2)).record_offset;
SELECT record_offset FROM stream.read('s', 0, 0, 100) ORDER BY record_offset DESC LIMIT 2;
BEGIN TRANSACTION READ ONLY;
SELECT count(*) FROM stream.read('s', 0, 0, 10);
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT record_offset FROM stream.read('s', 0, 0, 10);
FETCH 2 FROM c;
SELECT stream.publish('s', 'between', '1', "partition" => 0) IS NOT NULL AS published;
FETCH 2 FROM c;
COMMIT;
-- a table that is written in the record's transaction is seen beside the record
CREATE TABLE accounts (id int PRIMARY KEY, position stream.record_position);
BEGIN;
INSERT INTO accounts VALUES (1, stream.publish('s', 'account', '1'));
SELECT count(*) FROM records('s') WHERE key = 'account';
COMMIT;
SELECT a.id, r.value FROM accounts a JOIN records('s') r ON (r."partition", r.record_offset) = (stream.partition_of(a.position), stream.offset_of(a.position));

-- REPEATABLE READ reads what its snapshot shows, and its own records no more than others do.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) AS before FROM records('s') \gset
SELECT stream.publish('s', 'repeatable', '1') IS NOT NULL AS published;
SELECT count(*) - :before AS more FROM records('s');
COMMIT;
SELECT count(*) - :before AS more FROM records('s');

-- Rows as read() lays them out itself, around the sizes where a length word grows, are those of the table.
SELECT stream.create_stream('sizes');
SELECT count(stream.publish('sizes', CASE WHEN k >= 0 THEN repeat('k', k) END, to_jsonb(repeat('v', v)),
	CASE WHEN k % 2 = 0 THEN jsonb_build_object('h', repeat('h', k + v)) END))
FROM unnest(ARRAY[-1, 0, 1, 2, 3, 4, 5, 124, 125, 126, 127, 128, 129, 130]) k,
	unnest(ARRAY[0, 1, 2, 3, 4, 5, 6, 7, 100, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 10000]) v;
SELECT count(stream.publish_tombstone('sizes', repeat('k', k))) FROM generate_series(120, 130) k;
SELECT count(*), count(r.key) AS keys, count(r.value) AS record_values, count(r.headers) AS headers
FROM streams.sizes f JOIN stream.read('sizes', 0, NULL, NULL, NULL) r USING ("partition", record_offset)
WHERE (f.published_at, f.key, f.value, f.headers) IS NOT DISTINCT FROM (r.published_at, r.key, r.value, r.headers);

DROP TABLE accounts;
DROP FUNCTION follow;
SELECT stream.drop_stream('s'), stream.drop_stream('bytes'), stream.drop_stream('old'), stream.drop_stream('sizes');
