package Publisher;

# A publisher: random transactions, and a journal of what came of each record.
#
# A record is named PUBLISHER.TRANSACTION.NUMBER.  What is going to be rolled back says
# so in its payload, so that whoever reads it knows at once that it should not have.
#
# The journal's lines:
#	P transaction number stream partition offset	the server returned this position
#	Q transaction number			published, the server does not say where
#	S transaction last				0 to last sent in the only statement, answer not yet seen
#	D transaction number			its savepoint was rolled back
#	E transaction outcome async		the end: C committed, A rolled back, U unknown

use strict;
use warnings;

use parent 'Worker';

our @streams = (
	{ name => 'stress', partitions => 5, face => 'streams.stress' },
	{ name => 'Stress "2"', partitions => 1, face => 'streams."Stress ""2"""' },
	# of Straddler.pm alone
	{ name => 'straddled', partitions => 1, face => 'streams.straddled' },
	# of Consumer.pm alone
	{ name => 'derived', partitions => 2, face => 'streams.derived' });

sub on_connect
{
	my ($self) = @_;
	# ends a holder of locks, and now and then the publisher itself
	my $settings = "SET lock_timeout = '3s'; SET deadlock_timeout = '100ms'";
	$settings .= "; SET stream.publish_timeout = '150ms'" if $self->chance(0.15);
	$self->{session}->query($settings);
	return;
}

sub run
{
	my ($self) = @_;
	$self->{transaction} = 0;
	while (!$self->over)
	{
		$self->new_transaction;
		if   ($self->chance($self->{singles})) { $self->random_statement }
		else                                   { $self->transaction }
		$self->nap($self->between(1, 30) / 1000) if $self->chance(0.2);
	}
	$self->done;
	return;
}

# new_transaction(): its name.
sub new_transaction
{
	my ($self) = @_;
	$self->{next} = 0;
	$self->{counter_used} = 0;
	return $self->{id} = "$self->{number}." . ++$self->{transaction};
}

sub random_statement
{
	my ($self) = @_;
	my $stream = $self->random_stream;
	$self->single_statement($stream,
		$self->chance(0.5) ? $self->between(0, $stream->{partitions} - 1) : 'NULL',
		$self->chance(0.8) ? 0 : $self->between(1, 30));
	return;
}

# One statement that is a transaction.  When its answer does not come, nobody knows.
sub single_statement
{
	my ($self, $stream, $partition, $last) = @_;
	my $length = $self->chance(0.02) ? 20000 : $self->between(0, 200);
	$self->note('S', $self->{id}, $last);
	my $result = $self->query(
		"WITH s AS (INSERT INTO side VALUES ('$self->{id}')) "
		  . "SELECT i, stream.publish('$stream->{name}', 'k' || i, payload('$self->{id}', i, 0, $length), partition => $partition) "
		  . "FROM generate_series(0, $last) i");
	$self->positions($stream, $result->{rows}) if !$result->{error} && !$result->{lost};
	$self->outcome(fate($result), 0);
	return;
}

# Begin, publish at several levels, end.
sub transaction
{
	my ($self) = @_;
	my $doomed = $self->chance(0.12);
	my $async = $self->chance(0.1);
	my $level = $self->weighted([ 8, 'READ COMMITTED' ], [ 2, 'REPEATABLE READ' ], [ 1, 'SERIALIZABLE' ]);
	my @path = ({ doomed => $doomed, records => [] });
	my $steps = 1 + int(-log(1 - rand()) * 5);
	my $side_first = $self->chance(0.5);

	return if !$self->step("BEGIN ISOLATION LEVEL $level"
		  . ($async ? '; SET LOCAL synchronous_commit = off' : ''));
	return if $side_first && !$self->step("INSERT INTO side VALUES ('$self->{id}')");
	foreach (1 .. $steps)
	{
		my $what = $self->weighted([ 3, 'savepoint' ], [ 3, 'end_savepoint' ], [ 1, 'wait' ], $self->steps);
		if ($what eq 'wait')
		{
			$self->nap($self->chance(0.1) ? 0.2 : $self->between(1, 20) / 1000);
		}
		elsif ($what eq 'savepoint')
		{
			return if @path < 6 && !$self->begin_savepoint(\@path);
		}
		elsif ($what eq 'end_savepoint')
		{
			return if @path > 1 && !$self->end_savepoint(\@path);
		}
		else
		{
			return if !$self->$what(\@path);
		}
	}
	while (@path > 1)
	{
		return if !$self->end_savepoint(\@path);
	}
	return if !$side_first && !$self->step("INSERT INTO side VALUES ('$self->{id}')");

	if ($doomed && $self->chance(0.3))
	{
		# simply hang up
		$self->session->close_session;
		$self->{session} = undef;
		return $self->outcome('A', $async);
	}
	if ($doomed)
	{
		$self->query('ROLLBACK');
		return $self->outcome('A', $async);
	}
	return $self->outcome(fate($self->query('COMMIT')), $async);
}

# What else a transaction does, and how often: methods, which return false when they took
# the transaction's life.
sub steps { return [ 10, 'publish' ]; }

# fate(RESULT): what became of the transaction that this statement ends.
sub fate
{
	my ($result) = @_;
	return 'A' if $result->{error} && $result->{error}{severity} eq 'ERROR';
	return 'U' if $result->{error} || $result->{lost};
	# COMMIT of a failed transaction answers ROLLBACK
	return $result->{tag} eq 'ROLLBACK' ? 'A' : 'C';
}

sub outcome
{
	my ($self, $fate, $async) = @_;
	$self->note('E', $self->{id}, $fate, $async ? 1 : 0);
	$self->count('transactions');
	$self->count({ C => 'committed', A => 'rolled_back', U => 'unknown' }->{$fate});
	return;
}

# step(SQL, OPTION => VALUE...): a statement in the transaction; false when it took the
# transaction's life.
sub step
{
	my ($self, $sql, %options) = @_;
	my $result = $self->query($sql, %options);
	return $result if !$result->{error} && !$result->{lost};
	$self->query('ROLLBACK') if !$result->{lost};
	$self->outcome('A', 0);
	return;
}

sub begin_savepoint
{
	my ($self, $path) = @_;
	my $own = $self->chance(0.4);
	$self->step('SAVEPOINT s' . @$path) or return;
	push @$path, { own => $own, doomed => $own || $path->[-1]{doomed}, records => [] };
	$self->count('savepoints');
	return 1;
}

# Releases the innermost savepoint or, if it is to be, rolls it back; then perhaps
# goes on in it.
sub end_savepoint
{
	my ($self, $path) = @_;
	my $level = $path->[-1];
	my $name = 's' . (@$path - 1);
	my $result;

	if (!$level->{own})
	{
		$self->step("RELEASE $name") or return;
		pop @$path;
		push @{ $path->[-1]{records} }, @{ $level->{records} };
		return 1;
	}
	# sometimes because a statement fails that has published already
	if ($self->chance(0.2))
	{
		$result = $self->query("SELECT stream.publish('stress', 'x', payload('$self->{id}', $self->{next} + i, 1, 20)), 1 / (5 - i) "
			  . 'FROM generate_series(1, 9) i', code => '22012');
		$self->{next} += 10;
		if ($result->{lost})
		{
			$self->outcome('A', 0);
			return;
		}
	}
	$self->step("ROLLBACK TO $name") or return;
	$self->note('D', $self->{id}, $_) foreach @{ $level->{records} };
	$self->count('savepoints_rolled_back');
	$level->{records} = [];
	if ($self->chance(0.3))
	{
		$level->{own} = $self->chance(0.3);
		$level->{doomed} = $level->{own} || $path->[-2]{doomed};
		return 1;
	}
	$self->step("RELEASE $name") or return;
	pop @$path;
	return 1;
}

sub random_stream
{
	my ($self) = @_;
	return $streams[ $self->chance(0.8) ? 0 : 1 ];
}

# Publishes one or many records in one of the ways there are.
sub publish
{
	my ($self, $path) = @_;
	my $level = $path->[-1];
	my $doomed = $level->{doomed} ? 1 : 0;
	my $stream = $self->random_stream;
	my $id = $self->{id};
	my $first = $self->{next};
	my $last = $first;
	my $name = "'$stream->{name}'";
	my $way = $self->weighted(
		[ 20, 'one' ],  [ 8, 'batch' ],     [ 6, 'insert' ], [ 4, 'loop' ],
		[ 3, 'tombstone' ], [ 6, 'counter' ], [ 3, 'exceptions' ],
		[ 3, 'blind_insert' ], [ 3, 'copy' ],
		[ 2, 'large' ], [ 0.4, 'huge' ],    [ 0.5, 'bulk' ]);
	my ($sql, $input);

	$way = 'one' if $way eq 'counter' && $self->{counter_used}++;
	if ($way eq 'one' || $way eq 'large' || $way eq 'huge')
	{
		my $length =
			$way eq 'one'   ? $self->between(0, 300)
		  : $way eq 'large' ? $self->between(7000, 40000)
		  :                   $self->between(200000, 1000000);
		my $type = $self->weighted([ 2, 'jsonb' ], [ 1, 'json' ], [ 1, 'text' ]);
		my $key = $self->weighted([ 1, 'NULL' ], [ 3, "'k" . $self->between(0, 20) . "'" ]);
		my $partition = $self->chance(0.3) ? $self->between(0, $stream->{partitions} - 1) : 'NULL';
		$sql = "SELECT $first, stream.publish($name, $key, payload('$id', $first, $doomed, $length)::$type, NULL, $partition)";
	}
	elsif ($way eq 'batch' || $way eq 'bulk')
	{
		# bulk: more than a level keeps in memory, so it is written early
		my $length = $way eq 'bulk' ? 3500 : $self->between(0, 150);
		$last = $first + ($way eq 'bulk' ? 230 : $self->between(0, 80));
		$sql = "SELECT $first - 1 + o, p FROM stream.publish_batch($name, keys($first, $last), "
		  . "payloads('$id', $first, $last, $doomed, $length)) WITH ORDINALITY b (p, o)";
	}
	elsif ($way eq 'insert')
	{
		$last = $first + $self->between(0, 20);
		$sql = "INSERT INTO $stream->{face} (key, value) "
		  . "SELECT 'k' || i % 20, payload('$id', i, $doomed, 60) FROM generate_series($first, $last) i "
		  . "RETURNING split_part(value->>'i', '.', 3), stream.record_position(partition, record_offset)";
	}
	elsif ($way eq 'blind_insert')
	{
		# without RETURNING, so that rows are handed over in groups
		$last = $first + ($self->chance(0.1) ? $self->between(900, 1300) : $self->between(0, 60));
		$sql = "INSERT INTO $stream->{face} (key, value) "
		  . "SELECT 'k' || i % 20, payload('$id', i, $doomed, 20) FROM generate_series($first, $last) i";
	}
	elsif ($way eq 'copy')
	{
		$last = $first + ($self->chance(0.1) ? $self->between(900, 1300) : $self->between(0, 60));
		$sql = "COPY $stream->{face} (key, value) FROM STDIN";
		$input = join '', map { "k\t{\"i\": \"$id.$_\", \"d\": $doomed}\n" } $first .. $last;
	}
	elsif ($way eq 'loop')
	{
		$last = $first + $self->between(1, 60);
		$sql = "SELECT i, stream.publish($name, 'k' || i % 20, payload('$id', i, $doomed, 80)) FROM generate_series($first, $last) i";
	}
	elsif ($way eq 'tombstone')
	{
		$sql = "SELECT $first, stream.publish_tombstone($name, 'k1', '{\"i\": \"$id.$first\", \"d\": $doomed}')";
	}
	elsif ($way eq 'counter')
	{
		my $key = 'c' . $self->between(1, 20);
		$stream = $streams[0];
		$sql = "WITH c AS (UPDATE counter SET n = n + 1 WHERE key = '$key' RETURNING n) "
		  . "SELECT $first, stream.publish('$stream->{name}', '$key', jsonb_build_object('i', '$id.$first', 'd', $doomed, 'c', '$key', 'n', n)) FROM c";
	}
	else
	{
		$last = $first + $self->between(1, 20);
		$sql = "SELECT i, \"position\", kept FROM publish_with_exceptions($name, '$id', $first, $last, $doomed)";
	}
	$self->{next} = $last + 1;

	my $result = $self->step($sql, input => $input) or return;
	if ($way eq 'blind_insert' || $way eq 'copy')
	{
		$self->note('Q', $id, $_) foreach $first .. $last;
		push @{ $level->{records} }, $first .. $last;
		$self->count('records', $last - $first + 1);
		return 1;
	}
	$self->positions($stream, $result->{rows});
	$self->failure("published $first to $last and got " . @{ $result->{rows} } . " rows from $sql")
	  if @{ $result->{rows} } != $last - $first + 1;
	foreach (@{ $result->{rows} })
	{
		if (defined $_->[2] && $_->[2] eq 'f') { $self->note('D', $id, $_->[0]) }
		else                                   { push @{ $level->{records} }, $_->[0] }
	}
	return 1;
}

# positions(STREAM, ROWS): writes down number and position of each record.
sub positions
{
	my ($self, $stream, $rows) = @_;
	my ($index) = grep { $streams[$_] == $stream } 0 .. $#streams;
	foreach (@$rows)
	{
		my ($partition, $offset) = split /:/, $_->[1];
		$self->note('P', $self->{id}, $_->[0], $index, $partition, $offset);
	}
	$self->count('records', scalar @$rows);
	return;
}

1;
