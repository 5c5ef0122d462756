-- Projections that cannot go on: records at fault, and circumstances.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 2);
CREATE TABLE totals (k text PRIMARY KEY, n bigint CONSTRAINT positive CHECK (n > 0));

-- waits until partitions are in a state with an SQLSTATE, or the projection has no error
CREATE PROCEDURE await_state(p text, wanted text, code text = NULL) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 3000 LOOP
		IF EXISTS (SELECT FROM stream.projection_status WHERE projection = p AND state = wanted AND sqlstate IS NOT DISTINCT FROM code) THEN
			RETURN;
		END IF;
		COMMIT;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RAISE 'projection % is % with %', p, (SELECT state FROM stream.projection_status WHERE projection = p),
		(SELECT sqlstate FROM stream.projection_status WHERE projection = p);
END $$;
CREATE VIEW errors AS
	SELECT projection, "partition", state, lag, error_offset, last_error, sqlstate, failed_at >= failing_since AND next_retry_at > failing_since AS times,
		retries >= 0 AS retried
	FROM stream.projection_partition_status ORDER BY 1, 2;

--
-- Dead letters: the batch is searched for the records at fault, and all others are
-- applied, exactly once, though sums are not safe to repeat.
--
SELECT stream.create_projection('letters', 's', 'totals',
	query => $$ SELECT key AS k, sum((value->>'n')::bigint) AS n FROM batch GROUP BY 1 $$,
	merge => '{"n": "sum"}', on_error => 'dead_letter');
BEGIN;
SELECT count(stream.publish('s', 'k' || i % 5, '{"n": 1}')) FROM generate_series(1, 1000) i;
SELECT stream.publish('s', 'k1', '{"n": "bad"}');
SELECT stream.publish('s', 'neg', '{"n": -5}', '{"from": "test"}');
SELECT count(stream.publish('s', 'k' || i % 5, '{"n": 1}')) FROM generate_series(1, 1000) i;
SELECT stream.publish('s', 'k0', '{"n": "bad too"}');
COMMIT;
SELECT stream.wait_for('letters', timeout => '30 s');
SELECT * FROM totals ORDER BY k;
SELECT stream, consumer_group, projection, "partition", record_offset, key, value, headers, reason, sqlstate, retries
FROM stream.dead_letters ORDER BY "partition", record_offset;
SELECT projection, state, lag, dead_letters, failing_partitions FROM stream.projection_status;

-- those that succeed are removed
SELECT "partition", record_offset, applied, sqlstate, error FROM stream.retry_dead_letters('letters');
ALTER TABLE totals DROP CONSTRAINT positive;
SELECT "partition", record_offset, applied, sqlstate, error FROM stream.retry_dead_letters('letters', max_records => 1);
SELECT "partition", record_offset, applied, sqlstate, error FROM stream.retry_dead_letters('letters', '{}');
SELECT "partition", record_offset, applied, sqlstate, error
FROM stream.retry_dead_letters('letters', (SELECT array_agg(dead_letter_id) FROM stream.dead_letters WHERE key = 'neg'));
SELECT key, sqlstate, retries FROM stream.dead_letters ORDER BY "partition", record_offset;
SELECT * FROM totals ORDER BY k;
-- an error of another kind is one of the call
ALTER TABLE totals RENAME TO other;
SELECT count(*) FROM stream.retry_dead_letters('letters');
ALTER TABLE other RENAME TO totals;
SELECT stream.retry_dead_letters('nobody');
SELECT stream.retry_dead_letters('letters', '{1,NULL}');
SELECT stream.retry_dead_letters('letters', max_records => -1);
CREATE ROLE regress_stream_other;
GRANT SELECT ON streams.s TO regress_stream_other;
SET ROLE regress_stream_other;
SELECT stream.retry_dead_letters('letters');
SELECT stream.skip_projection_record('letters', '0:0', 'no');
RESET ROLE;
SELECT stream.drop_projection('letters');
SELECT count(*) FROM stream.dead_letters;
TRUNCATE totals;

--
-- Stop: the partition halts at the record, and shows it; the other goes on.
--
SELECT stream.create_projection('stops', 's', 'totals',
	query => $$ SELECT key AS k, sum((value->>'n')::bigint) AS n FROM batch GROUP BY 1 $$,
	merge => '{"n": "sum"}', start => 'latest');
SELECT count(stream.publish('s', 'k' || i % 5, '{"n": 1}')) FROM generate_series(1, 50) i;
SELECT stream.publish('s', 'k0', '{"n": "bad"}') AS bad \gset
SELECT count(stream.publish('s', 'k' || i % 5, '{"n": 1}')) FROM generate_series(1, 50) i;
SELECT stream.wait_for('stops', timeout => '0.1 s');
CALL await_state('stops', 'stopped', '22P02');
SELECT * FROM errors;
SELECT projection, state, failing_partitions, error_partition, error_offset, last_error, sqlstate FROM stream.projection_status;
-- everything before it is applied, and everything of the other partition
SELECT stream.wait_for('stops', ARRAY[stream.record_position(stream.partition_of(:'bad'), stream.offset_of(:'bad') - 1)], '30 s');
SELECT sum(n) FROM totals;
SELECT applied_offset = stream.offset_of(:'bad') AS at_it FROM stream.projection_partition_status WHERE "partition" = stream.partition_of(:'bad');

-- passed by hand, with a reason
SELECT stream.skip_projection_record('stops', stream.record_position(stream.partition_of(:'bad'), 0), 'not this one');
SELECT stream.skip_projection_record('stops', stream.record_position(stream.partition_of(:'bad'), stream.offset_of(:'bad') + 1), 'nor this one');
SELECT stream.skip_projection_record('stops', '7:0', 'nor there');
SELECT stream.skip_projection_record('stops', :'bad', NULL);
SELECT stream.skip_projection_record('nobody', :'bad', 'nobody');
SELECT stream.skip_projection_record('stops', :'bad', 'n is no number');
SELECT stream.wait_for('stops', timeout => '30 s');
SELECT stream.skip_projection_record('stops', :'bad', 'twice');
CALL await_state('stops', 'running');
SELECT sum(n) FROM totals;
SELECT projection, value, reason, sqlstate FROM stream.dead_letters;
-- the reason that somebody has given stays
SELECT applied, sqlstate FROM stream.retry_dead_letters('stops');
SELECT reason, sqlstate, retries FROM stream.dead_letters;

-- mended: the record is applied when the constraint has gone
ALTER TABLE totals ADD CONSTRAINT small CHECK (n < 1000);
SELECT stream.publish('s', 'k1', '{"n": 5000}') AS big \gset
CALL await_state('stops', 'stopped', '23514');
ALTER TABLE totals DROP CONSTRAINT small;
SELECT stream.wait_for('stops', timeout => '30 s');
SELECT sum(n) FROM totals;

--
-- Circumstances: no record is at fault, none is put aside.
--
ALTER TABLE totals RENAME TO other;
SELECT stream.publish('s', 'k1', '{"n": 1}') AS "position" \gset
CALL await_state('stops', 'target missing', '42P01');
SELECT last_error, error_hint FROM stream.projection_status;
-- restored
ALTER TABLE other RENAME TO totals;
SELECT stream.wait_for('stops', timeout => '30 s');
-- or followed
ALTER TABLE totals RENAME TO other;
SELECT stream.publish('s', 'k1', '{"n": 1}') AS "position" \gset
CALL await_state('stops', 'target missing', '42P01');
SELECT stream.alter_projection('stops', target => 'other');
SELECT stream.wait_for('stops', timeout => '30 s');
CALL await_state('stops', 'running');
SELECT sum(n) FROM other;
ALTER TABLE other RENAME TO totals;
SELECT stream.alter_projection('stops', target => 'totals');
-- created anew, it is another table: nothing is applied to it, and no record put aside, until somebody says so
ALTER TABLE totals RENAME TO other;
CREATE TABLE totals (k text PRIMARY KEY, n bigint CHECK (n > 1000));
SELECT state, sqlstate FROM stream.projection_status;
SELECT stream.publish('s', 'k1', '{"n": 1}') AS "position" \gset
CALL await_state('stops', 'target replaced', '55000');
SELECT last_error, error_detail, error_hint FROM stream.projection_status;
SELECT DISTINCT state FROM stream.projection_partition_status;
SELECT count(*) FROM stream.retry_dead_letters('stops');
DROP TABLE totals;
CREATE TABLE totals AS TABLE other;
SELECT stream.alter_projection('stops', target => 'totals');
DROP TABLE other;
ALTER TABLE totals ADD CONSTRAINT totals_pkey PRIMARY KEY (k);
SELECT stream.alter_projection('stops', target => 'totals');
SELECT stream.wait_for('stops', timeout => '30 s');
SELECT sum(n) FROM totals;
-- a table that a crash would empty; when that is over, and nothing was applied meanwhile, nothing would show it
ALTER TABLE totals SET UNLOGGED;
CREATE TABLE parted (k text PRIMARY KEY, n bigint) PARTITION BY LIST (k);
CREATE TABLE part PARTITION OF parted DEFAULT;
SELECT stream.create_projection('parts', 's', 'parted', query => $$ SELECT key AS k, (value->>'n')::bigint AS n FROM batch $$, merge => '{"n": "sum"}', start => 'latest');
ALTER TABLE part SET UNLOGGED;
-- also where the number of the target is not known any more, as after a restore
DELETE FROM stream_internal.projection_targets;
ALTER TABLE totals SET UNLOGGED;
ALTER TABLE parted DETACH PARTITION part;
ALTER TABLE part SET UNLOGGED;
ALTER TABLE parted ATTACH PARTITION part DEFAULT;
SELECT state, sqlstate FROM stream.projection_status WHERE projection = 'parts';
SELECT stream.publish('s', 'k1', '{"n": 1}') AS "position" \gset
CALL await_state('parts', 'target unlogged', '55000');
SELECT last_error, error_detail, error_hint FROM stream.projection_status WHERE projection = 'parts';
ALTER TABLE part SET LOGGED;
SELECT stream.wait_for('parts', timeout => '30 s');
CALL await_state('parts', 'running');
TABLE parted;
SELECT stream.drop_projection('parts');
ALTER TABLE part SET UNLOGGED;
DROP TABLE parted;
SELECT stream.wait_for('stops', timeout => '30 s');
-- altered so that the statement does not fit any more, and back
ALTER TABLE totals RENAME n TO m;
SELECT stream.publish('s', 'k1', '{"n": 1}') AS "position" \gset
CALL await_state('stops', 'retrying', '42703');
SELECT last_error FROM stream.projection_status;
ALTER TABLE totals RENAME m TO n;
SELECT stream.wait_for('stops', timeout => '30 s');
-- without its unique key
ALTER TABLE totals DROP CONSTRAINT totals_pkey;
SELECT stream.publish('s', 'k1', '{"n": 1}') AS "position" \gset
CALL await_state('stops', 'retrying', '42P10');
ALTER TABLE totals ADD PRIMARY KEY (k);
SELECT stream.wait_for('stops', timeout => '30 s');
-- with one that takes several nulls
ALTER TABLE totals DROP CONSTRAINT totals_pkey;
ALTER TABLE totals ADD CONSTRAINT totals_key UNIQUE (k);
ALTER TABLE totals ALTER k DROP NOT NULL;
SELECT stream.publish('s', 'k1', '{"n": 1}') AS "position" \gset
CALL await_state('stops', 'retrying', '42P10');
SELECT last_error FROM stream.projection_status;
ALTER TABLE totals DROP CONSTRAINT totals_key;
ALTER TABLE totals ADD CONSTRAINT totals_key UNIQUE NULLS NOT DISTINCT (k);
SELECT stream.wait_for('stops', timeout => '30 s');
ALTER TABLE totals DROP CONSTRAINT totals_key, ADD PRIMARY KEY (k);
-- a column that was added, and one that has another type
ALTER TABLE totals ADD extra int;
ALTER TABLE totals ALTER n TYPE numeric;
SELECT stream.publish('s', 'k1', '{"n": 1}') AS "position" \gset
SELECT stream.wait_for('stops', timeout => '30 s');
SELECT sum(n) FROM totals;
SELECT count(*) FROM stream.dead_letters WHERE sqlstate IS NOT NULL;

-- the owner lost the right to read, or to write
GRANT CREATE ON SCHEMA public TO regress_stream_other;
SET ROLE regress_stream_other;
CREATE TABLE public.theirs (k text PRIMARY KEY, n bigint);
SELECT stream.create_projection('theirs', 's', 'public.theirs',
	query => 'SELECT key AS k, count(*) AS n FROM batch GROUP BY 1', merge => '{"n": "sum"}', start => 'latest', on_error => 'dead_letter');
RESET ROLE;
REVOKE SELECT ON streams.s FROM regress_stream_other;
SELECT stream.publish('s', 'k1', '{"n": 1}') AS "position" \gset
CALL await_state('theirs', 'retrying', '42501');
SELECT last_error FROM stream.projection_status WHERE projection = 'theirs';
GRANT SELECT ON streams.s TO regress_stream_other;
SELECT stream.wait_for('theirs', timeout => '30 s');
ALTER TABLE theirs OWNER TO CURRENT_USER;
SELECT stream.publish('s', 'k1', '{"n": 1}') AS "position" \gset
CALL await_state('theirs', 'retrying', '42501');
SELECT last_error FROM stream.projection_status WHERE projection = 'theirs';
ALTER TABLE theirs OWNER TO regress_stream_other;
SELECT stream.wait_for('theirs', timeout => '30 s');
SELECT * FROM theirs;
SELECT count(*) FROM stream.dead_letters WHERE projection = 'theirs';

-- paused: nothing is applied, and wait_for says so; resumed: all is
SELECT stream.pause_projection('theirs');
SELECT stream.publish('s', 'k1', '{"n": 1}') AS "position" \gset
SELECT stream.wait_for('theirs', timeout => '0.1 s');
SELECT state, lag FROM stream.projection_status WHERE projection = 'theirs';
SELECT stream.resume_projection('theirs');
SELECT stream.wait_for('theirs', timeout => '30 s');
SELECT * FROM theirs;

-- retention has passed it: an error until somebody decides to go on at the log start
SELECT stream.pause_projection('theirs');
SELECT stream.publish('s', 'k1', '{"n": 1}') AS "position" \gset
SELECT stream.publish('s', 'k1', '{"n": 1}') AS "last" \gset
UPDATE stream_internal.partitions SET log_start_offset = stream.offset_of(:'last') WHERE "partition" = stream.partition_of(:'last')
	AND stream_id = (SELECT stream_id FROM stream_internal.streams WHERE stream = 's');
SELECT stream.alter_stream('s', compression => 'lz4');
SELECT stream.resume_projection('theirs');
CALL await_state('theirs', 'retrying', '22003');
SELECT last_error, error_detail FROM stream.projection_status WHERE projection = 'theirs';
SELECT stream.skip_projection_record('theirs', :'position', 'they are gone');
SELECT stream.wait_for('theirs', timeout => '30 s');
CALL await_state('theirs', 'running');
SELECT * FROM theirs;
SELECT records_skipped FROM stream.projection_partition_status
WHERE projection = 'theirs' AND "partition" = stream.partition_of(:'last');

-- the fault of a record as well: PL/pgSQL's CASE has no branch for it
CREATE TABLE shades (k text PRIMARY KEY, n int);
CREATE FUNCTION shade(name text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN CASE name WHEN 'light' THEN RETURN 1; WHEN 'dark' THEN RETURN 2; END CASE; END $$;
SELECT stream.create_projection('shades', 's', 'shades', query => $$ SELECT key AS k, shade(value->>'shade') AS n FROM batch $$, merge => '{"n": "max"}',
	start => 'latest', on_error => 'dead_letter');
SELECT count(stream.publish('s', 'k1', jsonb_build_object('shade', shade, 'n', 1))) FROM unnest('{dark,pale,light}'::text[]) shade;
SELECT stream.wait_for('shades', timeout => '30 s');
SELECT value->>'shade' AS shade, sqlstate FROM stream.dead_letters WHERE projection = 'shades';

-- how stale it can get
SELECT stream.stale_after('theirs', NULL);
SELECT stream.stale_after('nobody', '1 hour');
SELECT pg_typeof(stream.stale_after('theirs', '1 hour'));

SELECT stream.drop_stream('s');
SELECT count(*) FROM stream_internal.projection_errors;
SELECT count(*) FROM stream.projection_status;
DROP TABLE totals, theirs, shades;
DROP FUNCTION shade;
DROP VIEW errors;
DROP PROCEDURE await_state;
DROP OWNED BY regress_stream_other;
DROP ROLE regress_stream_other;
