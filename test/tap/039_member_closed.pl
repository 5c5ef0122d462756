# Entries of members that were not heard of for an hour make room for others; not those of
# members that were found late while their removal is not committed: such a member would be
# told that all is well.  The hour passes by a clock of our own, a library that is loaded
# before the server's.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $clock = "$dir/clock";

# set_clock(SECONDS): so much later than it is.
sub set_clock
{
	my ($seconds) = @_;

	open(my $file, '+<', $clock) or die "$clock: $!";
	syswrite($file, pack('q', $seconds)) == 8 or die "$clock: $!";
	close($file);
	return;
}

PostgreSQL::Test::Utils::append_to_file($clock, pack('q', 0));
PostgreSQL::Test::Utils::append_to_file("$dir/clock.c", <<'C');
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>

static int	(*real) (struct timeval *, void *);
static volatile int64_t *later;

__attribute__((constructor)) static void
init(void)
{
	int			fd = open(getenv("STREAM_TEST_CLOCK"), O_RDONLY);

	real = (int (*) (struct timeval *, void *)) dlsym(RTLD_NEXT, "gettimeofday");
	later = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
	if (later == MAP_FAILED)
		abort();
}

int
gettimeofday(struct timeval *tv, void *tz)
{
	int			result = real(tv, tz);

	tv->tv_sec += *later;
	return result;
}
C
plan skip_all => 'no C compiler'
  if system("cc -shared -fPIC -o $dir/clock.so $dir/clock.c -ldl") != 0;

my $node = new_node('member_closed', conf => ['stream.max_members = 16'], start => 0);
{
	local $ENV{STREAM_TEST_CLOCK} = $clock;
	local $ENV{LD_PRELOAD} = "$dir/clock.so";
	$node->start;
}

sub sql
{
	return $node->safe_psql('postgres', shift);
}

sub used
{
	return sql(q{SELECT used FROM stream.memory_status WHERE area = 'members'});
}

sql(q{
	CREATE EXTENSION stream;
	SELECT stream.create_stream('log');
	SELECT stream.create_consumer_group('log', 'g');
	SELECT stream.create_consumer_group('log', 'h');
	SELECT stream.join_group('log', 'g', 'late');
	SELECT stream.join_group('log', 'g', 'alive', session_timeout => '1 day', max_poll_interval => '1 day');
});
my $then = sql('SELECT now()');
set_clock(7200);
is(sql("SELECT now() > '$then'::timestamptz + interval '1 hour'"), 't', 'the hour has passed');

# one finds the other late, and takes its time to commit
my $session = $node->background_psql('postgres');
$session->query_safe(q{BEGIN; SELECT stream.heartbeat('log', 'g', 'alive', 2, '{}')});
is(used(), '3', 'an entry for each member, and for the group');

# others need room
sql(q{SELECT count(stream.join_group('log', 'h', 'h' || i)) FROM generate_series(1, 13) i});
is(used(), '16', 'the entry of the group makes room for the last one');
error_is(
	$node, 'postgres',
	q{SELECT stream.join_group('log', 'h', 'one more')},
	'53400', 'that of the member that is closed does not');
error_is(
	$node, 'postgres',
	q{SELECT stream.heartbeat('log', 'g', 'late', 1, '{0}')},
	'ST001', 'it is not told that all is well');
$session->query_safe('COMMIT');
is(used(), '15', 'with its removal its entry goes');
is(sql(q{SELECT member_id FROM stream.group_members WHERE consumer_group = 'g'}), 'alive', 'who was alive stays');
$session->quit;

$node->stop;
done_testing();
