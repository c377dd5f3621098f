#!/bin/bash
# shellcheck disable=SC2016,SC2086,SC2119,SC2317 # numbers need no quotes; functions are called by check
# Machine 8, every kernel. Loads that evict user-space schedulers, one stage after another: ours has to run on after
# each, and to end with 0. Environment: D = seconds a stage (10; 3 if SHORT), BIN.
# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
D=${D:-${SHORT:+3}}
D=${D:-10}
cpus=$(nproc)

# stage NAME COMMAND...: runs it and looks; a load that did not run, which stress-ng says in a word only, shows nothing
stage() {
    local name=$1 t=$EPOCHREALTIME
    shift
    "$@" >/tmp/stage.log 2>&1
    t=$(((${EPOCHREALTIME/./} - ${t/./}) / 1000))
    ! grep -E 'unrecognized|skipping|No stress workers' /tmp/stage.log || { say "FAILED  $name: the load did not run"; failed=1; }
    check "after $name, $t ms: $(state) $(grep -oE '(Time: .*| (fork|switch|pipe) +[0-9]+ )' /tmp/stage.log | paste -sd' ')" same "$(state)" enabled
}
s() { stress-ng "$@" -t "$D" --metrics-brief; }
# Root may not.
execs() { setpriv --reuid=65534 --clear-groups stress-ng --exec "$cpus" -t "$D" --metrics-brief; }
# What stress-ng --cpu-sched does, which Debian 12's has not: busy processes whose class changes all the time.
classes() {
    local p end=$((SECONDS + D))
    burners 4
    gate
    while [ $SECONDS -lt $end ]; do
        for p in "${BURNERS[@]}"; do
            case $((RANDOM % 5)) in
            0) chrt --other -p 0 "$p" ;;
            1) chrt --batch -p 0 "$p" ;;
            2) chrt --idle -p 0 "$p" ;;
            3) chrt --fifo -p 1 "$p" ;;
            4) chrt --rr -p 1 "$p" ;;
            esac
        done
    done
    end_burners
}

echo "the gauntlet begins" >/dev/kmsg
messages() { dmesg | sed '1,/the gauntlet begins/d'; }
start
stage "2x burners" s --cpu $((cpus * 2))
stage "32x burners" s --cpu $((cpus * 32))
stage fork s --fork "$cpus"
stage exec execs
stage "switch and pipe" s --switch "$cpus" --pipe $((cpus / 2 + 1))
stage affinity s --affinity "$cpus" --affinity-rand
stage memory s --vm 4 --vm-bytes 256M
stage "scheduler classes" classes
stage "futex, timers, signals" s --futex "$cpus" --timer 2 --sigrt 2
stage hackbench hackbench -g 4 -l 50
stage "all together" s --cpu $((cpus * 2)) --fork 2 --pipe 4 --affinity 2 --vm 1 --vm-bytes 64M
stop
check "ends with exit code 0: $code" same "$code" 0
n=$(messages | grep -cE 'BUG|Oops|sched_ext:.*(error|stall|abort)')
check "the kernel complained of nothing: $n lines" same "$n" 0
[ $failed = 0 ] || { tail -40 "$LOG"; messages | grep -E 'sched_ext|BUG|Oops' | tail -20; }
exit $failed
