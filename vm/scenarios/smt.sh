#!/bin/bash
# shellcheck disable=SC2016,SC2086,SC2119,SC2317 # numbers need no quotes; functions are called by check
# Machine 8smt. Four instances take four cores before any takes a sibling.
# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
start -P worker
workers 4
sleep 1
n=$(placed | wc -l)
check "four instances have homes: $n" same "$n" 4
n=$(placed | while read -r _ cpu; do cat "/sys/devices/system/cpu/cpu$cpu/topology/thread_siblings_list"; done | sort -u | wc -l)
check "on four different cores: $n" same "$n" 4
check "two in each LLC: $(unevenness "$LLC_CPUS") apart" same "$(unevenness "$LLC_CPUS")" 0
workers 4
sleep 1
n=$(placed | cut -d' ' -f2 | sort -u | wc -l)
check "eight on eight CPUs: $n" same "$n" 8
stop
check "ends with exit code 0: $code" same "$code" 0
[ $failed = 0 ] || cat "$LOG"
exit $failed
