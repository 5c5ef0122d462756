# Offsets of consumer groups survive restart, crash, and dump and restore.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('consume_restart');

sub sql
{
	my ($sql, $db) = @_;

	return $node->safe_psql($db // 'postgres', $sql);
}

my $offsets = q{SELECT consumer_group, stream, "partition", committed_offset, high_watermark, lag, committed_at, records_skipped
	FROM stream.consumer_lag ORDER BY 1, 2, 3};
my $groups = q{SELECT consumer_group, on_offset_out_of_range, max_poll_interval, paused, created_at
	FROM stream_internal.consumer_groups ORDER BY stream_id, 1};

sub at
{
	my ($stream) = @_;

	return sql(qq{SELECT committed_offset, high_watermark, lag, lag_seconds FROM stream.consumer_lag
		WHERE stream = '$stream' AND "partition" = 0});
}

sub take
{
	my ($stream, $db) = @_;

	return sql(qq{SELECT record_offset FROM stream.consume('$stream', 'g', NULL, autocommit => true)}, $db) =~ s/\n/ /gr;
}

#
# A rolled-back tail that is consumed before a restart.
#
foreach my $mode ('fast', 'immediate')
{
	my $stream = "tail_$mode";

	sql(qq{
		SELECT stream.create_stream('$stream');
		SELECT stream.create_consumer_group('$stream', 'g');
		SELECT stream.publish('$stream', NULL, to_jsonb(i)) FROM generate_series(0, 4) i;
		BEGIN;
		SELECT stream.publish('$stream', NULL, '0') FROM generate_series(5, 7);
		ROLLBACK;
	});
	is(take($stream), '0 1 2 3 4', "$mode: the records are consumed");
	is(at($stream), '8|8|0|0', "$mode: and the tail is passed");
	$node->stop($mode);
	$node->start;
	is(at($stream), '8|5|0|0', "$mode: the committed offset is above the log's end, which is no lag");
	is(take($stream), '', "$mode: nothing to consume");
	is(at($stream), '8|5|0|0', "$mode: which moves nothing");
	is(sql("SELECT stream.wait_for_records('$stream', 'g', '0')"), 'f', "$mode: and nothing to wait for");
	is(sql("SELECT new_offset, note FROM stream.reset_offsets('$stream', 'g', 'offset 6')"),
		'5|lowered to the high watermark', "$mode: a reset ends at the log's end");

	my $next = sql(qq{SELECT stream.offset_of(stream.publish('$stream', NULL, '"new"'))});
	cmp_ok($next, '>=', 8, "$mode: no offset is given again");
	is(sql("SELECT lag FROM stream.consumer_lag WHERE stream = '$stream'"), '1', "$mode: the gap is no lag");
	is(take($stream), $next, "$mode: the group goes on with the new record");
	is(at($stream), join('|', $next + 1, $next + 1, 0, 0), "$mode: and is at the end");
}

#
# Restart, clean and not.
#
sql(q{
	SELECT stream.create_stream('log', 3);
	SELECT stream.create_consumer_group('log', 'g');
	SELECT stream.create_consumer_group('log', 'Odd "name", ünï', 'offset 5', 'latest', '90 s');
	SELECT stream.create_consumer_group('log', 'paused', 'latest');
	SELECT stream.pause_consumer_group('log', 'paused');
	SELECT stream.publish('log', NULL, to_jsonb(i), NULL, i % 3) FROM generate_series(0, 299) i;
});
sql(q{DO $$ BEGIN FOR i IN 1 .. 200 LOOP PERFORM FROM stream.consume('log', 'g', 1); COMMIT; END LOOP; END $$});
sql(q{CALL stream.roll_segment('log')});
my %before = (offsets => sql($offsets), groups => sql($groups));
my $open = $node->background_psql('postgres', on_error_stop => 0);
$open->query_safe(q{BEGIN; SELECT count(*) FROM stream.consume('log', 'g', 50)});
$node->stop('immediate');
end_session($open);
$node->start;
is(sql($offsets), $before{offsets}, 'immediate stop: the same offsets');
is(sql($groups), $before{groups}, 'immediate stop: the same groups');
$node->restart;
is(sql($offsets), $before{offsets}, 'restart: the same offsets');

#
# Dump and restore.
#
sql(q{
	SELECT stream.create_stream('poison');
	SELECT stream.create_consumer_group('poison', 'p');
	SELECT stream.publish('poison', 'k', to_jsonb(i)) FROM generate_series(0, 1) i;
	SELECT stream.skip_record('poison', 'p', '0:0', 'cannot be parsed');
});
my $letters = q{SELECT * FROM stream.dead_letters};
my $letter = sql($letters);
%before = (%before, offsets => sql($offsets), groups => sql($groups));
my $dump = "$PostgreSQL::Test::Utils::tmp_check/consume.dump";
my ($stdout, $stderr);
foreach my $format ('plain', 'custom')
{
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	my $db = "restored_$format";

	command_ok([ 'pg_dump', "--format=$format", '-f', "$dump.$format", 'postgres' ], "$format: pg_dump");
	sql("CREATE DATABASE $db");
	command_ok(
		$format eq 'plain'
		? [ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$dump.$format", $db ]
		: [ 'pg_restore', '--exit-on-error', '-d', $db, "$dump.$format" ],
		"$format: restored");
	is(sql($offsets, $db), $before{offsets}, "$format: the same offsets");
	is(sql($groups, $db), $before{groups}, "$format: the same groups");
	is(sql($letters, $db), $letter, "$format: the same dead letters");
	is( sql(q{SELECT stream.skip_record('poison', 'p', '0:1', 'neither'); SELECT max(dead_letter_id) FROM stream.dead_letters}, $db),
		"\n2", "$format: the next one has a number of its own");
	is( sql(q{SELECT count(*) FROM stream.consume('log', 'g', NULL, autocommit => true)}, $db),
		'100', "$format: the group goes on where it was");
	sql(q{SELECT stream.create_consumer_group('log', 'new')}, $db);
	is( sql(q{SELECT count(*) FROM stream.consume('log', 'new', NULL, autocommit => true)}, $db),
		'300', "$format: a new group has a number of its own");
	sql(q{SELECT stream.drop_consumer_group('log', 'new')}, $db);
	is(sql(q{SELECT sum(lag) FROM stream.consumer_lag WHERE consumer_group = 'g'}, $db), '0', "$format: nobody else's offsets changed");
}
is(sql($offsets), $before{offsets}, 'the original is as it was');

# A group in another database shares nothing with one of the same number.
$open = $node->background_psql('restored_plain', on_error_stop => 0);
$open->query_safe(q{BEGIN; SELECT stream.publish('log', NULL, '1', NULL, 0)});
$open->query_safe(q{COMMIT; BEGIN; SELECT count(*) FROM stream.consume('log', 'g')});
is(sql(q{SELECT count(*) FROM stream.consume('log', 'g', NULL, autocommit => true)}), '100', 'databases do not lock each other out');
$open->query_safe('ROLLBACK');
$open->quit;

$node->stop;
done_testing();
