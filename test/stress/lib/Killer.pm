package Killer;

# Ends sessions, cancels statements, kills processes, and kills the server.
#
# The crashes are spread evenly over the run, with each kind in turn:
#	backend		SIGKILL to one process: the server ends all sessions and recovers
#	immediate	an immediate stop and a start
#	all			SIGKILL to the server and all its processes, and a start

use strict;
use warnings;

use parent 'Worker';
use Time::HiRes qw(time);

sub run
{
	my ($self) = @_;
	my $length = $self->{deadline} - time();
	my $crashes = int($length / 5) > 3 ? int($length / 5) : 3;
	my @kinds = qw(backend all immediate);
	my @crashes;

	foreach my $i (0 .. $crashes - 1)
	{
		push @crashes, { kind => $kinds[ $i % 3 ],
			time => time() + $length * ($i + 0.3 + rand(0.6)) / $crashes };
	}
	while (!$self->over)
	{
		if (@crashes && time() > $crashes[0]{time})
		{
			$self->crash((shift @crashes)->{kind});
		}
		else
		{
			$self->annoy;
		}
		$self->nap($self->between(20, 400) / 1000);
	}
	$self->done;
	return;
}

# victims(PATTERN): the pids of sessions whose application is called so.
sub victims
{
	my ($self, $pattern) = @_;
	my $result = $self->query('SELECT pid FROM pg_stat_activity '
		  . "WHERE application_name ~ '^stress ($pattern)' AND pid <> pg_backend_pid() ORDER BY pid");
	return map { $_->[0] } @{ $result->{rows} };
}

sub victim
{
	my ($self) = @_;
	my @pids = $self->victims($self->weighted([ 6, 'publisher' ], [ 2, 'reader' ], [ 1, 'roller' ]));
	return @pids ? $pids[ $self->between(0, $#pids) ] : undef;
}

sub annoy
{
	my ($self) = @_;
	my $pid = $self->victim // return;
	my $how = $self->weighted([ 3, 'terminate' ], [ 2, 'cancel' ]);
	my $result = $self->query("SELECT pg_${how}_backend($pid)");
	$self->count($how) if @{ $result->{rows} } && $result->{rows}[0][0] eq 't';
	return;
}

# SIGKILL to the server and all its processes, as if the power had gone.
sub kill_server
{
	my ($self) = @_;
	my $postmaster = parent_of($self->session->{pid}) // return;
	# stopped first, or it would start recovery when it sees its children die
	kill 'STOP', $postmaster;
	my @children = grep { (parent_of($_) // 0) == $postmaster } map { m{(\d+)} } glob('/proc/[0-9]*');
	kill 'KILL', $postmaster, @children;
	foreach (1 .. 500)
	{
		last if !grep { kill 0, $_ } $postmaster, @children;
		select(undef, undef, undef, 0.01);
	}
	$self->note('killed', $postmaster, @children);
	return;
}

sub parent_of
{
	my ($pid) = @_;
	open(my $in, '<', "/proc/$pid/stat") or return;
	# the name, in parentheses, may hold anything
	my ($parent) = (readline($in) // '') =~ /.*\) \S (\d+) /;
	return $parent;
}

sub crash
{
	my ($self, $kind) = @_;
	if ($kind eq 'backend')
	{
		my $pid = $self->victim // return;
		return if !kill 'KILL', $pid;
		$self->note('killed', $pid);
	}
	else
	{
		$self->kill_server if $kind eq 'all';
		# whoever started us can start the server, and stop it
		syswrite($self->{commands}, "$kind\n");
		my $answer = readline($self->{answers}) // '';
		$self->note('server', $kind, $answer);
		$self->failure("the server did not come back after: $kind") if $answer ne "done\n";
	}
	$self->count("crash_$kind");
	return;
}

1;
