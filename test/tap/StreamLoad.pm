# Sessions that publish until the server is killed, and the proof that the log holds
# what it must.
#
# Each session is a psql that writes every position it was given to a file, before it is
# known whether the transaction commits, and every commit that was acknowledged.  The
# value of a record says who published it: session s, and n, which counts the session's
# records.  Whether a record is meant to be rolled back is part of the plan.
package StreamLoad;

use strict;
use warnings;
use IPC::Run;
use PostgreSQL::Test::Utils;
use StreamTest;
use Test::More;

# new(NODE, STREAM, PARTITIONS, SESSIONS)
sub new
{
	my ($class, $node, $stream, $partitions, $sessions) = @_;

	return bless {
		node => $node,
		stream => $stream,
		partitions => $partitions,
		sessions => $sessions,
		round => 0,
		next_n => { map { $_ => 0 } 1 .. $sessions },
		next_t => { map { $_ => 0 } 1 .. $sessions },
		kept => {},    # "s n" -> its transaction, of records to commit
		members => {},    # "s t" -> number of records to commit
		acked => {},    # "s t" -> 1
		in_doubt => {},    # "s t" -> 1: its commit was asked for, at most
		returned => {},    # "partition:offset" -> "s n"
		highest => [ (-1) x $partitions ],
		complaints => [],
		running => []
	}, $class;
}

# publish_sql adds the statement for n records, and plans them.
sub publish_sql
{
	my ($self, $s, $t, $count, $kept) = @_;
	my $first = $self->{next_n}{$s};
	my $last = $first + $count - 1;
	my $key = "'k' || $s || '-' || i % 7";
	my $value = "jsonb_build_object('s', $s, 'n', i, 'x', md5(i::text))";

	$self->{next_n}{$s} = $last + 1;
	if ($kept)
	{
		$self->{kept}{"$s $_"} = $t for $first .. $last;
		$self->{members}{"$s $t"} += $count;
	}
	return "SELECT 'pub', i, stream.publish('$self->{stream}', $key, $value) FROM (VALUES ($first)) v(i);\n"
	  if $count == 1;
	return
		"SELECT 'pub', $first + b.o - 1, b.pos FROM stream.publish_batch('$self->{stream}', "
	  . "(SELECT array_agg($key ORDER BY i) FROM generate_series($first, $last) i), "
	  . "(SELECT array_agg($value ORDER BY i) FROM generate_series($first, $last) i)) "
	  . "WITH ORDINALITY b(pos, o);\n";
}

# The ways to publish, in turn.
sub transaction_sql
{
	my ($self, $s) = @_;
	my $t = $self->{next_t}{$s}++;
	my $kind = ($s + $t) % 8;
	my $publish = sub { return $self->publish_sql($s, $t, @_) };
	my $sql = "\\echo begin $t\n";

	if ($kind == 1)
	{
		$sql .= "BEGIN;\n" . $publish->(1, 1) . $publish->(1, 1) . $publish->(1, 1) . "COMMIT;\n";
	}
	elsif ($kind == 2)
	{
		$sql .= $publish->(20, 1);
	}
	elsif ($kind == 3)
	{
		$sql .= "BEGIN;\n" . $publish->(1, 0) . $publish->(5, 0) . "ROLLBACK;\n";
	}
	elsif ($kind == 4)
	{
		$sql .=
			"BEGIN;\n"
		  . $publish->(1, 1)
		  . "SAVEPOINT a;\n"
		  . $publish->(1, 0)
		  . $publish->(3, 0)
		  . "ROLLBACK TO a;\n"
		  . $publish->(1, 1)
		  . "COMMIT;\n";
	}
	elsif ($kind == 5)
	{
		$sql .= "BEGIN;\nSAVEPOINT a;\n" . $publish->(1, 1) . "RELEASE a;\n" . $publish->(20, 1) . "COMMIT;\n";
	}
	elsif ($kind == 6)
	{
		$sql .= $publish->(100, 1);
	}
	else
	{
		$sql .= $publish->(1, 1);
	}
	return $sql . "\\echo done $t\n";
}

# start(TRANSACTIONS, SETTINGS, EXTRA...): begins a round, each session with that many
# transactions; each EXTRA is the text of one more script that runs beside them.
sub start
{
	my ($self, $transactions, $settings, @extra) = @_;
	my $node = $self->{node};
	my $dir = $PostgreSQL::Test::Utils::tmp_check;
	my @scripts;

	$self->{round}++;
	$self->{files} = {};
	foreach my $s (1 .. $self->{sessions})
	{
		push @scripts,
		  [
			"session$s", ($settings // '') . "\n" . join('', map { $self->transaction_sql($s) } 1 .. $transactions)
		  ];
	}
	push @scripts, [ "extra$_", $extra[ $_ - 1 ] ] for 1 .. @extra;

	foreach my $script (@scripts)
	{
		my ($name, $sql) = @$script;
		my $path = "$dir/$self->{stream}_$self->{round}_$name";

		append_to_file("$path.sql", $sql);
		local $ENV{PGAPPNAME} = "load $name";
		push @{ $self->{running} },
		  IPC::Run::start(
			[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', "$path.sql" ],
			'>', "$path.out", '2>', "$path.err");
		$self->{files}{$1} = "$path.out" if $name =~ /^session(\d+)$/;
	}
	return;
}

# wait_for_commits(NUMBER): until each session has had that many acknowledged.
sub wait_for_commits
{
	my ($self, $number) = @_;

	wait_until(
		"all sessions have $number commits",
		sub {
			return !grep { (() = slurp_file($_) =~ /^done /mg) < $number } values %{ $self->{files} };
		});
	return;
}

# finish: waits for the sessions' end, returns how many failed, and takes in what they wrote.
sub finish
{
	my ($self) = @_;
	my $failed = 0;
	my @highest = @{ $self->{highest} };

	foreach my $run (splice @{ $self->{running} })
	{
		$failed++ unless $run->finish;
	}
	foreach my $s (sort keys %{ $self->{files} })
	{
		my $open;

		foreach my $line (split /\n/, slurp_file($self->{files}{$s}))
		{
			if ($line =~ /^begin (\d+)$/)
			{
				$open = $1;
			}
			elsif ($line =~ /^done (\d+)$/)
			{
				$self->{acked}{"$s $1"} = 1;
				$open = undef;
			}
			elsif ($line =~ /^pub\|(\d+)\|(\d+):(\d+)$/)
			{
				my $position = "$2:$3";

				push @{ $self->{complaints} }, "$position given to $self->{returned}{$position} and to $s $1"
				  if exists $self->{returned}{$position};
				push @{ $self->{complaints} },
				  "$position given after a restart, was past $self->{highest}[$2] before"
				  if $3 <= $self->{highest}[$2];
				$self->{returned}{$position} = "$s $1";
				$highest[$2] = $3 if $3 > $highest[$2];
			}
			else
			{
				push @{ $self->{complaints} }, "session $s: $line";
			}
		}
		$self->{in_doubt}{"$s $open"} = 1 if defined $open;
	}
	$self->{highest} = \@highest;
	return $failed;
}

# acked: number of transactions of the last round's sessions that were acknowledged.
sub acked
{
	my ($self) = @_;

	return scalar keys %{ $self->{acked} };
}

# complaints(LOST, DB): all that is wrong with the log, as text.  With LOST, acknowledged
# transactions may be missing, whole, if they are the last ones of their session.
sub complaints
{
	my ($self, $lost, $db) = @_;
	my @complaints = splice @{ $self->{complaints} };
	my %found;    # "s n" -> position
	my %present;    # "s t" -> number of records
	my %last_n;    # "partition s" -> n
	my %last_offset;    # partition -> offset
	my %last_t;    # s -> last transaction present

	my $records = records($self->{node}, $db // 'postgres',
		$self->{stream}, "r.partition, r.record_offset, r.key, r.value->>'s', r.value->>'n'");
	foreach my $line (split /\n/, $records)
	{
		my ($partition, $offset, $key, $s, $n) = split /\|/, $line;
		my $position = "$partition:$offset";
		my $t = $self->{kept}{"$s $n"};

		push @complaints, "$position: offset $offset after $last_offset{$partition}"
		  if $offset <= ($last_offset{$partition} // -1);
		push @complaints, "$position: record $n of session $s after record " . $last_n{"$partition $s"}
		  if $n <= ($last_n{"$partition $s"} // -1);
		push @complaints, "$position: record $s $n also at " . $found{"$s $n"} if exists $found{"$s $n"};
		push @complaints, "$position: key $key of $s $n" if $key ne "k$s-" . $n % 7;
		push @complaints, "$position: given to $self->{returned}{$position}, read as $s $n"
		  if ($self->{returned}{$position} // "$s $n") ne "$s $n";
		$last_offset{$partition} = $offset;
		$last_n{"$partition $s"} = $n;
		$found{"$s $n"} = $position;

		if (!defined $t)
		{
			push @complaints, "$position: $s $n was rolled back";
			next;
		}
		push @complaints, "$position: $s $n of a transaction that was never begun"
		  if !$self->{acked}{"$s $t"} && !$self->{in_doubt}{"$s $t"};
		$present{"$s $t"}++;
		$last_t{$s} = $t if $t > ($last_t{$s} // -1);
	}

	foreach my $id (sort keys %present)
	{
		push @complaints, "transaction $id: $present{$id} records of $self->{members}{$id}"
		  if $present{$id} != $self->{members}{$id};
	}
	$self->{lost} = 0;
	foreach my $id (sort keys %{ $self->{acked} })
	{
		my ($s, $t) = split / /, $id;

		next if $present{$id} || !$self->{members}{$id} || $self->{forgiven}{$id};
		if ($lost && $t > ($last_t{$s} // -1))
		{
			# what is lost stays lost
			$self->{forgiven}{$id} = 1;
			$self->{lost}++;
			next;
		}
		push @complaints, "transaction $id was acknowledged, and is missing";
	}
	return join "\n", splice @complaints, 0, 20;
}

1;
