package Changer;

# Changes groups while they are consumed: pauses one and sets its offsets, drops another one
# and creates it again.  What becomes of a group's position it writes into the table of the
# effects, in the same transaction.  It also consumes for a group that has members, which
# must fail as long as one of them is alive.
#
# The journal's lines:
#	M start end		consumed for that group between these times

use strict;
use warnings;

use parent 'Worker';
use Consumer;
use Member;

my %stream_of = map { $_->{name} => $Publisher::streams[ $_->{stream} ]{name} } @Consumer::groups;

sub on_connect
{
	my ($self) = @_;
	$self->{session}->query("SET lock_timeout = '1s'; SET deadlock_timeout = '100ms'");
	return;
}

sub run
{
	my ($self) = @_;
	while (!$self->over)
	{
		if   ($self->chance(0.85)) { $self->change }
		else                       { $self->mix }
		$self->nap($self->between(10, 300) / 1000);
	}
	# all can be consumed to the end, however slow the machine is
	$self->until_done("SELECT stream.alter_consumer_group('$stream_of{unsettled}', 'unsettled', max_poll_interval => '1 min')");
	$self->until_done("SELECT stream.resume_consumer_group('$stream_of{unsettled}', 'unsettled')");
	my $brief = $self->until_done("SELECT FROM stream_internal.consumer_groups WHERE consumer_group = 'brief'");
	$self->until_done(creation()) if !@{ $brief->{rows} };
	$self->done;
	return;
}

# until_done(SQL): tries again until it works.
sub until_done
{
	my ($self, $sql) = @_;
	my $result;
	do { $result = $self->query($sql) } while ($result->{error} || $result->{lost});
	return $result;
}

sub creation
{
	my ($start) = @_;
	return "SELECT begin_group('$stream_of{brief}', 'brief', '" . ($start // 'latest') . "', '1 min')";
}

sub drop
{
	return "SELECT stream.drop_consumer_group('$stream_of{brief}', 'brief'); "
	  . "INSERT INTO effect (consumer_group, \"partition\", kind) VALUES ('brief', 0, 'd')";
}

sub reset_offsets
{
	my ($self) = @_;
	my $target = $self->weighted(
		[ 6, 'shift -' . $self->between(1, 300) ], [ 2, 'shift ' . $self->between(1, 50) ],
		[ 1, 'offset ' . $self->between(0, 20000) ], [ 1, 'duration 500 ms' ], [ 1, 'latest' ], [ 0.3, 'earliest' ]);
	my $partitions = $self->weighted([ 1, 'NULL' ], [ 1, '{0}' ], [ 1, '{4,1}' ]);
	$partitions = "'$partitions'" if $partitions ne 'NULL';
	my $force = $self->chance(0.5) ? 'true' : 'false';
	return
		'INSERT INTO effect (consumer_group, "partition", kind, record_offset) '
	  . "SELECT 'unsettled', \"partition\", 's', new_offset "
	  . "FROM stream.reset_offsets('$stream_of{unsettled}', 'unsettled', '$target', $partitions, true, $force)";
}

sub mix
{
	my ($self) = @_;
	my $start = Member::now();
	my $result = $self->query(
		'WITH w AS (INSERT INTO work ("partition", record_offset, record, member, given) '
		  . "SELECT \"partition\", record_offset, coalesce(value, headers)->>'i', 'consume', 0 FROM "
		  . "stream.consume('$Publisher::streams[0]{name}', 'team', 20) RETURNING *) SELECT count(*) FROM w", code => '55006');
	return if $result->{error} || $result->{lost} || !$result->{rows}[0][0];
	$self->note('M', $start, Member::now());
	$self->count('mixed');
	return;
}

# One change, or several in one transaction, which may be taken back.
sub change
{
	my ($self) = @_;
	my @sql;
	foreach (1 .. $self->weighted([ 4, 1 ], [ 1, 2 ], [ 1, 3 ]))
	{
		push @sql, $self->weighted(
			[ 2, "SELECT stream.pause_consumer_group('$stream_of{unsettled}', 'unsettled')" ],
			[ 5, "SELECT stream.resume_consumer_group('$stream_of{unsettled}', 'unsettled')" ],
			[ 1, "SELECT stream.alter_consumer_group('$stream_of{unsettled}', 'unsettled', max_poll_interval => '"
				  . $self->between(50, 400) . " ms')" ],
			[ 4, $self->reset_offsets ],
			[ 1, "SELECT stream.reset_offsets('$stream_of{unsettled}', 'unsettled', 'latest')" ],
			[ 2, drop() ],
			[ 1, drop() . '; ' . creation('earliest') ],
			[ 3, creation($self->weighted([ 1, 'latest' ], [ 1, 'earliest' ], [ 1, 'offset ' . $self->between(0, 5000) ])) ]);
		splice @sql, -1, 0, 'SAVEPOINT a', $sql[-1], 'ROLLBACK TO a' if $self->chance(0.15);
	}
	my $end = $self->weighted([ 5, 'COMMIT' ], [ 1, 'ROLLBACK' ]);
	$self->query('BEGIN');
	foreach my $sql (@sql)
	{
		return if !$self->{session};
		# there is none, there is one, or somebody is processing
		my $result = $self->query($sql, code => { 42704 => 1, 42710 => 1, 55006 => 1 });
		$end = 'ROLLBACK' if $result->{error};
		last if $result->{error} || $result->{lost};
	}
	return if !$self->{session};
	$self->query($end);
	$self->count('changes_of_groups') if $end eq 'COMMIT';
	return;
}

1;
