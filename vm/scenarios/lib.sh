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
