# A streaming standby: it shows the log's segments and reads nothing; after its promotion
# it has everything, and goes on above what the primary may have given out.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = new_node(
	'primary',
	streaming => 1,
	conf => [ 'max_connections = 20', 'shared_buffers = 16MB', 'autovacuum = off' ]);
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

# epochs(NODE): the leader epochs of the batches in the second segment, in order.
sub epochs
{
	my ($node) = @_;
	my $hex = $node->safe_psql(
		'postgres',
		q{SELECT DISTINCT last_offset, encode(substr(batch, 9, 4), 'hex') FROM stream_internal.s1_2
			WHERE partition = 0 ORDER BY last_offset});

	return join ' ', map { unpack 'L', pack 'H8', (split /\|/)[1] } split /\n/, $hex;
}

$primary->safe_psql(
	'postgres', q{
	SELECT stream.create_stream('s', 2);
	SELECT count(*) FROM stream.publish_batch('s', ARRAY(SELECT 'k' || i FROM generate_series(1, 1000) i),
		ARRAY(SELECT jsonb_build_object('n', i) FROM generate_series(1, 1000) i));
	CALL stream.roll_segment('s');
	SELECT stream.publish('s', 'k' || i, '{}'::jsonb, partition => i % 2) FROM generate_series(1, 10) i;
});
$primary->wait_for_catchup($standby);

#
# During recovery
#
my $position = q{'0:1'::stream.record_position};
errors_are(
	$standby,
	'postgres',
	'0A000',
	[
		q{SELECT * FROM stream.read('s', 0)},
		q{SELECT * FROM stream.read('s', 0, 5)},
		q{SELECT * FROM streams.s},
		q{SELECT stream.offset_at('s', 0, now())}
	],
	'',
	message => qr/recovery/,
	hint => qr/primary/);
like(
	$standby->safe_psql('postgres', q{EXPLAIN (COSTS OFF) SELECT key FROM stream.read('s', 0)}),
	qr/^Custom Scan \(stream\)\n  Function Call: stream\.read\('s'::text, 0/,
	'a call is planned');
errors_are($standby, 'postgres', '0A000', [qq{SELECT stream.wait_for_offset('s', $position)}],
	'', message => qr/recovery/);
errors_are(
	$standby,
	'postgres',
	'25006',
	[
		q{SELECT stream.publish('s', 'k', '{}'::jsonb)},
		q{SELECT stream.publish_tombstone('s', 'k')},
		q{SELECT stream.publish_batch('s', NULL, ARRAY['{}'::jsonb])},
		q{INSERT INTO streams.s (key, value) VALUES ('k', '{}')},
		q{SELECT stream.create_stream('t')},
		q{SELECT stream.alter_stream('s', compression => 'none')},
		q{SELECT stream.drop_stream('s')},
		q{CALL stream.roll_segment('s')}
	],
	'');
my $segments =
  'SELECT stream, segment_no, state, table_name, records, batches, bytes, offset_ranges
		FROM stream.segment_status ORDER BY 2';
is( $standby->safe_psql('postgres', $segments),
	$primary->safe_psql('postgres', $segments),
	'segment_status is that of the primary');
like($standby->safe_psql('postgres', $segments), qr/s\|1\|sealed.*\ns\|2\|active/, 'and shows both segments');
is( $standby->safe_psql(
		'postgres', q{
		SELECT partition, log_start_offset, high_watermark IS NULL, log_end_offset IS NULL,
			records_held_back IS NULL, seconds_held_back IS NULL
		FROM stream.partition_status ORDER BY 1}),
	"0|0|t|t|t|t\n1|0|t|t|t|t",
	'partition_status has no watermarks');
my $totals = 'SELECT partition, records, bytes FROM stream.partition_status ORDER BY 1';
is( $standby->safe_psql('postgres', $totals),
	$primary->safe_psql('postgres', $totals),
	'but the totals of the primary');
is($standby->safe_psql('postgres', 'SELECT records FROM stream.stream_status'), '1010', 'stream_status works');
is($standby->safe_psql('postgres', 'SELECT area, used FROM stream.memory_status WHERE used > 0'), '', 'memory_status works');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM stream.open_publishers, stream.progress'),
	'0', 'open_publishers and progress work');
log_is_sound($standby, 'postgres', 's', 'verify_log works');

#
# A drop on the primary is seen here.
#
$primary->safe_psql('postgres',
	q{SELECT stream.create_stream('gone'); SELECT stream.publish('gone', 'k', '{}'::jsonb)});
$primary->wait_for_catchup($standby);
is( $standby->safe_psql('postgres', 'SELECT string_agg(stream, $$ $$ ORDER BY stream) FROM stream.stream_status'),
	'gone s',
	'a new stream is seen');
$primary->safe_psql('postgres', q{SELECT stream.drop_stream('gone')});
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', 'SELECT string_agg(stream, $$ $$) FROM stream.stream_status'),
	's', 'and its drop');

#
# Promotion.  The primary gave out offsets that it rolled back, and some that are lost
# with an open transaction.
#
$primary->safe_psql('postgres',
	q{BEGIN; SELECT stream.publish('s', NULL, '{}', partition => 0) FROM generate_series(1, 1000); ROLLBACK});
my $open = $primary->background_psql('postgres', on_error_stop => 0);
my $given = $open->query_safe(
	q{BEGIN; SELECT max(stream.offset_of(stream.publish('s', NULL, '{}', partition => p)))
		FROM generate_series(0, 1) p, generate_series(1, 500)}
);
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));
my $before = records($primary, 'postgres', 's');
is(epochs($primary), '1', 'the primary writes epoch 1');
$primary->stop('immediate');
end_session($open);

$standby->promote;
is(records($standby, 'postgres', 's'), $before, 'after promotion all records are read');
is( $standby->safe_psql('postgres', q{SELECT count(*), count(DISTINCT (partition, record_offset)) FROM streams.s}),
	'1010|1010',
	'also over the foreign table');
my $end = $standby->safe_psql('postgres', q{SELECT max(record_offset) + 1 FROM stream.read('s', 0, NULL, NULL)});
is( partition_row($standby, 'postgres', 's', 0),
	"0|$end|$end|" . ($end) . '|0',
	'the watermark is at the end of the log');
my $first = $standby->safe_psql('postgres',
	q{SELECT stream.offset_of(stream.publish('s', 'k', '{}'::jsonb, partition => 0))});
cmp_ok($first, '>', $given, 'offsets are above all that the primary gave out');
is(epochs($standby), '1 2', 'the new batch has the new epoch');
$standby->safe_psql('postgres', q{CALL stream.roll_segment('s'); SELECT stream.publish('s', 'k', '{}'::jsonb)});
is( $standby->safe_psql('postgres', 'SELECT segment_no, state FROM stream.segment_status ORDER BY 1'),
	"1|sealed\n2|sealed\n3|active",
	'segments roll');
log_is_sound($standby, 'postgres', 's', 'the log is sound');

$standby->stop;
done_testing();
