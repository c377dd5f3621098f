//! rt-app files.

use crate::support::{Run, line};
use proptest::prelude::*;
use soft_domain::ids::MS;
use soft_domain::sim::program::{Op, Workload};
use soft_domain::sim::workload::parse_rtapp;
use soft_domain::topology::Topology;

fn parse(text: &str) -> Result<Workload, String> {
    parse_rtapp(text, &Topology::grid(1, 1, 4, 1))
}

fn task(body: &str) -> String {
    format!("{{ \"tasks\": {{ \"t\": {{ {body} }} }} }}")
}

#[test]
fn events_keep_their_order_though_keys_repeat_or_are_numbered() {
    let w = parse(&task(r#""run": 1, "sleep": 2, "run": 3, "run0": 4, "sleep12": 5"#)).unwrap();
    let run = |us: u64| Op::Run { ns: us * 1000, spread: 0 };
    let sleep = |us: u64| Op::Sleep { ns: us * 1000, spread: 0 };
    let ops: Vec<Op> = w.tasks[0].program.to_vec();
    assert_eq!(ops, [run(1), sleep(2), run(3), run(4), sleep(5), Op::Jump(0), Op::Exit]);
}

#[test]
fn an_unsupported_key_is_an_error_that_names_it_and_where() {
    let cases = [
        (task(r#""run": 1, "mem": 5"#), "line 1: key \"mem\" of task \"t\""),
        (
            task("\n\"phases\": {\n \"p\": { \"run\": 1, \"iorun\": 5 } }"),
            "line 3: key \"iorun\" of phase \"p\" of task \"t\"",
        ),
        (r#"{ "tasks": {}, "glob": {} }"#.into(), "key \"glob\" of the file"),
        (r#"{ "global": { "durations": 1 }, "tasks": {} }"#.into(), "key \"durations\" of \"global\""),
        (task(r#""timer": { "ref": "u", "period": 5, "foo": 1 }"#), "key \"foo\" of timer of task \"t\""),
        (task(r#""taskgroup": "/tg", "run": 1"#), "\"taskgroup\""),
        (task(r#""dl-runtime": 5, "run": 1"#), "\"dl-runtime\""),
    ];
    for (text, words) in cases {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(words) && error.contains("not supported") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_wrong_value_is_an_error_that_says_what_is_right() {
    let cases = [
        (task(r#""run": -1"#), "\"run\" must be a whole number"),
        (task(r#""run": "x""#), "\"run\" must be a whole number"),
        (task(r#""run": 1.5"#), "\"run\" must be a whole number"),
        (task(r#""run": 1, "cpus": [7]"#), "a CPU of the simulated machine, which has 0-3"),
        (task(r#""run": 1, "cpus": 1"#), "a list of CPU numbers"),
        (task(r#""run": 1, "policy": "SCHED_FIFO""#), "SCHED_OTHER or SCHED_IDLE"),
        (task(r#""run": 1, "priority": 50"#), "from -20 to 19"),
        (task(r#""timer": { "ref": "u" }"#), "\"period\""),
        (task(r#""wait": { "ref": "u" }"#), "\"mutex\""),
        (task(r#""fork": "nobody""#), "name of a task"),
        (task(r#""loop": 5"#), "does nothing"),
        (task(r#""run": 1, "instance": 0"#), "nothing to simulate"),
        ("[]".into(), "one object"),
        ("{}".into(), "no \"tasks\""),
        ("{ \"tasks\": 1 }".into(), "an object"),
        ("{ \"tasks\" 1 }".into(), "colon"),
        (String::new(), "line 1"),
    ];
    for (text, words) in cases {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(words) && error.starts_with("line ") || error.contains("nothing to"), "{text}: {error}");
    }
}

#[test]
fn a_periodic_thread_runs_once_a_period_however_late_it_is() {
    let body = r#""instance": 3, "run": 2000, "timer": { "ref": "unique", "period": 10000 }, "#;
    let w = parse(&task(body)).unwrap();
    let r = Run::on(Topology::grid(1, 1, 4, 1), 1000 * MS).workload("fifo", w);
    let t = &line(&r, "t").tally;
    assert!((297..=303).contains(&t.wakeups), "{}", t.wakeups);
}

#[test]
fn suspend_and_resume_pass_the_turn() {
    let text = r#"{ "tasks": {
        "a": { "loop": 50, "run": 100, "resume": "b", "suspend": "" },
        "b": { "loop": 50, "suspend": "b", "run": 100, "resume": "a" } } }"#;
    let r = Run::on(Topology::grid(1, 1, 2, 1), 200 * MS).workload("fifo", parse(text).unwrap());
    assert!(line(&r, "a").tally.wakeups >= 45, "{}", line(&r, "a").tally.wakeups);
}

#[test]
fn a_barrier_holds_until_all_have_come() {
    let text = r#"{ "tasks": {
        "quick": { "instance": 3, "loop": -1, "run": 10, "barrier": "b" },
        "slow": { "loop": -1, "sleep": 10000, "barrier": "b" } } }"#;
    let r = Run::on(Topology::grid(1, 1, 4, 1), 1000 * MS).workload("fifo", parse(text).unwrap());
    // One round in 10 ms, by the slow one.
    let wakeups = line(&r, "quick").tally.wakeups / 3;
    assert!((90..=101).contains(&wakeups), "{wakeups}");
}

#[test]
fn phases_change_mask_and_priority_and_loops_nest() {
    let text = r#"{ "global": { "duration": 3, "ftrace": "none" }, "tasks": { "t": { "loop": 2, "cpus": [0, 1], "phases": {
        "p1": { "loop": 3, "cpus": [2], "priority": -5, "run": 1000, "sleep": 1000 },
        "p2": { "run": 500 } } } } }"#;
    let w = parse(text).unwrap();
    assert_eq!(w.duration, Some(3000 * MS));
    let r = Run::on(Topology::grid(1, 1, 4, 1), 100 * MS).workload("fifo", w);
    let t = &line(&r, "t").tally;
    // Its work is 2 x (3 x 1 ms + 0.5 ms), then it ends.
    assert!((7000..7200).contains(&(t.cpu_ns / 1000)), "{}", t.cpu_ns);
    assert!((3..=4).contains(&t.all_moves()), "{:?}", t.moves);
}

#[test]
fn old_files_with_resources_and_trailing_commas_are_read() {
    let text = r#"{ "tasks": {
        "tick": { "priority": -19, "loop": -1, "lock1": "m", "signal2": "trig", "unlock3": "m",
                  "timer4": { "ref": "tick", "period": 6000 }, },
        "out": { "loop": -1, "lock0": "m", "wait1": { "ref": "w", "mutex": "m" }, "unlock2": "m", "run3": 275, }, },
        "resources": { "m": { "type": "mutex" }, "w": { "type": "wait" }, "trig": { "type": "signal", "target": "w" }, },
        "global": { "default_policy": "SCHED_OTHER", "duration": 5, "frag": 1, "calibration": "CPU0", } }"#;
    let r = Run::on(Topology::grid(1, 1, 2, 1), 600 * MS).workload("fifo", parse(text).unwrap());
    assert!((95..=101).contains(&line(&r, "out").tally.wakeups), "{}", line(&r, "out").tally.wakeups);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_damage_to_a_good_file_makes_it_panic_or_hang(at in 0usize..220, byte in any::<u8>(), cut in 0usize..220) {
        let good = task(r#""instance": 2, "phases": { "p": { "loop": 3, "run0": 10, "cpus": [1], "barrier": "b" },
            "q": { "timer": { "ref": "unique", "period": 100, "mode": "absolute" }, "suspend": "", "resume": "t" } }"#);
        let mut bytes = good.into_bytes();
        if let Some(b) = bytes.get_mut(at) {
            *b = byte;
        }
        bytes.truncate(bytes.len() - cut.min(bytes.len()) / 8);
        if let Ok(w) = parse(&String::from_utf8_lossy(&bytes)) {
            Run::on(Topology::grid(1, 1, 4, 1), MS).workload("fifo", w);
        }
    }
}
