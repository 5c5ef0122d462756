# While a session holds an old snapshot, nothing that commits leave behind can be
# removed: consume stays as fast as it was, and the lag view too.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('held_snapshot', conf => [ 'fsync = off', 'synchronous_commit = off', 'autovacuum_naptime = 1' ]);
my $commits = 20000;

sub sql
{
	return $node->safe_psql('postgres', shift);
}

sql(qq{
	SELECT stream.create_stream('log');
	SELECT stream.create_consumer_group('log', 'g');
	-- small batches, so that each record costs the same to read
	DO \$\$ BEGIN
		FOR i IN 1 .. $commits / 10 LOOP
			PERFORM FROM stream.publish_batch('log', NULL, array_fill('1'::jsonb, ARRAY[10]));
			COMMIT;
		END LOOP;
	END \$\$;
	CREATE TABLE timing (commits int, seconds float8);
	CREATE TABLE updated (n int);
	INSERT INTO updated VALUES (0);
	CREATE PROCEDURE consume(n int) LANGUAGE plpgsql AS \$\$
	DECLARE
		begun timestamptz := clock_timestamp();
		got bigint;
	BEGIN
		FOR i IN 1 .. n LOOP
			SELECT record_offset INTO STRICT got FROM stream.consume('log', 'g', 1);
			COMMIT;
		END LOOP;
		INSERT INTO timing VALUES (n, extract(epoch FROM clock_timestamp() - begun));
	END \$\$;
});
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM stream_internal.offsets');
sql('CALL consume(2000)') for 1 .. $commits / 2000;
is(sql(q{SELECT committed_offset, lag FROM stream.consumer_lag}), "$commits|0", 'all is consumed');
cmp_ok(sql('SELECT count(*) FROM stream_internal.offsets'), '<', 300, 'few rows are visible');
is($holder->query_safe('SELECT count(*), min(committed_offset) FROM stream_internal.offsets'), '1|0', 'the old snapshot was held');
my ($first, $last) = split /\n/,
  sql(q{SELECT seconds FROM (SELECT seconds, row_number() OVER () n FROM timing) t WHERE n IN (1, 10) ORDER BY n});
my $ratio = sprintf '%.2f', $last / $first;
cmp_ok($ratio, '<', 2.5, "the last 2000 commits took $ratio times as long as the first 2000");
$holder->query_safe('COMMIT');
$holder->quit;

$node->stop;
done_testing();
