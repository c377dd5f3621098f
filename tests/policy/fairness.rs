//! Shares of CPU time, and who goes first.

use crate::machine::{FOREVER, Machine, State};
use crate::script::settings;
use soft_domain::cpumask::CpuMask;
use soft_domain::event::Reason;
use soft_domain::ids::{CpuId, MS, Ns};
use soft_domain::soft_domain::SoftDomain;
use soft_domain::topology::{Level, Topology};

fn soft(t: &Topology) -> Machine<SoftDomain> {
    let settings = settings(Level::Cpu, 512);
    let limits = settings.limits;
    Machine::new(t, SoftDomain::new(t, settings), limits)
}

fn burner(m: &mut Machine<SoftDomain>, pid: i32, weight: u32) {
    let t = m.start(pid, "burn");
    (t.run, t.weight) = (FOREVER, weight);
    m.wake(pid);
}

fn got(m: &Machine<SoftDomain>, pid: i32) -> Ns {
    // What it has from a stint that goes on is not counted yet: at most a slice.
    m.tasks[&pid].got
}

#[test]
fn equal_burners_of_one_llc_get_equal_shares() {
    for (cpus, burners) in [(1, 2), (1, 7), (4, 5), (8, 9), (8, 17), (3, 64)] {
        let mut m = soft(&Topology::grid(1, 1, cpus, 1));
        (0..burners).for_each(|i| burner(&mut m, 100 + i, 100));
        m.advance(4_000 * MS);
        let shares: Vec<Ns> = (0..burners).map(|i| got(&m, 100 + i)).collect();
        let (least, most) = (shares.iter().min().expect("one"), shares.iter().max().expect("one"));
        assert!(most * 10 <= least * 13, "{burners} burners on {cpus} CPUs: {least} to {most} ns");
        let all: Ns = shares.iter().sum();
        assert!(all >= cpus as u64 * 4_000 * MS * 98 / 100, "idle CPUs: {all}");
    }
}

#[test]
fn burners_of_different_weight_share_by_weight() {
    // Nice 0 and nice 10 on one CPU, pinned or not; 100 to 11, within 25%.
    for pinned in [false, true] {
        let mut m = soft(&Topology::grid(1, 1, 1 + usize::from(pinned), 1));
        for (pid, weight) in [(100, 100), (101, 11)] {
            let t = m.start(pid, "burn");
            (t.run, t.weight) = (FOREVER, weight);
            m.set_mask(pid, if pinned { CpuMask::of(CpuId(1)) } else { CpuMask::ALL });
            m.wake(pid);
        }
        m.advance(10_000 * MS);
        let (heavy, light) = (got(&m, 100), got(&m, 101));
        let ratio = heavy * 100 / light;
        assert!((682..=1136).contains(&ratio), "{heavy} to {light} ns, pinned: {pinned}");
    }
}

#[test]
fn a_pinned_burner_and_free_ones_share_a_cpu() {
    let mut m = soft(&Topology::grid(1, 1, 2, 1));
    m.start(100, "burn").run = FOREVER;
    m.set_mask(100, CpuMask::of(CpuId(0)));
    m.wake(100);
    (101..105).for_each(|pid| burner(&mut m, pid, 100));
    m.advance(8_000 * MS);
    let shares: Vec<Ns> = (100..105).map(|pid| got(&m, pid)).collect();
    let (least, most) = (shares.iter().min().expect("one"), shares.iter().max().expect("one"));
    assert!(most * 10 <= least * 13, "{shares:?}");
}

#[test]
fn a_short_sleeper_goes_before_burners() {
    for preempts in [false, true] {
        let mut m = soft(&Topology::grid(1, 1, 2, 1));
        m.preempts = preempts;
        (100..108).for_each(|pid| burner(&mut m, pid, 100));
        let t = m.start(50, "periodic");
        (t.run, t.sleep) = (MS / 5, 0);
        m.wake(50);
        m.advance(500 * MS);
        let (mut longest, slice) = (0, m.limits.slice_ns);
        for _ in 0..200 {
            m.advance(9_700_000);
            assert!(matches!(m.tasks[&50].state, State::Asleep(_)));
            let woken = m.now;
            m.wake(50);
            while !matches!(m.tasks[&50].state, State::Running(_)) {
                m.advance(MS / 10);
            }
            longest = longest.max(m.now - woken);
        }
        assert!(longest <= if preempts { 0 } else { slice }, "waited {longest} ns, preempts: {preempts}");
        assert!(!preempts || m.by_reason.contains_key(&Reason::Behind), "{:?}", m.by_reason);
    }
}

#[test]
fn two_tasks_that_nap_do_not_starve_a_burner() {
    // Each runs for a while and naps for a moment: together they could fill the CPU for ever.
    for run in [4_900_000, 2_000_000, 400_000, 120_000] {
        let mut m = soft(&Topology::grid(1, 1, 1, 1));
        for pid in [100, 101] {
            let t = m.start(pid, "napper");
            (t.run, t.sleep) = (run, MS / 10);
            m.wake(pid);
        }
        burner(&mut m, 102, 100);
        m.advance(4_000 * MS);
        let share = got(&m, 102) * 100 / (4_000 * MS);
        assert!(share >= 20, "beside naps after {run} ns the burner has {share}% of the CPU");
    }
}

#[test]
fn a_crowd_with_masks_does_not_hide_a_task_from_its_free_cpu() {
    // Sixty-four burners may use two CPUs of four; one may use all: it has a CPU to itself.
    let mut m = soft(&Topology::grid(1, 1, 4, 1));
    for pid in 100..164 {
        m.start(pid, "burn").run = FOREVER;
        m.set_mask(pid, [CpuId(0), CpuId(1)].into_iter().collect());
        m.wake(pid);
    }
    burner(&mut m, 50, 100);
    m.advance(4_000 * MS);
    let share = got(&m, 50) * 100 / (4_000 * MS);
    assert!(share >= 90, "{share}% of a CPU");
}

#[test]
fn a_pinned_task_takes_its_idle_cpu_at_once() {
    let mut m = soft(&Topology::grid(1, 1, 3, 1));
    m.idle_bound = 0;
    // One with an earlier deadline waits in the LLC's queue, but may not use CPU 2.
    for pid in 100..103 {
        m.start(pid, "burn").run = FOREVER;
        m.set_mask(pid, [CpuId(0), CpuId(1)].into_iter().collect());
        m.wake(pid);
    }
    m.start(200, "nice").weight = 1;
    m.set_mask(200, CpuMask::of(CpuId(2)));
    m.wake(200);
    assert_eq!(m.tasks[&200].state, State::Running(CpuId(2)));
}

#[test]
fn burners_that_pile_up_in_one_llc_spread_over_all() {
    let t = Topology::grid(2, 2, 4, 1);
    let mut m = soft(&t);
    let narrow = *t.llc_cpus(t.llcs().next().expect("an LLC"));
    for pid in 100..132 {
        m.start(pid, "burn").run = FOREVER;
        m.set_mask(pid, narrow);
        m.wake(pid);
    }
    // All have their domain in the first LLC now; then they may go where they like.
    m.advance(300 * MS);
    (100..132).for_each(|pid| m.set_mask(pid, CpuMask::ALL));
    m.advance(2_000 * MS);
    let before: Vec<Ns> = (100..132).map(|pid| got(&m, pid)).collect();
    m.advance(4_000 * MS);
    let shares: Vec<Ns> = (100..132).zip(before).map(|(pid, b)| got(&m, pid) - b).collect();
    let (least, most) = (shares.iter().min().expect("one"), shares.iter().max().expect("one"));
    assert!(most * 10 <= least * 13, "{shares:?}");
}
