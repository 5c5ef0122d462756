# CREATE and DROP of the extension and of databases, committed and rolled back: shared
# state goes with what it belongs to, and stays with everything else.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('extension', conf => ['autovacuum = off']);

sub partitions_used
{
	return $node->safe_psql('postgres', "SELECT used FROM stream.memory_status WHERE area = 'partitions'");
}

# publish(DB, STREAM): returns the offset in partition 0.
sub publish
{
	my ($db, $stream) = @_;

	return $node->safe_psql($db,
		"SELECT stream.offset_of(stream.publish('$stream', 'k', '{}'::jsonb, partition => 0))");
}

# offsets(DB, STREAM): of the records in partition 0.
sub offsets
{
	my ($db, $stream) = @_;

	return $node->safe_psql($db, "SELECT string_agg(record_offset::text, ' ') FROM stream.read('$stream', 0)");
}

is(partitions_used(), '0', 'no shared state at the start');

#
# CREATE EXTENSION
#
my $create_and_publish = q{
	CREATE EXTENSION stream;
	SELECT stream.create_stream('s', 2);
	SELECT stream.publish('s', 'k', '{"rolled": "back"}'::jsonb, partition => p)
	FROM generate_series(0, 1) p, generate_series(1, 50);
};
$node->safe_psql('postgres', 'CREATE DATABASE one');
$node->safe_psql('one', "BEGIN; $create_and_publish; ROLLBACK");
is(partitions_used(), '0', 'CREATE EXTENSION rolled back leaves no state');
error_is($node, 'one', q{SELECT stream.publish('s', 'k', '{}'::jsonb)}, '3F000', 'and no extension');

# In one transaction: nothing that it remembers of the first extension's stream, which
# had the same number, may be used for the second's.
error_is(
	$node, 'one', qq{
	BEGIN; $create_and_publish; ROLLBACK;
	BEGIN; SAVEPOINT a; $create_and_publish; ROLLBACK TO a; $create_and_publish;
	SAVEPOINT b; SELECT stream.create_stream('other'); SELECT stream.publish('other', 'k', '{}'::jsonb); ROLLBACK TO b;
	COMMIT;
	}, '00000', 'CREATE EXTENSION after a rollback to a savepoint');
$node->safe_psql('one', $create_and_publish)
  unless $node->safe_psql('one', q{SELECT count(*) FROM pg_extension WHERE extname = 'stream'});
is($node->safe_psql('one', q{SELECT count(*), min(record_offset), max(record_offset) FROM streams.s}),
	'100|0|49', 'its stream starts afresh');
is(partitions_used(), '2', 'and only its stream has state');
log_is_sound($node, 'one', 's', 'its log is sound');

#
# DROP EXTENSION, rolled back
#
$node->safe_psql(
	'one', q{
	BEGIN;
	SELECT stream.publish('s', 'k', '{}'::jsonb, partition => 0);
	DROP EXTENSION stream CASCADE;
	ROLLBACK;
});
is(partitions_used(), '2', 'DROP EXTENSION rolled back keeps the state');
is(publish('one', 's'), 51, 'and offsets go on');
$node->safe_psql(
	'one', q{
	BEGIN;
	SELECT stream.publish('s', 'k', '{}'::jsonb, partition => 0);
	SAVEPOINT a;
	DROP EXTENSION stream CASCADE;
	ROLLBACK TO a;
	SELECT stream.publish('s', 'k', '{}'::jsonb, partition => 0);
	COMMIT;
});
like(
	offsets('one', 's'),
	qr/ 49 51 52 53$/,
	'what was published before and after a DROP EXTENSION rolled back to a savepoint is there');
error_is($node, 'one', q{BEGIN; SELECT stream.publish('s', 'k', '{}'::jsonb); DROP EXTENSION stream; COMMIT},
	'2BP01', 'DROP EXTENSION without CASCADE refuses when there are streams');

#
# DROP EXTENSION, and another one with the same numbers of streams, below the eyes of a
# session that has published to the first.
#
my $session = $node->background_psql('one', on_error_stop => 0);
$session->query_safe(q{SELECT stream.publish('s', 'k', '{}'::jsonb, partition => 0)});
is($session->query_safe(q{SELECT stream_id FROM stream_internal.streams}), '1', 'the stream is number 1');

# publishing in the same transaction as the drop
$node->safe_psql('one',
	q{BEGIN; SELECT stream.publish('s', 'k', '{}'::jsonb, partition => 0); DROP EXTENSION stream CASCADE; COMMIT});
is(partitions_used(), '0', 'DROP EXTENSION removes the state');
is($node->safe_psql('one', q{SELECT count(*) FROM pg_namespace WHERE nspname ~ '^stream'}),
	'0', 'and leaves no schema');
$session->query(q{SELECT stream.publish('s', 'k', '{}'::jsonb)});
like($session->{stderr}, qr/schema "stream" does not exist/, 'the other session sees that it has gone');
$session->{stderr} = '';

$node->safe_psql('one', q{CREATE EXTENSION stream; SELECT stream.create_stream('s', 3, 'bytea')});
is($session->query_safe(q{SELECT stream_id FROM stream_internal.streams}),
	'1', 'the new stream is number 1 as well');
is($session->query_safe(q{SELECT count(*) FROM stream.read_bytes('s', 0)}), '0', 'it is empty');
is($session->query_safe(q{SELECT stream.publish_bytes('s', 'k', 'new', partition => 0)}),
	'0:0', 'its offsets begin at 0');
is($session->query_safe(q{SELECT stream.publish_bytes('s', 'k', 'new', partition => 2)}),
	'2:0', 'it has the new partitions');
is($node->safe_psql('one', q{SELECT partition, record_offset, key, convert_from(value, 'UTF8') FROM streams.s}),
	"0|0|k|new\n2|0|k|new", 'what the session published is there');
is(partitions_used(), '2', 'two partitions have state');

# The session may be in a transaction that has used the extension: the drop waits.
$session->query_safe(q{BEGIN; SELECT stream.publish_bytes('s', 'k', 'open', partition => 0)});
error_is($node, 'one', q{SET lock_timeout = '100ms'; DROP EXTENSION stream CASCADE},
	'55P03', 'DROP EXTENSION waits for an open publisher');
is($session->query_safe(q{COMMIT; SELECT stream.publish_bytes('s', 'k', 'next', partition => 0)}),
	'0:2', 'which goes on undisturbed');
$session->quit;
log_is_sound($node, 'one', 's', 'the log is sound');

#
# DROP and CREATE EXTENSION in one transaction
#
create_database($node, 'again');
$node->safe_psql(
	'again', q{
	SELECT stream.create_stream('s');
	SELECT stream.publish('s', 'k', '1'::jsonb);
	CALL stream.roll_segment('s');
	SELECT stream.publish('s', 'k', '2'::jsonb);
});
my $replace = q{DROP EXTENSION stream CASCADE; CREATE EXTENSION stream; SELECT stream.create_stream('s');};
error_is($node, 'again', qq{BEGIN; $replace SELECT stream.publish('s', 'k', '3'::jsonb); COMMIT},
	'00000', 'DROP and CREATE EXTENSION in one transaction');
is($node->safe_psql('again', q{SELECT value FROM streams.s}), '3', 'the new stream has what was published to it');
is(publish('again', 's'), 1, 'with offsets of its own');
error_is(
	$node,
	'again',
	qq{BEGIN; SELECT stream.publish('s', 'k', '4'::jsonb); $replace SELECT stream.publish('s', 'k', '5'::jsonb); COMMIT},
	'00000',
	'and so when something was published before');
is($node->safe_psql('again', q{SELECT value FROM streams.s}), '5', 'of which nothing is left');
$node->safe_psql('postgres', 'DROP DATABASE again');

#
# Databases: a copy, a new name, a drop
#
my $used = partitions_used();
$node->safe_psql('postgres', 'CREATE DATABASE two TEMPLATE one');
is( $node->safe_psql('two', 'SELECT * FROM streams.s'),
	$node->safe_psql('one', 'SELECT * FROM streams.s'),
	'a copy of a database has the records');
is(partitions_used(), $used, 'and no state');
foreach my $db ('two', 'one')
{
	$node->safe_psql($db,
		q{SELECT stream.publish_bytes('s', 'k', convert_to(current_database() || n, 'UTF8'), partition => 0)
			FROM generate_series(1, 5) n}
	);
}
foreach my $db ('one', 'two')
{
	is( $node->safe_psql($db, q{SELECT convert_from(value, 'UTF8') FROM stream.read_bytes('s', 0) OFFSET 3}),
		join("\n", map { "$db$_" } 1 .. 5),
		"$db has what was published there");
	log_is_sound($node, $db, 's', "the log in $db is sound");
}
is(partitions_used(), $used + 1, 'each has state of its own');

my $next = 1 + $node->safe_psql('two', q{SELECT max(record_offset) FROM stream.read_bytes('s', 0)});
$node->safe_psql('postgres', 'ALTER DATABASE two RENAME TO three');
is($node->safe_psql('three', q{SELECT stream.publish_bytes('s', 'k', 'renamed', partition => 0)}),
	"0:$next", 'offsets go on after a RENAME');

# A failed drop changes nothing.
$session = $node->background_psql('three');
$session->query_safe(q{SELECT stream.publish_bytes('s', 'k', 'connected', partition => 0)});
error_is($node, 'postgres', 'DROP DATABASE three', '55006', 'DROP DATABASE fails while a session is connected');
is(partitions_used(), $used + 1, 'a failed DROP DATABASE keeps the state');
is( $session->query_safe(q{SELECT stream.publish_bytes('s', 'k', 'still', partition => 0)}),
	'0:' . ($next + 2),
	'the session goes on');
$session->quit;
$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'three' AND backend_type = 'client backend'});
$node->safe_psql('postgres', 'DROP DATABASE three');
is(partitions_used(), $used, 'DROP DATABASE removes the state of its streams only');
like($node->safe_psql('one', q{SELECT stream.publish_bytes('s', 'k', 'last', partition => 0)}),
	qr/^0:\d+$/, 'the other database is not touched');

# FORCE ends a session with an open publisher.
create_database($node, 'four');
$node->safe_psql('four', q{SELECT stream.create_stream('s', 4)});
$session = $node->background_psql('four', on_error_stop => 0);
$session->query_safe(
	q{BEGIN; SELECT stream.publish('s', 'k', '{}'::jsonb, partition => p) FROM generate_series(0, 3) p});
is(partitions_used(), $used + 4, 'a fourth database has state');
is($node->safe_psql('postgres', q{SELECT used FROM stream.memory_status WHERE area = 'publishers'}),
	'4', 'and an open publisher');
$node->safe_psql('postgres', 'DROP DATABASE four WITH (FORCE)');
end_session($session);
is(partitions_used(), $used, 'DROP DATABASE FORCE removes the state');
is($node->safe_psql('postgres', q{SELECT used FROM stream.memory_status WHERE area = 'publishers'}),
	'0', 'and the publisher');

# The next database starts with nothing, whatever numbers it has.
create_database($node, 'four');
$node->safe_psql('four', q{SELECT stream.create_stream('s', 4)});
is(publish('four', 's'), '0', 'a new database of the same name starts afresh');

$node->stop;
done_testing();
