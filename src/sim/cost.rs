//! What things cost on the simulated machine: every figure in one place, each with where it comes from.
//!
//! Any of them is set by `--cost NAME=VALUE` or in a file of `--costs-from`, and listed by `--list-costs`. None was tuned
//! to make a policy look good; those that say "guess" await a measurement on a real machine. What is measured in
//! emulated guests, where everything is far dearer, belongs into a file of its own, for comparison with those only.

use crate::rules::RING_RECORDS;
use std::fmt::Write;

macro_rules! costs {
    ($($field:ident $name:literal $default:tt $unit:literal $least:literal $source:literal,)*) => {
        /// All costs; see the table in this file for units and sources.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Costs {
            $(#[doc = concat!($source, " (", $unit, ")")] pub $field: u64,)*
        }

        impl Default for Costs {
            fn default() -> Self {
                Costs { $($field: $default,)* }
            }
        }

        impl Costs {
            fn entry(&mut self, name: &str) -> Option<(&mut u64, u64)> {
                match name {
                    $($name => Some((&mut self.$field, $least)),)*
                    _ => None,
                }
            }

            /// Name, value, unit and source of each, in the order of the table.
            pub fn list(&self) -> Vec<(&'static str, u64, &'static str, &'static str)> {
                vec![$(($name, self.$field, $unit, $source),)*]
            }
        }
    };
}

costs! {
    // --- Tasks and CPUs.
    context_switch "context-switch" 1200 "ns" 0
        "from one task to another without cache effects; a published pipe ping-pong (Core i7 of 2021, Linux 6.6) has 1.07 us between threads and 2.41 us between processes, system calls included",
    wake_up "wake-up" 500 "ns" 0
        "what a wake-up costs the waker: system call, remote run-queue lock, the shim's enqueue; a guess",
    idle_exit "idle-exit" 2000 "ns" 0
        "from the interrupt to a running CPU; 2 us is C1's exit latency for Skylake servers in the kernel's intel_idle.c",
    kick "kick" 700 "ns" 0
        "from scx_bpf_kick_cpu to the other CPU's reschedule when it is busy; a guess",
    hz "hz" 250 "ticks/s" 1
        "CONFIG_HZ of Debian's kernels; a slice ends at a tick",
    tick_jitter "tick-jitter" 3000 "ns" 0
        "a tick comes up to this much late: all CPUs tick together (skew_tick=0), but not in the same order each time; a guess",
    fork "fork" 60000 "ns" 0
        "what a fork costs the parent; a guess",
    exec "exec" 300000 "ns" 0
        "what an exec costs the process; a guess",
    // --- Caches and memory.
    private_cache "private-cache" 1024 "KiB" 0
        "L1 and L2 of a core: what a move inside the LLC has to fetch again at most; an L2 is 1 MiB on Zen 4, 2 MiB on Sapphire Rapids",
    shared_cache "shared-cache" 8192 "KiB" 0
        "a task's share of the LLC: what a move to another LLC has to fetch again at most; a guess",
    refill_llc "refill-llc" 50 "ns/KiB" 0
        "refill from the own LLC: 16 lines at about 12 ns (AnandTech's review of EPYC 7002: 10 ns), 4 in flight; the 4 are a guess",
    refill_node "refill-node" 440 "ns/KiB" 0
        "refill from another LLC or the node's memory: 16 lines at about 110 ns (the same review, 4 nodes per socket: 113-125 ns), 4 in flight",
    refill_machine "refill-machine" 800 "ns/KiB" 0
        "refill from another node: 16 lines at about 200 ns, 4 in flight; the 200 are a guess",
    remote_memory "remote-memory" 200 "permille" 0
        "more time for the same work while a task's memory is on another node; a guess: remote latency 1.6 times local, a third of the time stalled on memory",
    smt_share "smt-share" 620 "permille" 1
        "speed of each sibling while both are busy: the core then does 1.24 times the work; a guess inside the usual 1.2 to 1.3",
    // --- The shim and its rings.
    dispatch_call "dispatch-call" 300 "ns" 1
        "one .dispatch() of the shim that finds no record; a guess",
    drain "drain" 400 "ns" 0
        "taking one record from the user ring and queueing its task; a guess",
    ring_record "ring-record" 91 "ns" 1
        "writing a record to the queued ring, one producer: 11 M records/s (report)",
    ring_producer "ring-producer" 16 "ns" 0
        "more for each other producer at the ring's lock: 48 producers reach 1.2 M records/s together (report), so (833 - 91) / 47",
    queued_ring "queued-ring" 5460 "records" 1
        "capacity of the ring to user space (source: 512 KiB of 88-byte records with 8 bytes of header)",
    user_ring "user-ring" RING_RECORDS "records" 1
        "capacity of the ring to the kernel as the dispatch loop counts it (src/rules.rs)",
    shim_slice "shim-slice" 5000000 "ns" 1
        "the shim's own slice: refills of a lone task, and tasks it dispatches by itself when the ring is full",
    // --- A guest's host.
    host_cpus "host-cpus" 0 "CPUs" 0
        "a guest's CPUs take turns on so many CPUs of its host; 0: a real machine",
    host_slice "host-slice" 2700000 "ns" 1
        "how long a guest's CPU keeps the host's while others wait: run time by involuntary switches of the threads of an emulated guest with 8 busy CPUs on 2 (EEVDF's base slice there is 1.4 ms, its tick 4 ms)",
    // --- The scheduler's thread.
    yield_call "yield" 400 "ns" 0
        "sched_yield and the return to user space when no other task runs between; a guess",
    pass "pass" 600 "ns" 1
        "one turn of the dispatch loop that finds nothing: clock, rings, idle masks; a guess",
    pass_record "pass-record" 250 "ns" 0
        "each record taken and given to the policy; the aim for the policy alone is under 200 ns (issue 3)",
    pass_dispatch "pass-dispatch" 150 "ns" 0
        "each decision written to the user ring; a guess",
    pass_event "pass-event" 200 "ns" 0
        "each process event given to the policy; a guess",
    observe_cpu "observe-cpu" 20 "ns" 0
        "each CPU in the observation that comes every 10 ms; a guess",
}

/// A figure this large is a mistake, and products of it with times stay below 2^64.
const LARGEST: u64 = 100_000_000;

impl Costs {
    /// Applies one `NAME=VALUE`; the error is one line.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| format!("'{text}': write NAME=VALUE, as in context-switch=1500"))?;
        let (entry, least) =
            self.entry(name).ok_or_else(|| format!("there is no cost '{name}': --list-costs lists them"))?;
        *entry = value
            .parse()
            .ok()
            .filter(|v| (least..=LARGEST).contains(v))
            .ok_or_else(|| format!("'{value}' for {name}: give a whole number from {least} to {LARGEST}"))?;
        Ok(())
    }

    /// Applies a file of them: `NAME=VALUE`, one a line; from `#` on a line is a remark. The error is one line.
    pub fn set_all(&mut self, text: &str) -> Result<(), String> {
        for (number, line) in (1..).zip(text.lines()) {
            let pair = line.split('#').next().unwrap_or_default().trim();
            if !pair.is_empty() {
                self.set(pair).map_err(|e| format!("line {number}: {e}"))?;
            }
        }
        Ok(())
    }

    /// How long a producer holds the queued ring's lock with `producers` at it, ns.
    pub fn ring_hold(&self, producers: u64) -> u64 {
        self.ring_record + producers.saturating_sub(1) * self.ring_producer
    }

    /// The table of `--list-costs`.
    pub fn table(&self) -> String {
        let mut text = String::from("Costs of the simulated machine, set with --cost NAME=VALUE\n\n");
        let _ = writeln!(text, "  {:<15} {:>9} {:<9} source", "name", "value", "unit");
        for (name, value, unit, source) in self.list() {
            let _ = writeln!(text, "  {name:<15} {value:>9} {unit:<9} {source}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_reaches_the_reported_rates() {
        let costs = Costs::default();
        assert_eq!(1_000_000_000 / costs.ring_hold(1) / 1_000_000, 10); // 10.99 M
        let many = 1_000_000_000 / costs.ring_hold(48);
        assert!((1_150_000..1_250_000).contains(&many), "{many}");
    }

    #[test]
    fn a_cost_is_set_by_name_and_a_wrong_one_is_named() {
        let mut costs = Costs::default();
        assert_eq!(costs.set("kick=5"), Ok(()));
        assert_eq!(costs.kick, 5);
        for (text, word) in [("kick", "NAME=VALUE"), ("kik=1", "'kik'"), ("kick=x", "'x'"), ("hz=0", "from 1")] {
            assert!(costs.set(text).unwrap_err().contains(word), "{text}");
        }
    }

    #[test]
    fn a_file_of_costs_has_remarks_and_a_wrong_line_is_named() {
        let mut costs = Costs::default();
        assert_eq!(costs.set_all("# measured\nkick=5 # so\n\n  wake-up=7\n"), Ok(()));
        assert_eq!((costs.kick, costs.wake_up), (5, 7));
        let error = costs.set_all("kick=5\nkik=1").unwrap_err();
        assert!(error.contains("line 2") && error.contains("'kik'") && !error.contains('\n'), "{error}");
    }
}
