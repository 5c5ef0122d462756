#!/usr/bin/env perl

# The stress run: lets publishers, readers, consumers, members, rollers and a killer loose on
# a server for a time, then checks record by record what the extension promises.  test/stress/run starts
# it, with the server; see there.
#
#	stress.pl SECONDS SEED DIRECTORY	file descriptors 3 and 4: see Killer.pm

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use Auditor;
use Changer;
use Check;
use Consumer;
use Effects;
use Hunter;
use IO::Handle;
use Killer;
use Member;
use POSIX qw(:sys_wait_h);
use Projections;
use Projector;
use Publisher;
use Reader;
use Roller;
use Straddler;
use Team;
use Time::HiRes qw(time);

my ($seconds, $seed, $dir) = @ARGV;
my $started = time();
my $deadline = $started + $seconds;
my (%workers, %total, @failures);
my $numbers = 0;
# how long the last ones may take, after the load and with each check
my $patience = 60 + 2 * $seconds;

STDOUT->autoflush(1);
$SIG{TERM} = $SIG{INT} = sub { stop_all(); exit 1 };
open(my $commands, '>&=', 3) or die "no descriptor 3: $!";
open(my $answers, '<&=', 4) or die "no descriptor 4: $!";
$commands->autoflush(1);

# start(CLASS, NAME, OPTION => VALUE...): a worker in a process of its own.
sub start
{
	my ($class, $name, %options) = @_;
	pipe(my $read, my $write) or die "pipe: $!";
	my $number = ++$numbers;
	my $pid = fork() // die "fork: $!";
	if (!$pid)
	{
		$SIG{TERM} = $SIG{INT} = 'DEFAULT';
		close $read;
		my $worker = $class->new(
			name => $name, number => $number, seed => $seed * 1000 + $number,
			dir => $dir, report => $write, deadline => $deadline,
			commands => $commands, answers => $answers, %options);
		my $fine = eval { $worker->run; 1 };
		$worker->failure("ended by: $@") if !$fine;
		POSIX::_exit($fine ? 0 : 1);
	}
	close $write;
	$workers{$name} = { pid => $pid, pipe => $read, rest => '', class => $class };
	return;
}

# tell_all(WORD): a file that workers look for.
sub tell_all
{
	my ($word) = @_;
	open(my $file, '>', "$dir/$word") or die "$word: $!";
	close $file;
	return;
}

sub stop_all
{
	kill 'KILL', map { $_->{pid} } values %workers;
	return;
}

# listen_until(TIME, CLASS): takes in what workers report until all of the class, a
# pattern, have ended; false when the time came first.
sub listen_until
{
	my ($until, $class) = @_;
	my $shown = time();
	while (grep { $_->{class} =~ /^($class)$/ } values %workers)
	{
		return if time() > $until;
		my $ready = '';
		vec($ready, fileno($_->{pipe}), 1) = 1 foreach values %workers;
		if (select($ready, undef, undef, 0.5) > 0)
		{
			foreach my $name (sort keys %workers)
			{
				hear($name) if vec($ready, fileno($workers{$name}{pipe}), 1);
			}
		}
		if (time() > $shown + 3)
		{
			$shown = time();
			show_progress();
		}
	}
	return 1;
}

sub hear
{
	my ($name) = @_;
	my $worker = $workers{$name};
	if (!sysread($worker->{pipe}, $worker->{rest}, 1 << 16, length $worker->{rest}))
	{
		waitpid($worker->{pid}, 0);
		push @failures, "$name ended with status $?" if $?;
		delete $workers{$name};
		return;
	}
	while ($worker->{rest} =~ s/^(.*)\n//)
	{
		my ($kind, $text) = split ' ', $1, 2;
		if ($kind eq 'count')
		{
			my ($what, $n) = $text =~ /^(.+) (\d+)$/;
			$total{$what} += $n;
			next;
		}
		push @failures, $text;
		print "# FAILURE: $text\n" if @failures <= 10;
	}
	return;
}

# n(WHAT): a total, readable.
sub n
{
	my ($what) = @_;
	my $n = $total{$what} // 0;
	1 while $n =~ s/^(\d+)(\d{3})/$1,$2/;
	return $n;
}

sub show_progress
{
	printf "# %3d s: %s transactions, %s records, %s times read, %s consumed; %s rolls; killed: %s sessions, %s statements, %s times the server\n",
	  time() - $started, map({ n($_) } qw(transactions records read consumed rolls terminate cancel)),
	  ($total{crash_backend} // 0) + ($total{crash_immediate} // 0) + ($total{crash_all} // 0);
	return;
}

# sql(QUERY): rows, or the end.
sub sql
{
	my ($query) = @_;
	our $session //= Client->open_session('stress boss') // die "cannot connect\n";
	my $result = $session->query($query);
	die "$result->{error}{text}, from: $query\n" if $result->{error};
	die "the session was lost in: $query\n" if $result->{lost};
	return @{ $result->{rows} };
}

# The log as it is now, and again in other ways of reading it.
sub read_all
{
	my ($name, $manner) = @_;
	start('Reader', $name, manner => $manner, final => 1);
	listen_until(time() + $patience, 'Reader') or die "$name did not come to an end\n";
	return;
}

my $test = 0;

# ok(NAME, FINDINGS...): one line of the result.
sub ok
{
	my ($name, @findings) = @_;
	printf "%s %d - %s\n", (@findings ? 'not ok' : 'ok'), ++$test, $name;
	print "#   $_\n" foreach @findings[ 0 .. ($#findings < 9 ? $#findings : 9) ];
	printf "#   and %d more\n", @findings - 10 if @findings > 10;
	$total{failed}++ if @findings;
	return;
}

# check_counters(): the records of each key that a row lock serialises.
sub check_counters
{
	my @findings;
	my %last;
	foreach (sql("SELECT value->>'c', value->>'n', record_offset FROM streams.stress WHERE value ? 'c'"))
	{
		my ($key, $n, $offset) = @$_;
		push @findings, "key $key: $n at offset $offset comes after " . ($last{$key} // 0)
		  if $n != ($last{$key} // 0) + 1;
		$last{$key} = $n;
	}
	foreach (sql('SELECT key, n FROM counter'))
	{
		push @findings, "key $_->[0]: the last record is " . ($last{ $_->[0] } // 0) . ", the table has $_->[1]"
		  if $_->[1] != ($last{ $_->[0] } // 0);
	}
	return @findings;
}

sub check_status
{
	my ($check) = @_;
	my @findings;
	foreach my $index (0 .. $#Publisher::streams)
	{
		my $stream = $Publisher::streams[$index];
		my @rows = sql('SELECT partition, records, high_watermark, log_end_offset, records_held_back '
			  . "FROM stream.partition_status WHERE stream = '$stream->{name}' ORDER BY partition");
		push @findings, "$stream->{name} has " . @rows . ' partitions' if @rows != $stream->{partitions};
		foreach (@rows)
		{
			my ($partition, $records, $watermark, $end, $held) = @$_;
			my $log = $check->{log}{"$index $partition"} // [];
			push @findings, "$stream->{name}, partition $partition: $records records in the view, " . @$log . ' read'
			  if $records != @$log;
			push @findings, "$stream->{name}, partition $partition: watermark $watermark, log end $end, $held held back"
			  if $watermark != $end || $held != 0;
		}
		my ($segments) = sql("SELECT sum(records) FROM stream.segment_status WHERE stream = '$stream->{name}'");
		my ($partitions) = sql("SELECT sum(records) FROM stream.partition_status WHERE stream = '$stream->{name}'");
		push @findings, "$stream->{name}: segments have $segments->[0] records, partitions $partitions->[0]"
		  if $segments->[0] != $partitions->[0];
	}
	return @findings;
}

# keep(NAME, ROWS): rows that tell how a finding came about.
sub keep
{
	my ($name, @rows) = @_;
	open(my $file, '>', "$dir/$name") or die "$name: $!";
	print $file join("\t", map { $_ // '' } @$_), "\n" foreach @rows;
	close $file;
	return;
}

# check_effects(CHECK): what consumers have done.
sub check_effects
{
	my ($check) = @_;
	my $effects = Effects->new($check);
	foreach my $group (@Consumer::groups, { name => 'exact', stream => 0 })
	{
		foreach my $partition (0 .. $Publisher::streams[ $group->{stream} ]{partitions} - 1)
		{
			my @rows = sql('SELECT id, kind, record_offset, record, doomed, call, seen, side FROM effect '
				  . "WHERE consumer_group = '$group->{name}' AND \"partition\" = $partition ORDER BY id");
			$effects->check($group->{name}, $group->{stream}, $partition, @rows) or keep("effects of $group->{name}, $partition", @rows);
		}
	}
	return $effects;
}

# check_team(CHECK): what members have done.
sub check_team
{
	my ($check) = @_;
	my $team = Team->new($check);
	$team->check_owners(glob("$dir/{member,changer}*.journal"));
	foreach my $partition (0 .. $Publisher::streams[0]{partitions} - 1)
	{
		$team->check_work(0, $partition,
			sql('SELECT id, kind, record_offset, record, member, given FROM work '
				  . "WHERE \"partition\" = $partition ORDER BY id"));
	}
	return $team;
}

# check_relay(): what was published for what was consumed, once for each.
sub check_relay
{
	my $consumed = q{SELECT "partition" || ':' || record_offset FROM effect WHERE consumer_group = 'relay' AND kind = 'c'};
	my $published = q{SELECT value->>'of' FROM streams.derived};
	return (map({ "nothing or not enough was published for $_->[0]" } sql("$consumed EXCEPT ALL $published")),
		map({ "too much was published for $_->[0]" } sql("$published EXCEPT ALL $consumed")));
}

sub check_lag
{
	return map { "$_->[0], partition $_->[1]: lag $_->[2], at $_->[3] of $_->[4] since $_->[5], " . ($_->[6] ? "held by $_->[6]" : 'held by nobody') }
	  sql('SELECT consumer_group, "partition", lag, committed_offset, high_watermark, committed_at, pid FROM stream.consumer_lag '
		  . 'WHERE lag <> 0 OR pid IS NOT NULL');
}

sub check_rest
{
	my @findings;
	push @findings, "open publisher: @$_"
	  foreach sql('SELECT pid, application_name, stream, partition FROM stream.open_publishers');
	push @findings, "memory_status: $_->[1] of $_->[0] in use"
	  foreach sql("SELECT area, used FROM stream.memory_status WHERE area IN ('publishers', 'waiters') AND used <> 0");
	return @findings;
}

print "# seed $seed, $seconds s\n";

# What each worker does follows from the seed; how they meet does not.
start('Publisher', "publisher$_", singles => 0.05) foreach 1 .. 5;
start('Publisher', "publisher$_", singles => 0.9) foreach 6 .. 8;
start('Straddler', 'publisher9');
start('Reader', 'reader1', manner => 'tail');
start('Reader', 'reader2', manner => 'tail', restarts => 1);
start('Reader', 'reader3', manner => 'repeatable');
start('Reader', 'reader4', manner => 'watermark');
start('Reader', 'reader5', manner => 'laggard');
start('Reader', 'reader6', manner => 'cursor');
start('Reader', 'reader7', manner => 'tight');
start('Consumer', "consumer$_") foreach 1 .. 5;
start('Member', "member$_", group => 'team') foreach 1 .. 4;
start('Member', "member$_", group => 'exact') foreach 5 .. 7;
start('Changer', 'changer');
start('Roller', "roller$_") foreach 1 .. 2;
start('Projector', "projector$_") foreach 1 .. 2;
start('Auditor', 'auditor');
start('Killer', 'killer');
start('Hunter', 'hunter');

listen_until($deadline + $patience, '(?!Reader|Consumer|Member).*');
tell_all('drain');
listen_until(time() + $patience, 'Consumer');
tell_all('settle');
listen_until(time() + $patience, 'Member');
tell_all('finish');
listen_until(time() + $patience, '.*');
show_progress();
my @late = sort keys %workers;
stop_all();

print "# the load is over; reading all of it again\n";
my $check = Check->new($dir);
my (@aftermath, @seals, @damage, @relay, @projections, $effects, $team);
my $fine = eval {
	# nobody publishes any more: all but the active segment can be sealed
	foreach my $stream (@Publisher::streams)
	{
		sql("CALL stream.roll_segment('$stream->{name}')");
		push @seals, "$_->[0], segment $_->[1] is $_->[2]"
		  foreach sql('SELECT stream, segment_no, state FROM stream.segment_status s '
			  . "WHERE stream = '$stream->{name}' AND state <> 'sealed' "
			  . 'AND segment_no < (SELECT max(segment_no) FROM stream.segment_status WHERE stream = s.stream)');
		push @damage, "$stream->{name}: segment $_->[0], partition $_->[1], offset $_->[2]: $_->[3]"
		  foreach sql("SELECT * FROM stream.verify_log('$stream->{name}')");
	}
	read_all('final', 'laggard');
	$check->load_log("$dir/final.journal");
	$check->load_side(map { $_->[0] } sql('SELECT transaction FROM side'));
	$check->load_publisher($_) foreach glob("$dir/{publisher,consumer}*.journal");
	$check->compare;
	$effects = check_effects($check);
	@relay = check_relay();
	$team = check_team($check);
	$check->check_reader('live', $_) foreach glob("$dir/reader*.journal");
	push @projections, Projections::check(\&sql, $patience);

	@aftermath = (check_status($check), check_lag());
	read_all('scan', 'cursor');
	$check->check_reader('again', "$dir/scan.journal");
	1;
};
push @failures, "checking failed: $@" if !$fine;
$fine = eval {
	our $session;
	$session->close_session;
	$session = undef;
	syswrite($commands, "fast\n");
	die "the server did not come back\n" if (readline($answers) // '') ne "done\n";
	read_all('restarted', 'tail');
	$check->check_reader('restart', "$dir/restarted.journal");
	push @projections, map { "after a restart: $_" } Projections::check(\&sql, $patience);
	push @projections, Projections::drop(\&sql, $patience);
	push @aftermath, map { "after a restart: $_" } check_lag(), check_rest();
	1;
};
push @failures, "reading after a restart failed: $@" if !$fine;

my $records = 0;
$records += @$_ foreach values %{ $check->{log} };
my %found = %{ $check->{findings} };
my @counters = eval { check_counters() };
push @counters, $@ if $@;
push @{ $found{missing} }, 'no record was published' if !$records;
my %done = $effects ? %{ $effects->{findings} } : ();
my %worked = $team ? %{ $team->{findings} } : ();
push @{ $worked{done} }, 'members have done nothing' if !$team || !$team->{done};
push @{ $done{once} }, 'nothing was consumed' if !$effects || !$effects->{effects};

ok('each acknowledged record is in the log, where the server said', @{ $found{missing} // [] });
ok('no record of a transaction or savepoint rolled back is in the log', @{ $found{phantom} // [] });
ok('no record is in the log twice', @{ $found{once} // [] });
ok('offsets grow in the order of the calls', @{ $found{order} // [] });
ok('no offset was issued twice', @{ $found{issued} // [] });
ok('each live reader has seen the log, in order, nothing left out and nothing else', @{ $found{live} // [] });
ok('a scan of the foreign tables sees the same', @{ $found{again} // [] });
ok('so does a reader after a restart', @{ $found{restart} // [] });
ok('each group has the effects of its records, each once and in order', @{ $done{once} // [] });
ok('what a statement consumes fits the tables that it sees', @{ $done{seen} // [] });
ok('what was consumed to be published again was, once', @relay);
ok('members have done all that they committed, and in the end each record', @{ $worked{done} // [] });
ok('no partition had two owners at a time, nor an owner and a consumer', @{ $worked{owners} // [] });
ok('each projection is what its records come to, computed again', @projections);
ok('keys serialised by a row lock have their records in that order', @counters);
ok('nothing unexpected happened to any client', @failures);
ok('verify_log finds nothing', @damage);
ok('all segments but the active one are sealed', @seals);
ok('the views agree with the log, no group lags, and nothing is left in shared memory', @aftermath);
ok('everybody came to an end in time', map { "$_ did not" } @late);

printf "# %s records in the log; %s transactions: %s committed, %s rolled back, %s without an answer\n",
  $records, map({ n($_) } qw(transactions committed rolled_back unknown));
printf "# %s savepoints, %s rolled back; %s records read by live readers in %s calls; %s segment rolls\n",
  map { n($_) } qw(savepoints savepoints_rolled_back read calls_of_read rolls);
printf "# %s records consumed in %s calls, %s of them committed; %s changes of groups\n",
  map({ n($_) } qw(consumed calls_of_consume)), $effects ? $effects->{effects} : 0, n('changes_of_groups');
printf "# members: %s joins, %s leaves, %s deaths, %s hangs, %s fenced, %s revocations, %s periods of ownership\n",
  map({ n($_) } qw(joins leaves deaths hangs members_fenced revocations)), $team ? $team->{periods} : 0;
printf "# %s records polled in %s calls, %s more worked on exactly once, %s calls repeated, %s commits\n",
  map { n($_) } qw(polled calls_of_poll worked_exactly calls_repeated commits);
printf "# projections: %s compared and %s waited for under load; %s changes, %s recreations, %s changes of targets, %s locks, %s retries of dead letters; workers: %s terminated, %s cancelled, %s killed\n",
  map { n($_) } qw(audits waits_for_projections changes_of_projections recreations changes_of_targets locks retries terminate_worker cancel_worker crash_worker);
printf "# killed: %s sessions, %s statements, %s processes, %s times the whole server, %s immediate stops; %s sessions in all\n",
  map { n($_) } qw(terminate cancel crash_backend crash_all crash_immediate sessions);
printf "# errors seen: %s\n", join(', ', map { s/^errors //r . ' ' . $total{$_} } sort grep { /^errors / } keys %total) || 'none';
print "1..$test\n";
exit($total{failed} ? 1 : 0);
