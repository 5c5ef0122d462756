-- Waiting for a position.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 2);
SELECT stream.publish('s', NULL, to_jsonb(g), "partition" => 0) FROM generate_series(0, 2) g;

-- Passed already.
SELECT stream.wait_for_offset('s', '0:0'), stream.wait_for_offset('s', '0:2'), stream.wait_for_offset('s', '0:2', '0');
-- never, so the timeout comes
SELECT stream.wait_for_offset('s', '0:3', '0'), stream.wait_for_offset('s', '1:0', '0'), stream.wait_for_offset('s', '0:9223372036854775807', '1 ms');
SELECT clock_timestamp() AS before \gset
SELECT stream.wait_for_offset('s', '0:3', timeout => '0.2 s');
SELECT clock_timestamp() - :'before' BETWEEN '0.2 s' AND '20 s' AS took_so_long;
SELECT stream.wait_for_offset(stream => 's', "position" => '0:1', timeout => '1 day');
-- a position just returned
SELECT stream.publish('s', 'k', '1') AS position \gset
SELECT stream.wait_for_offset('s', :'position');
-- a rolled-back position passes like any other
BEGIN;
SELECT stream.publish('s', 'k', '1') AS position \gset
ROLLBACK;
SELECT stream.wait_for_offset('s', :'position', '0');

-- Never longer than stream.max_wait.
SHOW stream.max_wait;
SET stream.max_wait = '100 ms';
SELECT clock_timestamp() AS before \gset
SELECT stream.wait_for_offset('s', '1:5', '1 hour');
SELECT clock_timestamp() - :'before' BETWEEN '0.1 s' AND '20 s' AS took_so_long;
SET stream.max_wait = 0;
SELECT stream.wait_for_offset('s', '1:5', '1 hour'), stream.wait_for_offset('s', '0:0', '1 hour');
RESET stream.max_wait;

-- For what this transaction holds back: it would wait for itself.
BEGIN;
SELECT stream.publish('s', NULL, '1', "partition" => 1) AS position \gset
SELECT stream.wait_for_offset('s', '0:0');
SAVEPOINT a;
SELECT stream.wait_for_offset('s', :'position'); \echo :SQLSTATE
ROLLBACK TO a;
SELECT stream.wait_for_offset('s', '1:100'); \echo :SQLSTATE
ROLLBACK TO a;
-- other partitions and what is below are no matter
SELECT stream.wait_for_offset('s', '0:100', '0');
COMMIT;
SELECT stream.wait_for_offset('s', :'position');
BEGIN;
SAVEPOINT a;
SELECT stream.publish('s', NULL, '1', "partition" => 1) AS position \gset
SELECT stream.wait_for_offset('s', '1:0', '0');
ROLLBACK TO a;
SELECT stream.wait_for_offset('s', :'position', '0');
COMMIT;

-- A wait that is cancelled leaves nothing behind.
SET statement_timeout = '100 ms';
SELECT stream.wait_for_offset('s', '1:100', '30 s'); \echo :SQLSTATE
RESET statement_timeout;
SELECT used FROM stream.memory_status WHERE area = 'waiters';
SELECT stream.wait_for_offset('s', '1:100', '10 ms');
-- also in a subtransaction
DO $$
BEGIN
	FOR i IN 1..3 LOOP
		BEGIN
			SET LOCAL statement_timeout = '50 ms';
			PERFORM stream.wait_for_offset('s', '1:100', '10 ms');
			RAISE EXCEPTION 'as long as it lasts';
		EXCEPTION WHEN raise_exception THEN
			PERFORM stream.wait_for_offset('s', '1:100', '1 ms');
		END;
	END LOOP;
END
$$;
SELECT used FROM stream.memory_status WHERE area = 'waiters';

-- What is wrong with the arguments.
SELECT stream.wait_for_offset('s', '0:0', '-1 ms'); \echo :SQLSTATE
SELECT stream.wait_for_offset('s', '0:100', '-1 day'); \echo :SQLSTATE
SELECT stream.wait_for_offset('s', '2:0'); \echo :SQLSTATE
SELECT stream.wait_for_offset('s', NULL); \echo :SQLSTATE
SELECT stream.wait_for_offset('s', '0:0', NULL); \echo :SQLSTATE
SELECT stream.wait_for_offset(NULL, '0:0'); \echo :SQLSTATE
SELECT stream.wait_for_offset('nobody', '0:0'); \echo :SQLSTATE
SELECT stream.wait_for_offset('', '0:0'); \echo :SQLSTATE
SELECT stream.wait_for_offset('s', '0'); \echo :SQLSTATE
-- in a read-only transaction it is fine
BEGIN TRANSACTION READ ONLY;
SELECT stream.wait_for_offset('s', '0:0'), stream.wait_for_offset('s', '0:100', '0');
COMMIT;
-- and on a stream that nobody has published to since it was created
SELECT stream.create_stream('fresh');
SELECT stream.wait_for_offset('fresh', '0:0', '0');
SELECT stream.drop_stream('s'), stream.drop_stream('fresh');
