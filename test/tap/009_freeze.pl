# A sealed segment is frozen once, by autovacuum; the active one is left alone.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('freeze', conf => [ 'autovacuum_naptime = 1s', 'log_autovacuum_min_duration = 0', 'stream.background_workers = off' ]);

sub sql
{
	return $node->safe_psql('postgres', shift);
}

sub xid_age
{
	my ($segment_no) = @_;

	return sql("SELECT xid_age FROM stream.segment_status WHERE stream = 's' AND segment_no = $segment_no");
}

# burn(NUMBER): transaction ids.
sub burn
{
	my ($number) = @_;

	sql("DO 'BEGIN FOR i IN 1..$number LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END'");
	return;
}

sql(q{
	SELECT stream.create_stream('s', 2);
	SELECT count(*) FROM stream.publish_batch('s', ARRAY(SELECT 'k' || i FROM generate_series(1, 5000) i),
		ARRAY(SELECT jsonb_build_object('n', i, 'x', md5(i::text) || md5((-i)::text) || md5('x' || i))
			FROM generate_series(1, 5000) i));
	SELECT stream.publish('s', 'k' || i, '{}'::jsonb) FROM generate_series(1, 100) i;
	SELECT stream.publish('s', 'large', to_jsonb((SELECT string_agg(md5(i::text), '') FROM generate_series(1, 3000) i)));
});
burn(1000);
cmp_ok(xid_age(1), '>=', 1000, 'the active segment ages');
sql(q{
	CALL stream.roll_segment('s');
	SELECT count(*) FROM stream.publish_batch('s', ARRAY(SELECT 'k' || i FROM generate_series(1, 5000) i),
		ARRAY(SELECT jsonb_build_object('n', i, 'x', md5(i::text)) FROM generate_series(1, 5000) i));
});
my $segment = sql(q{SELECT table_name FROM stream.segment_status WHERE segment_no = 1});
my $active = sql(q{SELECT table_name FROM stream.segment_status WHERE segment_no = 2});
is(sql(q{SELECT state FROM stream.segment_status WHERE segment_no = 1}), 'sealed', 'the first segment is sealed');

ok($node->poll_query_until('postgres', "SELECT xid_age < 1000 FROM stream.segment_status WHERE segment_no = 1"),
	'autovacuum freezes the sealed segment');
ok( $node->poll_query_until(
		'postgres',
		"SELECT age(t.relfrozenxid) < 1000 FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid
			WHERE c.oid = '$segment'::regclass"
	),
	'and its large values');
is(sql("SELECT relallvisible = relpages AND relpages > 40 FROM pg_class WHERE oid = '$segment'::regclass"),
	't', 'all of it is visible');

# What is frozen is not looked at again, though it could be: the workers go by here.
ok( $node->poll_query_until(
		'postgres', "SELECT autovacuum_count > 0 FROM pg_stat_all_tables WHERE relid = '$segment'::regclass"),
	'that was a vacuum of its own');
sql('CREATE TABLE witness AS SELECT i FROM generate_series(1, 10000) i; DELETE FROM witness');
ok( $node->poll_query_until(
		'postgres', "SELECT autovacuum_count > 0 FROM pg_stat_all_tables WHERE relname = 'witness'"),
	'autovacuum comes by');
is(sql("SELECT autovacuum_count FROM pg_stat_all_tables WHERE relid = '$segment'::regclass"),
	'1', 'and leaves the sealed segment alone');
is(sql("SELECT autovacuum_count FROM pg_stat_all_tables WHERE relid = '$active'::regclass"),
	'0', 'and the active one never');

SKIP:
{
	skip 'pg_visibility is not installed', 4
	  if sql(q{SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_visibility'}) eq '0';
	sql('CREATE EXTENSION pg_visibility');
	my $frozen =
	  q{SELECT s.all_frozen = pg_relation_size(c.oid) / current_setting('block_size')::int AND s.all_frozen > 0
		FROM pg_class c, LATERAL pg_visibility_map_summary(c.oid) s WHERE c.oid = };
	is(sql("$frozen '$segment'::regclass"), 't', 'all pages are frozen');
	is(sql("$frozen (SELECT reltoastrelid FROM pg_class WHERE oid = '$segment'::regclass)"),
		't', 'and those of large values');
	is(sql("SELECT all_frozen FROM pg_visibility_map_summary('$active')"), '0', 'none of the active segment');
	is(sql("SELECT count(*) FROM pg_check_frozen('$segment')"), '0', 'no row is not frozen that should be');
}

# An anti-wraparound vacuum finds nothing to do: it scans no page, and dirties none.
my ($stdout, $stderr);
$node->psql(
	'postgres', "VACUUM (FREEZE, VERBOSE, INDEX_CLEANUP off) $segment",
	stdout => \$stdout,
	stderr => \$stderr);
my ($scanned) = $stderr =~ /vacuuming "\S+$segment".*?pages: \d+ removed, \d+ remain, (\d+) scanned/s;
ok(defined $scanned && $scanned <= 1, 'VACUUM FREEZE scans no page again') or diag($stderr);

is(sql(q{SELECT count(*) FROM streams.s}), '10101', 'all records are there');
log_is_sound($node, 'postgres', 's', 'the log is sound');

$node->stop;
done_testing();
