package Straddler;

# A publisher whose transactions stay open across a roll: its record is the last one of a
# segment, and while it is not committed yet another session has committed the first one
# of the next.  A reader that goes from one segment to the other must not pass it over.
# Nobody else publishes to its stream: a record in between would stop such a reader.

use strict;
use warnings;

use parent 'Publisher';

sub run
{
	my ($self) = @_;
	$self->{transaction} = 0;
	while (!$self->over)
	{
		$self->straddle;
		$self->nap($self->between(0, 150) / 1000);
	}
	$self->done;
	return;
}

sub straddle
{
	my ($self) = @_;
	my $stream = $Publisher::streams[2];
	my $partition = 0;
	my $doomed = $self->chance(0.1) ? 1 : 0;
	my $id = $self->new_transaction;

	# What takes a while to read, so that the commit below is likely to come meanwhile.
	my $large = $self->query("INSERT INTO side VALUES ('$id'); "
		  . "SELECT 0, stream.publish('$stream->{name}', 's', jsonb_build_object('i', '$id.0', 'pad', repeat('x', 2000000)), NULL, $partition)");
	$self->positions($stream, $large->{rows}) if !$large->{error} && !$large->{lost};
	$self->note('S', $id, 0);
	$self->outcome(Publisher::fate($large), 0);

	$id = $self->new_transaction;
	$self->step("BEGIN; INSERT INTO side VALUES ('$id')") or return;
	my $result = $self->step("SELECT 0, stream.publish('$stream->{name}', 's', payload('$id', 0, $doomed, 20), NULL, $partition)")
	  or return;
	$self->positions($stream, $result->{rows});

	# in another session
	($self->{session}, $self->{other}) = ($self->{other}, $self->{session});
	$result = $self->query("CALL stream.roll_segment('$stream->{name}')");
	$self->count('rolls') if $result->{tag} eq 'CALL';
	$self->new_transaction;
	$self->single_statement($stream, $partition, 0);
	($self->{session}, $self->{other}) = ($self->{other}, $self->{session});

	$self->nap($self->between(0, 1500) / 100000);
	$self->{id} = $id;
	return $self->outcome('A', 0) if !$self->{session};
	$result = $self->query($doomed ? 'ROLLBACK' : 'COMMIT');
	return $self->outcome($doomed ? 'A' : Publisher::fate($result), 0);
}

1;
