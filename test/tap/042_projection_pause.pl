# pause_projection and drop_projection wait for a batch that is being applied.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('projection_pause');
my $applying = q{(SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 83 AND granted)};

# A batch takes as long as there is a row in the gate.
$node->safe_psql(
	'postgres', q{
	CREATE TABLE gate (closed boolean);
	CREATE TABLE target (o bigint PRIMARY KEY);
	CREATE FUNCTION pass(o bigint) RETURNS bigint LANGUAGE plpgsql AS $$
	BEGIN
		WHILE EXISTS (SELECT FROM gate) LOOP
			PERFORM pg_sleep(0.01);
		END LOOP;
		RETURN o;
	END $$;
	SELECT stream.create_stream('s');
	SELECT stream.create_projection('p', 's', 'target', statement => 'INSERT INTO target SELECT public.pass(record_offset) FROM batch');
});

# during_a_batch(COMMAND): runs it while a batch is being applied, which it must wait for.
sub during_a_batch
{
	my ($command) = @_;
	my $before = $node->safe_psql('postgres', 'SELECT count(*) FROM target');

	$node->safe_psql('postgres', 'INSERT INTO gate VALUES (true)');
	$node->safe_psql('postgres', q{SELECT stream.publish('s', 'k', '1'::jsonb)});
	$node->poll_query_until('postgres', "SELECT $applying IS NOT NULL") or die 'no batch is being applied';
	my $session = $node->background_psql('postgres', on_error_die => 1);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	$session->query_until(qr/sent/, "\\echo sent\n$command;\n");
	ok($node->poll_query_until('postgres', "SELECT $applying = ANY (pg_blocking_pids($pid))"), "$command waits");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM target'), $before, 'for a batch that has not ended');
	$node->safe_psql('postgres', 'DELETE FROM gate');
	$session->quit;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM target'), $before + 1, 'and then has');
	return;
}

during_a_batch(q{SELECT stream.pause_projection('p')});
$node->safe_psql('postgres', q{SELECT stream.publish('s', 'k', '1'::jsonb)});
is($node->safe_psql('postgres', q{SELECT stream.wait_for('p', timeout => '200 ms')}), 'f', 'no batch is applied in a pause');
is($node->safe_psql('postgres', 'SELECT count(*) FROM target'), '1', 'nothing is written');
$node->safe_psql('postgres', q{SELECT stream.resume_projection('p')});
is($node->safe_psql('postgres', q{SELECT stream.wait_for('p', timeout => '60 s')}), 't', 'it goes on afterwards');

during_a_batch(q{SELECT stream.drop_projection('p')});
is( $node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM stream_internal.projections), (SELECT count(*) FROM stream_internal.offsets)'),
	'0|0',
	'it is dropped with its offsets');
$node->safe_psql('postgres', q{SELECT stream.publish('s', 'k', '1'::jsonb)});
is($node->safe_psql('postgres', 'SELECT count(*) FROM target'), '3', 'the target stays');

$node->stop;
done_testing();
