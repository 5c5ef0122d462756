# Background workers come with the extension and go with it, in whatever way it or its
# database is created, altered and dropped, committed or not, and are never in the way.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('workers',
	conf => [ 'autovacuum = off', 'max_worker_processes = 20', 'max_prepared_transactions = 5', 'stream.min_worker_delay = 100ms' ]);

sub sql
{
	return $node->safe_psql('postgres', shift);
}

# The pid of a database's manager, if one runs and is ready.
sub manager
{
	my ($database) = @_;

	return sql(
		qq{SELECT pid FROM stream.worker_status
		WHERE type = 'stream manager' AND database = '$database' AND state = 'idle'});
}

# workers_in(DB): processes of ours that are connected.
sub workers_in
{
	my ($database) = @_;

	return sql(
		qq{SELECT count(*) FROM pg_stat_activity
		WHERE datname = '$database' AND backend_type LIKE 'stream %'});
}

sub has_manager
{
	my ($database, $test) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_until("$database has a manager", sub { return manager($database) ne ''; });
	is(workers_in($database), '1', $test);
	return;
}

# settled: the launcher has nothing to do, and no manager is on its way.
sub has_none
{
	my ($database, $test) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_until(
		"$database has no worker",
		sub {
			return sql(
				qq{SELECT NOT EXISTS (SELECT FROM stream.worker_status
					WHERE database = '$database' AND (pid IS NOT NULL OR state = 'starting'))
				AND NOT EXISTS (SELECT FROM pg_stat_activity
					WHERE datname = '$database' AND backend_type LIKE 'stream %')}) eq 't';
		});
	pass($test);
	return;
}

# quickly(SQL, TEST): a command that needs a database for itself, which PostgreSQL would
# wait for up to five seconds and then refuse.
sub quickly
{
	my ($sql, $test) = @_;
	my $started = time;
	my $error = error_of($node, 'postgres', $sql);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($error, '00000', $test);
	cmp_ok(time - $started, '<', 4, '… without waiting for long');
	return;
}

is( sql(q{SELECT type, database, state, restarts FROM stream.worker_status WHERE type = 'stream launcher'}),
	'stream launcher||idle|0', 'the launcher runs');
has_manager('postgres', 'CREATE EXTENSION brings a manager');

#
# CREATE and DROP EXTENSION
#
sql('CREATE DATABASE plain');
has_none('plain', 'a database without the extension has no manager');
sql('CREATE DATABASE one');
$node->safe_psql('one', 'BEGIN; CREATE EXTENSION stream; ROLLBACK');
has_none('one', 'CREATE EXTENSION rolled back leaves none');
$node->safe_psql('one', 'BEGIN; SAVEPOINT a; CREATE EXTENSION stream; ROLLBACK TO a; COMMIT');
has_none('one', 'nor rolled back to a savepoint');
$node->safe_psql('one', 'CREATE EXTENSION stream');
has_manager('one', 'committed, there is one');
my $pid = manager('one');
$node->safe_psql('one', 'BEGIN; DROP EXTENSION stream; ROLLBACK');
is(manager('one'), $pid, 'DROP EXTENSION rolled back keeps it');
$node->safe_psql('one', 'DROP EXTENSION stream');
has_none('one', 'committed, it goes');
$node->safe_psql('one', 'CREATE EXTENSION stream; DROP EXTENSION stream;' x 5);
has_none('one', 'created and dropped quickly, there is none');
$node->safe_psql('one', 'CREATE EXTENSION stream; DROP EXTENSION stream;' x 5 . 'CREATE EXTENSION stream');
has_manager('one', 'and created once more, there is one');
$pid = manager('one');
$node->safe_psql('one', 'BEGIN; DROP EXTENSION stream; CREATE EXTENSION stream; COMMIT');
wait_until('a new manager', sub { my $new = manager('one'); return $new ne '' && $new ne $pid; });
pass('dropped and created in one transaction, there is a fresh one');
error_is($node, 'one', q{BEGIN; DROP EXTENSION stream; PREPARE TRANSACTION 'p'}, '0A000', 'DROP EXTENSION cannot be prepared');

# A command on the extension that is open keeps nobody waiting but the manager.
my $session = $node->background_psql('one');
$session->query_safe('BEGIN; DROP EXTENSION stream');
$session->query_safe('ROLLBACK');
has_manager('one', 'after an open DROP EXTENSION');

# Workers hold no snapshot while they wait.
is( sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'stream %' AND backend_xmin IS NOT NULL}),
	'0', 'no worker holds back the horizon');
end_session($session);

#
# Databases
#
quickly('CREATE DATABASE copy TEMPLATE one', 'CREATE DATABASE from a template with workers');
has_manager('copy', 'the copy has a manager');
has_manager('one', 'and the template again');
quickly('CREATE DATABASE itself TEMPLATE postgres', 'CREATE DATABASE from the database that the session is in');
quickly('DROP DATABASE itself', '… dropped again');
has_manager('postgres', 'and its workers are back');
quickly('ALTER DATABASE copy RENAME TO renamed', 'ALTER DATABASE … RENAME');
has_manager('renamed', 'the renamed database has a manager');
quickly('BEGIN; ALTER DATABASE renamed RENAME TO other; ROLLBACK', '… rolled back');
has_manager('renamed', 'and then as well');

$session = $node->background_psql('postgres');
$session->query_safe('BEGIN; ALTER DATABASE renamed RENAME TO other');
is( $session->query_safe(
		q{SELECT state, activity, pid FROM stream.worker_status WHERE type = 'stream manager' AND database = 'other'}),
	'stopped|a command needs the database for itself|',
	'while the command is open, no worker starts');
$session->query_safe('COMMIT');
has_manager('other', 'committed, it comes back');

# Two in one transaction.
$session->query_safe('BEGIN; ALTER DATABASE other RENAME TO a; ALTER DATABASE one RENAME TO b');
$session->query_safe('ROLLBACK');
has_manager('other', 'the first of two');
has_manager('one', 'the second of two');
end_session($session);

# Commands that fail, or are not allowed, leave the workers alone or give them back.
$pid = manager('one');
sql('CREATE ROLE nobody LOGIN');
error_is($node, 'postgres', 'SET ROLE nobody; DROP DATABASE one', '42501', 'DROP DATABASE by somebody else');
error_is($node, 'postgres', 'SET ROLE nobody; CREATE DATABASE x TEMPLATE one', '42501', 'its use as a template');
error_is($node, 'postgres', 'SET ROLE nobody; ALTER DATABASE one RENAME TO x', '42501', 'its RENAME');
is(manager('one'), $pid, '… does not disturb the manager');
my $other = $node->background_psql('one');
error_is($node, 'postgres', 'DROP DATABASE one', '55006', 'DROP DATABASE with a session there');
has_manager('one', '… gives the manager back');
end_session($other);
error_is($node, 'postgres', 'BEGIN; DROP DATABASE one', '25001', 'DROP DATABASE in a transaction block');
has_manager('one', '… as well');

quickly('DROP DATABASE one', 'DROP DATABASE');
quickly('DROP DATABASE other WITH (FORCE)', 'DROP DATABASE WITH (FORCE)');
is(sql(q{SELECT count(*) FROM stream.worker_status WHERE database NOT IN ('postgres', 'plain')}), '0', 'no worker is left');

# An owner who is no superuser.
sql('CREATE ROLE maker LOGIN CREATEDB; CREATE DATABASE made OWNER maker');
$node->safe_psql('made', 'CREATE EXTENSION stream');
has_manager('made', 'a database of somebody else');
quickly('SET ROLE maker; DROP DATABASE made WITH (FORCE)', 'its owner may drop it, with FORCE');

# The template that is used when none is named.
$node->safe_psql('template1', 'CREATE EXTENSION stream');
has_manager('template1', 'template1 has a manager');
quickly('CREATE DATABASE fresh', 'CREATE DATABASE without a template');
has_manager('fresh', 'the new database has the extension, and a manager');
$node->safe_psql('template1', 'DROP EXTENSION stream');
has_none('template1', 'none in template1 any more');

# FORCE, while workers are connecting, again and again.
for my $i (1 .. 10)
{
	sql("CREATE DATABASE again TEMPLATE fresh");
	is(error_of($node, 'postgres', 'DROP DATABASE again' . ($i % 2 ? ' WITH (FORCE)' : '')), '00000', "created and dropped, $i");
}
has_manager('fresh', 'the template keeps its manager');

# Connections that are not allowed.
sql('ALTER DATABASE fresh ALLOW_CONNECTIONS false');
has_none('fresh', 'no manager where connections are not allowed');
sql('ALTER DATABASE fresh ALLOW_CONNECTIONS true');
has_manager('fresh', 'and one when they are again');

SKIP:
{
	my $dir = $node->basedir . '/space';
	mkdir $dir or skip 'no directory for a tablespace', 2;
	sql("CREATE TABLESPACE space LOCATION '$dir'");
	quickly('ALTER DATABASE fresh SET TABLESPACE space', 'ALTER DATABASE … SET TABLESPACE');
}
has_manager('fresh', 'the moved database has a manager');

# Settings of a database do not reach the workers.
sql(q{ALTER DATABASE fresh SET search_path = 'nowhere'; ALTER DATABASE fresh SET default_transaction_read_only = on});
sql(q{ALTER DATABASE fresh SET statement_timeout = '1ms'; ALTER DATABASE fresh SET idle_in_transaction_session_timeout = '1ms'});
sql(qq{SELECT pg_terminate_backend(pid, 10000) FROM stream.worker_status WHERE pid = @{[manager('fresh')]}});
has_manager('fresh', 'settings of the database do not reach its manager');

#
# Appliers
#
sub appliers
{
	return sql(
		q{SELECT count(*) FROM pg_stat_activity WHERE datname = 'postgres' AND backend_type = 'stream applier'});
}
is(appliers(), '0', 'no applier without a projection');
sql(q{
	CREATE TABLE target (k text PRIMARY KEY, n bigint);
	SELECT stream.create_stream('s');
	SELECT stream.create_projection('p', 's', 'target', query => 'SELECT key AS k, max((value->>''n'')::bigint) AS n FROM batch GROUP BY 1',
		merge => '{"n": "max"}');
});
wait_until('appliers run', sub { return appliers() == 2; });
pass('two appliers with a projection');
sql(q{SELECT stream.publish('s', 'a', '{"n": 1}'::jsonb)});
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM target}), 'it is applied');
$node->append_conf('postgresql.conf', 'stream.max_appliers = 1');
$node->reload;
sql(q{UPDATE stream_internal.projections SET paused = true});
$node->reload;
wait_until('no applier', sub { return appliers() == 0; });
pass('none with the projection paused');
sql(q{UPDATE stream_internal.projections SET paused = false});
$node->reload;
wait_until('an applier', sub { return appliers() == 1; });
pass('one, resumed, as the setting now says');
$node->append_conf('postgresql.conf', 'stream.max_appliers = 3');
$node->reload;
wait_until('appliers', sub { return appliers() == 3; });
pass('the setting is read again on reload');
sql('DROP EXTENSION stream CASCADE');
wait_until('all gone', sub { return workers_in('postgres') == 0; });
pass('DROP EXTENSION sends all home');
sql('CREATE EXTENSION stream');
has_manager('postgres', 'and CREATE EXTENSION brings a manager');

#
# Restart
#
$node->restart;
has_manager('postgres', 'after a restart');
has_manager('fresh', 'in each database');
has_none('plain', 'that has the extension');
is( sql(q{SELECT count(*) FROM stream.worker_status WHERE last_error IS NOT NULL}),
	'0', 'nothing has failed');

$node->stop;
done_testing();
