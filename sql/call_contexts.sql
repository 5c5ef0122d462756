-- Scans of what a function returns, in the places where a function may stand: each gives what the function scan gives.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s');
SELECT stream.create_consumer_group('s', 'g');
SELECT count(stream.publish('s', 'k' || g, to_jsonb(g))) FROM generate_series(0, 9) g;
CREATE FUNCTION left_to_read() RETURNS bigint LANGUAGE sql AS $$ SELECT sum(lag)::bigint FROM stream.consumer_lag WHERE stream = 's' $$;
CREATE FUNCTION again() RETURNS void LANGUAGE sql AS $$ SELECT FROM stream.reset_offsets('s', 'g', 'earliest', execute => true) $$;
CREATE FUNCTION plan_of(query text) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || query INTO plan;
	RETURN plan->0->'Plan';
END $$;

-- Beside a table with row security: its conditions come first, and what leaks sees no other rows.
CREATE TABLE target (key text PRIMARY KEY, n int, owner name);
INSERT INTO target SELECT 'k' || g, g, CASE WHEN g % 2 = 0 THEN 'regress_call_reader' ELSE 'nobody' END FROM generate_series(0, 9) g;
CREATE FUNCTION leak(key text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'saw %', key; RETURN true; END $$;
CREATE ROLE regress_call_reader;
GRANT SELECT, UPDATE ON target TO regress_call_reader;
GRANT SELECT ON streams.s TO regress_call_reader;
ALTER TABLE target ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON target USING (owner = current_user);
SET ROLE regress_call_reader;
SELECT t.key, r.value FROM stream.read('s', 0) r JOIN target t USING (key) WHERE leak(t.key) ORDER BY n;
BEGIN;
UPDATE target t SET n = n + 100 FROM stream.consume('s', 'g') c WHERE c.key = t.key;
SELECT key, n FROM target ORDER BY n;
SELECT left_to_read();
ROLLBACK;
RESET ROLE;

-- In views, also with a barrier, and in functions that are and are not inlined.
CREATE VIEW all_columns AS SELECT * FROM stream.read('s', 0);
CREATE VIEW barrier WITH (security_barrier) AS SELECT key, value FROM stream.read('s', 0) WHERE value::int > 7;
CREATE VIEW consumed AS SELECT key FROM stream.consume('s', 'g', 3);
SELECT count(*), max(key) FROM all_columns;
SELECT key FROM all_columns WHERE record_offset = 4;
SELECT key FROM barrier WHERE leak(key);
BEGIN;
SELECT string_agg(key, ' ') FROM consumed;
SELECT string_agg(key, ' ') FROM consumed;
ROLLBACK;
SELECT * FROM consumed; \echo :SQLSTATE
CREATE FUNCTION inlined(n int) RETURNS TABLE (k text, o bigint) LANGUAGE sql STABLE AS $$ SELECT key, record_offset FROM stream.read('s', 0, n) $$;
CREATE FUNCTION called() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM stream.consume('s', 'g') $$;
CREATE FUNCTION atomic() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(*) FROM stream.consume('s', 'g'); END;
EXPLAIN (COSTS OFF) SELECT k FROM inlined(7);
SELECT n, count(*) FROM generate_series(7, 9) n, inlined(n) GROUP BY 1 ORDER BY 1;
BEGIN;
SELECT called(), atomic();
ROLLBACK;
SELECT left_to_read();

-- Where parallel plans are asked for: such a function allows none.
SELECT count(set_config(name, 'on', false)) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
SELECT set_config('parallel_setup_cost', '0', false), set_config('parallel_tuple_cost', '0', false), set_config('min_parallel_table_scan_size', '0', false);
SELECT count(*) FROM target JOIN stream.read('s', 0) r USING (key);
SELECT count(*) FROM stream.read('s', 0);
SELECT count(set_config(name, 'off', false)) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size;

-- Prepared, with a plan for any arguments, which is made anew when a table has changed.
SET plan_cache_mode = force_generic_plan;
PREPARE p(text) AS INSERT INTO target (key, n) SELECT 'new ' || key, value::int FROM stream.consume('s', $1, 4);
BEGIN;
EXECUTE p('g');
ALTER TABLE target ADD COLUMN more int;
EXECUTE p('g');
SELECT count(*) FROM target WHERE key LIKE 'new %';
SELECT left_to_read();
ROLLBACK;
EXECUTE p('nobody'); \echo :SQLSTATE
DEALLOCATE p;
RESET plan_cache_mode;

-- Cursors that go back and forth, outlive their transaction, or lock rows of a table.
BEGIN;
DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT key FROM stream.consume('s', 'g', 5);
FETCH 2 FROM c;
COMMIT;
FETCH PRIOR FROM c;
FETCH LAST FROM c;
FETCH ABSOLUTE 3 FROM c;
CLOSE c;
SELECT left_to_read();
SELECT again();
BEGIN;
DECLARE c CURSOR FOR SELECT t.n FROM target t, stream.read('s', 0, 3, 1) r WHERE r.key = t.key FOR UPDATE OF t;
FETCH 1 FROM c;
UPDATE target SET n = -1 WHERE CURRENT OF c RETURNING key;
ROLLBACK;

-- The source of a MERGE, an upsert and a DELETE.
BEGIN;
MERGE INTO target t USING stream.consume('s', 'g') c ON t.key = c.key
	WHEN MATCHED AND n > 6 THEN DELETE WHEN MATCHED AND n < 3 THEN UPDATE SET n = -c.value::int WHEN NOT MATCHED THEN INSERT VALUES (c.key, 0);
SELECT count(*), min(n), max(n), left_to_read() FROM target;
ROLLBACK;
BEGIN;
INSERT INTO target (key, n) SELECT key, 100 FROM stream.consume('s', 'g') ON CONFLICT (key) DO UPDATE SET n = excluded.n;
DELETE FROM target t USING stream.read('s', 0, 8) r WHERE r.key = t.key RETURNING t.key, t.n, r.record_offset;
ROLLBACK;

-- Position by position, by recursion.
WITH RECURSIVE w AS (SELECT -1::bigint AS o UNION ALL SELECT r.record_offset FROM w, LATERAL stream.read('s', 0, w.o + 1, 1) r)
SELECT count(*), max(o) FROM w;

-- Blocks that end in an error in mid-scan give back what they took, and leave nothing behind.
DO $$
DECLARE
	r record;
	n int := 0;
BEGIN
	FOR i IN 1 .. 3 LOOP
		BEGIN
			FOR r IN SELECT key FROM stream.consume('s', 'g', 6) LOOP
				n := n + 1;
				IF n % 4 = 0 THEN
					RAISE division_by_zero;
				END IF;
			END LOOP;
		EXCEPTION WHEN division_by_zero THEN
		END;
	END LOOP;
	BEGIN
		PERFORM 1 / (value::int - 5) FROM stream.read('s', 0);
	EXCEPTION WHEN division_by_zero THEN
	END;
	FOR r IN SELECT key FROM stream.read('s', 0) LOOP
		EXIT WHEN r.key = 'k3';
		n := n + 100;
	END LOOP;
	RAISE NOTICE '%, % left', n, left_to_read();
END $$;
-- and loops go on behind a COMMIT, and a ROLLBACK
DO $$
DECLARE
	r record;
	n int := 0;
BEGIN
	FOR r IN SELECT key FROM stream.consume('s', 'g') LOOP
		n := n + 1;
		CASE n WHEN 3 THEN COMMIT; WHEN 6 THEN ROLLBACK; ELSE NULL; END CASE;
	END LOOP;
	RAISE NOTICE '%, % left', n, left_to_read();
END $$;
SELECT again();

-- What EXPLAIN says when it has run it.
SELECT p->>'Node Type' AS node, p->>'Custom Plan Provider' AS provider, p->'Output' AS output, p->>'Filter' AS filter, p->>'Function Call' AS call,
	(p->>'Actual Rows')::numeric = 3 AS "rows", p->'Rows Removed by Filter' AS removed
FROM plan_of($$ SELECT key FROM stream.read('s', 0) r WHERE value::int > 6 $$) p;

DROP VIEW all_columns, barrier, consumed;
DROP FUNCTION inlined, called, atomic, left_to_read, again, plan_of, leak;
DROP TABLE target;
SELECT stream.drop_stream('s');
DROP ROLE regress_call_reader;
