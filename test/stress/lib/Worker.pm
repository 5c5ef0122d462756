package Worker;

# What publishers, readers, rollers and the killer have in common: each is a process
# with a random number generator of its own, a session that it opens again whenever it
# is lost, a journal, and a pipe on which it tells the boss what it has done.

use strict;
use warnings;

use Client;
use IO::Handle;
use Time::HiRes qw(time sleep);

# The SQLSTATEs that kills, cancels and rivals bring; any other one is a failure.
my %expected = (
	'57014' => 'query_canceled',
	'57P01' => 'admin_shutdown',
	'57P02' => 'crash_shutdown',
	'57P03' => 'cannot_connect_now',
	'40001' => 'serialization_failure',
	'40P01' => 'deadlock_detected',
	'55P03' => 'lock_not_available');

sub is_expected { my ($code) = @_; return $expected{$code}; }

# new(CLASS, name => ..., seed => ..., dir => ..., report => HANDLE, deadline => TIME, ...)
sub new
{
	my ($class, %self) = @_;
	my $self = bless {%self}, $class;
	srand($self->{seed});
	open($self->{journal}, '>', "$self->{dir}/$self->{name}.journal")
	  or die "cannot write a journal: $!";
	$self->{counts} = {};
	$self->{reported} = 0;
	return $self;
}

sub chance { my ($self, $of) = @_; return rand() < $of; }

# between(A, B): a random whole number, A and B included.
sub between
{
	my ($self, $low, $high) = @_;
	return $low + int(rand($high - $low + 1));
}

# weighted([WEIGHT, THING], ...): one of the things.
sub weighted
{
	my ($self, @choices) = @_;
	my $sum = 0;
	$sum += $_->[0] foreach @choices;
	my $at = rand($sum);
	foreach (@choices)
	{
		return $_->[1] if $at < $_->[0];
		$at -= $_->[0];
	}
	return $choices[-1]->[1];
}

sub nap { my ($self, $seconds) = @_; sleep($seconds); $self->report; return; }

sub over { my ($self) = @_; return time() > $self->{deadline}; }

# note(WORDS...): a line of the journal.
sub note
{
	my ($self, @words) = @_;
	print { $self->{journal} } "@words\n";
	return;
}

# count(WHAT, N): adds to what the boss shows.
sub count
{
	my ($self, $what, $n) = @_;
	$self->{counts}{$what} += $n // 1;
	$self->report;
	return;
}

# report(): tells the boss, now and then.
sub report
{
	my ($self, $now) = @_;
	return if !$now && time() < $self->{reported} + 0.5;
	$self->{reported} = time();
	$self->tell("count $_ $self->{counts}{$_}") foreach keys %{ $self->{counts} };
	$self->{counts} = {};
	return;
}

sub failure
{
	my ($self, $text) = @_;
	$self->note('FAILURE', $text);
	$self->{journal}->flush;
	$self->tell("failure $self->{name}: $text");
	return;
}

# A line short enough to be written at once.
sub tell
{
	my ($self, $line) = @_;
	$line =~ s/\s*\n\s*/ /g;
	syswrite($self->{report}, substr($line, 0, 1000) . "\n");
	return;
}

# session(): the open session; waits for the server to come back.
sub session
{
	my ($self) = @_;
	my $patience = time() + $Client::timeout;
	while (!$self->{session})
	{
		$self->{session} = Client->open_session("stress $self->{name}");
		if ($self->{session})
		{
			$self->count('sessions');
			$self->on_connect;
			next;
		}
		if (time() > $patience)
		{
			$self->failure('the server does not let me in any more');
			die "no server\n";
		}
		$self->nap(0.03 + rand(0.1));
	}
	return $self->{session};
}

sub on_connect { return; }

# query(SQL, OPTION => VALUE...): runs it.  An error other than those expected, and that
# of option code, one or the keys of a hash, is a failure.  Option input has the rows of a
# COPY.
sub query
{
	my ($self, $sql, %options) = @_;
	my $result = $self->session->query($sql, $options{input});
	if (my $error = $result->{error})
	{
		my $code = $error->{code};
		my $too = $options{code} // '';
		$self->failure("$error->{severity} $code \"$error->{text}\" from: " . substr($sql, 0, 500))
		  if !$expected{$code} && !(ref $too ? $too->{$code} : $code eq $too);
		$self->count("errors $code");
	}
	if ($result->{lost})
	{
		$self->failure('no answer within ' . $Client::timeout . ' s to: ' . substr($sql, 0, 500))
		  if $result->{hung};
		$self->{session} = undef;
	}
	return $result;
}

sub done { my ($self) = @_; $self->report(1); close $self->{journal}; return; }

1;
