-- Functions that return records, in FROM: a scan calls them and reads what is wanted.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 2);
SELECT stream.create_stream('bytes', 1, 'bytea');
SELECT stream.create_consumer_group('s', 'g');
SELECT count(stream.publish('s', 'key ' || g, to_jsonb(g), CASE WHEN g % 3 = 0 THEN jsonb_build_object('h', g) END, g % 2)) FROM generate_series(0, 9) g;
SELECT stream.publish_bytes('bytes', NULL, '\x00ff');
CREATE FUNCTION left_to_read() RETURNS bigint LANGUAGE sql AS $$ SELECT sum(lag)::bigint FROM stream.consumer_lag WHERE consumer_group = 'g' $$;
CREATE FUNCTION again() RETURNS void LANGUAGE sql AS $$ SELECT FROM stream.reset_offsets('s', 'g', 'earliest', execute => true) $$;

-- Which plans have it.  The arguments are shown.
-- in a form of EXPLAIN that shows more of a plan with each version
CREATE FUNCTION call_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (COSTS OFF, FORMAT json) ' || query INTO plan;
	RETURN plan->0->'Plan'->>'Function Call';
END $$;
EXPLAIN (COSTS OFF) SELECT key FROM stream.read('s', 0);
EXPLAIN (COSTS OFF, VERBOSE) SELECT key FROM stream.consume('s', 'g', max_records => 3) c WHERE record_offset > 1;
SELECT call_of($$ SELECT FROM stream.poll('s', 'g', 'm', 1) $$);
EXPLAIN (COSTS OFF) SELECT r.key FROM generate_series(0, 1) p, LATERAL stream.read('s', p) r;
-- and which the function scan: several functions, numbered rows, a row as a whole, a subplan among the arguments
EXPLAIN (COSTS OFF) SELECT a.key FROM ROWS FROM (stream.read('s', 0), stream.read('s', 1)) a (p, o, t, key, v, h, p2, o2, t2, k2, v2, h2);
EXPLAIN (COSTS OFF) SELECT key FROM stream.read('s', 0) WITH ORDINALITY;
EXPLAIN (COSTS OFF) SELECT r FROM stream.read('s', 0) r;
EXPLAIN (COSTS OFF) SELECT r.key FROM generate_series(0, 1) p, LATERAL stream.read('s', (SELECT max(p + n) FROM generate_series(0, 0) n)) r;

-- Both return the same, whatever is asked for.
SELECT record_offset, key, value, headers FROM stream.read('s', 0);
SELECT record_offset, key, value, headers FROM stream.read('s', 0) WITH ORDINALITY ORDER BY ordinality;
SELECT count(*), count(headers) FROM stream.read('s', 1);
SELECT "partition", headers FROM stream.read('s', 0) WHERE key = 'key 6' OR value = '4';
SELECT key, value FROM stream.read_bytes('bytes', 0);
SELECT r.record_offset, r.key FROM generate_series(0, 1) p, LATERAL stream.read('s', p, p, 2) r;
SELECT p, (SELECT string_agg(key, ' ' ORDER BY record_offset) FROM stream.read('s', p)) FROM generate_series(0, 1) p;
SELECT a.record_offset, b.key FROM stream.read('s', 0) a JOIN stream.read('s', 1) b USING (record_offset) ORDER BY 1;
SELECT (r).record_offset, (r).value FROM (SELECT r FROM stream.read('s', 0, 3) r) x;
SELECT count(r) FROM (SELECT stream.read('s', 0, 4) AS r) r;
-- in a statement that updates, which has the row as a whole
CREATE TABLE target (key text PRIMARY KEY, n int);
INSERT INTO target SELECT key, 0 FROM stream.read('s', 0);
BEGIN;
WITH updated AS (UPDATE target t SET n = c.value::int FROM stream.consume('s', 'g') c WHERE c.key = t.key RETURNING t.*) SELECT count(*), sum(n) FROM updated;
SELECT left_to_read();
ROLLBACK;

-- It is called once, however often its rows are read, and again for other arguments.
SELECT set_config('enable_material', 'off', false), set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false);
BEGIN;
EXPLAIN (COSTS OFF) SELECT FROM generate_series(1, 3) n LEFT JOIN stream.consume('s', 'g', 4) c ON c.record_offset < n;
SELECT n, count(key) FROM generate_series(1, 3) n LEFT JOIN stream.consume('s', 'g', 4) c ON c.record_offset < n GROUP BY 1 ORDER BY 1;
SELECT left_to_read();
ROLLBACK;
BEGIN;
SELECT n, count(*) FROM generate_series(1, 2) n, LATERAL stream.consume('s', 'g', n) c GROUP BY 1 ORDER BY 1;
SELECT left_to_read();
ROLLBACK;
RESET enable_material; RESET enable_hashjoin; RESET enable_mergejoin;

-- It is called to its end when the first row is asked for.
BEGIN;
SELECT count(*) FROM (SELECT key FROM stream.consume('s', 'g', 6) LIMIT 1) l;
SELECT left_to_read();
SELECT EXISTS (SELECT FROM stream.consume('s', 'g', 1));
SELECT left_to_read();
ROLLBACK;
-- A cursor goes on reading after other statements, and what it reads stays what it was.
BEGIN;
DECLARE c CURSOR FOR SELECT key FROM stream.consume('s', 'g', 8);
SELECT left_to_read();
FETCH 1 FROM c \g /dev/null
SELECT left_to_read();
SELECT count(*) FROM stream.consume('s', 'g');
SELECT stream.publish('s', 'later', '1', "partition" => 0) IS NOT NULL AS published;
SAVEPOINT a;
MOVE FORWARD 2 FROM c;
ROLLBACK TO a;
FETCH 1 FROM c \g /dev/null
MOVE FORWARD ALL FROM c;
CLOSE c;
DECLARE c CURSOR FOR SELECT key FROM stream.read('s', 0);
SAVEPOINT b;
FETCH 1 FROM c;
ROLLBACK TO b;
FETCH 1 FROM c;
ROLLBACK;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT key FROM stream.read('s', 0);
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
-- a stream that a cursor reads cannot go
\set VERBOSITY sqlstate
SELECT stream.drop_stream('s');
\set VERBOSITY default
ROLLBACK;
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT key FROM stream.consume('s', 'g', 4);
COMMIT;
SELECT left_to_read();
MOVE FORWARD ALL FROM h;
CLOSE h;
SELECT again();
-- a loop that works on what it reads
DO $$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT key FROM stream.consume('s', 'g') LOOP
		BEGIN
			INSERT INTO target VALUES (r.key, 1);
		EXCEPTION WHEN unique_violation THEN
			UPDATE target SET n = n + 10 WHERE key = r.key;
		END;
	END LOOP;
END $$;
SELECT left_to_read(), count(*), count(*) FILTER (WHERE n <> 0) AS changed FROM target;
SELECT again();

-- A plan that is kept asks for other arguments.
SET plan_cache_mode = force_generic_plan;
PREPARE p(int, bigint) AS SELECT record_offset, key FROM stream.read('s', $1, $2, 1);
EXECUTE p(0, 1);
EXECUTE p(1, 3);
EXECUTE p(NULL, 3);
EXECUTE p(1, 99);
DEALLOCATE p;
RESET plan_cache_mode;

-- The right to execute, and statistics.
CREATE ROLE call_user;
GRANT USAGE ON SCHEMA stream TO call_user;
GRANT SELECT ON streams.s TO call_user;
REVOKE EXECUTE ON FUNCTION stream.read FROM PUBLIC;
SET ROLE call_user;
EXPLAIN (COSTS OFF) SELECT key FROM stream.read('s', 0);
SELECT key FROM stream.read('s', 0); \echo :SQLSTATE
SELECT count(*) FROM stream.read_bytes('s', 0); \echo :SQLSTATE
RESET ROLE;
GRANT EXECUTE ON FUNCTION stream.read TO PUBLIC;
SET ROLE call_user;
SELECT count(*) FROM stream.read('s', 0);
RESET ROLE;
SET track_functions = 'all';
SELECT count(*) FROM stream.read('s', 0) a, stream.read('s', 1) b;
SELECT pg_stat_force_next_flush();
SELECT calls FROM pg_stat_user_functions WHERE schemaname = 'stream' AND funcname = 'read';
RESET track_functions;

-- A function of the same name elsewhere is left alone.
CREATE SCHEMA elsewhere;
CREATE FUNCTION elsewhere.read(text, int, OUT "partition" int, OUT record_offset bigint, OUT published_at timestamptz, OUT key text, OUT value jsonb, OUT headers jsonb)
	RETURNS SETOF record LANGUAGE sql VOLATILE AS $$ SELECT 1, 2::bigint, now(), $1, NULL::jsonb, NULL::jsonb $$;
SELECT key FROM elsewhere.read('mine', 0);

-- A statement that drops what it reads, and reads it again.
SELECT stream.create_stream('gone');
SELECT stream.publish('gone', NULL, '1');
SELECT n, (SELECT count(*) FROM stream.read('gone', 0) WHERE record_offset < n), CASE WHEN n = 2 THEN stream.drop_stream('gone') END FROM generate_series(1, 3) n; \echo :SQLSTATE

-- How far a call goes is counted without opening the batches.  It comes out the same
-- as reading record by record, with holes, with batches of any size, from anywhere.
SELECT stream.create_stream('holes');
SELECT setseed(0.25);
DO $$
BEGIN
	FOR t IN 1 .. 60 LOOP
		FOR s IN 1 .. (1 + random() * 6)::int LOOP
			BEGIN
				PERFORM stream.publish('holes', repeat('k', (random() * 40)::int), to_jsonb(repeat('v', (random() * 100)::int))) FROM generate_series(1, (1 + random() * 5)::int);
				IF random() < 0.3 THEN
					RAISE division_by_zero;
				END IF;
			EXCEPTION WHEN division_by_zero THEN
			END;
		END LOOP;
		COMMIT;
	END LOOP;
END $$;
CREATE TABLE held AS SELECT *, row_number() OVER (ORDER BY record_offset) AS place,
	length(key) + pg_column_size(value) - 4 AS bytes FROM streams.holes;
SELECT count(*) > 300 AS many, max(record_offset) >= count(*) + 50 AS with_holes FROM held;
SELECT count(*) AS wrong
FROM generate_series(0, (SELECT max(record_offset) FROM held), 7) f, unnest('{1, 2, 3, 10, 50, 1000, NULL}'::int[]) m,
	LATERAL (SELECT array_agg(record_offset) AS offsets FROM stream.read('holes', 0, f, m, NULL)) r,
	LATERAL (SELECT array_agg(record_offset) AS offsets FROM (SELECT record_offset FROM held WHERE record_offset >= f ORDER BY 1 LIMIT m) h) h
WHERE r.offsets IS DISTINCT FROM h.offsets;
-- max_bytes is about kept, but for the first record; what it leaves room for is less than a batch
SELECT count(*) FILTER (WHERE r.bytes > b * 9 / 8 AND r.records > 1) AS too_many, count(*) FILTER (WHERE r.records = 0) AS none,
	count(*) FILTER (WHERE r.bytes + 2000 < b AND r.last < (SELECT max(record_offset) FROM held)) AS too_few
FROM generate_series(0, (SELECT max(record_offset) FROM held), 7) f, unnest('{0, 1, 50, 500, 2000, 20000}'::bigint[]) b,
	LATERAL (SELECT count(*) AS records, max(record_offset) AS last, sum(length(key) + pg_column_size(value) - 4) AS bytes FROM stream.read('holes', 0, f, NULL, b)) r;
-- consumed in pieces, each comes once and nothing is left
SELECT stream.create_consumer_group('holes', 'g');
CREATE TABLE taken (record_offset bigint);
DO $$
DECLARE
	n bigint;
BEGIN
	LOOP
		INSERT INTO taken SELECT record_offset FROM stream.consume('holes', 'g', (1 + random() * 20)::int, (random() * 3000)::bigint);
		GET DIAGNOSTICS n = ROW_COUNT;
		EXIT WHEN n = 0;
		COMMIT;
	END LOOP;
END $$;
SELECT count(*) = (SELECT count(*) FROM held) AS complete, count(DISTINCT record_offset) = count(*) AS once FROM taken;
SELECT lag FROM stream.consumer_lag WHERE stream = 'holes';

DROP TABLE target, held, taken;
DROP SCHEMA elsewhere CASCADE;
DROP FUNCTION left_to_read, again, call_of;
SELECT stream.drop_stream(s) FROM unnest('{s,bytes,gone,holes}'::text[]) s;
REVOKE USAGE ON SCHEMA stream FROM call_user;
DROP ROLE call_user;
