# Scans of what a function returns beside libraries that have hooks of their own in the
# planner and the executor, preloaded before this one and after it.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(
	'call_preloads',
	conf => [
		'fsync = off',
		'auto_explain.log_min_duration = 0',
		'auto_explain.log_analyze = on',
		'auto_explain.log_verbose = on',
		'auto_explain.log_nested_statements = on',
		'auto_explain.log_format = json',
		'pg_stat_statements.track = all'
	]);
$node->safe_psql(
	'postgres', q{
	CREATE EXTENSION pg_stat_statements;
	SELECT stream.create_stream('s');
	SELECT stream.create_consumer_group('s', 'g');
	SELECT stream.publish('s', 'k' || i, to_jsonb(i)) FROM generate_series(1, 10) i;
	CREATE TABLE target (key text, n int);
	CREATE FUNCTION failing() RETURNS int LANGUAGE plpgsql AS $$
	DECLARE
		r record;
		n int := 0;
	BEGIN
		FOR r IN SELECT value::int AS v FROM stream.consume('s', 'g', 6) LOOP
			n := n + 1 + 0 / (r.v - 4);
		END LOOP;
		RETURN n;
	EXCEPTION WHEN division_by_zero THEN
		RETURN n;
	END $$;
});

foreach my $libraries ('stream,auto_explain,pg_stat_statements', 'auto_explain,pg_stat_statements,stream')
{
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'$libraries'");
	$node->restart;
	my $logged = -s $node->logfile;

	is( $node->safe_psql(
			'postgres', q{
			SELECT FROM pg_stat_statements_reset() \g /dev/null
			SELECT key FROM stream.read('s', 0, max_records => 2) WHERE value::int > 1;
			SELECT failing();
			BEGIN;
			INSERT INTO target SELECT key, value::int FROM stream.consume('s', 'g', 3);
			SELECT count(*), sum(lag) FROM target, stream.consumer_lag WHERE key = 'k3';
			ROLLBACK;
			EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) SELECT key FROM stream.read('s', 0) \g /dev/null
			SELECT calls, rows FROM pg_stat_statements
			WHERE query LIKE 'INSERT INTO target %' OR query LIKE 'SELECT key FROM stream.read($1, $2, max_records %' ORDER BY rows}),
		"k2\n3\n1|7\n1|1\n1|3",
		"$libraries: results, and what is counted");
	my $log = slurp_file($node->logfile, $logged);
	like($log, qr/"Function Call": "stream\.consume\('s'::text, 'g'::text, 3/, "$libraries: the plan of an INSERT is logged");
	is($node->safe_psql('postgres', 'SELECT lag FROM stream.consumer_lag'), '10', "$libraries: what failed has consumed nothing");
}
$node->stop;
done_testing();
