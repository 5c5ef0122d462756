# A consumer's effects and its offset commit together: consumers, publishers and the
# server are killed in mid-load, and each record's effect is there exactly once.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_node('consume_crash', conf => [ 'restart_after_crash = on', 'autovacuum_naptime = 1' ]);

sub sql
{
	return $node->safe_psql('postgres', shift);
}

sql(q{
	SELECT stream.create_stream('log', 4);
	SELECT stream.create_consumer_group('log', 'g');
	CREATE TABLE effects ("partition" int, record_offset bigint, value jsonb);
	CREATE TABLE state ("partition" int PRIMARY KEY, last_offset bigint NOT NULL);
	INSERT INTO state SELECT p, -1 FROM generate_series(0, 3) p;
	-- what depends on the order as well
	CREATE FUNCTION apply(n int) RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		r record;
		done bigint := 0;
	BEGIN
		FOR r IN SELECT * FROM stream.consume('log', 'g', n) LOOP
			INSERT INTO effects VALUES (r."partition", r.record_offset, r.value);
			UPDATE state SET last_offset = r.record_offset WHERE "partition" = r."partition" AND last_offset < r.record_offset;
			IF NOT FOUND THEN
				RAISE EXCEPTION 'partition % goes back to %', r."partition", r.record_offset USING ERRCODE = 'data_exception';
			END IF;
			done := done + 1;
		END LOOP;
		RETURN done;
	END $$;
	CREATE PROCEDURE consume_loop() LANGUAGE plpgsql AS $$
	BEGIN
		LOOP
			IF random() < 0.2 THEN
				BEGIN
					PERFORM apply(7);
					RAISE 'undo';
				EXCEPTION WHEN raise_exception THEN NULL;
				END;
			END IF;
			PERFORM apply((random() * 20)::int);
			PERFORM pg_sleep(random() * 0.005);
			IF random() < 0.2 THEN ROLLBACK; ELSE COMMIT; END IF;
			PERFORM stream.wait_for_records('log', 'g', '100 ms');
			COMMIT;
		END LOOP;
	END $$;
	CREATE PROCEDURE publish_loop() LANGUAGE plpgsql AS $$
	BEGIN
		LOOP
			FOR i IN 1 .. (random() * 5)::int LOOP
				PERFORM stream.publish('log', NULL, to_jsonb(i), NULL, (random() * 3)::int);
			END LOOP;
			PERFORM pg_sleep(random() * 0.003);
			IF random() < 0.2 THEN ROLLBACK; ELSE COMMIT; END IF;
		END LOOP;
	END $$;
});

# start(PROCEDURE): a client that runs it until it is killed
sub start
{
	my ($procedure) = @_;
	my ($in, $out) = ('', '');

	return IPC::Run::start [ 'psql', '-X', '-q', '-d', $node->connstr('postgres'), '-c', "CALL $procedure()" ],
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

# check(TEST): the rest is consumed; then effects and log are the same.
sub check
{
	my ($test) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_until('publishers have gone', sub { return sql(q{SELECT count(*) FROM pg_stat_activity WHERE query ~ '_loop'
		AND pid <> pg_backend_pid()}) eq '0' });
	my $done = sql('SELECT count(*) FROM effects');
	1 while sql('SELECT apply(1000)') > 0;
	is( sql(q{
		WITH log AS (SELECT "partition", record_offset, value FROM streams.log)
		SELECT (SELECT count(*) FROM (TABLE log EXCEPT ALL TABLE effects) m) AS missing,
			(SELECT count(*) FROM (TABLE effects EXCEPT ALL TABLE log) d) AS more}),
		'0|0',
		"$test: each record's effect is there once");
	is(sql('SELECT sum(lag) FROM stream.consumer_lag'), '0', "$test: lag is zero");
	cmp_ok($done, '>', 0, "$test: something was consumed under load ($done)");
	log_is_sound($node, 'postgres', 'log', "$test: the log is sound");
	return;
}

#
# A consumer's backend is killed, which restarts the server.
#
sql(q{SELECT stream.publish('log', NULL, to_jsonb(i), NULL, i % 4) FROM generate_series(0, 99) i});
my $consumer = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $consumer->query_safe('SELECT pg_backend_pid()');
is($consumer->query_safe('BEGIN; SELECT apply(30)'), '30', 'a consumer in mid-transaction');
is(sql(q{SELECT DISTINCT pid FROM stream.consumer_lag WHERE pid IS NOT NULL}), $pid, 'the view names it');
# let the dying transaction's rows reach the disk
sql('CHECKPOINT');
kill 'KILL', $pid;
wait_until_gone($pid);
end_session($consumer);
$node->poll_query_until('postgres', 'SELECT true') or BAIL_OUT('the server does not come back');
is(sql('SELECT count(*) FROM effects'), '0', 'nothing of it is there');
is(sql('SELECT apply(1000)'), '100', 'the next one gets all its records');
check('kill -9 of a consumer');

#
# The same under load.
#
my @clients = ((map { start('publish_loop') } 1 .. 2), (map { start('consume_loop') } 1 .. 3));
sleep(1.5);
$pid = sql(q{SELECT pid FROM pg_stat_activity WHERE query = 'CALL consume_loop()' LIMIT 1});
kill 'KILL', $pid;
wait_until_gone($pid);
stop(@clients);
$node->poll_query_until('postgres', 'SELECT true') or BAIL_OUT('the server does not come back');
check('kill -9 under load');

#
# Terminated, one after the other, while the others go on.
#
@clients = ((map { start('publish_loop') } 1 .. 2), (map { start('consume_loop') } 1 .. 4));
for (1 .. 8)
{
	sleep(0.2);
	sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'CALL consume_loop()' ORDER BY random() LIMIT 1});
	push @clients, start('consume_loop');
}
sql(q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query ~ '_loop' AND pid <> pg_backend_pid()});
stop(@clients);
check('consumers terminated');

#
# The whole server.
#
for my $round (1 .. 2)
{
	@clients = ((map { start('publish_loop') } 1 .. 2), (map { start('consume_loop') } 1 .. 3));
	sleep(1.5);
	crash($node);
	stop(@clients);
	$node->start;
	check("crash $round");
}

# No consumer met an error but those that were meant.
unlike(slurp_file($node->logfile), qr/ERROR:  (?!canceling|stopped)/, 'no consumer failed');

$node->stop;
done_testing();
