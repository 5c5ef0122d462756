package Client;

# A session over the server's unix socket, in the simple query protocol.
#
# The stress run needs what psql hides: whether the answer to a COMMIT has arrived,
# whether an error ended the statement or the session, and the backend's pid; and it
# makes thousands of calls a second.  Perl's core has what that takes.

use strict;
use warnings;

use IO::Socket::UNIX;
use Socket qw(SOCK_STREAM);

# An answer that takes longer counts as a hang.
our $timeout = 60;

# open_session(APPLICATION_NAME): connects to PGHOST, PGPORT, PGUSER, PGDATABASE.
# Returns nothing when the server does not let us in, as while it starts.
sub open_session
{
	my ($class, $application) = @_;
	my $socket = IO::Socket::UNIX->new(
		Type => SOCK_STREAM,
		Peer => "$ENV{PGHOST}/.s.PGSQL.$ENV{PGPORT}") or return;
	my $self = bless { socket => $socket, buffer => '', pid => 0 }, $class;
	my $body = pack('N', 196608) . join('', map { "$_\0" }
		'user', $ENV{PGUSER}, 'database', $ENV{PGDATABASE},
		'application_name', $application, 'client_encoding', 'UTF8', '');
	$self->send_all(pack('N', length($body) + 4) . $body) or return;

	while (my ($type, $message) = $self->receive)
	{
		return $self if $type eq 'Z';
		return if $type eq 'E';
		$self->{pid} = unpack('N', $message) if $type eq 'K';
	}
	return;
}

# query(SQL, ROWS): runs one or several statements, ROWS being the input of a COPY, and
# returns a hash of
#	rows	references to the values of each row, of all statements
#	tag		the last command tag, such as COMMIT; '' if none came
#	state	I idle, T in a transaction, E in a failed one
#	error	nothing, or a hash of severity, code, text
#	lost	true when the session is gone
sub query
{
	my ($self, $sql, $input) = @_;
	my %result = (rows => [], tag => '', state => '');

	if ($self->send_all('Q' . pack('N', length($sql) + 5) . "$sql\0"))
	{
		while (my ($type, $message) = $self->receive)
		{
			if ($type eq 'D')
			{
				push @{ $result{rows} }, row($message);
			}
			elsif ($type eq 'G')
			{
				$self->send_all('d' . pack('N', length($input) + 4) . $input . 'c' . pack('N', 4)) or last;
			}
			elsif ($type eq 'C')
			{
				$result{tag} = substr($message, 0, -1);
			}
			elsif ($type eq 'E')
			{
				$result{error} = error($message);
			}
			elsif ($type eq 'Z')
			{
				$result{state} = $message;
				return \%result;
			}
		}
	}
	$result{lost} = 1;
	$result{hung} = $self->{hung};
	$self->close_session;
	return \%result;
}

# Ends the session without a word, whatever it is doing.
sub close_session
{
	my ($self) = @_;
	close $self->{socket} if $self->{socket};
	$self->{socket} = undef;
	return;
}

sub row
{
	my ($message) = @_;
	my $at = 2;
	my @values;
	foreach (1 .. unpack('n', $message))
	{
		my $length = unpack('l>', substr($message, $at, 4));
		$at += 4;
		push @values, $length < 0 ? undef : substr($message, $at, $length);
		$at += $length if $length > 0;
	}
	return \@values;
}

sub error
{
	my ($message) = @_;
	my %fields = map { substr($_, 0, 1) => substr($_, 1) }
	  grep { length } split /\0/, $message;
	return { severity => $fields{V}, code => $fields{C}, text => $fields{M} };
}

sub send_all
{
	my ($self, $bytes) = @_;
	my $sent = 0;
	return if !$self->{socket};
	local $SIG{PIPE} = 'IGNORE';
	while ($sent < length $bytes)
	{
		my $n = syswrite($self->{socket}, $bytes, length($bytes) - $sent, $sent);
		next if !defined $n && $!{EINTR};
		return if !$n;
		$sent += $n;
	}
	return 1;
}

# Returns type and body of the next message; nothing when the session is lost.
sub receive
{
	my ($self) = @_;
	while (1)
	{
		my $have = length $self->{buffer};
		if ($have >= 5)
		{
			my $length = unpack('N', substr($self->{buffer}, 1, 4)) + 1;
			if ($have >= $length)
			{
				my $message = substr($self->{buffer}, 0, $length, '');
				return (substr($message, 0, 1), substr($message, 5));
			}
		}
		return if !$self->{socket};
		my $ready = '';
		vec($ready, fileno($self->{socket}), 1) = 1;
		my $n = select($ready, undef, undef, $timeout);
		next if $n < 0;
		if ($n == 0)
		{
			$self->{hung} = 1;
			return;
		}
		return if !sysread($self->{socket}, $self->{buffer}, 1 << 16, $have);
	}
}

1;
