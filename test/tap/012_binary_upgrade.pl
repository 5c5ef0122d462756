# pg_upgrade takes streams along.  It runs between two clusters of the same version, which
# takes the path that it takes between versions.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $old = new_node('old', conf => ['autovacuum = off']);
my $new = new_node('new', conf => ['autovacuum = off'], start => 0);

$old->safe_psql(
	'postgres', q{
	SELECT stream.create_stream('s', 2), stream.create_stream('Raw bytes', 1, 'bytea'), stream.create_stream('empty');
	SELECT count(*) FROM stream.publish_batch('s', ARRAY(SELECT 'k' || i FROM generate_series(1, 1000) i),
		ARRAY(SELECT jsonb_build_object('n', i, 'x', md5(i::text)) FROM generate_series(1, 1000) i));
	SELECT stream.publish('s', 'large', to_jsonb((SELECT string_agg(md5(i::text), '') FROM generate_series(1, 3000) i)));
	CALL stream.roll_segment('s');
	SELECT stream.publish('s', 'k', '{}'::jsonb), stream.publish_tombstone('s', 'k');
	SELECT stream.publish_bytes('Raw bytes', NULL, '\x00ff');
	BEGIN;
	SELECT stream.publish('s', NULL, '{}'::jsonb, partition => p) FROM generate_series(0, 1) p, generate_series(1, 300);
	ROLLBACK;
	CREATE TABLE dropped (i int);
	DROP TABLE dropped;
	CREATE TABLE totals (k text PRIMARY KEY, n bigint);
	SELECT stream.create_projection('totals', 's', 'totals',
		$$ SELECT left(key, 1) AS k, 1 AS n FROM batch WHERE key IS NOT NULL $$, '{"n": "count"}');
	SELECT stream.wait_for('totals', timeout => '60 s');
	SELECT stream.create_consumer_group('s', 'g');
	BEGIN;
	SELECT count(*) FROM stream.consume('s', 'g', 100);
	COMMIT;
});
my $places = q{
	SELECT projection, "partition", applied_offset FROM stream.projection_partition_status UNION ALL
	SELECT consumer_group, "partition", committed_offset FROM stream.consumer_lag ORDER BY 1, 2};
my $definition = 'SELECT * FROM stream.projection_definition';
my $applied_to = q{SELECT target = 'totals'::regclass FROM stream_internal.projection_targets};
my $segments =
  'SELECT stream, segment_no, state, table_name, records, bytes, offset_ranges
		FROM stream.segment_status ORDER BY 1, 2';
my $objects =
  q{SELECT c.relname, c.relkind, c.reloptions FROM pg_class c
		WHERE relnamespace = 'stream_internal'::regnamespace ORDER BY 1};
my $state = sub {
	my ($node) = @_;
	return join "\n--\n", records($node, 'postgres', 's'), records($node, 'postgres', 'Raw bytes'),
	  map { $node->safe_psql('postgres', $_) } $segments, $objects, $places, $definition, $applied_to, 'TABLE totals';
};
my $before = $state->($old);
my $highest =
  $old->safe_psql('postgres', q{SELECT max(log_end_offset) - 1 FROM stream.partition_status WHERE stream = 's'});
$old->stop;

my $bindir = $old->config_data('--bindir');
chdir $PostgreSQL::Test::Utils::tmp_check or die;
command_ok(
	[
		'pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir,
		'-b', $bindir, '-B', $bindir, '-s', $new->host,
		'-p', $old->port, '-P', $new->port
	],
	'pg_upgrade');

$new->start;
is($state->($new), $before, 'records, segments, offsets and objects are those of before');
is($new->safe_psql('postgres', q{SELECT count(*) FROM streams.empty}), '0', 'the empty stream is empty');
foreach my $stream ('s', 'Raw bytes', 'empty')
{
	log_is_sound($new, 'postgres', $stream, "the log of $stream is sound");
}
my $low = $new->safe_psql(
	'postgres', q{
	SELECT min(stream.offset_of(stream.publish('s', NULL, '{}'::jsonb, partition => p))) FROM generate_series(0, 1) p}
);
cmp_ok($low, '>', $highest, 'offsets go on above all that were given');
$new->safe_psql('postgres', q{CALL stream.roll_segment('s'); SELECT stream.publish('s', 'k', '{}'::jsonb)});
is( $new->safe_psql(
		'postgres',
		q{SELECT string_agg(state, ' ' ORDER BY segment_no) FROM stream.segment_status WHERE stream = 's'}),
	'sealed sealed active',
	'segments roll');
log_is_sound($new, 'postgres', 's', 'the log is sound with the new records');
is($new->safe_psql('postgres', q{SELECT stream.wait_for('totals', timeout => '60 s')}), 't', 'the projection goes on');
is( $new->safe_psql(
		'postgres', q{
	SELECT count(*) FROM (SELECT left(key, 1) AS k, count(*) AS n FROM streams.s WHERE key IS NOT NULL GROUP BY 1 EXCEPT TABLE totals) d}),
	'0',
	'each record once');
is( $new->safe_psql(
		'postgres', q{
	BEGIN;
	SELECT count(*) = (SELECT count(*) - 100 FROM streams.s) FROM stream.consume('s', 'g', NULL);
	COMMIT}),
	't',
	'so does the consumer group');
$new->safe_psql('postgres', q{SELECT stream.create_stream('more'), stream.publish('more', 'k', '{}'::jsonb)});
$new->safe_psql('postgres', q{SELECT stream.drop_stream(stream) FROM stream.stream_status});
is( $new->safe_psql(
		'postgres',
		q{SELECT string_agg(relname, ' ') FROM pg_class
			WHERE relnamespace = 'stream_internal'::regnamespace AND relname ~ '^s\d'}
	),
	'',
	'dropped streams leave nothing');

$new->stop;
done_testing();
