# On a standby no background worker runs; they start at promotion.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = new_node('primary', streaming => 1, conf => ['autovacuum = off']);
create_database($primary, 'other');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));

my $manager = q{state = 'idle' FROM stream.worker_status WHERE type = 'stream manager' AND database = current_database()};
ok($primary->poll_query_until('postgres', "SELECT $manager"), 'the primary has a manager');
is( $standby->safe_psql('postgres', q{SELECT type, database, pid, state, activity FROM stream.worker_status ORDER BY type}),
	"stream launcher|||stopped|the server is in recovery\nstream manager|postgres||stopped|the server is in recovery",
	'the standby has none, and says why');
is( $standby->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'stream %'}),
	'0', 'nor any process');

# An extension that is created while it is a standby.
create_database($primary, 'late');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
$standby->promote;
foreach my $database ('postgres', 'other', 'late')
{
	ok($standby->poll_query_until($database, "SELECT $manager"), "promoted, there is a manager in $database");
}
is($standby->safe_psql('postgres', q{SELECT state FROM stream.worker_status WHERE type = 'stream launcher'}),
	'idle', 'and the launcher');

$standby->stop;
$primary->stop;
done_testing();
