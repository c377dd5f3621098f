//! Policy time per event, and what one event of the simulator takes: `make bench`.

mod script;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use script::{Script, cases, measured};
use soft_domain::ids::MS;
use soft_domain::policies;
use soft_domain::service::Pattern;
use soft_domain::sim::cost::Costs;
use soft_domain::sim::{Machine, Setup, presets, workload};
use soft_domain::soft_domain::Settings;
use soft_domain::topology::Level;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// `took` for `events`, as if there had been `wanted` of them: criterion asks for any number.
fn scaled(took: Duration, events: u64, wanted: u64) -> Duration {
    took.mul_f64(wanted as f64 / events.max(1) as f64)
}

fn policy(c: &mut Criterion) {
    // The names say CPUs and tasks.
    let mut group = c.benchmark_group("policy");
    group.sampling_mode(SamplingMode::Flat).sample_size(20);
    for case in cases() {
        let script = Script::new(case);
        group.bench_function(BenchmarkId::from_parameter(case), |b| {
            b.iter_custom(|wanted| {
                let (mut took, mut events) = (Duration::ZERO, 0);
                while events < wanted {
                    let (mut policy, mut out) = script.begin();
                    let began = Instant::now();
                    black_box(measured(&mut policy, script.calls(), &mut out));
                    took += began.elapsed();
                    events += script.events();
                }
                scaled(took, events, wanted)
            });
        });
    }
    group.finish();
}

/// The default run of `sdlab sim`, shorter: a fleet on 8 and on 384 CPUs.
fn simulator(c: &mut Criterion) {
    let mut group = c.benchmark_group("simulator");
    group.sampling_mode(SamplingMode::Flat).sample_size(10).throughput(Throughput::Elements(1));
    for (cpus, shape, duration) in
        [(8, "nodes=2,llcs=2,cores=2", 1000 * MS), (384, "nodes=4,llcs=6,cores=16", 100 * MS)]
    {
        group.bench_function(BenchmarkId::from_parameter(format!("{cpus} CPUs")), |b| {
            b.iter_custom(|wanted| {
                let (mut took, mut events) = (Duration::ZERO, 0);
                while events < wanted {
                    let (mut machine, began) = (fleet(shape), Instant::now());
                    machine.run(duration);
                    took += began.elapsed();
                    events += machine.results().totals.events;
                }
                scaled(took, events, wanted)
            });
        });
    }
    group.finish();
}

fn fleet(shape: &str) -> Machine {
    let topology = presets::topology(shape).expect("a shape");
    let workload = workload::parse("fleet", &topology).expect("a workload");
    let services = workload.services.iter().map(|s| Pattern::new(s).expect("a pattern")).collect();
    let settings = Settings { services, ..Settings::default() };
    let policy = policies::build("soft-domain", &topology, &settings).expect("a policy");
    let setup = Setup { topology: &topology, costs: &Costs::default(), level: Level::Cpu, seed: 1 };
    Machine::new(&setup, policy, workload)
}

criterion_group!(benches, policy, simulator);
criterion_main!(benches);
