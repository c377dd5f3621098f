//! Instructions and data accesses of the policy per event, counted by callgrind: the same on every run, whatever else
//! the machine does. `cargo bench --bench instructions`; it starts itself under valgrind once for every case.

mod script;

use script::{Case, Script, cases, measured};
use std::process::{Command, ExitCode};

/// Tells this program that it is the one to be counted.
const CASE: &str = "COUNT_CASE";

/// Caches to simulate: 32 KiB and 8-way for data (the usual first level), 2 MiB as the last (a second level of servers).
const CALLGRIND: &[&str] = &[
    "--tool=callgrind",
    "--callgrind-out-file=/dev/null",
    "--cache-sim=yes",
    "--D1=32768,8,64",
    "--LL=2097152,16,64",
    "--toggle-collect=*script::measured*",
];

fn main() -> ExitCode {
    if let Some(case) = std::env::var_os(CASE) {
        let case = cases().find(|c| c.to_string() == case.to_string_lossy()).expect("one of the cases");
        let script = Script::new(case);
        let (mut policy, mut out) = script.begin();
        std::hint::black_box(measured(&mut policy, script.calls(), &mut out));
        println!("events {}", script.events());
        let mut n = [0; 5];
        for c in script.calls() {
            n[match c.name() {
                "enqueue" => 0,
                "dispatch" => 1,
                "observe" => 2,
                "process" => 3,
                _ => 4,
            }] += 1
        }
        eprintln!(
            "{n:?} {:?}",
            script.calls().last().and_then(|c| c.now()).unwrap() - script.calls()[0].now().unwrap()
        );
        let mut w = 0;
        let mut nd = 0u64;
        let mut idle = 0;
        let mut mx = 0;
        {
            let (mut p, mut o) = script.begin();
            use soft_domain::policy::Policy;
            for c in script.calls() {
                c.give(&mut p, &mut o);
                if let soft_domain::trace::call::Call::Dispatch(_, r) = c {
                    w += p.waiting();
                    mx = mx.max(p.waiting());
                    nd += o.dispatch.len() as u64;
                    idle += r.idle.count();
                    o.clear()
                }
            }
            let mut cs = String::new();
            for c in soft_domain::stats::Counter::ALL {
                cs += &format!("{c:?}={} ", p.counters().unwrap().get(*c))
            }
            eprintln!("waiting after pass {} max {mx} dispatched {nd} idle {} {cs}", w / n[1], idle / n[1]);
        }
        return ExitCode::SUCCESS;
    }
    println!("per event        instructions  reads and writes  lines not in L1  nor in L2");
    for case in cases() {
        match count(case) {
            Ok([instructions, accesses, l1, l2]) => {
                let case = format!("{:>4} CPUs {:>6} tasks", case.cpus, case.tasks);
                println!("{case} {instructions:>8.0}  {accesses:>16.0}  {l1:>15.1}  {l2:>9.1}");
            }
            Err(e) => {
                eprintln!("instructions: {e}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Instructions, data accesses, misses of the first and of the last cache, per event.
fn count(case: Case) -> Result<[f64; 4], String> {
    let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let output = Command::new("valgrind")
        .args(CALLGRIND)
        .arg(own)
        .env(CASE, case.to_string())
        .output()
        .map_err(|e| format!("cannot run valgrind ({e}): install it, as vm/setup.sh bench does"))?;
    let (text, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let events = text.lines().find_map(|l| l.strip_prefix("events ")?.parse::<f64>().ok());
    let words = |line: &str| {
        let line = log.lines().find_map(|l| l.split_once(line))?;
        Some(line.1.trim_start_matches([' ', ':']).split_whitespace().collect::<Vec<_>>())
    };
    let (Some(events), Some(names), Some(values)) = (events, words("Events "), words("Collected ")) else {
        return Err(format!("{case}: valgrind ended with {} and says:\n{log}", output.status));
    };
    let sum = |wanted: &[&str]| {
        let pairs = names.iter().zip(&values).filter(|(name, _)| wanted.contains(name));
        pairs.filter_map(|(_, v)| v.parse::<f64>().ok()).sum::<f64>() / events
    };
    Ok([sum(&["Ir"]), sum(&["Dr", "Dw"]), sum(&["D1mr", "D1mw"]), sum(&["DLmr", "DLmw"])])
}
