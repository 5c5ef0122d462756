# An applier that hangs, dies or is held up: what it did not commit is not there, nobody
# else applies the same records beside it, and its late commit is the only one.  Errors
# are shown, logged once, and survive a restart.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('projection_hung', conf => [ 'stream.min_retry_delay = 10ms', 'stream.max_retry_delay = 100ms' ]);

sub sql
{
	return $node->safe_psql('postgres', shift);
}

# held_up(): waits until an applier waits for a lock, and returns its pid.
sub held_up
{
	my $pid = '';

	wait_until('an applier is held up', sub { return ($pid = sql(q{SELECT pid FROM pg_stat_activity
		WHERE backend_type = 'stream applier' AND wait_event_type = 'Lock'})) ne '' });
	return $pid;
}

# state_is(STATE, SQLSTATE, TEST)
sub state_is
{
	my ($state, $code, $test) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_until($test, sub { return sql(q{SELECT state, sqlstate FROM stream.projection_status}) eq "$state|$code" });
	pass($test);
	return;
}

sub applied
{
	my ($wanted, $test) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(sql(q{SELECT stream.wait_for('p', timeout => '60 s')}), 't', "$test: applied");
	is(sql('SELECT n FROM target'), $wanted, "$test: once");
	return;
}

# logged(ERROR): entries in the server's log so far
sub logged
{
	my ($error) = @_;

	return scalar(() = slurp_file($node->logfile) =~ /cannot apply offset \d+: $error/g);
}

sql(q{
	SELECT stream.create_stream('log', 1);
	CREATE TABLE target (k text PRIMARY KEY, n bigint);
	SELECT stream.create_projection('p', 'log', 'target',
		query => 'SELECT key AS k, sum((value->>0)::bigint) AS n FROM batch GROUP BY 1', merge => '{"n": "sum"}', workers => 2);
	SELECT stream.publish('log', 'k', '[1]');
});
applied(1, 'the first record');

# A holder of a row holds an applier up.  It is terminated; another one takes over, and is
# held up as well.
my $holder = $node->background_psql('postgres');
$holder->query_safe(q{BEGIN; UPDATE target SET n = n});
sql(q{SELECT stream.publish('log', 'k', '[1]')});
my $pid = held_up();
is(sql(q{SELECT pid FROM stream.projection_partition_status}), $pid, 'the view names the applier');
is(sql(q{SELECT stream.wait_for('p', timeout => '0.1 s')}), 'f', 'nothing is applied meanwhile');
sql("SELECT pg_terminate_backend($pid)");
wait_until_gone($pid);
my $next = held_up();
isnt($next, $pid, 'another applier takes over');
$holder->query_safe('COMMIT');
applied(2, 'after a termination');

# One that is stopped in mid-batch keeps the partition: others leave it alone, and what
# needs the partition fails or waits.  It goes on, and commits late, alone.
$holder->query_safe(q{BEGIN; UPDATE target SET n = n});
sql(q{SELECT stream.publish('log', 'k', '[1]')});
$pid = held_up();
freeze_process($pid);
$holder->query_safe('COMMIT');
sql(q{SELECT stream.publish('log', 'k', '[1]') FROM generate_series(1, 10)});
is(sql(q{SELECT stream.wait_for('p', timeout => '0.5 s')}), 'f', 'nobody applies beside a hung applier');
is(sql('SELECT n FROM target'), '2', 'nor what came later');
error_is($node, 'postgres', q{SET lock_timeout = '100ms'; SELECT stream.skip_projection_record('p', '0:2', 'it hangs')},
	'55P03', 'its record cannot be passed');
error_is($node, 'postgres', q{SET lock_timeout = '100ms'; SELECT stream.drop_projection('p')}, '55P03', 'nor can the projection be dropped');
kill 'CONT', $pid;
applied(13, 'after a hung applier went on');

# The same, but it is killed while it hangs: a late write there is none.
$holder->query_safe(q{BEGIN; UPDATE target SET n = n});
sql(q{SELECT stream.publish('log', 'k', '[1]')});
$pid = held_up();
freeze_process($pid);
$holder->query_safe('COMMIT');
sql("SELECT pg_terminate_backend($pid)");
is(sql(q{SELECT stream.wait_for('p', timeout => '0.2 s')}), 'f', 'a termination waits as long as it hangs');
kill 'CONT', $pid;
wait_until_gone($pid);
applied(14, 'after a hung applier was terminated');

# The offset is held up, when the rows are already written: they are not visible before it
# is, and go with it.
$holder->query_safe(q{BEGIN; LOCK stream_internal.offsets IN SHARE MODE});
sql(q{SELECT stream.publish('log', 'k', '[1]')});
$pid = held_up();
is(sql('SELECT n FROM target'), '14', 'no effect without its offset');
sql("SELECT pg_terminate_backend($pid)");
wait_until_gone($pid);
is(sql('SELECT n FROM target'), '14', 'nor after a termination');
$holder->query_safe('COMMIT');
applied(15, 'when the offset can be written');

# Cancelled: that is no record's fault.
sql(q{SELECT stream.alter_projection('p', on_error => 'dead_letter')});
$holder->query_safe(q{BEGIN; UPDATE target SET n = n});
sql(q{SELECT stream.publish('log', 'k', '[1]')});
$pid = held_up();
sql("SELECT pg_cancel_backend($pid)");
wait_until('the view shows it', sub { return sql('SELECT count(*) FROM stream.projection_status WHERE sqlstate IS NOT NULL') eq '1' });
is(sql('SELECT count(*) FROM stream.dead_letters'), '0', 'a cancelled record is not put aside');
$holder->query_safe('COMMIT');
applied(16, 'after a cancel');
is(sql('SELECT count(*) FROM stream.dead_letters'), '0', 'it is applied instead');

# Dropped while a batch is applied: the drop waits, the batch commits, the rest stays away.
$holder->query_safe(q{BEGIN; UPDATE target SET n = n});
sql(q{SELECT stream.publish('log', 'k', '[1]')});
$pid = held_up();
my $dropper = $node->background_psql('postgres');
$dropper->query_until(qr/begun/, "\\echo begun\nSELECT stream.drop_projection('p');\n");
wait_until('the drop waits', sub { return sql(q{SELECT count(*) FROM pg_stat_activity WHERE query ~ 'drop_projection' AND wait_event_type = 'Lock'}) eq '1' });
$holder->query_safe('COMMIT');
$dropper->quit;
is(sql('SELECT count(*) FROM stream.projection_status'), '0', 'dropped while a batch was applied');
is(sql('SELECT n FROM target'), '17', 'which was committed before');
sql(q{SELECT stream.publish('log', 'k', '[1]')});

# Altered while a batch is applied.
sql(q{
	TRUNCATE target;
	SELECT stream.create_projection('p', 'log', 'target',
		query => 'SELECT key AS k, sum((value->>0)::bigint) AS n FROM batch GROUP BY 1', merge => '{"n": "sum"}', start => 'latest');
	SELECT stream.publish('log', 'k', '[1]');
});
applied(1, 'created anew');
$holder->query_safe(q{BEGIN; UPDATE target SET n = n});
sql(q{SELECT stream.publish('log', 'k', '[1]')});
held_up();
sql(q{SELECT stream.alter_projection('p', on_error => 'dead_letter', batch_records => 7)});
$holder->query_safe('COMMIT');
applied(2, 'altered while a batch was applied');
$holder->query_safe(q{BEGIN; LOCK target});
sql(q{SELECT stream.publish('log', 'k', '["x"]')});
held_up();
sql(q{SELECT stream.alter_projection('p', on_error => 'stop')});
$holder->query_safe(q{ALTER TABLE target ADD note text; COMMIT});
$holder->quit;

# A record at fault: shown, logged once, and still there after a restart.
state_is('stopped', '22P02', 'a record stops the partition');
wait_until('it is retried', sub { return sql('SELECT retries > 5 FROM stream.projection_status') eq 't' });
is(logged('invalid input'), 1, 'the log has one entry');
my $since = sql('SELECT failing_since, error_offset FROM stream.projection_status');
$node->restart;
wait_until('it fails again', sub { return sql('SELECT state FROM stream.projection_status') eq 'stopped' });
is(sql('SELECT failing_since, error_offset FROM stream.projection_status'), $since, 'a restart keeps the error');
is(logged('invalid input'), 1, 'and the log has still one entry');
my ($offset) = $since =~ /\|(\d+)/;
sql("SELECT stream.skip_projection_record('p', stream.record_position(0, $offset), 'x is no number')");
applied(2, 'after passing the record');

# The target is dropped, and restored.
sql('ALTER TABLE target RENAME TO kept');
sql(q{SELECT stream.publish('log', 'k', '[1]')});
state_is('target missing', '42P01', 'the target is missing');
wait_until('it is retried', sub { return sql('SELECT retries > 5 FROM stream.projection_status') eq 't' });
is(logged('target'), 1, 'the log has one entry more');
$node->restart;
state_is('target missing', '42P01', 'also after a restart');
sql('ALTER TABLE kept RENAME TO target');
applied(3, 'the target is back');
is(sql(q{SELECT state, sqlstate, failing_partitions FROM stream.projection_status}), 'running||0', 'all is well again');
is(logged('target'), 1, 'no retry was logged');

# Mended by alter_projection, it does not sit out its delay; nor when nothing is altered.
sql(q{ALTER SYSTEM SET stream.min_retry_delay = '10min'});
sql(q{ALTER SYSTEM SET stream.max_retry_delay = '10min'});
$node->reload;
sql('ALTER TABLE target RENAME TO renamed');
sql(q{SELECT stream.publish('log', 'k', '[1]')});
state_is('target missing', '42P01', 'the target has another name');
sql(q{SELECT stream.alter_projection('p', target => 'renamed')});
is(sql(q{SELECT stream.wait_for('p', timeout => '60 s')}), 't', 'named again, it goes on at once');
sql('ALTER TABLE renamed RENAME TO target');
sql(q{SELECT stream.publish('log', 'k', '[1]')});
state_is('target missing', '42P01', 'the target has another name again');
sql('ALTER TABLE target RENAME TO renamed');
sql(q{SELECT stream.alter_projection('p')});
is(sql(q{SELECT stream.wait_for('p', timeout => '60 s')}), 't', 'looked at again, it goes on at once');
is(sql('SELECT n FROM renamed'), 5, 'each record once');
sql(q{ALTER SYSTEM RESET stream.min_retry_delay});
sql(q{ALTER SYSTEM RESET stream.max_retry_delay});
$node->reload;

# Sizes of batches under a backlog: the setting's, unless the projection has its own.
sql(q{ALTER SYSTEM SET stream.batch_records = 10});
$node->reload;
sql(q{
	CREATE TABLE sizes (which text, n bigint);
	SELECT stream.create_projection('settings', 'log', statement => $$ INSERT INTO sizes SELECT 'setting', count(*) FROM batch $$);
	SELECT stream.create_projection('own', 'log', statement => $$ INSERT INTO sizes SELECT 'own', count(*) FROM batch $$, batch_records => 15);
});
is(sql(q{SELECT bool_and(stream.wait_for(p, timeout => '60 s')) FROM unnest(ARRAY['settings', 'own']) p}), 't', 'both are applied');
is( sql(q{SELECT which, max(n), sum(n) = (SELECT count(*) FROM streams.log) FROM sizes GROUP BY which ORDER BY which}),
	"own|15|t\nsetting|10|t", 'in batches of no more records than they may have');

$node->stop;
done_testing();
