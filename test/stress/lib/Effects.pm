package Effects;

# Compares what consumers have done with the log: in each partition of each group, from
# where it was told to begin, every record once, in order, to the log's end.

use strict;
use warnings;

use Check;

# new(CHECK): CHECK has the log and takes the findings.
sub new
{
	my ($class, $check) = @_;
	return bless { check => $check, findings => {}, effects => 0 }, $class;
}

sub finding
{
	my ($self, $check, $text) = @_;
	push @{ $self->{findings}{$check} }, $text;
	return;
}

# check(GROUP, STREAM, PARTITION, ROWS): the rows of a partition of a group, in order:
# id, kind, offset, record, doomed, call, seen, side.  False when there is a finding.
sub check
{
	my ($self, $group, $stream, $partition, @rows) = @_;
	my $log = $self->{check}{log}{"$stream $partition"} // [];
	my $where = "group $group, partition $partition";
	my $count = @{ $self->{findings}{once} // [] } + @{ $self->{findings}{seen} // [] };
	my ($next, $before);

	foreach (@rows)
	{
		my ($id, $kind, $offset, $record, $doomed, $call, $seen, $side) = @$_;
		if ($kind ne 'c')
		{
			$next = $kind eq 's' ? Check::place($log, $offset) : undef;
			$before = { id => $id, call => '' };
			next;
		}
		$self->{effects}++;
		if (!defined $next)
		{
			$self->finding('once', "$where: offset $offset was consumed when there was no group");
			next;
		}
		if ($next < @$log && $log->[$next][0] == $offset && $log->[$next][1] eq $record)
		{
			$next++;
		}
		else
		{
			my $expected = $next < @$log ? "$log->[$next][0] (record $log->[$next][1])" : 'the end';
			$self->finding('once', "$where: offset $offset (record $record) was consumed in row $id, expected was $expected");
			$next = Check::place($log, $offset + 1);
		}
		$self->finding('once', "$where: offset $offset (record $record) was rolled back") if ($doomed // '') eq '1';
		my $expected = $before->{call} eq $call ? $before->{seen} : $before->{id};
		$self->finding('seen', "$where: offset $offset in row $id was consumed beside a table that ends at row "
			  . ($seen // 'none') . ", not $expected")
		  if ($seen // -1) != $expected;
		$self->finding('seen', "$where: record $record at offset $offset came without its row in the table") if $side ne 't';
		$before = { id => $id, call => $call, seen => $seen };
	}
	$self->finding('once', "$where: " . (@$log - $next) . " records, from offset $log->[$next][0] on, were never consumed")
	  if defined $next && $next < @$log;
	return $count == @{ $self->{findings}{once} // [] } + @{ $self->{findings}{seen} // [] };
}

1;
