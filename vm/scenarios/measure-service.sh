#!/bin/bash
# For vm/compare. N service instances, one closed-loop load client each; counts what the kernel really migrated.
# Environment: SCHED = scheduler command line ("" = kernel default), N = instances, REQ = requests per client,
#              LLC_CPUS / NODE_CPUS = CPUs per LLC / per node (consecutive numbering), CONNS, PIPELINE, SETTLE = seconds
#              from the clients' start to that of counting, CLIENT_CPUS = fixed: client i runs on CPU (i - 1) % CPUs.
# Needs: valkey-server, valkey-benchmark, the scheduler; tracefs at /sys/kernel/tracing.
N=${N:-8} REQ=${REQ:-$((48000 / ${N:-8}))} LLC_CPUS=${LLC_CPUS:-4} NODE_CPUS=${NODE_CPUS:-4} CONNS=${CONNS:-4} PIPELINE=${PIPELINE:-1}
P='' S=() B=() CPUS=$(nproc)
state() { cat /sys/kernel/sched_ext/state; }
if [ -n "$SCHED" ]; then
    $SCHED >/tmp/log 2>&1 &
    P=$!
    for _ in $(seq 1 20); do [ "$(state)" = enabled ] && break; sleep 1; done
fi
echo "scheduler: ${SCHED:-kernel default} kernel: $(uname -r) state: $(state)"
for i in $(seq 1 "$N"); do
    valkey-server --port $((7000 + i)) --save "" --daemonize no --loglevel warning >"/tmp/v$i.log" 2>&1 &
    S+=($!)
done
sleep 4
T=/sys/kernel/tracing
echo 0 >$T/tracing_on
echo 32768 >$T/buffer_size_kb
echo >$T/trace # another run's, in the same boot
echo 1 >$T/events/sched/sched_migrate_task/enable
for i in $(seq 1 "$N"); do
    fixed=()
    [ "$CLIENT_CPUS" != fixed ] || fixed=(taskset -c $(((i - 1) % CPUS)))
    "${fixed[@]}" valkey-benchmark -p $((7000 + i)) -c "$CONNS" -n "$REQ" -t set -P "$PIPELINE" --csv >"/tmp/b$i.csv" 2>&1 &
    B+=($!)
done
sleep "${SETTLE:-3}"
echo 1 >$T/tracing_on
t0=$(cut -d' ' -f1 /proc/uptime)
wait "${B[@]}"
echo 0 >$T/tracing_on
t1=$(cut -d' ' -f1 /proc/uptime)
echo 0 >$T/events/sched/sched_migrate_task/enable
echo "traced $t0 .. $t1"
grep -h SET /tmp/b*.csv | tr -d '"' | awk -F, '{p50[NR] = $5; p99[NR] = $7; s += $2}
    END {
        print "requests/s total " s " mean " s / NR
        for (i = 1; i <= NR; i++) {a += p50[i]; b += p99[i]}
        print "p50 mean " a / NR " ms, p99 mean " b / NR " ms"
    }'
echo "migrations: servers $(grep -c 'comm=valkey-server' $T/trace) clients $(grep -c 'comm=valkey-bench' $T/trace) all $(grep -c sched_migrate $T/trace)"
grep 'comm=valkey-server' $T/trace | sed -e 's/.*orig_cpu=\([0-9]*\) dest_cpu=\([0-9]*\).*/\1 \2/' |
    awk -v l="$LLC_CPUS" -v n="$NODE_CPUS" '{if (int($1 / l) != int($2 / l)) x++; if (int($1 / n) != int($2 / n)) y++}
        END {print "server moves across LLC " x + 0 " across node " y + 0}'
printf 'servers last ran on CPU:'
for s in "${S[@]}"; do sed 's/.*) //' "/proc/$s/stat" | awk '{printf " %s", $37}'; done
echo
for s in "${S[@]}"; do kill "$s"; done
if [ -n "$P" ]; then
    echo "state at the end: $(state)"
    kill -INT "$P"
    wait "$P"
    echo "scheduler exit code $?"
    tail -30 /tmp/log
fi
exit 0
