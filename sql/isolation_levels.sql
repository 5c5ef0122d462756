-- The same in REPEATABLE READ and SERIALIZABLE transactions, by one session.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 2);
CREATE TABLE beside (n int);

-- Created, written and rolled in the transactions of that level.
SET default_transaction_isolation = 'repeatable read';
SELECT stream.create_stream('t', 2);
SELECT stream.publish('t', 'k', '1');
SELECT * FROM records('t');
CALL stream.roll_segment('t');
SELECT stream.publish('t', 'k', '2');
SELECT segment_no, state, records FROM stream.segment_status WHERE stream = 't' ORDER BY 1;
SELECT * FROM records('t');
SELECT stream.offset_at('t', 0, 'infinity'), stream.wait_for_offset('t', '0:1');
SELECT * FROM stream.verify_log('t');
SELECT stream.alter_stream('t', compression => 'none');
SELECT stream, compression FROM stream.stream_status ORDER BY 1;
SELECT stream.drop_stream('t');
SELECT stream FROM stream.stream_status;
RESET default_transaction_isolation;

-- A transaction that publishes to a stream it has created itself, with all in it.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM beside;
SELECT stream.create_stream('t');
SELECT stream.publish('t', 'k', '1');
SELECT * FROM offsets('t');
SAVEPOINT a;
SELECT stream.publish('t', 'k', '2');
ROLLBACK TO a;
SELECT stream.publish('t', 'k', '3');
COMMIT;
SELECT * FROM records('t');
SELECT stream.drop_stream('t');

-- The log and the tables beside it agree, at every level.
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO beside VALUES (1);
SELECT count(stream.publish('s', 'k' || g, to_jsonb(g))) FROM generate_series(1, 10) g;
SELECT (SELECT count(*) FROM beside) AS beside, (SELECT count(*) FROM streams.s) AS records;
COMMIT;
SELECT (SELECT count(*) FROM beside) AS beside, (SELECT count(*) FROM streams.s) AS records;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT count(*) FROM streams.s;
SELECT count(*) FROM records('s');
SELECT stream.publish('s', 'k', '1'); \echo :SQLSTATE
ROLLBACK;
-- what is waited for, the rest of such a transaction would not see; a statement of its own has nothing to see
SELECT stream.create_consumer_group('s', 'g');
CREATE TABLE copies (k text PRIMARY KEY, n int);
SELECT stream.create_projection('copies', 's', 'copies', 'SELECT key AS k, value::int AS n FROM batch', '{"n": "max"}');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT stream.wait_for('copies');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT stream.wait_for_offset('s', '0:0'); \echo :SQLSTATE
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT stream.wait_for_records('s', 'g'); \echo :SQLSTATE
ROLLBACK;
SET default_transaction_isolation = 'repeatable read';
SELECT stream.wait_for('copies', timeout => '30 s'), stream.wait_for_offset('s', '0:0'), stream.wait_for_records('s', 'g');
SELECT count(*) FROM copies;
RESET default_transaction_isolation;
SELECT stream.drop_projection('copies');
DROP TABLE copies;
-- many transactions of a procedure
SET default_transaction_isolation = 'repeatable read';
DO $$
DECLARE
	n bigint;
BEGIN
	FOR i IN 1..20 LOOP
		PERFORM stream.publish('s', NULL, to_jsonb(i), "partition" => 0);
		SELECT count(*) INTO n FROM stream.read('s', 0, NULL, NULL) WHERE key IS NULL;
		ASSERT n = i - 1, 'own record read too early';
		IF i % 5 = 0 THEN
			CALL stream.roll_segment('s');
		ELSE
			COMMIT;
		END IF;
		SELECT count(*) INTO n FROM stream.read('s', 0, NULL, NULL) WHERE key IS NULL;
		ASSERT n = i, 'record not read after its commit';
	END LOOP;
END
$$;
RESET default_transaction_isolation;
SELECT segment_no, state FROM stream.segment_status ORDER BY 1;
SELECT array_agg(value ORDER BY record_offset) FROM records('s') WHERE key IS NULL;
SELECT * FROM stream.verify_log('s');
DROP TABLE beside;
SELECT stream.drop_stream('s');
