"""What some of the simulator's costs (src/sim/cost.rs) are in an emulated guest under the kernel's own scheduler, for
vm/guest-costs. Prints them three times. One CPU at a time, so that the host takes nothing away.

Each is a difference of two loops of the same calls, so that Python's own time cancels out.
"""

import os
import time

LOOPS = 2000


def loop(action, loops=LOOPS):
    """ns per call of `action`."""
    begin = time.monotonic_ns()
    for _ in range(loops):
        action()
    return (time.monotonic_ns() - begin) / loops


def child(work):
    """Runs `work` in a process, which ends with it; its pid."""
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def shared_yield():
    """A process that yields too: every call is a switch there and one back, and a yield of each."""
    other = child(lambda: loop(os.sched_yield, LOOPS + 100))
    ns = loop(os.sched_yield)
    os.waitpid(other, 0)
    return ns


def ping_pong(cpu=0):
    """One round with a process on `cpu`: two wake-ups, two switches, four system calls; on another CPU than ours, also the
    ends of two CPUs' idleness."""
    there, back = os.pipe(), os.pipe()

    def answer():
        os.sched_setaffinity(0, {cpu})
        for _ in range(LOOPS):
            os.read(there[0], 1)
            os.write(back[1], b"x")

    other = child(answer)
    ns = loop(lambda: (os.write(there[1], b"x"), os.read(back[0], 1)))
    os.waitpid(other, 0)
    return ns


def self_pipe():
    """Half of those system calls, without anybody else."""
    pipe = os.pipe()
    return loop(lambda: (os.write(pipe[1], b"x"), os.read(pipe[0], 1)))


def fork():
    begin = time.monotonic_ns()
    pids = [child(lambda: None) for _ in range(20)]
    ns = (time.monotonic_ns() - begin) / 20
    for pid in pids:
        os.waitpid(pid, 0)
    return ns


def until_it_ends(work):
    return loop(lambda: os.waitpid(child(work), 0), 20)


def main():
    os.sched_setaffinity(0, {0})
    for _ in range(3):
        call, alone, shared = loop(os.getppid), loop(os.sched_yield), shared_yield()
        switch = shared / 2 - alone
        calls = self_pipe()
        half, across = ping_pong() / 2 - calls, ping_pong(1) / 2 - calls
        execs = until_it_ends(lambda: os.execv("/bin/true", ["true"])) - until_it_ends(lambda: None)
        figures = {"context-switch": switch, "wake-up": half - switch, "idle-exit": across - half, "yield": alone - call, "fork": fork(), "exec": execs}
        print("@@", *(f"{name}={ns:.0f}" for name, ns in figures.items()), flush=True)


main()
