# Restarts: what is in the log stays, offsets never go back, and the watermark starts at
# the log's end.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('restart', conf => ['autovacuum = off']);

sub sql
{
	return $node->safe_psql('postgres', shift);
}

# publish(STREAM, PARTITION): returns the offset.
sub publish
{
	my ($stream, $partition) = @_;

	return sql(qq{SELECT stream.offset_of(stream.publish('$stream', NULL, '{}'::jsonb, partition => $partition))});
}

my $statuses = 'SELECT * FROM stream.partition_status ORDER BY 1, 2';
my $segments =
  "SELECT stream, segment_no, state, records, batches, bytes, offset_ranges FROM stream.segment_status ORDER BY 1, 2";

#
# A clean restart changes nothing that can be seen.
#
sql(q{
	SELECT stream.create_stream('plain', 2);
	SELECT stream.create_stream('empty', 2);
	SELECT count(*) FROM stream.publish_batch('plain', ARRAY['a', 'b', 'c', 'd', 'e', 'f', 'g'],
		ARRAY(SELECT jsonb_build_object('n', i) FROM generate_series(1, 7) i));
	SELECT stream.publish_tombstone('plain', 'a', '{"h": 1}');
	CALL stream.roll_segment('plain');
	SELECT stream.publish('plain', 'after the roll', '{}'::jsonb);
});
my %before = (
	records => records($node, 'postgres', 'plain'),
	status => sql($statuses),
	segments => sql($segments));
like($before{segments}, qr/plain\|1\|sealed.*\nplain\|2\|active/, 'the log has two segments');
$node->restart;
is(records($node, 'postgres', 'plain'), $before{records}, 'clean restart: same records');
is(sql($statuses), $before{status}, 'clean restart: same partition_status');
is(sql($segments), $before{segments}, 'clean restart: same segment_status');
is(sql("SELECT used FROM stream.memory_status WHERE area = 'partitions'"), '0', 'looking makes no shared state');

#
# A rolled-back tail.  Partition 0 has records 0 to 4, and 5 to 7 were rolled back.
#
foreach my $mode ('fast', 'immediate')
{
	my $stream = "tail_$mode";

	sql(qq{
		SELECT stream.create_stream('$stream', 2);
		SELECT stream.publish('$stream', NULL, jsonb_build_object('n', i), partition => 0) FROM generate_series(0, 4) i;
		BEGIN;
		SELECT stream.publish('$stream', NULL, '{}', partition => 0) FROM generate_series(5, 7);
		ROLLBACK;
	});
	is(partition_row($node, 'postgres', $stream, 0), '0|8|8|5|0', "$mode: before the restart all 8 offsets count");
	is(sql(qq{SELECT count(*) FROM stream.read('$stream', 0, 8)}), '0', "$mode: a reader is behind the tail");

	$node->stop($mode);
	$node->start;

	is(partition_row($node, 'postgres', $stream, 0), '0|5|5|5|0', "$mode: the watermark starts at the log's end");
	is(sql(qq{SELECT count(*) FROM stream.read('$stream', 0, 8)}),
		'0', "$mode: reading behind the rolled-back tail is no error");
	is(sql(qq{SELECT count(*) FROM stream.read('$stream', 0, 6)}), '0', "$mode: nor is reading within it");
	error_is(
		$node, 'postgres', qq{SELECT * FROM stream.read('$stream', 0, 1000000)},
		'22003',
		"$mode: reading at what was never issued is",
		message => qr/beyond the log end/);
	is(sql(qq{SELECT stream.wait_for_offset('$stream', '0:7', '0 s')}),
		'f', "$mode: the watermark is not past the tail");
	is(sql(qq{SELECT stream.offset_at('$stream', 0, 'infinity')}), '5', "$mode: offset_at ends at the log's end");

	my $offset = publish($stream, 0);
	cmp_ok($offset, '>', 7, "$mode: no rolled-back offset is given again");
	is( partition_row($node, 'postgres', $stream, 0),
		join('|', 0, $offset + 1, $offset + 1, 6, 0),
		"$mode: the watermark jumps over the gap, which is not held back");
	is(sql(qq{SELECT stream.wait_for_offset('$stream', '0:7', '0 s')}), 't', "$mode: it is past the tail now");
	is(sql(qq{SELECT record_offset FROM stream.read('$stream', 0, 8)}),
		$offset, "$mode: the reader behind the tail goes on");
	is( sql(qq{SELECT record_offset FROM stream.read('$stream', 0)}),
		join("\n", 0 .. 4, $offset),
		"$mode: and one from the start passes over the gap");
	is(publish($stream, 0), $offset + 1, "$mode: offsets go on from there");
	log_is_sound($node, 'postgres', $stream, "$mode: the log is sound");
}

# With nothing published in between, a second restart is like the first.
$node->restart;
$node->restart;
my ($status) = partition_row($node, 'postgres', 'tail_fast', 0);
my ($end) = $status =~ /^0\|(\d+)\|\1\|7\|0$/;
ok(defined $end, "two restarts: the watermark is at the log's end") or diag($status);
cmp_ok(publish('tail_fast', 0), '>=', $end, 'two restarts: offsets go on');

#
# Everything was rolled back, and an open transaction is lost.
#
sql(q{
	SELECT stream.create_stream('hollow', 2);
	BEGIN;
	SELECT stream.publish('hollow', NULL, '{}', partition => 0) FROM generate_series(1, 300);
	ROLLBACK;
});
my $open = $node->background_psql('postgres', on_error_stop => 0);
$open->query_safe('BEGIN');
my $lost = $open->query_safe(
	q{SELECT max(stream.offset_of(p)) FROM stream.publish_batch('hollow', NULL, array_fill('1'::jsonb, ARRAY[5000])) p
		WHERE stream.partition_of(p) = 1});
is(partition_row($node, 'postgres', 'hollow', 1) =~ /^0\|0\|\d+\|0\|(\d+)$/ && $1,
	$lost + 1, 'an open publisher holds back');
$node->stop('immediate');
end_session($open);
$node->start;
is(partition_row($node, 'postgres', 'hollow', 0), '0|0|0|0|0', 'a stream without any record starts at 0');
is(partition_row($node, 'postgres', 'hollow', 1),
	'0|0|0|0|0', 'and so does one with an open transaction at the stop');
is(sql(q{SELECT count(*) FROM stream.open_publishers}), '0', 'no publisher is left');
cmp_ok(publish('hollow', 0), '>=', 300, 'rolled-back offsets are not given again');
cmp_ok(publish('hollow', 1), '>', $lost, 'nor those of an open transaction at the stop');

#
# Empty streams.
#
is(partition_row($node, 'postgres', 'empty', 0), '0|0|0|0|0', 'an empty stream has offset 0');
is(sql(q{SELECT count(*) FROM streams.empty}), '0', 'and no records');
is(publish('empty', 1), 0, 'its first record gets offset 0');
is(publish('empty', 1), 1, 'and the second 1');

#
# A log whose last segments are empty, or sealed and empty in one partition.
#
sql(q{
	SELECT stream.create_stream('rolled', 2);
	SELECT stream.publish('rolled', NULL, '{}'::jsonb, partition => 0) FROM generate_series(0, 9);
	CALL stream.roll_segment('rolled');
	SELECT stream.publish('rolled', NULL, '{}'::jsonb, partition => 1);
	CALL stream.roll_segment('rolled');
});
$node->restart;
is(partition_row($node, 'postgres', 'rolled', 0), '0|10|10|10|0', 'the end comes from the sealed segments');
is(partition_row($node, 'postgres', 'rolled', 1), '0|1|1|1|0', 'in each partition');
cmp_ok(publish('rolled', 0), '>=', 10, 'offsets go on after them');
is(sql(q{SELECT records FROM stream.segment_status WHERE stream = 'rolled' ORDER BY segment_no}),
	"10\n1\n1", 'in the third segment');

#
# Dropped streams.
#
my $id = sql(q{SELECT stream_id FROM stream_internal.streams WHERE stream = 'rolled'});
sql(q{SELECT stream.drop_stream('rolled')});
sql(q{BEGIN; SELECT stream.drop_stream('plain'); ROLLBACK});
$open = $node->background_psql('postgres', on_error_stop => 0);
$open->query_safe(q{BEGIN; SELECT stream.drop_stream('empty')});
$node->stop('immediate');
end_session($open);
$node->start;
error_is($node, 'postgres', q{SELECT stream.read('rolled', 0)}, '42704', 'a dropped stream stays dropped');
is(sql(qq{SELECT count(*) FROM pg_class WHERE relname ~ '^s${id}_'}), '0', 'nothing of it is left');
is(records($node, 'postgres', 'plain'), $before{records}, 'one whose drop was rolled back is whole');
is(sql(q{SELECT count(*) FROM stream.read('empty', 1)}), '2', 'and so is one whose drop did not commit');
sql(q{SELECT stream.create_stream('rolled', 2)});
cmp_ok(sql(q{SELECT stream_id FROM stream_internal.streams WHERE stream = 'rolled'}),
	'>', $id, 'the name is free, the number is not');
is(publish('rolled', 0), 0, 'a new stream begins at offset 0');

foreach my $stream ('plain', 'empty', 'rolled', 'hollow')
{
	log_is_sound($node, 'postgres', $stream, "the log of $stream is sound");
}

$node->stop;
done_testing();
