package Auditor;

# Compares projections with their recomputation while all is going on: what one snapshot
# shows of a target is what it shows of the log up to the applied offsets.  And waits for
# projections, which must have applied then what had been published.

use strict;
use warnings;

use parent 'Worker';

sub run
{
	my ($self) = @_;
	my @names = $self->names;
	while (!$self->over)
	{
		my $name = $names[ $self->between(0, $#names) ];
		if   ($self->chance(0.5)) { $self->audit($name) }
		else                      { $self->wait_for($name) }
		$self->nap($self->between(10, 500) / 1000);
	}
	$self->done;
	return;
}

sub names
{
	my ($self) = @_;
	my $result;
	do { $result = $self->query('SELECT projection FROM projected ORDER BY projection') } while ($result->{error} || $result->{lost});
	return map { $_->[0] } @{ $result->{rows} };
}

sub audit
{
	my ($self, $name) = @_;
	# its target can have another name just now
	my $result = $self->query("SELECT differences('$name')", code => '42P01');
	return if $result->{error} || $result->{lost};
	$self->count('audits');
	$self->failure("projection $name: $_->[0]") foreach @{ $result->{rows} };
	return;
}

# In one session, so no crash comes between, which could take back what was waited for; and
# with one number, so the projection was not created again.
sub wait_for
{
	my ($self, $name) = @_;
	my $id = "(SELECT projection_id FROM stream_internal.projections WHERE projection = '$name')";
	my $ends = $self->query("SELECT $id, s.\"partition\", log_end_offset FROM stream.partition_status s "
		  . "JOIN projected USING (stream) WHERE projection = '$name'");
	return if $ends->{error} || $ends->{lost} || !defined $ends->{rows}[0][0];
	my $done = $self->query("SELECT stream.wait_for('$name', timeout => '1 s')", code => '42704');
	return if $done->{error} || $done->{lost} || $done->{rows}[0][0] ne 't';
	my $applied = $self->query("SELECT $id, * FROM applied('$name')");
	return if $applied->{error} || $applied->{lost};
	my %applied = map { ("$_->[0] $_->[1]" => $_->[2]) } grep { defined $_->[0] } @{ $applied->{rows} };
	return if !exists $applied{"$ends->{rows}[0][0] 0"};
	$self->count('waits_for_projections');
	foreach (@{ $ends->{rows} })
	{
		my ($number, $partition, $end) = @$_;
		$self->failure("projection $name, partition $partition: waited for, it has applied up to "
			  . $applied{"$number $partition"} . ", not $end")
		  if $applied{"$number $partition"} < $end;
	}
	return;
}

1;
