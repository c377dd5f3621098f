#!/bin/bash
# Machine 8. Homes yield: to one burner on a home CPU by moving inside the LLC, to burners on a whole LLC by leaving it
# until they end; the service goes on meanwhile.
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
# left_at PID FROM: the time, as in the trace, of the first move of PID in the log from line FROM on
moved_line() { tail -n +"$2" "$LOG" | grep -m1 -E "moved .* $1:"; }
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
servers 1 4
clients 1 4
sleep 4
zero=$(zero_of_log)
say "-- a burner on a home"
quiet=$(rate 1 1 "$seconds") all=$(rate 1 4 1)
pid=${SERVERS[1]}
cpu=$(placed | awk -v p="$pid" '$1 == p {print $2}')
burners 1 taskset -c "$cpu"
from=$(($(wc -l <"$LOG") + 1))
opened=$(monotonic)
gate
beside=$(rate 1 1 "$seconds") all_beside=$(rate 1 4 1)
line=$(moved_line "$pid" "$from")
end_burners
say "        $line"
now=$(grep -oE 'CPU [0-9]+' <<<"$line" | tail -1 | cut -d' ' -f2)
check "the home moves inside its LLC: CPU $cpu, now CPU ${now:-$cpu}" \
    same "$((cpu / LLC_CPUS)) 1" "$((${now:-99} / LLC_CPUS)) $((${now:-$cpu} != cpu))"
ran=$(ran_until "$(time_of "$line")")
check "after at most 100 ms of the burner's run time: $ran ms" at_most "${ran:-9999}" 100
check "that server keeps 0.8 of its requests/s: $(ratio "$beside" "$quiet") ($quiet, then $beside)" \
    at_least "$(ratio "$beside" "$quiet")" 0.8
say "        all servers: $(ratio "$all_beside" "$all") ($all, then $all_beside)"
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
from=$(($(wc -l <"$LOG") + 1))
opened=$(monotonic)
gate
sleep 2
line=$(moved_line "$pid" "$from")
say "        $line"
now=$(placed | awk -v p="$pid" '$1 == p {print $2}')
check "the service leaves LLC $((cpu / LLC_CPUS)): now CPU $now, LLC $((now / LLC_CPUS))" [ $((now / LLC_CPUS)) != $((cpu / LLC_CPUS)) ]
out=$(tail -n +"$from" "$LOG" | grep -m1 -E "moved .* $pid:.*its LLC is taken")
t=$(awk -v a="$(taken_at)" -v b="$(time_of "$out")" 'BEGIN {printf "%.1f\n", b ? (b - a) * 1000 : 99999}')
check "within 200 ms: $t ms after burners ran on all its CPUs" at_most "$t" 200
end_burners
check "it returns after they end" within 5 eval '[ $(($(placed | awk -v p="$pid" "\$1 == p {print \$2}") / LLC_CPUS)) = $((first / LLC_CPUS)) ]'
tail -n +"$from" "$LOG" | grep -E "moved .* $pid:.*back" | sed 's/^/        /'
stop
check "ends with exit code 0: $code" same "$code" 0
[ $failed = 0 ] || tail -80 "$LOG"
exit $failed
