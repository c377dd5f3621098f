#!/bin/bash
# shellcheck disable=SC2086,SC2119 # numbers need no quotes
# Machine 8, every kernel. Real-time tasks that never sleep, longer than the watchdog waits (5 s). What they can't do: keep a
# task bound to their CPU from running, keep a task that was in that CPU's queue already, stop the scheduler.
# Environment: BIN.
# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
D=${SHORT:+7}
D=${D:-12}

# worst CPU [N]: a task bound to CPU notes the longest time that it could not run, ms, while hogs run on N CPUs from CPU on
# for D s.
worst() {
    python3 - "$1" "${2:-1}" "$D" <<'PY'
import os, sys, time

first, hogs, seconds = (int(a) for a in sys.argv[1:])
end = time.monotonic() + seconds
children = []
for cpu in range(first, first + hogs):
    pid = os.fork()
    if pid == 0:
        os.sched_setaffinity(0, {cpu})
        time.sleep(1)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
        while time.monotonic() < end:
            pass
        os._exit(0)
    children.append(pid)
os.sched_setaffinity(0, {first})
gap, last = 0, time.monotonic()
while last < end - 0.2:
    now = time.monotonic()
    gap, last = max(gap, now - last), now
for pid in children:
    os.waitpid(pid, 0)
print(int(gap * 1000))
PY
}

lifted() { ps -eLo cls,pid,comm | awk '$1 == "FF" && $3 ~ /kworker|kcompactd|python|valkey|burner/' | wc -l; }

echo "real time begins" >/dev/kmsg
start
masks >/tmp/masks
n=$(worst 7)
check "one hog for $D s: a task bound to its CPU waited $n ms at most" at_most $n 1500
check "the scheduler goes on: $(state)" same "$(state)" enabled
servers 1 4
clients 1 4
n=$(worst 4 4)
end_clients
check "hogs on 4 of 8 CPUs beside a service: $n ms at most" at_most $n 2500
check "the scheduler goes on: $(state)" same "$(state)" enabled
# It was a bash that changes others' classes and forks for it: what it waits for is a kernel thread of a hog's CPU.
burners 4
gate
end=$((SECONDS + D)) k=0
while [ $SECONDS -lt $end ]; do
    for p in "${BURNERS[@]}"; do chrt --fifo -p $((RANDOM % 3 + 1)) "$p" && k=$((k + 1)); done
    for p in "${BURNERS[@]}"; do chrt --other -p 0 "$p" && k=$((k + 1)); done
done
end_burners
check "classes changed $k times by processes of their own: $(state)" same "$(state)" enabled
sleep 2 # those that sleep stay so until their CPU has been free for a second
check "nobody is left a real-time task: $(lifted)" same "$(lifted)" 0
check "no affinity mask changed: $(changed_masks /tmp/masks)" same "$(changed_masks /tmp/masks)" 0
stop
check "ends with exit code 0: $code" same "$code" 0
grep -E 'real.time' "$LOG" | tail -5
n=$(dmesg | sed '1,/real time begins/d' | grep -cE 'BUG|Oops|sched_ext:.*(error|stall|abort)')
check "the kernel complained of nothing: $n lines" same "$n" 0
start
taskset -c 7 python3 -c 'while True: __import__("time").sleep(0.05)' &
sleeper=$!
D=100 worst 7 >/dev/null &
two() { [ "$(lifted)" -ge 2 ]; } # one of them is the hog
check "in the middle of it a task is lifted" within 60 two
kill -9 "$(dispatcher)"
wait "$SCHED_PID"
kill $sleeper
pkill -9 python3
wait $sleeper 2>/dev/null
check "after kill -9 of the dispatcher nobody is left a real-time task: $(lifted)" same "$(lifted)" 0
[ $failed = 0 ] || { tail -20 "$LOG"; dmesg | tail -40; }
exit $failed
