-- Which partition a record goes to.

-- Kafka's hash, written down once more.
CREATE FUNCTION murmur2(data bytea) RETURNS bigint
	LANGUAGE plpgsql AS $$
DECLARE
	mask CONSTANT bigint := 4294967295;
	m CONSTANT bigint := 1540483477;
	h bigint := 2538058380 # length(data);
	k bigint;
	i int := 0;
BEGIN
	WHILE i + 4 <= length(data) LOOP
		k := get_byte(data, i) + get_byte(data, i + 1) * 256 + get_byte(data, i + 2) * 65536 + get_byte(data, i + 3) * 16777216::bigint;
		k := (k::numeric * m % 4294967296)::bigint;
		k := k # (k >> 24);
		k := (k::numeric * m % 4294967296)::bigint;
		h := (h::numeric * m % 4294967296)::bigint # k;
		i := i + 4;
	END LOOP;
	IF i < length(data) THEN
		k := 0;
		FOR j IN 0 .. length(data) - i - 1 LOOP
			k := k + (get_byte(data, i + j)::bigint << (8 * j));
		END LOOP;
		h := ((h # k)::numeric * m % 4294967296)::bigint;
	END IF;
	h := h # (h >> 13);
	h := (h::numeric * m % 4294967296)::bigint;
	RETURN (h # (h >> 15)) & mask;
END
$$;
-- the vectors of Kafka's own test of it
SELECT key, murmur2(key::bytea)::bit(32)::int AS hash, expected, murmur2(key::bytea)::bit(32)::int = expected AS same
FROM (VALUES
	('21', -973932308), ('foobar', -790332482), ('a-little-bit-long-string', -985981536),
	('a-little-bit-longer-string', -1486304829),
	('lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971), ('abc', 479470107)
) v (key, expected);

SELECT stream.create_stream('p' || n, n) FROM unnest(ARRAY[1, 2, 3, 7, 16, 100, 256]) n;
CREATE TABLE keys (n int, key text);
INSERT INTO keys VALUES (1, '21'), (2, 'foobar'), (3, 'a-little-bit-long-string'), (4, 'a-little-bit-longer-string'),
	(5, 'lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8'), (6, 'abc'), (7, ''), (8, 'é'), (9, 'Zürich'),
	(10, U&'\65E5\672C\8A9E'), (11, U&'\+01F600'), (12, U&'a\0301'), (13, E'tab\tand\nline'), (14, U&'\0001\007F\0080\07FF\0800\FFFD');
-- by the vectors
SELECT key, stream.publish('p16', key, '1') AS of_16, stream.partition_of(stream.publish('p100', key, '1')) AS of_100,
	(expected & 2147483647) % 16 AS expected_of_16, (expected & 2147483647) % 100 AS expected_of_100
FROM (VALUES
	('21', -973932308), ('foobar', -790332482), ('a-little-bit-long-string', -985981536),
	('a-little-bit-longer-string', -1486304829),
	('lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971), ('abc', 479470107)
) v (key, expected);
-- beyond ASCII: the key's bytes in UTF-8
SELECT n, stream.partition_of(stream.publish('p256', key, '1')) AS "partition",
	(murmur2(convert_to(key, 'UTF8')) & 2147483647) % 256 AS expected
FROM keys ORDER BY n;
-- every length of a key, and every number of partitions
INSERT INTO keys SELECT 100 + g, repeat(md5(g::text), 3) FROM generate_series(1, 20) g;
INSERT INTO keys SELECT 200 + g, left(repeat(md5(g::text), 3), g) FROM generate_series(0, 40) g;
INSERT INTO keys SELECT 300 + g, chr(g * 137 + 160) || repeat(chr(g + 1000), g % 5) FROM generate_series(1, 60) g;
SELECT count(*) AS keys,
	count(*) FILTER (WHERE stream.partition_of(stream.publish('p1', key, '1')) <> 0) AS wrong_1,
	count(*) FILTER (WHERE stream.partition_of(stream.publish('p2', key, '1')) <> hash % 2) AS wrong_2,
	count(*) FILTER (WHERE stream.partition_of(stream.publish('p3', key, '1'::text)) <> hash % 3) AS wrong_3,
	count(*) FILTER (WHERE stream.partition_of(stream.publish('p7', key, '1'::json)) <> hash % 7) AS wrong_7,
	count(*) FILTER (WHERE stream.partition_of(stream.publish_tombstone('p100', key)) <> hash % 100) AS wrong_100,
	count(*) FILTER (WHERE stream.partition_of(stream.publish('p256', key, '1')) <> hash % 256) AS wrong_256
FROM (SELECT key, murmur2(convert_to(key, 'UTF8')) & 2147483647 AS hash FROM keys) k;
-- the same from an array, and from an INSERT
SELECT count(*) AS wrong FROM (SELECT array_agg(key ORDER BY n) AS keys, array_agg('1'::jsonb) AS record_values FROM keys) k,
	LATERAL ROWS FROM (stream.publish_batch('p7', k.keys, k.record_values), unnest(k.keys)) b (position, key)
WHERE stream.partition_of(position) <> (murmur2(convert_to(key, 'UTF8')) & 2147483647) % 7;
WITH i AS (INSERT INTO streams.p7 (key, value) SELECT key, '1' FROM keys RETURNING "partition", key)
SELECT count(*) AS rows, count(*) FILTER (WHERE "partition" <> (murmur2(convert_to(key, 'UTF8')) & 2147483647) % 7) AS wrong FROM i;
-- all records of a key are in one partition, as read too
SELECT count(*) FROM (SELECT key FROM records('p7') GROUP BY key HAVING count(DISTINCT "partition") > 1) k;

-- An explicit partition wins over the key.
SELECT stream.publish('p3', 'foobar', '1', "partition" => p) FROM generate_series(0, 2) p;
SELECT stream.publish('p3', NULL, '1', "partition" => 2);

-- Without a key, records are spread evenly.
SELECT count(*), min(n), max(n) FROM (
	SELECT stream.partition_of(stream.publish('p7', NULL, '1')) AS p, count(*) AS n FROM generate_series(1, 700) GROUP BY 1) d;
SELECT count(*), min(n), max(n) FROM (
	SELECT stream.partition_of(p) AS p, count(*) AS n
	FROM stream.publish_batch('p7', NULL, array_fill('1'::jsonb, ARRAY[700])) p GROUP BY 1) d;
WITH i AS (INSERT INTO streams.p7 (value) SELECT '1' FROM generate_series(1, 700) RETURNING "partition")
SELECT count(*), min(n), max(n) FROM (SELECT "partition", count(*) AS n FROM i GROUP BY 1) d;
-- also by transactions of one record
CREATE TABLE spread (p int);
SELECT format('INSERT INTO spread SELECT stream.partition_of(stream.publish(%L, NULL, %L))', 'p3', '1') FROM generate_series(1, 9) \gexec
SELECT count(*), min(n), max(n) FROM (SELECT p, count(*) AS n FROM spread GROUP BY 1) d;
-- the keys of many records are spread too
SELECT count(*), min(n) > 100, max(n) < 190 FROM (
	SELECT stream.partition_of(stream.publish('p7', 'key ' || g, '1')) AS p, count(*) AS n FROM generate_series(1, 1000) g GROUP BY 1) d;

SELECT count(stream.drop_stream('p' || n)) FROM unnest(ARRAY[1, 2, 3, 7, 16, 100, 256]) n;
DROP TABLE keys, spread;
DROP FUNCTION murmur2;
