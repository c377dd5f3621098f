#!/bin/bash
# shellcheck disable=SC2016,SC2086,SC2119,SC2317 # numbers need no quotes; functions are called by check
# Machine 8. Four servers and four clients keep their homes, one an LLC; two patterns at once; a restarted instance
# takes the home that became free; nobody's affinity mask changes.
# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
seconds=${SHORT:+10}
seconds=${seconds:-60}

masks >/tmp/masks
start -P valkey-server -P 'work*'
servers 1 4
clients 1 4
sleep 5
trace_migrations
sleep "$seconds"
end_trace
n=$(moves valkey-server 1)
check "no server migrates after the first 5 s: $n migrations in $seconds s" same "$n" 0
seen=$(grep -c sched_migrate_task: $T/trace)
check "(the trace saw $seen migrations of others)" [ "$seen" -gt 0 ]
homes=$(placed)
say "        homes: $(cut -d' ' -f2 <<<"$homes" | paste -sd' ')"
n=$(awk -v n="$NODE_CPUS" '$2 < n {k++} END {print k + 0}' <<<"$homes")
check "two of the four servers in each node: $n in the first" same "$n" 2
n=$(awk -v n="$LLC_CPUS" '{print int($2 / n)}' <<<"$homes" | sort -u | wc -l)
check "all in different LLCs: $n" same "$n" 4
away=0
for pid in "${SERVERS[@]}"; do
    cpu=$(sed 's/.*) //' "/proc/$pid/stat" | cut -d' ' -f37)
    grep -qx "$pid $cpu" <<<"$homes" || away=$((away + 1))
done
check "each server last ran at its home: $away did not" same "$away" 0
end_clients

workers 4
sleep 1
n=$(grep -c 'adopted worker .*(-P work\*)' "$LOG")
check "a second pattern at once: $n of 4 workers adopted" same "$n" 4
n=$(unevenness "$NODE_CPUS")
check "even over the nodes: $n apart" [ "$n" -le 1 ]
n=$(unevenness "$LLC_CPUS")
check "even over the LLCs: $n apart" [ "$n" -le 1 ]
n=$(placed | cut -d' ' -f2 | sort -u | wc -l)
check "eight instances have eight homes: $n" same "$n" 8

victim=${SERVERS[3]}
free=$(placed | awk -v p="$victim" '$1 == p {print $2}')
placed | grep -v "^$victim " >/tmp/others
kill "$victim"
wait "$victim" 2>/dev/null
sleep 0.5
servers 3 3
sleep 0.5
now=$(placed | awk -v p="${SERVERS[3]}" '$1 == p {print $2}')
check "a restarted server takes the free home: CPU $free, now CPU $now" same "$free" "$now"
n=$(placed | grep -v "^${SERVERS[3]} " | diff - /tmp/others | grep -c '^<')
check "the seven others stay: $n moved" same "$n" 0

n=$(changed_masks /tmp/masks)
check "no mask of $(wc -l </tmp/masks) tasks changed: $n" same "$n" 0
stop
check "ends with exit code 0: $code" same "$code" 0
n=$(changed_masks /tmp/masks)
check "nor at the end: $n" same "$n" 0
[ $failed = 0 ] || tail -60 "$LOG"
exit $failed
