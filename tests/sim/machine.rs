use crate::support::{Run, every_policy, line};
use soft_domain::cpumask::CpuMask;
use soft_domain::ids::{CpuId, MS, Ns, US};
use soft_domain::sim::cost::Costs;
use soft_domain::sim::program::{Op, TaskSpec, Workload};
use soft_domain::sim::{presets, workload};
use soft_domain::topology::Topology;

fn burner(service: &str, allowed: CpuMask) -> TaskSpec {
    let program = vec![Op::Run { ns: MS, spread: 0 }, Op::Count(1), Op::Jump(0)];
    TaskSpec { allowed, ..TaskSpec::new(service, program) }
}

fn tasks(tasks: Vec<TaskSpec>) -> Workload {
    Workload { tasks, ..Workload::default() }
}

#[test]
fn a_machine_with_one_cpu_works() {
    let run = Run::on(Topology::grid(1, 1, 1, 1), 300 * MS);
    for policy in every_policy() {
        for name in ["fleet", "burners,tasks=3", "periodic", "forks,parents=2", "pipe,pairs=2", "mixed"] {
            let r = run.named(policy, name);
            assert!(r.faults.is_empty(), "{policy} {name}: {:?}", r.faults);
            assert!(r.totals.woken_and_run > 0, "{policy} {name}");
        }
    }
}

#[test]
fn grids_from_one_cpu_to_the_largest_run() {
    for (nodes, llcs, cores, smt) in
        [(1, 1, 1, 1), (1, 1, 1, 2), (2, 1, 1, 1), (2, 3, 4, 2), (8, 8, 16, 1), (2, 4, 64, 2)]
    {
        let t = Topology::grid(nodes, llcs, cores, smt);
        for policy in every_policy() {
            let r = Run::on(t.clone(), 8 * MS).named(policy, "fleet");
            assert!(r.faults.is_empty(), "{policy} {t}: {:?}", r.faults);
            assert!(line(&r, "valkey-server").tally.requests > 0, "{policy} on {} CPUs", r.cpus);
        }
    }
}

#[test]
fn a_lone_task_has_the_whole_cpu() {
    let r = Run::on(Topology::grid(1, 1, 2, 1), 1000 * MS).workload("fifo", tasks(vec![burner("b", CpuMask::ALL)]));
    // 1,000 ms less the way to the CPU and the dispatch() at each slice end.
    assert_eq!(line(&r, "b").tally.requests, 999);
}

#[test]
fn siblings_share_their_core_by_the_smt_share() {
    let of = |cpu| CpuMask::of(CpuId(cpu));
    let t = Topology::grid(1, 1, 2, 2);
    let together = Run::on(t.clone(), 1000 * MS).workload("fifo", tasks(vec![burner("a", of(0)), burner("b", of(1))]));
    let apart = Run::on(t, 1000 * MS).workload("fifo", tasks(vec![burner("a", of(0)), burner("b", of(2))]));
    let requests = |r| line(r, "a").tally.requests;
    assert!((610..=621).contains(&requests(&together)), "{}", requests(&together));
    assert!((990..=1000).contains(&requests(&apart)), "{}", requests(&apart));
}

#[test]
fn slow_cores_take_longer() {
    let t = presets::topology("hybrid-laptop").unwrap();
    let of = |cpu| CpuMask::of(CpuId(cpu));
    let r = Run::on(t, 1000 * MS).workload("fifo", tasks(vec![burner("fast", of(0)), burner("slow", of(12))]));
    let (fast, slow) = (line(&r, "fast").tally.requests, line(&r, "slow").tally.requests);
    assert!((620..=626).contains(&(slow * 1000 / fast)), "{slow} {fast}");
}

/// A task that changes its mask from CPU 0 to `cpu` and back, and computes on each.
fn wanderer(cpu: u16, remote_memory: u64, refill_llc: u64) -> Ns {
    let of = |cpu| Op::SetMask(CpuMask::of(CpuId(cpu)));
    let run = Op::Run { ns: 100 * US, spread: 0 };
    let program = vec![of(0), run.clone(), of(cpu), run, Op::Repeat { to: 0, times: 10, counter: 0 }];
    let spec = TaskSpec { working_set_kib: 1024, ..TaskSpec::new("w", program) };
    let run = Run::on(Topology::grid(2, 2, 2, 1), 100 * MS);
    let run = run.cost(&format!("remote-memory={remote_memory}")).cost(&format!("refill-llc={refill_llc}"));
    let r = run.workload("fifo", tasks(vec![spec]));
    let t = &line(&r, "w").tally;
    let distance = [0, 2, 3, 3, 4].get(usize::from(cpu)).copied().unwrap_or(4);
    assert!(t.moves[distance] >= 19, "{:?}", t.moves);
    t.cpu_ns
}

#[test]
fn a_move_costs_more_the_further_it_goes() {
    let [llc, node, machine] = [1, 2, 4].map(|cpu| wanderer(cpu, 0, 50));
    assert!(llc < node && node < machine, "{llc} {node} {machine}");
    // 20 moves of 1 MiB at 50 ns per KiB against none.
    let free = wanderer(1, 0, 0);
    assert!((19 * 51 * US..20 * 52 * US).contains(&(llc - free)), "{llc} {free}");
    assert!(wanderer(4, 500, 50) > machine, "half its work is on memory far away");
}

#[test]
fn a_task_keeps_to_its_mask_and_follows_when_it_changes() {
    let pinned = TaskSpec { allowed: CpuMask::of(CpuId(3)), ..burner("pinned", CpuMask::ALL) };
    let mut all = vec![pinned];
    all.extend((0..12).map(|_| burner("free", CpuMask::ALL)));
    for policy in every_policy() {
        let r = Run::on(Topology::grid(1, 2, 4, 1), 500 * MS).workload(policy, tasks(all.clone()));
        // The machine itself checks every stint against the mask.
        assert_eq!(line(&r, "pinned").tally.all_moves(), 0, "{policy}");
        assert!(line(&r, "pinned").tally.requests > 10, "{policy}: {}", line(&r, "pinned").tally.requests);
        assert_eq!((r.totals.bounced, r.faults.len()), (0, 0), "{policy}");
    }
}

#[test]
fn soft_domain_leaves_no_cpu_idle_while_burners_wait() {
    let run = Run::on(Topology::grid(2, 2, 4, 1), 1000 * MS);
    let r = run.named("soft-domain", "burners,tasks=48");
    let wasted = r.totals.idle_while_waiting_ns * 1000 / (r.duration * r.cpus);
    assert!(wasted < 10, "{wasted} permille");
}

#[test]
fn soft_domain_shares_an_llc_evenly() {
    // Debts of over two slices are forgiven, so it takes a while.
    let r = Run::on(Topology::grid(1, 1, 4, 1), 10_000 * MS).named("soft-domain", "burners,tasks=12");
    assert!(line(&r, "burner").fairness() > Some(800), "{:?}", line(&r, "burner").shares);
}

#[test]
fn slices_that_end_together_leave_nobody_on_a_cpu_for_ever() {
    // Of eight CPUs whose slices end at one tick one finds the scheduler; the kernel refills the others. Two burners of 32
    // once kept their CPUs for the whole run that way.
    for workload in ["burners,tasks=32", "burners,tasks=16"] {
        let r = Run::on(Topology::grid(1, 1, 8, 1), 10_000 * MS).named("soft-domain", workload);
        let fair = line(&r, "burner").fairness().expect("several");
        assert!(fair >= 800, "{workload}: {fair}");
    }
}

#[test]
fn a_fork_storm_ends_as_many_children_as_it_began() {
    for policy in every_policy() {
        let r = Run::on(Topology::grid(1, 1, 4, 1), 500 * MS).named(policy, "forks,parents=6,run=3ms");
        let (make, compiler) = (line(&r, "make"), line(&r, "compiler"));
        assert!(make.tally.requests > 100, "{policy}");
        assert_eq!(compiler.tasks, r.totals.forks, "{policy}");
        assert!(r.totals.forks - make.tally.requests <= 6, "{policy}: at most one unfinished child each");
    }
}

#[test]
fn a_mask_without_a_cpu_of_the_machine_means_a_task_that_never_runs() {
    let lost = TaskSpec { allowed: CpuMask::of(CpuId(99)), ..burner("lost", CpuMask::ALL) };
    let w = tasks(vec![lost, burner("b", CpuMask::ALL)]);
    let r = Run::on(Topology::grid(1, 1, 2, 1), 50 * MS).workload("fifo", w);
    assert_eq!(line(&r, "lost").tally.stints, 0);
    assert!(line(&r, "b").tally.requests > 40);
}

#[test]
fn a_program_that_neither_runs_nor_sleeps_does_not_stop_time() {
    let spin = TaskSpec::new("spin", vec![Op::Count(1), Op::Jump(0)]);
    let nothing = TaskSpec::new("nothing", vec![]);
    let yields = TaskSpec::new("yield", vec![Op::Yield, Op::Jump(0)]);
    let r = Run::on(Topology::grid(1, 1, 1, 1), 20 * MS).workload("fifo", tasks(vec![spin, nothing, yields]));
    assert_eq!(r.duration, 20 * MS);
    assert!(r.faults.is_empty());
}

#[test]
fn every_built_in_workload_is_listed_and_runs_with_its_defaults() {
    let t = Topology::grid(1, 2, 2, 1);
    for name in ["fleet", "burners", "periodic", "forks", "pipe", "mixed"] {
        assert!(workload::table().contains(name));
        let r = Run::on(t.clone(), 50 * MS).named("soft-domain", name);
        assert!(r.faults.is_empty(), "{name}: {:?}", r.faults);
    }
    for (text, word) in
        [("fleet,x=1", "no key 'x'"), ("pipe,run=1", "a time"), ("fleet,set=-1", "100000"), ("fleet,y", "KEY=VALUE")]
    {
        let error = workload::parse(text, &t).unwrap_err();
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn no_cost_at_all_and_absurd_costs_neither_hang_nor_overflow() {
    let names: Vec<&str> = Costs::default().list().iter().map(|(name, ..)| *name).collect();
    for value in ["0", "1", "100000000"] {
        let mut run = Run::on(Topology::grid(2, 2, 1, 2), 200 * US);
        for name in &names {
            // Where 0 is not allowed the default stays.
            let _ = run.costs.set(&format!("{name}={value}"));
        }
        for name in ["pipe,run=0", "fleet,server=0,client=0", "forks,run=0", "mixed"] {
            run.named("soft-domain", name);
            run.named("fifo", name);
        }
        let yields = TaskSpec::new("yield", vec![Op::Yield, Op::Jump(0)]);
        run.duration = 20 * US;
        run.workload("fifo", tasks(vec![yields.clone(), yields]));
    }
}

#[test]
fn a_response_time_reaches_from_the_request_to_the_first_instruction_after_its_answer() {
    let r = Run::on(Topology::grid(1, 1, 4, 1), 200 * MS).named("fifo", "fleet,instances=1,server=1ms,spread=0%,set=0");
    let times = &line(&r, "client").tally.response;
    assert_eq!(times.count() * 400, line(&r, "client").tally.requests);
    // 1 ms of work, two wake-ups and their switches.
    assert!((970 * US..1_060 * US).contains(&times.at_permille(500)), "{}", times.at_permille(500));
    assert!((1_003 * US..1_030 * US).contains(&times.mean()), "{}", times.mean());
}
