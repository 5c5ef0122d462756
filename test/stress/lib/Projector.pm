package Projector;

# Disturbs projections: pauses, alters, drops and creates them, and does to their targets what
# users do: locks, renames, alters, takes privileges away; always so that it can go on.  What
# takes a while it does in steps, the last of which undoes the first.

use strict;
use warnings;

use parent 'Worker';

my $role = 'projector';

sub on_connect
{
	my ($self) = @_;
	$self->{session}->query("SET lock_timeout = '2s'; SET deadlock_timeout = '100ms'");
	return;
}

sub run
{
	my ($self) = @_;
	$self->{projections} = $self->until_done('SELECT projection, row_number() OVER (ORDER BY projection), recreated, target FROM projected ORDER BY projection')->{rows};
	while (!$self->over)
	{
		$self->change(@{ $self->{projections}[ $self->between(0, $#{ $self->{projections} }) ] });
		$self->query('SELECT skip_stopped()');
		$self->nap($self->between(10, 200) / 1000);
	}
	$self->settle;
	$self->done;
	return;
}

# until_done(SQL): tries again until it works.
sub until_done
{
	my ($self, $sql) = @_;
	while (1)
	{
		my $result = $self->query($sql);
		return $result if !$result->{error} && !$result->{lost};
		$self->nap(0.02);
	}
	return;
}

# Every projection is there, can go on, and finds its target.
sub settle
{
	my ($self) = @_;
	foreach (@{ $self->{projections} })
	{
		my ($projection, $number, undef, $target) = @$_;
		$self->until_done("SELECT begin_projection('$projection') WHERE NOT EXISTS (SELECT FROM stream_internal.projections WHERE projection = '$projection')");
		$self->until_done("SELECT stream.resume_projection('$projection')");
		$self->until_done("DO \$\$ BEGIN IF to_regclass('elsewhere_$number') IS NOT NULL THEN " . rename_back($number, $target) . '; END IF; END $$');
		$self->until_done(alone(grants($target)));
	}
	return;
}

sub rename_back
{
	my ($number, $target) = @_;
	return "ALTER TABLE elsewhere_$number RENAME TO $target";
}

sub grants
{
	my ($target) = @_;
	return ("GRANT SELECT ON streams.stress TO $role", "GRANT INSERT, UPDATE ON $target TO $role");
}

# PostgreSQL lets only one session at a time change a table's privileges, or make an index of
# a name: another one fails, with an error of its catalogs.
sub alone
{
	return 'DO $$ BEGIN PERFORM pg_advisory_xact_lock(1); ' . join('', map { "$_; " } @_) . 'END $$';
}

# What an error means that nothing is wrong with: there is no such projection just now, there
# is one, its target has another name, or has the column or index, its role may not do it.
my %fine = map { $_ => 1 } qw(42704 42710 42P01 42701 42703 42P07 42501);

# steps(SQL...): each in a transaction of its own, with a pause between; the last one until it works.
sub steps
{
	my ($self, $count, @sql) = @_;
	my $last = pop @sql;
	foreach (@sql)
	{
		my $result = $self->query($_, code => \%fine);
		return if $result->{error};
		$self->nap($self->between(1, 200) / 1000);
	}
	while (1)
	{
		my $result = $self->query($last, code => \%fine);
		last if !$result->{lost} && (!$result->{error} || $fine{ $result->{error}{code} });
		$self->nap(0.02);
	}
	$self->count($count);
	return;
}

# One transaction, which can fail or be taken back.
sub transaction
{
	my ($self, $count, @sql) = @_;
	my $end = $self->weighted([ 4, 'COMMIT' ], [ 1, 'ROLLBACK' ]);
	$self->query('BEGIN');
	foreach (@sql)
	{
		return if !$self->{session};
		my $result = $self->query($_, code => \%fine);
		$end = 'ROLLBACK' if $result->{error};
		last if $result->{error} || $result->{lost};
	}
	return if !$self->{session};
	$self->query($end);
	$self->count($count) if $end eq 'COMMIT';
	return;
}

sub change
{
	my ($self, $projection, $number, $recreated, $target) = @_;
	my $nap = $self->weighted([ 1, 0 ], [ 3, $self->between(1, 150) / 1000 ]);
	my $what = $self->weighted([ 3, 'pause' ], [ 3, 'alter' ], [ 2, 'drop' ], [ 3, 'lock' ], [ 3, 'rows' ],
		[ 2, 'rename' ], [ 2, 'column' ], [ 1, 'index' ], [ 1, 'revoke' ], [ 2, 'retry' ]);
	my $create = "SELECT begin_projection('$projection', '"
	  . $self->weighted([ 2, 'latest' ], [ 1, 'earliest' ], [ 1, 'offset ' . $self->between(0, 5000) ]) . "')";

	return $self->steps('changes_of_projections', "SELECT stream.pause_projection('$projection')",
		"SELECT stream.resume_projection('$projection')")
	  if $what eq 'pause';
	return $self->transaction('changes_of_projections', "SELECT stream.alter_projection('$projection', workers => "
		  . $self->between(1, 4) . ', batch_records => ' . $self->weighted([ 2, 0 ], [ 1, $self->between(1, 50) ], [ 1, 2000 ]) . ')')
	  if $what eq 'alter';
	return $self->transaction('recreations', "SELECT end_projection('$projection')",
		$self->chance(0.2) ? ("SAVEPOINT a", $create, 'ROLLBACK TO a') : (), $create)
	  if $what eq 'drop' && $recreated eq 't';
	return $self->transaction('locks', "LOCK TABLE $target IN "
		  . $self->weighted([ 2, 'ACCESS EXCLUSIVE' ], [ 1, 'SHARE' ]) . ' MODE', "SELECT pg_sleep($nap)")
	  if $what eq 'lock';
	# those that fail again stay
	return $self->transaction('retries', 'UPDATE divisor SET n = ' . $self->weighted([ 3, 1 ], [ 1, 0 ]),
		"SELECT count(nullif(applied, false)) FROM stream.retry_dead_letters('picked', max_records => " . $self->between(1, 20) . ')',
		'UPDATE divisor SET n = 0')
	  if $what eq 'retry';
	# against the order in which a projection locks them
	return $self->transaction('locks',
		"SELECT FROM (SELECT ctid FROM $target ORDER BY random() LIMIT 3) r JOIN $target t USING (ctid) FOR UPDATE OF t",
		"SELECT pg_sleep($nap)", "SELECT FROM (SELECT ctid FROM $target ORDER BY random() LIMIT 3) r JOIN $target t USING (ctid) FOR UPDATE OF t")
	  if $what eq 'rows';
	return $self->steps('changes_of_targets', "ALTER TABLE $target RENAME TO elsewhere_$number", rename_back($number, $target))
	  if $what eq 'rename';
	return $self->steps('changes_of_targets', "ALTER TABLE $target ADD COLUMN more int DEFAULT 1", "ALTER TABLE $target DROP COLUMN more")
	  if $what eq 'column' && $projection =~ /newest|totals|extremes/;
	return $self->steps('changes_of_targets', alone("CREATE INDEX index_$number ON $target ((1))"), "DROP INDEX index_$number")
	  if $what eq 'index';
	return $self->steps('changes_of_targets', alone($self->weighted([ 1, "REVOKE SELECT ON streams.stress FROM $role" ],
				[ 1, "REVOKE INSERT, UPDATE ON $target FROM $role" ])), alone(grants($target)))
	  if $what eq 'revoke';
	return;
}

1;
