# Projections, for "run".  Functions and plain side are those of measure.sh.
#
# What is kept up to date is the highest number of each conversation: a table of 10,000
# rows, or with few records less.  By hand, from the table that stands for the log:
#
#	a record	INSERT ... ON CONFLICT DO UPDATE SET n = GREATEST(...) for each record, in
#		a procedure in the server, 1000 in a transaction
#	a batch		one such statement for a batch, which is aggregated first.  Batches are of
#		the sizes of an applier's: 1000, 10,000, then 100,000
#
# Appliers do not wait for the disk when they commit, so the plain side does not either.
#
# Records come one at a time to idle projections: from the return of the publisher's
# COMMIT until wait_for() returns to the same session, which then looks at the row.
#
# shellcheck shell=bash disable=SC2034,SC2153,SC2154

APPLY_QUERY="SELECT key, (value->>'seq')::bigint AS n FROM batch"
FAN_OUT="6 24"

measure_projections() {
	wanted apply_{record,batch,latency,latency_p99} \
		apply_{6,24}{,_idle,_latency,_cpu} || return 0
	make_projections
	measure_apply
	measure_apply_latency
	measure_apply_many
	drop_projections
	sql "SELECT stream.drop_projection('tiny')" "SELECT stream.drop_stream(stream) FROM stream.stream_status
			WHERE stream IN ('tiny', 'few')" "DROP TABLE tiny_applied, latency" >/dev/null
}

make_projections() {
	sql "CREATE TABLE latency (publish float8, apply float8)" "
		CREATE PROCEDURE upsert_records() LANGUAGE plpgsql AS \$\$
		DECLARE
			r record;
			i int := 0;
		BEGIN
			FOR r IN SELECT key, (value->>'seq')::bigint AS n FROM log ORDER BY partition, record_offset LOOP
				INSERT INTO applied AS t VALUES (r.key, r.n)
					ON CONFLICT (key) DO UPDATE SET n = GREATEST(t.n, excluded.n);
				i := i + 1;
				IF i % 1000 = 0 THEN
					COMMIT;
				END IF;
			END LOOP;
		END \$\$" "
		CREATE PROCEDURE upsert_batches(records int) LANGUAGE plpgsql AS \$\$
		DECLARE
			first int := 0;
			size int := 1000;
		BEGIN
			WHILE first < records LOOP
				INSERT INTO applied AS t
					SELECT key, max((value->>'seq')::bigint) FROM log
					WHERE partition = 0 AND record_offset >= first AND record_offset < first + size GROUP BY key
					ON CONFLICT (key) DO UPDATE SET n = GREATEST(t.n, excluded.n);
				COMMIT;
				first := first + size;
				size := LEAST(10 * size, 100000);
			END LOOP;
		END \$\$" "
		-- A statement's snapshot would keep dead rows from being pruned: short ones.
		CREATE PROCEDURE await_projections() LANGUAGE plpgsql AS \$\$
		DECLARE
			name text;
		BEGIN
			FOR name IN SELECT projection FROM stream.projection_definition WHERE projection ~ '^bench' LOOP
				WHILE NOT stream.wait_for(name, timeout => '50 ms') LOOP
					COMMIT;
				END LOOP;
			END LOOP;
		END \$\$" "
		CREATE PROCEDURE project(stream text, projections int) LANGUAGE plpgsql AS \$\$
		BEGIN
			PERFORM stream.create_projection('bench_' || i, stream, format('applied_%s', i)::regclass,
				query => \$q\$ $APPLY_QUERY \$q\$, merge => '{\"n\": \"max\"}')
				FROM generate_series(1, projections) i;
			COMMIT;
			CALL await_projections();
		END \$\$" "
		-- Publishes now and then, and waits until each projection shows it.
		CREATE PROCEDURE publish_and_look(first int, records int) LANGUAGE plpgsql AS \$\$
		DECLARE
			names text[] := (SELECT array_agg(projection) FROM stream.projection_definition WHERE projection ~ '^bench');
			name text;
			start timestamptz;
			committed timestamptz;
			positions stream.record_position[];
			found bigint;
		BEGIN
			FOR i IN first .. first + records - 1 LOOP
				start := clock_timestamp();
				positions[1] := stream.publish('few', 'a', jsonb_build_object('seq', i));
				COMMIT;
				committed := clock_timestamp();
				FOREACH name IN ARRAY coalesce(names, '{}') LOOP
					WHILE NOT stream.wait_for(name, positions) LOOP
						COMMIT;
					END LOOP;
				END LOOP;
				INSERT INTO latency VALUES (1000 * extract(epoch FROM committed - start),
					1000 * extract(epoch FROM clock_timestamp() - committed));
				COMMIT;
				FOREACH name IN ARRAY coalesce(names, '{}') LOOP
					EXECUTE format('SELECT n FROM %I', replace(name, 'bench', 'applied')) INTO found;
					IF found IS DISTINCT FROM i THEN
						RAISE EXCEPTION 'projection % shows %, not %', name, found, i;
					END IF;
				END LOOP;
				COMMIT;
				PERFORM pg_sleep(0.008 + 0.004 * random());
			END LOOP;
		END \$\$"
	# A projection that has nothing to do keeps the appliers running in between.
	new_stream tiny
	sql "CREATE TABLE tiny_applied (key text PRIMARY KEY, n bigint)" "
		SELECT stream.create_projection('tiny', 'tiny', 'tiny_applied', query => \$\$ $APPLY_QUERY \$\$,
			merge => '{\"n\": \"max\"}', start => 'latest')" >/dev/null
}

drop_projections() {
	sql "SELECT stream.drop_projection(projection) FROM stream.projection_definition
			WHERE projection ~ '^bench'" >/dev/null
}

# new_target NAME...: an empty table each, in place of the one before.
new_target() {
	local name
	for name; do
		sql "DROP TABLE IF EXISTS $name" "CREATE TABLE $name (key text PRIMARY KEY, n bigint)" 2>/dev/null
	done
	sql "CHECKPOINT"
}

# check_target NAME: it is what all records come to.
check_target() {
	[ "$(sql "SELECT count(*) FROM $1 FULL JOIN (
			SELECT key, max((value->>'seq')::bigint) AS n FROM src GROUP BY key) e USING (key)
			WHERE e.n IS DISTINCT FROM $1.n")" = 0 ] || die "table $1 differs from its records"
}

measure_apply() {
	local rep stream
	wanted apply_record apply_batch || return 0
	say "preparing to apply"
	prepare_read
	for ((rep = 1; rep <= REPS; rep++)); do
		say "apply $rep/$REPS"
		export PGOPTIONS="-c synchronous_commit=off"
		drop_projections
		new_target applied_1
		timed "" "CALL project('log', 1)"
		check_target applied_1
		stream=$ms
		if wanted apply_batch; then
			new_target applied
			timed "" "CALL upsert_batches($RECORDS)"
			check_target applied
			sample apply_batch "$(k_per_s "$stream")" "$(k_per_s "$ms")"
		fi
		if wanted apply_record; then
			new_target applied
			timed "" "CALL upsert_records()"
			check_target applied
			sample apply_record "$(k_per_s "$stream")" "$(k_per_s "$ms")"
		fi
		unset PGOPTIONS
	done
}

# percentile COLUMN FRACTION: of the last measurement of latency.
percentile() {
	sql "SELECT percentile_cont($2) WITHIN GROUP (ORDER BY $1) FROM latency"
}

# few_records PROJECTIONS: publishes to that many, idle in between.  Sets cpu: the
# processor time that background workers took for a record, in ms.
few_records() {
	local count=$((TX_SECONDS * 100)) before
	drop_projections
	# shellcheck disable=SC2046
	[ "$1" = 0 ] || new_target $(seq -f 'applied_%g' "$1")
	new_stream few
	sql "CALL project('few', $1)" "CALL publish_and_look(1, 20)" "TRUNCATE latency"
	before=$(worker_time)
	sql "CALL publish_and_look(21, $count)"
	cpu=$(calc "($(worker_time) - $before) / $count")
}

# worker_time: what the appliers have used until now, in ms.
worker_time() {
	local pid ticks=0 user system
	while read -r pid; do
		read -r user system < <(sed 's/.*) //' "/proc/$pid/stat" | cut -d' ' -f12,13)
		ticks=$((ticks + user + system))
	done < <(sql "SELECT pid FROM stream.worker_status WHERE type = 'stream applier' AND pid IS NOT NULL")
	calc "$ticks * 1000 / $(getconf CLK_TCK)"
}

measure_apply_latency() {
	local rep
	wanted apply_latency apply_latency_p99 || return 0
	for ((rep = 1; rep <= REPS; rep++)); do
		say "apply, latency $rep/$REPS"
		few_records 1
		sample apply_latency "$(percentile apply 0.5)"
		sample apply_latency_p99 "$(percentile apply 0.99)"
	done
}

# Several projections of the same stream: what they cost, with a backlog and idle.
measure_apply_many() {
	local rep n one none one_latency one_cpu
	wanted apply_{6,24}{,_idle,_latency,_cpu} || return 0
	prepare_read
	for ((rep = 1; rep <= REPS; rep++)); do
		say "several projections $rep/$REPS"
		if wanted apply_6 apply_24; then
			drop_projections
			new_target applied_1
			timed "" "CALL project('log', 1)"
			one=$ms
		fi
		if wanted apply_{6,24}_{idle,latency,cpu}; then
			few_records 0
			none=$(percentile publish 0.5)
			few_records 1
			one_latency=$(percentile apply 0.5)
			one_cpu=$cpu
		fi
		for n in $FAN_OUT; do
			if wanted "apply_$n"; then
				drop_projections
				# shellcheck disable=SC2046
				new_target $(seq -f 'applied_%g' "$n")
				timed "" "CALL project('log', $n)"
				check_target "applied_$n"
				sample "apply_$n" "$(k_per_s "$ms / $n")" "$(k_per_s "$one")"
			fi
			if wanted "apply_${n}_"{idle,latency,cpu}; then
				few_records "$n"
				sample "apply_${n}_idle" "$(percentile publish 0.5)" "$none"
				sample "apply_${n}_latency" "$(percentile apply 0.5)" "$one_latency"
				sample "apply_${n}_cpu" "$cpu" "$one_cpu"
			fi
		done
	done
}
