#!/bin/bash
# The main job: N valkey servers, one closed-loop client each, first under the kernel's default scheduler, then under
# ours; the two side by side, and where the instances ended.
# Environment: BIN, N (8), REQUESTS per client (5000), LLC_CPUS, NODE_CPUS (set by vm/run).
. "${0%/*}/lib.sh"
N=${N:-8} REQUESTS=${REQUESTS:-5000}

# load OUT: one run of all clients; "requests/s p50 p95 p99 moves llc node" into OUT
load() {
    local out=$1 pids=() i
    for i in $(seq "$N"); do
        valkey-benchmark -p $((7000 + i)) -c 4 -n "$REQUESTS" -t set --csv >"/tmp/client$i.csv" 2>&1 &
        pids+=($!)
    done
    sleep 3
    trace_migrations
    wait "${pids[@]}"
    end_trace
    # "test","rps","avg","min","p50","p95","p99","max"
    grep -h SET /tmp/client*.csv | tr -d '"' | awk -F, -v m="$(moves valkey-server 1)" -v l="$(moves valkey-server "$LLC_CPUS")" \
        -v n="$(moves valkey-server "$NODE_CPUS")" '{s += $2; a += $5; b += $6; c += $7}
        END {printf "%.0f %.2f %.2f %.2f %d %d %d\n", s, a / NR, b / NR, c / NR, m, l, n}' >"$out"
}
end_servers() {
    kill "${SERVERS[@]}"
    wait "${SERVERS[@]}" 2>/dev/null
}

say "$N valkey servers and $N clients on $(nproc) CPUs, kernel $(uname -r)"
say "1/2  the kernel's default scheduler"
servers 1 "$N"
load /tmp/default
end_servers

say "2/2  scx_soft_domain -P valkey-server"
say
start -P valkey-server
tail -n +1 -f "$LOG" --pid=$SCHED_PID &
servers 1 "$N"
load /tmp/ours
stop
sleep 0.2
[ "$code" = 0 ] || { say "the scheduler ended with exit code $code"; exit 1; }
end_servers

say
paste -d' ' /tmp/default /tmp/ours | awk '{
    printf "%-32s %14s %14s\n", "", "kernel default", "soft domains"
    printf "%-32s %14d %14d\n", "requests/s, all servers", $1, $8
    printf "%-32s %11.2f ms %11.2f ms\n", "latency p50, mean of the clients", $2, $9
    printf "%-32s %11.2f ms %11.2f ms\n", "        p95", $3, $10
    printf "%-32s %11.2f ms %11.2f ms\n", "        p99", $4, $11
    printf "%-32s %14d %14d\n", "server migrations", $5, $12
    printf "%-32s %14d %14d\n", "  across LLCs", $6, $13
    printf "%-32s %14d %14d\n", "  across nodes", $7, $14
}' | tee "${OUT:-/tmp}/fleet.txt"
