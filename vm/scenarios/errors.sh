#!/bin/bash
# What users meet when something is wrong or is ended: every error of the preflight with its text and exit code, both
# ways to stop, kill -9 of either process, ejection, a hang, hotplug, partial mode. Needs 2 CPUs.
#
#   BIN=/path/to/scx_soft_domain vm/run --machine 2 --timeout 300 --env BIN=$BIN -- bash vm/scenarios/errors.sh [CASE...]
#
# Prints one line per check and ends with 1 if any failed. BIN must not lie in /tmp, which the guest has for itself.
set -u
BIN=${BIN:-$(dirname "$0")/../../target/release/scx_soft_domain}
T=$(mktemp -d)
STATE=/sys/kernel/sched_ext/state
SYSCTL=/proc/sys/vm/compact_unevictable_allowed
failures=0

say() { printf '%-4s %s\n' "$1" "$2"; [ "$1" = ok ] || { failures=$((failures + 1)); sed 's/^/     | /' "$T"/out "$T"/err 2>/dev/null | tail -40; }; }
check() { local what=$1; shift; if "$@"; then say ok "$what"; else say FAIL "$what"; fi; }
has() { grep -qF -- "$1" "$T/out" "$T/err"; }
ms() { echo $(($(date +%s%N) / 1000000)); }
# until SECONDS COMMAND: waits for it to come true.
until_() { local end=$(($(ms) + $1 * 1000)); shift; until "$@"; do [ "$(ms)" -lt $end ] || return 1; sleep 0.05; done; }
detached() { [ "$(cat $STATE)" = disabled ]; }
attached() { [ "$(cat $STATE)" = enabled ]; }
gone() { [ ! -e "/proc/$1" ] || grep -qs '^State:.Z' "/proc/$1/status"; }
policy() { sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f39; }

# refused NAME CODE TEXT COMMAND...: the command ends with CODE, says TEXT in one line, and nothing is attached.
refused() {
    local name=$1 code=$2 text=$3 rc
    shift 3
    timeout 60 "$@" >"$T/out" 2>"$T/err"
    rc=$?
    check "$name: exit code $code" [ $rc = "$code" ]
    check "$name: says '$text'" has "$text"
    check "$name: in one line" [ "$(wc -l <"$T/err")" = 1 ]
    check "$name: nothing attached" detached
}

# start OPTIONS...: starts it and waits until it runs. HOST and DISPATCHER are its processes.
start() {
    "$BIN" "$@" >"$T/out" 2>"$T/err" &
    HOST=$!
    until_ 60 has 'running:' || { say FAIL "starts with $*"; return 1; }
    DISPATCHER=$(pgrep -P $HOST scx_sd_dispatch)
}

# ended NAME CODE: it ends within 10 s with CODE, and leaves nothing behind.
ended() {
    local rc
    (sleep 10; kill -9 $HOST) 2>/dev/null & local guard=$!
    wait $HOST
    rc=$?
    kill $guard 2>/dev/null
    check "$1: exit code $2" [ $rc = "$2" ]
    clean "$1"
}

clean() {
    check "$1: detached" until_ 3 detached
    check "$1: no process left" until_ 3 gone "$DISPATCHER"
    check "$1: sysctl as before" until_ 3 grep -qx 1 $SYSCTL
}

case_preflight() {
    check "check finds this machine fit" "$BIN" check >"$T/out"
    chmod 755 "$T"
    refused "not root" 4 "not root: attaching a scheduler takes root" setpriv --reuid=65534 --clear-groups "$BIN"
    refused "waits, not root" 4 "not root: watching the kernel's events takes root" \
        setpriv --reuid=65534 --clear-groups "$BIN" waits
    refused "no capability" 4 "root without CAP_SYS_NICE" setpriv --bounding-set=-sys_nice "$BIN"
    refused "pid namespace" 3 "not in the initial pid namespace" unshare --pid --fork --mount-proc "$BIN"
    refused "no sched_ext" 3 "has no sched_ext" unshare -m sh -c 'mount -t tmpfs none /sys/kernel && exec "$0"' "$BIN"
    refused "no BTF" 3 "(BTF) cannot be read" unshare -m sh -c 'mount -t tmpfs none /sys/kernel/btf && exec "$0"' "$BIN"
    refused "no topology" 3 "cannot read the topology" \
        unshare -m sh -c 'mount -t tmpfs none /sys/devices/system/cpu && exec "$0"' "$BIN"
    # Ours can do without, the scx crates cannot.
    refused "topology unreadable for scx" 3 "the scx crates cannot read this machine's topology" unshare -m sh -c '
        cp -r /sys/devices/system/cpu '"$T"'/cpu 2>/dev/null
        rm -f '"$T"'/cpu/cpu*/topology/core_id
        mount --bind '"$T"'/cpu /sys/devices/system/cpu && exec "$0"' "$BIN"
    refused "bad value" 2 "give a whole number of microseconds" "$BIN" -s fast
}

case_stop() {
    local t
    start -P no-such-service || return
    check "a service that is not there yet: says so" has "-P no-such-service: nothing matches yet, waiting for it"
    check "start-up: version, kernel, options, topology" eval \
        'has "scx_soft_domain 0." && has "kernel $(uname -r)" && has "policy     soft-domain" && has "2 LLCs"'
    cp "$T/out" "$T/first"
    refused_second
    cp "$T/first" "$T/out"
    # As the terminal does it: to the whole process group; the dispatcher is in another one.
    t=$(ms)
    kill -INT $HOST
    check "SIGINT: detached within a second" until_ 1 detached
    wait $HOST
    check "SIGINT: exit code 0" [ $? = 0 ]
    echo "     ended after $(($(ms) - t)) ms"
    check "SIGINT: within 1.5 s, emulated" [ $(($(ms) - t)) -lt 1500 ]
    clean SIGINT
}

refused_second() {
    local rc
    "$BIN" >"$T/out" 2>"$T/err"
    rc=$?
    check "another scheduler: exit code 5" [ $rc = 5 ]
    check "another scheduler: its name" has "another sched_ext scheduler is attached: soft_domain_"
    check "another scheduler: the first goes on" attached
}

case_summary() {
    sleep 500 & local service=$!
    start -P sleep || return
    check "adopts what runs already" has "adopted sleep $service (-P sleep): home CPU"
    sleep 1
    kill -TERM $HOST
    ended SIGTERM 0
    check "summary" eval 'has "summary" && has "dispatched" && has "home hits" && has "own cost"'
    check "placement" has "sleep $service"
    check "no page faults" has "0 minor and 0 major page faults"
    kill $service
}

case_busy() {
    local i burners=()
    start || return
    for i in 1 2 3 4 5 6; do while :; do :; done & burners+=($!); done
    sleep 2
    kill -INT $HOST
    check "busy machine: detached within a second" until_ 1 detached
    ended "busy machine" 0
    start || return
    kill -9 $HOST
    check "busy machine, kill -9 of the host: detached within a second" until_ 1 detached
    wait $HOST 2>/dev/null
    clean "busy machine, kill -9 of the host"
    kill "${burners[@]}"
}

case_kill() {
    start || return
    kill -9 "$DISPATCHER"
    ended "kill -9 of the dispatcher" 1
    check "kill -9 of the dispatcher: says so" has "the dispatcher was killed (signal: 9 (SIGKILL))"

    start || return
    kill -ABRT "$DISPATCHER"
    check "a dispatcher that crashes is replaced" until_ 60 eval '[ "$(grep -c running: "$T/out")" = 2 ]'
    check "it says why" has "restarting: the dispatcher died (signal: 6 (SIGABRT)"
    DISPATCHER=$(pgrep -P $HOST scx_sd_dispatch)
    kill -9 $HOST
    wait $HOST 2>/dev/null
    clean "kill -9 of the host"
}

case_ejected() {
    start || return
    echo 1 >/proc/sys/kernel/sysrq
    echo S >/proc/sysrq-trigger
    ended "ejected by sysrq-S" 1
    check "ejected: the kernel's reason in words" has "the kernel ended the scheduler: disabled by sysrq-S"
    check "ejected: no dump without -v" eval '! has "debug dump"'
}

case_hang() {
    start || return
    kill -STOP "$DISPATCHER"
    check "a hung dispatcher is ejected, replaced and runs again" \
        until_ 60 eval '[ "$(grep -c running: "$T/out")" = 2 ]'
    check "it says why" has "restarting: the dispatcher hung"
    DISPATCHER=$(pgrep -P $HOST scx_sd_dispatch)
    kill -INT $HOST
    ended "after a hang" 0
}

case_hotplug() {
    # A name of its own: this script itself sleeps a lot.
    cp "$(command -v sleep)" "$T/homebody"
    "$T/homebody" 500 & local a=$!
    "$T/homebody" 500 & local b=$!
    start -P homebody || return
    local stays
    stays=$(sed -n 's/.*adopted homebody \([0-9]*\) .*home CPU 0 .*/\1/p' "$T/out")
    check "hotplug: one home on each CPU" eval '[ "$stays" = $a ] || [ "$stays" = $b ]'
    echo 0 >/sys/devices/system/cpu/cpu1/online
    check "hotplug: a CPU goes, it restarts" until_ 60 eval '[ "$(grep -c running: "$T/out")" = 2 ]'
    echo 1 >/sys/devices/system/cpu/cpu1/online
    check "hotplug: it comes back, it restarts" until_ 60 eval '[ "$(grep -c running: "$T/out")" = 3 ]'
    check "hotplug: the home on the CPU that stayed was kept" eval \
        '[ "$(grep -c "adopted homebody $stays .*home CPU 0 " "$T/out")" = 3 ]'
    check "hotplug: the other has its own CPU again" until_ 5 grep -q "moved   homebody.* CPU 1 " "$T/out"
    DISPATCHER=$(pgrep -P $HOST scx_sd_dispatch)
    kill -INT $HOST
    ended hotplug 0
    check "hotplug: the summary counts the starts" has "started 3 times"
    kill $a $b
}

case_partial() {
    chrt -b 0 sleep 503 & local service=$!
    sleep 0.2
    local other=$$
    start --partial -P sleep || return
    check "partial: the service is SCHED_EXT" [ "$(policy $service)" = 7 ]
    check "partial: others keep their policy" [ "$(policy $other)" = 0 ]
    sleep 504 & local late=$!
    check "partial: a service that comes later is SCHED_EXT too" until_ 5 eval '[ "$(policy '$late')" = 7 ]'
    local t=$(ms)
    kill -INT $HOST
    check "partial: detached within a second" until_ 1 detached
    ended partial 0
    check "partial: the service has SCHED_BATCH back" [ "$(policy $service)" = 3 ]
    check "partial: the late one SCHED_OTHER" [ "$(policy $late)" = 0 ]

    start --partial -P sleep || return
    kill -9 $HOST
    wait $HOST 2>/dev/null
    clean "partial, kill -9 of the host"
    check "partial, kill -9 of the host: nobody is SCHED_EXT" until_ 3 eval '[ "$(policy '$service')$(policy '$late')" = 00 ]'
    kill $service $late
}

[ "$(cat $SYSCTL)" = 1 ] || echo 1 >$SYSCTL
for c in ${*:-preflight stop summary busy kill ejected partial hotplug hang}; do
    echo "-- $c"
    "case_$c"
    echo "     $SECONDS s"
done
rm -rf "$T"
echo "failed: $failures"
[ $failures = 0 ]
