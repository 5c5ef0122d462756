# pg_dump and pg_restore with the rows of the foreign tables (--include-foreign-data):
# the log itself is in every dump, so the rows must not double it, whichever comes first.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('face_dump', conf => [ 'autovacuum = off', 'fsync = off' ]);
my $dir = $PostgreSQL::Test::Utils::tmp_check;
my $quoted = 'Odd "name"';
my @streams = ('s', 'bytes', $quoted, 'empty');

# run(COMMAND...): output, errors and success.
sub run
{
	my (@command) = @_;
	my ($stdout, $stderr);

	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	my $result = IPC::Run::run \@command, '<', \undef, '>', \$stdout, '2>', \$stderr;
	return ($stdout, $stderr, $result);
}

# run_quietly(TEST, COMMAND...): must succeed and have nothing to say.
sub run_quietly
{
	my ($test, @command) = @_;
	my ($stdout, $stderr, $result) = run(@command);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($result && $stderr eq '', $test) or diag($stderr);
	return $stdout;
}

sub all_records
{
	my ($db) = @_;

	return join "\n--\n", map { records($node, $db, $_) } @streams;
}

my $original;

# new_database(NAME, SQL)
sub new_database
{
	my ($db, $sql) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0");
	$node->safe_psql($db, $sql) if $sql;
	return;
}

# What a dropped stream could leave behind.
my $left = q{
	SELECT relname FROM pg_class WHERE relnamespace = 'stream_internal'::regnamespace AND relname ~ '^s\d'
	UNION ALL SELECT relname FROM pg_class WHERE relnamespace = 'streams'::regnamespace
	UNION ALL SELECT 'partition ' || "partition" FROM stream_internal.partitions
	UNION ALL SELECT 'segment ' || segment_no FROM stream_internal.segments
	UNION ALL SELECT 'range of ' || segment_no FROM stream_internal.segment_ranges};

sub states
{
	return $node->safe_psql('postgres', q{SELECT used FROM stream.memory_status WHERE area = 'partitions'});
}

# is_restored(DB, TEST, publish => 1): the same records, a sound log, the face shows it,
# and dropped streams leave nothing, whether they were published to or not.
sub is_restored
{
	my ($db, $test, %params) = @_;
	my $states = states();

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(all_records($db), $original, "$test: each record once");
	log_is_sound($node, $db, $_, "$test: the log of $_ is sound") foreach @streams;
	is( $node->safe_psql($db, q{SELECT count(*), count(key), count(value), count(headers) FROM streams.s}),
		'2521|2501|2520|2500',
		"$test: the table shows them");
	if ($params{publish})
	{
		is( $node->safe_psql(
				$db, q{
			SELECT min(stream.offset_of(stream.publish('s', NULL, '1'::jsonb, partition => p)) - m.max) > 0
			FROM (SELECT partition AS p, max(record_offset) FROM streams.s GROUP BY 1) m}),
			't',
			"$test: offsets go on above");
		$node->safe_psql($db, q{INSERT INTO streams.s (key, value) SELECT 'new', to_jsonb(g) FROM generate_series(1, 1000) g});
		is($node->safe_psql($db, q{SELECT count(*) FROM streams.s}), '3524', "$test: also those of INSERT");
		$node->safe_psql($db, q{CALL stream.roll_segment('s')});
	}
	$node->safe_psql($db, q{SELECT stream.drop_stream('s'), stream.drop_stream('empty')});
	$node->safe_psql($db, q{DROP FOREIGN TABLE streams.bytes, streams."Odd ""name"""});
	is($node->safe_psql($db, $left), '', "$test: dropped streams leave nothing");
	is(states(), $states, "$test: also in memory");
	is($node->safe_psql($db, q{SELECT stream.create_stream('s', 3); SELECT count(*) FROM streams.s}),
		"\n0", "$test: and can be made anew");
	$node->safe_psql('postgres', "DROP DATABASE $db");
	return;
}

create_database($node, 'original');
$node->safe_psql(
	'original', q{
	SELECT stream.create_stream('s', 3);
	SELECT stream.create_stream('bytes', 1, 'bytea');
	SELECT stream.create_stream('Odd "name"');
	SELECT stream.create_stream('empty', 2);
	INSERT INTO streams.s (key, value, headers)
		SELECT 'k' || g, to_jsonb(repeat(g::text, 5)), '{"h": 1}' FROM generate_series(1, 2500) g;
	CALL stream.roll_segment('s');
	BEGIN;
	SELECT stream.publish('s', 'lost', '1'::jsonb, partition => p) FROM generate_series(0, 2) p;
	ROLLBACK;
	SELECT stream.publish_tombstone('s', 't1');
	INSERT INTO streams.s (value) SELECT to_jsonb(g) FROM generate_series(1, 20) g;
	SELECT stream.publish_bytes('bytes', NULL, '\x00ff'), stream.publish_bytes('bytes', 'k', ''), stream.publish_tombstone('bytes', 'k');
	INSERT INTO streams."Odd ""name""" (value) VALUES ('1'), ('"x\ty\\\\"'), ('null');
});
$original = all_records('original');
is(scalar(split /\n/, records($node, 'original', 's')), 2521, 'the original has its records');

my @include = ('--include-foreign-data=stream');
run_quietly('pg_dump, plain', 'pg_dump', @include, '-f', "$dir/plain.sql", 'original');
run_quietly('pg_dump -Fc', 'pg_dump', '-Fc', @include, '-f', "$dir/custom", 'original');
run_quietly('pg_dump -Fc without the rows', 'pg_dump', '-Fc', '-f', "$dir/without", 'original');
run_quietly('pg_dump -Fd', 'pg_dump', '-Fd', @include, '-f', "$dir/directory", 'original');
like(slurp_file("$dir/plain.sql"), qr/^COPY streams\.s .*FROM stdin;$/m, 'the rows are in the dump');

# whole restores
new_database('restored');
run_quietly('psql restores plain', 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-o', "$dir/psql.out", '-f', "$dir/plain.sql", 'restored');
is_restored('restored', 'plain', publish => 1);
new_database('restored');
run_quietly('psql restores plain in one transaction',
	'psql', '-Xq1', '-v', 'ON_ERROR_STOP=1', '-o', "$dir/psql.out", '-f', "$dir/plain.sql", 'restored');
is_restored('restored', 'plain, one transaction');
new_database('restored');
run_quietly('pg_restore', 'pg_restore', '-d', 'restored', "$dir/custom");
is_restored('restored', '-Fc');
new_database('restored');
run_quietly('pg_restore without the rows', 'pg_restore', '-d', 'restored', "$dir/without");
is_restored('restored', 'without the rows', publish => 1);
foreach my $round (1 .. 3)
{
	new_database('restored');
	run_quietly("pg_restore -j2, round $round", 'pg_restore', '-j2', '-d', 'restored', "$dir/custom");
	is_restored('restored', "-Fc -j2, round $round", publish => $round % 2);
}
new_database('restored');
run_quietly('pg_restore -j2 of a directory', 'pg_restore', '-j2', '-d', 'restored', "$dir/directory");
is_restored('restored', '-Fd -j2');

# schema first, data later
new_database('restored');
run_quietly('pg_restore --schema-only', 'pg_restore', '--schema-only', '-d', 'restored', "$dir/custom");
run_quietly('pg_restore --data-only', 'pg_restore', '--data-only', '-d', 'restored', "$dir/custom");
is_restored('restored', 'schema, then data', publish => 1);

# the rows before the log: nothing is taken from them
my ($list) = run('pg_restore', '-l', "$dir/custom");
my @list = grep { !/^;/ } split /\n/, $list;
my $is_face = qr/TABLE DATA streams /;
my $is_late = qr/ (?:INDEX|CONSTRAINT|SEQUENCE SET) /;
append_to_file(
	"$dir/list",
	join("\n",
		(grep { !/TABLE DATA/ && !/$is_late/ } @list),
		(grep { /$is_face/ } @list),
		(grep { /TABLE DATA/ && !/$is_face/ } @list),
		(grep { /$is_late/ } @list),
		''));
is(scalar(grep { /$is_face/ } @list), 4, 'each table has its rows in the list');
new_database('restored');
run_quietly('pg_restore with the rows first', 'pg_restore', '-L', "$dir/list", '-d', 'restored', "$dir/custom");
is_restored('restored', 'rows first', publish => 1);

# INSERT commands, of one row and of many
foreach my $options ([], ['--rows-per-insert=100'])
{
	my $test = join ' ', '--column-inserts', @$options;
	run_quietly("pg_dump $test", 'pg_dump', '--column-inserts', @$options, @include, '-f', "$dir/inserts.sql", 'original');
	new_database('restored');
	run_quietly("psql restores $test", 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-o', "$dir/psql.out", '-f', "$dir/inserts.sql", 'restored');
	is_restored('restored', $test);
}

# The rows alone: again into the log they are of, nothing happens; into another log they
# do not go, since they would have other offsets there.
run_quietly('the rows once more into the original', 'pg_restore', '--data-only', '-n', 'streams', '-d', 'original', "$dir/custom");
is(all_records('original'), $original, 'and nothing has changed');
new_database('other', q{CREATE EXTENSION stream; SELECT stream.create_stream('s', 3)});
my (undef, $stderr) = run('pg_restore', '--data-only', '-n', 'streams', '-t', 's', '-d', 'other', "$dir/custom");
like($stderr, qr/cannot insert a record with an offset into stream "s"/, 'the rows are refused by another stream');
is($node->safe_psql('other', 'SELECT count(*) FROM streams.s'), '0', 'and nothing of it is there');

# The table's definition alone makes no stream, and says so; it can go.
my $definition = run_quietly('pg_dump -t', 'pg_dump', '-t', 'streams.s', 'original');
like($definition, qr/^CREATE FOREIGN TABLE streams\.s \(/m, 'the definition is dumped');
new_database('one', 'CREATE EXTENSION stream');
run_quietly('psql restores it', 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-o', "$dir/psql.out", '-c', $definition =~ s/^\\(?:un)?restrict .*$//mgr, 'one');
error_is($node, 'one', $_, '55000', "no stream: $_", message => qr/is not a stream/, hint => qr/create_stream/)
  foreach ('SELECT * FROM streams.s', q{SELECT stream.publish('s', 'k', '1')}, q{INSERT INTO streams.s (value) VALUES ('1')});
error_is($node, 'one', q{SELECT stream.create_stream('s')}, '42710', 'its name is taken');
error_is($node, 'one', q{DROP FOREIGN TABLE streams.s; SELECT stream.create_stream('s')}, '00000', 'until it is dropped');

# A second dump, of a restored database whose streams were renamed, published to and
# dropped, is as good as the first.
new_database('second');
run_quietly('pg_restore for a second dump', 'pg_restore', '-d', 'second', "$dir/without");
$node->safe_psql(
	'second', q{
	ALTER FOREIGN TABLE streams.s RENAME TO renamed;
	SELECT stream.drop_stream('bytes'), stream.drop_stream('empty');
	INSERT INTO streams.renamed (key, value) SELECT 'more', to_jsonb(g) FROM generate_series(1, 100) g;
	CALL stream.roll_segment('renamed');
	INSERT INTO streams.renamed (key, value) SELECT 'more', to_jsonb(g) FROM generate_series(1, 100) g});
run_quietly('pg_dump of it', 'pg_dump', '-Fc', @include, '-f', "$dir/second", 'second');
new_database('third');
run_quietly('pg_restore of it', 'pg_restore', '-j2', '-d', 'third', "$dir/second");
foreach my $stream ('renamed', $quoted)
{
	is(records($node, 'third', $stream), records($node, 'second', $stream), "second dump: the records of $stream");
	log_is_sound($node, 'third', $stream, "second dump: the log of $stream is sound");
}
$node->safe_psql('third', q{SELECT stream.drop_stream(stream) FROM stream_internal.streams});
is($node->safe_psql('third', $left), '', 'second dump: dropped streams leave nothing');

$node->stop;
done_testing();
