package Team;

# Checks what the members of a group have done: no partition had two owners at a time, no
# commit came after one of a later owner, what was committed had been done, and in the end
# every record.

use strict;
use warnings;

use Check;

# new(CHECK): CHECK has the log.
sub new
{
	my ($class, $check) = @_;
	return bless { check => $check, findings => {}, done => 0 }, $class;
}

sub finding
{
	my ($self, $check, $text) = @_;
	push @{ $self->{findings}{$check} }, $text;
	return;
}

# check_owners(FILES): the journals of the members, and of who consumes beside them.
sub check_owners
{
	my ($self, @files) = @_;
	my (%times, %given, @mixed);
	foreach my $file (@files)
	{
		open(my $in, '<', $file) or die "$file: $!";
		while (<$in>)
		{
			my ($kind, $p, $epoch, $start, $end, $id) = split;
			if    ($kind eq 'I') { push @{ $times{$p} }, [ $start, $end, $id, $epoch ] }
			elsif ($kind eq 'M') { push @mixed, [ $p, $epoch ] }
		}
	}
	foreach my $p (sort keys %times)
	{
		my $before;
		foreach (sort { $a->[0] <=> $b->[0] } @{ $times{$p} })
		{
			my ($start, $end, $id, $epoch) = @$_;
			$self->finding('owners', "partition $p: $id began at epoch $epoch, "
				  . sprintf('%.3f s before %s at epoch %s had let go', $before->[1] - $start, $before->[2], $before->[3]))
			  if $before && $start < $before->[1];
			$self->finding('owners', "partition $p: $id and $given{$p}{$epoch} were given it at epoch $epoch")
			  if $given{$p}{$epoch} && $given{$p}{$epoch} ne $id;
			$self->finding('owners', "partition $p: epoch $epoch of $id came after $before->[3] of $before->[2]")
			  if $before && $epoch < $before->[3];
			$given{$p}{$epoch} = $id;
			$before = $_ if !$before || $end > $before->[1];
		}
	}
	foreach (@mixed)
	{
		my ($start, $end) = @$_;
		foreach my $p (grep { /^team:/ } keys %times)
		{
			$self->finding('owners', "partition $p: $_->[2] had it while others consumed")
			  foreach grep { $_->[0] < $start && $end < $_->[1] } @{ $times{$p} };
		}
	}
	$self->{periods} = 0;
	$self->{periods} += @$_ foreach values %times;
	return;
}

# check_work(STREAM, PARTITION, ROWS): the rows of a partition, in order:
# id, kind, offset, record, member, given.
sub check_work
{
	my ($self, $stream, $p, @rows) = @_;
	my $log = $self->{check}{log}{"$stream $p"} // [];
	my (@done, @commits);

	foreach (@rows)
	{
		my ($id, $kind, $offset, $record, $member, $given) = @$_;
		if ($kind ne 'd')
		{
			push @commits, $_;
			next;
		}
		$self->{done}++;
		my $index = Check::place($log, $offset);
		if ($index >= @$log || $log->[$index][0] != $offset || $log->[$index][1] ne $record)
		{
			$self->finding('done', "partition $p: offset $offset (record $record), done by $member, is not in the log");
			next;
		}
		$done[$index] //= $id;
	}

	# when all before was done
	my @all;
	foreach my $index (0 .. $#$log)
	{
		if (!defined $done[$index])
		{
			$self->finding('done', "partition $p: nobody has done offset $log->[$index][0] (record $log->[$index][1])");
			$done[$index] = 0;
		}
		$all[$index] = $index && $all[ $index - 1 ] > $done[$index] ? $all[ $index - 1 ] : $done[$index];
	}
	foreach (@commits)
	{
		my ($id, $kind, $offset, undef, $member, $given) = @$_;
		my $last = Check::place($log, $offset + 1) - 1;
		$self->finding('done', "partition $p: $member committed up to offset $offset in row $id; not all was done then")
		  if $last >= 0 && $all[$last] > $id;
	}
	my $before;
	foreach (sort { $a->[5] <=> $b->[5] || $a->[2] <=> $b->[2] } grep { $_->[1] eq 'c' } @commits)
	{
		$self->finding('owners', "partition $p: $before->[4], given it at epoch $before->[5], committed offset $before->[2], "
			  . "and $_->[4], given it at epoch $_->[5], only $_->[2]")
		  if $before && $before->[5] < $_->[5] && $before->[2] > $_->[2];
		$before = $_ if !$before || $_->[2] >= $before->[2];
	}
	return;
}

1;
