# A batch's effects and its offset commit together: appliers, publishers and the server
# are killed in mid-load, and every projection equals what its log comes to, also sums,
# counts and plain inserts, which show each record that is applied twice or not at all.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_node('projection_crash',
	conf => [ 'restart_after_crash = on', 'autovacuum_naptime = 1', 'stream.min_retry_delay = 20ms', 'stream.max_appliers = 3' ]);

sub sql
{
	return $node->safe_psql('postgres', shift);
}

sql(q{
	SELECT stream.create_stream('log', 4);
	CREATE TABLE totals (k text PRIMARY KEY, events bigint, total numeric, last bigint);
	SELECT stream.create_projection('totals', 'log', 'totals',
		query => $$ SELECT key AS k, count(*) AS events, sum((value->>'n')::int) AS total, max((value->>'n')::bigint) AS last
			FROM batch GROUP BY 1 $$,
		merge => '{"events": "sum", "total": "sum", "last": "max"}', workers => 3);
	CREATE TABLE copies ("partition" int, record_offset bigint, key text, n int);
	SELECT stream.create_projection('copies', 'log',
		statement => $$ INSERT INTO copies SELECT "partition", record_offset, key, (value->>'n')::int FROM batch $$, workers => 2);
	-- some records are at fault
	CREATE TABLE inverses ("partition" int, record_offset bigint, x numeric);
	SELECT stream.create_projection('inverses', 'log',
		statement => $$ INSERT INTO inverses SELECT "partition", record_offset, 1.0 / ((value->>'n')::int % 50) FROM batch $$,
		on_error => 'dead_letter', batch_records => 100);
	CREATE PROCEDURE publish_loop() LANGUAGE plpgsql AS $$
	BEGIN
		LOOP
			FOR i IN 1 .. (random() * 20)::int LOOP
				PERFORM stream.publish('log', 'k' || (random() * 30)::int, jsonb_build_object('n', (random() * 10000)::int), NULL, (random() * 3)::int);
			END LOOP;
			PERFORM pg_sleep(random() * 0.003);
			IF random() < 0.2 THEN ROLLBACK; ELSE COMMIT; END IF;
		END LOOP;
	END $$;
});

sub start
{
	my ($in, $out) = ('', '');

	return IPC::Run::start [ 'psql', '-X', '-q', '-d', $node->connstr('postgres'), '-c', 'CALL publish_loop()' ],
	  '<', \$in, '>&', \$out, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);
}

sub stop
{
	my (@clients) = @_;

	foreach my $client (@clients)
	{
		$client->kill_kill(grace => 1);
	}
	return;
}

sub applier
{
	my $pid = '';

	wait_until('an applier runs', sub { return ($pid = sql(q{SELECT pid FROM pg_stat_activity
		WHERE backend_type = 'stream applier' ORDER BY random() LIMIT 1})) ne '' });
	return $pid;
}

# check(TEST): all is applied, exactly once.
sub check
{
	my ($test) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $done = sql('SELECT count(*) FROM copies');
	wait_until('publishers have gone', sub { return sql(q{SELECT count(*) FROM pg_stat_activity WHERE query ~ '_loop'
		AND pid <> pg_backend_pid()}) eq '0' });
	is(sql(q{SET stream.max_wait = '3 min'; SELECT bool_and(stream.wait_for(p, timeout => '3 min')) FROM unnest(ARRAY['totals', 'copies', 'inverses']) p}),
		't', "$test: all is applied");
	is( sql(q{
		WITH log AS (SELECT key AS k, count(*) AS events, sum((value->>'n')::int) AS total, max((value->>'n')::bigint) AS last
			FROM streams.log GROUP BY 1)
		SELECT (SELECT count(*) FROM (TABLE log EXCEPT ALL TABLE totals) m), (SELECT count(*) FROM (TABLE totals EXCEPT ALL TABLE log) d)}),
		'0|0', "$test: sums and counts are right");
	is( sql(q{
		WITH log AS (SELECT "partition", record_offset, key, (value->>'n')::int AS n FROM streams.log)
		SELECT (SELECT count(*) FROM (TABLE log EXCEPT ALL TABLE copies) m), (SELECT count(*) FROM (TABLE copies EXCEPT ALL TABLE log) d)}),
		'0|0', "$test: each record is inserted once");
	is( sql(q{
		WITH log AS (SELECT "partition", record_offset, (value->>'n')::int % 50 = 0 AS bad FROM streams.log),
			good AS (SELECT "partition", record_offset FROM log WHERE NOT bad),
			bad AS (SELECT "partition", record_offset FROM log WHERE bad),
			done AS (SELECT "partition", record_offset FROM inverses),
			letters AS (SELECT "partition", record_offset FROM stream.dead_letters WHERE projection = 'inverses' AND sqlstate = '22012')
		SELECT (SELECT count(*) FROM (TABLE good EXCEPT ALL TABLE done) a), (SELECT count(*) FROM (TABLE done EXCEPT ALL TABLE good) b),
			(SELECT count(*) FROM (TABLE bad EXCEPT ALL TABLE letters) c), (SELECT count(*) FROM (TABLE letters EXCEPT ALL TABLE bad) d)}),
		'0|0|0|0', "$test: each record is applied, or put aside, once");
	is(sql(q{SELECT string_agg(DISTINCT state, ','), sum(lag) FROM stream.projection_status}), 'running|0', "$test: nothing is left");
	cmp_ok($done, '>', 0, "$test: something was applied under load ($done)");
	return;
}

# An applier is killed, which restarts the server.
my @clients = map { start() } 1 .. 3;
sleep(1.5);
my $pid = applier();
kill 'KILL', $pid;
wait_until_gone($pid);
stop(@clients);
$node->poll_query_until('postgres', 'SELECT true') or BAIL_OUT('the server does not come back');
check('kill -9 of an applier');

# Appliers are terminated one after the other, as by an administrator.
@clients = map { start() } 1 .. 3;
for (1 .. 6)
{
	sleep(0.3);
	$pid = applier();
	sql("SELECT pg_terminate_backend($pid)");
}
sql(q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query ~ '_loop' AND pid <> pg_backend_pid()});
stop(@clients);
check('appliers terminated');

# What they do is cancelled: circumstances, for which no record is put aside.
@clients = map { start() } 1 .. 3;
for (1 .. 10)
{
	sleep(0.1);
	sql(q{SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'stream applier'});
}
sql(q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query ~ '_loop' AND pid <> pg_backend_pid()});
stop(@clients);
check('appliers cancelled');

# The whole server.
for my $round (1 .. 2)
{
	@clients = map { start() } 1 .. 3;
	sleep(1.5);
	crash($node);
	stop(@clients);
	$node->start;
	check("crash $round");
}

# and an orderly restart under load
@clients = map { start() } 1 .. 3;
sleep(1);
$node->restart;
stop(@clients);
check('restart');

$node->stop;
done_testing();
