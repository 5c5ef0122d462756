# The membership loops of examples/: members share the partitions, come and go, one is
# killed with records in hand, the server is restarted, two go through a pooler.  Nothing
# is left out, and what comes twice is what was in hand.
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
my $dir = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('member_loop');
my ($bouncer, $bouncer_host) = start_pgbouncer($node);
diag('no pgbouncer to go through') if !$bouncer;

# Of the language under test: how a member is started, what it has done, what there is.
my (@command, $effects, $orders, @started);

sub sql
{
	return $node->safe_psql('postgres', shift);
}

# runs(COMMAND...): whether it succeeds; its output is nobody's concern.
sub runs
{
	my ($out, $err);

	return eval { IPC::Run::run([@_], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(60)) };
}

# start_member([HOST])
sub start_member
{
	my ($host) = @_;

	local $ENV{PGHOST} = $host // $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = 'postgres';
	# which node-postgres takes from USER otherwise, and there may be none
	local $ENV{PGUSER} = getpwuid($<);
	my ($in, $log) = ('', "$PostgreSQL::Test::Utils::log_path/members.log");
	my $member = IPC::Run::start([@command], '<', \$in, '>>', $log, '2>>', $log);

	push @started, $member;
	return $member;
}

sub pid_of
{
	my ($member) = @_;

	return $member->{KIDS}[0]{PID};
}

sub publish
{
	my $first = $orders + 1;

	$orders += shift // 200;
	return sql(qq{SELECT count(stream.publish('orders', 'customer ' || i % 97, jsonb_build_object('id', i)))
		FROM generate_series($first, $orders) i});
}

# What was done, as a list of [pid, order].
sub effects
{
	return map { [ split ' ' ] } split /\n/, slurp_file($effects);
}

sub wait_for
{
	my ($query, $result) = @_;

	wait_until("$query gives $result", sub { return sql($query) eq $result });
	return;
}

# all_done(TEST, REPEATED): and no more than so many were done twice.
sub all_done
{
	my ($test, $repeated) = @_;
	my %done;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_for('SELECT sum(lag) FROM stream.consumer_lag', '0');
	$done{ $_->[1] }++ foreach effects();
	is(scalar(keys %done), $orders, "$test: each order is there");
	my $more = scalar(effects()) - $orders;
	cmp_ok($more, '<=', $repeated, "$test: $more twice");
	return;
}

# test_member(NAME, SUFFIX, TIMES, EFFECT, COMMAND...): the example, with shorter TIMES, and
# an EFFECT that can be looked at and stopped.
sub test_member
{
	my ($name, $suffix, $times, $effect, @interpreter) = @_;
	my $program = slurp_file("$examples/member.$suffix");
	my $share = q{SELECT string_agg(state || ' ' || cardinality(assigned), ', ') FROM stream.group_members};

	$program =~ s/^.*\bSESSION_TIMEOUT\b.*45.*$/$times/m or die;
	$program =~ s/^.*\bmail to .*$/$effect/m or die;
	append_to_file("$dir/member.$suffix", $program);
	@command = (@interpreter, "$dir/member.$suffix");
	append_to_file($effects, '');
	$orders = 0;
	sql(q{
		SELECT stream.create_stream('orders', partitions => 4);
		SELECT stream.create_consumer_group('orders', 'mails');
	});

	# A second one comes while the first is in a batch, of a few of each partition: what
	# moves was committed before.
	my $first = start_member();
	publish();
	wait_for($share, 'stable 4');
	all_done("$name, one member", 0);
	append_to_file("$dir/slow", '');
	publish(80);
	wait_until('it has some of each', sub { return effects() >= $orders - 12 });
	append_to_file("$dir/stop", '');
	my $second = start_member($bouncer_host);
	wait_for('SELECT count(*) FROM stream.group_members', '2');
	unlink "$dir/slow", "$dir/stop";
	wait_for($share, 'stable 2, stable 2');
	all_done("$name, a second one", 0);
	publish();
	all_done("$name, two members", 0);
	is(scalar(keys %{ { map { $_->[0] => 1 } effects() } }), 2, "$name: both have worked");

	# Stopped, then one killed, with a record in hand each; the other may be fenced on a slow
	# machine.
	append_to_file("$dir/stop", '');
	my $before = effects();
	publish();
	wait_until('both have a record in hand', sub { return effects() == $before + 2 });
	my $first_pid = pid_of($first);
	kill 'KILL', $first_pid;
	wait_until_gone($first_pid);
	unlink "$dir/stop";
	wait_for($share, 'stable 4');
	all_done("$name, one is killed", 2);

	# The connection is lost; the membership is not.
	my $member = sql('SELECT member_id, member_epoch FROM stream.group_members');
	$node->restart;
	publish();
	all_done("$name, restart", 2);
	is(sql('SELECT member_id, member_epoch FROM stream.group_members'), $member, "$name: the member goes on after a restart");

	# Out of touch for longer than its session timeout, it is fenced, and joins again.
	my $third = start_member($bouncer_host);
	wait_for($share, 'stable 2, stable 2');
	freeze_process(pid_of($second));
	wait_for($share, 'stable 4');
	publish();
	all_done("$name, one is out of touch", 3);
	kill 'CONT', pid_of($second);
	wait_for($share, 'stable 2, stable 2');
	publish();
	all_done("$name, it is back", 3);

	# Asked to stop, they commit and leave.
	kill 'TERM', pid_of($_) foreach $second, $third;
	ok($second->finish && $third->finish, "$name: members stop");
	is(sql('SELECT count(*) FROM stream.group_members'), '0', "$name: and have left");
	all_done("$name, after the end", 3);
	sql(q{SELECT stream.drop_stream('orders')});
	return;
}

SKIP:
{
	my ($python) = grep { runs($_, '-c', 'import psycopg') } 'python3', '/usr/bin/python3';

	skip 'no Python with psycopg 3', 1 unless defined $python;
	$effects = "$dir/python";
	test_member('python', 'py', 'SESSION_TIMEOUT, HEARTBEAT = 5, 0.3', <<"EFFECT", $python);
    import os
    with open("$effects", "a") as file:
        file.write(f"{os.getpid()} {record.value['id']}\\n")
    time.sleep(0.02 if os.path.exists("$dir/slow") else 0)
    while os.path.exists("$dir/stop"):
        time.sleep(0.01)
EFFECT
}

SKIP:
{
	my $modules = PostgreSQL::Test::Utils::tempdir();

	local $ENV{NODE_PATH} = join ':', $ENV{NODE_PATH} // (), "$modules/node_modules", '/usr/share/nodejs';
	skip 'no Node with node-postgres', 1
	  unless runs('node', '-e', 'require("pg")')
	  || (runs('npm', 'install', '--no-audit', '--no-fund', '--fetch-retries=0', '--prefix', $modules, 'pg') && runs('node', '-e', 'require("pg")'));
	$effects = "$dir/node";
	test_member('node', 'js', 'const SESSION_TIMEOUT = 5, HEARTBEAT = 0.3;', <<"EFFECT", 'node');
    const fs = require('fs');
    fs.appendFileSync('$effects', `\${process.pid} \${record.value.id}\\n`);
    await sleep(fs.existsSync('$dir/slow') ? 20 : 0);
    while (fs.existsSync('$dir/stop'))
        await sleep(10);
EFFECT
}

$node->stop;
done_testing();

END
{
	local $?;
	foreach my $left (grep { $_->pumpable } @started)
	{
		kill 'KILL', pid_of($left);
	}
	$bouncer->kill_kill(grace => 5) if $bouncer;
}
