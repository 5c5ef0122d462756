# pg_dump and pg_restore.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamLoad;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('dump', conf => ['autovacuum = off']);
my $dir = $PostgreSQL::Test::Utils::tmp_check;
my $quoted = 'Odd "name", with ünï';
my @streams = ('plain', 'bytes', 'empty', $quoted);

# run(NAME, COMMAND...): must succeed and have nothing to say.
sub run_quietly
{
	my ($test, @command) = @_;
	my ($stdout, $stderr);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	my $result = IPC::Run::run \@command, '>', \$stdout, '2>', \$stderr;
	ok($result && $stderr eq '', $test) or diag($stderr);
	return $stdout;
}

sub all_records
{
	my ($db) = @_;

	return join "\n--\n", map { records($node, $db, $_) } @streams;
}

sub segments
{
	my ($db) = @_;

	return $node->safe_psql(
		$db, q{
		SELECT stream, segment_bytes, segment_age, segment_no, state, s.records, batches, s.bytes, offset_ranges, first_published_at, last_published_at
		FROM stream.segment_status s JOIN stream.stream_status USING (stream) ORDER BY stream, segment_no});
}

# What a dump must restore, or leave behind when a stream is dropped.
my $objects = q{
	SELECT n.nspname, c.relname, c.relkind, c.relowner::regrole, c.reloptions
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname ~ '^stream' AND c.relname !~ '^pg_toast' ORDER BY 1, 2};

# check_restored(DB, TEST): everything is there, and publishing goes on above.
my (%original, %highest);

sub check_restored
{
	my ($db, $test) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(all_records($db), $original{records}, "$test: same records");
	is(segments($db), $original{segments}, "$test: same segments");
	is($node->safe_psql($db, $objects), $original{objects}, "$test: same tables, indexes and sequences");
	foreach my $stream (@streams)
	{
		log_is_sound($node, $db, $stream, "$test: the log of $stream is sound");
	}
	my ($low) = $node->safe_psql(
		$db, q{
		SELECT min(stream.offset_of(stream.publish('plain', NULL, '{"after": "restore"}'::jsonb, partition => p)))
		FROM generate_series(0, 2) p});
	cmp_ok($low, '>', $highest{plain}, "$test: offsets go on above all that were given");
	($low) = $node->safe_psql($db, q{SELECT stream.offset_of(stream.publish_bytes('bytes', 'k', '\x00'))});
	cmp_ok($low, '>', $highest{bytes}, "$test: also those that were rolled back");
	is($node->safe_psql($db, q{SELECT stream.offset_of(stream.publish('empty', 'k', '1'::jsonb))}),
		'0', "$test: the empty stream begins");
	log_is_sound($node, $db, 'plain', "$test: the log is sound with the new records");

	# a stream goes with all its parts
	$node->safe_psql($db,
		q{CALL stream.roll_segment('plain'); SELECT stream.drop_stream(stream) FROM stream_internal.streams});
	is( $node->safe_psql(
			$db, q{SELECT string_agg(c.relname, ' ') FROM pg_class c
		WHERE relnamespace = 'stream_internal'::regnamespace AND relname ~ '^s\d'}),
		'',
		"$test: dropped streams leave nothing");
	is($node->safe_psql($db, q{SELECT count(*) FROM stream_internal.segment_ranges}),
		'0', "$test: also in the catalog");
	return;
}

#
# The original: several segments, sealed ones and the active one, and rolled-back tails.
#
create_database($node, 'original');
$node->safe_psql(
	'original', qq{
	CREATE ROLE reader;
	CREATE ROLE owner;
	SELECT stream.create_stream('plain', 3);
	SELECT stream.create_stream('bytes', 1, 'bytea', 'none', segment_bytes => 123456789, segment_age => '36 h 0.5 s');
	SELECT stream.create_stream('empty');
	SELECT stream.create_stream('$quoted');
	GRANT SELECT ON streams.plain TO reader;
	ALTER FOREIGN TABLE streams.bytes OWNER TO owner;
} . q{
	SELECT count(*) FROM stream.publish_batch('plain', ARRAY(SELECT 'k' || i % 10 FROM generate_series(1, 500) i),
		ARRAY(SELECT jsonb_build_object('n', i, 'x', repeat(md5(i::text), 3)) FROM generate_series(1, 500) i));
	SELECT stream.publish_tombstone('plain', 'k1', '{"why": "gone"}');
	SELECT stream.publish('plain', 'big', to_jsonb(repeat('0123456789', 20000)));
	SELECT stream.publish_bytes('bytes', NULL, decode(repeat('00ff5c27', i), 'hex'), '{"i": 1}')
	FROM generate_series(0, 40) i;
	SELECT stream.publish_tombstone('bytes', 'k');
	CALL stream.roll_segment('plain');
	SELECT stream.publish('plain', NULL, jsonb_build_array(i, NULL, 'a"b\c')) FROM generate_series(1, 20) i;
	CALL stream.roll_segment('plain');
	CALL stream.roll_segment('bytes');
	SELECT stream.publish('plain', 'active', '{}'::jsonb);
} . qq{
	SELECT stream.publish('$quoted', 'ключ', '{"ü": "ü"}'::jsonb);
	BEGIN;
	SELECT stream.publish_bytes('bytes', NULL, 'x') FROM generate_series(1, 300);
	ROLLBACK;
});
%original = (
	records => all_records('original'),
	segments => segments('original'),
	objects => $node->safe_psql('original', $objects));
%highest =
  split /[|\n]/,
  $node->safe_psql('original', q{SELECT stream, max(log_end_offset) - 1 FROM stream.partition_status GROUP BY 1});
cmp_ok($highest{bytes}, '>=', 341, 'the original has a rolled-back tail');
is($node->safe_psql('original', q{SELECT count(*) FROM stream.segment_status WHERE state = 'sealed'}),
	'3', 'and sealed segments');

#
# Plain text
#
run_quietly('pg_dump', 'pg_dump', '-f', "$dir/plain.sql", 'original');
my $text = slurp_file("$dir/plain.sql");
unlike($text, qr/COPY streams\./, 'the foreign tables are dumped without data');
is(scalar(() = $text =~ /^CREATE FOREIGN TABLE streams\./mg), 4, 'each stream has one foreign table');
is(scalar(() = $text =~ /^CREATE SEQUENCE stream_internal\.s\d+_p\d+$/mg), 6, 'each partition one sequence');
unlike(
	$text,
	qr/CREATE SEQUENCE stream_internal\.stream_id_seq|CREATE TABLE stream_internal\.(?!s\d)/,
	'catalogs belong to the extension');
$node->safe_psql('postgres', 'CREATE DATABASE plain TEMPLATE template0');
run_quietly(
	'psql restores it', 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-o',
	"$dir/psql.out", '-f', "$dir/plain.sql", 'plain');
is( $node->safe_psql(
		'plain',
		q{SELECT has_table_privilege('reader', 'streams.plain', 'SELECT'), relowner::regrole
			FROM pg_class WHERE oid = 'streams.bytes'::regclass}
	),
	't|owner',
	'privileges and owners are those of the original');
check_restored('plain', 'plain');

# A dump of what was restored has the same lines; their order may follow dependencies
# that are not dumped.
$node->safe_psql('postgres', 'CREATE DATABASE again TEMPLATE template0');
run_quietly(
	'psql restores it once more', 'psql', '-Xq', '-v',
	'ON_ERROR_STOP=1', '-o', "$dir/psql.out", '-f',
	"$dir/plain.sql", 'again');
my $again = run_quietly('pg_dump of the restored database', 'pg_dump', 'again');
is( join("\n", sort grep { !/^--|^\\(un)?restrict / } split /\n/, $again),
	join("\n", sort grep { !/^--|^\\(un)?restrict / } split /\n/, $text),
	'gives the same dump');

#
# Custom format, two jobs, and --clean over what is there
#
run_quietly('pg_dump -Fc', 'pg_dump', '-Fc', '-f', "$dir/custom", 'original');
$node->safe_psql('postgres', 'CREATE DATABASE custom TEMPLATE template0');
run_quietly('pg_restore -j2', 'pg_restore', '-j2', '-d', 'custom', "$dir/custom");
$node->safe_psql('custom',
	q{SELECT stream.publish('plain', 'k', '"to be replaced"'::jsonb), stream.create_stream('plain too')});
$node->safe_psql('custom', q{SELECT stream.drop_stream('plain too')});
run_quietly('pg_restore --clean', 'pg_restore', '-j2', '--clean', '-d', 'custom', "$dir/custom");
run_quietly('pg_restore --clean --if-exists',
	'pg_restore', '--clean', '--if-exists', '-d', 'custom', "$dir/custom");
check_restored('custom', '--clean --if-exists');

# over the original, which has been published to since
$node->safe_psql('original',
	q{SELECT stream.publish('plain', 'k', '"to be replaced"'::jsonb) FROM generate_series(1, 300)});
run_quietly('pg_restore --clean over the original',
	'pg_restore', '--clean', '--if-exists', '-d', 'original', "$dir/custom");
check_restored('original', '--clean over the original');

#
# Section by section: between data and indexes nobody can publish.
#
$node->safe_psql('postgres', 'CREATE DATABASE sections TEMPLATE template0');
my $publish = q{SELECT stream.publish('plain', 'k', '{}'::jsonb)};
my $used = $node->safe_psql('postgres', q{SELECT used FROM stream.memory_status WHERE area = 'partitions'});
run_quietly('pg_restore --section=pre-data', 'pg_restore', '--section=pre-data', '-d', 'sections', "$dir/custom");
error_is($node, 'sections', $publish, '55000', 'publish before the data', hint => qr/let it finish first/);
error_is(
	$node, 'sections', q{SELECT * FROM stream.read('plain', 0)},
	'55000',
	'read before the data',
	hint => qr/let it finish first/);
is( $node->safe_psql(
		'sections', 'SELECT count(*) FROM stream.stream_status, stream.partition_status, stream.segment_status'),
	'0',
	'the views show nothing yet');
run_quietly('pg_restore --section=data', 'pg_restore', '--section=data', '-d', 'sections', "$dir/custom");
error_is($node, 'sections', $publish, '55000', 'publish before the indexes', hint => qr/let it finish first/);
error_is(
	$node, 'sections', q{SELECT * FROM stream.read('plain', 0)},
	'55000',
	'read before the indexes',
	hint => qr/let it finish first/);
is($node->safe_psql('sections', q{SELECT used FROM stream.memory_status WHERE area = 'partitions'}),
	$used, 'and nobody has made state');
run_quietly('pg_restore --section=post-data', 'pg_restore', '--section=post-data', '-d', 'sections',
	"$dir/custom");
check_restored('sections', 'sections');

#
# Schema only: streams without a log, which say so, and can be dropped.
#
$node->safe_psql('postgres', 'CREATE DATABASE schema TEMPLATE template0');
run_quietly('pg_restore --schema-only', 'pg_restore', '--schema-only', '-d', 'schema', "$dir/custom");
error_is($node, 'schema', $publish, '55000', 'publish to a schema without data', message => qr/is not a stream/);
error_is($node, 'schema', q{DROP FOREIGN TABLE streams.plain; SELECT stream.create_stream('plain', 2)},
	'00000', 'it can be dropped and made anew');
error_is($node, 'schema', $publish . q{; SELECT count(*) FROM streams.plain}, '00000', 'and published to');

#
# A dump in two processes while sessions publish and segments roll: of each session, the
# transactions up to some moment.
#
$node->safe_psql('postgres', q{SELECT stream.create_stream('load', 4)});
my $load = StreamLoad->new($node, 'load', 4, 3);
$load->start(60, '', "CALL stream.roll_segment('load');\nSELECT pg_sleep(0.05);\n" x 20);
$load->wait_for_commits(20);
run_quietly('pg_dump -Fd -j2 under load', 'pg_dump', '-Fd', '-j2', '-f', "$dir/directory", 'postgres');
is($load->finish, 0, 'the load goes on undisturbed');
is($load->complaints, '', 'and is all there');
$node->safe_psql('postgres', 'CREATE DATABASE loaded TEMPLATE template0');
run_quietly('pg_restore -j2 of it', 'pg_restore', '-j2', '-d', 'loaded', "$dir/directory");
is($load->complaints('lost', 'loaded'), '', 'the restored log holds whole transactions up to a moment');
log_is_sound($node, 'loaded', 'load', 'and is sound');
is( $node->safe_psql(
		'loaded', q{SELECT stream.offset_of(stream.publish('load', NULL, '{}'::jsonb, partition => p)) > max
	FROM (SELECT partition AS p, max(record_offset) FROM streams.load GROUP BY 1) m}),
	"t\nt\nt\nt",
	'publishing goes on above');

$node->stop;
done_testing();
