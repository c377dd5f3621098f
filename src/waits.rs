//! `scx_soft_domain waits`: how long runnable tasks wait for a CPU, whatever schedules them. See `bpf/waits.bpf.c`.

use crate::waits_skel::{WaitsSkelBuilder, types};
use anyhow::{Context, Result};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};
use soft_domain::host::clock::now;
use std::fmt::Write;
use std::mem::MaybeUninit;
use std::sync::mpsc;
use std::time::Duration;

/// Buckets per power of two, as in `bucket` of the kernel side.
const STEPS: u32 = 4;

/// Watches for `time`, or until Ctrl-C, and says what it saw; the waits of thread `except` do not count. Errors: not root; a kernel that refuses it.
pub fn run(time: Duration, except: Option<u32>) -> Result<String> {
    let (tell, asked) = mpsc::channel();
    ctrlc::set_handler(move || {
        let _ = tell.send(());
    })?;
    let mut object = MaybeUninit::uninit();
    let mut open = WaitsSkelBuilder::default().open(&mut object)?;
    open.maps.rodata_data.as_mut().context("no .rodata")?.except = except.unwrap_or_default();
    let mut skel = open.load().context("waits.bpf.c")?;
    skel.attach().context("attaching to sched_switch and sched_wakeup")?;
    let _ = asked.recv_timeout(time);
    // Those that wait still, too.
    let end = now();
    let mut waiting: Option<(u64, u32)> = None;
    for key in skel.maps.since.keys() {
        let value = skel.maps.since.lookup(&key, MapFlags::ANY)?.unwrap_or_default();
        let (Ok(tid), Ok(at)) = (<[u8; 4]>::try_from(key), <[u8; 8]>::try_from(value)) else { continue };
        let wait = (end.saturating_sub(u64::from_ne_bytes(at)), u32::from_ne_bytes(tid));
        waiting = waiting.max(Some(wait));
    }
    let bss = skel.maps.bss_data.as_ref().context("no .bss")?;
    Ok(report(bss, waiting))
}

fn report(bss: &types::bss, waiting: Option<(u64, u32)>) -> String {
    let mut counts = vec![0u64; bss.counts[0].len()];
    for cpu in &bss.counts {
        for (sum, n) in counts.iter_mut().zip(cpu) {
            *sum += n;
        }
    }
    let total: u64 = counts.iter().sum();
    let mut text = String::new();
    let mut line = |name: &str, ns: u64, rest: &str| {
        let _ = writeln!(text, "{name:<8} {:>12.3} ms{rest}", ns as f64 / 1e6);
    };
    let most = bss.longest.iter().map(|l| l.ns).max().unwrap_or_default();
    for (name, per_mille) in [("p50", 500), ("p99", 990), ("p99.9", 999)] {
        line(name, percentile(&counts, total, per_mille).min(most), "");
    }
    match bss.longest.iter().max_by_key(|l| l.ns) {
        Some(l) if waiting.is_none_or(|(ns, _)| ns <= l.ns) => {
            let comm: Vec<u8> = l.comm.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
            line("longest", l.ns, &format!("  {} {}", String::from_utf8_lossy(&comm).escape_default(), l.tid));
        }
        _ => {
            let (ns, tid) = waiting.unwrap_or_default();
            let comm = std::fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_else(|_| "?".into());
            line("longest", ns, &format!("  {} {tid}, which waits still", comm.trim().escape_default()));
        }
    }
    let _ = writeln!(text, "waits    {total:>12}");
    if bss.dropped > 0 {
        let _ = writeln!(text, "dropped  {:>12}  waits, for too many tasks waited at a time", bss.dropped);
    }
    text
}

/// The upper end of the bucket that holds it, ns: at most a quarter too much.
fn percentile(counts: &[u64], total: u64, per_mille: u64) -> u64 {
    let wanted = (total * per_mille).div_ceil(1000);
    let mut seen = 0;
    for (i, n) in counts.iter().enumerate() {
        seen += n;
        if seen >= wanted && seen > 0 {
            return upper_end(i as u32);
        }
    }
    0
}

/// The least number that is beyond bucket `i`: the kernel side has halved what it counts `i / STEPS` times, until 4 to 7 were
/// left.
fn upper_end(i: u32) -> u64 {
    u64::from(STEPS + i % STEPS + 1) << (i / STEPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_upper_end_of_its_bucket() {
        let mut counts = [0; 256];
        assert_eq!(percentile(&counts, 0, 500), 0);
        // 1,000,000 ns are 7 << 17 and some more; 5,000 are 4 << 10 and some more.
        counts[17 * 4 + 3] = 1;
        counts[10 * 4] = 99;
        assert_eq!(percentile(&counts, 100, 500), 5 << 10);
        assert_eq!(percentile(&counts, 100, 999), 8 << 17);
    }
}
