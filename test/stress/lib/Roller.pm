package Roller;

# Rolls segments at random moments, and so seals the ones before.

use strict;
use warnings;

use parent 'Worker';
use Publisher;

sub run
{
	my ($self) = @_;
	while (!$self->over)
	{
		my $stream = $Publisher::streams[ $self->chance(0.8) ? 0 : 1 ];
		my $result = $self->query("CALL stream.roll_segment('$stream->{name}')");
		$self->count('rolls') if $result->{tag} eq 'CALL';
		$self->nap($self->chance(0.3) ? 0.01 : $self->between(20, 500) / 1000);
	}
	$self->done;
	return;
}

1;
