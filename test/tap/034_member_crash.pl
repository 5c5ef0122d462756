# Members of a consumer group over crashes and restarts of the server: they go on with
# their epochs and partitions, what was not committed is as if it had not been, and a member
# that is gone costs the others one session timeout.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node('member_crash');

sub sql
{
	return $node->safe_psql('postgres', shift);
}

# A member's calls: each in a session of its own.
sub join_group
{
	my ($member, $session_timeout) = @_;

	return sql(qq{SELECT member_epoch, assigned, revoking FROM stream.join_group('log', 'g', '$member', session_timeout => '$session_timeout')});
}

sub beat
{
	my ($member, $epoch, $owned) = @_;

	return sql(qq{SELECT member_epoch, assigned, revoking FROM stream.heartbeat('log', 'g', '$member', $epoch, '{$owned}')});
}

sub polled
{
	my ($member, $epoch, $after) = @_;

	return sql(qq{SELECT string_agg("partition" || ':' || record_offset, ' ' ORDER BY 1, "partition", record_offset)
		FROM stream.poll('log', 'g', '$member', $epoch, '{$after}')});
}

my $members = q{SELECT member_id, instance_id, state, member_epoch, assigned, revoking, target, session_timeout, max_poll_interval, joined_at
	FROM stream.group_members ORDER BY 1};
my $offsets = q{SELECT string_agg(committed_offset::text, ' ' ORDER BY "partition") FROM stream.consumer_lag};

sql(q{
	SELECT stream.create_stream('log', 4);
	SELECT stream.create_consumer_group('log', 'g');
	SELECT stream.publish('log', NULL, to_jsonb(i), NULL, i % 4) FROM generate_series(0, 11) i;
});
is(join_group('a', '1 hour'), '1|{0,1,2,3}|{}', 'a member');
is(join_group('b', '1 hour'), '2|{}|{}', 'a second one');
is(beat('a', 1, '0,1,2,3'), '1|{0,1}|{2,3}', 'the first one is told to let go');
is(beat('a', 1, '0,1'), '2|{0,1}|{}', 'it does');
is(beat('b', 2, ''), '3|{2,3}|{}', 'the second one gets what it waited for');
sql(q{SELECT stream.commit_offsets('log', 'g', 'a', 2, '{0:0}')});

#
# The server goes, with calls that are not committed.
#
foreach my $mode ('crash', 'immediate', 'fast')
{
	my $before = sql($members);
	my $open = $node->background_psql('postgres', on_error_stop => 0);
	$open->query_safe(q{BEGIN; SELECT stream.commit_offsets('log', 'g', 'a', 2, '{0:2,1:2}')});
	my $joining = $node->background_psql('postgres', on_error_stop => 0);
	$joining->query_safe(q{BEGIN; SELECT stream.join_group('log', 'g', 'c')});
	# let its row reach the disk
	sql('CHECKPOINT') if $mode eq 'crash';
	if   ($mode eq 'crash') { crash($node) }
	else                    { $node->stop($mode) }
	end_session($_) foreach $open, $joining;
	$node->start;

	is(sql($members), $before, "$mode: the members are as before");
	is(sql($offsets), '1 0 0 0', "$mode: so are the offsets");
	is(polled('a', 2, '1:0'), '0:1 0:2 1:1 1:2', "$mode: a member goes on at its epoch, where it was");
	is(beat('a', 2, '0,1'), '2|{0,1}|{}', "$mode: and keeps its partitions");
	is(beat('b', 3, '2,3'), '3|{2,3}|{}', "$mode: so does the other");
	error_is($node, 'postgres', q{SELECT stream.heartbeat('log', 'g', 'c', 4, '{}')}, 'ST001', "$mode: who had not joined has to");
	error_is($node, 'postgres', q{SELECT stream.poll('log', 'g', 'a', 3)}, 'ST001', "$mode: not at an epoch that was another's");
	error_is($node, 'postgres', q{SELECT stream.commit_offsets('log', 'g', 'a', 2, '{2:0}')},
		'ST002', "$mode: it has no more than its own");
	error_is($node, 'postgres', q{SELECT stream.consume('log', 'g', autocommit => true)}, '55006', "$mode: the group has members");
}

# takes_over(SINCE, TIMEOUT, TEST): a has all partitions as soon as a member that was last
# heard of at SINCE has timed out.
sub takes_over
{
	my ($since, $timeout, $test) = @_;
	my ($epoch, $assigned);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	($epoch, $assigned) = split /\|/, sql(q{SELECT member_epoch, assigned FROM stream.group_members WHERE member_id = 'a'});
	wait_until(
		$test,
		sub {
			$assigned =~ tr/{}//d;
			($epoch, $assigned) = split /\|/, beat('a', $epoch, $assigned);
			return $assigned eq '{0,1,2,3}';
		});
	my $seconds = time() - $since;
	cmp_ok($seconds, '>=', $timeout, "$test: not before its session timeout");
	cmp_ok($seconds, '<', $timeout + 10, sprintf '%s: after %.1f s', $test, $seconds);
	return $epoch;
}

#
# A member dies with its session, in the middle of a call.
#
sql(q{SELECT stream.leave_group('log', 'g', 'b', 3)});
is(beat('a', 2, '0,1'), '4|{0,1,2,3}|{}', 'the first one gets all');
my $dying = $node->background_psql('postgres', on_error_stop => 0);
is($dying->query_safe(q{SELECT member_epoch FROM stream.join_group('log', 'g', 'd', session_timeout => '2 s')}), '5', 'another one comes');
is(beat('a', 4, '0,1,2,3'), '4|{0,1}|{2,3}', 'gets its share');
is(beat('a', 4, '0,1'), '5|{0,1}|{}', 'when the first one has let go');
is($dying->query_safe(q{SELECT assigned FROM stream.heartbeat('log', 'g', 'd', 5, '{}')}), '{2,3}', 'and has it');
my $pid = $dying->query_safe('SELECT pg_backend_pid()');
my $since = time();
$dying->query_safe(q{BEGIN; SELECT stream.commit_offsets('log', 'g', 'd', 6, '{2:1}')});
sql("SELECT pg_terminate_backend($pid)");
wait_until_gone($pid);
end_session($dying);
my $epoch = takes_over($since, 2, 'a member that died');
is(sql($offsets), '1 0 0 0', 'nothing of its last commit is there');
is(polled('a', $epoch, '0:2,1:2,3:2'), '2:0 2:1 2:2', 'its records are polled by the other');

#
# Nobody is late because the server was.
#
my ($joined) = split /\|/, join_group('e', '2 s');
beat('a', $epoch, '0,1,2,3');
($epoch) = split /\|/, beat('a', $epoch, '0,1');
is(sql(q{SELECT assigned FROM stream.group_members WHERE member_id = 'a'}), '{0,1}', 'a member has let go for another');
my ($e_epoch, $e_assigned) = split /\|/, beat('e', $joined, '');
is($e_assigned, '{2,3}', 'which takes that up');
crash($node);
sleep(2.5);
$node->start;
is(beat('a', $epoch, '0,1'), "$epoch|{0,1}|{}", 'after a time without a server nobody has timed out');
$since = time();
is(beat('e', $e_epoch, '2,3'), "$e_epoch|{2,3}|{}", 'who is still there goes on');
takes_over($since, 2, 'who is not heard of again');

# A group whose members are all gone is free again one session timeout later.
sql(q{SELECT stream.leave_group('log', 'g', 'a', (SELECT member_epoch FROM stream.group_members))});
join_group('last', '1 s');
crash($node);
$node->start;
error_is($node, 'postgres', q{SELECT stream.consume('log', 'g', autocommit => true)}, '55006', 'after a crash the last one may still come');
wait_until('consume goes on', sub { return error_of($node, 'postgres', q{SELECT stream.consume('log', 'g', autocommit => true)}) =~ /^00000/ });
is(sql($members), '', 'when all are late there are none');

$node->stop;
done_testing();
