# A statement that runs for longer than stream.apply_timeout is given up: with fewer records
# it may fit, and one record that does not is named, while the other projections go on.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(
	'timeout',
	conf => [
		'stream.apply_timeout = 300ms', 'stream.min_retry_delay = 10ms',
		'stream.max_retry_delay = 100ms', 'stream.max_appliers = 1'
	]);

sub sql
{
	return $node->safe_psql('postgres', shift);
}

# One applier for two projections; a record takes as long as it says, unless all are told to hurry.
sql(q{
	SELECT stream.create_stream('log', 1);
	CREATE TABLE hurry ();
	CREATE TABLE slow (n int);
	CREATE TABLE quick (n int);
	CREATE FUNCTION dawdle(seconds float) RETURNS boolean LANGUAGE plpgsql AS $$
	BEGIN
		IF NOT EXISTS (SELECT FROM hurry) THEN
			PERFORM pg_sleep(seconds);
		END IF;
		RETURN true;
	END $$;
	SELECT stream.create_projection('slow', 'log', statement =>
		$$ INSERT INTO slow SELECT (value->>'n')::int FROM batch WHERE dawdle((value->>'seconds')::float) $$);
	SELECT stream.create_projection('quick', 'log', statement => $$ INSERT INTO quick SELECT (value->>'n')::int FROM batch $$);
});

# Together they take too long, a few of them do not.
sql(q{SELECT count(stream.publish('log', 'k', jsonb_build_object('n', i, 'seconds', 0.03))) FROM generate_series(1, 40) i});
is(sql(q{SELECT stream.wait_for('slow', timeout => '60 s')}), 't', 'a batch that takes too long is made smaller');
is(sql('SELECT count(*), sum(n) FROM slow'), '40|820', 'each record is applied once');

# One takes too long by itself.
sql(q{SELECT count(stream.publish('log', 'k', jsonb_build_object('n', i, 'seconds', CASE WHEN i = 47 THEN 600 ELSE 0 END)))
	FROM generate_series(41, 60) i});
wait_until('the record is named', sub { return sql(q{SELECT record_offset, stopped, sqlstate FROM stream_internal.projection_errors}) eq '46|f|57014' });
pass('the record is named');
is(sql('SELECT max(n) FROM slow'), 46, 'those before it are applied');
is(sql(q{SELECT stream.wait_for('quick', timeout => '60 s')}), 't', 'the other projection goes on');
is(sql('SELECT count(*) FROM quick'), 60, 'to the end');

# It is a circumstance, and can pass.
sql('INSERT INTO hurry DEFAULT VALUES');
is(sql(q{SELECT stream.wait_for('slow', timeout => '60 s')}), 't', 'applied when it is quick enough');
is(sql('SELECT count(*), sum(n) FROM slow'), '60|1830', 'each once');
is(sql('SELECT count(*) FROM stream_internal.projection_errors'), 0, 'no error is left');

# Zero is no limit.
$node->append_conf('postgresql.conf', 'stream.apply_timeout = 0');
$node->reload;
sql('DELETE FROM hurry');
wait_until('appliers know', sub { return sql('SHOW stream.apply_timeout') eq '0' });
sql(q{SELECT stream.publish('log', 'k', '{"n": 61, "seconds": 1}')});
is(sql(q{SELECT stream.wait_for('slow', timeout => '60 s')}), 't', 'without a limit');
is(sql('SELECT count(*) FROM stream_internal.projection_errors'), 0, 'it takes its time');

$node->stop;
done_testing();
