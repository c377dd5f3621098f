"""The guests' machines: what `vm/run --machine NAME` boots.

CPUs are numbered consecutively inside an LLC and a node. One socket is one LLC; sockets under one node are its LLCs.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    about: str
    smp: str  # QEMU's -smp
    # One string of CPUs per NUMA node ("" = a node with memory only); no entries: no NUMA at all.
    nodes: tuple[str, ...] = ()
    cpu: str = "max"  # QEMU's -cpu
    cpus_per_llc: int = 1
    cpus_per_node: int = 1


MACHINES = {
    "1": Machine("1 CPU", "1"),
    "2": Machine("2 CPUs, 2 LLCs of 1 CPU, 1 node", "2,sockets=2,cores=1", cpus_per_node=2),
    "2x1llc": Machine("2 CPUs, 1 LLC", "2,sockets=1,cores=2", cpus_per_llc=2, cpus_per_node=2),
    "8": Machine("8 CPUs, 2 nodes x 2 LLCs x 2 CPUs", "8,sockets=4,cores=2", ("0-3", "4-7"), cpus_per_llc=2, cpus_per_node=4),
    "8x1llc": Machine("8 CPUs, 1 LLC", "8,sockets=1,cores=8", cpus_per_llc=8, cpus_per_node=8),
    "8smt": Machine("8 CPUs, 2 LLCs x 2 cores x 2 threads, 1 node", "8,sockets=2,cores=2,threads=2", cpu="max,topoext=on", cpus_per_llc=4, cpus_per_node=8),
    "8n4": Machine("8 CPUs, 4 nodes of 1 LLC x 2 CPUs", "8,sockets=4,cores=2", ("0-1", "2-3", "4-5", "6-7"), cpus_per_llc=2, cpus_per_node=2),
    "maxcpus": Machine("4 CPUs online of 8 possible, 4 LLCs", "4,maxcpus=8,sockets=4,cores=2", cpus_per_llc=2, cpus_per_node=4),
    "memnode": Machine("4 CPUs, 2 nodes x 1 LLC x 2 CPUs, and a node of memory only", "4,sockets=2,cores=2", ("0-1", "2-3", ""), cpus_per_llc=2, cpus_per_node=2),
    "nol3": Machine("4 CPUs that tell of no L3, 2 sockets", "4,sockets=2,cores=2", cpu="max,l3-cache=off", cpus_per_llc=2, cpus_per_node=4),
    "16": Machine("16 CPUs, 2 nodes x 2 LLCs x 4 CPUs", "16,sockets=4,cores=4", ("0-7", "8-15"), cpus_per_llc=4, cpus_per_node=8),
    "32": Machine("32 CPUs, 4 nodes x 2 LLCs x 4 CPUs", "32,sockets=8,cores=4", ("0-7", "8-15", "16-23", "24-31"), cpus_per_llc=4, cpus_per_node=8),
}
