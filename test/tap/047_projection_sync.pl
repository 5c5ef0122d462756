# What a projection's statement publishes is on disk when others can read it: who reads it
# and acts outside of the database would otherwise act on a record that a crash takes back.
# Other projections commit asynchronously, and lose effects and offset together.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(
	'sync',
	conf => [
		'wal_writer_delay = 10s',
		'wal_writer_flush_after = 1GB',
		'wal_buffers = 64MB',
		'autovacuum = off',
		'stream.max_appliers = 1'
	]);

sub sql
{
	return $node->safe_psql('postgres', shift);
}

sql(q{
	SELECT stream.create_stream('log', 1), stream.create_stream('copies', 1);
	CREATE TABLE plain (n int);
	SELECT stream.create_projection('plain', 'log', statement => 'INSERT INTO plain SELECT value::int FROM batch');
	SELECT stream.create_projection('copy', 'log', statement => $$ SELECT stream.publish('copies', key, value) FROM batch WHERE key = 'copied' $$);
	SELECT stream.publish('log', 'copied', '0');
});
sql(qq{SELECT stream.wait_for('$_', timeout => '60 s')}) foreach qw(plain copy);
is(sql('SELECT count(*) FROM streams.copies'), 1, 'both are being applied');

# Of one record after the other, what is published is read before the crash and after it.
freeze_process($_) foreach map { server_pid($node, $_) } 'walwriter', 'background writer', 'checkpointer';
sql(q{SELECT stream.publish('log', 'copied', '1')});
is(sql(q{SELECT stream.wait_for('copy', timeout => '60 s')}), 't', 'published');
my $before = sql('SELECT record_offset, value FROM streams.copies ORDER BY record_offset');
like($before, qr/\|1$/, 'and read');
crash($node);
$node->start;
is(sql('SELECT record_offset, value FROM streams.copies ORDER BY record_offset'), $before, 'it is there after a crash');
is(sql(q{SELECT stream.wait_for('copy', timeout => '60 s')}), 't', 'the projection goes on');
is(sql('SELECT record_offset, value FROM streams.copies ORDER BY record_offset'), $before, 'and publishes nothing again');

# What nobody outside can have seen may be lost, with its offset.
freeze_process($_) foreach map { server_pid($node, $_) } 'walwriter', 'background writer', 'checkpointer';
sql(q{SELECT stream.publish('log', 'other', '2')});
is(sql(q{SELECT stream.wait_for('plain', timeout => '60 s')}), 't', 'applied');
is(sql('SELECT array_agg(n ORDER BY n) FROM plain'), '{0,1,2}', 'the effect is seen');
crash($node);
$node->start;
is(sql(q{SELECT stream.wait_for('plain', timeout => '60 s')}), 't', 'applied, if need be again');
is(sql('SELECT array_agg(n ORDER BY n) FROM plain'), '{0,1,2}', 'and once');

$node->stop;
done_testing();
