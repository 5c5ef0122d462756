package Member;

# A member of a consumer group, as its client would be: it keeps epoch, partitions and
# positions in its own memory, and makes each call through another session, as behind a
# pooler.  Answers are lost, and the call is made again; now and then it leaves, dies, or
# hangs until others have taken its place.
#
# Its work is a row for each record.  In the group "team" that is in a transaction of its
# own; what it commits it writes down in the transaction that commits.  In the group "exact"
# it works and commits in one transaction, and joins again when it does not know what came
# of that.
#
# The journal's lines:
#	I group:partition epoch start end id	had it, given at this epoch, for this time

use strict;
use warnings;

use parent 'Worker';
use Consumer;
use Publisher;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my $stream = $Publisher::streams[0]{name};
my $sessions = 3;
# in seconds; of others' partitions it takes possession only after these
my $session_timeout = 1.5;
my $max_poll_interval = 3;

my $fenced = 'ST001';
my $lost_partition = 'ST002';
# somebody else has the place, or consumes
my $in_use = '55006';

sub now { return clock_gettime(CLOCK_MONOTONIC); }

sub run
{
	my ($self) = @_;
	$self->{pool} = [];
	$self->{owned} = {};
	while (!-e "$self->{dir}/settle")
	{
		$self->turn;
	}
	# all publishers have ended: what is left
	$self->{draining} = 1;
	do { $self->turn } until $self->all_done;
	$self->leave if $self->{id};
	$self->done;
	return;
}

sub all_done
{
	my ($self) = @_;
	my $result = $self->work("SELECT coalesce(sum(lag), 0) FROM stream.consumer_lag WHERE consumer_group = '$self->{group}'");
	return !$result->{error} && !$result->{lost} && $result->{rows}[0][0] == 0;
}

# work(SQL): runs it in a session for what is no call of the group's functions.
sub work
{
	my ($self, $sql) = @_;
	$self->{session} = $self->{own};
	my $result = $self->query($sql);
	$self->{own} = $self->{session};
	return $result;
}

sub turn
{
	my ($self) = @_;
	return if !$self->{id} && !$self->join_group;
	return if $self->chance(0.6) && !$self->heartbeat;
	return if !$self->poll;
	return if $self->{draining} ? !$self->commit : $self->chance(0.1) && !$self->commit;
	$self->work("SELECT stream.wait_for_records('$stream', '$self->{group}', '20 ms', '$self->{id}')") if $self->chance(0.1);
	$self->nap($self->between(0, 20) / 1000);
	return if $self->{draining};
	my $event = $self->weighted([ 100, '' ], [ 4, 'leave' ], [ 1.5, 'vanish' ], [ 2.5, 'hang' ], [ 2, 'join_again' ]);
	$self->$event if $event;
	return;
}

# call(SQL, ORDERED): makes a call of the group's functions until an answer has come.  Some
# are lost after the server has done it, others while it is still doing it, unless no later
# call may overtake it.  SQL is a function of whether it is a repetition.  Returns nothing
# when the call took the member's life.
sub call
{
	my ($self, $sql, $ordered) = @_;
	my $repeated = 0;
	while (1)
	{
		my $number = $self->between(0, $sessions - 1);
		$self->{session} = $self->{pool}[$number];
		my $text = $sql->($repeated);
		if (!$ordered && $self->chance(0.03))
		{
			$self->session->send_all('Q' . pack('N', length($text) + 5) . "$text\0");
			$self->{session}->close_session;
			$self->{session} = $self->{pool}[$number] = undef;
			$self->count('calls_repeated');
			$repeated = 1;
			next;
		}
		my $sent = now();
		my $result = $self->query($text, code => { map { $_ => 1 } $fenced, $lost_partition, $in_use });
		$self->{pool}[$number] = $self->{session};
		my $code = $result->{error} ? $result->{error}{code} : '';
		if ($code eq $fenced)
		{
			$self->count('members_fenced');
			return $self->forget;
		}
		if ($code eq $lost_partition)
		{
			$self->failure("a member that was not fenced has lost a partition: $result->{error}{text}");
			return $self->forget;
		}
		return if $code eq $in_use;
		# a failure, which nobody can go on from
		return $self->forget if $code && !Worker::is_expected($code);
		if ($result->{error} || $result->{lost} || $self->chance(0.03))
		{
			$self->count('calls_repeated');
			$repeated = 1;
			next;
		}
		$self->{heard} = $sent;
		return $result;
	}
}

# forget(): it is no member any more, or does as if.
sub forget
{
	my ($self) = @_;
	$self->let_go($_) foreach keys %{ $self->{owned} };
	$self->{id} = undef;
	return;
}

# let_go(PARTITION): it stops working on it.  Others may have begun as soon as a time-out
# was over, whether it knew or not.
sub let_go
{
	my ($self, $p) = @_;
	my $owned = delete $self->{owned}{$p};
	my $end = now();
	foreach ($self->{heard} + $session_timeout, $self->{polled} + $max_poll_interval, $self->{unrevoked} + $max_poll_interval)
	{
		$end = $_ if $_ < $end;
	}
	$self->note('I', "$self->{group}:$p", $owned->{given}, $owned->{start}, $end > $owned->{start} ? $end : $owned->{start}, $self->{id});
	return;
}

# Joins under a name of its own, new or used before, or as an instance.
sub join_group
{
	my ($self) = @_;
	my $id = "$self->{name}-" . ($self->chance(0.5) ? ++$self->{incarnation} : 'again');
	my $instance = $self->{number} % 2 && !$self->{draining} ? "'instance $self->{number}'" : 'NULL';
	my $sent = now();
	my $result = $self->call(
		sub {
			"SELECT * FROM stream.join_group('$stream', '$self->{group}', '$id', $instance, '$session_timeout s', '$max_poll_interval s')"
		}, 1);
	if (!$result)
	{
		$self->nap(0.05);
		return;
	}
	$self->{id} = $id;
	$self->{polled} = $self->{unrevoked} = $sent;
	$self->count('joins');
	$self->take_up($result->{rows}[0]);
	return 1;
}

sub partitions { return $_[0] =~ /(\d+)/g; }

# take_up(ANSWER): of join_group or heartbeat.
sub take_up
{
	my ($self, $answer) = @_;
	my (undef, $epoch, $assigned, $revoking) = @$answer;
	my %given = map { $_ => 1 } partitions($assigned);
	my %revoked = map { $_ => 1 } partitions($revoking);
	$self->failure("epoch $epoch after $self->{epoch}") if %{ $self->{owned} } && $epoch < $self->{epoch};
	$self->{epoch} = $epoch;
	foreach my $p (keys %{ $self->{owned} })
	{
		$self->failure("partition $p was taken away without a word") if !$given{$p} && !$revoked{$p};
	}
	foreach my $p (keys %given)
	{
		$self->{owned}{$p} //= { given => $epoch, start => now() };
	}
	return map { $self->{owned}{$_} ? $_ : () } keys %revoked;
}

sub heartbeat
{
	my ($self) = @_;
	my $owned = join ',', sort keys %{ $self->{owned} };
	my $sent = now();
	my $result = $self->call(sub { "SELECT * FROM stream.heartbeat('$stream', '$self->{group}', '$self->{id}', $self->{epoch}, '{$owned}')" }) or return;
	$self->count('heartbeats');
	my @revoked = $self->take_up($result->{rows}[0]);
	$self->{unrevoked} = $sent if !@revoked;
	return 1 if !@revoked;
	# what it has done may be committed first, the rest is done again by another
	return if $self->chance(0.8) && !$self->commit;
	$self->let_go($_) foreach @revoked;
	$self->count('revocations');
	return 1;
}

# processed(): what is to be committed: positions, and a function of what to add to the
# call, rows that say so.
sub processed
{
	my ($self) = @_;
	my @partitions = grep { defined $self->{owned}{$_}{processed} } sort keys %{ $self->{owned} };
	my @rows = map { "$_, $self->{owned}{$_}{processed}, '$self->{id}', $self->{owned}{$_}{given}" } @partitions;
	return ('', sub { '' }) if !@rows;
	return (
		join(',', map { "$_:$self->{owned}{$_}{processed}" } @partitions),
		sub {
			my ($repeated) = @_;
			my $kind = $repeated ? 'r' : 'c';
			return '; INSERT INTO work ("partition", record_offset, member, given, kind) VALUES '
			  . join(', ', map { "($_, '$kind')" } @rows);
		});
}

sub commit
{
	my ($self) = @_;
	my ($positions, $rows) = $self->processed;
	return 1 if $positions eq '';
	my $owned = { %{ $self->{owned} } };
	$self->call(sub { "SELECT stream.commit_offsets('$stream', '$self->{group}', '$self->{id}', $self->{epoch}, '{$positions}')" . $rows->(@_) }) or return;
	delete $_->{processed} foreach values %$owned;
	$self->count('commits');
	return 1;
}

sub poll
{
	my ($self) = @_;
	my $after = join ',', map { defined $self->{owned}{$_}{last} ? "$_:$self->{owned}{$_}{last}" : () } sort keys %{ $self->{owned} };
	my ($positions, $rows) = $self->chance(0.5) ? $self->processed : ('', sub { '' });
	my $owned = { %{ $self->{owned} } };
	my $limit = $self->between(1, 400);
	my $sent = now();
	my $result = $self->call(
		sub {
			"SELECT \"partition\", record_offset, coalesce(value, headers)->>'i', coalesce(value, headers)->>'d' FROM "
			  . "stream.poll('$stream', '$self->{group}', '$self->{id}', $self->{epoch}, '{$after}', '{$positions}', $limit)"
			  . $rows->(@_)
		}) or return;
	if ($positions ne '')
	{
		delete $_->{processed} foreach values %$owned;
	}
	$self->{polled} = $sent;
	$self->count('calls_of_poll');
	my @rows = @{ $result->{rows} } or return 1;
	foreach (@rows)
	{
		my ($p, $offset) = @$_;
		my $owned = $self->{owned}{$p};
		if (!$owned)
		{
			$self->failure("polled partition $p, which is not assigned");
			next;
		}
		$self->failure("partition $p: polled offset $offset after $owned->{last}") if defined $owned->{last} && $offset <= $owned->{last};
		$owned->{last} = $offset;
	}
	return $self->vanish if $self->chance(0.005) && !$self->{draining};
	return $self->work_exactly(@rows) if $self->{group} eq 'exact';
	my $values = join ', ', map { "($_->[0], $_->[1], '$_->[2]', '$self->{id}', $self->{owned}{$_->[0]}{given})" } @rows;
	my $work;
	do { $work = $self->work("INSERT INTO work (\"partition\", record_offset, record, member, given) VALUES $values") } while $work->{error} || $work->{lost};
	$self->{owned}{ $_->[0] }{processed} = $_->[1] foreach @rows;
	$self->count('polled', scalar @rows);
	return 1;
}

# work_exactly(ROWS): works and commits in one transaction; false when it is not known what
# became of it.  The commit comes first, so that the rows are numbered under its lock.
sub work_exactly
{
	my ($self, @rows) = @_;
	if ($self->chance(0.02) && !$self->{draining})
	{
		# long enough for others to do the same work
		$self->count('hangs');
		$self->nap($self->between(1000, 3000) / 1000);
	}
	my %last = map { $_->[0] => $_->[1] } @rows;
	my $positions = join ',', map { "$_:$last{$_}" } sort keys %last;
	my $sql = "SELECT stream.commit_offsets('$stream', '$self->{group}', '$self->{id}', $self->{epoch}, '{$positions}'); "
	  . Consumer::insertion($self->{group}, "$self->{number}/" . ++$self->{works}, @rows);

	$self->{session} = $self->{own};
	if ($self->chance(0.03))
	{
		# it can still be under way when this client has joined again
		$self->session->send_all('Q' . pack('N', length($sql) + 5) . "$sql\0");
		$self->{session}->close_session;
		$self->{session} = $self->{own} = undef;
		return $self->forget;
	}
	my $sent = now();
	my $result = $self->query($sql, code => { $fenced => 1 });
	$self->{own} = $self->{session};
	return $self->forget if $result->{error} || $result->{lost};
	$self->{heard} = $sent;
	$self->count('worked_exactly', scalar @rows);
	return 1;
}

# Leaves in good order, perhaps to return.
sub leave
{
	my ($self) = @_;
	my ($positions, $rows) = $self->chance(0.7) || $self->{draining} ? $self->processed : ('', sub { '' });
	my $temporarily = $self->{number} % 2 && !$self->{draining} && $self->chance(0.7) ? 'true' : 'false';
	# nothing of it may be done after the call
	my @owned = keys %{ $self->{owned} };
	my ($id, $epoch) = ($self->{id}, $self->{epoch});
	$self->forget;
	$self->call(sub { "SELECT stream.leave_group('$stream', '$self->{group}', '$id', $epoch, '{$positions}', $temporarily)" . $rows->(@_) }, 1);
	$self->count('leaves');
	return;
}

# Is heard of no more.
sub vanish
{
	my ($self) = @_;
	$self->forget;
	$self->count('deaths');
	$self->nap($self->between(0, 1000) / 1000);
	return;
}

# Goes on when others may have its partitions, and knows nothing of it.
sub hang
{
	my ($self) = @_;
	return if !$self->poll;
	$self->count('hangs');
	$self->nap($self->between(1000, 3000) / 1000);
	$self->commit if $self->chance(0.7);
	return;
}

# Begins anew under the same name, so that what it was before is fenced.
sub join_again
{
	my ($self) = @_;
	my $id = $self->{id};
	$self->forget;
	$self->{incarnation}-- if $id !~ /again$/;
	return;
}

1;
