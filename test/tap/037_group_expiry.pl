# Consumer groups that nobody uses go after stream.offset_retention; those that somebody
# waits for, has a partition of, or is a member of, stay.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('group_expiry');

sub sql
{
	return $node->safe_psql('postgres', shift);
}

sub groups
{
	return sql('SELECT string_agg(consumer_group, \' \' ORDER BY consumer_group) FROM stream_internal.consumer_groups');
}

# wait_for_groups(GROUPS): the manager looks at each reload.
sub wait_for_groups
{
	my ($groups) = @_;

	wait_until("groups are: $groups", sub { $node->reload; return groups() eq $groups });
	pass("groups left: $groups");
	return;
}

sub set_retention
{
	my ($retention) = @_;

	$node->append_conf('postgresql.conf', "stream.offset_retention = $retention");
	$node->reload;
	wait_until('it is set', sub { return sql('SHOW stream.offset_retention') eq $retention });
	return;
}

sql(q{
	SELECT stream.create_stream('log', 2);
	SELECT stream.create_consumer_group('log', g) FROM unnest('{dead,held,member,new,used,waiting}'::text[]) g;
	SELECT stream.publish('log', 'k', to_jsonb(i), "partition" => i % 2) FROM generate_series(1, 10) i;
	SELECT count(*) FROM stream.consume('log', 'used', autocommit => true);
	SELECT stream.skip_record('log', 'new', '0:0', 'poison');
});
is(sql('SELECT count(*) FROM stream.group_status WHERE expires_at IS NOT NULL'), '0', 'off by default');
is(sql('SELECT stream_internal.expire_groups()'), '0', 'nothing expires');

# far away
set_retention('7d');
is(sql(q{SELECT bool_and(expires_at BETWEEN now() + '6 days' AND now() + '7 days 1 s') FROM stream.group_status}), 't', 'all will expire');
is(sql('SELECT stream_internal.expire_groups()'), '0', 'not yet');

# in use
my $waiter = $node->background_psql('postgres');
$waiter->query_safe(q{SET stream.max_wait = '10 min'});
sql(q{SELECT count(*) FROM stream.consume('log', 'waiting', autocommit => true)});
$waiter->query_until(qr//, "SELECT stream.wait_for_records('log', 'waiting', '10 min');\n");
my $holder = $node->background_psql('postgres');
$holder->query_safe(q{BEGIN; SELECT count(*) FROM stream.consume('log', 'held', 1)});
sql(q{SELECT member_id FROM stream.join_group('log', 'member', 'm', session_timeout => '10 min')});
sql(q{SELECT member_id FROM stream.join_group('log', 'dead', 'm', session_timeout => '1 s')});
wait_until('it waits', sub { return sql(q{SELECT used FROM stream.memory_status WHERE area = 'waiters'}) eq '1' });
is(sql(q{SELECT expires_at IS NULL FROM stream.group_status WHERE consumer_group = 'member'}), 't', 'not while it has members');

set_retention('2s');
wait_for_groups('held member waiting');
is(sql(q{SELECT count(*) FROM stream_internal.offsets WHERE group_id NOT IN (SELECT group_id FROM stream_internal.consumer_groups)}), '0', 'their offsets went');
is(sql(q{SELECT count(*) FROM stream_internal.dead_letters}), '0', 'dead letters as well');
is(sql(q{SELECT count(*) FROM stream_internal.members}), '1', 'and members');
like(slurp_file($node->logfile), qr/consumer group "used" of stream "log" has expired/, 'the log tells');
error_is($node, 'postgres', q{SELECT * FROM stream.consume('log', 'used', autocommit => true)}, '42704', 'it is unknown');

# and stay so
is(sql('SELECT pg_sleep(3), stream_internal.expire_groups()'), '|0', 'the others stay');
is(groups(), 'held member waiting', 'all of them');

# until they are not used
$holder->query_safe('ROLLBACK');
wait_for_groups('member waiting');
sql('SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query ~ $$^SELECT stream.wait_for$$');
wait_for_groups('member');
sql(q{SELECT stream.leave_group('log', 'member', 'm', (SELECT member_epoch FROM stream.group_members))});
wait_until('no group is left', sub { $node->reload; return groups() eq '' });
pass('nobody left, no group');
end_session($holder);
end_session($waiter);

# a restart is as good as a use, and a group of an idle stream is kept by who waits in turns
sql(q{SELECT stream.create_consumer_group('log', 'kept')});
sql(q{SELECT count(*) FROM stream.consume('log', 'kept', autocommit => true)});
set_retention('4s');
$node->stop;
sleep(5);
$node->start;
is(sql('SELECT stream_internal.expire_groups()'), '0', 'not at once after a restart');
is(sql(q{SELECT expires_at > now() FROM stream.group_status}), 't', 'it counts from there');
sql(q{SELECT stream.wait_for_records('log', 'kept', '1 s')}) foreach 1 .. 6;
is(groups(), 'kept', 'who waits keeps it');
is(sql(q{SELECT sum(lag) FROM stream.consumer_lag}), '0', 'with its offsets');
wait_until('it goes', sub { $node->reload; return groups() eq '' });
pass('who does not, does not');

$node->stop;
done_testing();
