# synchronous_commit = off and a crash: the last transactions are lost, each of them
# whole, and the offsets they had are never given again.
#
# The processes that write WAL in the background are stopped, so that the tail is lost
# for certain: only the flush of a partition's ceiling makes anything durable.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamLoad;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(
	'async',
	conf => [
		'wal_level = replica',
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

sub freeze_writers
{
	freeze_process($_) foreach map { server_pid($node, $_) } 'walwriter', 'background writer', 'checkpointer';
	return;
}

#
# One session: what is lost is exactly the end of what it did.
#
sql(q{
	SET synchronous_commit = on;
	SELECT stream.create_stream('one', 1);
	SELECT stream.publish('one', 'k', '{"t": 0}'::jsonb);
});
freeze_writers();
my $returned = sql(
	join '',
	map {
		qq{
	BEGIN;
	SELECT stream.offset_of(stream.publish('one', 'k', '{"t": $_}'::jsonb)) FROM generate_series(1, 7);
	COMMIT;
	}
	} 1 .. 100);
my ($highest) = (sort { $b <=> $a } split /\n/, $returned);
crash($node);
$node->start;

my @counts = split /\n/, sql(
	q{
	SELECT value->'t', count(*) FROM stream.read('one', 0, NULL, NULL) GROUP BY 1 ORDER BY (value->'t')::int});
is(shift @counts, '0|1', 'one session: the synchronous commit is there');
cmp_ok(scalar @counts, '<', 100, 'one session: the crash has lost something');
is( join(' ', @counts),
	join(' ', map { "$_|7" } 1 .. @counts),
	'one session: transactions are lost whole, and the last ones');
cmp_ok(sql(q{SELECT stream.offset_of(stream.publish('one', 'k', '{"t": 101}'::jsonb))}),
	'>', $highest, 'one session: no lost offset is given again');
log_is_sound($node, 'postgres', 'one', 'one session: the log is sound');

#
# A stream whose ceilings were never flushed by anything else: also the very first
# grants of offsets are durable before they are used.
#
sql(q{SET synchronous_commit = on; SELECT stream.create_stream('first', 8)});
freeze_writers();
$returned = sql(
	q{
	SELECT stream.publish('first', NULL, '{}'::jsonb, partition => p) FROM generate_series(0, 7) p, generate_series(0, p);
});
crash($node);
$node->start;
my %before = map { /^(\d+):(\d+)$/; ($1 => $2) } split /\n/, $returned;
my %after = map { /^(\d+):(\d+)$/; ($1 => $2) } split /\n/,
  sql(q{SELECT stream.publish('first', NULL, '{}'::jsonb, partition => p) FROM generate_series(0, 7) p});
is(join(' ', grep { $after{$_} <= $before{$_} } 0 .. 7), '', 'first grants: no lost offset is given again');

#
# A rolled-back transaction: its offsets are as lost as those of others.
#
sql(q{SET synchronous_commit = on; SELECT stream.create_stream('back', 1)});
freeze_writers();
$returned = sql(
	q{
	BEGIN;
	SELECT max(stream.offset_of(stream.publish('back', NULL, '{}'::jsonb))) FROM generate_series(1, 100);
	ROLLBACK;
});
crash($node);
$node->start;
cmp_ok(sql(q{SELECT stream.offset_of(stream.publish('back', NULL, '{}'::jsonb))}),
	'>', $returned, 'rolled back: no lost offset is given again');

#
# Several sessions, twice.
#
sql(q{SET synchronous_commit = on; SELECT stream.create_stream('load', 4)});
my $load = StreamLoad->new($node, 'load', 4, 4);
my $lost = 0;
foreach my $round (1, 2)
{
	freeze_writers();
	$load->start(1000);
	$load->wait_for_commits(40);
	crash($node);
	is($load->finish, 4, "load $round: all sessions were in the middle of it");
	$node->start;
	is($load->complaints('lost'), '', "load $round: the log holds whole transactions, and no offset twice");
	$lost += $load->{lost};
	log_is_sound($node, 'postgres', 'load', "load $round: the log is sound");
}
$load->start(16, 'SET synchronous_commit = on;');
is($load->finish, 0, 'the sessions go on');
is($load->complaints, '', 'what was lost stays lost, all else is there');
note("$lost acknowledged transactions of the load were lost");

$node->stop;
done_testing();
