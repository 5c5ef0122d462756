# Crashes in mid-load: nothing acknowledged is lost, nothing rolled back appears, and no
# offset is given twice.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamLoad;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('crash', conf => [ 'restart_after_crash = on', 'wal_level = replica' ]);
$node->safe_psql('postgres', q{SELECT stream.create_stream('load', 4)});

my $load = StreamLoad->new($node, 'load', 4, 4);
my $rolls = "CALL stream.roll_segment('load');\nSELECT pg_sleep(0.05);\n" x 500;

# crash_under_load(CRASH, TEST): load, CRASH in the middle of it, restart, and look.
sub crash_under_load
{
	my ($crash, $test) = @_;

	$load->start(1000, '', $rolls);
	$load->wait_for_commits(20);
	$node->safe_psql('postgres', 'CHECKPOINT');
	$load->wait_for_commits(40);
	$crash->();
	is($load->finish, 5, "$test: all sessions were in the middle of it");
	$node->poll_query_until('postgres', 'SELECT true') or BAIL_OUT('the server is not back');
	is($load->complaints, '', "$test: the log holds what was committed");
	log_is_sound($node, 'postgres', 'load', "$test: the log is sound");
	return;
}

crash_under_load(
	sub {
		my $pid = $node->safe_psql('postgres',
			"SELECT pid FROM pg_stat_activity WHERE application_name = 'load session1'");
		kill 'KILL', $pid;
		wait_until_gone($pid);
	},
	'SIGKILL of a publisher');

crash_under_load(
	sub {
		$node->stop('immediate');
		$node->start;
	},
	'immediate stop');

crash_under_load(
	sub {
		crash($node);
		$node->start;
	},
	'SIGKILL of all processes');

# What is published now comes behind all that any session has ever seen; the module
# compares each round's positions with those of the rounds before.
$load->start(24);
is($load->finish, 0, 'the sessions go on');
is($load->complaints, '', 'the log holds everything at the end');
log_is_sound($node, 'postgres', 'load', 'the log is sound at the end');
cmp_ok($load->acked, '>=', 4 * (3 * 40 + 24), 'many transactions were acknowledged');
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM stream.segment_status'), '>', 3,
	'over several segments');
is($node->safe_psql('postgres', "SELECT used FROM stream.memory_status WHERE area = 'publishers'"),
	'0', 'no publisher is left');

$node->stop;
done_testing();
