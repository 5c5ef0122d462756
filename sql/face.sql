-- The foreign table of a stream.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 3);
SELECT stream.create_stream('bytes', 1, 'bytea');
SELECT count(stream.publish('s', 'key ' || g, jsonb_build_object('n', g), CASE WHEN g % 2 = 0 THEN jsonb_build_object('h', g) END))
FROM generate_series(1, 20) g;

-- Reading it.
SELECT "partition", record_offset, key, value, headers FROM streams.s WHERE key IN ('key 1', 'key 2', 'key 3') ORDER BY value;
SELECT count(*), count(DISTINCT "partition"), count(headers) FROM streams.s;
SELECT count(*) FROM (SELECT "partition", record_offset, key, value, headers, published_at FROM streams.s
	EXCEPT SELECT r."partition", r.record_offset, r.key, r.value, r.headers, r.published_at FROM generate_series(0, 2) p, stream.read('s', p) r) d;
-- in order within a partition
SELECT count(*) FROM (SELECT record_offset, lag(record_offset) OVER (PARTITION BY "partition" ORDER BY n) AS previous
	FROM (SELECT *, row_number() OVER () AS n FROM streams.s) s) o WHERE record_offset <= previous;
SELECT count(*) FROM (SELECT FROM streams.s LIMIT 3) l;
SELECT s.value ->> 'n' AS n FROM streams.s s WHERE s."partition" = 1 AND s.record_offset BETWEEN 1 AND 2 ORDER BY s.record_offset;
-- the same as a whole row, with other names, as a system column
SELECT s IS NOT NULL, (s).key FROM streams.s s WHERE key = 'key 2';
SELECT tableoid::regclass, k FROM streams.s AS s (p, o, t, k) WHERE k = 'key 2';
-- scanned again: joins, subqueries, cursors
SELECT count(*) FROM streams.s a JOIN streams.s b USING ("partition", record_offset);
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;
SELECT count(*) FROM generate_series(1, 5) g JOIN streams.s ON value = jsonb_build_object('n', g);
SELECT count(*) FROM streams.s a JOIN streams.s b USING ("partition", record_offset);
RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material;
SELECT g, (SELECT count(*) FROM streams.s WHERE (value ->> 'n')::int <= g) FROM generate_series(1, 3) g;
SELECT g, l.key FROM generate_series(1, 3) g, LATERAL (SELECT key FROM streams.s WHERE value ->> 'n' = g::text) l ORDER BY g;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT key FROM streams.s WHERE "partition" = 0;
SELECT count(*) AS n FROM streams.s WHERE "partition" = 0 \gset
MOVE ALL FROM c;
FETCH BACKWARD 1 FROM c;
MOVE ABSOLUTE 0 FROM c;
FETCH 1 FROM c;
COMMIT;
-- fetched in a subtransaction that is rolled back
BEGIN;
DECLARE c CURSOR FOR SELECT key FROM streams.s;
FETCH 1 FROM c;
SAVEPOINT a;
MOVE 10 FROM c;
INSERT INTO streams.s (key, value) VALUES ('lost', '1');
ROLLBACK TO a;
MOVE 10 FROM c; \echo :ROW_COUNT
FETCH 1 FROM c;
CLOSE c;
COMMIT;
-- a loop that publishes to the stream it reads ends
CREATE PROCEDURE loop_over(INOUT n int) LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	n := 0;
	FOR r IN SELECT key FROM streams.s LOOP
		n := n + 1;
		PERFORM stream.publish('s', 'in the loop', to_jsonb(n));
		IF n = 5 THEN
			COMMIT;
		END IF;
	END LOOP;
END
$$;
CALL loop_over(NULL);
SELECT count(*) FROM streams.s;
DROP PROCEDURE loop_over;
INSERT INTO streams.s (key, value) SELECT 'copy', value FROM streams.s;
SELECT key LIKE 'key %' AS first_ones, count(*) FROM streams.s GROUP BY 1 ORDER BY 1;
-- views, materialised views, CREATE TABLE AS, COPY
CREATE VIEW numbers AS SELECT (value ->> 'n')::int AS n FROM streams.s WHERE value ? 'n';
SELECT sum(n) FROM numbers;
CREATE MATERIALIZED VIEW stored AS SELECT * FROM streams.s;
SELECT count(*) FROM stored;
SELECT stream.publish('s', 'key 21', '{"n": 21}') IS NOT NULL;
REFRESH MATERIALIZED VIEW stored;
SELECT count(*) FROM stored;
DROP MATERIALIZED VIEW stored;
DROP VIEW numbers;
COPY (SELECT key, value, headers FROM streams.s WHERE value ->> 'n' IN ('1', '2') ORDER BY key) TO stdout;
SELECT key FROM streams.s WHERE key = 'key 1' FOR UPDATE;
-- its own transaction's records are not there yet
BEGIN;
INSERT INTO streams.s (key, value) VALUES ('own', '1');
SELECT count(*) FROM streams.s WHERE key = 'own';
COMMIT;
SELECT count(*) FROM streams.s WHERE key = 'own';
SELECT * FROM streams.bytes;
ANALYZE streams.s;

-- INSERT publishes.
INSERT INTO streams.s (key, value) VALUES ('a', '{"i": 1}') RETURNING "partition", record_offset IS NOT NULL AS has_offset, key, value, headers,
	published_at BETWEEN now() AND clock_timestamp() AS has_time;
INSERT INTO streams.s ("partition", key, value, headers) VALUES (2, 'b', '{"i": 2}', '{"h": 2}'), (1, 'b', '{"i": 3}', NULL) RETURNING "partition", key, value, headers;
INSERT INTO streams.s (value) SELECT jsonb_build_object('i', g) FROM generate_series(4, 9) g;
INSERT INTO streams.s (key, value) VALUES (NULL, 'null'), ('', '""') RETURNING key IS NULL AS no_key, value;
INSERT INTO streams.bytes (key, value) VALUES ('a', '\x00ff') RETURNING record_offset, value;
SELECT key, value, headers FROM streams.s WHERE value ? 'i' ORDER BY value -> 'i';
-- what RETURNING says is where the record is
WITH i AS (INSERT INTO streams.s (key, value) SELECT 'r' || g, to_jsonb(g) FROM generate_series(1, 5) g RETURNING *)
SELECT "partition", record_offset, key, value, published_at INTO TEMP returned FROM i;
SELECT count(*) FROM returned JOIN streams.s USING ("partition", record_offset, key, value, published_at);
PREPARE publish AS INSERT INTO streams.s (key, value) VALUES ($1, $2) RETURNING key, value;
EXECUTE publish('p', '1'); EXECUTE publish('p', '2'); EXECUTE publish('p', '3'); EXECUTE publish('p', '4');
EXECUTE publish('p', '5'); EXECUTE publish('p', '6'); EXECUTE publish('p', '7');
DEALLOCATE publish;
SELECT array_agg(value ORDER BY record_offset) FROM streams.s WHERE key = 'p';
-- also a COPY
COPY streams.s (key, value) FROM stdin;
copied	{"c": 1}
copied	{"c": 2}
\N	{"c": 3}
\.
SELECT key, value FROM streams.s WHERE value ? 'c' ORDER BY value;
-- through a view
CREATE VIEW entry AS SELECT key, value FROM streams.s;
INSERT INTO entry VALUES ('view', '1') RETURNING *;
DROP VIEW entry;
-- triggers: one after the row sees the record's position
CREATE TABLE seen (place text, key text, has_position boolean);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO seen VALUES (TG_WHEN, NEW.key, NEW.record_offset IS NOT NULL AND NEW."partition" IS NOT NULL AND NEW.published_at IS NOT NULL);
	NEW.value := NEW.value || '{"trigger": true}';
	RETURN CASE WHEN NEW.key <> 'suppressed' THEN NEW END;
END
$$;
CREATE TRIGGER after AFTER INSERT ON streams.s FOR EACH ROW EXECUTE FUNCTION see();
INSERT INTO streams.s (key, value) VALUES ('after', '{}') RETURNING key, value, record_offset IS NOT NULL AS has_position;
CREATE TRIGGER before BEFORE INSERT ON streams.s FOR EACH ROW EXECUTE FUNCTION see();
INSERT INTO streams.s (key, value) VALUES ('both', '{}'), ('suppressed', '{}') RETURNING key, value, record_offset IS NOT NULL AS has_position;
SELECT * FROM seen ORDER BY key, place DESC;
SELECT key, value FROM streams.s WHERE key IN ('after', 'both', 'suppressed') ORDER BY key;
DROP TRIGGER before ON streams.s;
DROP TRIGGER after ON streams.s;
DROP FUNCTION see;
DROP TABLE seen;
-- in subtransactions, like publish
BEGIN;
INSERT INTO streams.s (key, value) VALUES ('sub', '1');
SAVEPOINT a;
INSERT INTO streams.s (key, value) VALUES ('sub', '2');
ROLLBACK TO a;
INSERT INTO streams.s (key, value) VALUES ('sub', '3');
COMMIT;
SELECT value FROM streams.s WHERE key = 'sub';

-- What an INSERT refuses.
SELECT count(*) AS before FROM streams.s \gset
INSERT INTO streams.s (key) VALUES ('k'); \echo :SQLSTATE
INSERT INTO streams.s (key, value) VALUES ('k', NULL); \echo :SQLSTATE
INSERT INTO streams.s (key, value, headers) VALUES ('k', '1', '[]'); \echo :SQLSTATE
INSERT INTO streams.s ("partition", key, value) VALUES (3, 'k', '1'); \echo :SQLSTATE
INSERT INTO streams.s ("partition", key, value) VALUES (-1, 'k', '1'); \echo :SQLSTATE
INSERT INTO streams.s (key, value, published_at) VALUES ('k', '1', now()); \echo :SQLSTATE
INSERT INTO streams.s (key, value) VALUES ('k', 'no json'); \echo :SQLSTATE
INSERT INTO streams.s (key, value) VALUES ('k', '1') ON CONFLICT DO NOTHING; \echo :SQLSTATE
INSERT INTO streams.s (key, value) VALUES ('k', '1') ON CONFLICT (key) DO UPDATE SET value = '2'; \echo :SQLSTATE
INSERT INTO streams.s DEFAULT VALUES; \echo :SQLSTATE
BEGIN TRANSACTION READ ONLY;
INSERT INTO streams.s (key, value) VALUES ('k', '1'); \echo :SQLSTATE
ROLLBACK;
-- some rows in order, one not: nothing of it
INSERT INTO streams.s (key, value) SELECT 'k', CASE WHEN g < 5 THEN to_jsonb(g) END FROM generate_series(1, 5) g; \echo :SQLSTATE
-- a record that is there, as in a dump of the table, is passed over; any other offset is an error
INSERT INTO streams.s SELECT * FROM streams.s WHERE key LIKE 'key %'; \echo :ROW_COUNT
INSERT INTO streams.s ("partition", record_offset, key, value) VALUES (0, 0, 'other key', '"other value"') RETURNING *;
INSERT INTO streams.s ("partition", record_offset, key, value) VALUES (0, 1000, 'k', '1'); \echo :SQLSTATE
INSERT INTO streams.s ("partition", record_offset, key, value) VALUES (3, 0, 'k', '1'); \echo :SQLSTATE
INSERT INTO streams.s ("partition", record_offset, key, value) VALUES (0, -1, 'k', '1'); \echo :SQLSTATE
INSERT INTO streams.s (record_offset, key, value) VALUES (0, 'k', '1'); \echo :SQLSTATE
-- one in a hole, one in flight
BEGIN;
SELECT stream.offset_of(stream.publish('s', NULL, '1', "partition" => 0)) AS hole \gset
ROLLBACK;
SELECT stream.publish('s', NULL, '"behind"', "partition" => 0) IS NOT NULL AS published;
INSERT INTO streams.s ("partition", record_offset, key, value) VALUES (0, :hole, 'k', '1'); \echo :SQLSTATE
BEGIN;
SELECT stream.offset_of(stream.publish('s', NULL, '"open"', "partition" => 0)) AS open \gset
INSERT INTO streams.s ("partition", record_offset, key, value) VALUES (0, :open, 'k', '1'); \echo :SQLSTATE
ROLLBACK;
-- a dump of the rows, restored
CREATE TABLE dumped AS SELECT * FROM streams.s;
INSERT INTO streams.s SELECT * FROM dumped; \echo :ROW_COUNT
DROP TABLE dumped;
SELECT count(*) - :before AS more FROM streams.s;

-- Records are not changed.
UPDATE streams.s SET value = '1'; \echo :SQLSTATE
UPDATE streams.s SET value = '1' WHERE key = 'key 1'; \echo :SQLSTATE
DELETE FROM streams.s; \echo :SQLSTATE
TRUNCATE streams.s; \echo :SQLSTATE
MERGE INTO streams.s USING (VALUES ('key 1')) v (k) ON s.key = v.k WHEN MATCHED THEN DELETE; \echo :SQLSTATE
SELECT count(*) - :before AS more FROM streams.s;

-- A foreign table of the same server that is no stream is refused at use.
CREATE FOREIGN TABLE forged ("partition" int, record_offset bigint, published_at timestamptz, key text, value jsonb, headers jsonb) SERVER stream;
SELECT * FROM forged; \echo :SQLSTATE
INSERT INTO forged (key, value) VALUES ('k', '1'); \echo :SQLSTATE
SELECT stream.publish('forged', 'k', '1'); \echo :SQLSTATE
DROP FOREIGN TABLE forged;
CREATE FOREIGN TABLE s ("partition" int, record_offset bigint, published_at timestamptz, key text, value jsonb, headers jsonb) SERVER stream;
SELECT * FROM s; \echo :SQLSTATE
DROP FOREIGN TABLE s;
CREATE FOREIGN TABLE streams.forged ("partition" int, record_offset bigint, published_at timestamptz, key text, value jsonb, headers jsonb) SERVER stream;
SELECT * FROM streams.forged; \echo :SQLSTATE
INSERT INTO streams.forged (key, value) VALUES ('k', '1'); \echo :SQLSTATE
SELECT stream.publish('forged', 'k', '1'); \echo :SQLSTATE
SELECT stream.publish_batch('forged', '{k}', '{1}'); \echo :SQLSTATE
SELECT stream.read('forged', 0); \echo :SQLSTATE
SELECT stream.offset_at('forged', 0, now()); \echo :SQLSTATE
SELECT stream.wait_for_offset('forged', '0:0'); \echo :SQLSTATE
SELECT * FROM stream.verify_log('forged'); \echo :SQLSTATE
CALL stream.roll_segment('forged'); \echo :SQLSTATE
SELECT stream.alter_stream('forged', compression => 'none'); \echo :SQLSTATE
SELECT stream.create_stream('forged'); \echo :SQLSTATE
SELECT stream FROM stream.stream_status ORDER BY 1;
SELECT stream.drop_stream('forged'); \echo :SQLSTATE
DROP FOREIGN TABLE streams.forged;
-- options it has none
CREATE FOREIGN TABLE forged (a int) SERVER stream OPTIONS (stream 's'); \echo :SQLSTATE
ALTER SERVER stream OPTIONS (ADD host 'x'); \echo :SQLSTATE
ALTER FOREIGN TABLE streams.s OPTIONS (ADD x 'y'); \echo :SQLSTATE
ALTER FOREIGN TABLE streams.s ALTER key OPTIONS (ADD x 'y'); \echo :SQLSTATE
CREATE USER MAPPING FOR CURRENT_USER SERVER stream OPTIONS (password 'x'); \echo :SQLSTATE

-- Its columns stay, and its schema.
SELECT failure(command) FROM unnest(ARRAY[
	'ALTER FOREIGN TABLE streams.s ADD COLUMN more int',
	'ALTER FOREIGN TABLE streams.s DROP COLUMN headers',
	'ALTER FOREIGN TABLE streams.s RENAME COLUMN key TO name',
	'ALTER FOREIGN TABLE streams.s SET SCHEMA public']) command;
\set VERBOSITY sqlstate
ALTER FOREIGN TABLE streams.s ALTER value TYPE text;
\set VERBOSITY default
SELECT count(*) - :before AS more FROM streams.s;
-- its name is the stream's
BEGIN;
INSERT INTO streams.s (key, value) VALUES ('under the old name', '1');
ALTER FOREIGN TABLE streams.s RENAME TO "New name";
SELECT stream.publish('New name', 'under the new name', '2') IS NOT NULL AS published;
SAVEPOINT a;
SELECT stream.publish('s', 'k', '1'); \echo :SQLSTATE
ROLLBACK TO a;
COMMIT;
SELECT key FROM streams."New name" WHERE key LIKE 'under%' ORDER BY key;
SELECT count(*) - :before AS more FROM records('New name');
SELECT stream FROM stream.stream_status ORDER BY 1;
SELECT stream.read('s', 0); \echo :SQLSTATE
BEGIN;
ALTER FOREIGN TABLE streams."New name" RENAME TO lost;
SELECT stream.publish('lost', 'k', '1') IS NOT NULL AS published;
ROLLBACK;
SELECT stream.publish('lost', 'k', '1'); \echo :SQLSTATE
ALTER FOREIGN TABLE streams."New name" RENAME TO bytes; \echo :SQLSTATE
ALTER FOREIGN TABLE streams."New name" RENAME TO s;
SELECT count(*) - :before AS more FROM streams.s;
SELECT stream, records > 0 AS has_records FROM stream.stream_status ORDER BY 1;

SELECT * FROM stream.verify_log('s');
DROP TABLE returned;
SELECT stream.drop_stream('s'), stream.drop_stream('bytes');
