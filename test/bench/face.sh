# The stream as a table, for "run": what is loaded by COPY and INSERT, and queries on it.
# Functions and plain side are those of measure.sh.
#
# shellcheck shell=bash disable=SC2034,SC2153,SC2154

measure_face_load() {
	local rep file=$WORK/src.tsv plain
	wanted face_copy face_insert || return 0
	sql "COPY src TO '$file'"
	for ((rep = 1; rep <= REPS; rep++)); do
		if wanted face_copy; then
			say "COPY $rep/$REPS"
			new_table log
			sql "ALTER TABLE log ALTER partition SET DEFAULT 0"
			timed "" "COPY log (key, value) FROM '$file'"
			plain=$ms
			new_stream log
			timed "" "COPY streams.log (key, value) FROM '$file'"
			sample face_copy "$(k_per_s "$ms")" "$(k_per_s "$plain")"
		fi
		if wanted face_insert; then
			say "INSERT ... SELECT $rep/$REPS"
			load_table
			plain=$ms
			new_stream log
			timed "" "INSERT INTO streams.log (key, value) SELECT key, value FROM src"
			sample face_insert "$(k_per_s "$ms")" "$(k_per_s "$plain")"
		fi
	done
	rm -f "$file"
	table_loaded=no stream_loaded=no
}

measure_face_queries() {
	local rep middle=$((RECORDS / 2)) range
	wanted face_count face_count_value face_range face_limit || return 0
	say "preparing to query"
	prepare_read
	sql "ANALYZE streams.log"
	timed "$RECORDS" "SELECT count(*) FROM log"
	timed "$RECORDS" "SELECT count(*) FROM streams.log"
	for ((rep = 1; rep <= REPS; rep++)); do
		say "queries $rep/$REPS"
		read_pair face_count "SELECT count(*) FROM log" "SELECT count(*) FROM streams.log"
		read_pair face_count_value "SELECT count(value) FROM log" "SELECT count(value) FROM streams.log"
		! wanted face_range || range_pair "$middle"
	done
	if wanted face_limit; then
		say "LIMIT 1"
		# four times as much again, so that it is five times the number of records
		for _ in 1 2 3 4; do
			sql "$(publish_sql)" >/dev/null
		done
		stream_loaded=no
		for ((rep = 1; rep <= REPS; rep++)); do
			in_one_session "SELECT octet_length(key) > 0 FROM streams.log LIMIT 1"
			sample face_limit "$ms" 2
		done
	fi
}

# in_one_session SQL: sets ms to the median of nine runs after a first one, as a pooled
# connection would have it.
in_one_session() {
	ms=$(for _ in 1 2 3 4 5 6 7 8 9 10; do echo "$1;"; done |
		psql -X -q -At -v ON_ERROR_STOP=1 -c '\timing on' -f - | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' |
		tail -n 9 | sort -n | sed -n 5p)
	[ -n "$ms" ] || die "\"$1\" failed"
}

# range_pair FIRST: a thousand offsets.
range_pair() {
	local condition="partition = 0 AND record_offset BETWEEN $1 AND $1 + 999" plain
	in_one_session "SELECT count(value) FROM log WHERE $condition"
	plain=$ms
	in_one_session "SELECT count(value) FROM streams.log WHERE $condition"
	sample face_range "$(calc "1000 / $ms")" "$(calc "1000 / $plain")"
}
