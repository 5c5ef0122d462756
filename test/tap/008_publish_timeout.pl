# stream.publish_timeout ends a transaction that holds a watermark back, idle or busy.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('timeout', conf => ['autovacuum = off']);
$node->safe_psql('postgres', q{SELECT stream.create_stream('s', 2)});
my $message =
  qr/session terminated because its transaction held back a high watermark for longer than stream\.publish_timeout/;

# publisher(SETTING): a session with an open transaction that has published to partition 0.
sub publisher
{
	my ($timeout) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);

	$session->query_safe("SET stream.publish_timeout = '$timeout'");
	$session->{pid} = $session->query_safe('SELECT pg_backend_pid()');
	$session->query_safe('BEGIN');
	$session->{offset} = $session->query_safe(
		q{SELECT stream.offset_of(stream.publish('s', 'k', '{"from": "slow"}'::jsonb, partition => 0))});
	return $session;
}

# publish_behind: another session commits a record behind it, and returns its position.
sub publish_behind
{
	return $node->safe_psql('postgres',
		q{SELECT stream.publish('s', 'k', '{"from": "fast"}'::jsonb, partition => 0)});
}

# is_ended(SESSION, POSITION, LOG, TEST): a waiter for what is behind gets through, since
# the session's end moves the watermark.
sub is_ended
{
	my ($session, $position, $log, $test) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($node->safe_psql('postgres', qq{SELECT stream.wait_for_offset('s', '$position', '50 s')}),
		't', "$test: who waits behind it gets through");
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $session->{pid}");
	ok($node->wait_for_log(qr/\[$session->{pid}\].*$message/, $log),
		"$test: the log says why the session was ended");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM stream.open_publishers'),
		'0', "$test: nobody holds back");
	is( $node->safe_psql(
			'postgres',
			qq{SELECT count(*) FROM stream.read('s', 0, $session->{offset}, 1) WHERE record_offset = $session->{offset}}
		),
		'0',
		"$test: its record is not there");
	end_session($session);
	return;
}

#
# Idle in the transaction
#
my $log = -s $node->logfile;
my $slow = publisher('500ms');
my $position = publish_behind();
is_ended($slow, $position, $log, 'idle');

# An error does not stop the clock when the transaction goes on
$log = -s $node->logfile;
$slow = publisher('1s');
$position = publish_behind();
eval { $slow->query('SAVEPOINT a; SELECT 1 / 0') };
eval { $slow->query('ROLLBACK TO a') };
is_ended($slow, $position, $log, 'after an error');

#
# Busy: in a statement that takes long, sleeping or computing
#
foreach my $statement (q{SELECT pg_sleep(600)}, q{DO 'BEGIN LOOP NULL; END LOOP; END'})
{
	$log = -s $node->logfile;
	$slow = publisher('500ms');
	$position = publish_behind();
	$slow->{stdin} .= "$statement;\n";
	$slow->{run}->pump_nb;
	is_ended($slow, $position, $log, "busy with $statement");
}

#
# Not ended: those that committed or rolled back in time, that have published nothing,
# whose publishing was rolled back, and those without a timeout.
#
$log = -s $node->logfile;
my %kept = (
	'a transaction that has ended' => q{BEGIN; SELECT stream.publish('s', 'k', '{}'::jsonb); COMMIT},
	'one that was rolled back' => q{BEGIN; SELECT stream.publish('s', 'k', '{}'::jsonb); ROLLBACK},
	'one without a publish' => q{BEGIN; SELECT 1},
	'one that rolled back to a savepoint' =>
	  q{BEGIN; SAVEPOINT a; SELECT stream.publish('s', 'k', '{}'::jsonb); ROLLBACK TO a});
my %sessions;
foreach my $test (sort keys %kept)
{
	$sessions{$test} = $node->background_psql('postgres', on_error_stop => 0);
	$sessions{$test}->query_safe(q{SET stream.publish_timeout = '200ms'});
	$sessions{$test}->query_safe($kept{$test});
}
$slow = publisher('0');
$position = publish_behind();

# A publisher that began after all of these has been ended, so they have had their time.
my $last = publisher('500ms');
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $last->{pid}");
end_session($last);
foreach my $test (sort keys %sessions)
{
	is(eval { $sessions{$test}->query('SELECT 1') } // 'gone', '1', "not ended: $test");
	end_session($sessions{$test});
}
is($node->safe_psql('postgres', 'SELECT pid FROM stream.open_publishers'),
	$slow->{pid}, 'not ended: a publisher without a timeout');
is($node->safe_psql('postgres', qq{SELECT stream.wait_for_offset('s', '$position', '0 s')}),
	'f', 'it holds the watermark back');
$slow->query_safe('COMMIT');
is($node->safe_psql('postgres', qq{SELECT stream.wait_for_offset('s', '$position', '0 s')}),
	't', 'until it commits');
is( $node->safe_psql('postgres', qq{SELECT value FROM stream.read('s', 0, $slow->{offset}, 1)}),
	'{"from": "slow"}',
	'whose record is there at last');
$slow->quit;

# The clock starts anew with each transaction.
$slow = publisher('60s');
$slow->query_safe('COMMIT');
$slow->query_safe(q{SET stream.publish_timeout = '500ms'});
$log = -s $node->logfile;
$slow->query_safe('BEGIN');
$slow->{offset} =
  $slow->query_safe(q{SELECT stream.offset_of(stream.publish('s', 'k', '{}'::jsonb, partition => 0))});
$position = publish_behind();
is_ended($slow, $position, $log, 'a second transaction');

# The setting of a server or a database is one that DBAs can make.
$node->append_conf('postgresql.conf', q{stream.publish_timeout = '500ms'});
$node->reload;
$log = -s $node->logfile;
$slow = $node->background_psql('postgres', on_error_stop => 0);
$slow->{pid} = $slow->query_safe('SELECT pg_backend_pid()');
$slow->query_safe('BEGIN');
$slow->{offset} =
  $slow->query_safe(q{SELECT stream.offset_of(stream.publish('s', 'k', '{}'::jsonb, partition => 0))});
$position = publish_behind();
is_ended($slow, $position, $log, 'set in postgresql.conf');
log_is_sound($node, 'postgres', 's', 'the log is sound');

$node->stop;
done_testing();
