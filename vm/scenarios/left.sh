# What a scheduler leaves behind when it ends: nothing. Shared by kill.sh and faults.sh; after lib.sh.
# shellcheck shell=bash disable=SC2317 # functions are called by check
SYSCTL=/proc/sys/vm/compact_unevictable_allowed

detached() { [ "$(state)" = disabled ]; }
gone() { [ -z "$(pgrep -x 'scx_s.*')" ]; }
kept() { [ "$(cat $SYSCTL)" = "$allowed" ]; }
runs() { [ "$(grep -c ' running: ' "$LOG")" -ge "$1" ]; }
files() { find /tmp /run /dev/shm /sys/fs/bpf -xdev ! -name '*.log' ! -name '*.files' 2>/dev/null | sort; }
# look_before: how things are without a scheduler; servers 1 and 2 run
look_before() {
    allowed=$(cat $SYSCTL)
    : >/tmp/scheduler.log
    masks >/tmp/masks
    files >/tmp/before.files
}
# clean NAME: nothing is left of the scheduler, and the machine goes on
clean() {
    check "$1: detached" within 3 detached
    check "$1: no process is left" within 3 gone
    check "$1: the sysctl has its value" within 3 kept
    files >/tmp/after.files
    n=$(diff /tmp/before.files /tmp/after.files | grep -c '^[<>]')
    check "$1: no file is left or gone: $n" same "$n" 0
    n=$(changed_masks /tmp/masks)
    check "$1: no mask is another: $n" same "$n" 0
    n=$(rate 1 2 1)
    check "$1: the servers serve on: $n requests/s" [ "$n" -gt 0 ]
}
