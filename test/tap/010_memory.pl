# Shared memory that is full: the error names the setting, nothing is left behind, and
# space comes back.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node =
  new_node('memory', conf => [ 'stream.max_partitions = 16', 'stream.max_publishers = 20', 'stream.max_members = 16',
		'stream.max_projection_partitions = 16', 'autovacuum = off' ]);

sub sql
{
	return $node->safe_psql('postgres', shift);
}

sub used
{
	my ($area) = @_;

	return sql("SELECT used FROM stream.memory_status WHERE area = '$area'");
}

# publish_to(STREAM, PARTITIONS): one record to each of the first ones.
sub publish_to
{
	my ($stream, $partitions) = @_;

	return
	  "SELECT stream.publish('$stream', 'k', '{}'::jsonb, partition => p) FROM generate_series(0, $partitions - 1) p";
}

is( sql('SELECT area, used, capacity, bytes > 0, setting FROM stream.memory_status WHERE area IN (\'members\', \'partitions\', \'publishers\') ORDER BY area'),
	"members|0|16|t|stream.max_members\npartitions|0|16|t|stream.max_partitions\npublishers|0|20|t|stream.max_publishers",
	'memory_status shows the sizes');

#
# Partitions
#
my %partitions_full = (
	message => qr/shared memory for stream partitions is full/,
	hint => qr/Raise stream\.max_partitions/);

sql(q{SELECT stream.create_stream('a', 12), stream.create_stream('b', 12)});
is(used('partitions'), '0', 'a stream that nobody has published to takes none');
sql(publish_to('a', 12));
is(used('partitions'), '12', 'each partition takes one');
sql(publish_to('b', 3));
error_is($node, 'postgres', publish_to('b', 12), '53400', 'the 17th partition is refused', %partitions_full);
error_is(
	$node,
	'postgres',
	q{SELECT stream.publish_batch('b', ARRAY(SELECT 'k' || i FROM generate_series(1, 100) i),
		array_fill('1'::jsonb, ARRAY[100]))},
	'53400',
	'also in a batch',
	%partitions_full);
error_is(
	$node, 'postgres', q{INSERT INTO streams.b (partition, value) SELECT p, '1' FROM generate_series(0, 11) p},
	'53400', 'and by INSERT',
	%partitions_full);
is(used('partitions'), '16', 'memory_status shows that it is full');
is(used('publishers'), '0', 'the error leaves no publisher');
is(sql('SELECT count(*) FROM streams.b'), '3', 'nor records');
sql(publish_to('a', 12) . ';' . publish_to('b', 4));
is(sql('SELECT count(*) FROM streams.b'), '7', 'partitions that have state go on');
is(sql(q{SELECT count(*), count(high_watermark) FROM stream.partition_status}),
	'24|24', 'the view shows all the others too');
is(sql(q{SELECT count(*) FROM stream.read('b', 11)}), '0', 'and they can be read');

# caught in a subtransaction, the error costs only that
sql(q{DO $$
BEGIN
	PERFORM stream.publish('b', 'k', '"before"'::jsonb, partition => 0);
	BEGIN
		PERFORM stream.publish('b', 'k', '"rolled back"'::jsonb, partition => 1);
		PERFORM stream.publish('b', 'k', '"refused"'::jsonb, partition => 11);
	EXCEPTION WHEN configuration_limit_exceeded THEN
		PERFORM stream.publish('b', 'k', '"after"'::jsonb, partition => 1);
	END;
END $$});
is( sql(q{SELECT string_agg(value #>> '{}', ' ' ORDER BY partition, record_offset) FROM streams.b WHERE value <> '{}'}
	),
	'before after',
	'an error that is caught rolls back what it must');

# space comes back by a drop, and not by one that is rolled back
sql(q{BEGIN; SELECT stream.drop_stream('a'); ROLLBACK});
error_is(
	$node, 'postgres', publish_to('b', 12),
	'53400', 'a drop that is rolled back frees nothing',
	%partitions_full);
sql(q{SELECT stream.drop_stream('a')});
is(used('partitions'), '4', 'a dropped stream gives its partitions back');
sql(publish_to('b', 12));
is(used('partitions'), '12', 'which others take');
sql(q{BEGIN; SELECT stream.create_stream('c', 4);} . publish_to('c', 4) . '; ROLLBACK');
is(used('partitions'), '12', 'a stream that was rolled back gives them back');
sql(    q{BEGIN; SAVEPOINT a; SELECT stream.create_stream('c', 4);}
	  . publish_to('c', 4)
	  . q{; ROLLBACK TO a;
	SELECT stream.create_stream('d', 4);} . publish_to('d', 4) . '; COMMIT');
is(used('partitions'), '16', 'also in a subtransaction');

# other databases share it
create_database($node, 'other');
$node->safe_psql('other', q{SELECT stream.create_stream('e', 1)});
error_is($node, 'other', publish_to('e', 1), '53400', 'all databases share the partitions', %partitions_full);
$node->restart;
is(used('partitions'), '0', 'a restart frees all');
$node->safe_psql('other', publish_to('e', 1));

#
# Publishers
#
my %publishers_full = (
	message => qr/shared memory for stream publishers is full/,
	hint => qr/Raise stream\.max_publishers.*open_publishers/);

my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe('BEGIN');
$session->query_safe(publish_to('b', 12));
my $second = $node->background_psql('postgres', on_error_stop => 0);
$second->query_safe('BEGIN');
$second->query_safe(publish_to('b', 6));
is(used('publishers'), '18', 'a transaction takes one for each partition');
$second->query_safe(publish_to('b', 6));
is(used('publishers'), '18', 'whatever it publishes there');
is(sql('SELECT count(*), count(DISTINCT pid) FROM stream.open_publishers'),
	'18|2', 'open_publishers shows who takes them');
error_is($node, 'postgres', publish_to('b', 4), '53400', 'the 21st publisher is refused', %publishers_full);
error_is(
	$node,
	'postgres',
	q{SELECT stream.publish_batch('b', ARRAY(SELECT 'k' || i FROM generate_series(1, 100) i),
		array_fill('1'::jsonb, ARRAY[100]))},
	'53400',
	'also in a batch',
	%publishers_full);
is(used('publishers'), '18', 'the error leaves none behind');
is(sql('SELECT sum(records_held_back) FROM stream.partition_status') > 0, 1, 'others still hold back');
sql(publish_to('b', 2));

# a subtransaction gives back what it took
$second->query_safe(
	q{DO $$
BEGIN
	PERFORM stream.publish('b', 'k', '{}'::jsonb, partition => p) FROM generate_series(6, 11) p;
EXCEPTION WHEN configuration_limit_exceeded THEN NULL;
END $$});
is(used('publishers'), '18', 'a subtransaction gives back what it took');
$session->query_safe('ROLLBACK');
is(used('publishers'), '6', 'space comes back when a transaction ends');
$second->query_safe('COMMIT');
$session->quit;
$second->quit;
is(used('publishers'), '0', 'all of it');
sql(publish_to('b', 12));
is(sql('SELECT sum(records_held_back) FROM stream.partition_status'), '0', 'nothing is held back at the end');

#
# Members of consumer groups: the group has an entry too.
#
sql(q{SELECT stream.create_consumer_group('b', 'g')});
sql(q{SELECT count(stream.join_group('b', 'g', 'm' || i)) FROM generate_series(1, 15) i});
is(used('members'), '16', 'members have an entry each');
error_is(
	$node, 'postgres',
	q{SELECT stream.join_group('b', 'g', 'one more')},
	'53400',
	'a member too many',
	message => qr/shared memory for members of consumer groups is full/,
	hint => qr/Raise stream\.max_members/);
sql(q{BEGIN; SELECT stream.leave_group('b', 'g', 'm1', 1); ROLLBACK});
is(used('members'), '16', 'a rollback keeps an entry');
sql(q{SELECT stream.leave_group('b', 'g', 'm1', 1)});
is(used('members'), '15', 'space comes back when a member leaves');
sql(q{SELECT stream.join_group('b', 'g', 'one more')});

foreach my $stream ('b', 'd')
{
	log_is_sound($node, 'postgres', $stream, "the log of $stream is sound");
}

#
# Projections: one that finds no room is not applied, and that is shown; the others are.
#
sql(q{
	SELECT stream.create_stream('p', 10);
	CREATE TABLE first (n int);
	CREATE TABLE second (n int);
	SELECT stream.create_projection('first', 'p', statement => 'INSERT INTO first SELECT 1 FROM batch');
	SELECT stream.publish('p', 'k', '1');
});
is(sql(q{SELECT stream.wait_for('first', timeout => '60 s')}), 't', 'the first projection is applied');
sql(q{SELECT stream.create_projection('second', 'p', statement => 'INSERT INTO second SELECT 1 FROM batch')});
wait_until('an applier shows the error',
	sub { return sql(q{SELECT count(*) > 0 FROM stream.worker_status WHERE last_error ~ 'shared memory for projections is full'}) eq 't' });
sql(q{SELECT stream.publish('p', 'k', '1')});
is(sql(q{SELECT stream.wait_for('first', timeout => '60 s')}), 't', 'the first projection goes on');
is(sql(q{SELECT lag FROM stream.projection_status WHERE projection = 'second'}), '2', 'the second one finds no room');
sql(q{SELECT stream.drop_projection('first')});
is(sql(q{SELECT stream.wait_for('second', timeout => '60 s')}), 't', 'and is applied when there is some');
is(sql('SELECT (SELECT count(*) FROM first), (SELECT count(*) FROM second)'), '2|2', 'each record once');
sql(q{SELECT stream.drop_stream('p')});
wait_until('the room is free again', sub { return used('projections') eq '0' });

#
# Members for which there is no room, since the setting was lowered: they are told so,
# and are in nobody's way.
#
$node->append_conf('postgresql.conf', 'stream.max_members = 20');
$node->restart;
sql(q{SELECT count(stream.join_group('b', 'g', 'tail ' || i)) FROM generate_series(1, 4) i});
$node->append_conf('postgresql.conf', 'stream.max_members = 16');
$node->restart;

sub heartbeat_of
{
	my ($member) = @_;

	return "SELECT FROM stream.group_members m, stream.heartbeat('b', 'g', m.member_id::text, m.member_epoch, m.assigned) WHERE m.member_id = '$member'";
}

sql(heartbeat_of('m2'));
is(sql('SELECT count(last_heartbeat), count(last_poll), count(*) FROM stream.group_members'), '16|16|19', 'the view shows of whom nothing is known');
is(sql('SELECT members FROM stream.group_status'), '19', 'the group has them all');
error_is(
	$node, 'postgres',
	heartbeat_of('tail 4'),
	'53400',
	'a heartbeat without room',
	message => qr/shared memory for members of consumer groups is full/,
	hint => qr/Raise stream\.max_members/);
sql(q{
	BEGIN;
	SELECT FROM stream.reset_offsets('b', 'g', 'earliest', execute => true, force => true);
	SELECT stream.drop_consumer_group('b', 'g');
	ROLLBACK;
});
sql(q{SELECT stream.leave_group('b', 'g', 'tail 3', member_epoch) FROM stream.group_members WHERE member_id = 'tail 3'});
is(sql('SELECT count(last_heartbeat), count(*) FROM stream.group_members'), '16|18', 'who has no room can leave');
sql(q{SELECT stream.leave_group('b', 'g', m.member_id::text, m.member_epoch) FROM stream.group_members m WHERE m.member_id IN ('m3', 'm4', 'm5')});
sql(heartbeat_of('tail 4'));
is(sql('SELECT count(last_heartbeat), count(*) FROM stream.group_members'), '15|15', 'when others have left, there is room');

$node->stop;
done_testing();
