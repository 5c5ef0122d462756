# The demo's part about projections, for "run", whose functions it uses.
#
# shellcheck shell=bash disable=SC2154

# publish: starts the session that publishes the file, or the rest of it.
publish() {
	start publisher "CALL publish_file()"
}

# await_published EVENTS: until so many are committed.
await_published() {
	local events
	while events=$(value "SELECT events FROM sessions WHERE name = 'publisher'") && progress "$events" &&
		[ "$events" -lt "$1" ]; do
		kill -0 "${pids[publisher]}" 2>/dev/null || break
		sleep 0.05
	done
}

# publisher_lost: it ends with its server.
publisher_lost() {
	! wait "${pids[publisher]}" 2>/dev/null || fail "the publisher was not there when the server went"
	[ ! -t 1 ] || echo
}

# await_server: until it lets us in again.
await_server() {
	local tries
	for ((tries = 0; tries < 600; tries++)); do
		! psql -X -q -c 'SELECT 1' >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	fail "the server does not come back"
}

# await_applier: until one runs, if possible one that is at work.  Sets applier.
await_applier() {
	local tries
	for ((tries = 0; tries < 600; tries++)); do
		applier=$(value "SELECT pid FROM stream.worker_status WHERE type = 'stream applier' AND pid IS NOT NULL
			ORDER BY state = 'running' DESC LIMIT 1")
		[ -z "$applier" ] || return 0
		sleep 0.1
	done
	fail "no applier runs"
}

# status [, COLUMNS]: of both projections.
status() {
	table projection_status "projection, state, lag, round(lag_seconds::numeric, 1) AS lag_seconds${1:-}" 'ORDER BY 1'
}

projections() {
	local third=$((total / 3)) started rows
	sql -f "$here/projections.sql" >"$WORK/setup.log" 2>&1 || { cat "$WORK/setup.log" >&2; die "cannot set up"; }
	sql -f "$here/create_projections.sql" >"$WORK/setup.log" 2>&1 || { cat "$WORK/setup.log" >&2; die "cannot create projections"; }
	explain "6. Projections: tables that follow a stream.  Nobody runs a consumer: background workers, the appliers, do it." \
		"   For each path, which changes there were (a set of numbers, so it can be counted), and who made the last one;" \
		"   and in a second table the sums of lines.  One row a path, however many records:"
	echo
	sed 's/^\(.\)/       \1/' "$here/create_projections.sql"
	explain "   A session publishes the events to that stream.  On the way, first an applier is killed, then the whole server."
	await_applier
	publish
	await_published "$third"
	await_applier
	kill -KILL "$applier" || fail "there is no applier to kill"
	publisher_lost
	echo "   kill -9 $applier: an applier, in mid-load.  PostgreSQL restarts all its processes then, and so did the publisher:"
	await_server
	indent <<<"$(grep -o 'background worker.*signal 9.*\|all server processes terminated.*' "$SERVER_LOG" | tail -n 2)"
	publish
	await_published $((2 * third))
	cluster_stop immediate
	publisher_lost
	echo "   pg_ctl stop -m immediate: the server, in mid-load, without a checkpoint.  It starts again, and recovers."
	cluster_up
	status
	echo "   What the tables lost in the crash, their offsets lost with it: the appliers go on where the tables are."
	echo "   For the last third, \"paths\" is paused, as if its appliers had been down for a while:"
	sql -c "SELECT stream.pause_projection('paths')" >/dev/null
	publish
	await_published "$total"
	wait "${pids[publisher]}" || fail "the publisher failed"
	progress "$total" last
	[ ! -t 1 ] || echo
	sql -c "CALL await('lines')"
	status
	started=$(now)
	sql -c "SELECT stream.resume_projection('paths')" -c "CALL await('paths')" >/dev/null || fail "paths does not catch up"
	echo "   Resumed: after $(seconds_since "$started") s it has caught up.  How much it can take was measured meanwhile:"
	status ", round(arrival_rate) AS arrival_rate, round(capacity) AS capacity, round(utilization::numeric, 3) AS utilization"
	echo "   stream.stale_after('paths', '10 min'): after an outage of 10 min it would be up to date again" \
		"$(value "SELECT coalesce(date_trunc('second', stream.stale_after('paths', '10 min'))::text, 'at a time not known')") after its start."
	echo "   Both tables, row by row, against the file:"
	check check_paths.sql
	check check_lines.sql

	explain "7. Reading one's own writes: publish and commit, then wait for that record to be in the table:" \
		"       BEGIN;" \
		"       SELECT stream.publish('edits', 'README.md', '{\"change_seq\": $((total + 1)), ...}')      -- returns its position" \
		"       COMMIT;" \
		"       SELECT stream.wait_for('paths', ARRAY[that position]);" \
		"       SELECT ... FROM paths WHERE path = 'README.md';"
	sql >"$WORK/own.log" 2>&1 <<-SQL || { cat "$WORK/own.log" >&2; fail "cannot read its own writes"; }
		BEGIN;
		INSERT INTO file SELECT $((total + 1)), commit_seq + 1, committed_at + 60, 4711, 'README.md', 1, 0
			FROM file WHERE change_seq = $total;
		SELECT stream.publish('edits', path, value_of(f)) AS position FROM file f WHERE change_seq = $((total + 1)) \\gset
		COMMIT;
		SELECT stream.wait_for('paths', ARRAY[:'position']::stream.record_position[]) AS applied \\gset
		SELECT path, (SELECT sum(upper(r) - lower(r)) FROM unnest(changes) r) AS number_of_changes, change_seq, last_author,
			:'applied' AS applied FROM paths WHERE path = 'README.md';
		SELECT stale_seconds, unapplied_records FROM stream.freshness('paths', 'README.md');
	SQL
	indent <"$WORK/own.log"
	echo "   The second one is stream.freshness('paths', 'README.md'): how stale the row can be."

	explain "8. Publishers repeat themselves, and records come late.  All events up to number $(thousands "$third") once more, shuffled:" \
		"       INSERT INTO streams.edits (key, value) SELECT ... ORDER BY random();"
	sql -c "CREATE TABLE before AS SELECT path, xmin::text AS version FROM paths" \
		-c "INSERT INTO streams.edits (key, value) SELECT path, value_of(f) FROM file f
			WHERE change_seq <= $third ORDER BY random()" \
		-c "CALL await('paths')" -c "CALL await('lines')" || fail "publishing again failed"
	check check_paths.sql
	rows=$(value "SELECT count(*) FROM paths p JOIN before b USING (path) WHERE p.xmin::text <> b.version")
	[ "$rows" = 0 ] || fail "$rows rows were written that did not change"
	echo "   \"paths\" is right, and not one of its rows was written: union, max and latest are such that a record applied again,"
	echo "   or late, changes nothing.  A sum is not: \"lines\" was exact only since its offset commits with it, and it believes"
	echo "   the publisher.  $(thousands "$(value "SELECT count(*) FROM lines l JOIN (SELECT path, sum(lines_added) AS added,
		sum(lines_deleted) AS deleted FROM file GROUP BY path) e USING (path)
		WHERE (e.added, e.deleted) IS DISTINCT FROM (l.added, l.deleted)")") of its rows count repeated events twice now.  Views tell which is which:"
	table projection_definition 'projection, target, replay_safe, on_error, owner' 'ORDER BY 1'
	table worker_status 'type, state, restarts, last_error' "WHERE database = current_database() OR database IS NULL ORDER BY 1" " (there is nothing else to operate)"
}
