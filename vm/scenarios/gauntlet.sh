#!/bin/bash
# Machine 8, every kernel. Loads that evict user-space schedulers, one stage after another: ours has to run on after
# each, and to end with 0. Environment: D = seconds a stage (10; 3 if SHORT), BIN.
. "${0%/*}/lib.sh"
D=${D:-${SHORT:+3}}
D=${D:-10}
cpus=$(nproc)

# stage NAME COMMAND...: runs it and looks
stage() {
    local name=$1 t=$EPOCHREALTIME
    shift
    "$@" >/tmp/stage.log 2>&1
    t=$(((${EPOCHREALTIME/./} - ${t/./}) / 1000))
    check "after $name, $t ms: $(state) $(grep -oE '(Time: .*| (fork|switch|pipe) +[0-9]+ )' /tmp/stage.log | paste -sd' ')" same "$(state)" enabled
}
s() { stress-ng "$@" -t "$D" --metrics-brief; }

start
stage "2x burners" s --cpu $((cpus * 2))
stage "32x burners" s --cpu $((cpus * 32))
stage fork s --fork "$cpus"
stage exec s --exec "$cpus"
stage "switch and pipe" s --switch "$cpus" --pipe $((cpus / 2 + 1))
stage affinity s --affinity "$cpus" --affinity-rand
stage memory s --vm 4 --vm-bytes 256M
stage "scheduler classes" s --cpu-sched 4
stage "futex, timers, signals" s --futex "$cpus" --timer 2 --sigrt 2
stage hackbench hackbench -g 4 -l 50
stage "all together" s --cpu $((cpus * 2)) --fork 2 --pipe 4 --affinity 2 --vm 1 --vm-bytes 64M
stop
check "ends with exit code 0: $code" same "$code" 0
n=$(dmesg | grep -cE 'BUG|Oops|sched_ext:.*(error|stall|abort)')
check "the kernel complained of nothing: $n lines" same "$n" 0
[ $failed = 0 ] || { tail -40 "$LOG"; dmesg | grep -E 'sched_ext|BUG|Oops' | tail -20; }
exit $failed
