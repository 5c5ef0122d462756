# What "run" measures.  Each function repeats: plain PostgreSQL, stream, plain, stream ...
# and writes a line "ROW STREAM PLAIN" for each pair to the file of samples; a dash
# stands for what there is no number of.
#
# The plain side is a log as one would make it by hand:
#
#	table	the columns of a record; offsets from an identity column, times from now()
#	index	on (partition, record_offset), not unique, since a unique one costs more
#	read	with ORDER BY partition, record_offset, since read() delivers in that order;
#		an index scan on a vacuumed table.  count(value) has each row taken apart up
#		to the value, while read() makes a row of all columns.
#
# shellcheck shell=bash disable=SC2034,SC2153,SC2154

# sql SQL...: runs each statement and prints the results.
sql() {
	local statement args=()
	for statement; do
		args+=(-c "$statement")
	done
	psql -X -q -At -v ON_ERROR_STOP=1 "${args[@]}" || die "a statement failed"
}

# timed EXPECTED SQL: runs it in a new session; it must return EXPECTED.  Sets ms, which
# includes the commit.
timed() {
	local output
	output=$(sql '\timing on' "$2") || exit
	ms=$(sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' <<<"$output")
	output=$(grep -v '^Time: ' <<<"$output")
	[ "$output" = "$1" ] || die "\"$2\" gave \"$output\", not \"$1\""
}

# calc EXPRESSION: prints its value.
calc() {
	awk "BEGIN { printf \"%.6g\", $1 }"
}

# k_per_s MILLISECONDS: thousands of records a second, when all took that long.
k_per_s() {
	calc "$RECORDS / ($1)"
}

sample() {
	echo "$1 $2 ${3:--}" >>"$SAMPLES"
}

server_version() {
	sql "SELECT split_part(version(), ' on ', 1)"
}

# Chat messages of seven random words.  A compressor finds the names of the fields, which
# repeat, but little in the text.
make_source() {
	say "making $RECORDS source records"
	sql "CREATE EXTENSION stream" "
		SELECT setseed(0.5)" "
		CREATE UNLOGGED TABLE src AS
		SELECT 'c' || (random() * 9999)::int AS key,
			jsonb_build_object('type', CASE WHEN random() < 0.9 THEN 'message' ELSE 'edit' END,
				'member', 'm' || (random() * 9999)::int, 'seq', n,
				'text', concat_ws(' ', w[1 + random() * 999], w[1 + random() * 999], w[1 + random() * 999],
					w[1 + random() * 999], w[1 + random() * 999], w[1 + random() * 999],
					w[1 + random() * 999])) AS value
		FROM generate_series(1, $RECORDS) n,
			(SELECT array_agg(translate(left(md5(i::text), 3 + i % 6), '0123456789abcdef', 'etaoinshrdlucmfw')) AS w
			 FROM generate_series(1, 1000) i) words" "
		VACUUM (FREEZE, ANALYZE) src" >/dev/null
	IFS='|' read -r KEY_BYTES VALUE_BYTES SOURCE_PAGES < <(sql "
		SELECT round(avg(octet_length(key))), round(avg(pg_column_size(value))),
			pg_relation_size('src') / current_setting('block_size')::int FROM src")
	if wanted publish_batch batch_publish_batch; then
		# As a client's parameters would come: ready made, and not to be uncompressed.
		sql "CREATE UNLOGGED TABLE src_batch (keys text[], record_values jsonb[])" "
			ALTER TABLE src_batch ALTER keys SET STORAGE EXTERNAL,
				ALTER record_values SET STORAGE EXTERNAL" "
			INSERT INTO src_batch SELECT array_agg(key), array_agg(value)
			FROM (SELECT *, row_number() OVER () - 1 AS n FROM src) s GROUP BY n / 1000" "
			VACUUM (FREEZE, ANALYZE) src_batch"
	fi
	prewarm_source
}

prewarm_source() {
	sql "SELECT sum(octet_length(key) + pg_column_size(value)) FROM src" >/dev/null
	[ -z "$(sql "SELECT to_regclass('src_batch')")" ] ||
		sql "SELECT sum(cardinality(keys) + cardinality(record_values)) FROM src_batch" >/dev/null
}

# new_table NAME, new_stream NAME: an empty one, in place of the one before.
new_table() {
	sql "DROP TABLE IF EXISTS $1" "
		CREATE TABLE $1 (partition int NOT NULL,
			record_offset bigint NOT NULL GENERATED ALWAYS AS IDENTITY (MINVALUE 0),
			published_at timestamptz NOT NULL DEFAULT now(), key text, value jsonb, headers jsonb)" "
		CREATE INDEX ON $1 (partition, record_offset)" "CHECKPOINT" 2>/dev/null
}
new_stream() {
	sql "SELECT stream.drop_stream(stream) FROM stream.stream_status WHERE stream = '$1'" \
		"SELECT stream.create_stream('$1')" "CHECKPOINT" >/dev/null
}

insert_sql() { # insert_sql [CONDITION]
	echo "INSERT INTO log (partition, key, value) SELECT 0, key, value FROM src ${1:-}"
}
publish_sql() {
	echo "SELECT count(stream.publish('log', key, value)) FROM src ${1:-}"
}

wal_position() {
	sql "SELECT pg_current_wal_lsn() - '0/0'"
}

# load_table, load_stream SQL: set ms, wal and disk (in bytes).
load_table() {
	local before
	new_table log
	before=$(wal_position)
	timed "" "$(insert_sql)"
	wal=$(($(wal_position) - before))
	disk=$(sql "SELECT pg_total_relation_size('log')")
	[ "$(sql "SELECT count(*) FROM log")" = "$RECORDS" ] || die "the table does not have all records"
	table_loaded=yes
}
load_stream() {
	local before
	new_stream log
	before=$(wal_position)
	timed "$RECORDS" "$1"
	wal=$(($(wal_position) - before))
	disk=$(sql "SELECT total_bytes FROM stream.stream_status WHERE stream = 'log'")
	[ "$(sql "SELECT records FROM stream.stream_status WHERE stream = 'log'")" = "$RECORDS" ] ||
		die "the stream does not have all records"
	stream_loaded=yes
}
table_loaded=no stream_loaded=no

records_a_batch() {
	sql "SELECT round(sum(records) / sum(batches), 1) FROM stream.segment_status WHERE stream = '$1'"
}

# The first runs make WAL files, which later ones reuse.
warm_up() {
	say "warming up"
	load_table
	load_stream "$(publish_sql)"
	load_table
}

measure_publish() {
	local rep base plain plain_wal plain_disk published batch
	wanted publish publish_batch wal disk call batch_publish batch_publish_batch || return 0
	for ((rep = 1; rep <= REPS; rep++)); do
		say "publish $rep/$REPS: INSERT ... SELECT"
		timed "$RECORDS" "SELECT count(length(key)) FROM src"
		base=$ms
		load_table
		plain=$ms plain_wal=$wal plain_disk=$disk
		if wanted publish wal disk call batch_publish; then
			say "publish $rep/$REPS: publish()"
			load_stream "$(publish_sql)"
			sample publish "$(k_per_s "$ms")" "$(k_per_s "$plain")"
			sample wal "$(calc "$wal / 1e6")" "$(calc "$plain_wal / 1e6")"
			sample disk "$(calc "$disk / 1e6")" "$(calc "$plain_disk / 1e6")"
			sample call "$(calc "($ms - $base) * 1e6 / $RECORDS")" "$(calc "($plain - $base) * 1e6 / $RECORDS")"
			sample batch_publish "$(records_a_batch log)"
		fi
		if wanted publish_batch batch_publish_batch; then
			say "publish $rep/$REPS: publish_batch()"
			load_stream "SELECT count(p) FROM src_batch, stream.publish_batch('log', keys, record_values) p"
			sample publish_batch "$(k_per_s "$ms")" "$(k_per_s "$plain")"
			sample batch_publish_batch "$(records_a_batch log)"
		fi
	done
}

# What is read: both hold all records, the table is vacuumed.
prepare_read() {
	[ $table_loaded = yes ] || load_table
	[ $stream_loaded = yes ] || load_stream "$(publish_sql)"
	sql "VACUUM (ANALYZE) log" "CHECKPOINT"
	# A consumer reads in pages.
	STREAM_READ="SELECT count(value) FROM generate_series(0, $RECORDS - 1, 10000) o,
		LATERAL stream.read('log', 0, o, 10000, NULL)"
}

PLAIN_READ="SELECT count(value) FROM (SELECT * FROM log WHERE partition = 0 AND record_offset >= 0
	ORDER BY partition, record_offset OFFSET 0) r"
PLAIN_SCAN="SELECT count(value) FROM log"
STREAM_READ_CALL="SELECT count(value) FROM stream.read('log', 0, 0, NULL, NULL)"
STREAM_FACE="SELECT count(value) FROM streams.log"

measure_read_warm() {
	local rep plain
	wanted read_warm read_warm_call read_warm_unordered read_warm_face || return 0
	say "preparing to read"
	prepare_read
	timed "$RECORDS" "$PLAIN_READ"
	timed "$RECORDS" "$PLAIN_SCAN"
	timed "$RECORDS" "$STREAM_READ"
	# Single reads are short: a pair is the sum of several.
	for ((rep = 1; rep <= REPS; rep++)); do
		say "read, warm, $rep/$REPS"
		read_pair read_warm "$PLAIN_READ" "$STREAM_READ"
		read_pair read_warm_call "$PLAIN_READ" "$STREAM_READ_CALL"
		read_pair read_warm_unordered "$PLAIN_SCAN" "$STREAM_READ"
		read_pair read_warm_face "$PLAIN_READ" "$STREAM_FACE"
	done
}

read_pair() {
	local i plain=0 stream=0
	wanted "$1" || return 0
	for i in 1 2 3; do
		timed "$RECORDS" "$2"
		plain=$(calc "$plain + $ms")
		timed "$RECORDS" "$3"
		stream=$(calc "$stream + $ms")
	done
	sample "$1" "$(k_per_s "$stream / 3")" "$(k_per_s "$plain / 3")"
}

measure_read_cold() {
	local rep plain
	wanted read_cold read_cold_call read_cold_face || return 0
	# What both sides need of catalogs and libraries is read before, from these.
	new_table tiny
	new_stream tiny
	sql "INSERT INTO tiny (partition) VALUES (0)" "SELECT stream.publish('tiny', 'a', '{}'::jsonb)" >/dev/null
	prepare_read
	for ((rep = 1; rep <= REPS; rep++)); do
		say "read, cold, $rep/$REPS"
		cool_down
		timed "$RECORDS" "$PLAIN_READ"
		plain=$ms
		cold_stream read_cold "$STREAM_READ"
		cold_stream read_cold_call "$STREAM_READ_CALL"
		cold_stream read_cold_face "$STREAM_FACE"
	done
	prewarm_source
}

cold_stream() {
	wanted "$1" || return 0
	cool_down
	timed "$RECORDS" "$2"
	sample "$1" "$(k_per_s "$ms")" "$(k_per_s "$plain")"
}

# cool_down restarts the server with nothing of its files in memory.  What lies below
# the operating system, such as a disk's or a hypervisor's cache, it cannot reach.
cool_down() {
	local resident
	cluster_stop
	# What is not on disk yet stays.
	find "$DATA_DIR/base" -type f -exec sync {} +
	if { echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null; then
		COLD_METHOD="/proc/sys/vm/drop_caches"
	else
		COLD_METHOD="posix_fadvise on each file"
		find "$DATA_DIR/base" -type f -size +0 \
			-exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none \;
	fi
	if command -v fincore >/dev/null; then
		resident=$(find "$DATA_DIR/base" -type f -size +0 -exec fincore -b -n -o RES {} + |
			awk '{ sum += $1 } END { printf "%d", sum / 1000000 }')
		[ "$resident" -lt 5 ] || COLD_METHOD+=", but $resident MB stayed in memory"
	fi
	cluster_up
	sql "${PLAIN_READ/log/tiny}" "${STREAM_READ_CALL/\'log\'/\'tiny\'}" "${STREAM_FACE/log/tiny}" >/dev/null
}

# tx_rate STATEMENT: sets tps.
tx_rate() {
	local output
	echo "$1" >"$WORK/tx.sql"
	output=$(pgbench -n -M prepared -c $TX_CLIENTS -j "$THREADS" -T "$TX_SECONDS" -f "$WORK/tx.sql" \
		2>"$WORK/pgbench.log") || { cat "$WORK/pgbench.log" >&2; die "pgbench failed"; }
	tps=$(sed -n 's/^tps = \([0-9.]*\).*/\1/p' <<<"$output")
}

measure_transactions() {
	local rep mode plain published value tx_insert tx_publish tx_emit
	value=$(sql "SELECT value FROM src LIMIT 1")
	# Constants, so that nobody parses JSON in the measured time: the message has none to
	# parse, and to the others it costs the same.
	tx_insert="INSERT INTO tx (partition, key, value) VALUES (0, 'c4711', '$value'::jsonb)"
	tx_publish="SELECT stream.publish('tx', 'c4711', '$value'::jsonb)"
	tx_emit="SELECT pg_logical_emit_message(true, 'bench', '$value'::text)"
	for mode in on off; do
		wanted tx_${mode}_{insert,emit,returning} batch_tx || continue
		export PGOPTIONS="-c synchronous_commit=$mode"
		for ((rep = 1; rep <= REPS; rep++)); do
			say "one record a transaction, synchronous_commit $mode, $rep/$REPS"
			if wanted tx_${mode}_insert; then
				new_table tx
				tx_rate "$tx_insert;"
				plain=$tps
			fi
			new_stream tx
			tx_rate "$tx_publish;"
			published=$tps
			sample batch_tx "$(records_a_batch tx)"
			! wanted tx_${mode}_insert || sample tx_${mode}_insert "$published" "$plain"
			if wanted tx_${mode}_emit; then
				sql CHECKPOINT
				tx_rate "$tx_emit;"
				sample tx_${mode}_emit "$published" "$tps"
			fi
			if wanted tx_${mode}_returning; then
				# What publish() does too: tell the position.
				new_table tx
				tx_rate "$tx_insert RETURNING record_offset;"
				sample tx_${mode}_returning "$published" "$tps"
			fi
		done
		unset PGOPTIONS
	done
	sql "DROP TABLE IF EXISTS tx" "SELECT stream.drop_stream(stream) FROM stream.stream_status WHERE stream = 'tx'" \
		>/dev/null 2>&1
}

# sessions_rate SESSIONS STATEMENT: all records, each session its part of the source, in
# one transaction each.  Sets rate.
sessions_rate() {
	local output tps
	cat >"$WORK/sessions.sql" <<-EOT
		\\set first :client_id * $SOURCE_PAGES / $1
		\\set behind (:client_id + 1) * $SOURCE_PAGES / $1
		$2 WHERE ctid >= format('(%s,0)', :first)::tid AND ctid < format('(%s,0)', :behind)::tid;
	EOT
	output=$(pgbench -n -c "$1" -j "$THREADS" -t 1 -f "$WORK/sessions.sql" 2>"$WORK/pgbench.log") ||
		{ cat "$WORK/pgbench.log" >&2; die "pgbench failed"; }
	tps=$(sed -n 's/^tps = \([0-9.]*\).*/\1/p' <<<"$output")
	rate=$(calc "$RECORDS / ($1 / $tps) / 1000")
}

measure_sessions() {
	local rep sessions counts=(1) plain plain_one stream_one
	for sessions in 2 16; do
		! wanted sessions_$sessions sessions_${sessions}_scaling batch_sessions_$sessions || counts+=($sessions)
	done
	[ ${#counts[@]} -gt 1 ] || return 0
	for ((rep = 1; rep <= REPS; rep++)); do
		for sessions in "${counts[@]}"; do
			say "sessions $rep/$REPS: $sessions"
			new_table log
			sessions_rate "$sessions" "$(insert_sql)"
			plain=$rate
			[ "$(sql "SELECT count(*) FROM log")" = "$RECORDS" ] || die "the table does not have all records"
			new_stream log
			sessions_rate "$sessions" "$(publish_sql)"
			[ "$(sql "SELECT records FROM stream.stream_status WHERE stream = 'log'")" = "$RECORDS" ] ||
				die "the stream does not have all records"
			if [ "$sessions" = 1 ]; then
				plain_one=$plain stream_one=$rate
				continue
			fi
			sample "sessions_$sessions" "$rate" "$plain"
			sample "sessions_${sessions}_scaling" "$(calc "$rate / $stream_one")" "$(calc "$plain / $plain_one")"
			sample "batch_sessions_$sessions" "$(records_a_batch log)"
		done
	done
}
