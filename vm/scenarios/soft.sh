#!/bin/bash
# shellcheck disable=SC2016,SC2086,SC2119,SC2317 # numbers need no quotes; functions are called by check
# Machine 8. Homes yield: to one burner on a home CPU by moving inside the LLC, to burners on a whole LLC by leaving it
# until they end; the service goes on meanwhile.
# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
seconds=${SHORT:+4}
seconds=${seconds:-10}

# The trace has the clock of the log but another zero: an instance is adopted just after its exec.
begin_trace() {
    echo 0 >$T/tracing_on
    echo mono >$T/trace_clock
    echo 16384 >$T/buffer_size_kb
    echo 'prev_comm == "burner" || next_comm == "burner"' >$T/events/sched/sched_switch/filter
    echo 1 >$T/events/sched/sched_process_exec/enable
    echo 1 >$T/events/sched/sched_switch/enable
    echo 1 >$T/tracing_on
}
# zero_of_log: what to add to a time of the log to get the trace's
zero_of_log() {
    local i
    for i in "${!SERVERS[@]}"; do
        exec_at=$(sed -nE "s/.* ([0-9.]+): sched_process_exec: .* pid=${SERVERS[$i]} .*/\1/p" $T/trace)
        adopted=$(sed -nE "s/^\[ *([0-9.]+)\] adopted valkey-server ${SERVERS[$i]} .*/\1/p" "$LOG")
        echo "$exec_at $adopted"
    done | awk 'NF == 2 {d = $1 - $2; if (!n++ || d > most) most = d} END {printf "%.6f\n", most}'
}
# moved PID [WORDS]: the first move of PID (that has these WORDS) since $opened, as the log has it
moved() {
    awk -v opened="$opened" -v zero="$zero" -v who="$1:" -v words="${2:-}" \
        '{t = $0; gsub(/^\[ *|\].*/, "", t); sub(/^\[ *[0-9.]+\] /, "")}
        $1 == "moved" && $3 == who && t + zero >= opened && index($0, words) {printf "[%s] %s\n", t, $0; exit}' "$LOG"
}
time_of() { sed -nE 's/^\[ *([0-9.]+)\].*/\1/p' <<<"$1" | awk -v z="$zero" '{printf "%.6f\n", $1 + z}'; }
# ran_until TIME: ms that burners have run by then; taken_at: when the last of the burners ran for the first time
ran_until() {
    awk -v until="$1" '/sched_switch:/ {
        match($0, / [0-9]+\.[0-9]+: /); t = substr($0, RSTART + 1, RLENGTH - 3) + 0
        if (t < opened) next
        if (t > until) exit
        match($0, /\[[0-9]+\]/); cpu = substr($0, RSTART, RLENGTH)
        if ($0 ~ /prev_comm=burner/ && cpu in since) {sum += t - since[cpu]; delete since[cpu]}
        if ($0 ~ /next_comm=burner/) since[cpu] = t
    }
    END {for (c in since) sum += until - since[c]; printf "%.1f\n", sum * 1000}' opened="$opened" $T/trace
}
taken_at() {
    awk -v opened="$opened" '/sched_switch:.*next_comm=burner/ {
        match($0, / [0-9]+\.[0-9]+: /); t = substr($0, RSTART + 1, RLENGTH - 3) + 0
        match($0, /\[[0-9]+\]/); cpu = substr($0, RSTART, RLENGTH)
        if (t >= opened && !(cpu in first)) {first[cpu] = t; if (t > last) last = t}
    }
    END {printf "%.6f\n", last}' $T/trace
}
monotonic() { awk '$1 == "now" {print $3 / 1e9; exit}' <(sed -nE 's/^now at ([0-9]+) nsecs/now at \1/p' /proc/timer_list); }

start -P valkey-server
begin_trace
servers 1 2
clients 1 2
sleep 4
zero=$(zero_of_log)
say "-- a burner on a home"
# The emulated CPUs share the host's few: a burner costs everybody something, so compare with one that is in nobody's way.
away=$(($(placed | awk -v n="$LLC_CPUS" -v cpus="$(nproc)" '{k[int($2 / n)] = 1} END {for (l = 0; l < cpus / n; l++) if (!k[l]) {print l; exit}}') * LLC_CPUS))
burners 1 taskset -c "$away"
gate
elsewhere=$(rate 1 1 "$seconds")
end_burners
pid=${SERVERS[1]}
cpu=$(placed | awk -v p="$pid" '$1 == p {print $2}')
burners 1 taskset -c "$cpu"
ready
sleep 1
# Its own start may have moved the home.
cpu=$(placed | awk -v p="$pid" '$1 == p {print $2}')
taskset -cp "$cpu" "${BURNERS[0]}" >/dev/null
opened=$(monotonic)
gate
beside=$(rate 1 1 "$seconds")
sleep 1
line=$(moved "$pid")
end_burners
say "        $line"
now=$(grep -oE 'CPU [0-9]+' <<<"$line" | tail -1 | cut -d' ' -f2)
check "the home moves inside its LLC: CPU $cpu, now CPU ${now:-$cpu}" \
    same "$((cpu / LLC_CPUS)) 1" "$((${now:-99} / LLC_CPUS)) $((${now:-$cpu} != cpu))"
ran=9999
[ -z "$line" ] || ran=$(ran_until "$(time_of "$line")")
check "after at most 100 ms of the burner's run time: $ran ms" at_most "$ran" 100
n=$(ratio "$beside" "$elsewhere")
check "that server keeps 0.8 of its requests/s: $n ($elsewhere with the burner elsewhere, $beside with it at home)" at_least "$n" 0.8
end_clients
end_servers
sleep 1

say "-- burners on a whole LLC"
servers 1 2
clients 1 2 -c 1
sleep 4
zero=$(zero_of_log)
pid=${SERVERS[1]}
cpu=$(placed | awk -v p="$pid" '$1 == p {print $2}')
first=$((cpu / LLC_CPUS * LLC_CPUS))
for c in $(seq $first $((first + LLC_CPUS - 1))); do burners 2 taskset -c "$c"; done
ready
sleep 1
opened=$(monotonic)
gate
sleep 2
line=$(moved "$pid")
say "        $line"
now=$(placed | awk -v p="$pid" '$1 == p {print $2}')
check "the service leaves LLC $((cpu / LLC_CPUS)): now CPU $now, LLC $((now / LLC_CPUS))" [ $((now / LLC_CPUS)) != $((cpu / LLC_CPUS)) ]
out=$(moved "$pid" "its LLC is taken")
t=$(awk -v a="$(taken_at)" -v b="$(time_of "$out")" 'BEGIN {printf "%.1f\n", b ? (b - a) * 1000 : 99999}')
check "within 200 ms: $t ms after burners ran on all its CPUs" at_most "$t" 200
end_burners
check "it returns after they end" within 5 eval '[ $(($(placed | awk -v p="$pid" "\$1 == p {print \$2}") / LLC_CPUS)) = $((first / LLC_CPUS)) ]'
say "        $(moved "$pid" "back to its first LLC")"
stop
check "ends with exit code 0: $code" same "$code" 0
[ $failed = 0 ] || tail -80 "$LOG"
exit $failed
