#!/bin/bash
# For vm/compare. Wake-up latency of a 10 ms periodic task beside 0, 2 and 8 CPU burners, then ping-pong and messaging.
# On 2 CPUs: time is only meaningful there.
# Environment: SCHED = scheduler command line ("" = kernel default), LOOPS = periods of the task.
# Needs: cyclictest (rt-tests), stress-ng, perf.
LOOPS=${LOOPS:-900} P=''
state() { cat /sys/kernel/sched_ext/state; }
if [ -n "$SCHED" ]; then
    $SCHED >/tmp/log 2>&1 &
    P=$!
    for _ in $(seq 1 20); do [ "$(state)" = enabled ] && break; sleep 1; done
fi
echo "scheduler: ${SCHED:-kernel default} kernel: $(uname -r) state: $(state)"
for h in 0 2 8; do
    S=''
    if [ $h != 0 ]; then
        stress-ng --cpu $h -t $((LOOPS / 100 + 4)) >/dev/null 2>&1 &
        S=$!
        sleep 1
    fi
    cyclictest -q -t 2 -i 10000 -l "$LOOPS" -h 60000 --policy other 2>/dev/null >/tmp/c
    awk -v h=$h '/^[0-9]/ {c += $2 + $3; n++; v[n] = $1; k[n] = c}
        /^# Histogram Overflows:/ {for (i = 4; i <= NF; i++) over += $i}
        END {
            for (i = 1; i <= n; i++) {if (!q && k[i] >= 0.5 * c) q = v[i]; if (!m && k[i] >= 0.99 * c) m = v[i]}
            print "burners " h ": p50 " q + 0 " us, p99 " m + 0 " us, over 60 ms and not counted " over + 0
        }' /tmp/c
    [ -z "$S" ] || wait "$S"
done
timeout 60 perf bench sched pipe -l 20000 2>&1 | grep -E "usecs/op"
timeout 60 perf bench sched messaging -p -t -l 400 -g 1 2>&1 | grep "Total time"
echo "state at the end: $(state)"
if [ -n "$P" ]; then
    kill -INT "$P"
    wait "$P"
    echo "scheduler exit code $?"
    tail -5 /tmp/log
fi
exit 0
