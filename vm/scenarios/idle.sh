#!/bin/bash
# shellcheck disable=SC2016,SC2086,SC2119,SC2317 # numbers need no quotes; functions are called by check
# How often the scheduler wakes while the machine has nothing to do. Reported, not judged: other tasks' wake-ups count.
# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
seconds=${SHORT:+10}
seconds=${seconds:-20}

start -P valkey-server
servers 1 4
tid=$(dispatcher)
sleep 3
ticks() { sed 's/.*) //' "/proc/$tid/stat" | awk '{print $12 + $13}'; }
echo "hist:keys=next_pid" >$T/events/sched/sched_switch/trigger
t=$(ticks)
sleep "$seconds"
hist=$(grep hitcount $T/events/sched/sched_switch/hist)
t=$(($(ticks) - t))
echo "!hist:keys=next_pid" >$T/events/sched/sched_switch/trigger
ours=$(awk -v t="$tid" '$3 == t {print $6}' <<<"$hist")
others=$(awk -v t="$tid" '$3 != t && $3 != 0 {s += $6} END {print s + 0}' <<<"$hist")
say "        idle for $seconds s: $((${ours:-0} * 10 / seconds))e-1 wake-ups of the scheduler per second, $((others / seconds)) of all other tasks, $((t * 10)) ms of CPU"
stop
check "ends with exit code 0: $code" same "$code" 0
[ $failed = 0 ] || tail -40 "$LOG"
exit $failed
