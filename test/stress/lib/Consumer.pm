package Consumer;

# A consumer: takes records of consumer groups and writes a row for each of them, in the
# same transaction; alone, with publishing, in savepoints, and not always to the end.
# What it has published it writes down as a publisher does; what it has consumed is in the
# table.

use strict;
use warnings;

use parent 'Publisher';

# The group "relay" publishes a record for each that it consumes; "onward" consumes those.
our @groups = (
	{ name => 'steady',     stream => 0 },
	{ name => 'relay',      stream => 0, relays => 3 },
	{ name => 'group "2"',  stream => 1 },
	{ name => 'straddling', stream => 2 },
	{ name => 'onward',     stream => 3 },
	{ name => 'unsettled',  stream => 0 },
	# dropped and created again
	{ name => 'brief', stream => 1, code => '42704' });

sub run
{
	my ($self) = @_;
	$self->{transaction} = 0;
	while (!$self->over)
	{
		$self->new_transaction;
		if   ($self->chance(0.4)) { $self->consume_statement($self->random_group, $self->between(1, 500)) }
		else                      { $self->transaction }
		next if !$self->chance(0.3);
		my $group = $self->random_group;
		$self->query("SELECT stream.wait_for_records('$Publisher::streams[ $group->{stream} ]{name}', '$group->{name}', '"
			  . $self->between(0, 50)
			  . " ms')", code => $group->{code});
	}
	$self->nap(0.05) while !-e "$self->{dir}/drain";
	$self->drain;
	$self->done;
	return;
}

# All publishers have ended: consumes until there is nothing left.
sub drain
{
	my ($self) = @_;
	while (1)
	{
		# but for the groups that have members
		my $result = $self->query("SELECT count(*) FROM stream.consumer_lag WHERE lag > 0 AND consumer_group NOT IN ('team', 'exact')");
		next if $result->{error} || $result->{lost};
		last if $result->{rows}[0][0] == 0;
		foreach my $group (@groups)
		{
			$self->new_transaction;
			if ($group->{relays}) { $self->transaction }
			else                  { $self->consume_statement($group, $group->{name} eq 'straddling' ? 20 : 5000) }
		}
		$self->nap(0.01);
	}
	return;
}

sub steps
{
	my ($self) = @_;
	return [ 10, 'relay' ] if -e "$self->{dir}/drain";
	return ([ 10, 'consume' ], [ 3, 'relay' ], [ 1, 'publish' ], [ 1, 'fail' ]);
}

sub random_group { my ($self) = @_; return $groups[ $self->between(0, $#groups) ]; }

# call(GROUP, LIMIT): the call of consume.
sub call
{
	my ($self, $group, $limit) = @_;
	my $bytes = $self->weighted([ 4, 1048576 ], [ 2, 'NULL' ], [ 1, 5000 ], [ 1, 0 ]);
	return "stream.consume('$Publisher::streams[ $group->{stream} ]{name}', '$group->{name}', $limit, $bytes)";
}

# consumed(GROUP, LIMIT): the WITH queries that consume and write the effects, c and e.
sub consumed
{
	my ($self, $group, $limit) = @_;
	my $call = "$self->{number}/" . ++$self->{calls};
	return 'WITH c AS MATERIALIZED (SELECT "partition", record_offset, key, o, coalesce(value, headers)->>\'i\' AS record, '
	  . "coalesce(value, headers)->>'d' AS doomed FROM "
	  . $self->call($group, $limit)
	  . ' WITH ORDINALITY r ("partition", record_offset, published_at, key, value, headers, o)), '
	  . "b AS MATERIALIZED (SELECT \"partition\", last_effect('$group->{name}', \"partition\") AS seen FROM (SELECT DISTINCT \"partition\" FROM c) p), "
	  . 'e AS (INSERT INTO effect (consumer_group, "partition", record_offset, record, doomed, call, seen, side) '
	  . "SELECT '$group->{name}', \"partition\", record_offset, record, doomed, '$call', seen, has_side(record) "
	  . 'FROM c JOIN b USING ("partition") ORDER BY o)';
}

# note_consumed(N): counts a call and its records.
sub note_consumed
{
	my ($self, $n) = @_;
	$self->count('calls_of_consume');
	$self->count('consumed', $n) if $n;
	return 1;
}

# One statement that is a transaction.
sub consume_statement
{
	my ($self, $group, $limit) = @_;
	return $self->relay_alone if $group->{relays};
	my $sql = $self->chance(0.8) ? $self->consumed($group, $limit) . ' SELECT count(*) FROM c' : $self->consume_each($group, $limit);
	my $result = $self->query($sql, code => $group->{code});
	$self->note_consumed($result->{rows}[0][0]) if !$result->{error} && !$result->{lost};
	return;
}

sub relay_alone
{
	my ($self) = @_;
	my @path = ({ doomed => 0, records => [] });
	$self->step("BEGIN; INSERT INTO side VALUES ('$self->{id}')") or return;
	$self->relay(\@path) or return;
	return $self->outcome(Publisher::fate($self->query('COMMIT')), 0);
}

# consume_each(GROUP, LIMIT): consumes in a loop on the server, where some of it fails.
sub consume_each
{
	my ($self, $group, $limit) = @_;
	my $call = "$self->{number}/" . ++$self->{calls};
	return "SELECT consume_each('$Publisher::streams[ $group->{stream} ]{name}', '$group->{name}', '$call', "
	  . (1 + $limit % 100)
	  . ', ' . ($self->chance(0.3) ? 'true' : 'false') . ')';
}

# A step of a transaction: on the server alone, or through the client.
sub consume
{
	my ($self) = @_;
	my $group;
	do { $group = $self->random_group } while $group->{relays};
	my $limit = $self->between(1, $self->chance(0.1) ? 3000 : 200);
	my $way = $self->weighted([ 5, 'statement' ], [ 2, 'each' ], [ 3, 'client' ]);

	if ($way eq 'each')
	{
		my $result = $self->step($self->consume_each($group, $limit), code => $group->{code}) or return;
		return $self->note_consumed($result->{rows}[0][0]);
	}
	if ($way eq 'statement')
	{
		my $result = $self->step($self->consumed($group, $limit) . ' SELECT count(*) FROM c', code => $group->{code}) or return;
		return $self->note_consumed($result->{rows}[0][0]);
	}
	my $sql = 'SELECT "partition", record_offset, coalesce(value, headers)->>\'i\', coalesce(value, headers)->>\'d\' FROM '
	  . $self->call($group, $limit);
	my $cursor = $self->chance(0.3);
	my $result = $self->step($cursor ? "DECLARE c CURSOR FOR $sql; FETCH ALL FROM c; CLOSE c" : $sql, code => $group->{code}) or return;
	my @rows = @{ $result->{rows} };
	return $self->note_consumed(0) if !@rows;
	$self->step(insertion($group->{name}, "$self->{number}/" . ++$self->{calls}, @rows)) or return;
	return $self->note_consumed(scalar @rows);
}

# insertion(GROUP, CALL, ROWS): the statement that writes the effects of records that the
# client has: partition, offset, record, doomed.
sub insertion
{
	my ($group, $call, @rows) = @_;
	return
		'WITH r (n, "partition", record_offset, record, doomed) AS (VALUES '
	  . join(', ', map { "($_, $rows[$_][0], $rows[$_][1], '$rows[$_][2]', '" . ($rows[$_][3] // '') . "')" } 0 .. $#rows)
	  . "), b AS MATERIALIZED (SELECT \"partition\", last_effect('$group', \"partition\") AS seen "
	  . 'FROM (SELECT DISTINCT "partition" FROM r) p) '
	  . 'INSERT INTO effect (consumer_group, "partition", record_offset, record, doomed, call, seen, side) '
	  . "SELECT '$group', \"partition\", record_offset, record, doomed, '$call', seen, has_side(record) "
	  . 'FROM r JOIN b USING ("partition") ORDER BY n';
}

# Consumes, and publishes a record for each.
sub relay
{
	my ($self, $path) = @_;
	my $level = $path->[-1];
	my $doomed = $level->{doomed} ? 1 : 0;
	my $group = $groups[1];
	my $stream = $Publisher::streams[ $group->{relays} ];
	my $first = $self->{next};
	my $result = $self->step($self->consumed($group, $self->between(1, 500))
		  . " SELECT $first - 1 + o, stream.publish('$stream->{name}', key, "
		  . "jsonb_build_object('i', '$self->{id}.' || $first - 1 + o, 'd', $doomed, 'of', \"partition\" || ':' || record_offset)) FROM c ORDER BY o")
	  or return;
	my @rows = @{ $result->{rows} };
	$self->positions($stream, \@rows);
	push @{ $level->{records} }, map { $_->[0] } @rows;
	$self->{next} += @rows;
	return $self->note_consumed(scalar @rows);
}

# A statement that fails when it has consumed, and ends what it is in.
sub fail
{
	my ($self, $path) = @_;
	my $group;
	do { $group = $self->random_group } while $group->{relays} || $group->{code};
	$self->step('SAVEPOINT f') or return;
	my $result = $self->query('SELECT 1 / (row_number() OVER () - 3) FROM ' . $self->call($group, 10), code => '22012');
	if ($result->{lost})
	{
		$self->outcome('A', 0);
		return;
	}
	return $self->step('ROLLBACK TO f; RELEASE f');
}

1;
