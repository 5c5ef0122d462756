package Killer;

# Ends sessions, cancels statements, kills processes, and kills the server.
#
# The crashes are spread evenly over the run, with each kind in turn:
#	backend		SIGKILL to one process: the server ends all sessions and recovers
#	immediate	an immediate stop and a start
#	all			SIGKILL to the server and all its processes, and a start; half the time while
#				it recovers from the death of a process

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
	my @pids = $self->victims($self->weighted([ 6, 'publisher' ], [ 4, 'consumer' ], [ 3, 'member' ], [ 2, 'reader' ], [ 1, 'roller' ], [ 0.5, 'changer' ]));
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
	my $data = $ENV{STRESS_DATA_DIR};
	# From its file, not from a session of ours: the server may be recovering from the
	# death of a process just now, and have no sessions.
	open(my $file, '<', "$data/postmaster.pid") or return $self->failure("no server to kill: $!");
	my ($postmaster) = (readline($file) // '') =~ /^(\d+)$/;
	return $self->failure('no pid of the server to kill') if !$postmaster;
	# Stopped first, or it would start recovery when it sees its children die; and seen to
	# be stopped, or it could have one more.
	kill 'STOP', $postmaster;
	foreach (1 .. 1000)
	{
		last if ((stat_of($postmaster))[0] // 'T') eq 'T';
		select(undef, undef, undef, 0.001);
	}
	my @pids = ($postmaster,
		grep { ((stat_of($_))[1] // 0) == $postmaster } map { m{(\d+)} } glob('/proc/[0-9]*'));
	kill 'KILL', @pids;
	$self->note('killed', @pids);
	foreach (1 .. 3000)
	{
		# A zombie is as good as gone, but a new server takes it for a living one as long as
		# there are these files.
		if (!grep { ((stat_of($_))[0] // 'Z') ne 'Z' } @pids)
		{
			unlink "$data/postmaster.pid", "$ENV{PGHOST}/.s.PGSQL.$ENV{PGPORT}.lock";
			return;
		}
		select(undef, undef, undef, 0.01);
	}
	$self->failure('processes of the server survived SIGKILL');
	return;
}

# stat_of(PID): the state of a process and the pid of its parent; nothing when it is gone.
sub stat_of
{
	my ($pid) = @_;
	open(my $in, '<', "/proc/$pid/stat") or return;
	# the name, in parentheses, may hold anything
	return (readline($in) // '') =~ /.*\) (\S) (\d+) /;
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
		if ($kind eq 'all')
		{
			my $pid = $self->chance(0.5) ? $self->victim : undef;
			$self->note('killed', $pid) if $pid && kill 'KILL', $pid;
			$self->nap(rand(0.2)) if $pid;
			$self->kill_server;
		}
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
