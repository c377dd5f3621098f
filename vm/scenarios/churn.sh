#!/bin/bash
# shellcheck disable=SC2016,SC2086,SC2119,SC2317 # numbers need no quotes; functions are called by check
# Machine 8. Short-lived instances in waves of 20: no home leaks, and the spread is even one second after every change.
# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
waves=${SHORT:+3}
waves=${waves:-15}

start -v -P worker # every home, also where many change at once
worst_node=0 worst_llc=0
even() { # one second after the last change
    local n
    sleep 1
    n=$(unevenness "$NODE_CPUS")
    [ "$n" -le $worst_node ] || worst_node=$n
    n=$(unevenness "$LLC_CPUS")
    [ "$n" -le $worst_llc ] || worst_llc=$n
}
for wave in $(seq "$waves"); do
    WORKERS=()
    workers 5 0.05
    workers 15
    even
    # Whichever nine the wave's number picks: some LLCs lose more than others.
    doomed=()
    for i in $(seq 9); do doomed+=("${WORKERS[5 + (wave * 7 + i * (wave % 2 + 1)) % 15]}"); done
    kill "${doomed[@]}" 2>/dev/null
    even
    kill "${WORKERS[@]:5}" 2>/dev/null
    wait "${WORKERS[@]}" 2>/dev/null
done
sleep 1
check "even over the nodes, 1 s after each change: $worst_node apart at worst" [ "$worst_node" -le 1 ]
check "even over the LLCs: $worst_llc apart at worst" [ "$worst_llc" -le 1 ]
n=$(placed | wc -l)
check "no home is taken at the end: $n" same "$n" 0
stop
check "ends with exit code 0: $code" same "$code" 0
read -r given freed < <(sed -nE 's/.* ([0-9]+) given, ([0-9]+) freed.*/\1 \2/p' "$LOG")
check "all $((waves * 20)) instances were given a home: $given" same "$given" $((waves * 20))
check "and all homes were freed: $freed" same "$given" "$freed"
check "the placement at the end is empty" [ "$(grep -c 'placement at the end' "$LOG")" = 0 ]
[ $failed = 0 ] || tail -80 "$LOG"
exit $failed
