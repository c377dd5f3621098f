mod affinity;
mod bpf;
#[allow(non_upper_case_globals, non_camel_case_types, non_snake_case, dead_code, clippy::all)]
mod bpf_intf { include!(concat!(env!("OUT_DIR"), "/bpf_intf.rs")); }
mod bpf_skel { include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs")); }
mod eyes_skel { include!(concat!(env!("OUT_DIR"), "/eyes_skel.rs")); }
mod dispatcher;
mod eyes;
fn main() -> anyhow::Result<()> {
    let n: usize = std::fs::read_to_string("/sys/devices/system/cpu/online")?.trim().rsplit('-').next().unwrap().parse::<usize>()? + 1;
    let topology = soft_domain::topology::Topology::grid(1, n.div_ceil(2), 2.min(n), 1);
    let mut p = soft_domain::policies::fifo::Fifo::new(65536, 0);
    dispatcher::run(&mut p, &topology, &dispatcher::Options { slice_ns: 5_000_000, partial: false, exit_dump_len: 0, verbose: false })
}
