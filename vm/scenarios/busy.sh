#!/bin/bash
# shellcheck disable=SC2016,SC2086,SC2119,SC2317 # numbers need no quotes; functions are called by check
# Machine 8. A server for each CPU and as many clients: fleet.sh, and what must hold of its figures.
# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
export LOG=/tmp/scheduler.log
export REQUESTS=${SHORT:+2000}
export REQUESTS=${REQUESTS:-5000}

bash "${0%/*}/fleet.sh" >/tmp/fleet.log 2>&1
check "the fleet ran: exit code $?" same $? 0
file=${OUT:-/tmp}/fleet.txt
cat "$file"
row() { awk -v name="$1" 'index($0, name) == 1 {print $(NF - 1), $NF}' "$file"; }
n=$(grep -oE 'adopted valkey-server .* home CPU [0-9]+' "$LOG" | grep -oE '[0-9]+$' | sort -u | wc -l)
check "eight servers are given eight homes: $n" same "$n" 8
n=$(placed | cut -d' ' -f2 | sort -u | wc -l)
check "and have as many at the end of the load: $n" same "$n" 8
read -r default ours < <(row "server migrations")
check "fewer server migrations than under the default: $ours, $default" [ "${ours:-0}" -lt "${default:-0}" ]
read -r default ours < <(row "  across LLCs")
check "none across LLCs: $ours (default $default)" same "$ours" 0
[ $failed = 0 ] || cat /tmp/fleet.log
exit $failed
