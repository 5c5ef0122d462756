# The worker loops of examples/: each is killed in mid-transaction, meets a record that
# nobody can process, loses its server, and is asked to stop; every order is shipped once.
use strict;
use warnings;

use Cwd qw(abs_path);
use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $examples = abs_path("$FindBin::RealBin/../../examples");
my $node = new_node('worker_loops');
my ($db, $orders, @started);

sub sql
{
	return $node->safe_psql($db, shift);
}

# runs(COMMAND...): whether it succeeds; its output is nobody's concern.
sub runs
{
	my ($out, $err);

	return eval { IPC::Run::run([@_], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(60)) };
}

# start_worker(COMMAND...): with the environment that leads to the database.
sub start_worker
{
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = $db;
	# which node-postgres takes from USER otherwise, and there may be none
	local $ENV{PGUSER} = getpwuid($<);
	my ($in, $log) = ('', "$PostgreSQL::Test::Utils::log_path/worker_$db.log");
	my $worker = IPC::Run::start([@_], '<', \$in, '>>', $log, '2>>', $log);

	push @started, $worker;
	return $worker;
}

# The pids of a process and of what it has started.
sub tree
{
	my ($pid) = @_;
	my @pids = ($pid);

	foreach my $path (glob '/proc/[0-9]*/stat')
	{
		open my $file, '<', $path or next;
		my $line = <$file> // next;
		push @pids, tree($1) if $line =~ /^(\d+) .*\) \S (\d+)/ && $2 == $pid;
	}
	return @pids;
}

sub pid_of
{
	my ($worker) = @_;

	return $worker->{KIDS}[0]{PID};
}

sub publish
{
	my ($count, $bad) = @_;
	my $first = $orders + 1;

	$orders += $count;
	sql(qq{SELECT count(stream.publish('orders', 'customer ' || i % 97, jsonb_build_object('id', i)))
		FROM generate_series($first, $orders) i});
	sql(q{SELECT stream.publish('orders', 'customer 5', '{"id": "none"}'::jsonb)}) if $bad;
	return;
}

# wait_for(SQL, RESULT): a worker may be anywhere meanwhile, so look again and again.
sub wait_for
{
	my ($query, $result) = @_;

	wait_until("$query gives $result", sub { return sql($query) eq $result });
	return;
}

sub all_shipped
{
	my ($test) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_for('SELECT sum(lag) FROM stream.consumer_lag', '0');
	is(sql('SELECT count(*), count(DISTINCT order_id), min(order_id), max(order_id) FROM shipments'),
		"$orders|$orders|1|$orders", "$test: each order is shipped once");
	return;
}

# stand_still(): the next shipment waits for a lock, which the result holds; and the
# backend that waits, in the middle of its transaction.
sub stand_still
{
	my $lock = $node->background_psql($db);
	my $pid = '';

	$lock->query_safe('BEGIN; LOCK TABLE shipments IN SHARE MODE');
	publish(200);
	wait_until(
		'a worker is in mid-transaction',
		sub {
			$pid = sql(q{SELECT min(pid) FROM pg_locks l JOIN stream.consumer_lag USING (pid)
				WHERE l.relation = 'shipments'::regclass AND NOT granted});
			return $pid ne '';
		});
	return ($lock, $pid);
}

# test_worker(NAME, COMMAND...)
sub test_worker
{
	my ($name, @command) = @_;
	my $in_server = $name eq 'sql';

	$db = "worker_$name";
	$orders = 0;
	create_database($node, $db);
	sql(q{
		SELECT stream.create_stream('orders', partitions => 4);
		SELECT stream.create_consumer_group('orders', 'shipping');
		CREATE TABLE shipments (order_id bigint NOT NULL, shipped_at timestamptz NOT NULL DEFAULT now());
	});

	# A record that cannot be processed, among others.
	publish(500, 1);
	publish(500);
	my $worker = start_worker(@command);
	all_shipped("$name, a record that fails");
	is(sql('SELECT count(*), min(value::text) FROM stream.dead_letters'), '1|{"id": "none"}', "$name: it is kept");

	# Killed in mid-transaction.  What runs in the server needs its client gone before
	# it goes on; what runs in the client does not.
	my ($lock, $backend) = stand_still();
	my $before = sql('SELECT count(*) FROM shipments');
	my @pids = grep { !$in_server || $_ != pid_of($worker) } tree(pid_of($worker));
	kill 'KILL', @pids;
	wait_until_gone($in_server ? $backend : @pids);
	cmp_ok(sql('SELECT sum(lag) FROM stream.consumer_lag'), '>', 0, "$name, killed: its records are there for others");
	$lock->query_safe('COMMIT');
	$lock->quit;
	wait_until_gone($backend);
	# the loop around psql starts it again by itself
	if (!$in_server)
	{
		is(sql('SELECT count(*) FROM shipments'), $before, "$name, killed: nothing it did is there");
		$worker = start_worker(@command);
	}
	all_shipped("$name, killed");

	# The connection is lost, and the server not there for a while; two share the work.
	my @workers = ($worker, start_worker(@command));
	publish(200);
	$node->stop('fast');
	$node->start;
	publish(200);
	all_shipped("$name, after a restart");
	wait_for(q{SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND
		application_name = 'shipping worker'}, '2');

	# Asked to stop: at once when idle, else after the transaction.
	if ($in_server)
	{
		kill 'TERM', tree(pid_of($_)) foreach @workers;
	}
	else
	{
		kill 'TERM', pid_of($workers[0]);
		ok($workers[0]->finish, "$name: an idle worker stops");
		($lock) = stand_still();
		kill 'TERM', pid_of($workers[1]);
		$lock->query_safe('COMMIT');
		$lock->quit;
		ok($workers[1]->finish, "$name: a busy worker stops");
		cmp_ok(sql('SELECT count(*) FROM shipments'), '>', $orders - 200, "$name: it has finished what it had in hand");
	}
	wait_for(q{SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND
		backend_type = 'client backend' AND pid <> pg_backend_pid()}, '0');
	return;
}

# In SQL: with the shell's loop from the file's comment, as it stands there.
my ($loop) = map { s/^--     //mgr } slurp_file("$examples/worker.sql") =~ /^(--     delay=1\n--     until .*\n)/m;
$loop =~ s/worker\.sql/$examples\/worker.sql/;
test_worker('sql', 'sh', '-c', $loop);

SKIP:
{
	my ($python) = grep { runs($_, '-c', 'import psycopg') } 'python3', '/usr/bin/python3';

	skip 'no Python with psycopg 3', 1 unless defined $python;
	test_worker('python', $python, "$examples/worker.py");
}

SKIP:
{
	my $modules = PostgreSQL::Test::Utils::tempdir();

	local $ENV{NODE_PATH} = join ':', $ENV{NODE_PATH} // (), "$modules/node_modules", '/usr/share/nodejs';
	skip 'no Node with node-postgres', 1
	  unless runs('node', '-e', 'require("pg")')
	  || (runs('npm', 'install', '--no-audit', '--no-fund', '--fetch-retries=0', '--prefix', $modules, 'pg') && runs('node', '-e', 'require("pg")'));
	test_worker('node', 'node', "$examples/worker.js");
}

$node->stop;
done_testing();

END
{
	local $?;
	foreach my $worker (@started)
	{
		kill 'KILL', grep { defined } tree(pid_of($worker)) if $worker->pumpable;
	}
}
