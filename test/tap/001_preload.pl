# Without shared_preload_libraries every function fails, and says what is missing; with
# it again, all is as it was.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my %missing = (
	message => qr/stream must be loaded via "shared_preload_libraries"/,
	hint => qr/Add "stream" to shared_preload_libraries/);

my $node = new_node('preload');
$node->safe_psql(
	'postgres', q{
	SELECT stream.create_stream('kept', 2);
	SELECT stream.create_stream('dropped', 2);
	SELECT stream.publish('dropped', 'a', '{"n": 1}'::jsonb);
	SELECT stream.publish('kept', 'a', '{"n": 1}'::jsonb) AS "position" \gset
	SELECT stream.create_consumer_group('kept', 'group');
	SELECT stream.skip_record('kept', 'group', :'position', 'a view of dead letters has nothing to ask without one');
});
my $before = records($node, 'postgres', 'kept');

# preload(LIBRARIES): restarts the server with them.
sub preload
{
	my ($libraries) = @_;

	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'$libraries'");
	$node->restart;
	return;
}

# Every function and procedure that the extension offers, but for those that compute
# with a position only, called with arguments of the right types.
sub calls
{
	return split /\n/, $node->safe_psql(
		'postgres', q{
		SELECT CASE p.prokind WHEN 'p' THEN 'CALL ' ELSE 'SELECT * FROM ' END || p.oid::regproc || '(' ||
			(SELECT string_agg(CASE format_type(t, NULL)
					WHEN 'text' THEN $$'kept'::text$$
					WHEN 'integer' THEN '1'
					WHEN 'bigint' THEN '0::bigint'
					WHEN 'boolean' THEN 'false'
					WHEN 'bigint[]' THEN $$'{1}'::bigint[]$$
					WHEN 'integer[]' THEN $$'{0}'::int[]$$
					WHEN 'jsonb' THEN $$'{}'::jsonb$$
					WHEN 'json' THEN $$'{}'::json$$
					WHEN 'bytea' THEN $$''::bytea$$
					WHEN 'text[]' THEN $$'{a}'::text[]$$
					WHEN 'jsonb[]' THEN $$'{"{}"}'::jsonb[]$$
					WHEN 'bytea[]' THEN $$'{a}'::bytea[]$$
					WHEN 'regclass' THEN $$'streams.kept'::regclass$$
					WHEN 'interval' THEN $$'1 s'::interval$$
					WHEN 'timestamp with time zone' THEN 'now()'
					WHEN 'stream.record_position' THEN $$'0:0'::stream.record_position$$
					WHEN 'stream.record_position[]' THEN $$'{0:0}'::stream.record_position[]$$
				END, ', ' ORDER BY i)
			FROM unnest(p.proargtypes) WITH ORDINALITY u(t, i)) || ')'
		FROM pg_proc p
		WHERE p.pronamespace = 'stream'::regnamespace
			AND p.provolatile = 'v'
		ORDER BY 1});
}

preload('');

my @calls = calls();
cmp_ok(scalar @calls, '>', 10, 'there are functions to call');
my @views = split /\n/,
  $node->safe_psql('postgres',
	q{SELECT oid::regclass FROM pg_class WHERE relkind = 'v' AND relnamespace = 'stream'::regnamespace});
my @uses = (
	q{SELECT * FROM streams.kept},
	q{INSERT INTO streams.kept (key, value) VALUES ('b', '{}')},
	q{COPY streams.kept (key, value) FROM '/dev/null'});
errors_are($node, 'postgres', '55000', [ @calls, map({ "SELECT * FROM $_" } @views), @uses ], '', %missing);
is($node->safe_psql('postgres', q{SELECT stream.offset_of('3:1042')}), '1042', 'positions need no shared memory');

# Loaded later, the library cannot get what it needs.
errors_are(
	$node,
	'postgres',
	'55000',
	[
		map { "LOAD 'stream'\\; $_" } q{SELECT stream.publish('kept', 'b', '{"n": 2}'::jsonb)},
		q{SELECT * FROM stream.read('kept', 0)}
	],
	'', %missing);
$node->safe_psql('postgres', q{ALTER DATABASE postgres SET session_preload_libraries = 'stream'});
error_is($node, 'postgres', q{SELECT * FROM stream.read('kept', 0)},
	'55000', 'session_preload_libraries', %missing);
$node->safe_psql('postgres', q{ALTER DATABASE postgres RESET session_preload_libraries});

# The extension itself can be created, and dropped.
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION stream');
error_is($node, 'other', q{SELECT stream.create_stream('s')},
	'55000', 'create_stream in a new extension', %missing);
$node->safe_psql('other', 'DROP EXTENSION stream');
$node->safe_psql('other', 'CREATE EXTENSION stream');

# Nobody can keep an owner from dropping a foreign table now.
$node->safe_psql('postgres', 'DROP FOREIGN TABLE streams.dropped');

preload('stream');

is(records($node, 'postgres', 'kept'), $before, 'the records are there when the library is');
like($node->safe_psql('postgres', q{SELECT stream.publish('kept', 'a', '{"n": 2}'::jsonb)}),
	qr/^\d:\d+$/, 'and publishing goes on');
log_is_sound($node, 'postgres', 'kept', 'the log is sound');
is( $node->safe_psql('other', q{SELECT stream.create_stream('s'); SELECT stream.publish('s', NULL, '{}'::jsonb)}),
	"\n0:0",
	'an extension created without the library works with it');

is($node->safe_psql('postgres', 'SELECT stream FROM stream.stream_status'),
	'kept', 'a stream whose table was dropped has gone');
error_is($node, 'postgres',
	q{SELECT stream.create_stream('dropped'); SELECT stream.publish('dropped', 'a', '{}'::jsonb)},
	'00000', 'its name is free');

$node->stop;
done_testing();
