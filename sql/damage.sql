-- What verify_log finds when a superuser has damaged a segment, and what readers say.
\set SHOW_CONTEXT never
-- numbers of streams differ from run to run
CREATE FUNCTION anonymous(text text) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(text, '\ms\d+_', 's#_', 'g') $$;
SELECT stream.create_stream('s', 2);
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => 0)) FROM generate_series(0, 9) g;
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => 0)) FROM generate_series(10, 14) g;
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => 1)) FROM generate_series(0, 4) g;
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => 1)) FROM generate_series(5, 14) g;
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => 1)) FROM generate_series(15, 19) g;
SELECT table_name AS segment FROM stream.segment_status \gset
SELECT "partition", records, last_offset FROM :segment ORDER BY 1, 3;
SELECT * FROM stream.verify_log('s');

-- One byte of a batch.
BEGIN;
UPDATE :segment SET batch = set_byte(batch, 60, get_byte(batch, 60) # 1) WHERE "partition" = 0 AND last_offset = 9;
SELECT * FROM stream.verify_log('s');
SELECT anonymous(failure($$ SELECT * FROM stream.read('s', 0) $$));
SELECT anonymous(failure($$ SELECT * FROM stream.read('s', 0, 3) $$));
SELECT anonymous(failure($$ SELECT * FROM streams.s $$));
SELECT anonymous(failure($$ SELECT * FROM stream.offset_at('s', 0, '-infinity') $$));
-- other batches and partitions are not hurt
SELECT count(*) FROM stream.read('s', 0, 10);
SELECT count(*) FROM stream.read('s', 1);
ROLLBACK;
SELECT * FROM stream.verify_log('s');

-- A bit of every byte of a batch: it is noticed, and nothing crashes.
CREATE FUNCTION damage(segment regclass, change text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	findings int;
	found text;
BEGIN
	BEGIN
		EXECUTE format('UPDATE %s SET batch = %s WHERE "partition" = 0 AND last_offset = 9', segment, change);
		SELECT count(*) INTO findings FROM stream.verify_log('s');
		found := left(failure($q$ SELECT count(*) FROM stream.read('s', 0) $q$), 5);
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		RETURN CASE WHEN findings > 0 THEN 'found, ' ELSE 'not found, ' END || found;
	END;
END
$$;
SELECT damage(:'segment', format('set_byte(batch, %s, get_byte(batch, %s) # %s)', byte, byte, 1 << (byte % 8))) AS result, count(*) > 70 AS many
FROM :segment, generate_series(0, length(batch) - 1) byte
WHERE "partition" = 0 AND last_offset = 9 GROUP BY 1;
-- cut off, longer, empty, of another kind
SELECT change, damage(:'segment', change) FROM unnest(ARRAY[$$''$$, $$'\x00'$$, $$'\x01'$$, 'substr(batch, 1, 39)', 'substr(batch, 1, 40)',
	'substr(batch, 1, length(batch) - 1)', $$batch || '\x00'$$, 'batch || batch', 'substr(batch, 2)', $$decode(repeat('ff', 100), 'hex')$$,
	$$decode(repeat('00', 100), 'hex')$$, $$decode(repeat('ab', 100000), 'hex')$$]) change;
SELECT * FROM stream.verify_log('s');

-- A row that says something else than its batch.
BEGIN;
UPDATE :segment SET last_offset = 12 WHERE "partition" = 0 AND last_offset = 9;
SELECT * FROM stream.verify_log('s');
SELECT anonymous(failure($$ SELECT * FROM stream.read('s', 0) $$));
ROLLBACK;
BEGIN;
UPDATE :segment SET last_offset = 8 WHERE "partition" = 0 AND last_offset = 9;
SELECT * FROM stream.verify_log('s');
SELECT anonymous(failure($$ SELECT * FROM stream.read('s', 0) $$));
ROLLBACK;
BEGIN;
UPDATE :segment SET records = 11 WHERE "partition" = 0 AND last_offset = 9;
SELECT * FROM stream.verify_log('s');
ROLLBACK;
-- a batch twice: ranges overlap
BEGIN;
UPDATE :segment SET "partition" = 0 WHERE "partition" = 1 AND last_offset = 4;
SELECT * FROM stream.verify_log('s');
ROLLBACK;
BEGIN;
INSERT INTO :segment SELECT 0, records, last_offset + 3, batch FROM :segment WHERE "partition" = 0 AND last_offset = 9;
SELECT * FROM stream.verify_log('s');
ROLLBACK;
-- in the wrong order of time
BEGIN;
DELETE FROM :segment WHERE "partition" = 0 AND last_offset = 9;
UPDATE :segment SET "partition" = 0 WHERE "partition" = 1 AND last_offset = 4;
SELECT * FROM stream.verify_log('s');
ROLLBACK;
-- beyond what was ever issued
SELECT stream.create_stream('ahead');
SELECT table_name AS ahead FROM stream.segment_status WHERE stream = 'ahead' \gset
BEGIN;
INSERT INTO :ahead SELECT 0, records, last_offset, batch FROM :segment WHERE "partition" = 0;
SELECT * FROM stream.verify_log('ahead');
ROLLBACK;
SELECT stream.drop_stream('ahead');

-- A sealed segment is checked against what was recorded of it.
CALL stream.roll_segment('s');
SELECT * FROM stream.verify_log('s');
BEGIN;
DELETE FROM :segment WHERE "partition" = 1 AND last_offset = 19;
SELECT * FROM stream.verify_log('s');
ROLLBACK;
BEGIN;
DELETE FROM :segment WHERE "partition" = 1 AND last_offset = 14;
SELECT * FROM stream.verify_log('s');
ROLLBACK;
BEGIN;
DELETE FROM :segment WHERE "partition" = 1;
SELECT * FROM stream.verify_log('s');
ROLLBACK;
BEGIN;
TRUNCATE :segment;
SELECT * FROM stream.verify_log('s');
ROLLBACK;
BEGIN;
DELETE FROM stream_internal.segment_ranges WHERE "partition" = 1;
SELECT stream.alter_stream('s', compression => 'lz4');
SELECT * FROM stream.verify_log('s');
ROLLBACK;
BEGIN;
UPDATE stream_internal.segment_ranges SET end_offset = end_offset + 1, records = records + 1 WHERE "partition" = 0;
SELECT stream.alter_stream('s', compression => 'lz4');
SELECT * FROM stream.verify_log('s');
ROLLBACK;
SELECT * FROM stream.verify_log('s');

-- A segment's table that has gone: reported, and no reader hangs.
SET statement_timeout = '10 s';
BEGIN;
ALTER TABLE :segment RENAME TO gone;
SELECT "partition", record_offset, finding FROM stream.verify_log('s');
SAVEPOINT a;
\set VERBOSITY sqlstate
SELECT count(*) FROM stream.read('s', 0);
ROLLBACK TO a;
SELECT count(*) FROM streams.s;
ROLLBACK TO a;
SELECT stream.offset_at('s', 0, '-infinity');
ROLLBACK TO a;
-- what is behind it can be read
SELECT count(*) FROM stream.read('s', 0, 15);
\set VERBOSITY default
ROLLBACK;
-- or whose index has
BEGIN;
SELECT indexrelid::regclass AS index FROM pg_index WHERE indrelid = :'segment'::regclass \gset
DROP INDEX :index;
SELECT anonymous(failure($$ SELECT count(*) FROM stream.read('s', 0) $$));
SELECT anonymous(failure($$ SELECT count(*) FROM stream.verify_log('s') $$));
ROLLBACK;
-- or that is something else
BEGIN;
ALTER TABLE :segment ADD COLUMN a int;
SELECT anonymous(failure($$ SELECT count(*) FROM stream.read('s', 0) $$));
SELECT anonymous(failure($$ SELECT count(*) FROM stream.verify_log('s') $$));
ROLLBACK;
-- nor a publisher, of the active one
BEGIN;
SELECT table_name AS active FROM stream.segment_status WHERE state = 'active' \gset
ALTER TABLE :active RENAME TO gone;
SELECT stream.publish('s', 'k', '1', "partition" => 0) IS NOT NULL AS published;
\set VERBOSITY sqlstate
COMMIT;
\set VERBOSITY default
RESET statement_timeout;
SELECT stream.publish('s', 'k', '1', "partition" => 0) IS NOT NULL AS published;
SELECT count(*) FROM records('s');
SELECT * FROM stream.verify_log('s');

-- A log written under another encoding or byte order is not touched.
BEGIN;
UPDATE stream_internal.streams SET byte_order = 'middle';
SELECT stream.alter_stream('s', compression => 'lz4');
SELECT failure($$ SELECT * FROM stream.read('s', 0) $$);
SELECT failure($$ SELECT * FROM streams.s $$);
SELECT failure($$ SELECT stream.publish('s', 'k', '1') $$);
SELECT failure($$ SELECT * FROM stream.verify_log('s') $$);
SELECT failure($$ SELECT stream.offset_at('s', 0, 'infinity') $$);
ROLLBACK;
SELECT count(*) FROM records('s');
SELECT * FROM stream.verify_log('s');

DROP FUNCTION anonymous, damage;
SELECT stream.drop_stream('s');
