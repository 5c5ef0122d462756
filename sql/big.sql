-- Big values, in all kinds of storage.
SELECT stream.create_stream('lz4', 1, 'bytea');
SELECT stream.create_stream('plain', 1, 'bytea', 'none');
SELECT stream.create_stream('json');
SELECT stream.create_stream('json_plain', 1, compression => 'none');

-- sizes around what a page holds, that compress and that do not
CREATE TABLE input (n serial, size int, random boolean, value bytea);
CREATE FUNCTION noise(size int) RETURNS bytea LANGUAGE sql AS $$
	SELECT substr(string_agg(decode(md5(g::text), 'hex'), ''), 1, size) FROM generate_series(0, size / 16) g
$$;
INSERT INTO input (size, random, value)
SELECT size, random, CASE WHEN random THEN substr(noise, 1, size) ELSE decode(repeat('ab', size), 'hex') END
FROM unnest(ARRAY[0, 1, 2, 100, 1000, 2000, 4000, 8000, 8060, 8070, 8080, 8084, 8085, 8086, 8087, 8088, 8089, 8090, 8100, 8120, 8127, 8128, 8129,
		8130, 8140, 8150, 8160, 8192, 8200, 10000, 16384, 32768, 65535, 65536, 65537, 100000, 500000, 1048576]) size,
	unnest(ARRAY[true, false]) random, noise(1048576) noise;
-- a transaction each, then all in one
DO $$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT value FROM input WHERE size < 20000 ORDER BY n LOOP
		PERFORM stream.publish_bytes('lz4', NULL, r.value), stream.publish_bytes('plain', NULL, r.value);
		COMMIT;
	END LOOP;
END
$$;
SELECT stream, count(r) AS records, count(*) FILTER (WHERE r.value IS DISTINCT FROM i.value) AS wrong
FROM unnest(ARRAY['lz4', 'plain']) stream, (SELECT row_number() OVER (ORDER BY n) - 1 AS o, value FROM input WHERE size < 20000) i,
	stream.read_bytes(stream, 0, i.o, 1) r GROUP BY 1 ORDER BY 1;
SELECT count(stream.publish_bytes('lz4', 'all', value)), count(stream.publish_bytes('plain', 'all', value)) FROM input;
SELECT stream, count(*), count(*) FILTER (WHERE r.value <> input.value) AS wrong, max(record_offset) - min(record_offset) + 1 AS span
FROM (
	SELECT stream, value, record_offset, row_number() OVER (PARTITION BY stream ORDER BY record_offset) AS n
	FROM unnest(ARRAY['lz4', 'plain']) stream, stream.read_bytes(stream, 0, NULL, NULL, NULL) WHERE key = 'all'
) r JOIN input USING (n)
GROUP BY 1 ORDER BY 1;
SELECT * FROM stream.verify_log('lz4');
SELECT * FROM stream.verify_log('plain');
SELECT stream, bytes > 0.9 * (SELECT sum(size) FROM input WHERE random) AS not_shrunk, bytes < (SELECT 2 * sum(size) FROM input) AS not_blown_up
FROM stream.stream_status WHERE stream IN ('lz4', 'plain') ORDER BY 1;

-- 20 MB in one value
SELECT length(v), md5(v) AS digest, stream.publish_bytes('lz4', 'huge', v) AS position
FROM (SELECT string_agg(value, '') AS v FROM input, generate_series(1, 20) WHERE size = 1048576 AND random OFFSET 0) i \gset
SELECT length(value), md5(value) = :'digest' AS same FROM stream.read_bytes('lz4', 0, stream.offset_of(:'position'));
SELECT length(v), md5(v) AS digest, stream.publish('json_plain', 'huge', jsonb_build_object('text', v)) AS position
FROM (SELECT string_agg(encode(value, 'hex'), '') AS v FROM input, generate_series(1, 10) WHERE size = 1048576 AND random OFFSET 0) i \gset
SELECT length(value ->> 'text'), md5(value ->> 'text') = :'digest' AS same FROM stream.read('json_plain', 0, stream.offset_of(:'position'));
-- a document of many parts
SELECT stream.publish('json', 'parts', jsonb_object_agg('key ' || g, jsonb_build_array(g, g::text, NULL, g % 2 = 0))) FROM generate_series(1, 20000) g;
SELECT key, (SELECT count(*) FROM jsonb_each(r.value)), r.value #> '{key 12345,0}' AS part FROM stream.read('json', 0, 0) r;
SELECT stream.publish('json', repeat('k', 3000000), '1', jsonb_build_object('h', repeat('h', 3000000)));
SELECT length(key), length(headers ->> 'h') FROM stream.read('json', 0, 1) r;
SELECT stream.publish('json', 'small', '1');
SELECT record_offset, left(key, 5) AS key FROM stream.read('json', 0, 0, NULL, NULL);

-- Many records in one transaction, without compression: written in its course.
SELECT count(stream.publish('json_plain', 'many', jsonb_build_object('n', g, 'text', repeat(md5(g::text), 10)))) FROM generate_series(1, 10000) g;
SELECT count(*), count(*) FILTER (WHERE value <> jsonb_build_object('n', n, 'text', repeat(md5(n::text), 10))) AS wrong
FROM (SELECT value, row_number() OVER (ORDER BY record_offset) AS n FROM stream.read('json_plain', 0, 1, NULL, NULL)) r;
SELECT * FROM stream.verify_log('json');
SELECT * FROM stream.verify_log('json_plain');

DROP TABLE input;
DROP FUNCTION noise;
SELECT stream.drop_stream('lz4'), stream.drop_stream('plain'), stream.drop_stream('json'), stream.drop_stream('json_plain');
