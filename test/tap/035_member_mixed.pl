# A member that joins while a call of consume is under way: the call began before there was
# a member, and takes no partition after.  Each call goes through many partitions of which
# few have a record, so that most joins hit one in the middle.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use StreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('member_mixed');

$node->safe_psql(
	'postgres', q{
	SELECT stream.create_stream('log', 1024);
	SELECT stream.create_consumer_group('log', 'g');
	SELECT stream.publish('log', NULL, '1', NULL, p) FROM generate_series(0, 1023, 64) p;
	CREATE TABLE finished ();

	-- joins and leaves
	CREATE PROCEDURE join_and_leave(rounds int) LANGUAGE plpgsql AS $$
	DECLARE
		epoch int;
	BEGIN
		FOR i IN 1 .. rounds LOOP
			BEGIN
				epoch := NULL;
				epoch := (stream.join_group('log', 'g', 'm')).member_epoch;
			EXCEPTION WHEN object_in_use THEN
				NULL;	-- a consumer was at it for too long
			END;
			COMMIT;
			IF epoch IS NOT NULL THEN
				PERFORM stream.leave_group('log', 'g', 'm', epoch);
			END IF;
			COMMIT;
		END LOOP;
		INSERT INTO finished DEFAULT VALUES;
	END $$;

	-- consumes and rolls back; while it has a record there must be no member
	CREATE PROCEDURE consume_and_undo(INOUT consumed int, INOUT refused int, INOUT mixed int) LANGUAGE plpgsql AS $$
	BEGIN
		WHILE NOT EXISTS (SELECT FROM finished) LOOP
			BEGIN
				IF EXISTS (SELECT FROM stream.consume('log', 'g', 1)) THEN
					consumed := consumed + 1;
					mixed := mixed + (SELECT count(*) FROM stream.group_members);
				END IF;
				RAISE SQLSTATE 'XX999';
			EXCEPTION
				WHEN SQLSTATE 'XX999' THEN NULL;
				WHEN object_in_use THEN refused := refused + 1;
			END;
			ROLLBACK;
		END LOOP;
	END $$;
});

my $joiner = $node->background_psql('postgres');
$joiner->query_until(qr/begins/, "\\echo begins\nCALL join_and_leave(200);\n");
my ($consumed, $refused, $mixed) = split /\|/, $node->safe_psql('postgres', 'CALL consume_and_undo(0, 0, 0)');
ok($consumed > 0 && $refused > 0, "both came to it: $consumed times records, $refused times a member");
is($mixed, '0', 'no record was consumed while there was a member');
$joiner->quit;
is($node->safe_psql('postgres', q{SELECT sum(committed_offset), count(member_id) FROM stream.consumer_lag}), '0|0', 'all was undone');

$node->stop;
done_testing();
