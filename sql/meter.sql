-- What the meters of consumer groups count.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 2);
SELECT stream.create_consumer_group('s', 'g');
SELECT stream.create_consumer_group('s', 'other');
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => g % 2)) FROM generate_series(1, 20) g;
CREATE VIEW rollbacks AS SELECT consumer_group, "partition", rollbacks FROM stream.consumer_lag WHERE stream = 's' ORDER BY 1, 2;
SELECT used AS meters FROM stream.memory_status WHERE area = 'group partitions' \gset
CREATE FUNCTION take(n int) RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM stream.consume('s', 'g', n) $$;
TABLE rollbacks;

-- Rolled back, to a savepoint or as a whole; a commit begins anew.
BEGIN; SELECT take(20); ROLLBACK;
BEGIN; SELECT take(20); SELECT 1/0; COMMIT;
TABLE rollbacks;
BEGIN; SAVEPOINT a; SELECT take(20); ROLLBACK TO a; ROLLBACK;
TABLE rollbacks;
-- several calls are one transaction
BEGIN; SELECT take(20); SELECT take(20); SAVEPOINT a; SELECT take(20); RELEASE a; ROLLBACK;
TABLE rollbacks;
-- inner ones alone, of a transaction that commits without having advanced
BEGIN; SAVEPOINT a; SELECT take(20); ROLLBACK TO a; COMMIT;
TABLE rollbacks;
-- in exception blocks
DO $$ BEGIN
	FOR i IN 1..3 LOOP
		BEGIN
			PERFORM take(20);
			RAISE 'poison';
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
	END LOOP;
END $$;
TABLE rollbacks;
SELECT stream.skip_record('s', 'g', '0:0', 'poison');
TABLE rollbacks;
BEGIN; SAVEPOINT a; SELECT take(19); SAVEPOINT b; SELECT take(1); ROLLBACK TO b; RELEASE a; COMMIT;
TABLE rollbacks;
-- nothing taken, nothing counted
BEGIN; SELECT take(0); ROLLBACK;
BEGIN; SELECT stream.wait_for_records('s', 'other', '0'); ROLLBACK;
TABLE rollbacks;

-- One meter for each partition consumed and each group used; they go with the group, or with a transaction that has made it.
SELECT used - :meters AS meters FROM stream.memory_status WHERE area = 'group partitions';
BEGIN;
SELECT stream.create_consumer_group('s', 'new');
SELECT count(*) FROM stream.consume('s', 'new');
SELECT used - :meters AS meters FROM stream.memory_status WHERE area = 'group partitions';
ROLLBACK;
SELECT used - :meters AS meters FROM stream.memory_status WHERE area = 'group partitions';
BEGIN;
SAVEPOINT a;
SELECT stream.create_consumer_group('s', 'new');
SELECT count(*) FROM stream.consume('s', 'new');
ROLLBACK TO a;
SELECT used - :meters AS meters FROM stream.memory_status WHERE area = 'group partitions';
SELECT stream.drop_consumer_group('s', 'g');
ROLLBACK;
SELECT used - :meters AS meters FROM stream.memory_status WHERE area = 'group partitions';
SELECT stream.drop_consumer_group('s', 'g');
SELECT used - :meters AS meters FROM stream.memory_status WHERE area = 'group partitions';
SELECT count(*) FROM stream.consume('s', 'other', autocommit => true);
SELECT used - :meters AS meters FROM stream.memory_status WHERE area = 'group partitions';
-- with the stream
BEGIN;
SELECT stream.drop_stream('s');
ROLLBACK;
SELECT used - :meters AS meters FROM stream.memory_status WHERE area = 'group partitions';
SELECT stream.drop_stream('s');
SELECT used - :meters AS meters FROM stream.memory_status WHERE area = 'group partitions';
DROP FUNCTION take;
DROP VIEW rollbacks;
