package Hunter;

# Ends the background workers: the launcher, managers, appliers, which nobody else can reach.

use strict;
use warnings;

use parent 'Worker';
use Time::HiRes qw(time);

sub run
{
	my ($self) = @_;
	my $length = $self->{deadline} - time();
	my $crashes = int($length / 15) > 1 ? int($length / 15) : 1;
	my @crashes = map { time() + $length * ($_ + 0.2 + rand(0.6)) / $crashes } 0 .. $crashes - 1;
	while (!$self->over)
	{
		my $pid = $self->victim;
		if (defined $pid && @crashes && time() > $crashes[0])
		{
			shift @crashes;
			$self->note('killed', $pid);
			# the server ends all sessions and recovers
			$self->count('crash_worker') if kill 'KILL', $pid;
		}
		elsif (defined $pid)
		{
			my $how = $self->weighted([ 3, 'terminate' ], [ 2, 'cancel' ]);
			my $result = $self->query("SELECT pg_${how}_backend($pid)");
			$self->count("${how}_worker") if @{ $result->{rows} } && $result->{rows}[0][0] eq 't';
		}
		$self->nap($self->between(20, 500) / 1000);
	}
	$self->done;
	return;
}

sub victim
{
	my ($self) = @_;
	my $type = $self->weighted([ 8, 'applier' ], [ 1, 'manager' ], [ 0.5, 'launcher' ]);
	my $result = $self->query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'stream $type' ORDER BY random() LIMIT 1");
	return @{ $result->{rows} } ? $result->{rows}[0][0] : undef;
}

1;
