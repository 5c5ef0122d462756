# max_poll_interval: a consumer that holds its partitions for too long is ended with
# its session, and cannot commit what it did.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('poll_interval');

sub sql
{
	return $node->safe_psql('postgres', shift);
}

sql(q{
	SELECT stream.create_stream('log', 2);
	SELECT stream.create_consumer_group('log', 'short', max_poll_interval => '500 ms');
	SELECT stream.create_consumer_group('log', 'long');
	SELECT stream.publish('log', NULL, to_jsonb(i), NULL, i % 2) FROM generate_series(0, 9) i;
	CREATE TABLE effects ("partition" int, record_offset bigint);
});
my $take = q{INSERT INTO effects SELECT "partition", record_offset FROM stream.consume('log', 'short')};

# ended(SESSION, TEST): its session has ended, its effects are not there, its records free.
sub ended
{
	my ($session, $test) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_until("$test ends", sub { return sql(q{SELECT count(*) FROM stream.consumer_lag WHERE pid IS NOT NULL}) eq '0' });
	# there is nobody any more to commit it
	eval { $session->query('COMMIT') } if $session;
	end_session($session) if $session;
	is(sql('SELECT count(*) FROM effects'), '0', "$test: no late commit");
	is(sql(q{SELECT sum(lag) FROM stream.consumer_lag WHERE consumer_group = 'short'}), '10', "$test: no offset has moved");
	is(sql(qq{BEGIN; $take; SELECT count(*) FROM effects; ROLLBACK}), '10', "$test: another one gets the records");
	return;
}

my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe("BEGIN; $take");
ended($session, 'an idle holder');

my ($out, $err) = ('', '');
$node->psql('postgres', "BEGIN; $take; SELECT pg_sleep(60); COMMIT", stdout => \$out, stderr => \$err, on_error_stop => 0);
like($err, qr/terminating connection/, 'a busy holder is told');
ended(undef, 'a busy holder');
$node->psql('postgres', "$take WHERE pg_sleep(60) IS NOT NULL", stdout => \$out, stderr => \$err, on_error_stop => 0);
ended(undef, 'a holder within the statement that consumes');
is(() = slurp_file($node->logfile) =~ /held a partition for longer than its consumer group's max_poll_interval/g,
	3, "the server's log says why");

# The clock starts with the first call, and later ones do not set it back.
$session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe("BEGIN; SELECT count(*) FROM stream.consume('log', 'short', 1)");
eval { $session->query("SELECT count(*) FROM stream.consume('log', 'short', 1), pg_sleep(0.1)") } for 1 .. 7;
ended($session, 'a holder that goes on consuming');

# Nor does an error stop it, when the transaction goes on.
$session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe("BEGIN; $take");
eval { $session->query('SAVEPOINT a; SELECT 1 / 0') };
eval { $session->query('ROLLBACK TO a') };
ended($session, 'a holder that goes on after an error');

# The end of the transaction stops it.
foreach my $end ('COMMIT', 'ROLLBACK')
{
	is( sql(qq{BEGIN; SELECT count(*) FROM stream.consume('log', 'long', 1); $end; SELECT pg_sleep(0.1)}) =~ s/\n//gr,
		'1', "$end within the interval");
}
sql(q{SELECT stream.alter_consumer_group('log', 'long', max_poll_interval => '300 ms')});
foreach my $end ('COMMIT', 'ROLLBACK', 'ROLLBACK; BEGIN')
{
	is( sql(qq{BEGIN; SELECT count(*) FROM stream.consume('log', 'long', 1); $end; SELECT pg_sleep(0.6); SELECT 'alive'}) =~ s/\n//gr,
		'1alive', "$end stops the clock");
}

# Of two groups in a transaction the shorter interval counts.
sql(q{SELECT stream.alter_consumer_group('log', 'long', max_poll_interval => '1 hour')});
$session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe("BEGIN; SELECT count(*) FROM stream.consume('log', 'long', 1)");
$session->query_safe($take);
is( sql(q{
	CREATE PROCEDURE await_release() LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. 100 LOOP
			EXIT WHEN NOT EXISTS (SELECT FROM stream.consumer_lag WHERE pid IS NOT NULL);
			PERFORM pg_sleep(0.05);
			COMMIT;
		END LOOP;
	END $$;
	CALL await_release();
	SELECT count(*) FROM stream.consumer_lag WHERE pid IS NOT NULL}),
	'0', 'a second group with a shorter interval ends the holder');
end_session($session);

# What was rolled back to a savepoint does not count any more.
sql(q{SELECT stream.reset_offsets('log', 'long', 'earliest', execute => true); SELECT stream.reset_offsets('log', 'short', 'earliest', execute => true)});
is( sql(q{BEGIN; SELECT count(*) FROM stream.consume('log', 'long', 1);
	SAVEPOINT a; SELECT count(*) FROM stream.consume('log', 'short', 1); ROLLBACK TO a;
	SELECT pg_sleep(1); COMMIT; SELECT 'alive'}) =~ s/\n//gr,
	'11alive', 'a shorter interval ends with its savepoint');
$session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe(q{BEGIN; SELECT count(*) FROM stream.consume('log', 'short', 1);
	SAVEPOINT a; SELECT count(*) FROM stream.consume('log', 'long', 1); ROLLBACK TO a});
wait_until('a longer one that ends leaves the shorter', sub { return sql(q{SELECT count(*) FROM stream.consumer_lag WHERE pid IS NOT NULL}) eq '0' });
end_session($session);

# A session that holds nothing is left alone.
sql(q{SELECT stream.create_consumer_group('log', 'none', 'latest', max_poll_interval => '200 ms')});
$node->psql(
	'postgres', q{BEGIN; SELECT count(*) FROM stream.consume('log', 'none'); SELECT pg_sleep(0.6); COMMIT; SELECT 'alive'},
	stdout => \$out,
	on_error_stop => 0);
like($out, qr/^0\n+alive$/, 'a consumer that got nothing holds nothing up');

$node->stop;
done_testing();
