-- Queries on the foreign table of a stream: what is pushed down, what is read.
\set SHOW_CONTEXT never

-- The lines of a plan that matter, the same in every version of PostgreSQL: nodes,
-- sort keys and what the stream's scan says of itself.
CREATE FUNCTION plan(query text, run boolean = false) RETURNS SETOF text
	LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF' ||
		CASE WHEN run THEN ', ANALYZE, TIMING OFF, SUMMARY OFF, BUFFERS OFF' ELSE '' END || ') ' || query
	LOOP
		CONTINUE WHEN line !~ '^ *((->|Sort Key|Presorted Key|Partitions|Offsets|Times|Bounded By|Count|Batches|One-Time Filter)|[A-Z][A-Za-z ]+$|[A-Z][A-Za-z ]+( on | using |\(actual|\(never))';
		CONTINUE WHEN line ~ '(Heap Fetches|Disabled)';
		line := regexp_replace(line, ' *\((actual|never|returns).*\)$', '');
		line := regexp_replace(line, '20[2-9]\d-\d\d-\d\d [0-9:.]+[-+][0-9:]+', 'TIME', 'g');
		RETURN NEXT line;
	END LOOP;
END
$$;

-- Three segments of four partitions: batches of many, of few and of one record;
-- partitions that a segment lacks, holes in and between batches, tombstones.
SELECT stream.create_stream('s', 4);
INSERT INTO streams.s ("partition", key, value, headers)
SELECT g % 3, 'k' || g % 50, to_jsonb(repeat(md5(g::text), 3)), CASE WHEN g % 4 = 0 THEN jsonb_build_object('h', g % 3) END
FROM generate_series(1, 1500) g;
DO $$
BEGIN
	FOR i IN 1..30 LOOP
		PERFORM stream.publish('s', 'h' || i, to_jsonb(i), NULL, i % 2);
		IF i % 3 = 0 THEN
			COMMIT;
		ELSIF i % 3 = 1 THEN
			ROLLBACK;
		END IF;
	END LOOP;
END
$$;
CALL stream.roll_segment('s');
INSERT INTO streams.s ("partition", key, value)
SELECT 1, 'k' || g % 50, to_jsonb(repeat(md5(g::text), 3)) FROM generate_series(1, 600) g;
SELECT count(stream.publish_tombstone('s', 'k' || g)) FROM generate_series(1, 20) g;
CALL stream.roll_segment('s');
INSERT INTO streams.s ("partition", key, value)
SELECT g % 2, 'k' || g % 50, to_jsonb(repeat(md5(g::text), 2)) FROM generate_series(1, 900) g;
DO $$
BEGIN
	FOR i IN 1..40 LOOP
		PERFORM stream.publish('s', NULL, to_jsonb(i), NULL, 2);
		BEGIN
			PERFORM stream.publish('s', NULL, to_jsonb(i), NULL, 2);
			IF i % 2 = 0 THEN
				RAISE EXCEPTION 'a hole';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
		COMMIT;
	END LOOP;
END
$$;
-- what the function read, which knows of no conditions, has of it
CREATE TABLE copy AS SELECT r.* FROM generate_series(0, 3) p, stream.read('s', p, NULL, NULL, NULL) r;
ANALYZE copy;
SELECT "partition", count(*), min(record_offset), max(record_offset), count(value) FROM copy GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM (TABLE streams.s EXCEPT ALL TABLE copy) d;
SELECT count(*) FROM (TABLE copy EXCEPT ALL TABLE streams.s) d;

-- Another of batches of known size: 50 in partition 0, of ten records each, and 10 in
-- partition 1, with a segment's end in the middle of both.
SELECT stream.create_stream('log', 3, compression => 'none');
DO $$
BEGIN
	FOR i IN 0..59 LOOP
		INSERT INTO streams.log ("partition", key, value)
		SELECT CASE WHEN i % 6 = 5 THEN 1 ELSE 0 END, 'key', to_jsonb(g) FROM generate_series(1, 10) g;
		COMMIT;
		IF i = 29 THEN
			CALL stream.roll_segment('log');
		END IF;
	END LOOP;
END
$$;

-- LIMIT reads a batch.
SELECT plan('SELECT * FROM streams.log LIMIT 1', true);
SELECT plan('SELECT * FROM streams.log LIMIT 11', true);
SELECT plan('SELECT * FROM streams.log LIMIT 0', true);
SELECT plan('SELECT * FROM streams.log OFFSET 490 LIMIT 11', true);
SELECT plan('SELECT EXISTS (SELECT FROM streams.log)', true);

-- Conditions on the partition.
SELECT plan('SELECT * FROM streams.log WHERE partition = 1', true);
SELECT plan('SELECT * FROM streams.log WHERE 1 = partition', true);
SELECT plan('SELECT * FROM streams.log WHERE partition IN (0, 2, 7)', true);
SELECT plan('SELECT * FROM streams.log WHERE partition = ANY (ARRAY[1, NULL, 1, -1])', true);
SELECT plan('SELECT * FROM streams.log WHERE partition = ANY (NULL::int[])');
SELECT plan('SELECT * FROM streams.log WHERE partition = ANY (''{}'')', true);
SELECT plan('SELECT * FROM streams.log WHERE partition IN (0, 1) AND partition = ANY (''{1,2}''::bigint[])', true);
SELECT plan('SELECT * FROM streams.log WHERE partition IN (0, 2) AND partition > 0', true);
SELECT plan('SELECT * FROM streams.log WHERE partition > 0 AND partition < 2', true);
SELECT plan('SELECT * FROM streams.log WHERE partition <> 1');
SELECT plan('SELECT * FROM streams.log WHERE partition > 0 AND partition < 1', true);
SELECT count(*) FROM streams.log WHERE "partition" = 1 AND "partition" = 2;
SELECT plan('SELECT * FROM streams.log WHERE partition = 3', true);
SELECT plan('SELECT * FROM streams.log WHERE partition = -1', true);
SELECT plan('SELECT * FROM streams.log WHERE partition = NULL');
SELECT plan('SELECT * FROM streams.log WHERE partition IS NULL');
-- of other types: integers are as good, others are not pushed down
SELECT plan('SELECT * FROM streams.log WHERE partition = 1::smallint');
SELECT plan('SELECT * FROM streams.log WHERE partition = 1::bigint');
SELECT plan('SELECT * FROM streams.log WHERE partition = 4294967297');
SELECT plan('SELECT * FROM streams.log WHERE partition = 1.0');
SELECT plan('SELECT * FROM streams.log WHERE partition::bigint = 1');
SELECT plan('SELECT * FROM streams.log WHERE partition = random()::int');
SELECT plan('SELECT * FROM streams.log WHERE partition = 1 OR partition = 2');
SELECT count(*) FROM streams.log WHERE "partition" = 1::smallint;
SELECT count(*) FROM streams.log WHERE "partition" = 1.0;
SELECT count(*) FROM streams.log WHERE "partition" = 4294967297;

-- On the offset.
SELECT plan('SELECT * FROM streams.log WHERE record_offset = 55', true);
SELECT plan('SELECT * FROM streams.log WHERE record_offset > 54 AND record_offset <= 60 AND partition = 0', true);
SELECT plan('SELECT * FROM streams.log WHERE record_offset BETWEEN 245 AND 254 AND partition = 0', true);
SELECT plan('SELECT * FROM streams.log WHERE record_offset >= 485', true);
SELECT plan('SELECT * FROM streams.log WHERE 15 > record_offset', true);
SELECT plan('SELECT * FROM streams.log WHERE record_offset < 15::smallint', true);
SELECT plan('SELECT * FROM streams.log WHERE record_offset IN (31, 5, 12) AND partition = 0', true);
SELECT plan('SELECT * FROM streams.log WHERE record_offset < 0', true);
SELECT plan('SELECT * FROM streams.log WHERE record_offset > 9223372036854775807', true);
SELECT plan('SELECT * FROM streams.log WHERE record_offset < -9223372036854775808', true);
SELECT plan('SELECT * FROM streams.log WHERE record_offset >= 9223372036854775807', true);
SELECT plan('SELECT * FROM streams.log WHERE record_offset > 10 AND record_offset < 10', true);
SELECT count(*), min(record_offset), max(record_offset) FROM streams.log WHERE record_offset BETWEEN 245 AND 254;

-- On the time.
SELECT published_at AS middle FROM streams.log WHERE "partition" = 0 AND record_offset = 250 \gset
SELECT plan(format('SELECT * FROM streams.log WHERE partition = 0 AND published_at = %L', :'middle'), true);
SELECT plan(format('SELECT * FROM streams.log WHERE published_at < %L', :'middle')) ;
SELECT plan(format('SELECT * FROM streams.log WHERE published_at BETWEEN %L AND %L', :'middle', :'middle'));
SELECT plan('SELECT * FROM streams.log WHERE published_at < ''-infinity''', true);
SELECT plan('SELECT * FROM streams.log WHERE published_at >= ''2000-01-01''::date AND published_at < ''infinity''::date');
SELECT plan('SELECT * FROM streams.log WHERE published_at >= ''2000-01-01''::timestamp');
SELECT plan('SELECT * FROM streams.log WHERE published_at > now()');
SELECT plan('SELECT * FROM streams.log WHERE published_at > now()', true);
SELECT count(*) FROM streams.log WHERE published_at > '2000-01-01'::date;
SELECT count(*) FROM streams.log WHERE published_at > '4000000-01-01'::date;
SELECT count(*) FROM streams.log WHERE published_at < '2000-01-01'::timestamp;
-- a scan to the end reads what the offsets say it must
SELECT count(*) = 250, min(record_offset) FROM streams.log WHERE "partition" = 0 AND published_at >= :'middle';
SELECT count(*) FROM streams.log WHERE "partition" = 0 AND published_at < :'middle';

-- Parameters, of prepared statements and of the plan.
PREPARE range(int, bigint, bigint) AS SELECT count(key), min(record_offset) FROM streams.log
	WHERE "partition" = $1 AND record_offset BETWEEN $2 AND $3;
PREPARE counting(int, bigint) AS SELECT count(*) FROM streams.log WHERE "partition" = $1 AND record_offset >= $2;
PREPARE list(int[]) AS SELECT count(key) FROM streams.log WHERE "partition" = ANY ($1);
PREPARE times(timestamptz) AS SELECT count(key) FROM streams.log WHERE "partition" = 0 AND published_at >= $1;
SET plan_cache_mode = force_generic_plan;
SELECT plan('EXECUTE range(0, 15, 24)');
SELECT plan('EXECUTE range(0, 15, 24)', true);
SELECT plan('EXECUTE range(NULL, 15, 24)', true);
SELECT plan('EXECUTE counting(1, 90)');
SELECT plan('EXECUTE counting(1, 90)', true);
SELECT plan('EXECUTE list(''{1,2}'')', true);
EXECUTE range(0, 15, 24); EXECUTE range(1, 95, 1000); EXECUTE range(2, 0, 1); EXECUTE range(0, NULL, 5);
EXECUTE counting(0, 0); EXECUTE counting(1, 90); EXECUTE counting(7, 0); EXECUTE counting(NULL, 0);
EXECUTE list('{0,1}'); EXECUTE list('{NULL}'); EXECUTE list(NULL);
EXECUTE times(:'middle'); EXECUTE times('infinity');
RESET plan_cache_mode;
DEALLOCATE ALL;
SELECT plan('SELECT * FROM streams.log WHERE partition = (SELECT 1) AND record_offset < 10', true);
SELECT plan('SELECT * FROM streams.log WHERE record_offset = (SELECT max(record_offset) FROM streams.log WHERE partition = 1) AND partition = 1', true);

-- The order comes for free: no Sort.
SELECT plan('SELECT * FROM streams.log ORDER BY partition');
SELECT plan('SELECT * FROM streams.log ORDER BY partition, record_offset');
SELECT plan('SELECT * FROM streams.log ORDER BY partition, record_offset, key');
SELECT plan('SELECT * FROM streams.log WHERE partition = 1 ORDER BY record_offset LIMIT 1', true);
SELECT plan('SELECT * FROM streams.log WHERE partition = 1 ORDER BY partition, record_offset');
SELECT plan('SELECT * FROM streams.log WHERE partition = 1 AND record_offset > 50 ORDER BY record_offset, key LIMIT 1');
SELECT plan('SELECT partition, record_offset FROM streams.log GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 1');
-- (nothing is null)
SELECT plan('SELECT * FROM streams.log ORDER BY partition NULLS FIRST');
-- another one does not
SELECT plan('SELECT * FROM streams.log ORDER BY record_offset');
SELECT plan('SELECT * FROM streams.log WHERE partition IN (0, 1) ORDER BY record_offset');
SELECT plan('SELECT * FROM streams.log WHERE partition = 1 ORDER BY record_offset DESC');
SELECT plan('SELECT * FROM streams.log ORDER BY partition DESC, record_offset');
SELECT plan('SELECT * FROM streams.log ORDER BY published_at');
SELECT plan('SELECT * FROM streams.log WHERE partition = 1 ORDER BY key, record_offset');
SELECT plan('SELECT * FROM streams.log ORDER BY record_offset, partition');
SELECT array_agg(record_offset) FROM (SELECT record_offset FROM streams.log WHERE "partition" = 1 ORDER BY record_offset DESC LIMIT 3) l;
SELECT count(*) FROM (SELECT "partition", record_offset, lag(("partition", record_offset)) OVER () AS previous FROM
	(SELECT * FROM streams.s ORDER BY "partition", record_offset) o) w WHERE ("partition", record_offset) <= previous;

-- The number of records is known without opening batches.
SELECT plan('SELECT count(*) FROM streams.log', true);
SELECT plan('SELECT count(*), count(*) FROM streams.log WHERE partition = 1', true);
SELECT plan('SELECT count(*) FROM streams.log WHERE partition = ANY (''{0,2}'')', true);
SELECT plan('SELECT count(*) FROM streams.log WHERE record_offset >= 255 AND partition = 0', true);
SELECT count(*), count(*) FROM streams.log;
SELECT count(*) FROM streams.log WHERE "partition" IN (0, 2);
SELECT count(*) FROM streams.log WHERE record_offset >= 255 AND "partition" = 0;
SELECT count(*) FROM streams.log WHERE record_offset BETWEEN 41 AND 42;
SELECT count(*) FROM streams.log WHERE "partition" = 2;
SELECT count(*) = (SELECT count(*) FROM copy) FROM streams.s;
-- unless something else has to be known
SELECT plan(format('SELECT %s FROM streams.log %s', what, rest))
FROM (VALUES (1, 'count(key)', ''), (2, 'count(*) FILTER (WHERE record_offset > 1)', ''), (3, 'count(*), max(record_offset)', ''),
	(4, 'count(*)', 'WHERE key = ''x'''), (5, 'count(*)', 'WHERE record_offset IN (1, 3)'), (6, 'count(*)', 'WHERE partition <> 1'),
	(7, 'count(*)', 'GROUP BY partition'), (8, 'count(*)', 'HAVING count(*) > 1')) q (n, what, rest)
ORDER BY n;
SELECT count(*) FROM streams.log WHERE record_offset IN (1, 3);
SELECT count(*) FILTER (WHERE record_offset > 100) FROM streams.log;
SELECT count(*) FROM streams.log HAVING count(*) > 1000;
SELECT count(*) + 1, 'x' FROM streams.log;
SELECT count(*) FROM (SELECT FROM streams.log LIMIT 5) l;
SELECT count(*), generate_series(1, 2) FROM streams.log;
SELECT count(*), row_number() OVER () FROM streams.log;
SELECT count(*) FROM streams.log GROUP BY GROUPING SETS ((), ());
SELECT count(*) FROM streams.log a, streams.log b WHERE a."partition" = 1 AND b."partition" = 1;
SELECT count(*) FROM streams.log WHERE random() < 2;
SELECT count(*) FROM streams.log WHERE EXISTS (SELECT WHERE random() < 0);
SELECT count(*) FROM (SELECT * FROM streams.log UNION ALL SELECT * FROM streams.log) u;
-- scanned again, with a parameter
SELECT g, (SELECT count(*) FROM streams.log WHERE "partition" = g) FROM generate_series(-1, 3) g;
SELECT g, (SELECT count(*) FROM streams.log WHERE record_offset < g) FROM generate_series(-1, 3) g;
SELECT g, n FROM generate_series(-1, 3) g, LATERAL (SELECT count(*) AS n FROM streams.log WHERE "partition" = g) l;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT count(*) FROM streams.log;
FETCH 1 FROM c;
FETCH 1 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH FIRST FROM c;
COMMIT;

-- Any condition gives what it gives on the copy: the count, the rows, and in order.
CREATE TABLE some_offsets AS
	SELECT record_offset + d AS o FROM copy, generate_series(-1, 1) d WHERE record_offset % 97 = 0
	UNION SELECT unnest('{-1,0,9223372036854775807,-9223372036854775808,100000}'::bigint[]);
-- also where a batch ends
DO $$
DECLARE
	segment text;
BEGIN
	FOR segment IN SELECT table_name FROM stream.segment_status WHERE stream = 's' LOOP
		EXECUTE format('INSERT INTO some_offsets SELECT DISTINCT last_offset + d FROM stream_internal.%s, generate_series(-1, 1) d',
			split_part(segment, '.', 2));
	END LOOP;
END
$$;
SELECT count(*) > 100 AS enough FROM some_offsets;
CREATE TABLE some_times AS
	SELECT published_at + d * interval '1 us' AS t FROM copy, generate_series(-1, 1) d
	UNION SELECT unnest('{-infinity,infinity}'::timestamptz[]);
CREATE FUNCTION some_offset() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT o FROM some_offsets ORDER BY random() LIMIT 1';
CREATE FUNCTION some_time() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT t FROM some_times ORDER BY random() LIMIT 1';
CREATE FUNCTION some_condition() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	op text := ('{=,<,<=,>,>=,<>}'::text[])[1 + floor(random() * 6)];
BEGIN
	CASE floor(random() * 13)::int
		WHEN 0, 1 THEN
			RETURN format('"partition" %s %s', op, floor(random() * 6)::int - 1);
		WHEN 2 THEN
			RETURN format('"partition" = ANY (%L::%s[])',
				ARRAY(SELECT floor(random() * 6)::int - 1 FROM generate_series(1, floor(random() * 4)::int)),
				(ARRAY['int2', 'int4', 'int8'])[1 + floor(random() * 3)]);
		WHEN 3, 4 THEN
			RETURN format('record_offset %s %s', op, some_offset());
		WHEN 5 THEN
			RETURN format('record_offset BETWEEN %s AND %s', some_offset(), some_offset());
		WHEN 6 THEN
			RETURN format('record_offset IN (%s, %s, NULL)', some_offset(), some_offset());
		WHEN 7 THEN
			RETURN format('published_at %s %L', op, some_time());
		WHEN 8 THEN
			RETURN format('published_at BETWEEN %L AND %L', some_time(), some_time());
		WHEN 9 THEN
			RETURN format('%s %s record_offset', some_offset(), op);
		WHEN 10 THEN
			RETURN format('published_at IN (%L, %L)', some_time(), some_time());
		WHEN 11 THEN
			RETURN format('published_at %s %L::%s', op, some_time()::timestamp, (ARRAY['timestamp', 'date'])[1 + floor(random() * 2)]);
		ELSE
			RETURN (ARRAY['key = ''k3''', 'headers IS NULL', 'value IS NULL', 'record_offset = "partition"',
				'"partition" < record_offset', 'record_offset < 10.5', 'NOT ("partition" = 1)', 'record_offset % 7 = 0',
				'"partition"::bigint = 1', '"partition" = 1.0', 'record_offset > ALL (ARRAY[3, 500])',
				'"partition" <> ALL (ARRAY[0, 1])', '"partition" < ANY (ARRAY[1, 2])',
				'("partition", record_offset) > (1, 250)', '"partition" IS NOT NULL'])[1 + floor(random() * 15)];
	END CASE;
END
$$;
-- returns how many conditions differ, and whether the others had rows to compare
CREATE FUNCTION compare(n int) RETURNS TABLE (differing bigint, empty_ones text)
	LANGUAGE plpgsql AS $$
DECLARE
	condition text;
	theirs text;
	ours text;
	counts bigint[];
	bad bigint := 0;
	empty bigint := 0;
	query text := 'SELECT concat_ws('' '', count(*), sum(hash_record_extended(t, 0)::numeric), md5(string_agg("partition" || '':'' || record_offset, '' '')))'
		' FROM (SELECT * FROM %s WHERE %s ORDER BY "partition", record_offset) t';
BEGIN
	FOR i IN 1..n LOOP
		condition := some_condition();
		FOR j IN 1..floor(random() * 3)::int LOOP
			condition := format(CASE WHEN random() < 0.8 THEN '%s AND %s' ELSE '(%s OR %s)' END, condition, some_condition());
		END LOOP;
		EXECUTE format(query, 'streams.s', condition) INTO ours;
		EXECUTE format(query, 'copy', condition) INTO theirs;
		EXECUTE format('SELECT ARRAY[(SELECT count(*) FROM streams.s WHERE %1$s), (SELECT count(*) FROM copy WHERE %1$s)]', condition) INTO counts;
		IF ours <> theirs OR counts[1] <> counts[2] THEN
			bad := bad + 1;
			RAISE NOTICE '% differs: %, not %; count(*) % and %', condition, ours, theirs, counts[1], counts[2];
		END IF;
		empty := empty + (counts[2] = 0)::int;
	END LOOP;
	RETURN QUERY SELECT bad, CASE WHEN empty BETWEEN n / 10 AND n * 3 / 4 THEN 'some' ELSE format('%s of %s', empty, n) END;
END
$$;
SELECT setseed(0.5);
SELECT * FROM compare(300);
SET TimeZone = 'Pacific/Chatham';
SELECT * FROM compare(60);
RESET TimeZone;
-- the same in nested loops, where the values come from another table, by every way to join
CREATE TABLE ranges AS
	SELECT g AS id, CASE WHEN g % 11 > 0 THEN floor(random() * 6)::int - 1 END AS p, some_offset() AS o, some_time() AS t
	FROM generate_series(1, 60) g;
ANALYZE ranges;
CREATE FUNCTION joined(relation text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	condition text;
	result text;
BEGIN
	FOREACH condition IN ARRAY ARRAY['"partition" = p', '"partition" = p AND record_offset = o', 'record_offset = o',
		'"partition" = p AND record_offset BETWEEN o AND least(o, 1000000) + 20', '"partition" = p AND published_at >= t',
		'published_at = t', 'record_offset < o AND "partition" <> p', '"partition" = ANY (ARRAY[p, 1]) AND record_offset > o']
	LOOP
		EXECUTE format('SELECT concat_ws('' '', count(*), count(key), sum(id * hash_record_extended(r, 0)::numeric)) FROM ranges LEFT JOIN %s r ON %s', relation, condition) INTO result;
		RETURN NEXT result;
		EXECUTE format('SELECT concat_ws('' '', count(*), sum(id * hash_record_extended(r, 0)::numeric)) FROM ranges, LATERAL '
			'(SELECT * FROM %s WHERE %s ORDER BY "partition", record_offset LIMIT 3) r', relation, condition) INTO result;
		RETURN NEXT result;
		EXECUTE format('SELECT count(*)::text FROM ranges WHERE NOT EXISTS (SELECT FROM %s WHERE %s)', relation, condition) INTO result;
		RETURN NEXT result;
		EXECUTE format('SELECT sum(id * (SELECT count(*) FROM %s WHERE %s))::text FROM ranges', relation, condition) INTO result;
		RETURN NEXT result;
	END LOOP;
END
$$;
CREATE TABLE expected AS SELECT row_number() OVER () AS n, j FROM joined('copy') j;
SELECT count(*) FROM expected;
SELECT * FROM expected FULL JOIN (SELECT row_number() OVER () AS n, j FROM joined('streams.s') j) s USING (n) WHERE s.j IS DISTINCT FROM expected.j;
SET enable_hashjoin = off; SET enable_mergejoin = off;
SELECT * FROM expected FULL JOIN (SELECT row_number() OVER () AS n, j FROM joined('streams.s') j) s USING (n) WHERE s.j IS DISTINCT FROM expected.j;
SET enable_material = off; SET enable_memoize = off;
SELECT count(*) FROM expected LEFT JOIN (SELECT row_number() OVER () AS n, j FROM joined('streams.s') j) s USING (n) WHERE s.j IS DISTINCT FROM expected.j;
RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material; RESET enable_memoize;
SET enable_nestloop = off;
SELECT * FROM expected FULL JOIN (SELECT row_number() OVER () AS n, j FROM joined('streams.s') j) s USING (n) WHERE s.j IS DISTINCT FROM expected.j;
RESET enable_nestloop;

-- Joins, and what each scan of the inner side reads.
CREATE TABLE wanted (p int, o bigint);
INSERT INTO wanted VALUES (0, 5), (0, 251), (1, 99), (1, 100), (2, 0), (NULL, 3), (1, NULL), (9, 9);
ANALYZE wanted;
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;
SELECT plan('SELECT key FROM wanted w JOIN streams.log l ON l.partition = w.p AND l.record_offset = w.o');
SELECT plan('SELECT key FROM wanted w JOIN streams.log l ON l.partition = w.p AND l.record_offset = w.o', true);
SELECT w.*, l.key FROM wanted w LEFT JOIN streams.log l ON l."partition" = w.p AND l.record_offset = w.o ORDER BY 1, 2;
SELECT plan('SELECT key FROM wanted w, LATERAL (SELECT * FROM streams.log WHERE partition = w.p AND record_offset >= w.o ORDER BY record_offset LIMIT 2) l', true);
RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material; RESET enable_memoize;
SELECT w.*, l.record_offset FROM wanted w, LATERAL (SELECT * FROM streams.log WHERE "partition" = w.p AND record_offset >= w.o ORDER BY record_offset LIMIT 2) l ORDER BY 1, 2, 3;
SELECT count(*) FROM streams.log a JOIN streams.log b USING ("partition", record_offset) WHERE a.key = b.key;
WITH RECURSIVE page (o, n) AS (
	SELECT -1::bigint, 0
	UNION ALL
	SELECT (SELECT max(record_offset) FROM (SELECT record_offset FROM streams.log WHERE "partition" = 0 AND record_offset > o ORDER BY record_offset LIMIT 100) l), n + 1
	FROM page WHERE o IS NOT NULL)
SELECT * FROM page;

-- Cursors.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT "partition", record_offset, value FROM streams.log WHERE record_offset BETWEEN 88 AND 91;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH LAST FROM c;
FETCH RELATIVE -1 FROM c;
FETCH ABSOLUTE 2 FROM c;
MOVE BACKWARD ALL FROM c;
FETCH NEXT FROM c;
-- a second one beside it, held over the transaction's end
DECLARE held CURSOR WITH HOLD FOR SELECT "partition", record_offset FROM streams.log WHERE record_offset > 97 AND record_offset < 102;
DECLARE held_back SCROLL CURSOR WITH HOLD FOR SELECT record_offset FROM streams.log WHERE "partition" = 1;
FETCH 1 FROM held;
COMMIT;
SELECT stream.publish('log', 'late', '1', "partition" => 2) IS NOT NULL AS published;
FETCH ALL FROM held;
FETCH LAST FROM held_back;
FETCH BACKWARD 1 FROM held_back;
CLOSE ALL;

-- Whole rows, system columns, columns that nobody wants.
SELECT l FROM streams.log l WHERE "partition" = 2 AND (l).published_at IS NULL;
SELECT (l).key, (l).value, l IS NULL, l.tableoid::regclass FROM streams.log l WHERE "partition" = 2;
SELECT row_to_json(l)::jsonb - 'published_at' FROM streams.log l WHERE "partition" = 2;
SELECT tableoid::regclass, count(*) FROM streams.log GROUP BY 1;
SELECT 1 FROM streams.log WHERE "partition" = 2;
SELECT FROM streams.log WHERE "partition" = 2;
SELECT DISTINCT key FROM streams.log ORDER BY 1;
SELECT failure('SELECT xmin FROM streams.log');

-- CREATE TABLE AS, views, materialized views, rules of locking.
CREATE TABLE made AS SELECT * FROM streams.log;
SELECT count(*) FROM made;
CREATE VIEW late AS SELECT * FROM streams.log WHERE "partition" = 0 AND record_offset >= 480 WITH CHECK OPTION;
SELECT plan('SELECT * FROM late WHERE record_offset < 485 ORDER BY record_offset', true);
SELECT plan('SELECT count(*) FROM late');
CREATE MATERIALIZED VIEW stored AS SELECT * FROM late;
CREATE UNIQUE INDEX ON stored ("partition", record_offset);
INSERT INTO streams.log ("partition", value) VALUES (0, '0');
REFRESH MATERIALIZED VIEW CONCURRENTLY stored;
SELECT count(*) FROM stored;
SELECT record_offset FROM streams.log WHERE "partition" = 2 FOR UPDATE;
SELECT record_offset FROM streams.log WHERE "partition" = 2 FOR SHARE NOWAIT;
SELECT l.record_offset, w.o FROM streams.log l JOIN wanted w ON w.p = l."partition" AND w.o = l.record_offset WHERE "partition" = 1 FOR UPDATE;
DROP MATERIALIZED VIEW stored;
DROP VIEW late;
DROP TABLE made;
SELECT failure('SELECT * FROM streams.log TABLESAMPLE SYSTEM (10)');
COPY streams.log TO stdout;
COPY (SELECT "partition", record_offset, key, value, headers FROM streams.log WHERE record_offset < 1) TO stdout WITH (FORMAT csv);

-- From one stream into another, and into itself, which ends.
SELECT stream.create_stream('other', 3);
INSERT INTO streams.other ("partition", key, value, headers) SELECT "partition", key, value, headers FROM streams.log;
SELECT count(*), count(DISTINCT "partition") FROM streams.other;
SELECT count(*) FROM ((SELECT "partition", key, value FROM streams.other EXCEPT ALL SELECT "partition", key, value FROM streams.log)
	UNION ALL (SELECT "partition", key, value FROM streams.log EXCEPT ALL SELECT "partition", key, value FROM streams.other)) d;
INSERT INTO streams.other (key, value) SELECT 'again', value FROM streams.other;
SELECT key, count(*) FROM streams.other GROUP BY 1 ORDER BY 1;
WITH new AS (INSERT INTO streams.other (key, value) SELECT 'once more', value FROM streams.other WHERE key = 'late' RETURNING *)
SELECT (SELECT count(*) FROM new), (SELECT count(*) FROM streams.other WHERE key = 'once more');
SELECT count(*) FROM streams.other WHERE key = 'once more';
-- a row's own scan does not see what the statement publishes
CREATE FUNCTION publish_and_count() RETURNS bigint LANGUAGE sql VOLATILE
	AS $$ SELECT stream.publish('other', 'during', '1'); SELECT count(*) FROM streams.other WHERE key = 'during' $$;
SELECT g, publish_and_count(), (SELECT count(*) FROM streams.other WHERE key = 'during' AND g > 0) FROM generate_series(1, 3) g;
SELECT count(*) FROM streams.other WHERE key = 'during';
DROP FUNCTION publish_and_count;

-- One statement sees one state, however often it scans.
SELECT n, count(*) FROM (SELECT count(*) AS n FROM generate_series(1, 20) g,
	LATERAL (SELECT count(value) FROM streams.log WHERE "partition" < g + 10) l) x GROUP BY 1;

-- ANALYZE, and what the planner thinks of it then.
CREATE FUNCTION estimate(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	p json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO p;
	RETURN p -> 0 -> 'Plan' ->> 'Plan Rows';
END
$$;
CREATE FUNCTION estimate_is_near(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM (%s) q', query) INTO n;
	RETURN estimate(query) BETWEEN n * 0.5 - 10 AND n * 2 + 10;
END
$$;
SELECT estimate('SELECT * FROM streams.s') > 100;
ANALYZE streams.s;
ANALYZE streams.s ("partition", key);
ANALYZE streams.other;
SELECT relname, abs(reltuples - (SELECT count(*) FROM streams.s)) < 10 AS reltuples, relpages > 10 AS relpages FROM pg_class WHERE oid = 'streams.s'::regclass;
SELECT attname, null_frac > 0 AS nulls, n_distinct <> 0 AS distinct_values, correlation IS NOT NULL AS correlation
FROM pg_stats WHERE schemaname = 'streams' AND tablename = 's' ORDER BY attname;
SELECT q, estimate_is_near('SELECT * FROM streams.s ' || q)
FROM unnest(ARRAY['', 'WHERE partition = 1', 'WHERE partition = 2', 'WHERE partition IN (0, 1)', 'WHERE partition = 1 AND record_offset BETWEEN 100 AND 200',
	'WHERE record_offset < 300', 'WHERE key = ''k3''', 'WHERE partition = 3', 'WHERE partition = 7']) q;
SELECT estimate('SELECT count(*) FROM streams.s');
-- so a few records are looked up, and many are joined at once
INSERT INTO wanted SELECT g % 3, g FROM generate_series(1, 2) g;
ANALYZE wanted;
SELECT plan('SELECT key FROM (SELECT * FROM wanted LIMIT 2) w JOIN streams.s l ON l.partition = w.p AND l.record_offset = w.o');
SELECT plan('SELECT c.key FROM copy c JOIN streams.s l USING (partition, record_offset)') LIMIT 2;

-- Beside parallel plans.
CREATE TABLE big AS SELECT g AS id, g % 3 AS p, (g / 3)::bigint AS o FROM generate_series(1, 20000) g;
ANALYZE big;
SELECT sum(id) AS sum_of_joined FROM big JOIN copy ON copy."partition" = big.p AND copy.record_offset = big.o \gset
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2;
SELECT count(*) FROM (SELECT plan('SELECT count(*) FROM big WHERE id % 3 = (SELECT count(*) FROM streams.s) % 3') AS line) p WHERE line ~ 'Gather';
SELECT count(*) FROM big WHERE id % 3 = (SELECT count(*) - count(*) FROM streams.s) % 3;
SELECT sum(id) = :sum_of_joined FROM big JOIN streams.s s ON s."partition" = big.p AND s.record_offset = big.o;
SELECT sum(id) = :sum_of_joined FROM (SELECT * FROM big WHERE p >= 0 OFFSET 0) b JOIN streams.s s ON s."partition" = b.p AND s.record_offset = b.o;
SET enable_hashjoin = off; SET enable_mergejoin = off;
SELECT count(*) FROM (SELECT * FROM big WHERE id % 100 = 0 OFFSET 0) b JOIN streams.s s ON s."partition" = b.p AND s.record_offset = b.o;
SELECT count(*) FROM big JOIN copy ON copy."partition" = big.p AND copy.record_offset = big.o WHERE id % 100 = 0;
RESET enable_hashjoin; RESET enable_mergejoin;
INSERT INTO streams.other (key, value) SELECT 'parallel', to_jsonb(id) FROM big WHERE id % 100 = 0;
SELECT count(*) FROM streams.other WHERE key = 'parallel';
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size; RESET max_parallel_workers_per_gather;

-- EXPLAIN in other forms, of a name that needs quotes.
SELECT stream.create_stream('Odd "name"', 2);
SELECT plan('SELECT count(*) FROM streams."Odd ""name""" x');
SELECT plan('SELECT * FROM streams."Odd ""name""" x', true);
DO $$
DECLARE
	j json;
	x xml;
	y text;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) SELECT count(*) FROM streams."Odd ""name""" WHERE partition = 1 AND record_offset > 5' INTO j;
	EXECUTE 'EXPLAIN (FORMAT XML) SELECT count(*) FROM streams."Odd ""name""" WHERE partition = 1 AND record_offset > 5' INTO x;
	EXECUTE 'EXPLAIN (FORMAT YAML) SELECT count(*) FROM streams."Odd ""name""" WHERE partition = 1 AND record_offset > (SELECT 1)' INTO y;
	RAISE NOTICE '% % %', j #> '{0,Plan,Count}', j #> '{0,Plan,Partitions}', j #> '{0,Plan,Offsets}';
	RAISE NOTICE '%', (SELECT string_agg(m[1], ' ') FROM regexp_matches(x::text, '<(?:Count|Partitions|Offsets)>([^<]*)<', 'g') m);
	RAISE NOTICE '%', (SELECT string_agg(m[1], ' ') FROM regexp_matches(y, '(?:Count|Partitions|Parameters): \s*(\S[^\n]*)', 'g') m);
END
$$;

DROP FUNCTION plan, some_offset, some_time, some_condition, compare, joined, estimate_is_near, estimate;
DROP TABLE copy, some_offsets, some_times, ranges, expected, wanted, big;
SELECT stream.drop_stream('s'), stream.drop_stream('log'), stream.drop_stream('other'), stream.drop_stream('Odd "name"');
SELECT * FROM left_over();
