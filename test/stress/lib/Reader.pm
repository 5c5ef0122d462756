package Reader;

# A reader: follows every partition of every stream from its last position on, in one of
# several manners, and writes down all it is given.  What can be judged at once it judges
# at once; that nothing is missing is judged from the journal.
#
# The journal's lines:
#	N stream partition position		a new reading begins here, at the earliest
#	R stream partition offset record	read
#	X stream partition				read to the end, when all publishers had ended

use strict;
use warnings;

use parent 'Worker';
use Publisher;
use Time::HiRes qw(time);

my %manners = (
	tail       => \&tail,
	repeatable => \&repeatable_read,
	watermark  => \&watermark,
	tight      => \&tight,
	laggard    => \&laggard,
	cursor     => \&cursor);

sub on_connect
{
	my ($self) = @_;
	# the join is by index, whatever is known of the table
	$self->{session}->query('SET enable_hashjoin = off; SET enable_mergejoin = off');
	return;
}

sub run
{
	my ($self) = @_;
	my $manner = $manners{ $self->{manner} };
	$self->begin_reading;
	while (!$self->finishing)
	{
		$manner->($self);
		$self->begin_reading if $self->{restarts} && $self->chance(0.003);
	}
	# all publishers have ended: now everything can be read
	foreach my $at (@{ $self->{at} })
	{
		while (1)
		{
			my $rows = $self->read_on($at, 5000, 'NULL');
			last if $rows && !@$rows;
		}
		$self->note('X', $at->{stream}, $at->{partition});
	}
	$self->done;
	return;
}

sub finishing { my ($self) = @_; return -e "$self->{dir}/finish"; }

# Starts anew, at the beginning or with what is published from now on.
sub begin_reading
{
	my ($self) = @_;
	my $from_now = $self->{restarts} && $self->chance(0.5);
	$self->{at} = [];
	foreach my $stream (0 .. $#Publisher::streams)
	{
		foreach my $partition (0 .. $Publisher::streams[$stream]{partitions} - 1)
		{
			my $at = { stream => $stream, partition => $partition, position => 0 };
			if ($from_now)
			{
				my $result;
				do
				{
					$result = $self->query("SELECT stream.offset_at('$Publisher::streams[$stream]{name}', $partition, now())");
				} while ($result->{lost} || $result->{error});
				$at->{position} = $result->{rows}[0][0];
			}
			push @{ $self->{at} }, $at;
			$self->note('N', $stream, $partition, $at->{position});
		}
	}
	$self->count('readings');
	return;
}

# The query of all manners.  The record's transaction has written a row to side: whoever
# sees the record must see the row.
sub query_on
{
	my ($at, $source) = @_;
	return 'SELECT record_offset, record, doomed, s.transaction IS NOT NULL, intact FROM '
	  . "(SELECT o, record_offset, coalesce(value, headers)->>'i' AS record, coalesce(value, headers)->>'d' AS doomed, "
	  . "value->>'sum' IS NULL OR md5(value->>'pad') = value->>'sum' AS intact FROM $source) r "
	  . "LEFT JOIN side s ON s.transaction = substring(record FROM '^\\d+\\.\\d+') ORDER BY o";
}

sub call
{
	my ($at, $records, $bytes) = @_;
	return "stream.read('$Publisher::streams[ $at->{stream} ]{name}', $at->{partition}, $at->{position}, $records, $bytes) "
	  . 'WITH ORDINALITY r (p, record_offset, published_at, key, value, headers, o)';
}

# read_on(PLACE, RECORDS, BYTES): reads on there, and returns the rows; nothing after an error.
sub read_on
{
	my ($self, $at, $records, $bytes) = @_;
	my $result = $self->query(query_on($at, call($at, $records, $bytes)));
	$self->count('calls_of_read');
	return if $result->{error} || $result->{lost};
	$self->take($at, $result->{rows});
	return $result->{rows};
}

sub take
{
	my ($self, $at, $rows) = @_;
	my $where = "stream $at->{stream}, partition $at->{partition}";
	foreach (@$rows)
	{
		my ($offset, $record, $doomed, $side, $intact) = @$_;
		$self->failure("$where: offset $offset came after the position $at->{position}")
		  if $offset < $at->{position};
		$self->failure("$where: record $record at offset $offset was rolled back") if $doomed;
		$self->failure("$where: record $record at offset $offset came without its row in the table")
		  if $side ne 't';
		$self->failure("$where: record $record at offset $offset has a damaged value") if $intact ne 't';
		$self->note('R', $at->{stream}, $at->{partition}, $offset, $record);
		$at->{position} = $offset + 1;
	}
	$self->count('read', scalar @$rows);
	return;
}

# Close behind the publishers, a statement a time.
sub tail
{
	my ($self) = @_;
	my $rows = 0;
	foreach my $at (@{ $self->{at} })
	{
		my $got = $self->read_on($at, $self->between(1, 2000),
			$self->weighted([ 4, 1048576 ], [ 2, 'NULL' ], [ 1, 10000 ], [ 1, 0 ]));
		$rows += @$got if $got;
	}
	$self->nap(0.002) if !$rows;
	return;
}

# Several reads with one snapshot.  Nothing may come between them that the snapshot does
# not show, and after it nothing may be missing.
sub repeatable_read
{
	my ($self) = @_;
	my $level = $self->chance(0.3) ? 'SERIALIZABLE READ ONLY' : 'REPEATABLE READ';
	my $result = $self->query("BEGIN ISOLATION LEVEL $level");
	return if $result->{error} || $result->{lost};
	foreach (1 .. $self->between(1, 4))
	{
		foreach my $at (@{ $self->{at} })
		{
			if (!$self->read_on($at, $self->between(100, 5000), 'NULL'))
			{
				# what was read before the error stands: it was committed
				$self->query('ROLLBACK') if $self->{session};
				return;
			}
		}
		$self->nap($self->between(0, 30) / 1000);
	}
	$self->query('COMMIT');
	return;
}

# Having read all there is, it takes the watermark for its position; and it waits for
# records instead of asking again and again.
sub watermark
{
	my ($self) = @_;
	foreach my $at (@{ $self->{at} })
	{
		my $name = $Publisher::streams[ $at->{stream} ]{name};
		my $known = $self->query(
			"SELECT high_watermark FROM stream.partition_status WHERE stream = '$name' AND partition = $at->{partition}");
		my $watermark = $known->{rows}[0] && $known->{rows}[0][0];
		my $rows = $self->read_on($at, 1000, 'NULL');
		next if !$rows || !defined $watermark;
		$at->{position} = $watermark if @$rows < 1000 && $watermark > $at->{position};
		$self->query("SELECT stream.wait_for_offset('$name', '$at->{partition}:$at->{position}', '20 ms')")
		  if $self->chance(0.3);
	}
	return;
}

# In a loop on the server, at the end of the log.
sub tight
{
	my ($self) = @_;
	my $at = $self->{at}[ $self->chance(0.8) ? -1 : $self->between(0, $#{ $self->{at} }) ];
	my $result = $self->query("SELECT * FROM follow('$Publisher::streams[ $at->{stream} ]{name}', $at->{partition}, $at->{position}, "
		  . $self->between(5, 50) . ')');
	$self->take($at, $result->{rows}) if !$result->{error} && !$result->{lost};
	$self->nap($self->between(0, 5) / 1000);
	return;
}

# Seldom, and then everything: through several segments at once.
sub laggard
{
	my ($self) = @_;
	my $until = time() + $self->between(100, 1500) / 1000;
	$self->nap(0.1) while time() < $until && !$self->finishing;
	$self->read_on($_, 'NULL', 'NULL') foreach @{ $self->{at} };
	return;
}

# A slow cursor over the foreign table.  It reads while segments come and publishers go.
sub cursor
{
	my ($self) = @_;
	foreach my $at (@{ $self->{at} })
	{
		my $source = "(SELECT 1 AS o, * FROM $Publisher::streams[ $at->{stream} ]{face} "
		  . "WHERE partition = $at->{partition} AND record_offset >= $at->{position}) f";
		# not sorted, else the first FETCH would read everything
		my $sql = query_on($at, $source) =~ s/ ORDER BY o$//r;
		my $result = $self->query("BEGIN; DECLARE slow NO SCROLL CURSOR FOR $sql");
		my $n = 0;
		while (!$result->{error} && !$result->{lost})
		{
			$result = $self->query('FETCH 50 FROM slow');
			last if $result->{error} || $result->{lost} || !@{ $result->{rows} };
			$self->take($at, $result->{rows});
			$self->nap(0.01) if $n++ < 50;
		}
		$self->query('ROLLBACK') if $self->{session};
	}
	return;
}

1;
