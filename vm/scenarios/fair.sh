#!/bin/bash
# shellcheck disable=SC2016,SC2086,SC2119,SC2317 # numbers need no quotes; functions are called by check
# Machines 8 and 8x1llc. Nine burners share eight CPUs, weights count, a shell stays usable, and nobody's kernel thread
# starves.
# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
seconds=${SHORT:+6}
seconds=${seconds:-15}
most=1.3
[ "$LLC_CPUS" = "$(nproc)" ] || most=1.6

ran() { local p; for p in "${BURNERS[@]}"; do cut -d' ' -f1 "/proc/$p/schedstat"; done; }
# How much of the time between two readings each CPU was not idle, in %: idle time by wall time. The kernel measures idle
# times, but counts busy ones by ticks, and an emulated CPU that the host holds up gets half of its ticks.
stat() { cut -d' ' -f1 /proc/uptime; grep -E '^cpu[0-9]' /proc/stat; }
busiest() {
    paste -d' ' "$1" "$2" | awk 'NR == 1 {ticks = 100 * ($2 - $1); next}
        {n = NF / 2; printf "%s%.1f", (NR == 2 ? "" : " "), 100 * (1 - ($(5 + n) - $5 + $(6 + n) - $6) / ticks)}
        END {print ""}'
}
# took COMMAND...: the median of 15 times, in us
took() {
    local t
    for _ in $(seq 15); do
        t=$EPOCHREALTIME
        "$@" >/dev/null
        echo $((${EPOCHREALTIME/./} - ${t/./}))
        sleep 0.05
    done | sort -n | sed -n 8p
}
# The longest time that a kernel thread of one CPU was runnable and did not run, in ms: "WAIT NAME" and the waits seen.
trace_kthreads() {
    echo 0 >$T/tracing_on
    echo mono >$T/trace_clock
    echo 16384 >$T/buffer_size_kb
    echo >$T/trace
    echo 'comm ~ "kworker/[0-9]*" || comm ~ "ksoftirqd/*"' >$T/events/sched/sched_wakeup/filter
    echo 'next_comm ~ "kworker/[0-9]*" || prev_comm ~ "kworker/[0-9]*" || next_comm ~ "ksoftirqd/*" || prev_comm ~ "ksoftirqd/*"' \
        >$T/events/sched/sched_switch/filter
    for e in sched_wakeup sched_switch; do echo 1 >$T/events/sched/$e/enable; done
    echo 1 >$T/tracing_on
}
longest_wait() {
    awk '!/sched_(wakeup|switch):/ {next}
        {match($0, / [0-9]+\.[0-9]+: /); t = substr($0, RSTART + 1, RLENGTH - 3) + 0; last = t}
        # A wake-up of one that still runs has no switch after it: the next event of that thread replaces it.
        /sched_wakeup:/ {match($0, / pid=[0-9]+/); p = substr($0, RSTART + 5, RLENGTH - 5); since[p] = t; next}
        {
            match($0, /prev_pid=[0-9]+/); p = substr($0, RSTART + 9, RLENGTH - 9)
            match($0, /prev_comm=.* prev_pid/); name[p] = substr($0, RSTART + 10, RLENGTH - 19)
            if (name[p] ~ /^(kworker\/[0-9]|ksoftirqd)/) {if ($0 ~ /prev_state=R/) since[p] = t; else delete since[p]}
            match($0, /next_pid=[0-9]+/); p = substr($0, RSTART + 9, RLENGTH - 9)
            if (p in since) {
                match($0, /next_comm=.* next_pid/); n = substr($0, RSTART + 10, RLENGTH - 19)
                waits++; if (t - since[p] > worst) {worst = t - since[p]; who = n}
                delete since[p]
            }
        }
        END {
            for (p in since) if (last - since[p] > worst) {worst = last - since[p]; who = name[p] " (still waits)"}
            printf "%.1f %d %s\n", worst * 1000, waits, who
        }' $T/trace
}
crowd() { # the load beside which a shell is used
    servers 1 2
    clients 1 2
    burners 9
    gate
}

start -P valkey-server
say "-- nine burners on $(nproc) CPUs for $seconds s, most unequal allowed: $most"
burners 9
gate
sleep 2
ran >/tmp/ran0
stat >/tmp/stat0
sleep "$seconds"
stat >/tmp/stat1
ran >/tmp/ran1
end_burners
busy=$(busiest /tmp/stat0 /tmp/stat1)
n=$(tr ' ' '\n' <<<"$busy" | sort -n | head -1)
check "every CPU is busy over 95%: $busy" at_least "$n" 95
shares=$(paste /tmp/ran0 /tmp/ran1 | awk '{printf "%.0f\n", ($2 - $1) / 1e6}' | sort -n)
n=$(ratio "$(tail -1 <<<"$shares")" "$(head -1 <<<"$shares")")
check "largest share by smallest: $n ($(paste -sd' ' <<<"$shares") ms)" at_most "$n" "$most"

say "-- nice 0 and nice 10 on CPU 3"
burners 1 taskset -c 3
burners 1 taskset -c 3 nice -n 10
gate
sleep 1
ran >/tmp/ran0
sleep "$seconds"
ran >/tmp/ran1
end_burners
n=$(paste /tmp/ran0 /tmp/ran1 | awk '{d[NR] = $2 - $1} END {printf "%.2f\n", d[1] / d[2]}')
check "run times within 25% of 1024:110, that is 6.98 to 11.64: $n" eval 'at_least "$n" 6.98 && at_most "$n" 11.64'
say "-- a shell beside nine burners and a fleet"
crowd
sleep 2
ls_ours=$(took ls /) sh_ours=$(took sh -c true)
trace_kthreads
sleep 5
echo 0 >$T/tracing_on
for e in sched_wakeup sched_switch; do echo 0 >$T/events/sched/$e/enable; done
stop
check "ends with exit code 0: $code" same "$code" 0
sleep 2
ls_default=$(took ls /) sh_default=$(took sh -c true)
end_clients
end_servers
end_burners
n=$(ratio "$ls_ours" "$ls_default")
check "ls takes at most 3 times its time under the default: $n ($ls_default us, $ls_ours us)" at_most "$n" 3
n=$(ratio "$sh_ours" "$sh_default")
check "sh -c true too: $n ($sh_default us, $sh_ours us)" at_most "$n" 3
read -r wait waits who < <(longest_wait)
check "no kernel thread of one CPU waits 100 ms: $wait ms at most ($who), of $waits waits in 5 s" at_most "$wait" 100
check "(such waits were seen: $waits)" [ "${waits:-0}" -gt 0 ]
[ $failed = 0 ] || tail -40 "$LOG"
exit $failed
