#!/bin/bash
# shellcheck disable=SC2086,SC2119,SC2317 # numbers need no quotes; functions are called by name
# Any machine, every kernel. For vm/matrix: one load after another, each under a scheduler of its own. One line of JSON for
# each that begins with @@. How long tasks waited is what `scx_soft_domain waits` saw in the kernel's events.
# Environment: LOADS = names, D = seconds a load (5), BIN.
# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
D=${D:-5}
CPUS=$(nproc)

# --- The loads: functions load_NAME; each lasts about D seconds
s() { stress-ng "$@" -t "$D"; }
load_idle() { sleep "$D"; }
load_burners-1x() { s --cpu "$CPUS"; }
load_burners-2x() { s --cpu $((2 * CPUS)); }
load_burners-32x() { s --cpu $((32 * CPUS)); }
load_fork-exec() {
    # Root may not exec.
    setpriv --reuid=65534 --clear-groups stress-ng --exec "$CPUS" -t "$D" &
    s --fork "$CPUS"
    wait $!
}
load_pipes() { s --pipe "$CPUS" --switch "$CPUS"; }
load_affinities() { s --affinity "$CPUS" --affinity-rand; }
# Every second time it is a nice value; real-time ones last until the next round, which a task of theirs makes.
load_classes() {
    local p end=$((SECONDS + D))
    burners 4
    gate
    while [ $SECONDS -lt $end ]; do
        for p in "${BURNERS[@]}"; do
            case $((RANDOM % 10)) in
            0) chrt --other -p 0 "$p" ;;
            1) chrt --batch -p 0 "$p" ;;
            2) chrt --idle -p 0 "$p" ;;
            3) chrt --fifo -p 1 "$p" ;;
            4) chrt --rr -p 1 "$p" ;;
            *) renice -n $((RANDOM % 40 - 20)) -p "$p" ;;
            esac
        done
    done
    end_burners
}
# A guest has no swap.
load_memory() { s --vm 4 --vm-bytes 70%; }
load_timers() { s --timer 2 --sigrt 2 --futex "$CPUS"; }
load_wake-2000() {
    D=$D python3 - <<'PY'
import os, threading, time

threading.stack_size(65536)
start = time.monotonic() + 3
end = start + int(os.environ["D"])

def sleeper():
    at = start
    while at < end:
        time.sleep(max(0, at - time.monotonic()))
        at += 1

threads = [threading.Thread(target=sleeper) for _ in range(2000)]
for t in threads:
    t.start()
for t in threads:
    t.join()
PY
}
load_hackbench() { hackbench -g 4 -l 30; }
# Each job reads, computes, writes and starts programs.
load_make() {
    mkdir -p /tmp/make
    {
        printf 'all:'
        printf ' /tmp/make/%d' $(seq 400)
        printf '\n/tmp/make/%%:\n\t@head -c 200000 /dev/urandom | md5sum >$@; sh -c "sort $@ | wc -l >/dev/null"\n'
    } >/tmp/makefile
    timeout "$D" make -f /tmp/makefile -j $((2 * CPUS))
    rm -rf /tmp/make
}
load_all() { s --cpu $((2 * CPUS)) --fork 2 --pipe 4 --switch 2 --affinity 2 --timer 1 --futex 2 --vm 1 --vm-bytes 64M; }

# watch: the most runnable tasks seen, into /tmp/runnable, until it is killed
watch() {
    local most=0 now
    while sleep 0.2; do
        read -r _ _ _ now _ </proc/loadavg
        now=${now%/*}
        [ "$now" -le $most ] || { most=$now; echo $most >/tmp/runnable; }
    done
}

number() { sed -nE "s/.*[ ,]([0-9]+) $1.*/\1/p" "$LOG" | tail -1; }

for load in $LOADS; do
    echo "@@ begin $load"
    echo "$load begins" >/dev/kmsg
    start
    sleep 1
    echo 0 >/tmp/runnable
    watch &
    watcher=$!
    "$BIN" waits -s 1000 --except "$(dispatcher)" >/tmp/waits &
    waits=$!
    sleep 1
    begin=$EPOCHREALTIME
    "load_$load" >/tmp/load.log 2>&1
    ran=$(((${EPOCHREALTIME/./} - ${begin/./}) / 1000))
    alive=$(state)
    kill -INT $waits
    wait $waits
    read -r longest who < <(awk '$1 == "longest" {printf "%d %s\n", $2 * 1000, $4}' /tmp/waits)
    kill $watcher
    wait $watcher 2>/dev/null
    stop
    complaints=$(dmesg | sed "1,/$load begins/d" | grep -cE 'BUG|Oops|sched_ext:.*(error|stall|abort)')
    loaded=1
    ! grep -qE 'unrecognized|skipping|No stress workers|command not found' /tmp/load.log || loaded=0
    printf '@@ {"load": "%s", "loaded": %d, "ms": %d, "state": "%s", "exit": %d, "complaints": %d, "longest_us": %d, "who": "%s", "runnable": %d, "congestion": %d, "bounces": %d}\n' \
        "$load" $loaded $ran "$alive" $code "$complaints" "$longest" "$who" "$(cat /tmp/runnable)" "$(number 'because we were')" "$(number bounces)"
    [ "$alive$code$complaints" = enabled00 ] || { tail -30 "$LOG"; dmesg | grep -E 'sched_ext|BUG|Oops' | tail -20; }
    [ $loaded = 1 ] || cat /tmp/load.log
done
