-- Creating and dropping streams in transactions that publish.

-- Created, used and rolled back: nothing stays.
BEGIN;
SELECT stream.create_stream('s', 2);
SELECT stream.publish('s', 'a', '1');
SELECT * FROM offsets('s');
SELECT * FROM records('s');
ROLLBACK;
SELECT * FROM left_over();
SELECT stream.publish('s', 'a', '1'); \echo :SQLSTATE

-- Created and used in one transaction; what it published is read after the commit.
BEGIN;
SELECT stream.create_stream('s', 2);
SELECT stream.publish('s', 'a', '1');
SELECT * FROM records('s');
COMMIT;
SELECT * FROM offsets('s');
SELECT * FROM records('s');
SELECT stream.publish('s', 'a', '2');
SELECT * FROM records('s');
SELECT stream.drop_stream('s');

-- Created in a subtransaction that is rolled back, then again.
BEGIN;
SAVEPOINT a;
SELECT stream.create_stream('s', 3);
SELECT stream.publish('s', 'a', '1');
ROLLBACK TO a;
SELECT stream.publish('s', 'a', '1'); \echo :SQLSTATE
ROLLBACK TO a;
SELECT stream.create_stream('s', 1);
SELECT stream.publish('s', 'a', '2');
RELEASE a;
SELECT stream.publish('s', 'a', '3');
COMMIT;
SELECT * FROM offsets('s');
SELECT * FROM records('s');
SELECT * FROM stream.verify_log('s');

-- Dropped by its publisher: what it published goes.
BEGIN;
SELECT stream.publish('s', 'a', '4');
SELECT stream.drop_stream('s');
SELECT stream.publish('s', 'a', '5'); \echo :SQLSTATE
ROLLBACK;
BEGIN;
SELECT stream.publish('s', 'a', '6');
SELECT stream.drop_stream('s');
COMMIT;
SELECT * FROM left_over();
SELECT count(*) FROM stream.open_publishers;

-- Rolled back to before the drop: what was published before comes back.
SELECT stream.create_stream('s', 2);
BEGIN;
SELECT stream.publish('s', 'a', '1');
SAVEPOINT a;
SELECT stream.publish('s', 'a', '"lost"');
SELECT stream.drop_stream('s');
ROLLBACK TO a;
SELECT stream.publish('s', 'a', '2');
COMMIT;
SELECT * FROM records('s');
-- in a nested subtransaction that is released before
BEGIN;
SELECT stream.publish('s', 'a', '3');
SAVEPOINT a;
SAVEPOINT b;
SELECT stream.drop_stream('s');
RELEASE b;
SAVEPOINT c;
RELEASE c;
ROLLBACK TO a;
SELECT stream.publish('s', 'a', '4');
COMMIT;
SELECT * FROM records('s');
-- first published in the subtransaction that drops
BEGIN;
SAVEPOINT a;
SELECT stream.publish('s', 'a', '"lost"');
SELECT stream.drop_stream('s');
ROLLBACK TO a;
SELECT count(*) FROM stream.open_publishers;
SELECT stream.publish('s', 'a', '5');
COMMIT;
SELECT * FROM records('s');
-- a flush between drop and rollback leaves the buffered records alone
BEGIN;
SELECT stream.publish('s', 'a', '6');
SELECT stream.create_stream('other', compression => 'none');
SAVEPOINT a;
SELECT stream.drop_stream('s');
SELECT count(stream.publish('other', NULL, to_jsonb(repeat(md5(g::text), 100)))) FROM generate_series(1, 1000) g;
ROLLBACK TO a;
SELECT count(stream.publish('other', NULL, to_jsonb(repeat(md5(g::text), 100)))) FROM generate_series(1, 1000) g;
SELECT stream.publish('s', 'a', '7');
COMMIT;
SELECT * FROM records('s');
SELECT count(*), min(record_offset), max(record_offset) FROM records('other');
SELECT * FROM stream.verify_log('s');
SELECT * FROM stream.verify_log('other');
SELECT stream.drop_stream('other');
-- what was written before the drop, beyond the buffers
SELECT stream.alter_stream('s', compression => 'none');
BEGIN;
SELECT count(stream.publish('s', 'b', to_jsonb(g || repeat(md5(g::text), 100)))) FROM generate_series(1, 1000) g;
SELECT pg_relation_size(table_name::regclass) > 1000000 AS written FROM stream.segment_status;
SAVEPOINT a;
SELECT stream.drop_stream('s');
ROLLBACK TO a;
COMMIT;
SELECT key, count(*) FROM records('s') GROUP BY 1 ORDER BY 1;
BEGIN;
SELECT count(stream.publish('s', 'b', to_jsonb(g || repeat(md5(g::text), 100)))) FROM generate_series(1, 1000) g;
SELECT stream.drop_stream('s');
COMMIT;
SELECT * FROM left_over();

-- Dropped and created again under the same name, by one transaction.
SELECT stream.create_stream('s', 2);
SELECT stream.publish('s', 'a', '"first"');
BEGIN;
SELECT stream.publish('s', 'a', '"lost"');
SELECT stream.drop_stream('s');
SELECT stream.create_stream('s', 5);
SELECT stream.publish('s', 'a', '"second"');
SELECT count(*) FROM stream.open_publishers WHERE stream = 's';
COMMIT;
SELECT * FROM offsets('s');
SELECT * FROM records('s');
-- and rolled back to the first
BEGIN;
SELECT stream.publish('s', 'a', '"third"');
SAVEPOINT a;
SELECT stream.drop_stream('s');
SELECT stream.create_stream('s', 1, 'bytea');
SELECT stream.publish_bytes('s', 'a', '\x00');
SELECT stream.publish('s', 'a', '"wrong type"'); \echo :SQLSTATE
ROLLBACK TO a;
SELECT stream.publish('s', 'a', '"fourth"');
COMMIT;
SELECT * FROM records('s');
SELECT * FROM stream.verify_log('s');
SELECT stream.drop_stream('s');
-- ten times in one transaction
BEGIN;
DO $$
BEGIN
	FOR i IN 1..10 LOOP
		PERFORM stream.create_stream('s', i);
		PERFORM stream.publish('s', NULL, to_jsonb(i));
		IF i < 10 THEN
			PERFORM stream.drop_stream('s');
		END IF;
	END LOOP;
END
$$;
COMMIT;
SELECT count(*), sum(log_end) FROM offsets('s');
SELECT record_offset, value FROM records('s');
SELECT stream.drop_stream('s');

-- An exception block around all of it.
DO $$
BEGIN
	PERFORM stream.create_stream('s');
	FOR i IN 1..20 LOOP
		BEGIN
			PERFORM stream.publish('s', 'a', to_jsonb(i));
			PERFORM stream.drop_stream('s');
			PERFORM stream.create_stream('s');
			PERFORM stream.publish('s', 'b', to_jsonb(i));
			IF i % 3 <> 0 THEN
				RAISE EXCEPTION 'changed my mind';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			PERFORM stream.publish('s', 'c', to_jsonb(i));
		END;
	END LOOP;
END
$$;
SELECT * FROM records('s');
SELECT * FROM stream.verify_log('s');
SELECT stream.drop_stream('s');

-- A statement that fails after it has published changes nothing.
SELECT stream.create_stream('s');
SELECT stream.publish('s', 'a', '1'), 1 / 0; \echo :SQLSTATE
SELECT stream.publish('s', 'a', to_jsonb(1 / (3 - g))) FROM generate_series(1, 5) g; \echo :SQLSTATE
SELECT * FROM records('s');
SELECT * FROM offsets('s');
-- nor one after which a deferred constraint fails
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (parent int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
BEGIN;
INSERT INTO child VALUES (1);
SELECT stream.publish('s', 'a', '2');
COMMIT; \echo :SQLSTATE
SELECT * FROM records('s');
SELECT * FROM offsets('s');
SELECT count(*) FROM stream.open_publishers;
DROP TABLE child, parent;
SELECT stream.drop_stream('s');
SELECT * FROM left_over();
