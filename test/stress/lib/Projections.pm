package Projections;

# What projections must have come to when nobody publishes any more.  SQL is a function that
# runs a query and returns its rows.

use strict;
use warnings;

use Time::HiRes qw(time sleep);

# check(SQL, PATIENCE): findings: everything is applied, and each target equals its
# recomputation.
sub check
{
	my ($sql, $patience) = @_;
	my @findings;
	foreach (map { $_->[0] } $sql->('SELECT projection FROM projected ORDER BY projection'))
	{
		my $until = time() + $patience;
		my $done = 'f';
		while ($done ne 't' && time() < $until)
		{
			$sql->('SELECT skip_stopped()');
			# long after a long run: one wait for each record that is to be skipped
			$done = ($sql->("SELECT stream.wait_for('$_', timeout => '50 ms')"))[0][0];
		}
		push @findings, "$_ did not come to the log's end: " . reason($sql, $_) if $done ne 't';
	}
	foreach my $name (map { $_->[0] } $sql->('SELECT projection FROM projected ORDER BY projection'))
	{
		push @findings, map { "$name: $_->[0]" } $sql->("SELECT differences('$name')");
	}
	# what was published came out once, and where the server said
	my $told = q{SELECT "partition" || ':' || record_offset, "position" FROM echo};
	my $found = q{SELECT value->>'of', stream.record_position("partition", record_offset) FROM streams.echoed};
	push @findings, map { "echoed: $_->[0]" }
	  $sql->("SELECT 'missing: ' || e::text FROM ($told EXCEPT ALL $found) e UNION ALL "
		  . "SELECT 'too much: ' || e::text FROM ($found EXCEPT ALL $told) e ORDER BY 1 LIMIT 20");
	return @findings;
}

# reason(SQL, PROJECTION): why it does not get on.
sub reason
{
	my ($sql, $name) = @_;
	return join('; ', map { "partition $_->[0], offset $_->[1]: $_->[2] $_->[3]" }
		  $sql->('SELECT "partition", record_offset, sqlstate, message FROM stream_internal.projection_errors '
			  . "JOIN stream_internal.projections USING (projection_id) WHERE projection = '$name'")) || 'no error';
}

# drop(SQL, PATIENCE): findings: nothing of a dropped projection is left, and no applier runs.
sub drop
{
	my ($sql, $patience) = @_;
	my $until = time() + $patience;
	my $appliers;
	$sql->('SELECT stream.drop_projection(projection) FROM projected');
	do
	{
		$appliers = ($sql->("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'stream applier'"))[0][0];
		sleep(0.05) if $appliers;
	} while ($appliers && time() < $until);
	my @findings = $appliers ? "$appliers appliers are still there" : ();
	push @findings, map { "left in $_->[0]: number $_->[1]" }
	  $sql->("SELECT 'offsets', group_id FROM stream_internal.offsets UNION SELECT 'dead_letters', group_id FROM stream_internal.dead_letters "
		  . "UNION SELECT 'projection_errors', projection_id FROM stream_internal.projection_errors "
		  . "EXCEPT SELECT t, group_id FROM stream_internal.consumer_groups, unnest('{offsets,dead_letters}'::text[]) t");
	return @findings;
}

1;
