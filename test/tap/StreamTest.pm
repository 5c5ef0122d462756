# What the TAP tests share: nodes with the extension, errors by SQLSTATE, crashes.
package StreamTest;

use strict;
use warnings;
use Exporter 'import';
use File::Temp;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(new_node error_of error_is errors_are records log_is_sound end_session server_pid freeze_process
  crash wait_until_gone wait_until partition_row create_database start_pgbouncer);

# new_node(NAME, conf => [LINE...], streaming => 1, start => 0): a server with the
# library preloaded and, unless it is not to be started, the extension in "postgres".
sub new_node
{
	my ($name, %params) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(
		extra => [ '--encoding=UTF8', '--no-locale' ],
		allows_streaming => $params{streaming} // 0);
	$node->append_conf('postgresql.conf',
		join("\n", "shared_preload_libraries = 'stream'", 'log_statement = none', @{ $params{conf} // [] }, ''));
	if ($params{start} // 1)
	{
		$node->start;
		$node->safe_psql('postgres', 'CREATE EXTENSION stream');
	}
	return $node;
}

# create_database(NODE, NAME, OPTIONS): with the extension.
sub create_database
{
	my ($node, $name, $options) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $name " . ($options // ''));
	$node->safe_psql($name, 'CREATE EXTENSION stream');
	return;
}

# start_pgbouncer(NODE): in transaction mode, with few sessions; the process, to be ended
# with kill_kill, the host to connect to and the log's name.  Nothing if there is none.
sub start_pgbouncer
{
	my ($node) = @_;
	my ($program) = map { "$_/pgbouncer" } grep { -x "$_/pgbouncer" } (split(/:/, $ENV{PATH}), '/usr/sbin', '/usr/local/sbin');
	my $dir = File::Temp::tempdir(CLEANUP => 1);
	my ($host, $port, $user) = ($node->host, $node->port, scalar getpwuid($<));
	my $log = "$PostgreSQL::Test::Utils::tmp_check/pgbouncer.log";

	return if !defined $program;
	append_to_file("$dir/users", qq{"$user" ""\n});
	append_to_file("$dir/ini", <<"INI");
[databases]
postgres = host=$host port=$port user=$user
[pgbouncer]
listen_addr =
listen_port = $port
unix_socket_dir = $dir
pool_mode = transaction
auth_type = trust
auth_file = $dir/users
default_pool_size = 3
max_client_conn = 50
INI
	my $process = IPC::Run::start([ $program, "$dir/ini" ], '<', \undef, '>', $log, '2>', $log);
	wait_until('pgbouncer listens', sub { return -S "$dir/.s.PGSQL.$port" });
	return ($process, $dir, $log);
}

# error_of(NODE, DB, SQL): SQLSTATE and message of the first error, "00000" if there is
# none; in list context also the hint and the detail.
sub error_of
{
	my ($node, $db, $sql) = @_;
	my ($stdout, $stderr);

	$node->psql(
		$db, $sql,
		stdout => \$stdout,
		stderr => \$stderr,
		extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	my ($error) = $stderr =~ /(?:ERROR|FATAL|PANIC):\s+(\w{5}: .*)/;
	my ($hint) = $stderr =~ /HINT:\s+(.*)/;
	$error //= $stderr =~ /server closed the connection/ ? '08006: connection lost' : '00000';
	my ($detail) = $stderr =~ /DETAIL:\s+(.*)/;
	return wantarray ? ($error, $hint // '', $detail // '') : $error;
}

# error_is(NODE, DB, SQL, SQLSTATE, TEST, message => qr//, hint => qr//, detail => qr//)
sub error_is
{
	my ($node, $db, $sql, $state, $test, %like) = @_;
	my ($error, $hint, $detail) = error_of($node, $db, $sql);
	my $fits =
		 substr($error, 0, 5) eq $state
	  && $error =~ ($like{message} // qr//)
	  && $hint =~ ($like{hint} // qr//)
	  && $detail =~ ($like{detail} // qr//);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($fits, $test) or diag("wanted $state, got: $error\nhint: $hint\ndetail: $detail");
	return;
}

# errors_are(NODE, DB, SQLSTATE, [STATEMENT...], PREFIX, message => qr//, hint => qr//):
# each statement, of one line, fails so.  All run in one session.
sub errors_are
{
	my ($node, $db, $state, $statements, $prefix, %like) = @_;
	my ($stderr, %errors, $line);

	$node->psql(
		$db, join('', map { "$_;\n" } @$statements),
		stderr => \$stderr,
		on_error_stop => 0,
		extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	foreach (split /\n/, $stderr)
	{
		$line = $1 if /^psql:<stdin>:(\d+): /;
		$errors{$line} .= "$_\n" if defined $line;
	}

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $i (1 .. @$statements)
	{
		my $error = $errors{$i} // 'no error';
		my ($message) = $error =~ /ERROR:\s+$state: (.*)/;
		my ($hint) = $error =~ /HINT:\s+(.*)/;

		ok(defined $message && $message =~ ($like{message} // qr//) && ($hint // '') =~ ($like{hint} // qr//),
			"$prefix$statements->[$i - 1]")
		  or diag("wanted $state, got: $error");
	}
	return;
}

# records(NODE, DB, STREAM, COLUMNS): all that can be read, a line a record, in order.
sub records
{
	my ($node, $db, $stream, $columns) = @_;
	my $function = $stream =~ /bytes/ ? 'read_bytes' : 'read';

	$columns //= 'r.partition, r.record_offset, r.published_at, r.key, r.value, r.headers';
	return $node->safe_psql(
		$db, qq{
		SELECT $columns
		FROM stream_internal.streams s, generate_series(0, s.partitions - 1) p,
			LATERAL stream.$function(s.stream, p, NULL, NULL, NULL) r
		WHERE s.stream = '$stream'
		ORDER BY r.partition, r.record_offset});
}

# log_is_sound(NODE, DB, STREAM, TEST)
sub log_is_sound
{
	my ($node, $db, $stream, $test) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($node->safe_psql($db, "SELECT * FROM stream.verify_log('$stream')"), '', $test);
	return;
}

# partition_row(NODE, DB, STREAM, PARTITION): log start, high watermark, log end, records
# and offsets held back, as the view has them.
sub partition_row
{
	my ($node, $db, $stream, $partition) = @_;

	return $node->safe_psql(
		$db, qq{
		SELECT log_start_offset, high_watermark, log_end_offset, records, records_held_back
		FROM stream.partition_status WHERE stream = '$stream' AND partition = $partition});
}

# wait_until(TEST, SUB): polls SUB until it is true.
sub wait_until
{
	my ($test, $condition) = @_;

	for (1 .. 20 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return 1 if $condition->();
		usleep(50_000);
	}
	BAIL_OUT("timed out waiting until $test");
	return;
}

# process_state(PID): the letter of /proc, or nothing when there is no such process.
sub process_state
{
	my ($pid) = @_;

	open my $file, '<', "/proc/$pid/stat" or return;
	my $line = <$file>;
	return defined $line && $line =~ /\) (\S) (\d+)/ ? $1 : undef;
}

# A zombie has gone: nobody may be there to reap it.
sub wait_until_gone
{
	my (@pids) = @_;

	wait_until(
		"processes @pids end",
		sub {
			return !grep { (process_state($_) // 'Z') ne 'Z' } @pids;
		});
	return;
}

# end_session(SESSION): quits a background psql whose server may have gone.
sub end_session
{
	my ($session) = @_;

	eval { $session->quit; 1 } or eval { $session->{run}->finish };
	return;
}

# server_pid(NODE, BACKEND_TYPE): of an auxiliary process.
sub server_pid
{
	my ($node, $type) = @_;

	return $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = '$type'");
}

# freeze_process(PID): stops it, and returns when it has stopped.
sub freeze_process
{
	my ($pid) = @_;

	kill 'STOP', $pid;
	wait_until("process $pid stops", sub { return (process_state($pid) // 'T') eq 'T'; });
	return;
}

# crash(NODE): SIGKILL to the postmaster and all its processes at once.
sub crash
{
	my ($node) = @_;
	my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	my @children;

	# first the postmaster, or it would restart what it loses
	freeze_process($postmaster);
	foreach my $path (glob '/proc/[0-9]*/stat')
	{
		open my $file, '<', $path or next;
		my $line = <$file> // next;
		push @children, $1 if $line =~ /^(\d+) .*\) \S (\d+)/ && $2 == $postmaster;
	}
	kill 'KILL', @children;
	$node->kill9;
	wait_until_gone($postmaster, @children);
	# a postmaster that nobody has reaped yet would count as running
	unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock';
	return;
}

1;
