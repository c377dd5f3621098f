//! The picture in Chrome's trace-event format, which ui.perfetto.dev opens: a group per LLC, in it a track per CPU, a
//! counter of waiting tasks, and an instant for each migration.

use super::model::{Moved, Timeline};
use super::text::{micros, quoted};
use crate::ids::CpuId;
use std::io::{self, Write};

/// Writes it, one event to a line.
pub fn write(t: &Timeline, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"title\":{},", quoted(&t.title))?;
    writeln!(out, "\"accuracy\":{}}},\"traceEvents\":[", quoted(&t.accuracy))?;
    names(t, out)?;
    spans(t, out)?;
    queues(t, out)?;
    marks(t, out)?;
    // The one event without a comma behind it.
    writeln!(
        out,
        "{{\"ph\":\"M\",\"pid\":1,\"name\":\"process_labels\",\"args\":{{\"labels\":\"sdlab timeline\"}}}}]}}"
    )
}

/// The group and the track of a CPU. Never 0: the viewers take that for the idle task.
fn track(t: &Timeline, cpu: CpuId) -> (u32, u32) {
    (t.topology.cpu(cpu).map_or(0, |c| u32::from(c.llc.0)) + 1, u32::from(cpu.0) + 1)
}

fn names(t: &Timeline, out: &mut impl Write) -> io::Result<()> {
    for (order, llc) in t.topology.nodes().flat_map(|n| t.topology.node_llcs(n).iter()).enumerate() {
        let node = t.topology.llc_node(*llc).and_then(|n| t.topology.kernel_node(n)).unwrap_or_default();
        let pid = u32::from(llc.0) + 1;
        let name = quoted(&format!("node {node}, LLC {llc}"));
        writeln!(out, "{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_name\",\"args\":{{\"name\":{name}}}}},")?;
        let order = format!("{{\"sort_index\":{order}}}");
        writeln!(out, "{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_sort_index\",\"args\":{order}}},")?;
    }
    for (order, cpu) in t.lanes().into_iter().enumerate() {
        let (pid, tid) = track(t, cpu);
        let head = format!("{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":");
        writeln!(out, "{head}\"thread_name\",\"args\":{{\"name\":\"CPU {cpu}\"}}}},")?;
        writeln!(out, "{head}\"thread_sort_index\",\"args\":{{\"sort_index\":{order}}}}},")?;
    }
    Ok(())
}

fn spans(t: &Timeline, out: &mut impl Write) -> io::Result<()> {
    let names: Vec<String> = t.processes.iter().map(|p| quoted(&format!("{} {}", p.name, p.pid))).collect();
    let tasks: Vec<String> = t.tasks.iter().map(|t| quoted(&format!("{} {}", t.name, t.tid))).collect();
    for s in &t.spans {
        let (pid, tid) = track(t, s.cpu);
        let task = s.task as usize;
        let name = t.tasks.get(task).and_then(|t| names.get(t.process as usize)).map_or("\"\"", String::as_str);
        let (ts, dur, waited) = (micros(s.start), micros(s.end - s.start), micros(s.waited));
        write!(
            out,
            "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts},\"dur\":{dur},\"cat\":\"stint\",\"name\":{name}"
        )?;
        let thread = tasks.get(task).map_or("\"\"", String::as_str);
        write!(out, ",\"args\":{{\"task\":{thread},\"waited_us\":{waited},\"at_home\":{}", s.at_home)?;
        if let Some(reason) = s.reason {
            write!(out, ",\"sent\":{}", quoted(reason.name()))?;
        }
        if s.guessed {
            write!(out, ",\"worked_out\":true")?;
        }
        writeln!(out, "}}}},")?;
    }
    Ok(())
}

/// The longest queue of each time bin, where it changes.
fn queues(t: &Timeline, out: &mut impl Write) -> io::Result<()> {
    for (llc, lengths) in t.queues.lengths.iter().enumerate() {
        let mut last = None;
        for (i, (most, _)) in lengths.iter().enumerate().filter(|(_, (most, _))| last.replace(*most) != Some(*most)) {
            let ts = micros(i as u64 * t.queues.bin);
            let (pid, args) = (llc + 1, format!("{{\"tasks\":{most}}}"));
            writeln!(out, "{{\"ph\":\"C\",\"pid\":{pid},\"ts\":{ts},\"name\":\"waiting\",\"args\":{args}}},")?;
        }
    }
    Ok(())
}

fn marks(t: &Timeline, out: &mut impl Write) -> io::Result<()> {
    for m in &t.marks {
        let (pid, tid) = track(t, m.to);
        let name = match m.what {
            Moved::Home => "home moved",
            Moved::Llc => "other LLC",
            Moved::Node => "other node",
        };
        let task = t.tasks.get(m.task as usize);
        let who = quoted(&task.map_or_else(String::new, |t| format!("{} {}", t.name, t.tid)));
        let args = format!("{{\"task\":{who},\"from_cpu\":{},\"to_cpu\":{}}}", m.from, m.to);
        let head = format!("{{\"ph\":\"i\",\"s\":\"t\",\"pid\":{pid},\"tid\":{tid},\"ts\":{}", micros(m.at));
        writeln!(out, "{head},\"cat\":\"migration\",\"name\":\"{name}\",\"args\":{args}}},")?;
    }
    Ok(())
}
