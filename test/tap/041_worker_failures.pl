# Background workers that are killed, fail, find no slot, or are turned off: each is seen
# in worker_status, and comes back by itself.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('failures',
	conf => [ 'autovacuum = off', 'max_worker_processes = 20', 'restart_after_crash = on', 'stream.min_worker_delay = 100ms' ]);

sub sql
{
	return $node->safe_psql('postgres', shift);
}

# status(TYPE, COLUMNS): of this database, or the launcher.
sub status
{
	my ($type, $columns) = @_;

	return sql(
		qq{SELECT $columns FROM stream.worker_status WHERE type = 'stream $type'
		AND (database IS NULL OR database = 'postgres') ORDER BY pid});
}

sub wait_for
{
	my ($type, $condition, $test) = @_;

	wait_until($test, sub { return status($type, $condition) =~ /t/; });
	pass($test);
	return;
}

#
# SIGTERM
#
foreach my $type ('launcher', 'manager')
{
	wait_for($type, q{state = 'idle'}, "the $type runs");
	my $pid = status($type, 'pid');
	is(sql("SELECT pg_terminate_backend($pid, 10000)"), 't', "the $type is terminated");
	wait_for($type, "state = 'idle' AND pid <> $pid", '… and comes back');
	is(status($type, 'restarts, last_error, last_error_at > started_at - interval \'1 min\''),
		'1|terminated by a signal|t', '… which is seen');
}

# The manager works on without a launcher.
my $manager = status('manager', 'pid');
my $launcher = status('launcher', 'pid');
sql("SELECT pg_terminate_backend($launcher, 10000)");
wait_for('launcher', "state = 'idle' AND pid <> $launcher", 'a second launcher');
is(status('manager', 'pid'), $manager, 'takes over the manager of the first');

# Again and again: the delay grows, up to a limit.
for my $i (1 .. 4)
{
	my $pid = status('manager', 'pid');
	sql("SELECT pg_terminate_backend($pid, 10000)");
	wait_for('manager', "pid <> $pid AND state = 'idle'", "killed, $i");
}
my $pid = status('manager', 'pid');
sql("SELECT pg_terminate_backend($pid, 10000)");
wait_for('manager', q{state = 'backing off'}, 'then it backs off');
cmp_ok(status('manager', 'extract(epoch FROM retry_at - last_error_at)'), '>', 1.5, '… for longer than at first');
$node->append_conf('postgresql.conf', "stream.max_worker_delay = 100ms");
$node->reload;
wait_for('manager', q{state = 'idle'}, '… and comes back');

# CREATE EXTENSION ends the delay.
$node->append_conf('postgresql.conf', "stream.min_worker_delay = 1h\nstream.max_worker_delay = 1h");
$node->reload;
$pid = status('manager', 'pid');
sql("SELECT pg_terminate_backend($pid, 10000)");
wait_for('manager', q{state = 'backing off' AND retry_at > now() + interval '59 min'}, 'with a long delay');
sql('BEGIN; DROP EXTENSION stream; CREATE EXTENSION stream; COMMIT');
wait_for('manager', q{state = 'idle'}, '… CREATE EXTENSION ends it');
$node->append_conf('postgresql.conf', "stream.min_worker_delay = 100ms\nstream.max_worker_delay = 100ms");
$node->reload;

# pg_cancel_backend ends no worker.
$pid = status('manager', 'pid');
sql("SELECT pg_cancel_backend($pid)");
is(status('manager', 'pid'), $pid, 'a cancel leaves the manager running');

#
# SIGKILL: PostgreSQL restarts all processes.
#
foreach my $type ('manager', 'launcher')
{
	kill 'KILL', status($type, 'pid');
	wait_until('the server is back',
		sub { return $node->psql('postgres', 'SELECT 1') == 0 && status('manager', q{state = 'idle' AND restarts = 0}) eq 't'; });
	pass("all is back after SIGKILL of the $type");
}

#
# An error in a turn: the extension is of another version than the library.
#
sql(q{UPDATE pg_extension SET extversion = '0.0' WHERE extname = 'stream'});
$node->reload;
wait_until(
	'the manager fails',
	sub {
		return sql(
			q{SELECT last_error FROM stream_internal.worker_status() WHERE type = 'stream manager' AND database = 'postgres'}) =~
		  /is installed in version 0.0/;
	});
pass('a version that does not fit is shown');
is( sql(q{SELECT pid IS NOT NULL, state FROM stream_internal.worker_status() WHERE type = 'stream manager'}),
	't|backing off', '… and tried again');
sql(q{UPDATE pg_extension SET extversion = '0.1' WHERE extname = 'stream'});
wait_for('manager', q{state = 'idle'}, '… until it fits');
like(slurp_file($node->logfile), qr/CONTEXT:  stream manager of database "postgres"/, 'the log names worker and database');

#
# Off and on
#
$node->append_conf('postgresql.conf', 'stream.background_workers = off');
$node->reload;
wait_for('manager', q{state = 'stopped' AND pid IS NULL AND activity = 'stream.background_workers is off'}, 'turned off, the manager ends');
is(status('launcher', 'state, activity'), 'idle|stream.background_workers is off', '… and the launcher says why');
sql(q{SELECT stream.create_stream('s'); SELECT stream.publish('s', 'k', '{}'::jsonb)});
is(sql(q{SELECT count(*) FROM streams.s}), '1', 'publishing and reading go on');
$node->restart;
wait_for('launcher', q{state = 'idle'}, 'after a restart');
is(status('manager', 'state, activity, pid'), 'stopped|stream.background_workers is off|', 'still off');
$node->append_conf('postgresql.conf', 'stream.background_workers = on');
$node->reload;
wait_for('manager', q{state = 'idle'}, 'turned on, it comes back');

#
# No worker slot free: three slots, one for the launcher of logical replication, one for
# ours, one for a manager.
#
$node->append_conf('postgresql.conf', 'max_worker_processes = 3');
$node->restart;
wait_for('manager', q{state = 'idle'}, 'one manager has a slot');
create_database($node, 'second');
wait_until(
	'the second waits',
	sub {
		return sql(q{SELECT state FROM stream.worker_status WHERE type = 'stream manager' AND database = 'second'}) eq
		  'waiting for a worker slot';
	});
is( sql(q{SELECT activity, pid, restarts FROM stream.worker_status WHERE database = 'second'}),
	'max_worker_processes are in use||0', 'without a slot, a manager waits, visibly');
my $log = -s $node->logfile;
# it is tried each 100 ms
wait_until('some tries', sub { return sql(q{SELECT pg_sleep(0.5)}) eq ''; });
unlike(slurp_file($node->logfile, $log), qr/worker/, '… and writes nothing to the log');
sql('DROP EXTENSION stream CASCADE');
ok( $node->poll_query_until(
		'second', q{SELECT state = 'idle' FROM stream.worker_status WHERE database = 'second' AND type = 'stream manager'}),
	'a slot that is free again is used');
sql('CREATE EXTENSION stream');
wait_for('manager', q{state = 'waiting for a worker slot'}, 'and now the first waits');
$node->append_conf('postgresql.conf', 'max_worker_processes = 20');
$node->restart;

#
# More databases than stream.max_databases: the second, and template1 unless it was looked
# at first.
#
$node->append_conf('postgresql.conf', 'stream.max_databases = 1');
$node->restart;
wait_until('the launcher says so',
	sub { return status('launcher', 'activity') =~ /^[12] databases are left out: stream.max_databases is 1$/; });
pass('the launcher says how many databases it had to leave out');
is(sql(q{SELECT used, capacity FROM stream.memory_status WHERE area = 'databases'}), '1|1', 'and memory_status how full it is');

#
# Not even a slot for the launcher
#
$node->append_conf('postgresql.conf', 'max_worker_processes = 0');
$node->restart;
wait_for('launcher', q{state = 'stopped' AND activity = 'max_worker_processes left no slot for it at server start'},
	'no launcher: it says so');
is(status('manager', 'state, activity, pid'), 'stopped|the launcher does not run|', '… and there is no manager');

$node->stop;
done_testing();
