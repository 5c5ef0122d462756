-- Members of consumer groups: join, heartbeat, poll, commit, leave.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 4);
SELECT stream.create_consumer_group('s', 'g');
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => g % 4)) FROM generate_series(0, 19) g;
CREATE VIEW members AS SELECT member_id, instance_id, state, member_epoch AS epoch, assigned, revoking, target FROM stream.group_members ORDER BY 1;
CREATE VIEW offsets AS SELECT string_agg(committed_offset::text, ' ' ORDER BY "partition") AS offsets, sum(lag) AS lag FROM stream.consumer_lag;
CREATE VIEW epochs AS SELECT last_epoch, group_epoch, target_epoch FROM stream_internal.group_epochs;
CREATE FUNCTION polled(member text, epoch int, after stream.record_position[] = NULL, commit stream.record_position[] = NULL, max int = 100)
	RETURNS TABLE ("partition" int, first bigint, last bigint, records bigint) LANGUAGE sql AS
	$$ SELECT "partition", min(record_offset), max(record_offset), count(*)
		FROM stream.poll('s', 'g', member, epoch, after, commit, max) GROUP BY 1 ORDER BY 1 $$;

-- The first member gets all.
SELECT * FROM stream.join_group('s', 'g', 'a');
SELECT * FROM polled('a', 1);
SELECT * FROM polled('a', 1, after => '{0:1,1:3,2:4}');
SELECT * FROM polled('a', 1, after => '{0:1,1:3,2:4,0:3}', commit => '{0:1,1:3,3:0}');
TABLE offsets;
-- a lost answer is asked for again
SELECT * FROM polled('a', 1, after => '{0:1,1:3,2:4,0:3}', commit => '{0:1,1:3,3:0}');
SELECT stream.commit_offsets('s', 'g', 'a', 1, '{2:0}');
SELECT stream.commit_offsets('s', 'g', 'a', 1, '{2:0}');
TABLE offsets;

-- A second one: what moves is revoked first, and the other waits for it.
SELECT * FROM stream.join_group('s', 'g', 'b');
TABLE members;
SELECT * FROM polled('b', 2);
SELECT * FROM stream.heartbeat('s', 'g', 'b', 2, '{}');
SELECT * FROM stream.heartbeat('s', 'g', 'a', 1, '{0,1,2,3}');
SELECT * FROM stream.heartbeat('s', 'g', 'a', 1, '{0,1,2,3}');
TABLE members;
-- what is to be let go of is not polled any more, but may be committed
SELECT * FROM polled('a', 1);
SELECT stream.commit_offsets('s', 'g', 'a', 1, '{3:4}');
SELECT * FROM stream.heartbeat('s', 'g', 'b', 2, '{}');
SELECT * FROM stream.heartbeat('s', 'g', 'a', 1, '{0,1}');
-- a commit at the epoch before is right for what it still has
SELECT stream.commit_offsets('s', 'g', 'a', 1, '{0:2}');
SELECT failure($$SELECT stream.commit_offsets('s', 'g', 'a', 2, '{3:4}')$$);
SELECT * FROM stream.heartbeat('s', 'g', 'b', 2, '{}');
SELECT * FROM stream.heartbeat('s', 'g', 'b', 2, '{}');
SELECT * FROM polled('b', 2);
SELECT * FROM polled('b', 3);
TABLE members;
TABLE epochs;

-- Commits that are refused.
SELECT failure($$SELECT stream.commit_offsets('s', 'g', 'b', 3, '{2:100}')$$);
SELECT failure($$SELECT stream.commit_offsets('s', 'g', 'b', 3, NULL)$$);
SELECT failure($$SELECT stream.commit_offsets('s', 'g', 'b', 3, '{2:3,3:3}')$$);
SELECT failure($$SELECT stream.commit_offsets('s', 'g', 'b', 3, '{0:3}')$$);
SELECT failure($$SELECT stream.commit_offsets('s', 'g', 'b', 3, '{4:3}')$$);
SELECT failure($$SELECT stream.commit_offsets('s', 'g', 'b', 4, '{2:3}')$$);
SELECT failure($$SELECT stream.commit_offsets('s', 'g', 'b', 2, '{2:3}')$$);
SELECT failure($$SELECT stream.commit_offsets('s', 'g', 'nobody', 3, '{2:3}')$$);
SELECT failure($$SELECT stream.commit_offsets('s', 'g', 'b', 3, '{2:3,NULL}')$$);
SELECT failure($$SELECT stream.commit_offsets('s', 'g', 'b', 3, '{2:9223372036854775807}')$$);
SELECT failure($$SELECT * FROM stream.poll('s', 'g', 'b', 3, after => '{2:5}')$$);
SELECT failure($$SELECT * FROM stream.poll('s', 'g', 'b', 4)$$);
SELECT failure($$SELECT * FROM stream.poll('s', 'g', 'nobody', 1)$$);
SELECT failure($$SELECT * FROM stream.poll_bytes('s', 'g', 'b', 3)$$);
SELECT failure($$SELECT * FROM stream.heartbeat('s', 'g', 'b', 3, '{1}')$$);
SELECT failure($$SELECT * FROM stream.heartbeat('s', 'g', 'b', 0, '{1}')$$);
SELECT failure($$SELECT * FROM stream.heartbeat('s', 'g', 'b', 3, NULL)$$);
SELECT failure($$SELECT * FROM stream.heartbeat('s', 'g', 'b', 3, '{NULL}')$$);
SELECT failure($$SELECT * FROM stream.heartbeat('s', 'g', 'nobody', 3, '{}')$$);
SELECT failure($$SELECT * FROM stream.join_group('s', 'g', '')$$);
SELECT failure($$SELECT * FROM stream.join_group('s', 'g', repeat('x', 64))$$);
SELECT failure($$SELECT * FROM stream.join_group('s', 'g', 'c', session_timeout => '0')$$);
SELECT failure($$SELECT * FROM stream.join_group('s', 'g', 'c', max_poll_interval => '-1 s')$$);
SELECT failure($$SELECT * FROM stream.join_group('s', 'unknown', 'c')$$);
SELECT failure($$SELECT stream.leave_group('s', 'g', 'b', 3, temporarily => true)$$);
TABLE offsets;

-- Both ways of consuming at one time.
SELECT failure($$SELECT * FROM stream.consume('s', 'g', autocommit => true)$$);
SELECT failure($$SELECT stream.drop_consumer_group('s', 'g')$$);
SELECT failure($$SELECT * FROM stream.reset_offsets('s', 'g', 'earliest', execute => true)$$);
SELECT * FROM stream.reset_offsets('s', 'g', 'earliest');

-- A paused group's members get nothing and go on committing.
SELECT stream.pause_consumer_group('s', 'g');
SELECT * FROM polled('b', 3, commit => '{2:1}');
SELECT stream.wait_for_records('s', 'g', '0 s', 'b');
SELECT stream.resume_consumer_group('s', 'g');
SELECT * FROM polled('b', 3);

-- Waiting.
SELECT stream.wait_for_records('s', 'g', '0 s', 'b');
SELECT stream.wait_for_records('s', 'g', '0 s', 'b', after => '{2:4}');
SELECT stream.wait_for_records('s', 'g', '0 s', 'nobody');

-- Joining again begins anew: the client from before is fenced.
SELECT * FROM stream.join_group('s', 'g', 'b');
SELECT failure($$SELECT stream.commit_offsets('s', 'g', 'b', 3, '{2:4}')$$);
SELECT failure($$SELECT * FROM stream.poll('s', 'g', 'b', 3)$$);
SELECT failure($$SELECT * FROM stream.heartbeat('s', 'g', 'b', 3, '{2,3}')$$);
SELECT failure($$SELECT stream.leave_group('s', 'g', 'b', 3)$$);
SELECT * FROM stream.heartbeat('s', 'g', 'b', 4, '{2,3}');

-- Leaving commits what was processed; who has left may say so again.
SELECT stream.leave_group('s', 'g', 'b', 4, '{2:4}');
SELECT stream.leave_group('s', 'g', 'b', 4, '{2:4}');
SELECT stream.leave_group('s', 'g', 'b', 4);
SELECT failure($$SELECT stream.leave_group('s', 'g', 'b', 4, '{3:4,2:5}')$$);
TABLE offsets;
SELECT * FROM stream.heartbeat('s', 'g', 'a', 2, '{0,1}');
TABLE members;

-- A static member keeps its place when it leaves temporarily.
SELECT * FROM stream.join_group('s', 'g', 'c1', 'instance');
SELECT * FROM stream.heartbeat('s', 'g', 'a', (SELECT epoch FROM members WHERE member_id = 'a'), '{0,1,2,3}');
SELECT * FROM stream.heartbeat('s', 'g', 'a', (SELECT epoch FROM members WHERE member_id = 'a'), '{0,1}');
SELECT * FROM stream.heartbeat('s', 'g', 'c1', (SELECT epoch FROM members WHERE member_id = 'c1'), '{}');
SELECT failure($$SELECT stream.join_group('s', 'g', 'c2', 'instance')$$);
SELECT stream.leave_group('s', 'g', 'c1', (SELECT epoch FROM members WHERE member_id = 'c1'), temporarily => true);
TABLE members;
SELECT * FROM stream.heartbeat('s', 'g', 'a', (SELECT epoch FROM members WHERE member_id = 'a'), '{0,1}');
SELECT failure($$SELECT * FROM stream.poll('s', 'g', 'c1', 8)$$);
SELECT * FROM stream.join_group('s', 'g', 'c2', 'instance');
TABLE members;
SELECT failure($$SELECT * FROM stream.heartbeat('s', 'g', 'c1', 8, '{}')$$);

-- Time-outs: of the session, between polls, and of a revocation.
SELECT * FROM stream.join_group('s', 'g', 'd', session_timeout => '1 ms');
SELECT pg_sleep(0.01);
SELECT * FROM stream.heartbeat('s', 'g', 'a', (SELECT epoch FROM members WHERE member_id = 'a'), (SELECT assigned FROM members WHERE member_id = 'a'));
SELECT member_id FROM members;
SELECT * FROM stream.join_group('s', 'g', 'd', max_poll_interval => '1 ms');
SELECT pg_sleep(0.01);
SELECT failure($$SELECT * FROM stream.heartbeat('s', 'g', 'd', (SELECT epoch FROM members WHERE member_id = 'd'), '{}')$$);
SELECT count(*) FROM stream.heartbeat('s', 'g', 'a', (SELECT epoch FROM members WHERE member_id = 'a'), (SELECT assigned FROM members WHERE member_id = 'a'));
SELECT member_id FROM members;

-- When all have timed out, consume goes on.
SELECT stream.reset_offsets('s', 'g', 'current', execute => true, force => true);
TABLE members;
SELECT member_epoch > 0 AS joined, cardinality(assigned), length(member_id) FROM stream.join_group('s', 'g', session_timeout => '1 ms');
SELECT pg_sleep(0.01);
SELECT "partition", count(*) FROM stream.consume('s', 'g', autocommit => true) GROUP BY 1 ORDER BY 1;
TABLE members;
TABLE offsets;

-- Records that were rolled back, and nothing else: a poll passes over them.
BEGIN;
SELECT count(stream.publish('s', 'k', to_jsonb(g), "partition" => g % 4)) FROM generate_series(0, 7) g;
ROLLBACK;
TABLE offsets;
SELECT member_epoch AS epoch FROM stream.join_group('s', 'g', 'e') \gset
SELECT * FROM polled('e', :epoch);
TABLE offsets;
SELECT stream.publish('s', 'k', '1', "partition" => 0);
BEGIN;
SELECT stream.publish('s', 'k', '1', "partition" => 0);
ROLLBACK;
SELECT * FROM polled('e', :epoch);
TABLE offsets;
SELECT * FROM polled('e', :epoch, after => '{0:7}', commit => '{0:7}');
TABLE offsets;
-- and that answer may be lost as well
SELECT * FROM polled('e', :epoch, after => '{0:7}', commit => '{0:7}');
SELECT failure(format($$SELECT stream.commit_offsets('s', 'g', 'e', %s, '{0:6}')$$, :epoch));
TABLE offsets;

-- All in one transaction, and in one statement.
BEGIN;
SELECT stream.leave_group('s', 'g', 'e', :epoch);
SELECT member_epoch > :epoch AS higher, assigned FROM stream.join_group('s', 'g', 'e');
SELECT stream.leave_group('s', 'g', 'e', (SELECT epoch FROM members)), (SELECT count(*) FROM stream.join_group('s', 'g', 'f'));
ROLLBACK;
SELECT member_id, epoch = :epoch AS epoch FROM members;

-- An epoch that was rolled back is given again, also when it had timed out.
BEGIN;
SELECT assigned FROM stream.join_group('s', 'g', 'f', session_timeout => '1 ms');
SELECT pg_sleep(0.01);
SELECT assigned FROM stream.join_group('s', 'g', 'h');
ROLLBACK;
SELECT member_epoch AS f_epoch, assigned FROM stream.join_group('s', 'g', 'f') \gset f_
SELECT assigned FROM stream.heartbeat('s', 'g', 'f', :f_f_epoch, :'f_assigned');
SELECT stream.leave_group('s', 'g', 'f', :f_f_epoch);

-- Privileges, and a transaction that may not write.
BEGIN READ ONLY;
SELECT failure($$SELECT stream.join_group('s', 'g', 'x')$$);
SELECT failure($$SELECT stream.poll('s', 'g', 'e', 1)$$);
ROLLBACK;
CREATE ROLE regress_reader;
SET ROLE regress_reader;
SELECT failure($$SELECT stream.join_group('s', 'g', 'x')$$);
SELECT failure($$SELECT stream.heartbeat('s', 'g', 'e', 1, '{}')$$);
SELECT failure($$SELECT * FROM stream.poll('s', 'g', 'e', 1)$$);
SELECT failure($$SELECT stream.commit_offsets('s', 'g', 'e', 1, '{}')$$);
SELECT failure($$SELECT stream.leave_group('s', 'g', 'e', 1)$$);
SELECT count(*) FROM stream.group_members;
RESET ROLE;
DROP ROLE regress_reader;

-- No two-phase commit: others would wait for the second phase.
BEGIN;
SELECT count(*) FROM stream.join_group('s', 'g', 'x');
PREPARE TRANSACTION 'joined'; \echo :SQLSTATE

-- Values of the other type.
SELECT stream.create_stream('b', value_type => 'bytea');
SELECT stream.create_consumer_group('b', 'g');
SELECT stream.publish_bytes('b', 'k', '\x00ff');
SELECT count(*) FROM stream.join_group('b', 'g', 'a');
SELECT "partition", record_offset, key, value FROM stream.poll_bytes('b', 'g', 'a', 1);

-- Dropping the stream drops members with it.
DROP VIEW members, offsets, epochs;
DROP FUNCTION polled;
SELECT stream.drop_stream('s');
SELECT stream.drop_stream('b');
SELECT (SELECT count(*) FROM stream_internal.members) + (SELECT count(*) FROM stream_internal.group_epochs) AS left;
