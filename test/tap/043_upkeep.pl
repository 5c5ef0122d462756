# Segments are rolled by size and by age, sealed when their publishers have ended, and
# frozen when autovacuum's visit was in vain: by the manager, and when there is none by a
# worker that a publisher starts.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('upkeep', conf => [ 'autovacuum = off', 'stream.min_worker_delay = 100ms' ]);

sub sql
{
	return $node->safe_psql('postgres', shift);
}

# publish(STREAM, KILOBYTES): in transactions of about 8 kB that do not compress.
sub publish
{
	my ($stream, $kilobytes) = @_;

	sql(qq{DO \$\$ BEGIN FOR i IN 1..$kilobytes / 8 LOOP
		PERFORM stream.publish('$stream', NULL, to_jsonb((SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 256))));
		COMMIT; END LOOP; END \$\$});
	return;
}

sub states
{
	my ($stream) = @_;

	return sql(
		qq{SELECT string_agg(state, ' ' ORDER BY segment_no) FROM stream.segment_status WHERE stream = '$stream'});
}

sub wait_for_states
{
	my ($stream, $states, $test) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_until($test, sub { return states($stream) =~ $states; });
	pass($test);
	return;
}

#
# By size
#
sql(q{SELECT stream.create_stream('small', 2, segment_bytes => 400000, segment_age => '0');
	SELECT stream.create_stream('never', segment_bytes => 0, segment_age => '0')});
publish($_, 600) foreach 'small', 'never';
wait_for_states('small', qr/^sealed( sealed)* active$/, 'a segment that has its size is rolled');
cmp_ok(sql(q{SELECT total_bytes FROM stream.segment_status WHERE stream = 'small' AND segment_no = 1}),
	'<', 1000000, '… in time');
is(states('never'), 'active', 'one without a limit is not');

# Large values count: they lie in another table.
sql(q{SELECT stream.create_stream('large', segment_bytes => 400000)});
sql(q{SELECT stream.publish('large', NULL, to_jsonb((SELECT string_agg(md5((i * j)::text), '') FROM generate_series(1, 20000) j)))
	FROM generate_series(1, 2) i});
wait_for_states('large', qr/^sealed( sealed)* active$/, 'large values count');

# Nothing is lost.
publish('small', 400);
is(sql(q{SELECT count(*) FROM streams.small}), '125', 'all records are there');
log_is_sound($node, 'postgres', $_, "the log of $_ is sound") foreach 'small', 'large';

#
# By age
#
sql(q{SELECT stream.create_stream('old', segment_bytes => 0, segment_age => '1 day');
	SELECT stream.publish('old', 'k', '{}'::jsonb);
	SELECT stream.create_stream('empty', segment_bytes => 0, segment_age => '1 ms')});
is(states('old'), 'active', 'a young segment');
sql(q{SELECT stream.alter_stream('old', segment_age => '1 s')});
wait_for_states('old', qr/^sealed( sealed)* active$/, 'is rolled when its time has come, which alter_stream can change');
is(sql(q{SELECT first_published_at + interval '1 s' <= (SELECT created_at FROM stream.segment_status WHERE stream = 'old' AND segment_no = 2)
	FROM stream.segment_status WHERE stream = 'old' AND segment_no = 1}), 't', '… not sooner');
is(states('empty'), 'active', 'an empty segment is not rolled');
is( sql(q{SELECT stream, segment_bytes, segment_age FROM stream.stream_status ORDER BY stream}),
	"empty||00:00:00.001\nlarge|400000|7 days\nnever||\nold||00:00:01\nsmall|400000|",
	'stream_status shows both');

#
# Sealing waits for publishers, and is tried again.
#
my $publisher = $node->background_psql('postgres');
$publisher->query_safe(q{BEGIN; SELECT stream.publish('never', 'k', '"open"'::jsonb)});
sql(q{CALL stream.roll_segment('never')});
is(states('never'), 'closing active', 'a segment with an open publisher cannot be sealed');
$publisher->query_safe('COMMIT');
wait_for_states('never', qr/^sealed( sealed)* active$/, 'when that has ended, the manager does');
end_session($publisher);

# A segment that nobody can lock is left for another time.
my $locker = $node->background_psql('postgres');
$locker->query_safe(q{BEGIN; SELECT stream.drop_stream('never')});
sql(q{SELECT stream.alter_stream('small', segment_bytes => 100000)});
publish('small', 200);
wait_until('small is rolled meanwhile', sub { return states('small') =~ /sealed.* sealed active/; });
pass('a stream that is locked does not hold up the others');
end_session($locker);

# What fails is shown, tried again, and keeps nothing else from being done.
sql(q{SELECT stream.create_stream('broken', segment_bytes => 8192), stream.create_stream('whole', segment_bytes => 8192)});
my $broken = sql(q{SELECT stream_id FROM stream_internal.streams WHERE stream = 'broken'});
sql(qq{
	CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS \$\$ BEGIN
		IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE object_identity = 'stream_internal.s${broken}_2')
		THEN RAISE EXCEPTION 'not this one'; END IF; END \$\$;
	CREATE EVENT TRIGGER refuse ON ddl_command_end EXECUTE FUNCTION refuse()});
publish('broken', 8);
publish('whole', 8);
wait_for_states('whole', qr/^sealed active/, 'a stream that cannot be rolled does not keep others from it');
wait_until('the error is shown',
	sub { return sql(q{SELECT last_error FROM stream.worker_status WHERE type = 'stream manager' AND state = 'backing off'}) eq 'not this one'; });
pass('the error is shown');
like(slurp_file($node->logfile), qr/stream manager of database "postgres", rolling "broken"/, '… and the log says what failed');
sql('DROP EVENT TRIGGER refuse');
wait_for_states('broken', qr/^sealed active/, 'it is tried again');

#
# Freezing, when autovacuum is off.
#
my $snapshot = $node->background_psql('postgres');
$snapshot->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
sql(q{SELECT stream.create_stream('cold');
	SELECT stream.publish('cold', 'k', '{}'::jsonb);
	SELECT stream.publish('cold', 'large', to_jsonb((SELECT string_agg(md5(i::text), '') FROM generate_series(1, 3000) i)));
	CALL stream.roll_segment('cold')});
my $segment = sql(q{SELECT table_name FROM stream.segment_status WHERE stream = 'cold' AND segment_no = 1});
sub vacuums
{
	my ($relation) = @_;

	return sql("SELECT vacuum_count FROM pg_stat_all_tables WHERE relid = '$segment'::regclass");
}
# two rounds of the manager, which show by what else they do
foreach my $round (1 .. 2)
{
	sql("SELECT stream.create_stream('tick$round', segment_bytes => 1); SELECT stream.publish('tick$round', 'k', '{}'::jsonb)");
	wait_until('a round', sub { return states("tick$round") =~ /^sealed/; });
}
is(vacuums(), '0', 'with an old snapshot open, a sealed segment is not vacuumed');
$snapshot->query_safe('COMMIT');
end_session($snapshot);
$node->reload;    # wakes the manager
ok($node->poll_query_until('postgres', "SELECT vacuum_count > 0 FROM pg_stat_all_tables WHERE relid = '$segment'::regclass"),
	'when it has gone, it is');
SKIP:
{
	skip 'pg_visibility is not installed', 2
	  if sql(q{SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_visibility'}) eq '0';
	sql('CREATE EXTENSION pg_visibility');
	is( sql("SELECT all_frozen = pg_relation_size('$segment') / current_setting('block_size')::int FROM pg_visibility_map_summary('$segment')"),
		't', 'all of it is frozen');
	is( sql("SELECT s.all_frozen = pg_relation_size(c.reltoastrelid) / current_setting('block_size')::int
			FROM pg_class c, LATERAL pg_visibility_map_summary(c.reltoastrelid) s WHERE c.oid = '$segment'::regclass"),
		't', 'and its large values');
}
$node->reload;
publish('small', 8);
is(vacuums(), '1', 'once');

#
# No manager
#
$node->append_conf('postgresql.conf', 'stream.background_workers = off');
$node->reload;
wait_until('the manager has ended',
	sub { return sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'stream manager'}) eq '0'; });
sql(q{SELECT stream.create_stream('alone', segment_bytes => 400000)});
publish('alone', 600);
is(states('alone'), 'active', 'without a manager, a segment grows');
publish('alone', 600);
wait_for_states('alone', qr/^sealed active/, '… up to twice its size, when a publisher has it rolled');
wait_until('the roller ends', sub { return sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'stream roller'}) eq '0'; });
is(sql(q{SELECT count(*) FROM stream.worker_status WHERE type = 'stream roller'}), '0', 'by a worker that then ends');
log_is_sound($node, 'postgres', 'alone', 'the log is sound');

# Options
error_is($node, 'postgres', "SELECT stream.create_stream('x', $_->[0])", $_->[1], "create_stream with $_->[0]")
  foreach [ 'segment_bytes => -1', '22023' ], [ q{segment_age => '-1 s'}, '22023' ], [ 'segment_bytes => NULL', '22004' ],
  [ 'segment_age => NULL', '22004' ];
error_is($node, 'postgres', "SELECT stream.alter_stream('small', $_->[0])", $_->[1], "alter_stream with $_->[0]")
  foreach [ 'segment_bytes => -1', '22023' ], [ q{segment_age => '-1 s'}, '22023' ], [ 'segment_bytes => NULL', '00000' ];

$node->stop;
done_testing();
