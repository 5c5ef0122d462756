# The table of a stream under clients that know nothing of streams: psql, libpq's prepared
# statements by pgbench, pg for Node, and pgbouncer in transaction mode.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use File::Temp;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('face_clients', conf => ['fsync = off']);
my $dir = $PostgreSQL::Test::Utils::tmp_check;

$node->safe_psql(
	'postgres', q{
	CREATE ROLE reader;
	SELECT stream.create_stream('s', 3);
	SELECT stream.create_stream('Odd "name"');
	COMMENT ON FOREIGN TABLE streams.s IS 'of orders';
	GRANT SELECT ON streams.s TO reader;
});

# run_client(HOST, PORT, INPUT, COMMAND...): output, errors and success.
sub run_client
{
	my ($host, $port, $input, @command) = @_;
	my ($stdout, $stderr);

	local $ENV{PGHOST} = $host;
	local $ENV{PGPORT} = $port;
	local $ENV{PGDATABASE} = 'postgres';
	local $ENV{PGUSER} = getpwuid($<);
	my $result = IPC::Run::run \@command, '<', \$input, '>', \$stdout, '2>', \$stderr, IPC::Run::timeout(180);
	return ($stdout, $stderr, $result);
}

sub run_here
{
	return run_client($node->host, $node->port, @_);
}

sub psql
{
	my ($input) = @_;
	my ($stdout, $stderr) = run_here($input, 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-P', 'pager=off');

	return $stdout . $stderr;
}

# publishers_are_gone(TEST): no transaction holds anything back.
sub publishers_are_gone
{
	my ($test) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( $node->safe_psql(
			'postgres',
			q{SELECT (SELECT count(*) FROM stream.open_publishers), sum(records_held_back) FROM stream.partition_status}),
		'0|0',
		$test);
	return;
}

#
# psql's commands
#
my $described = psql('\d streams.s');
like($described, qr/Foreign table "streams\.s"/, '\d knows the kind of table');
foreach my $column ('partition *\| integer', 'record_offset *\| bigint', 'published_at *\| timestamp with time zone',
	'key *\| text', 'value *\| jsonb', 'headers *\| jsonb')
{
	like($described, qr/^ $column/m, "\\d shows $column");
}
like($described, qr/^Server: stream$/m, '\d shows the server');
unlike($described, qr/ERROR/, '\d has no error');
like(psql('\d+ streams.s'), qr/record_offset/, '\d+');
like(psql('\det+ streams.*'), qr/streams *\| s +\| stream .*\| of orders/, '\det+ shows server and comment');
like(psql('\dE streams.*'), qr/streams *\| Odd "name" +\| foreign table/, '\dE shows a quoted name');
like(psql('\dp streams.s'), qr/reader=r/, '\dp shows privileges');
like(psql('\d streams."Odd ""name"""'), qr/Foreign table "streams\.Odd "name""/, '\d of a quoted name');
like(psql('\des+'), qr/^ stream +\|/m, '\des+ shows the server');
unlike(psql("\\$_ stream.*"), qr/ERROR|Did not find/, "\\$_ of the extension") foreach ('df', 'dv', 'dT', 'do');
like(psql('\dx+ stream'), qr/function stream\.create_stream/, '\dx+');
like(psql('\sv stream.stream_status'), qr/stream_internal\.stream_status/, '\sv');

# Statements whose columns psql describes before it runs them.
like(psql("INSERT INTO streams.s (key, value) VALUES ('d', '1') RETURNING partition, record_offset, value \\gdesc\n"),
	qr/value *\| jsonb/, '\gdesc of INSERT');
is($node->safe_psql('postgres', q{SELECT count(*) FROM streams.s}), '0', '\gdesc publishes nothing');

# \copy, both ways
append_to_file("$dir/in.csv", join('', map { qq{k$_,"{""n"": $_}"\n} } 1 .. 2500));
is(psql("\\copy streams.s (key, value) from '$dir/in.csv' csv"), '', '\copy in');
is(psql("\\copy (select key, value from streams.s order by (value->>'n')::int) to '$dir/out.csv' csv"), '', '\copy out');
is(slurp_file("$dir/out.csv"), slurp_file("$dir/in.csv"), 'comes out as it went in');

# PREPARE, also beyond the five custom plans, and by the extended protocol
is( psql(q{
	\pset format unaligned
	\pset tuples_only on
	PREPARE p (text, jsonb) AS INSERT INTO streams.s (key, value) VALUES ($1, $2) RETURNING key, value;
} . join('', map { "EXECUTE p('p', '$_');\n" } 1 .. 12)),
	join('', map { "p|$_\n" } 1 .. 12),
	'PREPARE and EXECUTE');
SKIP:
{
	my ($version) = run_here('', 'psql', '--version');

	skip 'psql has \bind from 16 on only', 2 if $version =~ / 15\b/;
	is( psql(q{
		\pset format unaligned
		\pset tuples_only on
		INSERT INTO streams.s (key, value, partition) VALUES ($1, $2, $3) RETURNING partition, key, value \bind bound '{"b": 1}' 2 \g
		SELECT count(*) FROM streams.s WHERE partition = $1 AND record_offset >= $2 AND key = $3 \bind 2 0 bound \g
	}),
		qq{2|bound|{"b": 1}\n1\n},
		'\bind of parameters');
	like(psql(q{INSERT INTO streams.s (key, value) VALUES ($1, $2) \bind k 'no json' \g}), qr/invalid input syntax for type json/, '\bind of a bad value');
}

#
# libpq, by pgbench: each way to send a statement
#
append_to_file("$dir/insert.bench",
	"\\set n random(1, 1000)\nINSERT INTO streams.s (key, value) VALUES ('bench', to_jsonb(:n::int)) RETURNING record_offset;\n"
	  . "SELECT count(value) FROM streams.s WHERE partition = 1 AND record_offset >= :n;\n");
foreach my $mode ('simple', 'extended', 'prepared')
{
	my $before = $node->safe_psql('postgres', q{SELECT count(*) FROM streams.s WHERE key = 'bench'});
	my (undef, $stderr, $result) = run_here('', 'pgbench', '-n', '-c2', '-t50', '-M', $mode, '-f', "$dir/insert.bench");

	ok($result, "pgbench -M $mode") or diag($stderr);
	is($node->safe_psql('postgres', qq{SELECT count(*) - $before FROM streams.s WHERE key = 'bench'}), '100', 'each statement publishes once');
}

#
# pg for Node.  The package comes into a temporary directory.
#
my $npm_dir = File::Temp::tempdir(CLEANUP => 1);
my $no_node = '';

sub has_program
{
	my ($program) = @_;

	return grep { -x "$_/$program" } split /:/, $ENV{PATH};
}

if (!has_program('node') || !has_program('npm'))
{
	$no_node = 'no node and npm';
}
else
{
	local $ENV{HOME} = $npm_dir;
	local $ENV{npm_config_cache} = "$npm_dir/cache";
	my ($stdout, $stderr);
	my $installed = eval {
		IPC::Run::run [ 'npm', 'install', '--prefix', $npm_dir, '--no-audit', '--no-fund', '--silent', 'pg' ],
		  '<', \undef, '>', \$stdout, '2>', \$stderr, IPC::Run::timeout(120);
	};

	$no_node = 'npm cannot fetch the package pg' if !$installed;
}
append_to_file("$npm_dir/test.js", <<'JS');
const { Client } = require('pg');
const [host, port, named] = process.argv.slice(2);
function check(what, ok, got) {
	console.log((ok ? 'ok ' : 'not ok ') + what + (ok ? '' : ' got ' + JSON.stringify(got)));
}
(async () => {
	const client = new Client({ host, port: +port, database: 'postgres', user: process.env.PGUSER });
	await client.connect();
	await client.query('BEGIN');
	// as an ORM writes it
	const insert = 'INSERT INTO "streams"."s" ("key", "value", "headers") VALUES ($1, $2, $3) RETURNING "partition", "record_offset", "published_at", "key", "value"';
	let r = await client.query(insert, ['node', { a: 1, text: 'ü "quoted"', list: [1, null] }, null]);
	const row = r.rows[0];
	check('object as value', r.rowCount === 1 && row.value.text === 'ü "quoted"' && row.value.list[1] === null, row);
	check('types of what is returned', Number.isInteger(row.partition) && /^\d+$/.test(row.record_offset) && row.published_at instanceof Date, row);
	await client.query('COMMIT');
	r = await client.query('SELECT * FROM streams.s WHERE partition = $1 AND record_offset = $2', [row.partition, row.record_offset]);
	check('read back by its position', r.rows.length === 1 && r.rows[0].value.a === 1 && r.rows[0].headers === null, r.rows);
	for (let i = 0; i < 12; i++)
		await client.query({ name: named === 'named' ? 'insert' : undefined, text: insert, values: ['node loop', JSON.stringify(i), { i }] });
	r = await client.query("SELECT value, headers FROM streams.s WHERE key = $1 ORDER BY partition, record_offset", ['node loop']);
	check('a statement used often', r.rows.length === 12 && r.rows.every((x, i) => x.value === i && x.headers.i === i), r.rows);
	r = await client.query('INSERT INTO streams.s (key, value) SELECT * FROM unnest($1::text[], $2::jsonb[]) RETURNING record_offset',
		[['node array', 'node array'], [JSON.stringify({ n: 1 }), JSON.stringify({ n: 2 })]]);
	check('arrays', r.rowCount === 2, r.rows);
	r = await client.query('SELECT stream.publish($1, $2, $3::jsonb) AS position', ['s', 'node function', { f: 1 }]);
	check('a position is a string', /^\d:\d+$/.test(r.rows[0].position), r.rows);
	const errors = [];
	for (const [text, values] of [
		['UPDATE streams.s SET value = $1', ['1']],
		['DELETE FROM streams.s WHERE key = $1', ['node']],
		[insert, ['node', null, null]],
		[insert, ['node', 'no json', null]]])
		await client.query(text, values).catch((e) => errors.push(e.code));
	check('errors have codes', errors.join(' ') === '0A000 0A000 22004 22P02', errors);
	await client.query('BEGIN');
	await client.query(insert, ['node lost', '1', null]);
	await client.query('ROLLBACK');
	// page by page
	let seen = 0;
	for (let p = 0; p < 3; p++)
		for (let last = '-1', n = 1; n > 0;) {
			r = await client.query('SELECT record_offset, key FROM streams.s WHERE partition = $1 AND record_offset > $2 ORDER BY record_offset LIMIT 500', [p, last]);
			n = r.rows.length;
			seen += n;
			if (n > 0) last = r.rows[n - 1].record_offset;
		}
	r = await client.query('SELECT count(*) AS n FROM streams.s');
	check('pages', seen === +r.rows[0].n, [seen, r.rows]);
	r = await client.query("SELECT count(*)::int AS n FROM streams.s WHERE key = 'node lost'");
	check('a rolled-back record is not there', r.rows[0].n === 0, r.rows);
	await client.end();
})().catch((e) => { console.log('not ok ' + e.message); process.exit(1); });
JS

# node_works(HOST, PORT, NAMED, TEST)
sub node_works
{
	my ($host, $port, $named, $test) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
  SKIP:
	{
		skip $no_node, 10 if $no_node;
		$node->safe_psql('postgres', q{SELECT stream.drop_stream('s'); SELECT stream.create_stream('s', 3)});
		my ($stdout, $stderr) = run_client($host, $port, '', 'node', "$npm_dir/test.js", $host, $port, $named);
		my @lines = grep { /^(?:not )?ok/ } split /\n/, $stdout;

		is(scalar @lines, 9, "$test: all was tried") or diag($stdout . $stderr);
		like($_, qr/^ok/, "$test: $_") foreach @lines;
	}
	publishers_are_gone("$test: no publisher is left");
	return;
}

node_works($node->host, $node->port, 'named', 'pg for Node');
diag("pg for Node was not tested: $no_node") if $no_node;

#
# pgbouncer: a server session serves the transactions of many clients.
#
my ($bouncer, $bouncer_dir, $log) = start_pgbouncer($node);

sub stop_bouncer
{
	return if !$bouncer;
	local $?;
	$bouncer->kill_kill(grace => 5);
	undef $bouncer;
	return;
}

END
{
	stop_bouncer();
}

SKIP:
{
	if (!$bouncer)
	{
		diag('pgbouncer was not tested: there is none');
		skip 'no pgbouncer', 1;
	}
	my $port = $node->port;

	$node->safe_psql('postgres', q{SELECT stream.drop_stream('s'); SELECT stream.create_stream('s', 3)});
	append_to_file("$dir/bounce.bench", <<'BENCH');
\set n random(1, 1000)
BEGIN;
INSERT INTO streams.s (key, value) VALUES ('bounced', to_jsonb(:n::int)) RETURNING partition, record_offset;
SELECT stream.publish('s', 'bounced', '{"f": 1}');
SAVEPOINT a;
INSERT INTO streams.s (key, value) SELECT 'lost', to_jsonb(g) FROM generate_series(1, 3) g;
ROLLBACK TO a;
COMMIT;
BEGIN;
INSERT INTO streams.s (key, value) VALUES ('lost', '1');
ROLLBACK;
SELECT count(value) FROM streams.s WHERE partition = 1 AND record_offset >= :n;
BENCH
	foreach my $mode ('simple', 'extended')
	{
		my $before = $node->safe_psql('postgres', q{SELECT count(*) FROM streams.s});
		my (undef, $stderr, $result) =
		  run_client($bouncer_dir, $port, '', 'pgbench', '-n', '-c12', '-t20', '-M', $mode, '-f', "$dir/bounce.bench");

		ok($result, "pgbench -M $mode through pgbouncer") or diag($stderr . slurp_file($log));
		is($node->safe_psql('postgres', qq{SELECT count(*) - $before, count(*) FILTER (WHERE key = 'lost') FROM streams.s}),
			'480|0', 'the records of all transactions, and no others');
		cmp_ok(
			$node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'}),
			'<=', 4, 'from few sessions');
		publishers_are_gone('and none holds back the log');
	}
	# a client that goes in the middle of its transaction
	my ($stdout) = run_client($bouncer_dir, $port, "BEGIN;\nINSERT INTO streams.s (key, value) VALUES ('gone', '1');\n",
		'psql', '-XAtq');
	wait_until('its session is given back',
		sub { return $node->safe_psql('postgres', 'SELECT count(*) FROM stream.open_publishers') eq '0' });
	is($node->safe_psql('postgres', q{SELECT count(*) FROM streams.s WHERE key = 'gone'}), '0', 'what it published is not there');
	# COPY, and the stream renamed and replaced under the sessions of the pool
	($stdout) = run_client($bouncer_dir, $port, '', 'psql', '-XAtq', '-c', "\\copy streams.s (key, value) from '$dir/in.csv' csv",
		'-c', q{SELECT count(*) FROM streams.s WHERE key LIKE 'k%'});
	is($stdout, "2500\n", '\copy through pgbouncer');
	$node->safe_psql('postgres', q{ALTER FOREIGN TABLE streams.s RENAME TO old; SELECT stream.create_stream('s', 3)});
	($stdout) = run_client($bouncer_dir, $port, '', 'psql', '-XAtq', '-c', q{SELECT count(*) FROM streams.s},
		'-c', q{SELECT stream.publish('s', 'k', '1') IS NOT NULL}, '-c', q{SELECT count(*) FROM streams.s});
	is($stdout, "0\nt\n1\n", 'the pool follows a rename');
	node_works($bouncer_dir, $port, 'unnamed', 'pg for Node through pgbouncer');

	stop_bouncer();
}

$node->stop;
done_testing();
