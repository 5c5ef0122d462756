-- Publishing from all kinds of SQL.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 2);
CREATE TABLE orders (id int PRIMARY KEY, state text, amount int);

-- In queries, CTEs, RETURNING.
WITH p AS (SELECT stream.publish('s', 'cte', to_jsonb(g)) AS position FROM generate_series(1, 5) g) SELECT count(*) FROM p;
WITH i AS (INSERT INTO orders SELECT g, 'new', g * 10 FROM generate_series(1, 4) g RETURNING *)
SELECT id, stream.partition_of(stream.publish('s', 'order ' || id, to_jsonb(i))) IN (0, 1) AS published FROM i ORDER BY id;
UPDATE orders SET state = 'paid' WHERE id <= 2 RETURNING id, stream.publish('s', 'update', to_jsonb(orders)) IS NOT NULL AS published;
DELETE FROM orders WHERE id = 4 RETURNING id, stream.publish_tombstone('s', 'delete') IS NOT NULL AS published;
SELECT key, value FROM records('s') WHERE key IN ('update', 'delete') ORDER BY record_offset, key;
-- one call a row, whatever the query around it
SELECT count(*) FROM (SELECT (stream.publish('s', 'once', to_jsonb(g))) AS position FROM generate_series(1, 3) g OFFSET 0) p;
SELECT CASE WHEN g = 2 THEN stream.publish('s', 'once', '"case"') END IS NOT NULL FROM generate_series(1, 3) g;
SELECT count(*) FROM generate_series(1, 3) g WHERE stream.publish('s', 'once', '"where"') IS NOT NULL;
SELECT count(*) FROM generate_series(1, 3) g, LATERAL stream.publish('s', 'once', to_jsonb(g + 100)) p;
SELECT 1 WHERE EXISTS (SELECT stream.publish('s', 'never', '1') WHERE false);
SELECT count(*), count(DISTINCT record_offset) FROM records('s') WHERE key = 'once';
SELECT count(*) FROM records('s') WHERE key = 'never';
-- a volatile function is called anew for each row
PREPARE again(int) AS SELECT count(DISTINCT stream.publish('s', 'again', to_jsonb($1))::text) FROM generate_series(1, 2);
EXECUTE again(1); EXECUTE again(2); EXECUTE again(3); EXECUTE again(4); EXECUTE again(5); EXECUTE again(6); EXECUTE again(7);
SELECT value, count(*) FROM records('s') WHERE key = 'again' GROUP BY 1 ORDER BY 1;
DEALLOCATE again;
-- a cursor publishes as it is fetched
BEGIN;
DECLARE c CURSOR FOR SELECT stream.publish('s', 'cursor', to_jsonb(g)) IS NOT NULL AS published FROM generate_series(1, 100) g;
FETCH 3 FROM c;
CLOSE c;
COMMIT;
SELECT value FROM records('s') WHERE key = 'cursor';
-- with a cursor that survives the transaction
BEGIN;
DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT stream.publish('s', 'hold', to_jsonb(g)) IS NOT NULL AS published FROM generate_series(1, 5) g;
FETCH 1 FROM c;
COMMIT;
SELECT count(*) FROM records('s') WHERE key = 'hold';
FETCH 2 FROM c;
CLOSE c;
-- in COPY and in a materialised result
COPY (SELECT stream.publish('s', 'copy', to_jsonb(g)) IS NULL FROM generate_series(1, 2) g) TO stdout;
CREATE TABLE positions AS SELECT stream.publish('s', 'ctas', to_jsonb(g)) AS position FROM generate_series(1, 2) g;
SELECT count(*) FROM positions;
SELECT key, count(*) FROM records('s') WHERE key IN ('copy', 'ctas') GROUP BY 1 ORDER BY 1;
EXPLAIN (COSTS OFF) SELECT stream.publish('s', 'explain', '1');
SELECT count(*) FROM records('s') WHERE key = 'explain';

-- In functions and procedures.
CREATE FUNCTION publish_sql(k text, v jsonb) RETURNS stream.record_position LANGUAGE sql AS $$ SELECT stream.publish('s', k, v) $$;
SELECT publish_sql('sql', '1') IS NOT NULL;
CREATE FUNCTION publish_loop(k text, n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	first bigint;
	last bigint;
	position stream.record_position;
BEGIN
	FOR i IN 1..n LOOP
		position := stream.publish('s', k, to_jsonb(i), "partition" => 1);
		first := coalesce(first, stream.offset_of(position));
		last := stream.offset_of(position);
	END LOOP;
	RETURN last - first + 1;
END
$$;
SELECT publish_loop('loop', 2000);
SELECT count(*), max(record_offset) - min(record_offset) + 1 AS span, bool_and(value = to_jsonb(n)) AS in_order
FROM (SELECT *, row_number() OVER (ORDER BY record_offset) AS n FROM records('s') WHERE key = 'loop') r;
CREATE PROCEDURE publish_and_commit(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..n LOOP
		PERFORM stream.publish('s', 'procedure', to_jsonb(i));
		IF i % 2 = 0 THEN
			COMMIT;
		ELSE
			ROLLBACK;
		END IF;
	END LOOP;
	PERFORM stream.publish('s', 'procedure', '"end"');
END
$$;
CALL publish_and_commit(10);
SELECT value FROM records('s') WHERE key = 'procedure';
CREATE PROCEDURE read_after_commit(INOUT n bigint) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM stream.publish('s', 'visible', '1');
	SELECT count(*) INTO n FROM records('s') WHERE key = 'visible';
	COMMIT;
	SELECT n * 10 + count(*) INTO n FROM records('s') WHERE key = 'visible';
END
$$;
CALL read_after_commit(NULL);

-- In triggers.
CREATE FUNCTION publish_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM stream.publish('s', TG_ARGV[0], to_jsonb(coalesce(NEW, OLD)) || jsonb_build_object('op', TG_OP));
	RETURN coalesce(NEW, OLD);
END
$$;
TRUNCATE orders;
CREATE TRIGGER before_row BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION publish_row('before');
CREATE TRIGGER after_row AFTER INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW EXECUTE FUNCTION publish_row('after');
CREATE CONSTRAINT TRIGGER deferred AFTER INSERT OR UPDATE ON orders DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION publish_row('deferred');
INSERT INTO orders VALUES (1, 'new', 10), (2, 'new', 20);
BEGIN;
UPDATE orders SET state = 'paid' WHERE id = 1;
SAVEPOINT a;
UPDATE orders SET state = 'lost';
ROLLBACK TO a;
DELETE FROM orders WHERE id = 2;
-- deferred triggers run at the commit, before the log is written
COMMIT;
SELECT key, value FROM records('s') WHERE key IN ('before', 'after', 'deferred') ORDER BY key, record_offset;
-- only a deferred trigger publishes
DROP TRIGGER before_row ON orders;
DROP TRIGGER after_row ON orders;
BEGIN;
INSERT INTO orders VALUES (3, 'new', 30);
SELECT count(*) FROM stream.open_publishers;
COMMIT;
SELECT value FROM records('s') WHERE key = 'deferred' AND value ->> 'id' = '3';
BEGIN;
INSERT INTO orders VALUES (4, 'new', 40);
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
SELECT value FROM records('s') WHERE key = 'deferred' AND value ->> 'id' = '4';
-- a deferred trigger that publishes and one that fails
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
CREATE CONSTRAINT TRIGGER failing AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail();
INSERT INTO orders VALUES (5, 'new', 50);
SELECT count(*) FROM records('s') WHERE value ->> 'id' = '5';
SELECT sum(held_back) FROM offsets('s');
DROP TRIGGER failing ON orders;
-- event triggers may publish as well
CREATE FUNCTION publish_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM stream.publish('s', 'ddl', to_jsonb(tg_tag));
END
$$;
CREATE EVENT TRIGGER publish_ddl ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION publish_ddl();
CREATE TABLE made (a int);
DROP EVENT TRIGGER publish_ddl;
SELECT value FROM records('s') WHERE key = 'ddl';

-- A rule, a generated default, a check: wherever a volatile function may stand.
CREATE TABLE with_default (a int, position stream.record_position DEFAULT stream.publish('s', 'default', '1'));
INSERT INTO with_default (a) SELECT generate_series(1, 3);
SELECT count(DISTINCT position::text) FROM with_default;
SELECT count(*) FROM records('s') WHERE key = 'default';

SELECT * FROM stream.verify_log('s');
DROP TABLE orders, positions, made, with_default;
DROP FUNCTION publish_sql, publish_loop, publish_row, fail, publish_ddl;
DROP PROCEDURE publish_and_commit, read_after_commit;
SELECT stream.drop_stream('s');
