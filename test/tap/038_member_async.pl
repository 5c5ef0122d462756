# Members of a consumer group, synchronous_commit = off and a crash: what a member was told
# of its membership is durable; one that has polled records that are lost learns it, however
# much was published since.
#
# The processes that write WAL in the background are stopped, so that the tail is lost for
# certain.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(
	'member_async',
	conf => [
		'synchronous_commit = off',
		'wal_writer_delay = 10s',
		'wal_writer_flush_after = 1GB',
		'wal_buffers = 64MB',
		'shared_buffers = 128MB',
		'autovacuum = off'
	]);

sub sql
{
	return $node->safe_psql('postgres', shift);
}

sub polled
{
	my ($member, $epoch, $after) = @_;

	return sql(qq{SELECT string_agg(value::text, ' ' ORDER BY record_offset)
		FROM stream.poll('log', 'g', '$member', $epoch, '{$after}')});
}

sql(q{
	SET synchronous_commit = on;
	SELECT stream.create_stream('log', 1);
	SELECT stream.create_consumer_group('log', 'g');
	SELECT stream.publish('log', 'k', to_jsonb(n)) FROM generate_series(0, 3) n;
});
freeze_process($_) foreach map { server_pid($node, $_) } 'walwriter', 'background writer', 'checkpointer';
is(sql(q{SELECT member_epoch, assigned FROM stream.join_group('log', 'g', 'a', session_timeout => '1 hour')}), '1|{0}', 'a member joins');
sql(q{SELECT stream.commit_offsets('log', 'g', 'a', 1, '{0:1}')});
is(sql(q{SELECT stream.publish('log', 'k', to_jsonb(n)) FROM generate_series(4, 6) n}), "0:4\n0:5\n0:6", 'records are published');
is(polled('a', 1, '0:1'), '2 3 4 5 6', 'and polled');
crash($node);
$node->start;

is(sql(q{SELECT max(record_offset) FROM stream.read('log', 0)}), '3', 'the crash has lost them');
is(sql(q{SELECT member_epoch, assigned FROM stream.heartbeat('log', 'g', 'a', 1, '{0}')}), '1|{0}', 'but not the member');

# lost(TEST): what a member gets that goes on where it was.
sub lost
{
	my ($test) = @_;
	my %detail = (detail => qr/ahead of the log/);

	error_is($node, 'postgres', q{SELECT stream.poll('log', 'g', 'a', 1, '{0:6}')}, 'ST001', "$test: a poll tells the member", %detail);
	error_is($node, 'postgres', q{SELECT stream.poll('log', 'g', 'a', 1, '{0:4}')}, 'ST001', "$test: also behind the first of them", %detail);
	error_is($node, 'postgres', q{SELECT stream.commit_offsets('log', 'g', 'a', 1, '{0:6}')}, 'ST001', "$test: so does a commit", %detail);
	return;
}

lost('lost');
error_is($node, 'postgres', q{SELECT stream.poll('log', 'g', 'a', 1, '{0:1000000}')}, '22003', 'what was never issued is another error');
sql(q{SELECT stream.publish('log', 'k', '"new"')});
lost('published again');
error_is($node, 'postgres', q{SELECT stream.poll('log', 'g', 'a', 1, '{0:1000000}')}, '22003', 'what was never issued still is');

is(polled('a', 1, '0:3'), '"new"', 'who has polled what is there goes on');
is(sql(q{SELECT member_epoch, assigned FROM stream.join_group('log', 'g', 'a')}), '2|{0}', 'the member joins again');
my ($committed) = sql(q{SELECT committed_offset FROM stream.consumer_lag});
cmp_ok($committed, '<=', 2, 'and goes on from what is committed');
like(polled('a', 2, ''), qr/\b2 3 "new"$/, 'it polls all that is there');
my $position = sql(q{SELECT max(record_offset) FROM stream.read('log', 0)});
sql(qq{SELECT stream.commit_offsets('log', 'g', 'a', 2, '{0:$position}')});
is(sql(q{SELECT lag FROM stream.consumer_lag}), '0', 'nothing is left');

$node->stop;
done_testing();
