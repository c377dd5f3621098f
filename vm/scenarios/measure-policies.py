"""See measure-policies.sh: counts for some seconds what tasks do and where they move, and prints it as one line of JSON.

It runs with priority, so whatever it does takes a CPU from what it counts: it starts before the workload settles, sleeps
while moves and requests are counted, and reads as little as it can beside.

Arguments: seconds before counting and while, CPUs per LLC and per node, the policy's name, the dispatcher's pid, the pids
of the services (server i listens on port 7000 + i) or burners, and those of the clients; pids of one argument are separated
by blanks.
"""

import json
import re
import socket
import sys
import time
from pathlib import Path

TRACE = Path("/sys/kernel/tracing")
MOVE = re.compile(r"sched_migrate_task: comm=.* pid=(\d+) .*orig_cpu=(\d+) dest_cpu=(\d+)")


def spent(pids):
    """CPU time in ns, times on a CPU, and times gone to sleep, of the main threads of these processes: no other does work."""
    ns = runs = slept = 0
    for task in (Path(f"/proc/{p}") for p in pids):
        if task.exists():
            ran, _, times = (task / "schedstat").read_text().split()
            ns, runs = ns + int(ran), runs + int(times)
            slept += int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", (task / "status").read_text(), re.MULTILINE)[1])
    return ns, runs, slept


def kernel_threads():
    """Those of one CPU, and the others."""
    bound, free = [], []
    for status in Path("/proc").glob("[0-9]*/status"):
        text = status.read_text()
        if "\nKthread:\t1" in text:
            one = re.search(r"^Cpus_allowed_list:\s*\d+$", text, re.MULTILINE)
            (bound if one else free).append(int(status.parent.name))
    return bound, free


def served(sockets):
    total = 0
    for s in sockets:
        s.sendall(b"INFO commandstats\r\n")
        text = b""
        while b"\r\n" not in text or len(text) < text.index(b"\r\n") + 4 + int(text[1 : text.index(b"\r\n")]):
            text += s.recv(65536)
        total += sum(int(n) for n in re.findall(rb"cmdstat_set:calls=(\d+)", text))
    return total


def main():
    settle, seconds, per_llc, per_node = map(int, sys.argv[1:5])
    policy = sys.argv[5]
    own, looked_at, clients = (list(map(int, text.split())) for text in sys.argv[6:9])
    sockets = [socket.create_connection(("127.0.0.1", 7001 + i)) for i in range(len(looked_at) if clients else 0)]
    # For the calibration alone: there are a hundred of them.
    bound, free = kernel_threads() if len(clients) == 1 else ([], [])

    def reading():
        return {"each": [spent([p]) for p in looked_at], "clients": spent(clients), "own": spent(own), "bound": spent(bound), "free": spent(free)}

    event = TRACE / "events/sched/sched_migrate_task/enable"
    for name, value in ("tracing_on", "0"), ("buffer_size_kb", "32768"), ("trace", ""):
        (TRACE / name).write_text(value)
    event.write_text("1")
    time.sleep(settle)
    before = reading()
    requests, begin = served(sockets), time.monotonic()
    (TRACE / "tracing_on").write_text("1")
    time.sleep(seconds)
    (TRACE / "tracing_on").write_text("0")
    requests, lasted = served(sockets) - requests, time.monotonic() - begin
    after = reading()
    event.write_text("0")

    def grown(key):
        return [b - a for a, b in zip(before[key], after[key], strict=True)]

    each = [[b - a for a, b in zip(x, y, strict=True)] for x, y in zip(before["each"], after["each"], strict=True)]
    moves = [tuple(map(int, found)) for found in MOVE.findall((TRACE / "trace").read_text())]
    result = {"policy": policy, "seconds": lasted, "requests": requests}
    result |= {"last_cpus": [int(Path(f"/proc/{p}/stat").read_text().rsplit(") ", 1)[1].split()[36]) for p in looked_at]}
    result |= {"each_ns": [ns for ns, _, _ in each], "runs": sum(n for _, n, _ in each), "slept": sum(n for _, _, n in each)}
    result |= dict(zip(("client_ns", "client_runs", "client_slept"), grown("clients"), strict=True))
    result |= dict(zip(("own_ns", "own_runs", "own_slept"), grown("own"), strict=True))
    for kind in "bound", "free":
        result |= dict(zip((f"{kind}_ns", f"{kind}_runs"), grown(kind), strict=False))
    for name, pids in ("moves", looked_at), ("client_moves", clients):
        theirs = [(a, b) for pid, a, b in moves if pid in pids]
        result[name] = [sum(a // size != b // size for a, b in theirs) for size in (1, per_llc, per_node)]
    print("@@", json.dumps(result), flush=True)


main()
