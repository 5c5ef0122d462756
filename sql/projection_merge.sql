-- What the merges do, whatever the order of records, their repetition and their nulls.  The statements are run here over a view
-- named batch, without workers.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s');
CREATE TABLE records (n serial PRIMARY KEY, key text, value jsonb);
CREATE VIEW batch AS
	SELECT 0 AS "partition", n::bigint AS record_offset, now() AS published_at, key, value, null::jsonb AS headers
	FROM unnest(current_setting('test.records')::int[]) WITH ORDINALITY u(n, i) JOIN records USING (n) ORDER BY i;
-- applies these records, as often and in the order as they are given; returns the rows written
CREATE FUNCTION apply(name text, ns int[]) RETURNS bigint
	LANGUAGE plpgsql AS $$
DECLARE
	written bigint;
BEGIN
	PERFORM set_config('test.records', ns::text, false);
	EXECUTE (SELECT apply_sql FROM stream.projection_definition WHERE projection = name);
	GET DIAGNOSTICS written = ROW_COUNT;
	RETURN written;
END
$$;
-- one record after the other: the target after each
CREATE FUNCTION steps(name text) RETURNS TABLE (n int, written bigint, "row" text)
	LANGUAGE plpgsql AS $$
BEGIN
	FOR n IN SELECT r.n FROM records r ORDER BY r.n LOOP
		written := apply(name, ARRAY[n]);
		EXECUTE format('SELECT t::text FROM %s t', (SELECT target FROM stream.projection_definition WHERE projection = name)) INTO "row";
		RETURN NEXT;
	END LOOP;
END
$$;

-- Each merge by itself: what it makes of a null at first, of values, of a null, and of a value again.
CREATE TABLE kinds (n serial, merge text, type text, vals text[]);
INSERT INTO kinds (merge, type, vals) VALUES
	('max', 'int', '{NULL,2,NULL,3,1,3}'), ('min', 'int', '{NULL,2,NULL,3,1,1}'), ('max', 'text', '{NULL,b,NULL,B,c,a}'), ('min', 'float8', '{NULL,2,NaN,-Infinity,0}'),
	('max', 'float8', '{1,NaN,2,NULL}'), ('max', 'uuid', '{NULL,00000000-0000-0000-0000-000000000001,00000000-0000-0000-0000-000000000000}'), ('min', 'boolean', '{NULL,t,f,t}'),
	('max', 'date', '{2024-01-01,infinity,2025-01-01}'), ('max', 'int[]', '{"{1,2}","{1,3}",NULL,"{2}"}'), ('max', 'stream.record_position', '{0:5,1:0,0:9}'),
	('and', 'boolean', '{NULL,t,NULL,f,t}'), ('or', 'boolean', '{NULL,f,NULL,t,f}'),
	('bit_and', 'int', '{NULL,7,NULL,5,12}'), ('bit_or', 'bigint', '{NULL,1,NULL,4,1}'), ('bit_or', 'bit(4)', '{NULL,0001,1000,NULL}'),
	('union', 'int[]', '{NULL,"{3,1}","{}","{NULL}","{1,2,2,1}","{{5,4},{3,2}}",NULL}'), ('union', 'text[]', '{"{}","{b,a}","{B}","{\"\"}"}'),
	('union', 'int4multirange', '{NULL,"{[1,3),[5,6)}","{}","{[3,5)}",NULL}'),
	('sum', 'int', '{NULL,2,NULL,3,-5}'), ('sum', 'numeric(10,2)', '{0.005,0.005,0.014}'), ('sum', 'interval', '{1 day,NULL,02:00}');
CREATE FUNCTION try(merge text, type text, vals text[]) RETURNS TABLE ("values" text, rows_written text)
	LANGUAGE plpgsql AS $$
BEGIN
	TRUNCATE records RESTART IDENTITY;
	INSERT INTO records (key, value) SELECT 'k', to_jsonb(v) FROM unnest(vals) v;
	EXECUTE format('CREATE TABLE target (k text PRIMARY KEY, v %s)', type);
	PERFORM stream.create_projection('p', 's', 'target', format($q$ SELECT key AS k, (value #>> '{}')::%s AS v FROM batch $q$, type), jsonb_build_object('v', merge));
	SELECT string_agg(coalesce(substr("row", 4, length("row") - 4), ''), ' → ' ORDER BY s.n), string_agg(written::text, '' ORDER BY s.n)
		INTO "values", rows_written FROM steps('p') s;
	RETURN NEXT;
	PERFORM stream.drop_projection('p');
	DROP TABLE target;
END
$$;
SELECT merge, type, vals, t.* FROM kinds, try(merge, type, vals) t ORDER BY n;
-- a count counts what is not null
CREATE TABLE counts (k text PRIMARY KEY, n int);
SELECT stream.create_projection('counts', 's', 'counts', 'SELECT key AS k, value->>0 AS n FROM batch', '{"n": "count"}');
TRUNCATE records RESTART IDENTITY;
INSERT INTO records (key, value) SELECT 'k', v FROM unnest(ARRAY['[null]', '[1]', '[null]', '["x"]', '[3]']::jsonb[]) v;
SELECT * FROM steps('counts');
SELECT apply('counts', '{1,2,3,4,5}');
TABLE counts;
-- elements and ranges may come one by one
CREATE TABLE sets (k text PRIMARY KEY, members text[], seqs int8multirange);
SELECT stream.create_projection('sets', 's', 'sets', $$SELECT key AS k, value->>'m' AS members, CASE WHEN value ? 's' THEN int8range((value->'s')::int8, (value->'s')::int8, '[]') END AS seqs FROM batch$$,
	'{"members": "union", "seqs": "union"}');
TRUNCATE records RESTART IDENTITY;
INSERT INTO records (key, value) SELECT 'k', jsonb_strip_nulls(jsonb_build_object('m', m, 's', s)) FROM (VALUES (NULL, NULL), ('b', 1), ('a', 3), ('b', 2), (NULL, 2), ('c', NULL)) v(m, s);
SELECT * FROM steps('sets');

-- rows, which are not null when something in them is
CREATE TYPE place AS (shelf int, box text);
CREATE TABLE places (k text PRIMARY KEY, places place[]);
SELECT stream.create_projection('places', 's', 'places', 'SELECT key AS k, jsonb_populate_record(NULL::place, value) AS places FROM batch', '{"places": "union"}');
TRUNCATE records RESTART IDENTITY;
INSERT INTO records (key, value) VALUES ('k', NULL), ('k', '{"shelf": 1, "box": "a"}'), ('k', '{"shelf": 1}'), ('k', '{}'), ('k', '{"shelf": 1}');
SELECT * FROM steps('places');

-- Latest and earliest: the columns of a row stay together, a null by does not count, a null value does.
CREATE TABLE latest (k text PRIMARY KEY, at int, author text, message text, first int, first_author text);
SELECT stream.create_projection('latest', 's', 'latest',
	$$SELECT key AS k, (value->0)::int AS at, value->>1 AS author, value->>2 AS message, (value->0)::int AS first, value->>1 AS first_author FROM batch$$,
	'{"at": "max", "author": "latest by at", "message": "latest by at", "first": "min", "first_author": "earliest by first"}');
TRUNCATE records RESTART IDENTITY;
INSERT INTO records (key, value) SELECT 'k', jsonb_build_array(at, author, message)
FROM (VALUES (5, 'e', 'five'), (3, 'c', 'three'), (7, NULL, 'seven'), (7, 'g', 'a'), (7, 'g', 'b'), (7, 'h', NULL), (8, NULL, NULL), (1, NULL, 'one'), (1, 'a', '')) v(at, author, message);
SELECT * FROM steps('latest');
SELECT * FROM steps('latest') WHERE written > 0;
TRUNCATE latest;
SELECT apply('latest', array_agg(n ORDER BY n DESC)) FROM records;
TABLE latest;

-- A key that a batch has a thousand times is written once, and what would not change is not written.
CREATE TABLE hits (k text PRIMARY KEY, last int, n int);
CREATE TABLE writes (operation text, k text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO writes VALUES (TG_OP, NEW.k); RETURN NEW; END';
CREATE TRIGGER note AFTER INSERT OR UPDATE ON hits FOR EACH ROW EXECUTE FUNCTION note();
SELECT stream.create_projection('hits', 's', 'hits', 'SELECT key AS k, value::int AS last FROM batch', '{"last": "max"}');
TRUNCATE records RESTART IDENTITY;
INSERT INTO records (key, value) SELECT 'k' || g % 3, to_jsonb(g) FROM generate_series(1, 3000) g;
SELECT apply('hits', array_agg(n)) FROM records;
SELECT apply('hits', array_agg(n)) FROM records;
INSERT INTO records (key, value) VALUES ('k1', '1'), ('k2', '4000'), ('k3', '1');
SELECT apply('hits', array_agg(n)) FROM records WHERE n > 3000;
TABLE hits ORDER BY k;
SELECT * FROM writes;

-- Keys: null is an error, unless the index takes nulls for equal.
CREATE TABLE null_keys (a int, b text, v int, UNIQUE NULLS NOT DISTINCT (a, b));
SELECT stream.create_projection('null keys', 's', 'null_keys', $$SELECT (value->0)::int AS a, nullif(key, 'null') AS b, 1 AS v FROM batch$$, '{"v": "sum"}');
TRUNCATE records RESTART IDENTITY;
INSERT INTO records (key, value) VALUES ('null', '[1]'), ('null', '[1]'), ('x', '[]'), ('null', '[]'), ('x', '[]');
SELECT apply('null keys', '{1,2,3,4,5}');
SELECT apply('null keys', '{1,2,3,4,5}');
TABLE null_keys ORDER BY a, b;
CREATE TABLE not_null_keys (k text PRIMARY KEY, v int);
SELECT stream.create_projection('not null keys', 's', 'not_null_keys', $$SELECT nullif(key, 'null') AS k, 1 AS v FROM batch$$, '{"v": "max"}');
SELECT failure($$SELECT apply('not null keys', '{1}')$$);
-- of any type
CREATE DOMAIN id AS int;
CREATE TYPE pair AS (a int, b text);
CREATE TABLE key_types (i id, a int[], r int4range, c char(3), v varchar(5), m int4multirange, n name, p pair, u uuid, j jsonb, d numeric(3,1), o stream.record_position,
	count int, PRIMARY KEY (i, a, r, c, v, m, n, p, u, j, d, o));
SELECT stream.create_projection('key types', 's', 'key_types', $$SELECT 1 AS i, '{1,2}'::int[] AS a, '[1,2]'::int4range AS r, key AS c, rpad(key, n) AS v,
	'{[1,3)}'::int4multirange AS m, key AS n, row(1, key)::pair AS p, md5('')::uuid AS u, '{"a": 1}'::jsonb AS j, 1.0 + n / 1000.0 AS d, '3:4'::stream.record_position AS o, n AS count
	FROM batch, generate_series(1, 3) n$$, '{"count": "count"}');
SELECT apply('key types', '{3,5}');
SELECT apply('key types', '{3,5}');
TABLE key_types ORDER BY v;
-- a key alone
CREATE TABLE seen (k text PRIMARY KEY);
SELECT stream.create_projection('seen', 's', 'seen', 'SELECT key AS k FROM batch', '{}');
SELECT apply('seen', '{1,2,3,4,5}'), apply('seen', '{1,2,3,4,5}');

-- Types: what an assignment refuses is refused, what it rounds is rounded record by record.
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE types (k varchar(3) PRIMARY KEY, name varchar(3), fixed char(4), rounded numeric(5,1), p positive, m mood, at timestamptz(0), why text, names varchar(3)[], mp stream.record_position);
SELECT stream.create_projection('types', 's', 'types', $$
	SELECT key AS k, value->>'name' AS name, value->>'name' AS fixed, (value->'n')::numeric AS rounded, (value->'n')::numeric AS p, (value->>'mood')::mood AS m,
		'2024-01-01 12:00Z'::timestamptz + (value->>'s')::interval AS at, value->>'name' AS why, value->>'name' AS names, stream.record_position("partition", record_offset) AS mp
	FROM batch$$,
	'{"name": "max", "fixed": "min", "rounded": "sum", "p": "max", "m": "max", "at": "max", "why": "latest by at", "names": "union", "mp": "max"}');
SELECT apply_sql FROM stream.projection_definition WHERE projection = 'types';
TRUNCATE records RESTART IDENTITY;
INSERT INTO records (key, value) VALUES
	('a', '{"name": "abc", "n": 1.04, "mood": "ok", "s": "0.3 s"}'), ('a', '{"name": "abd", "n": 2.04, "mood": "happy", "s": "-0.3 s"}'), ('a', '{"name": "abb", "n": 2.04, "mood": "sad"}'),
	('a', '{"name": "abcd"}'), ('a', '{"n": -5}'), ('abcd', '{}');
SELECT apply('types', '{1,2,3}');
TABLE types;
SELECT n, failure(format($$SELECT apply('types', '{%s}')$$, n)) FROM records WHERE n > 3 ORDER BY n;
TRUNCATE types;
-- in each its own batch: the same
SELECT n, apply('types', ARRAY[n]) FROM records WHERE n <= 3 ORDER BY n DESC;
SELECT k, name, fixed, rounded, p, m, at = '2024-01-01 12:00Z' AS at, why, names, mp FROM types;

-- The property: any order, any batches, any repetition give the same table.
CREATE TABLE target (a int, b text, mx int, mn numeric, an boolean, o boolean, ba int, bo bigint, ut text[], um int8multirange, at int, v text, w int,
	first timestamp, f text, u uuid, PRIMARY KEY (a, b));
SELECT stream.create_projection('all', 's', 'target', $$
	SELECT length(key) AS a, key AS b, (value->>'i')::int AS mx, (value->>'i')::int AS mn, (value->>'b')::boolean AS an, (value->>'b')::boolean AS o, (value->>'i')::int AS ba,
		(value->>'i')::int AS bo, value->>'t' AS ut, CASE WHEN value ? 'i' THEN int8range((value->>'i')::int8, (value->>'i')::int8 + 2) END AS um,
		(value->>'at')::int AS at, value->>'t' AS v, (value->>'i')::int AS w, '2024-01-01'::timestamp + (value->>'at')::int * interval '1 s' AS first, value->>'t' AS f,
		md5(value->>'t')::uuid AS u
	FROM batch$$,
	'{"mx": "max", "mn": "min", "an": "and", "o": "or", "ba": "bit_and", "bo": "bit_or", "ut": "union", "um": "union", "at": "max", "v": "latest by at", "w": "latest by at",
	"first": "min", "f": "earliest by first", "u": "max"}');
SELECT replay_safe FROM stream.projection_definition WHERE projection = 'all';
CREATE TABLE sums (k text PRIMARY KEY, s bigint, n int);
SELECT stream.create_projection('sums', 's', 'sums', $$SELECT key AS k, (value->>'i')::int AS s, value->>'t' AS n FROM batch$$, '{"s": "sum", "n": "count"}');
SELECT setseed(0.5);
TRUNCATE records RESTART IDENTITY;
INSERT INTO records (key, value)
SELECT repeat('k', 1 + (random() * 3)::int), jsonb_strip_nulls(jsonb_build_object('i', CASE WHEN random() < 0.8 THEN (random() * 20)::int END, 'b', CASE WHEN random() < 0.5 THEN random() < 0.7 END,
	't', CASE WHEN random() < 0.8 THEN chr(97 + (random() * 7)::int) END, 'at', CASE WHEN random() < 0.8 THEN (random() * 9)::int END))
FROM generate_series(1, 150);
-- what it must come to, by plain SQL
CREATE TABLE expected AS
	WITH q AS (SELECT key, (value->>'i')::int AS i, (value->>'b')::boolean AS b, value->>'t' AS t, (value->>'at')::int AS at FROM records)
	SELECT length(key) AS a, key AS b, max(i) AS mx, min(i)::numeric AS mn, bool_and(q.b) AS an, bool_or(q.b) AS o, bit_and(i) AS ba, bit_or(i)::bigint AS bo,
		array_agg(DISTINCT t ORDER BY t) FILTER (WHERE t IS NOT NULL) AS ut, range_agg(int8range(i, i + 2)) FILTER (WHERE i IS NOT NULL) AS um, max(at) AS at,
		(array_agg(t ORDER BY at DESC, t DESC NULLS LAST, i DESC NULLS LAST) FILTER (WHERE at IS NOT NULL))[1] AS v,
		(array_agg(i ORDER BY at DESC, t DESC NULLS LAST, i DESC NULLS LAST) FILTER (WHERE at IS NOT NULL))[1] AS w,
		'2024-01-01'::timestamp + min(at) * interval '1 s' AS first, (array_agg(t ORDER BY at, t DESC NULLS LAST) FILTER (WHERE at IS NOT NULL))[1] AS f,
		(array_agg(md5(t)::uuid ORDER BY md5(t)::uuid DESC) FILTER (WHERE t IS NOT NULL))[1] AS u
	FROM q GROUP BY key;
CREATE TABLE expected_sums AS SELECT key AS k, sum((value->>'i')::int)::bigint AS s, count(value->>'t')::int AS n FROM records GROUP BY 1;
DO $$
DECLARE
	ns int[];
	chunk int;
	i int;
	round int;
	wrong bigint;
BEGIN
	FOR round IN 1 .. 25 LOOP
		TRUNCATE target;
		TRUNCATE sums;
		-- the first rounds in order, in one batch and one by one
		ns := CASE WHEN round <= 2 THEN (SELECT array_agg(n ORDER BY n) FROM records) ELSE (SELECT array_agg(n ORDER BY random()) FROM records) END;
		i := 1;
		WHILE i <= array_length(ns, 1) LOOP
			chunk := CASE round WHEN 1 THEN array_length(ns, 1) WHEN 2 THEN 1 ELSE 1 + (random() * 60)::int END;
			PERFORM apply('sums', ns[i : i + chunk - 1]);
			PERFORM apply('all', ns[i : i + chunk - 1]);
			IF round > 2 THEN
				-- the same again, and some of all those before
				IF apply('all', ns[i : i + chunk - 1]) <> 0 THEN
					RAISE WARNING 'round %: written again', round;
				END IF;
				PERFORM apply('all', (SELECT array_agg(ns[1 + (random() * (i - 1))::int]) FROM generate_series(1, 10)));
			END IF;
			i := i + chunk;
		END LOOP;
		SELECT count(*) INTO wrong FROM ((TABLE target EXCEPT TABLE expected) UNION ALL (TABLE expected EXCEPT TABLE target)) d;
		IF wrong <> 0 THEN
			RAISE WARNING 'round %: % differences', round, wrong;
		END IF;
		SELECT count(*) INTO wrong FROM ((TABLE sums EXCEPT TABLE expected_sums) UNION ALL (TABLE expected_sums EXCEPT TABLE sums)) d;
		IF wrong <> 0 THEN
			RAISE WARNING 'round %: % differences of sums', round, wrong;
		END IF;
	END LOOP;
END
$$;
SELECT count(*) FROM target;

-- The functions by themselves.
SELECT stream.latest(v, at), stream.earliest(v, at), stream.latest(v, at, w), stream.earliest(v, at, w), stream.max_of(v), stream.min_of(v)
FROM (VALUES (1, 'a', 3), (1, 'b', 1), (2, NULL, 9), (2, 'c', 2), (NULL, 'z', 9)) r(at, v, w);
SELECT stream.latest(v, at), stream.max_of(v), stream.array_union_agg(ARRAY[v]) FROM (SELECT NULL::int AS at, NULL::text AS v) r;
SELECT stream.latest(v, at), stream.array_union_agg(ARRAY[v]) FROM (SELECT 1 AS at, 'v' AS v WHERE false) r;
SELECT at, stream.latest(v, at) OVER (ORDER BY at), stream.array_union_agg(ARRAY[v]) OVER (ORDER BY at) FROM (VALUES (1, 'b'), (2, 'a'), (3, NULL)) r(at, v);
-- each argument by its own collation
SELECT stream.latest(v, at COLLATE "C") FROM (VALUES ('a', 1), ('B', 2)) r(at, v);
SELECT stream.is_later(2, 'a'::text, 1, 'b'::text), stream.is_later(1, 'a'::text, 1, 'b'::text), stream.is_later(1, 'b'::text, 1, 'a'::text), stream.is_later(1, 1), stream.is_later(1, NULL::int, 1, 5),
	stream.is_later(1, 5, 1, NULL::int), stream.is_later(NULL::int, 1), stream.is_later(1, NULL::int), stream.is_later(NULL::int, NULL::int);
SELECT stream.is_earlier(2, 1), stream.is_earlier(1, 2), stream.is_earlier(1, 5, 1, 4), stream.is_earlier(1, 4, 1, 5);
SELECT stream.array_union(NULL::int[], NULL), stream.array_union('{}'::int[], NULL), stream.array_union('{3,1,2}'::int[], '{2,2,5}'), stream.array_union('[5:6]={1,2}'::int[], '{}');
CREATE TABLE wrong_calls (n serial, call text);
INSERT INTO wrong_calls (call) VALUES ('stream.is_later()'), ('stream.is_later(1)'), ('stream.is_later(1, 2, 3)'), ('stream.is_later(1, 2::bigint)'), ('stream.is_later(1, ''a'')'),
	('stream.is_later(''{}''::json, ''{}''::json)'), ('stream.is_later(VARIADIC ARRAY[1, 2])'), ('stream.latest(1)'), ('stream.latest(''{}''::json, 1)'), ('stream.latest(1, point(0, 0))'),
	('stream.latest(1, VARIADIC ARRAY[1, 2])'), ('stream.max_of(p) FROM (VALUES (point(0, 0)), (point(0, 1))) v(p)'), ('stream.array_union(''{}''::json[], ''{}'')'), ('stream.array_union_agg(''{}''::json[])'),
	('stream_internal.latest_step(NULL, 1, 1)'), ('stream_internal.array_union_step(NULL, ''{1}''::int[])');
SELECT n, call, failure('SELECT ' || call) FROM wrong_calls ORDER BY n;
-- many elements, in no order
SELECT array_length(stream.array_union_agg(ARRAY[g * 7919 % 10007, g % 100]), 1), (stream.array_union_agg(ARRAY[(g * 7919 % 10007)::text]))[1 : 3] FROM generate_series(1, 50000) g;

SET client_min_messages = warning;
SELECT stream.drop_stream('s');
DROP TABLE records, kinds, counts, sets, places, latest, hits, writes, null_keys, not_null_keys, key_types, seen, types, target, sums, expected, expected_sums, wrong_calls CASCADE;
DROP FUNCTION apply, steps, try, note;
DROP DOMAIN positive, id;
DROP TYPE mood, pair, place;
