"""See measure-turns.sh. A turn is what a task does between two sleeps. Both processes write the answers or requests of a
turn one after the other at its end: the first wakes the other side, which begins while the rest is still to be written.

Arguments: seconds, the pids of the server and of the client.
"""

import json
import re
import sys
import time
from pathlib import Path

TRACE = Path("/sys/kernel/tracing")
LINE = re.compile(r"-(\d+) +\[\d+\] \S+ +(\d+)\.(\d{6}): (sched_\w+): (.*)")
SWITCH = re.compile(r"prev_pid=(\d+) .*prev_state=(\S+) .*next_pid=(\d+)")


class Task:
    def __init__(self):
        self.since = None  # us, when it was switched in; None: it does not run, or we have not seen since when
        self.ran = 0  # us, in this turn
        self.woke_at = None  # what it had run when it woke the other
        self.whole = self.after = self.turns = 0

    def switched_out(self, now, sleeps):
        if self.since is None:
            return
        self.ran += now - self.since
        self.since = None
        if sleeps:
            if self.woke_at is not None:
                self.whole, self.after, self.turns = self.whole + self.ran, self.after + self.ran - self.woke_at, self.turns + 1
            self.ran, self.woke_at = 0, None


def main():
    seconds, pids = int(sys.argv[1]), [int(text) for text in sys.argv[2:4]]
    tasks = {pid: Task() for pid in pids}
    filters = {"sched_waking": [f"pid == {p}" for p in pids], "sched_switch": [f"{side}_pid == {p}" for side in ("prev", "next") for p in pids]}
    for name, value in ("tracing_on", "0"), ("buffer_size_kb", "32768"), ("trace", ""):
        (TRACE / name).write_text(value)
    for event, terms in filters.items():
        (TRACE / f"events/sched/{event}/filter").write_text(" || ".join(terms))
        (TRACE / f"events/sched/{event}/enable").write_text("1")
    (TRACE / "tracing_on").write_text("1")
    time.sleep(seconds)
    (TRACE / "tracing_on").write_text("0")
    for event in filters:
        (TRACE / f"events/sched/{event}/enable").write_text("0")
        (TRACE / f"events/sched/{event}/filter").write_text("0")

    for found in LINE.finditer((TRACE / "trace").read_text()):
        current, now, event, rest = int(found[1]), int(found[2]) * 1_000_000 + int(found[3]), found[4], found[5]
        if event == "sched_waking":
            task = tasks.get(current)
            if task and task.since is not None and task.woke_at is None and f" pid={current} " not in rest:
                task.woke_at = task.ran + now - task.since
        elif switch := SWITCH.search(rest):
            if task := tasks.get(int(switch[1])):
                task.switched_out(now, sleeps=switch[2][0] in "SD")
            if task := tasks.get(int(switch[3])):
                task.since = now
    result = {}
    for name, pid in zip(("server", "client"), pids, strict=True):
        task = tasks[pid]
        result[name] = {"turns": task.turns, "us": task.whole, "after_us": task.after}
    print("@@", json.dumps(result), flush=True)


main()
