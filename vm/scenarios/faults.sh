#!/bin/bash
# shellcheck disable=SC2016,SC2086,SC2119,SC2317 # numbers need no quotes; functions are called by name
# Machine 8. What happens to the machine when something goes wrong: each time it goes on, nothing is left behind, and what is
# said and returned fits. (kill.sh has kill -9, hotplug and detaching again and again; errors.sh hangs, other schedulers,
# ejection; churn.sh instances that come and go; realtime.sh real-time tasks.)
# Environment: FAULTS = names of faults (all), BIN.
# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
# shellcheck source=left.sh
. "${0%/*}/left.sh"
times=${SHORT:+2}
times=${times:-6}

said() { grep -qF -- "$1" "$LOG"; }
# ended CODE WHAT: it ends by itself within 60 s with CODE
ended() {
    within 60 eval '! kill -0 $SCHED_PID 2>/dev/null' || kill -9 $SCHED_PID
    wait $SCHED_PID
    code=$?
    check "$2: exit code $code" same $code "$1"
}
goes_on() { check "$1: the scheduler goes on: $(state)" same "$(state)" enabled; }
serves() { n=$(rate 1 2 1); check "$1: the servers serve: $n requests/s" [ "$n" -gt 0 ]; }
stopped() { # WHAT: asked to end, it ends well
    stop
    check "$1: ends with exit code 0: $code" same "$code" 0
    clean "$1"
}

# The first SIGSEGV that nobody's fault has caused only takes Rust's handler away.
send() {
    [ "$1" != SEGV ] || kill -SEGV "$2"
    sleep 0.2
    kill -"$1" "$2"
}
fault_signals() {
    local signal
    for signal in SEGV ABRT; do
        start -P valkey-server
        send $signal "$(dispatcher)"
        check "SIG$signal of the dispatcher: it is replaced" within 60 runs 2
        check "SIG$signal of the dispatcher: it says why" said "restarting: the dispatcher died (signal: "
        send $signal $SCHED_PID
        wait $SCHED_PID 2>/dev/null
        clean "SIG$signal of the host"
    done
    # The machine does not need the host to go on.
    start -P valkey-server
    kill -STOP $SCHED_PID
    sleep 7
    goes_on "a stopped host"
    serves "a stopped host"
    kill -CONT $SCHED_PID
    stopped "a stopped host"
}
fault_memory() {
    local before
    start -P valkey-server
    before=$(dispatcher)
    echo 300 >/proc/$BASHPID/oom_score_adj
    stress-ng --vm 4 --vm-bytes 150% --vm-keep -t 15 --oomable >/dev/null 2>&1
    check "out of memory: somebody was killed" eval 'dmesg | grep -q "Out of memory"'
    check "out of memory: not the scheduler" same "$before" "$(dispatcher)"
    goes_on "out of memory"
    stopped "out of memory"
}
fault_descriptors() {
    prlimit --nofile=12 "$BIN" -P valkey-server >"$LOG" 2>&1 &
    SCHED_PID=$!
    within 60 eval '! kill -0 $SCHED_PID 2>/dev/null' || kill -INT $SCHED_PID
    wait $SCHED_PID
    code=$?
    check "12 descriptors: exit code $code, not 0" [ $code != 0 ]
    check "12 descriptors: says so: $(tail -1 "$LOG")" grep -qi 'too many open files' "$LOG"
    clean "12 descriptors"
    start -P valkey-server
    prlimit --nofile=4 --pid "$SCHED_PID"
    prlimit --nofile=4 --pid "$(dispatcher)"
    sleep 3
    goes_on "no descriptor left while it runs"
    stopped "no descriptor left while it runs"
}
fault_disk() {
    mkdir -p /tmp/small
    mount -t tmpfs -o size=64k none /tmp/small
    start -P valkey-server --record /tmp/small/run.sdt
    sleep 6
    goes_on "disk full while recording"
    serves "disk full while recording"
    stop
    check "disk full while recording: it says so" grep -qiE 'no space|record' "$LOG"
    "${BIN%/*}/sdlab" replay /tmp/small/run.sdt >/tmp/replay.log 2>&1
    check "disk full while recording: what is there can be replayed: $(tail -1 /tmp/replay.log)" grep -qE 'identical' /tmp/replay.log
    umount /tmp/small
    rmdir /tmp/small
    clean "disk full while recording"
}
fault_hotplug() {
    local i cpu last=$(($(nproc --all) - 1))
    start -P valkey-server
    for i in $(seq $((times / 2))); do
        for cpu in $(seq $last -1 1); do echo 0 >/sys/devices/system/cpu/cpu$cpu/online; done
        check "hotplug $i: one CPU is left" same "$(nproc --all)$(cat /sys/devices/system/cpu/online)" "$((last + 1))0"
        check "hotplug $i: it runs on one CPU" within 60 eval 'tail -1 "$LOG" | grep -q "running:" || [ "$(state)" = enabled ]'
        serves "hotplug $i, one CPU"
        for cpu in $(seq $last); do echo 1 >/sys/devices/system/cpu/cpu$cpu/online; done
        check "hotplug $i: all CPUs are back, it runs" within 60 eval '[ "$(state)" = enabled ]'
        sleep 3
    done
    check "hotplug: it runs in the end" within 30 eval '[ "$(state)" = enabled ]'
    serves "hotplug"
    stopped "hotplug"
}
fault_suspend() {
    [ -w /sys/power/pm_test ] || { check "the kernel has pm_test" false; return; }
    start -P valkey-server
    for _ in $(seq 2); do
        echo freezer >/sys/power/pm_test
        echo freeze >/sys/power/state
    done
    echo none >/sys/power/pm_test
    goes_on "suspend, freezer"
    serves "suspend, freezer"
    stopped "suspend, freezer"
}
fault_masks() {
    local i group=/sys/fs/cgroup/faults end
    mkdir -p $group
    echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
    start -P valkey-server
    echo "${SERVERS[1]}" >$group/cgroup.procs
    end=$((SECONDS + 4 * times)) i=0
    while [ $SECONDS -lt $end ]; do
        echo $((RANDOM % 4))-$((4 + RANDOM % 4)) >$group/cpuset.cpus
        taskset -acp $((RANDOM % 8)) "${SERVERS[2]}" >/dev/null
        taskset -acp $((RANDOM % 3)),$((3 + RANDOM % 5)) "${SERVERS[2]}" >/dev/null
        i=$((i + 1))
    done
    goes_on "masks changed $i times"
    serves "masks changed $i times"
    echo "${SERVERS[1]}" >/sys/fs/cgroup/cgroup.procs
    rmdir $group
    taskset -acp 0-7 "${SERVERS[2]}" >/dev/null
    taskset -acp 0-7 "${SERVERS[1]}" >/dev/null
    stopped "masks changed"
    say "        $(grep undone "$LOG")"
}
fault_clock() {
    start -P valkey-server
    sleep 1
    date -s '+1 hour' >/dev/null
    sleep 2
    serves "clock an hour on"
    date -s '-2 hours' >/dev/null
    sleep 2
    serves "clock an hour back"
    goes_on "clock"
    date -s '+1 hour' >/dev/null
    stopped "clock"
}
fault_two-copies() {
    local i a b codes
    for i in $(seq "$times"); do
        "$BIN" >/tmp/a.log 2>&1 &
        a=$!
        "$BIN" >/tmp/b.log 2>&1 &
        b=$!
        within 60 eval 'grep -q " running: " /tmp/a.log /tmp/b.log && { ! kill -0 $a || ! kill -0 $b; } 2>/dev/null'
        kill -INT $a $b 2>/dev/null
        wait $a
        codes=$?
        wait $b
        codes="$codes $?"
        check "two at once: one runs, the other does not: exit codes $codes" eval 'case "$codes" in "0 0" | [1-9]*\ [1-9]*) false ;; esac'
        check "two at once: it names the other" eval 'cat /tmp/a.log /tmp/b.log | grep -q "another sched_ext scheduler is attached: soft_domain_"'
    done
    clean "two at once"
}
# The ring between kernel and user space has room for some thousand tasks.
fault_overflow() {
    start -P valkey-server
    DISPATCHER=$(dispatcher) timeout 120 python3 - <<'PY'
import os, signal, threading, time

threading.stack_size(65536)
read, write = os.pipe()
woken = []
def wait():
    os.read(read, 1)
    woken.append(1)
threads = [threading.Thread(target=wait) for _ in range(8000)]
for t in threads:
    t.start()
time.sleep(2)
dispatcher = int(os.environ["DISPATCHER"])
os.kill(dispatcher, signal.SIGSTOP)
os.close(write)
end = time.monotonic() + 1
while time.monotonic() < end:
    pass
os.kill(dispatcher, signal.SIGCONT)
for t in threads:
    t.join()
print(len(woken))
PY
    check "8,000 tasks wake while the dispatcher is stopped: all ran" same $? 0
    goes_on "overflow"
    stopped "overflow"
    n=$(sed -nE 's/.* ([0-9]+) because we were too slow.*/\1/p' "$LOG")
    check "overflow: congestion is counted: $n" [ "$n" -gt 0 ]
    check "overflow: nothing was lost" eval '! grep -q "tasks lost" "$LOG"'
}
fault_panic() {
    start --policy panics
    ended 1 "a policy that panics"
    check "a policy that panics: it says so" said "it panicked: "
    check "a policy that panics: restarted, but not for ever: $(grep -c ' running: ' "$LOG") starts" said "restarted too often"
    clean "a policy that panics"
}
# Ids come again after some hundred processes.
fault_pid-reuse() {
    local max i
    max=$(cat /proc/sys/kernel/pid_max)
    start -v -P worker
    echo 1024 >/proc/sys/kernel/pid_max
    for i in $(seq $((times * 10))); do
        WORKERS=()
        workers 20 0.2
        wait "${WORKERS[@]}"
        for _ in $(seq 40); do /bin/true; done
    done
    echo "$max" >/proc/sys/kernel/pid_max
    sleep 2
    n=$(placed | wc -l)
    check "ids come again: no home is taken at the end: $n" same "$n" 0
    stopped "ids come again"
    read -r given freed < <(sed -nE 's/.* ([0-9]+) given, ([0-9]+) freed.*/\1 \2/p' "$LOG")
    check "ids come again: homes given $given, instances $((times * 200))" same "$given" $((times * 200))
    check "ids come again: homes freed $freed" same "$given" "$freed"
}

servers 1 2
clients 1 2
look_before
for fault in ${FAULTS:-$(declare -F | sed -n 's/.* fault_//p')}; do
    say "-- $fault"
    before=$failed failed=0
    "fault_$fault"
    [ $failed = 0 ] || { tail -60 "$LOG"; dmesg | grep -E 'sched_ext|BUG|Oops' | tail -10; }
    [ $failed = 1 ] || failed=$before
done
n=$(dmesg | grep -cE 'BUG|Oops')
check "the kernel complained of nothing: $n lines" same "$n" 0
exit $failed
