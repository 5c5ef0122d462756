package Check;

# Compares what publishers were told, what the log has, and what readers were given.

use strict;
use warnings;

# new(DIR): of the journals in a directory.
sub new
{
	my ($class, $dir) = @_;
	return bless {
		dir => $dir,
		log => {},			# "stream partition" => [[offset, record], ...], as read in the end
		transactions => {},	# id => {outcome, async, records => {number => 1}, ...}
		findings => {}		# check => [text, ...]
	}, $class;
}

sub finding
{
	my ($self, $check, $text) = @_;
	push @{ $self->{findings}{$check} }, $text;
	return;
}

sub transaction
{
	my ($self, $id) = @_;
	return $self->{transactions}{$id} //= { outcome => 'U', async => 0, kept => {}, sent => -1 };
}

# load_log(FILE): the journal of the reader that read all, when all was over.
sub load_log
{
	my ($self, $file) = @_;
	my %place;
	open(my $in, '<', $file) or die "$file: $!";
	while (<$in>)
	{
		my ($kind, $stream, $partition, $offset, $record) = split;
		next if $kind ne 'R';
		my $log = $self->{log}{"$stream $partition"} //= [];
		$self->finding('order', "stream $stream, partition $partition: offset $offset comes after $log->[-1][0]")
		  if @$log && $offset <= $log->[-1][0];
		$self->finding('once', "record $record is at $place{$record} and at $partition:$offset")
		  if $place{$record};
		$place{$record} = "$partition:$offset";
		push @$log, [ $offset, $record ];

		my ($id, $number) = $record =~ /^(\d+\.\d+)\.(\d+)$/ or die "record $record";
		$self->transaction($id)->{found}{$number} = "$stream $partition $offset";
	}
	return;
}

# load_side(IDS): the transactions whose row in the table is there.
sub load_side
{
	my ($self, @ids) = @_;
	$self->transaction($_)->{side} = 1 foreach @ids;
	return;
}

# load_publisher(FILE): the journal of a publisher.  Checks on the way that its offsets
# grow, over all its calls, and that nobody has been given one of them before.
sub load_publisher
{
	my ($self, $file) = @_;
	my %last;
	open(my $in, '<', $file) or die "$file: $!";
	while (<$in>)
	{
		my ($kind, $id, @rest) = split;
		next if $kind eq 'FAILURE';
		my $transaction = $self->transaction($id);
		if ($kind eq 'P')
		{
			my ($number, $stream, $partition, $offset) = @rest;
			my $where = "$stream $partition";
			my $issued = $self->{issued}{$where} //= [];
			$self->finding('order', "stream $stream, partition $partition: record $id.$number got offset $offset after $last{$where}")
			  if defined $last{$where} && $offset <= $last{$where};
			$last{$where} = $offset;
			$self->finding('issued', "stream $stream, partition $partition, offset $offset: issued to $issued->[$offset] and $id.$number")
			  if defined $issued->[$offset];
			$issued->[$offset] = "$id.$number";
			$transaction->{kept}{$number} = "$where $offset";
		}
		elsif ($kind eq 'Q')
		{
			$transaction->{kept}{ $rest[0] } = 'somewhere';
		}
		elsif ($kind eq 'S')
		{
			$transaction->{sent} = $rest[0];
		}
		elsif ($kind eq 'D')
		{
			delete $transaction->{kept}{ $rest[0] };
		}
		elsif ($kind eq 'E')
		{
			($transaction->{outcome}, $transaction->{async}) = @rest;
		}
	}
	return;
}

# compare(): each transaction with the log.
sub compare
{
	my ($self) = @_;
	my $issued = $self->{issued};
	foreach my $where (keys %{ $self->{log} })
	{
		foreach (@{ $self->{log}{$where} })
		{
			my $to = $issued->{$where}[ $_->[0] ] // next;
			$self->finding('issued', "partition $where, offset $_->[0]: issued to $to, read is $_->[1]")
			  if $to ne $_->[1];
		}
	}
	while (my ($id, $transaction) = each %{ $self->{transactions} })
	{
		my $kept = $transaction->{kept};
		my $found = $transaction->{found} // {};
		my $outcome = $transaction->{outcome};

		# all numbers, whether their positions came back or not
		$kept = { map { $_ => $kept->{$_} // 'somewhere' } 0 .. $transaction->{sent} }
		  if $transaction->{sent} >= 0;

		# What the server has not acknowledged, or only asynchronously, can be lost in a
		# crash, but not in part; the table knows what became of it.
		if ($outcome eq 'U' || ($outcome eq 'C' && $transaction->{async}))
		{
			$self->{lost}{$id} = 1 if !$transaction->{side};
			$outcome = $transaction->{side} ? 'C' : 'A';
		}
		if ($outcome eq 'A')
		{
			$self->finding('phantom', "record $id.$_ at $found->{$_} was rolled back") foreach keys %$found;
			$self->finding('phantom', "the row of transaction $id was rolled back") if $transaction->{side};
			next;
		}
		$self->finding('missing', "the row of transaction $id is missing") if !$transaction->{side};
		foreach my $number (keys %$kept)
		{
			if (!$found->{$number})
			{
				$self->finding('missing', "record $id.$number at $kept->{$number} is missing");
			}
			elsif ($found->{$number} ne $kept->{$number} && $kept->{$number} ne 'somewhere')
			{
				$self->finding('missing', "record $id.$number is at $found->{$number}, the server said $kept->{$number}");
			}
		}
		foreach my $number (keys %$found)
		{
			$self->finding('phantom', "record $id.$number at $found->{$number} was rolled back")
			  if !defined $kept->{$number};
		}
	}
	return;
}

# place(LOG, OFFSET): the index of the first record at an offset or behind it.
sub place
{
	my ($log, $offset) = @_;
	my ($low, $high) = (0, scalar @$log);
	while ($low < $high)
	{
		my $middle = int(($low + $high) / 2);
		if   ($log->[$middle][0] < $offset) { $low = $middle + 1 }
		else                                { $high = $middle }
	}
	return $low;
}

# check_reader(CHECK, FILE): a reader has seen exactly the log, from where it began to
# where it ended.
sub check_reader
{
	my ($self, $check, $file) = @_;
	my ($name) = $file =~ m{([^/]+)\.journal$};
	my (%next, %begun);

	open(my $in, '<', $file) or die "$file: $!";
	while (<$in>)
	{
		my ($kind, $stream, $partition, $offset, $record) = split;
		next if $kind eq 'FAILURE';
		my $where = "$stream $partition";
		my $log = $self->{log}{$where} //= [];
		if ($kind eq 'N')
		{
			$next{$where} = place($log, $offset);
		}
		elsif ($kind eq 'R')
		{
			while ($next{$where} < @$log && $log->[ $next{$where} ][0] < $offset)
			{
				my $missed = $log->[ $next{$where}++ ];
				$self->finding($check, "$name: stream $stream, partition $partition: offset $missed->[0] (record $missed->[1]) was never given, but offset $offset");
			}
			my $expected = $log->[ $next{$where} ];
			if ($expected && $expected->[0] == $offset && $expected->[1] eq $record)
			{
				$next{$where}++;
				next;
			}
			# it saw an asynchronous commit that a crash has undone
			my ($id) = $record =~ /^(\d+\.\d+)/;
			$self->finding($check, "$name: stream $stream, partition $partition: offset $offset (record $record) is not in the log")
			  if !($self->{lost}{$id} && $self->{transactions}{$id}{async});
		}
		elsif ($kind eq 'X')
		{
			foreach ($next{$where} .. $#$log)
			{
				$self->finding($check, "$name: stream $stream, partition $partition: offset $log->[$_][0] (record $log->[$_][1]), behind its last one, was never given");
			}
		}
	}
	return;
}

1;
