# Shell functions shared by every script under test/: messages, clean-up, finding
# the server's programs, and running things as an unprivileged user.
# To be sourced by bash; cluster.sh sources it.
#
# Sets: ROOT (the checkout), WORK (a private temporary directory, after make_work),
# AS_PG (command prefix that changes to the unprivileged user, after make_work).
# shellcheck shell=bash disable=SC2034

set -u -o pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# A make that started us must not steer the makes we start; settings given on its
# command line reach us through the environment.
unset MAKEFLAGS MFLAGS MAKELEVEL

# say TEXT...: progress, to standard error, with the seconds since the start.
say() {
	printf '[%4ds] %s\n' "$SECONDS" "$*" >&2
}

die() {
	printf '%s: %s\n' "$(basename "$(dirname "$0")")/$(basename "$0")" "$*" >&2
	exit 1
}

# require_root_or_hint WHY: for what needs root and has no way around it.
require_root_or_hint() {
	[ "$(id -u)" = 0 ] || die "must be run as root: $1"
}

# supported_pg_config FILE: whether it is the pg_config of a PostgreSQL 15 to 18.
supported_pg_config() {
	local major
	major=$(pg_major "$1") && [ -n "$major" ] &&
		[ "$major" -ge 15 ] && [ "$major" -le 18 ]
}

# pg_major FILE: the major version of a pg_config, nothing if it does not run.
pg_major() {
	"$1" --version 2>/dev/null | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p'
}

# Sets PG_CONFIG to the one asked for in the environment, else the one in the PATH,
# else the newest that Debian's packages brought; false if there is none.
find_pg_config() {
	local candidate
	if [ -n "${PG_CONFIG:-}" ]; then
		supported_pg_config "$PG_CONFIG"
		return
	fi
	while read -r candidate; do
		if supported_pg_config "$candidate"; then
			PG_CONFIG=$candidate
			return 0
		fi
	done < <(command -v pg_config
		printf '%s\n' /usr/lib/postgresql/*/bin/pg_config | sort -rV)
	return 1
}

# Functions to call at exit, last one first, however the script ends.
EXIT_HOOKS=()
at_exit() {
	EXIT_HOOKS=("$1" "${EXIT_HOOKS[@]}")
}

run_exit_hooks() {
	local status=$? hook
	trap '' INT TERM HUP
	for hook in "${EXIT_HOOKS[@]}"; do
		"$hook" "$status"
	done
}

trap run_exit_hooks EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Creates WORK: everything a run writes lives in it, and goes with it.  The path is
# short, since a socket's may have 107 bytes only.  STREAM_TMP moves it to another
# disk.  Only the unprivileged user and root can enter.
make_work() {
	local user
	WORK=$(mktemp -d "${STREAM_TMP:-/tmp}/stream.XXXXXX") || die "cannot create a directory"
	at_exit remove_work
	mkdir "$WORK/home" "$WORK/tmp"
	AS_PG=(env -C "$WORK" "HOME=$WORK/home" "TMPDIR=$WORK/tmp")
	if [ "$(id -u)" = 0 ]; then
		user=postgres
		id "$user" >/dev/null 2>&1 || user=nobody
		AS_PG+=(setpriv "--reuid=$user" "--regid=$(id -g "$user")" --clear-groups)
		chown -R "$user:$(id -g "$user")" "$WORK"
	fi
}

# as_pg COMMAND...: runs it as the user that PostgreSQL runs as, in WORK.  When the
# script was started as root that user may be unable to read the checkout: give it
# copies, or redirect.  Clients (psql, pgbench) need no as_pg.  Where output is redirected
# write "${AS_PG[@]}" instead: a function's redirection would still be in force when a
# signal makes the script say its last words.
as_pg() {
	"${AS_PG[@]}" "$@"
}

# descendants PID: the processes below PID, by /proc, since procps may be missing.
descendants() {
	local file stat pid parent
	for file in /proc/[0-9]*/stat; do
		# The second field, in parentheses, may hold anything; the fourth is the parent.
		read -r stat <"$file" || continue
		pid=${stat%% *}
		parent=${stat##*) }
		parent=${parent#* }
		if [ "${parent%% *}" = "$1" ]; then
			echo "$pid"
			descendants "$pid"
		fi
	done 2>/dev/null
}

# kill_server DATADIR: SIGKILL to a server and all its processes; the power cut.
kill_server() {
	local pid pids tries
	pid=$(head -n 1 "$1/postmaster.pid" 2>/dev/null) || return 0
	[ -n "$pid" ] && [ "/proc/$pid/cwd" -ef "$1" ] || return 0
	# The postmaster first, or it would restart what it loses; the signal arrives a little
	# later, and until then it can start more.
	kill -STOP "$pid" 2>/dev/null
	for ((tries = 0; tries < 100; tries++)); do
		[[ $(cat "/proc/$pid/stat" 2>/dev/null) == *") "[RSD]* ]] || break
		sleep 0.01
	done
	pids=$(descendants "$pid")
	# shellcheck disable=SC2086
	kill -KILL "$pid" $pids 2>/dev/null
	for ((tries = 0; tries < 200; tries++)); do
		# shellcheck disable=SC2086
		kill -0 "$pid" $pids 2>/dev/null || return 0
		sleep 0.05
	done
}

# Every server with its data below a directory, also one that a test started and forgot.
kill_servers_below() {
	local file
	while read -r file; do
		kill_server "$(dirname "$file")"
	done < <(find "$1" -name postmaster.pid 2>/dev/null)
}

# Ends what was started and removes WORK.
remove_work() {
	local jobs
	jobs=$(jobs -p)
	# shellcheck disable=SC2086
	[ -z "$jobs" ] || { kill $jobs; wait; } 2>/dev/null
	kill_servers_below "$WORK"
	rm -rf "$WORK"
}
