#[path = "../affinity.rs"]
mod affinity;
#[path = "../bpf.rs"]
mod bpf;
#[allow(warnings)]
mod bpf_intf {
    include!(concat!(env!("OUT_DIR"), "/bpf_intf.rs"));
}
mod bpf_skel {
    include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));
}
mod eyes_skel {
    include!(concat!(env!("OUT_DIR"), "/eyes_skel.rs"));
}
#[path = "../dispatcher.rs"]
mod dispatcher;
#[path = "../ending.rs"]
mod ending;
#[path = "../eyes.rs"]
mod eyes;
use soft_domain::event::*;
use soft_domain::ids::*;
use soft_domain::policy::Policy;
fn main() -> anyhow::Result<()> {
    let topology = soft_domain::host::sysfs::read_topology(std::path::Path::new("/sys"))?;
    let args: Vec<String> = std::env::args().collect();
    let services =
        args.windows(2).filter(|w| w[0] == "-P").filter_map(|w| soft_domain::service::Pattern::new(&w[1])).collect();
    let mut p = soft_domain::soft_domain::SoftDomain::new(
        &topology,
        soft_domain::soft_domain::Settings { services, ..Default::default() },
    );
    let mut out = Answers::with_capacity(4096);
    for pr in procfs::process::all_processes()?.flatten() {
        let Ok(st) = pr.stat() else { continue };
        for t in pr.tasks()?.flatten() {
            p.process(
                0,
                &ProcessEvent::Thread {
                    tid: Tid(t.tid),
                    pid: Pid(pr.pid),
                    parent: Pid(st.ppid),
                    comm: Name::new(st.comm.as_bytes()),
                    kthread: st.flags & 0x200000 != 0,
                },
                &mut out,
            );
        }
        p.process(
            0,
            &ProcessEvent::Exec { pid: Pid(pr.pid), comm: Name::new(st.comm.as_bytes()), exe: Name::default() },
            &mut out,
        );
    }
    let r = dispatcher::run(
        &mut p,
        &topology,
        &dispatcher::Options {
            slice_ns: 5_000_000,
            partial: false,
            exit_dump_len: 0,
            show_dump: false,
            verbose: false,
        },
        &soft_domain::channel::Channel::create()?,
        &mut |_| Ok(()),
    );
    if let Some(c) = p.counters() {
        for k in soft_domain::stats::Counter::ALL {
            if c.get(*k) != 0 {
                eprintln!("{:>9} {}", c.get(*k), k.text());
            }
        }
    }
    for x in p.placement() {
        eprintln!("{x:?}");
    }
    eprintln!("{:?}", r?);
    Ok(())
}
