-- Subtransactions: what is rolled back is never read, what is not always is.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 2);

-- Savepoints, one by one.
BEGIN;
SELECT stream.publish('s', NULL, '"top"', "partition" => 0);
SAVEPOINT a;
SELECT stream.publish('s', NULL, '"a, rolled back"', "partition" => 0);
SAVEPOINT b;
SELECT stream.publish('s', NULL, '"b, rolled back with a"', "partition" => 0);
RELEASE b;
ROLLBACK TO a;
SELECT stream.publish('s', NULL, '"a"', "partition" => 0);
SAVEPOINT b;
SAVEPOINT c;
SELECT stream.publish('s', NULL, '"c, two levels down"', "partition" => 0);
RELEASE c;
SAVEPOINT d;
SELECT stream.publish('s', NULL, '"d, rolled back"', "partition" => 0);
ROLLBACK TO d;
RELEASE b;
SELECT stream.publish('s', NULL, '"top again"', "partition" => 0);
SELECT * FROM offsets('s');
COMMIT;
SELECT record_offset, value FROM records('s');
SELECT * FROM offsets('s');
SELECT * FROM stream.verify_log('s');

-- All of it is rolled back: a hole.
BEGIN;
SELECT stream.publish('s', NULL, '1', "partition" => 0);
SAVEPOINT a;
SELECT stream.publish('s', NULL, '1', "partition" => 0);
RELEASE a;
ROLLBACK;
SELECT * FROM offsets('s');
SELECT stream.publish('s', NULL, '"after the hole"', "partition" => 0);
SELECT record_offset, value FROM stream.read('s', 0, 6);

-- The watermark goes on when the only subtransaction that published is rolled back.
BEGIN;
SAVEPOINT a;
SELECT stream.publish('s', NULL, '1', "partition" => 1);
SELECT * FROM offsets('s');
SELECT first_offset FROM stream.open_publishers;
ROLLBACK TO a;
SELECT * FROM offsets('s');
SELECT count(*) FROM stream.open_publishers;
-- but not when an outer one has published as well
SELECT stream.publish('s', NULL, '2', "partition" => 1);
SAVEPOINT b;
SELECT stream.publish('s', NULL, '3', "partition" => 1);
ROLLBACK TO b;
SELECT * FROM offsets('s');
SELECT first_offset FROM stream.open_publishers;
COMMIT;
SELECT * FROM offsets('s');
-- nor when the subtransaction that published first is released
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
SELECT stream.publish('s', NULL, '4', "partition" => 1);
RELEASE b;
SAVEPOINT c;
SELECT stream.publish('s', NULL, '5', "partition" => 1);
ROLLBACK TO c;
SELECT first_offset FROM stream.open_publishers;
ROLLBACK TO a;
SELECT count(*) FROM stream.open_publishers;
COMMIT;
SELECT * FROM offsets('s');

-- Error and rollback with open levels.
BEGIN;
SELECT stream.publish('s', NULL, '1', "partition" => 0);
SAVEPOINT a;
SELECT stream.publish('s', NULL, '1', "partition" => 1);
SAVEPOINT b;
SELECT stream.publish('s', NULL, 'wrong');
SELECT stream.publish('s', NULL, '1');
ROLLBACK TO b;
SELECT stream.publish('s', NULL, '"b"', "partition" => 1);
SELECT 1 / 0;
ROLLBACK TO a;
SELECT stream.publish('s', NULL, '"a"', "partition" => 1);
SAVEPOINT c;
SELECT 1 / 0;
COMMIT;
SELECT count(*) FROM records('s') WHERE value IN ('1', '"b"', '"a"');
SELECT sum(held_back) FROM offsets('s');
SELECT stream.drop_stream('s');

-- Contiguous offsets of one transaction are one batch, over levels and holes.
SELECT stream.create_stream('s');
DO $$
BEGIN
	FOR i IN 1..3000 LOOP
		BEGIN
			PERFORM stream.publish('s', NULL, to_jsonb(i));
			IF i % 3 = 0 THEN
				RAISE EXCEPTION 'odd one';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END
$$;
SELECT count(*), bool_and(value::int = record_offset + 1), bool_or(value::int % 3 = 0) FROM records('s');
SELECT records, batches < 12 AS packed, offset_ranges FROM stream.segment_status;
SELECT * FROM stream.verify_log('s');
-- deep nesting
CREATE FUNCTION nest(depth int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM stream.publish('s', 'down', to_jsonb(depth));
	IF depth > 0 THEN
		BEGIN
			PERFORM nest(depth - 1);
			IF depth % 10 = 3 THEN
				RAISE EXCEPTION 'undone';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			PERFORM stream.publish('s', 'undone', to_jsonb(depth));
		END;
	END IF;
	PERFORM stream.publish('s', 'up', to_jsonb(depth));
END
$$;
SELECT nest(100);
SELECT key, array_agg(value ORDER BY record_offset) FROM records('s') WHERE key IS NOT NULL GROUP BY key ORDER BY key;
SELECT * FROM stream.verify_log('s');
DROP FUNCTION nest;
SELECT stream.drop_stream('s');

-- Against a table that is written beside it: what one has, the other has, in
-- the same order.  Values are big enough that levels are written before they end.
SELECT stream.create_stream('big', 3, compression => 'none');
CREATE TABLE ledger (n serial, position stream.record_position, value jsonb);
CREATE TABLE issued (position stream.record_position, kept boolean);
CREATE FUNCTION work(depth int, seed int, size int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	position stream.record_position;
	h int;
BEGIN
	FOR i IN 1..5 LOOP
		h := ('x' || left(md5(seed || ' ' || i), 7))::bit(28)::int;
		position := stream.publish('big', 'k' || h % 5, jsonb_build_object('s', seed, 'i', i, 'pad', repeat(md5(h::text), size)));
		INSERT INTO ledger (position, value) VALUES (position, jsonb_build_object('s', seed, 'i', i, 'pad', repeat(md5(h::text), size)));
		IF depth > 0 AND h % 7 < 5 THEN
			BEGIN
				seed := work(depth - 1, seed + 1, size);
				IF h % 4 = 0 THEN
					RAISE EXCEPTION 'undone';
				END IF;
			EXCEPTION WHEN raise_exception THEN
				-- variables keep their values
				seed := seed + 1000;
			END;
		END IF;
	END LOOP;
	RETURN seed;
END
$$;
BEGIN;
SELECT work(4, 1, 200) IS NOT NULL;
COMMIT;
SELECT count(*) > 100 AS enough, sum(length(value::text)) > 600000 AS big_enough FROM ledger;
SELECT count(*) AS differ FROM (
	(SELECT stream.partition_of(position), stream.offset_of(position), value FROM ledger EXCEPT SELECT "partition", record_offset, value FROM records('big'))
	UNION ALL
	(SELECT "partition", record_offset, value FROM records('big') EXCEPT SELECT stream.partition_of(position), stream.offset_of(position), value FROM ledger)
) d;
SELECT count(*) AS out_of_order FROM (
	SELECT stream.offset_of(position) AS o, lag(stream.offset_of(position)) OVER (PARTITION BY stream.partition_of(position) ORDER BY n) AS previous FROM ledger) o
WHERE o <= previous;
SELECT * FROM stream.verify_log('big');
-- more of it, in several transactions, some rolled back
DO $$
BEGIN
	FOR i IN 1..20 LOOP
		PERFORM work(3, i * 1000000, 20 * (i % 4));
		IF i % 4 = 3 THEN
			ROLLBACK;
		ELSE
			COMMIT;
		END IF;
	END LOOP;
END
$$;
SELECT count(*) > 500 AS enough FROM ledger;
SELECT count(*) AS differ FROM (
	(SELECT stream.partition_of(position), stream.offset_of(position), value FROM ledger EXCEPT SELECT "partition", record_offset, value FROM records('big'))
	UNION ALL
	(SELECT "partition", record_offset, value FROM records('big') EXCEPT SELECT stream.partition_of(position), stream.offset_of(position), value FROM ledger)
) d;
SELECT count(*) AS out_of_order FROM (
	SELECT stream.offset_of(position) AS o, lag(stream.offset_of(position)) OVER (PARTITION BY stream.partition_of(position) ORDER BY n) AS previous FROM ledger) o
WHERE o <= previous;
SELECT * FROM stream.verify_log('big');
SELECT sum(held_back) FROM offsets('big');
-- more than 1 MB in a level that is rolled back, then released, between two others
BEGIN;
SELECT stream.publish('big', NULL, '"before"', "partition" => 0) AS p0, stream.publish('big', NULL, '"before"', "partition" => 1) AS p1 \gset
SAVEPOINT a;
SELECT count(stream.publish('big', 'lost', to_jsonb(repeat(md5(g::text), 100)), "partition" => g % 2)) FROM generate_series(1, 600) g;
ROLLBACK TO a;
SELECT count(stream.publish('big', 'kept', to_jsonb(g || repeat(md5(g::text), 100)), "partition" => g % 2)) FROM generate_series(1, 600) g;
SAVEPOINT b;
SELECT count(stream.publish('big', 'kept', to_jsonb(g || repeat(md5(g::text), 100)), "partition" => g % 2)) FROM generate_series(601, 1200) g;
RELEASE b;
RELEASE a;
SELECT stream.publish('big', NULL, '"after"', "partition" => 0) AS p2, stream.publish('big', NULL, '"after"', "partition" => 1) AS p3 \gset
COMMIT;
SELECT stream.offset_of(:'p2') - stream.offset_of(:'p0') AS span, stream.offset_of(:'p3') - stream.offset_of(:'p1') AS span;
SELECT key, count(*), min(record_offset) - stream.offset_of(:'p0') AS first, max(record_offset) - stream.offset_of(:'p0') AS last
FROM stream.read('big', 0, stream.offset_of(:'p0'), NULL, NULL) GROUP BY key ORDER BY key;
SELECT * FROM stream.verify_log('big');

-- No offset is issued twice, whatever became of the first one.
SELECT stream.create_stream('twice', 2);
CREATE FUNCTION try(n int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	position stream.record_position;
BEGIN
	FOR i IN 1..n LOOP
		position := stream.publish('twice', 'key ' || i, to_jsonb(i));
		BEGIN
			INSERT INTO issued VALUES (position, true);
			position := stream.publish('twice', 'key ' || i, to_jsonb(i));
			IF i % 2 = 0 THEN
				RAISE EXCEPTION 'undone';
			END IF;
			INSERT INTO issued VALUES (position, true);
		EXCEPTION WHEN raise_exception THEN
			-- the first INSERT has gone, its record has not
			INSERT INTO issued VALUES (stream.record_position(stream.partition_of(position), stream.offset_of(position) - 1), true), (position, false);
		END;
	END LOOP;
END
$$;
SELECT try(500);
SELECT try(500);
SELECT count(*), count(DISTINCT position), count(*) FILTER (WHERE kept) AS kept FROM issued;
SELECT count(*) FROM records('twice') r JOIN issued i ON (r."partition", r.record_offset) = (stream.partition_of(position), stream.offset_of(position)) WHERE kept;
SELECT sum(log_end), sum(watermark), sum(records) FROM offsets('twice');
SELECT * FROM stream.verify_log('twice');

DROP TABLE ledger, issued;
DROP FUNCTION work, try;
SELECT stream.drop_stream('big'), stream.drop_stream('twice');
