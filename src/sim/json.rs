//! Results as JSON: fields in a fixed order, whole numbers only.

use super::metrics::{Fault, Tally};
use super::report::Title;
use super::results::{Line, Results};
use std::fmt::Write;

/// A JSON text in the making.
#[derive(Default)]
struct Json {
    text: String,
    /// A comma is due before the next member.
    comma: bool,
}

impl Json {
    fn key(&mut self, key: &str) {
        self.separate();
        self.quoted(key);
        self.text.push(':');
        self.comma = false;
    }

    fn separate(&mut self) {
        if self.comma {
            self.text.push(',');
        }
        self.comma = true;
    }

    fn quoted(&mut self, text: &str) {
        self.text.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => self.text.extend(['\\', c]),
                c if (c as u32) < 0x20 => {
                    let _ = write!(self.text, "\\u{:04x}", c as u32);
                }
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }

    fn number(&mut self, key: &str, value: u64) {
        self.key(key);
        let _ = write!(self.text, "{value}");
        self.comma = true;
    }

    fn maybe(&mut self, key: &str, value: Option<u64>) {
        match value {
            Some(value) => self.number(key, value),
            None => {
                self.key(key);
                self.text += "null";
                self.comma = true;
            }
        }
    }

    fn string(&mut self, key: &str, value: &str) {
        self.key(key);
        self.quoted(value);
        self.comma = true;
    }

    fn open(&mut self, bracket: char) {
        self.separate();
        self.text.push(bracket);
        self.comma = false;
    }

    fn close(&mut self, bracket: char) {
        self.text.push(bracket);
        self.comma = true;
    }

    fn list<T>(&mut self, key: &str, items: &[T], mut one: impl FnMut(&mut Json, &T)) {
        self.key(key);
        self.open('[');
        for item in items {
            self.text.push_str(if self.comma { ",\n" } else { "\n" });
            self.comma = false;
            one(self, item);
        }
        self.close(']');
    }
}

/// One object with everything, ended by a newline. Times are in ns, shares in permille.
pub fn text(title: &Title, r: &Results) -> String {
    let mut j = Json::default();
    j.open('{');
    j.number("version", 1);
    j.string("policy", &title.policy);
    j.string("workload", &title.workload);
    j.string("topology", &title.topology);
    j.number("seed", title.seed);
    j.number("cpus", r.cpus);
    j.number("duration_ns", r.duration);
    j.list("services", &r.services, |j, l| line(j, l, r));
    j.list("tasks", &r.tasks, |j, l| line(j, l, r));
    machine(&mut j, r);
    j.key("policy_counters");
    j.open('{');
    for (name, value) in &r.counters {
        j.number(name, *value);
    }
    j.close('}');
    j.list("broken_rules", &r.faults, |j, f| {
        let Fault { at, tid, service, text } = f;
        j.open('{');
        j.number("at_ns", *at);
        j.number("tid", u64::try_from(*tid).unwrap_or(0));
        j.string("service", service);
        j.string("rule", text);
        j.close('}');
    });
    j.number("ejected", u64::from(r.ejected));
    j.close('}');
    j.text.push('\n');
    j.text
}

fn line(j: &mut Json, l: &Line, r: &Results) {
    let t: &Tally = &l.tally;
    j.open('{');
    j.string("name", &l.name);
    j.number("tid", u64::try_from(l.tid).unwrap_or(0));
    j.number("tasks", l.tasks);
    j.number("requests", t.requests);
    j.number("requests_per_s", Line::per_second(t.requests, r.duration));
    j.number("cpu_ns", t.cpu_ns);
    j.number("waited_ns", t.waited_ns);
    j.number("stints", t.stints);
    j.number("wakeups", t.wakeups);
    j.number("latency_p50_ns", t.latency.at_permille(500));
    j.number("latency_p95_ns", t.latency.at_permille(950));
    j.number("latency_p99_ns", t.latency.at_permille(990));
    j.number("latency_max_ns", t.latency.max());
    j.number("response_mean_ns", t.response.mean());
    j.number("response_p50_ns", t.response.at_permille(500));
    j.number("response_p95_ns", t.response.at_permille(950));
    j.number("response_p99_ns", t.response.at_permille(990));
    for (name, n) in ["moves_core", "moves_cluster", "moves_llc", "moves_node", "moves_machine"].iter().zip(t.moves) {
        j.number(name, n);
    }
    j.maybe("home_cpu", l.home.map(|c| u64::from(c.0)));
    j.maybe("at_home_permille", l.at_home());
    j.maybe("fairness_permille", l.fairness());
    j.close('}');
}

fn machine(j: &mut Json, r: &Results) {
    let t = &r.totals;
    let numbers = [
        ("events", t.events),
        ("idle_ns", t.idle_ns),
        ("idle_while_waiting_ns", t.idle_while_waiting_ns),
        ("undecided_ns", t.undecided_ns),
        ("on_cpu_queue_ns", t.on_cpu_queue_ns),
        ("scheduler_ns", t.scheduler_ns),
        ("turns", t.passes),
        ("records", t.records),
        ("decisions", t.decisions),
        ("user_dispatches", t.user_dispatches),
        ("kernel_dispatches", t.kernel_dispatches),
        ("congested", t.congested),
        ("cancelled", t.cancelled),
        ("bounced", t.bounced),
        ("ring_full", t.ring_full),
        ("stolen_ns", t.stolen_ns),
        ("ring_wait_ns", t.ring_wait_ns),
        ("kicks_idle", t.kicks_idle),
        ("kicks_preempt", t.kicks_preempt),
        ("forks", t.forks),
        ("woken", t.woken),
        ("woken_and_run", t.woken_and_run),
        ("waiting_at_end", r.waiting),
        ("woken_and_waiting_at_end", r.woken_waiting),
        ("homes_given", t.homes[0]),
        ("homes_moved_in_llc", t.homes[1]),
        ("homes_moved_across_llcs", t.homes[2]),
        ("homes_moved_across_nodes", t.homes[3]),
    ];
    j.key("machine");
    j.open('{');
    for (name, value) in numbers {
        j.number(name, value);
    }
    j.close('}');
}
