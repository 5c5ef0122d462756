# What consumers do is counted, also when they are killed; a full table of meters harms
# nobody, and a restart begins anew.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('meter', conf => [ 'stream.max_group_partitions = 16' ]);

sub sql
{
	return $node->safe_psql('postgres', shift);
}

sub status
{
	my ($columns) = @_;

	return sql("SELECT $columns FROM stream.group_status WHERE consumer_group = 'g'");
}

sql(q{
	SELECT stream.create_stream('log', 1);
	SELECT stream.create_consumer_group('log', 'g');
	SELECT stream.publish('log', NULL, to_jsonb(i)) FROM generate_series(1, 1000) i;
});
is(status('state, workers, worker_rate IS NULL'), 'empty|0|t', 'nobody consumes');

# sessions at work, one of them terminated in mid-transaction
my $first = $node->background_psql('postgres', on_error_stop => 0);
my $second = $node->background_psql('postgres', on_error_stop => 0);
$second->query_safe(q{SELECT stream.wait_for_records('log', 'g', '0')});
$first->query_safe(q{BEGIN; SELECT count(*) FROM stream.consume('log', 'g', 100)});
is(status('state, workers'), 'consuming|2', 'one consumes, one waits');
is(sql(q{SELECT rollbacks FROM stream.consumer_lag}), '0', 'nothing was rolled back yet');
my $pid = sql('SELECT pid FROM stream.consumer_lag');
sql("SELECT pg_terminate_backend($pid, 60000)");
is(sql(q{SELECT rollbacks, pid IS NULL FROM stream.consumer_lag}), '1|t', 'the end of a terminated consumer is counted');
is(status('state, workers, worker_rate IS NULL'), 'consuming|1|t', 'it is no worker any more, nor measured');
end_session($first);

# another one that leaves by itself
$second->query_safe(q{BEGIN; SELECT count(*) FROM stream.consume('log', 'g', 100); COMMIT});
is(sql(q{SELECT rollbacks, committed_offset FROM stream.consumer_lag}), '0|100', 'a commit begins anew');
is(status('workers, worker_rate > 0, measured_at IS NOT NULL, headroom_one_worker_fewer IS NULL'), '1|t|t|t', 'its batch was measured');
$second->query_safe(q{BEGIN; SELECT count(*) FROM stream.consume('log', 'g', 100)});
end_session($second);
wait_until('it has gone', sub { return status('workers') eq '0' });
is(sql(q{SELECT rollbacks FROM stream.consumer_lag}), '1', 'the end of a session is counted');
is(status('state, worker_rate > 0, capacity, utilization IS NULL'), 'empty|t|0|t', 'nobody at work has no capacity');

# more groups than meters
sql(qq{SELECT stream.create_consumer_group('log', 'g$_')}) foreach 1 .. 20;
is(sql(qq{SELECT count(*) FROM stream.consume('log', 'g$_', 10, autocommit => true)}), '10', "group $_ consumes") foreach 1 .. 20;
is(sql(q{SELECT used, capacity FROM stream.memory_status WHERE area = 'group partitions'}), '16|16', 'the meters are full');
is(sql(q{SELECT count(*) FROM stream.group_status WHERE measured_at IS NULL AND lag = 990}), '13', 'some have none');
is(sql(q{BEGIN; SELECT count(*) FROM stream.consume('log', 'g20', 10); ROLLBACK; SELECT rollbacks FROM stream.consumer_lag WHERE consumer_group = 'g20'}),
	"10\n0", 'and are not counted');
sql(qq{SELECT stream.drop_consumer_group('log', 'g$_')}) foreach 1 .. 20;
is(sql(q{SELECT used FROM stream.memory_status WHERE area = 'group partitions'}), '2', 'a dropped group gives them back');

# restarts
$node->restart;
is(status('worker_rate IS NULL, measured_at IS NULL, lag'), 't|t|900', 'a restart begins anew');
is(sql(q{SELECT rollbacks FROM stream.consumer_lag}), '0', 'rollbacks too');
crash($node);
$node->start;
is(status('worker_rate IS NULL, lag'), 't|900', 'a crash as well');

# a database that goes takes its own with it
create_database($node, 'other');
$node->safe_psql('other', q{SELECT stream.create_stream('log'); SELECT stream.create_consumer_group('log', 'g');
	SELECT stream.publish('log', NULL, '1'); SELECT count(*) FROM stream.consume('log', 'g', autocommit => true)});
is(sql(q{SELECT used FROM stream.memory_status WHERE area = 'group partitions'}), '2', 'meters of another database');
sql('DROP DATABASE other WITH (FORCE)');
is(sql(q{SELECT used FROM stream.memory_status WHERE area = 'group partitions'}), '0', 'they go with it');

$node->stop;
done_testing();
