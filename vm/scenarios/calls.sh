#!/bin/bash
# shellcheck disable=SC2016,SC2086,SC2119,SC2317 # numbers need no quotes; functions are called by check
# Machine 8. What the thread that dispatches asks of the kernel under load: a few system calls, and no page.
# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
seconds=${SHORT:+20}
seconds=${seconds:-60}

faults() { cut -d' ' -f10,12 "/proc/$1/task/$1/stat"; }
start -P valkey-server
tid=$(dispatcher)
before=$(faults "$tid")
servers 1 4
clients 1 4
burners 2
gate
sleep 2
# Counted in the kernel: exact, whatever the number.
events=$T/events/raw_syscalls/sys_enter
echo "hist:keys=id.syscall if common_pid == $tid" >$events/trigger
sleep "$seconds"
hist=$(grep hitcount $events/hist)
echo "!hist:keys=id.syscall if common_pid == $tid" >$events/trigger
calls=$(sed -nE 's/.*id: (sys_)?([a-z0-9_]+) .*hitcount: +([0-9]+).*/\2 \3/p' <<<"$hist" | sort)
n=$(awk '{s += $2} END {print s + 0}' <<<"$calls")
say "        $(awk '{printf "%s %d  ", $1, $2}' <<<"$calls")"
check "system calls were counted: $n in $seconds s" [ "$n" -gt 0 ]
others=$(grep -vE '^(epoll_wait|bpf|sched_yield|clock_nanosleep|sched_getaffinity|sched_setscheduler) ' <<<"$calls" | paste -sd,)
check "none but those on the list: ${others:-none}" [ -z "$others" ]
after=$(faults "$tid")
check "no page faults since the loop began: $before, now $after" same "$before" "$after"
end_clients
end_burners
stop
check "ends with exit code 0: $code" same "$code" 0
check "the summary says the same" grep -q ' 0 minor and 0 major page faults' "$LOG"
[ $failed = 0 ] || { say "$hist"; tail -40 "$LOG"; }
exit $failed
