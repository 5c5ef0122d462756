-- skip_record, and the view dead_letters.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 2);
SELECT stream.create_stream('b', 1, 'bytea');
SELECT stream.create_consumer_group('s', 'g');
SELECT stream.create_consumer_group('s', 'other');
SELECT stream.create_consumer_group('b', 'g');
SELECT stream.publish('s', 'k' || g, to_jsonb(g), CASE WHEN g = 0 THEN '{"h": 1}'::jsonb END, 0) FROM generate_series(0, 4) g;
CREATE VIEW letters AS
	SELECT stream, consumer_group, "partition", record_offset, key, value, value_bytes, headers, reason, sqlstate,
		"user" = current_user AS own, created_at > published_at AS later, retries
	FROM stream.dead_letters ORDER BY dead_letter_id;
CREATE VIEW offsets_of_g AS
	SELECT consumer_group, "partition", committed_offset, lag, records_skipped FROM stream.consumer_lag WHERE stream = 's' ORDER BY 1, 2;
TABLE letters;

-- The next one only.
SELECT failure($$SELECT stream.skip_record('s', 'g', '0:1', 'too early')$$);
SELECT failure($$SELECT stream.skip_record('s', 'g', '0:5', 'not there')$$);
SELECT failure($$SELECT stream.skip_record('s', 'g', '1:0', 'nothing there')$$);
TABLE letters;
SELECT stream.skip_record('s', 'g', '0:0', 'cannot be parsed');
TABLE letters;
TABLE offsets_of_g;
SELECT failure($$SELECT stream.skip_record('s', 'g', '0:0', 'again')$$);
SELECT key FROM stream.consume('s', 'g', 1, autocommit => true);
SELECT failure($$SELECT stream.skip_record('s', 'g', '0:1', 'done before')$$);

-- Rolled back, also to a savepoint; beside a consume of the same transaction.
BEGIN;
SELECT stream.skip_record('s', 'g', stream.record_position(0, 2), 'undone');
SELECT count(*) FROM letters;
ROLLBACK;
SELECT count(*) FROM letters;
BEGIN;
SAVEPOINT a;
SELECT key FROM stream.consume('s', 'g', 1);
ROLLBACK TO a;
SELECT stream.skip_record(stream => 's', consumer_group => 'g', "position" => '0:2', reason => 'poison');
SELECT key FROM stream.consume('s', 'g', 1);
COMMIT;
SELECT record_offset, reason FROM letters;
TABLE offsets_of_g;

-- Over holes.
BEGIN; SELECT count(stream.publish('s', 'lost', '0', "partition" => 0)) FROM generate_series(1, 3); ROLLBACK;
SELECT stream.publish('s', 'behind', '1', "partition" => 0);
SELECT count(*) FROM stream.consume('s', 'g', 1, autocommit => true);
SELECT failure($$SELECT stream.skip_record('s', 'g', '0:5', 'a hole')$$);
SELECT stream.skip_record('s', 'g', '0:8', 'behind the holes');
SELECT record_offset, key FROM letters WHERE record_offset = 8;
TABLE offsets_of_g;
-- not what an open publisher holds back
BEGIN;
SELECT stream.publish('s', 'open', '1', "partition" => 1);
SELECT failure($$SELECT stream.skip_record('s', 'g', '1:0', 'open')$$);
ROLLBACK;

-- Values of the other type, tombstones.
SELECT stream.publish_bytes('b', NULL, '\x00ff');
SELECT stream.publish_tombstone('b', 'gone');
SELECT stream.skip_record('b', 'g', '0:0', '');
SELECT stream.skip_record('b', 'g', '0:1', 'tombstone');
SELECT * FROM letters WHERE stream = 'b';

-- Arguments.
SELECT arguments, failure('SELECT stream.skip_record(' || arguments || ')') FROM (VALUES
	($$NULL, 'g', '0:0', 'r'$$), ($$'s', NULL, '0:0', 'r'$$), ($$'s', 'g', NULL, 'r'$$), ($$'s', 'g', '0:0', NULL$$),
	($$'missing', 'g', '0:0', 'r'$$), ($$'s', 'missing', '0:0', 'r'$$), ($$'s', 'g', '2:0', 'r'$$),
	($$'s', 'g', '0:9223372036854775807', 'r'$$)) AS v (arguments);
BEGIN READ ONLY;
SELECT stream.skip_record('s', 'other', '0:0', 'r'); \echo :SQLSTATE
ROLLBACK;

-- With members it commits past the record, and the member sees it when it polls next, wherever it is.
SELECT stream.create_consumer_group('s', 'm');
SELECT member_epoch AS epoch FROM stream.join_group('s', 'm', 'a') \gset
SELECT record_offset FROM stream.poll('s', 'm', 'a', :epoch, max_records => 1);
SELECT stream.skip_record('s', 'm', '0:0', 'poison');
SELECT record_offset FROM stream.poll('s', 'm', 'a', :epoch, max_records => 1);
SELECT record_offset FROM stream.poll('s', 'm', 'a', :epoch, after => '{0:1}', max_records => 1);
-- what was polled is not committed yet, so it is the next one still
SELECT failure($$SELECT stream.skip_record('s', 'm', '0:2', 'polled')$$);
SELECT stream.commit_offsets('s', 'm', 'a', :epoch, '{0:1}');
SELECT stream.skip_record('s', 'm', '0:2', 'poison too');
SELECT record_offset FROM stream.poll('s', 'm', 'a', :epoch, after => '{0:1}', max_records => 1);
SELECT stream.commit_offsets('s', 'm', 'a', :epoch, '{0:2}');
SELECT "partition", committed_offset, member_id FROM stream.consumer_lag WHERE consumer_group = 'm' AND "partition" = 0;
SELECT stream.leave_group('s', 'm', 'a', :epoch);
SELECT stream.drop_consumer_group('s', 'm');

-- What retention has passed is skipped by the group's policy.
UPDATE stream_internal.partitions SET log_start_offset = 3 WHERE "partition" = 0
	AND stream_id = (SELECT stream_id FROM stream_internal.streams WHERE stream = 's');
SELECT stream.alter_stream('s', compression => 'lz4');
SELECT stream.skip_record('s', 'other', '0:3', 'r'); \echo :SQLSTATE
SELECT stream.alter_consumer_group('s', 'other', 'earliest');
SELECT stream.skip_record('s', 'other', '0:3', 'policy');
TABLE offsets_of_g;

-- Privileges: those on the stream, and pg_monitor sees all.
CREATE ROLE regress_stream_reader;
CREATE ROLE regress_stream_monitor IN ROLE pg_monitor;
CREATE ROLE regress_stream_nobody;
GRANT SELECT ON streams.s TO regress_stream_reader;
CREATE FUNCTION spy(value jsonb) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$
BEGIN
	RAISE NOTICE 'saw %', value;
	RETURN true;
END $$;
SET ROLE regress_stream_nobody;
SELECT stream.skip_record('s', 'other', '0:4', 'r'); \echo :SQLSTATE
SELECT count(*) FROM stream.dead_letters WHERE spy(value);
SELECT count(*) FROM stream_internal.dead_letters; \echo :SQLSTATE
SET ROLE regress_stream_reader;
SELECT stream.skip_record('s', 'other', '0:4', 'mine');
SELECT stream, count(*), count(*) FILTER (WHERE "user" = 'regress_stream_reader') AS mine FROM stream.dead_letters GROUP BY 1;
SET ROLE regress_stream_monitor;
SELECT stream, count(*) FROM stream.dead_letters GROUP BY 1 ORDER BY 1;
RESET ROLE;
REVOKE ALL ON streams.s FROM regress_stream_reader;
DROP ROLE regress_stream_reader, regress_stream_monitor, regress_stream_nobody;
DROP FUNCTION spy;

-- They go with the group, and with the stream.
SELECT stream.drop_consumer_group('s', 'g');
SELECT stream, consumer_group, count(*) FROM letters GROUP BY 1, 2 ORDER BY 1, 2;
SELECT count(*) FROM stream_internal.dead_letters;
DROP VIEW letters, offsets_of_g;
SELECT stream.drop_stream('s');
SELECT stream.drop_stream('b');
SELECT count(*) FROM stream_internal.dead_letters;
