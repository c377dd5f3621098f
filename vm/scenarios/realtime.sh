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
check "no affinity mask changed: $(changed_masks /tmp/masks)" same "$(changed_masks /tmp/masks)" 0
stop
check "ends with exit code 0: $code" same "$code" 0
grep -E 'real.time' "$LOG" | tail -5
n=$(dmesg | sed '1,/real time begins/d' | grep -cE 'BUG|Oops|sched_ext:.*(error|stall|abort)')
check "the kernel complained of nothing: $n lines" same "$n" 0
# Killed in the moment when the hog rests.
start
D=60 worst 7 >/dev/null &
n=$(DISPATCHER=$(dispatcher) timeout 60 python3 - <<'PY'
import os, signal, time

def find():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if open(f"/proc/{pid}/comm").read() == "python3\n" and os.sched_getscheduler(int(pid)) == os.SCHED_FIFO:
                return int(pid)
        except (OSError, ProcessLookupError):
            pass

while not (hog := find()):
    time.sleep(0.1)
while os.sched_getscheduler(hog) == os.SCHED_FIFO:
    pass
os.kill(int(os.environ["DISPATCHER"]), signal.SIGKILL)
time.sleep(3)
print(os.sched_getscheduler(hog), os.sched_getparam(hog).sched_priority)
PY
)
check "kill -9 of the dispatcher while the hog rests: it is a real-time task again: $n" same "$n" "1 50"
pkill -9 python3
wait "$SCHED_PID"
[ $failed = 0 ] || { tail -20 "$LOG"; dmesg | tail -40; }
exit $failed
