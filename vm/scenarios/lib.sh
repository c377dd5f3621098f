# Shared by the scenarios; each runs in a guest as root.
# shellcheck shell=bash
# Environment: BIN = the scheduler's binary.
BIN=${BIN:?the path of scx_soft_domain}
T=/sys/kernel/tracing
failed=0

say() { printf '%s\n' "$*"; }
check() { # check NAME CONDITION...: says whether the condition holds, and remembers if not
    local name=$1
    shift
    if "$@"; then say "ok      $name"; else say "FAILED  $name"; failed=1; fi
}
between() { [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]; }
same() { [ "$1" = "$2" ]; }
state() { cat /sys/kernel/sched_ext/state; }

# start ARGUMENTS...: the scheduler with its output in $LOG; fails if it does not attach within 20 s
start() {
    LOG=${LOG:-/tmp/scheduler.log}
    "$BIN" "$@" >"$LOG" 2>&1 &
    SCHED_PID=$!
    for _ in $(seq 100); do
        [ "$(state)" = enabled ] && grep -q ' running: ' "$LOG" && return 0
        kill -0 $SCHED_PID 2>/dev/null || break
        sleep 0.2
    done
    say "FAILED  the scheduler did not attach:"
    cat "$LOG"
    exit 1
}

# stop: asks it to end, waits, and leaves its exit code in $code
stop() {
    kill -INT "$SCHED_PID"
    wait "$SCHED_PID"
    code=$?
}

# servers FIRST LAST: valkey servers by number, ports 7000 + number; pids in the array SERVERS by number
declare -A SERVERS
servers() {
    local i
    for i in $(seq "$1" "$2"); do
        valkey-server --port $((7000 + i)) --save "" --daemonize no --loglevel warning --logfile "/tmp/valkey$i.log" &
        SERVERS[$i]=$!
    done
    for i in $(seq "$1" "$2"); do
        for _ in $(seq 100); do
            valkey-cli -p $((7000 + i)) ping >/dev/null 2>&1 && break
            sleep 0.1
        done
    done
}

# home PID: the CPU that the log gives as its last home
home() {
    grep -E "(adopted|home) .*\b$1\b.*CPU|\b$1\b.*-> CPU" "$LOG" | tail -1 | grep -oE 'CPU [0-9]+' | tail -1 | cut -d' ' -f2
}

# trace_migrations / end_trace: what the kernel really migrated
trace_migrations() {
    echo 0 >$T/tracing_on
    echo 32768 >$T/buffer_size_kb
    echo >$T/trace
    echo 1 >$T/events/sched/sched_migrate_task/enable
    echo 1 >$T/tracing_on
}
end_trace() {
    echo 0 >$T/tracing_on
    echo 0 >$T/events/sched/sched_migrate_task/enable
}
# moves COMM CPUS: migrations of COMM between groups of CPUS consecutive CPUs
moves() {
    grep "comm=$1" $T/trace | sed -e 's/.*orig_cpu=\([0-9]*\) dest_cpu=\([0-9]*\).*/\1 \2/' |
        awk -v n="$2" 'int($1 / n) != int($2 / n) {k++} END {print k + 0}'
}

# burners N [COMMAND PREFIX]: N processes named `burner` that compute for ever once told by `gate`; pids in BURNERS
BURNERS=()
burners() {
    local i n=$1
    shift
    [ -e /tmp/burner ] || cp /bin/bash /tmp/burner
    for i in $(seq "$n"); do
        # shellcheck disable=SC2016 # for the burner's shell
        "${@:-env}" /tmp/burner -c 'kill -STOP $$; while :; do :; done' &
        BURNERS+=($!)
    done
}
# ready: all burners have started and wait; gate: they begin
ready() {
    local p
    for p in "${BURNERS[@]}"; do
        for _ in $(seq 200); do
            grep -q '^State:.T' "/proc/$p/status" && break
            sleep 0.05
        done
    done
}
gate() {
    ready
    kill -CONT "${BURNERS[@]}"
}
end_burners() {
    kill "${BURNERS[@]}"
    wait "${BURNERS[@]}" 2>/dev/null
    BURNERS=()
}

# workers N [SECONDS]: N processes named `worker` that sleep; pids in the array WORKERS
workers() {
    local i
    [ -e /tmp/worker ] || cp /bin/sleep /tmp/worker
    for i in $(seq "$1"); do
        /tmp/worker "${2:-1000}" &
        WORKERS+=($!)
    done
}

# clients FIRST LAST [OPTIONS]: one closed-loop client for each of these servers, until end_clients
clients() {
    local i first=$1 last=$2
    shift 2
    for i in $(seq "$first" "$last"); do
        valkey-benchmark -p $((7000 + i)) -c 4 -n 100000000 -t set -q "$@" >/dev/null 2>&1 &
        CLIENTS+=($!)
    done
}
end_clients() {
    kill "${CLIENTS[@]}"
    wait "${CLIENTS[@]}" 2>/dev/null
    CLIENTS=()
}
end_servers() {
    kill "${SERVERS[@]}"
    wait "${SERVERS[@]}" 2>/dev/null
    SERVERS=()
}
# served FIRST LAST: commands that these servers have processed so far
served() {
    local i
    for i in $(seq "$1" "$2"); do valkey-cli -p $((7000 + i)) info stats; done |
        awk -F: '/^total_commands_processed/ {s += $2} END {printf "%d\n", s}'
}
# rate FIRST LAST SECONDS: their requests per second, all together
rate() {
    local c0 c1 t0 t1
    c0=$(served "$1" "$2") t0=${EPOCHREALTIME/./}
    sleep "$3"
    c1=$(served "$1" "$2") t1=${EPOCHREALTIME/./}
    echo $(((c1 - c0) * 1000000 / (t1 - t0)))
}

# placed: "PID CPU" of every instance that has a home, as the log tells it up to now
placed() {
    awk '{sub(/^\[ *[0-9.]+\] /, "")}
        $1 == "adopted" || $1 == "moved" {
            pid = $3; sub(/:$/, "", pid)
            match($0, /.*CPU [0-9]+/); s = substr($0, 1, RLENGTH); n = split(s, w, " ")
            cpu[pid] = w[n]
        }
        $1 == "left" {pid = $3; sub(/:$/, "", pid); delete cpu[pid]}
        END {for (p in cpu) print p, cpu[p]}' "$LOG" | sort -n
}
# unevenness CPUS: homes in the fullest minus homes in the emptiest group of CPUS consecutive CPUs
unevenness() {
    placed | awk -v n="$1" -v cpus="$(nproc)" '{k[int($2 / n)]++}
        END {min = 1e9; for (g = 0; g < cpus / n; g++) {if (k[g] > max) max = k[g]; if (k[g] + 0 < min) min = k[g] + 0}; print max - min}'
}

# masks: "TID MASK" of every task; kept FILE: of the tasks in FILE that still live, how many have another mask now
masks() { grep -H ^Cpus_allowed_list: /proc/[0-9]*/task/*/status 2>/dev/null | sed -E 's|/proc/.*/task/([0-9]+)/.*:\s*|\1 |' | sort; }
changed_masks() { masks | join "$1" - | awk '$2 != $3 {k++} END {print k + 0}'; }

dispatcher() { pgrep -P "$SCHED_PID" scx_sd_dispatch; }
# within SECONDS COMMAND...: waits for it to hold
within() {
    local end=$((${EPOCHREALTIME/./} + $1 * 1000000))
    shift
    until "$@"; do
        [ "${EPOCHREALTIME/./}" -lt $end ] || return 1
        sleep 0.05
    done
}
# at_least A B, at_most A B: numbers with a point
at_least() { awk -v a="$1" -v b="$2" 'BEGIN {exit !(a >= b)}'; }
at_most() { awk -v a="$1" -v b="$2" 'BEGIN {exit !(a <= b)}'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN {if (b > 0) printf "%.2f\n", a / b; else print "inf"}'; }
