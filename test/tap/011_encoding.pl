# Databases of other encodings: a key is placed by its UTF-8 bytes, and a log that was
# written under another encoding is not touched.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

$ENV{PGCLIENTENCODING} = 'UTF8';
my $node = new_node('encoding', conf => ['autovacuum = off']);
my %databases = (utf8 => 'UTF8', latin1 => 'LATIN1', ascii => 'SQL_ASCII');
my @keys = ('plain', 'café', 'naïve', 'Ünïcödé', 'ß', '');
my $keys = join ', ', map { "'$_'" } @keys;

foreach my $db (sort keys %databases)
{
	create_database($node, $db, "TEMPLATE template0 ENCODING '$databases{$db}' LC_COLLATE 'C' LC_CTYPE 'C'");
	$node->safe_psql($db, q{SELECT stream.create_stream('s', 100), stream.create_stream('b', 1, 'bytea')});
}

#
# The same keys go to the same partitions.
#
my %positions = map {
	my $db = $_;
	(   $db => join ' ',
		split /\n/,
		$node->safe_psql(
			$db, qq{
		SELECT stream.partition_of(stream.publish('s', k, to_jsonb(k)))
		FROM unnest(ARRAY[$keys]) WITH ORDINALITY u(k, i) ORDER BY i}
		))
} sort keys %databases;
like($positions{utf8}, qr/^\d+( \d+){5}$/, 'keys have partitions in UTF8');
is($positions{latin1}, $positions{utf8}, 'the same in LATIN1');
is($positions{ascii}, $positions{utf8}, 'and in SQL_ASCII, when the bytes are UTF-8');

# a batch and an INSERT place them in the same way
foreach my $db (sort keys %databases)
{
	is( $node->safe_psql(
			$db,
			qq{SELECT string_agg(stream.partition_of(p)::text, ' ' ORDER BY i) FROM stream.publish_batch('s', ARRAY[$keys],
			array_fill('1'::jsonb, ARRAY[6])) WITH ORDINALITY u(p, i)}),
		$positions{utf8},
		"publish_batch in $databases{$db}");
	is( $node->safe_psql(
			$db,
			qq{WITH i AS (INSERT INTO streams.s (key, value) SELECT k, '1' FROM unnest(ARRAY[$keys]) k RETURNING key, partition)
			SELECT string_agg(partition::text, ' ' ORDER BY array_position(ARRAY[$keys], key)) FROM i}),
		$positions{utf8},
		"INSERT in $databases{$db}");
	is( join(
			',',
			sort split(
				/\n/, $node->safe_psql($db, q{SELECT '<' || key || '>' FROM streams.s WHERE value #>> '{}' = key}))
		),
		join(',', sort map { "<$_>" } @keys),
		"keys and values come back in $databases{$db}");
	log_is_sound($node, $db, 's', "the log is sound in $databases{$db}");
}

# What has no place in the encoding is refused before anything is published.
error_is($node, 'latin1', q{SELECT stream.publish('s', 'ключ', '{}'::jsonb)}, '22P05',
	'a key that LATIN1 has not');
error_is($node, 'latin1', q{SELECT stream.publish('s', 'k', '{"a": "\u043a"}')},
	'22P05', 'a value that LATIN1 has not');

#
# A stream that was written under another encoding or byte order
#
$node->safe_psql('utf8', q{SELECT stream.publish_bytes('b', 'k', '\x01')});
foreach my $change (q{encoding = 'LATIN1'}, q{byte_order = 'big'})
{
	my ($column) = $change =~ /^(\w+)/;
	my $original = $node->safe_psql('utf8', "SELECT $column FROM stream_internal.streams WHERE stream = 's'");
	my %foreign = (message => qr/written under another encoding or byte order/, hint => qr/not portable/);

	$node->safe_psql('utf8', qq{UPDATE stream_internal.streams SET $change});
	errors_are(
		$node, 'utf8', '0A000',
		[
			q{SELECT stream.publish('s', 'k', '{}'::jsonb)},
			q{SELECT stream.publish_bytes('b', 'k', '')},
			q{SELECT stream.publish_tombstone('s', 'k')},
			q{SELECT stream.publish_batch('s', NULL, ARRAY['{}'::jsonb])},
			q{INSERT INTO streams.s (value) VALUES ('{}')},
			q{SELECT * FROM stream.read('s', 0)},
			q{SELECT * FROM stream.read_bytes('b', 0)},
			q{SELECT * FROM streams.s},
			q{SELECT stream.offset_at('s', 0, now())},
			q{SELECT * FROM stream.verify_log('s')}
		],
		"$change: ",
		%foreign);
	$node->safe_psql('utf8', qq{UPDATE stream_internal.streams SET $column = '$original'});
	like($node->safe_psql('utf8', q{SELECT stream.publish('s', 'k', '{}'::jsonb)}),
		qr/^\d+:\d+$/, "$change: undone, all is well");
}
is($node->safe_psql('utf8', q{SELECT convert_from(value, 'UTF8') = E'\001' FROM streams.b}),
	't', 'the records are as they were');

# A dump says under which encoding it was written.
my $dump = PostgreSQL::Test::Utils::tempdir . '/dump';
$node->command_ok([ 'pg_dump', '--encoding=UTF8', '-f', $dump, $node->connstr('latin1') ],
	'dump of a LATIN1 database');
$node->safe_psql('postgres',
	q{CREATE DATABASE restored TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'});
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ],
	'restored into UTF8');
error_is(
	$node, 'restored', q{SELECT * FROM stream.read('s', 0)},
	'0A000',
	'is not read there',
	hint => qr/not portable/);
error_is(
	$node, 'restored', q{SELECT stream.publish('s', 'k', '{}'::jsonb)},
	'0A000',
	'nor published to',
	hint => qr/not portable/);
$node->safe_psql('restored', q{SELECT stream.drop_stream('s')});
is($node->safe_psql('restored', q{SELECT count(*) FROM stream.stream_status WHERE stream = 's'}),
	'0', 'but it can be dropped');

$node->stop;
done_testing();
