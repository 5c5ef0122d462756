# Projections in pg_dump and pg_restore, and the roles and tables that they name.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('projection_dump',
	conf => [ 'max_worker_processes = 30', "stream.min_retry_delay = '10ms'", "stream.max_retry_delay = '100ms'" ]);
my $dir = $PostgreSQL::Test::Utils::tmp_check;

# Every record applied once: the targets are what the log comes to.
my $difference = q{
	SELECT count(*) FROM (
		(SELECT k, last, n, total FROM totals EXCEPT
			SELECT key, max(value::int), count(*), sum(value::int) FROM streams.s GROUP BY key)
		UNION ALL
		(SELECT key, max(value::int), count(*), sum(value::int) FROM streams.s GROUP BY key EXCEPT
			SELECT k, last, n, total FROM totals)
		UNION ALL
		(SELECT "partition"::text, record_offset, 0, 0 FROM streams.s EXCEPT ALL SELECT p::text, o, 0, 0 FROM seen)
		UNION ALL
		(SELECT p::text, o, 0, 0 FROM seen EXCEPT ALL SELECT "partition"::text, record_offset, 0, 0 FROM streams.s)
	) d};
my $publish = q{SELECT count(stream.publish('s', 'k' || g % 50, to_jsonb(g))) FROM generate_series(1, 1000) g};
my $applied = q{SELECT bool_and(stream.wait_for(projection, timeout => '60 s')) FROM stream.projection_definition};
my $definitions = q{SELECT * FROM stream.projection_definition ORDER BY 1};

sub dump_and_restore
{
	my ($db) = @_;

	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/$db", 'postgres' ], "$db: pg_dump");
	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0");
	$node->command_ok([ 'pg_restore', '-j2', '-d', $db, "$dir/$db" ], "$db: pg_restore");
	return;
}

$node->safe_psql(
	'postgres', q{
	CREATE ROLE keeper;
	CREATE TABLE totals (k text PRIMARY KEY, last int, n bigint, total bigint);
	CREATE TABLE seen (p int, o bigint);
	ALTER TABLE totals OWNER TO keeper;
	ALTER TABLE seen OWNER TO keeper;
	SELECT stream.create_stream('s', 3);
	GRANT SELECT ON streams.s TO keeper;
	SET ROLE keeper;
	SELECT stream.create_projection('totals', 's', 'totals',
		'SELECT key AS k, value::int AS last, key AS n, value::int AS total FROM batch',
		'{"last": "max", "n": "count", "total": "sum"}', workers => 2);
	SELECT stream.create_projection('seen', 's', 'seen',
		statement => 'INSERT INTO seen SELECT "partition", record_offset FROM batch', batch_records => 100);
});
$node->safe_psql('postgres', $publish) for 1 .. 3;
is($node->safe_psql('postgres', $applied), 't', 'applied');
is($node->safe_psql('postgres', $difference), '0', 'each record once');

# With records that are not applied yet.
$node->safe_psql('postgres', q{SELECT stream.pause_projection('totals'), stream.pause_projection('seen')});
$node->safe_psql('postgres', $publish);
dump_and_restore('lagging');
is($node->safe_psql('lagging', $definitions), $node->safe_psql('postgres', $definitions), 'lagging: the same projections');
is($node->safe_psql('lagging', 'SELECT count(*) FROM seen'), '3000', 'lagging: as far as the original');
foreach my $db ('lagging', 'postgres')
{
	$node->safe_psql($db, q{SELECT stream.resume_projection('totals'), stream.resume_projection('seen')});
	$node->safe_psql($db, $publish);
	is($node->safe_psql($db, $applied), 't', "$db: applied");
	is($node->safe_psql($db, $difference), '0', "$db: each record once");
}
$node->safe_psql('lagging', q{SELECT stream.create_consumer_group('s', 'g')});
is( $node->safe_psql(
		'lagging', q{
	SELECT max(projection_id) < (SELECT max(group_id) FROM stream_internal.consumer_groups) FROM stream_internal.projections}),
	't',
	'a new group has a number of its own');

# While they are being applied.
my $load = $node->background_psql('postgres', on_error_die => 1);
$load->query_until(qr/begun/, "\\echo begun\n" . ("$publish;\n" x 100));
dump_and_restore('applying');
$load->quit;
is($node->safe_psql('applying', $applied), 't', 'applying: applied');
is($node->safe_psql('applying', $difference), '0', 'applying: each record once');
is($node->safe_psql('postgres', $applied), 't', 'the original: applied');
is($node->safe_psql('postgres', $difference), '0', 'the original: each record once');

# A role or a table of another name stops a projection, visibly, until it is mended.
sub stops
{
	my ($break, $mend, $pattern, $test) = @_;

	$node->safe_psql('postgres', $break);
	$node->safe_psql('postgres', $publish);
	ok( $node->poll_query_until(
			'postgres',
			"SELECT count(*) > 0 FROM stream_internal.projection_errors e JOIN stream_internal.projections p USING (projection_id)
			WHERE projection = 'totals' AND message ~ '$pattern'"
		),
		"$test: it says so");
	$node->safe_psql('postgres', $mend);
	is($node->safe_psql('postgres', $applied), 't', "$test: goes on");
	is($node->safe_psql('postgres', $difference), '0', "$test: each record once");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM stream_internal.projection_errors'), '0', "$test: nothing is left of it");
	return;
}

stops(
	'ALTER ROLE keeper RENAME TO warden',
	q{SELECT stream.alter_projection(projection, owner => 'warden') FROM stream.projection_definition},
	'owner "keeper" of projection "totals" does not exist',
	'role renamed');
stops(
	'ALTER ROLE warden RENAME TO other; CREATE ROLE warden; GRANT SELECT ON streams.s TO warden',
	'DROP OWNED BY warden; DROP ROLE warden; ALTER ROLE other RENAME TO warden',
	'owner "warden" of projection "totals" does not exist',
	'another role of its name');
stops(
	'ALTER TABLE totals RENAME TO sums',
	'ALTER TABLE sums RENAME TO totals',
	'target public.totals of projection "totals" does not exist',
	'target renamed');
stops(
	'ALTER TABLE totals RENAME last TO latest',
	'ALTER TABLE totals RENAME latest TO last',
	'column "last" of relation "totals" does not exist',
	'column renamed');
stops(
	'ALTER TABLE totals DROP CONSTRAINT totals_pkey',
	'ALTER TABLE totals ADD CONSTRAINT totals_pkey PRIMARY KEY (k)',
	'no unique or exclusion constraint',
	'key dropped');
stops(
	'REVOKE SELECT ON streams.s FROM warden',
	'GRANT SELECT ON streams.s TO warden',
	'may not read stream "s"',
	'privilege revoked');
stops(
	'ALTER TABLE totals ADD needed int NOT NULL DEFAULT 0; ALTER TABLE totals ALTER needed DROP DEFAULT',
	'ALTER TABLE totals ALTER needed SET DEFAULT 0',
	'null value in column "needed"',
	'column added');

# So does another table of the target's name, also where all tables were restored under
# other numbers; a dump restored over what is there brings other tables as well.
foreach my $db ('applying', 'postgres')
{
	$node->safe_psql($db, q{SELECT stream.alter_projection(projection, owner => 'warden') FROM stream.projection_definition});
	# after a restore, it is a batch that says which table it is, when no other projection is just at that
	foreach (1 .. 20)
	{
		$node->safe_psql($db, $publish);
		$node->safe_psql($db, $applied);
		last if $node->safe_psql($db, 'SELECT count(*) FROM stream_internal.projection_targets') == 2;
	}
	$node->safe_psql($db, q{ALTER TABLE seen RENAME TO old; CREATE TABLE seen (LIKE old); ALTER TABLE seen OWNER TO warden});
	$node->safe_psql($db, $publish);
	$node->safe_psql($db, q{SELECT stream.wait_for('totals', timeout => '60 s')});
	ok( $node->poll_query_until(
			$db, q{SELECT state = 'target replaced' AND sqlstate = '55000' FROM stream.projection_status WHERE projection = 'seen'}),
		"$db: another target is noticed");
	is($node->safe_psql($db, 'SELECT count(*) FROM seen'), '0', "$db: nothing is applied to it");
	$node->safe_psql($db, 'DROP TABLE seen; ALTER TABLE old RENAME TO seen');
	is($node->safe_psql($db, $applied), 't', "$db: applied to the one before");
	is($node->safe_psql($db, $difference), '0', "$db: each record once");
}
{
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/again", 'postgres' ], 'dumped once more');
	$node->command_ok([ 'pg_restore', '--clean', '--if-exists', '-d', 'postgres', "$dir/again" ], 'restored over what is there');
}
$node->safe_psql('postgres', $publish);
is($node->safe_psql('postgres', $applied), 't', 'restored over it: applied');
is($node->safe_psql('postgres', $difference), '0', 'restored over it: each record once');

$node->stop;
done_testing();
