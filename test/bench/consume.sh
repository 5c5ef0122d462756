# Consuming, for "run".  Functions and plain side are those of measure.sh.
#
# A consumer as one would make it by hand, with the table that stands for the log:
#
#	cursor	a row that says how far it has read: SELECT ... WHERE record_offset > ...
#		ORDER BY ... LIMIT 1000, and an UPDATE of that row
#	queue	a table whose rows are deleted: FOR UPDATE SKIP LOCKED, 1000 at a time.  It is
#		vacuumed after each tenth part; the time of that does not count.
#
# Each transaction has 1000 records.  "Counted" means a procedure in the server, which
# looks at each value; "delivered", pgbench, which gets all columns as text and drops them.
#
# The two bounds are what no way of consuming can pass, however it reads: the cursor row's
# transactions with only the update and the commit, and with the same 1000 rows each time.
#
# shellcheck shell=bash disable=SC2034,SC2153,SC2154

measure_consume() {
	wanted consume_{count,count_bound,deliver,deliver_bound,cold,queue,held,latency,latency_p99} || return 0
	make_consumers
	measure_consume_all
	measure_consume_cold
	measure_consume_queue
	measure_consume_held
	measure_consume_latency
	sql "DROP TABLE IF EXISTS reader, page, latency" 2>/dev/null
}

make_consumers() {
	sql "CREATE TABLE reader (record_offset bigint NOT NULL)" "
		CREATE PROCEDURE consume_all(INOUT total bigint, max_records int, transactions int)
		LANGUAGE plpgsql AS \$\$
		DECLARE
			n bigint;
		BEGIN
			FOR i IN 1 .. transactions LOOP
				SELECT count(value) INTO n FROM stream.consume('log', 'bench', max_records);
				COMMIT;
				total := total + n;
			END LOOP;
		END \$\$" "
		CREATE PROCEDURE read_all(INOUT total bigint, transactions int) LANGUAGE plpgsql AS \$\$
		DECLARE
			n bigint;
			last bigint;
		BEGIN
			FOR i IN 1 .. transactions LOOP
				SELECT count(value), max(record_offset) INTO n, last
					FROM (SELECT * FROM log
						  WHERE partition = 0 AND record_offset > (SELECT record_offset FROM reader)
						  ORDER BY record_offset LIMIT 1000) r;
				UPDATE reader SET record_offset = last;
				COMMIT;
				total := total + n;
			END LOOP;
		END \$\$" "
		CREATE PROCEDURE commit_all(INOUT total bigint, transactions int) LANGUAGE plpgsql AS \$\$
		BEGIN
			FOR i IN 1 .. transactions LOOP
				UPDATE reader SET record_offset = record_offset + 1000;
				COMMIT;
				total := total + 1000;
			END LOOP;
		END \$\$" "
		CREATE PROCEDURE delete_all(INOUT total bigint, transactions int) LANGUAGE plpgsql AS \$\$
		DECLARE
			n bigint;
		BEGIN
			FOR i IN 1 .. transactions LOOP
				WITH taken AS (
					DELETE FROM queue WHERE id = ANY (ARRAY(
						SELECT id FROM queue ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED))
					RETURNING value)
				SELECT count(value) INTO n FROM taken;
				COMMIT;
				total := total + n;
			END LOOP;
		END \$\$"
}

new_group() {
	sql "SELECT stream.drop_consumer_group(stream, consumer_group) FROM stream.consumer_lag
			WHERE (stream, consumer_group) = ('log', 'bench')" \
		"SELECT stream.create_consumer_group('log', 'bench')" "CHECKPOINT" >/dev/null
}
new_reader() {
	sql "TRUNCATE reader" "INSERT INTO reader VALUES (-1)" "CHECKPOINT"
}

all_consumed() {
	[ "$(sql "SELECT lag FROM stream.consumer_lag WHERE (stream, consumer_group) = ('log', 'bench')")" = 0 ] ||
		die "not all records were consumed"
}

# deliver SCRIPT: a client that runs it for each thousand of the records.  Sets ms.
deliver() {
	local output
	echo "$1" >"$WORK/deliver.sql"
	output=$(pgbench -n -M prepared -c 1 -t $((RECORDS / 1000)) -f "$WORK/deliver.sql" 2>"$WORK/pgbench.log") ||
		{ cat "$WORK/pgbench.log" >&2; die "pgbench failed"; }
	ms=$(sed -n 's/^tps = \([0-9.]*\).*/\1/p' <<<"$output")
	ms=$(calc "$RECORDS / $ms")
}

# Single runs are short: a pair is the sum of several.
measure_consume_all() {
	local rep i plain stream bound transactions=$((RECORDS / 1000))
	wanted consume_{count,count_bound,deliver,deliver_bound} || return 0
	say "preparing to consume"
	prepare_read
	timed "$RECORDS" "$PLAIN_READ"
	timed "$RECORDS" "$STREAM_READ"
	for ((rep = 1; rep <= REPS; rep++)); do
		if wanted consume_count consume_count_bound; then
			say "consume, counted, $rep/$REPS"
			plain=0 stream=0 bound=0
			for i in 1 2 3; do
				new_reader
				timed "$RECORDS" "CALL read_all(0, $transactions)"
				plain=$(calc "$plain + $ms")
				new_group
				timed "$RECORDS" "CALL consume_all(0, 1000, $transactions)"
				all_consumed
				stream=$(calc "$stream + $ms")
				new_reader
				timed "$RECORDS" "CALL commit_all(0, $transactions)"
				bound=$(calc "$bound + $ms")
			done
			sample consume_count_bound "$(k_per_s "$bound / 3")" "$(k_per_s "$plain / 3")"
			sample consume_count "$(k_per_s "$stream / 3")" "$(k_per_s "$plain / 3")"
		fi
		if wanted consume_deliver consume_deliver_bound; then
			say "consume, delivered, $rep/$REPS"
			plain=0 stream=0 bound=0
			sql "DROP TABLE IF EXISTS page" "CREATE TABLE page AS SELECT * FROM log ORDER BY record_offset LIMIT 1000" \
				"VACUUM ANALYZE page" 2>/dev/null
			for i in 1 2 3; do
				new_reader
				deliver "$READ_SCRIPT"
				[ "$(sql "SELECT record_offset FROM reader")" = $((RECORDS - 1)) ] ||
					die "not all rows were read"
				plain=$(calc "$plain + $ms")
				new_group
				deliver "$CONSUME_SCRIPT"
				all_consumed
				stream=$(calc "$stream + $ms")
				new_reader
				deliver "$PAGE_SCRIPT"
				bound=$(calc "$bound + $ms")
			done
			sample consume_deliver_bound "$(k_per_s "$bound / 3")" "$(k_per_s "$plain / 3")"
			sample consume_deliver "$(k_per_s "$stream / 3")" "$(k_per_s "$plain / 3")"
		fi
	done
}

READ_SCRIPT="BEGIN;
SELECT * FROM log WHERE partition = 0 AND record_offset > (SELECT record_offset FROM reader)
	ORDER BY record_offset LIMIT 1000;
UPDATE reader SET record_offset = record_offset + 1000;
COMMIT;"
PAGE_SCRIPT="BEGIN;
SELECT * FROM page;
UPDATE reader SET record_offset = record_offset + 1000;
COMMIT;"
CONSUME_SCRIPT="BEGIN;
SELECT * FROM stream.consume('log', 'bench', 1000);
COMMIT;"

# For those who come late: neither the table nor the log is in memory any more.
measure_consume_cold() {
	local rep plain transactions=$((RECORDS / 1000))
	wanted consume_cold || return 0
	new_table tiny
	new_stream tiny
	sql "INSERT INTO tiny (partition) VALUES (0)" "SELECT stream.publish('tiny', 'a', '{}'::jsonb)" >/dev/null
	prepare_read
	for ((rep = 1; rep <= REPS; rep++)); do
		say "consume, cold, $rep/$REPS"
		new_reader
		cool_down
		timed "$RECORDS" "CALL read_all(0, $transactions)"
		plain=$ms
		new_group
		cool_down
		timed "$RECORDS" "CALL consume_all(0, 1000, $transactions)"
		all_consumed
		sample consume_cold "$(k_per_s "$ms")" "$(k_per_s "$plain")"
	done
	sql "DROP TABLE tiny" "SELECT stream.drop_stream('tiny')" >/dev/null
}

measure_consume_queue() {
	local rep part plain
	wanted consume_queue || return 0
	prepare_read
	for ((rep = 1; rep <= REPS; rep++)); do
		say "consume, queue, $rep/$REPS"
		sql "DROP TABLE IF EXISTS queue" "CREATE TABLE queue (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
			key text, value jsonb, headers jsonb)" "INSERT INTO queue (key, value) SELECT key, value FROM src" \
			"VACUUM (FREEZE, ANALYZE) queue" "CHECKPOINT" 2>/dev/null
		plain=0
		for part in 1 2 3 4 5 6 7 8 9 10; do
			timed $((RECORDS / 10)) "CALL delete_all(0, $((RECORDS / 10000)))"
			plain=$(calc "$plain + $ms")
			sql "VACUUM queue"
		done
		new_group
		timed "$RECORDS" "CALL consume_all(0, 1000, $((RECORDS / 1000)))"
		all_consumed
		sample consume_queue "$(k_per_s "$ms")" "$(k_per_s "$plain")"
	done
	sql "DROP TABLE queue"
}

# A group that commits a record at a time, before and after many commits that an old
# snapshot keeps from being cleaned up.  Small batches, so that each record costs the same.
measure_consume_held() {
	local rep holder plain some=$((HELD_COMMITS / 10))
	wanted consume_held || return 0
	say "preparing to consume under an old snapshot"
	new_stream log
	stream_loaded=no
	export PGOPTIONS="-c synchronous_commit=off"
	timed "" "DO \$\$ BEGIN
		FOR i IN 1 .. $(((HELD_COMMITS + 5 * some) / 10)) LOOP
			PERFORM FROM stream.publish_batch('log', NULL, array_fill('1'::jsonb, ARRAY[10]));
			COMMIT;
		END LOOP;
		END \$\$"
	for ((rep = 1; rep <= REPS; rep++)); do
		say "consume under an old snapshot, $rep/$REPS"
		new_group
		timed $some "CALL consume_all(0, 1, $some)"
		timed $((2 * some)) "CALL consume_all(0, 1, $((2 * some)))"
		plain=$ms
		hold_snapshot
		timed "$HELD_COMMITS" "CALL consume_all(0, 1, $HELD_COMMITS)"
		timed $((2 * some)) "CALL consume_all(0, 1, $((2 * some)))"
		release_snapshot
		all_consumed
		sample consume_held "$(calc "2 * $some / $ms")" "$(calc "2 * $some / $plain")"
	done
	unset PGOPTIONS
}

# A session with a snapshot, until its input ends.
hold_snapshot() {
	local first
	coproc HOLDER { psql -X -q -At; }
	echo "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM src;" >&"${HOLDER[1]}"
	read -r first <&"${HOLDER[0]}" && [ "$first" = "$RECORDS" ] || die "no snapshot is held"
}
release_snapshot() {
	local holder=$HOLDER_PID
	echo "COMMIT; SELECT count(*) FROM src;" >&"${HOLDER[1]}"
	read -r _ <&"${HOLDER[0]}"
	eval "exec ${HOLDER[1]}>&-"
	wait "$holder" || die "the snapshot was lost"
}

# A consumer that waits, a client of its own, and somebody who publishes now and then:
# from the call of publish() until the consumer's statement has the record.  The commit,
# with its flush to disk, lies in between.
measure_consume_latency() {
	local rep consumer count=$((TX_SECONDS * 100))
	wanted consume_latency consume_latency_p99 || return 0
	sql "CREATE TABLE latency (ms float8)"
	stream_loaded=no
	cat >"$WORK/latency.sql" <<-'EOT'
		SELECT stream.wait_for_records('log', 'bench', '10 s');
		INSERT INTO latency SELECT 1000 * extract(epoch FROM clock_timestamp() - published_at)
			FROM stream.consume('log', 'bench');
	EOT
	for ((rep = 1; rep <= REPS; rep++)); do
		say "latency $rep/$REPS"
		new_stream log
		new_group
		sql "TRUNCATE latency"
		# the first one finds all caches empty
		pgbench -n -M prepared -c 1 -t $((count + 1)) -f "$WORK/latency.sql" >/dev/null 2>"$WORK/pgbench.log" &
		consumer=$!
		sql "SELECT pg_sleep(0.5)" "DO \$\$ BEGIN
			FOR i IN 0 .. $count LOOP
				PERFORM stream.publish('log', 'c4711', '1'::jsonb);
				COMMIT;
				PERFORM pg_sleep(0.008 + 0.004 * random());
			END LOOP;
			END \$\$" >/dev/null
		wait $consumer || { cat "$WORK/pgbench.log" >&2; die "pgbench failed"; }
		[ "$(sql "SELECT count(*) FROM latency")" = $((count + 1)) ] || die "a record was not consumed alone"
		sample consume_latency "$(sql "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) FROM latency")"
		sample consume_latency_p99 "$(sql "SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY ms) FROM latency")"
	done
}
