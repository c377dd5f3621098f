#!/bin/bash
# shellcheck disable=SC2016,SC2086,SC2119,SC2317 # numbers need no quotes; functions are called by check
# Machine 8. Ends of every kind in the middle of load: kill -9 of either process, CPU hotplug, attaching and detaching
# again and again. (errors.sh has the texts and exit codes.)
# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
# shellcheck source=left.sh
. "${0%/*}/left.sh"
cycles=${SHORT:+3}
cycles=${cycles:-50}
# homes_before N: the placement when the scheduler ended for the Nth time
homes_before() {
    awk -v n="$1" '/ restarting: / && ++k == n {exit} {print}' "$LOG" >/tmp/until.log
    LOG=/tmp/until.log placed
}

servers 1 2
clients 1 2
burners 2
gate
look_before

say "-- kill -9 of the dispatcher"
start -P valkey-server
sleep 1
kill -9 "$(dispatcher)"
reported() { ! kill -0 "$SCHED_PID" 2>/dev/null; }
check "the host notices within 10 s" within 10 reported
reported || { kill -9 "$SCHED_PID"; cat "$LOG"; }
wait "$SCHED_PID"
code=$?
check "it reports: exit code $code" same "$code" 1
# Its other threads must not wait for it: the machine would stand still until the watchdog acts.
why=$(dmesg | sed -n 's/.*sched_ext: BPF scheduler .* disabled (\(.*\))/\1/p' | tail -1)
check "by the kernel's own clean-up: $why" same "$why" "unregistered from user space"
clean "killed dispatcher"

say "-- kill -9 of the host"
start -P valkey-server
sleep 1
kill -9 "$SCHED_PID"
wait "$SCHED_PID" 2>/dev/null
clean "killed host"

say "-- a CPU goes and comes"
start -P valkey-server
sleep 2
last=$(($(nproc) - 1))
echo 0 >/sys/devices/system/cpu/cpu$last/online
check "a CPU goes: it restarts" within 30 runs 2
sleep 1
# As they were when it ended: load may have moved one since.
homes_before 1 >/tmp/homes.log
n=$(awk -v c="$last" '$2 != c' /tmp/homes.log | while read -r pid cpu; do
    grep -E "adopted .* $pid .*home CPU" "$LOG" | tail -1 | grep -q "home CPU $cpu " || echo "$pid"
done | wc -l)
check "homes on the other CPUs were kept: $n were not" same "$n" 0
echo 1 >/sys/devices/system/cpu/cpu$last/online
check "it comes back: it restarts" within 30 runs 3
sleep 1
homes_before 2 >/tmp/homes2.log
n=$(while read -r pid cpu; do
    grep -E "adopted .* $pid .*home CPU" "$LOG" | tail -1 | grep -q "home CPU $cpu " || echo "$pid"
done </tmp/homes2.log | wc -l)
check "all homes were kept: $n were not" same "$n" 0
stop
check "ends with exit code 0: $code" same "$code" 0
[ $failed = 0 ] || tail -80 "$LOG"

say "-- $cycles times: attach, detach"
slowest=0
for _ in $(seq "$cycles"); do
    start -P valkey-server
    t=${EPOCHREALTIME/./}
    kill -INT "$SCHED_PID"
    within 5 detached
    t=$(((${EPOCHREALTIME/./} - t) / 1000))
    [ $t -le $slowest ] || slowest=$t
    wait "$SCHED_PID"
    code=$?
    [ $code = 0 ] || check "ends with exit code 0: $code" same "$code" 0
done
check "detached within a second: $slowest ms at most" [ $slowest -lt 1000 ]
clean "cycles"
exit $failed
