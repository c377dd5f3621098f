//! The picture as one HTML page that needs nothing else: data in base64, a canvas, plain JavaScript.
//!
//! Numbers are varints (LEB128, unsigned). `spans`: for each lane their count, then for each the gap since the last one
//! ended, its length, task, time waited (all ns), and a byte: 1 + reason or 0, [`AT_HOME`], [`GUESSED`]. `marks`: for
//! each the time since the last one, a byte for what moved, task, lane from, lane to. `queues`: for each LLC and bin the
//! longest queue and the mean in thousandths.

use super::base64;
use super::model::Timeline;
use super::text::{list, quoted};
use crate::event::Reason;
use std::io::{self, Write};

const AT_HOME: u8 = 16;
const GUESSED: u8 = 32;

const PAGE: &str = include_str!("page.html");

/// Writes the page.
pub fn write(t: &Timeline, out: &mut impl Write) -> io::Result<()> {
    // Only the template is searched for places: what users have chosen is never looked at again.
    let mut rest = PAGE;
    while let Some((text, (place, after))) = rest.split_once("{{").and_then(|(t, r)| Some((t, r.split_once("}}")?))) {
        out.write_all(text.as_bytes())?;
        match place {
            "style" => out.write_all(include_str!("page.css").as_bytes())?,
            "script" => {
                out.write_all(include_str!("page_data.js").as_bytes())?;
                out.write_all(include_str!("page_draw.js").as_bytes())?;
                out.write_all(include_str!("page.js").as_bytes())?;
            }
            "about" => out.write_all(about(t).as_bytes())?,
            "spans" => out.write_all(base64::encode(&spans(t)).as_bytes())?,
            "marks" => out.write_all(base64::encode(&marks(t)).as_bytes())?,
            "queues" => out.write_all(base64::encode(&queues(t)).as_bytes())?,
            _ => {}
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

fn about(t: &Timeline) -> String {
    let quoted_pair = |(a, b): &(String, String)| format!("[{},{}]", quoted(a), quoted(b));
    let lanes = t.lanes().into_iter().filter_map(|c| t.topology.cpu(c));
    let l = &t.latency;
    let fields = [
        ("title", quoted(&t.title)),
        ("facts", list(t.facts.iter().map(quoted_pair))),
        ("accuracy", quoted(&t.accuracy)),
        ("length", t.length.to_string()),
        // CPU, LLC, node.
        ("lanes", list(lanes.map(|c| format!("[{},{},{}]", c.id, c.llc, c.node)))),
        ("nodes", list(t.topology.nodes().map(|n| t.topology.kernel_node(n).unwrap_or_default().to_string()))),
        ("reasons", list(Reason::ALL.iter().map(|r| quoted(r.name())))),
        (
            "processes",
            list(t.processes.iter().map(|p| format!("[{},{},{}]", p.pid, quoted(&p.name), u8::from(p.instance)))),
        ),
        ("tasks", list(t.tasks.iter().map(|t| format!("[{},{},{}]", t.tid, t.process, quoted(&t.name))))),
        ("spans", t.spans.len().to_string()),
        ("marks", t.marks.len().to_string()),
        ("bin", t.queues.bin.to_string()),
        ("bins", t.queues.lengths.first().map_or(0, Vec::len).to_string()),
        ("latencies", l.count().to_string()),
        ("quantiles", list([500, 950, 990, 1000].map(|q| l.at_permille(q).to_string()))),
        ("buckets", list(l.buckets().iter().map(|(begin, n)| format!("[{begin},{n}]")))),
    ];
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

fn varint(buf: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        buf.push(value as u8 | 0x80);
        value >>= 7;
    }
    buf.push(value as u8);
}

fn spans(t: &Timeline) -> Vec<u8> {
    let mut buf = Vec::with_capacity(t.spans.len() * 12);
    let mut of_cpu = vec![&t.spans[..0]; t.topology.cpu_slots()];
    for spans in t.spans.chunk_by(|a, b| a.cpu == b.cpu) {
        if let Some(slot) = spans.first().and_then(|s| of_cpu.get_mut(s.cpu.index())) {
            *slot = spans;
        }
    }
    for cpu in t.lanes() {
        let spans = of_cpu[cpu.index()];
        varint(&mut buf, spans.len() as u64);
        let mut last = 0;
        for s in spans {
            varint(&mut buf, s.start.saturating_sub(last));
            varint(&mut buf, s.end - s.start);
            varint(&mut buf, s.task.into());
            varint(&mut buf, s.waited);
            let flag = |on: bool, bit: u8| if on { bit } else { 0 };
            buf.push(s.reason.map_or(0, |r| 1 + r as u8) | flag(s.at_home, AT_HOME) | flag(s.guessed, GUESSED));
            last = s.end;
        }
    }
    buf
}

fn marks(t: &Timeline) -> Vec<u8> {
    let mut lane_of = vec![0; t.topology.cpu_slots()];
    t.lanes().iter().enumerate().for_each(|(lane, cpu)| lane_of[cpu.index()] = lane as u64);
    let mut buf = Vec::with_capacity(t.marks.len() * 8);
    let mut last = 0;
    for m in &t.marks {
        varint(&mut buf, m.at - last);
        buf.push(m.what as u8);
        varint(&mut buf, m.task.into());
        for cpu in [m.from, m.to] {
            varint(&mut buf, lane_of.get(cpu.index()).copied().unwrap_or(0));
        }
        last = m.at;
    }
    buf
}

fn queues(t: &Timeline) -> Vec<u8> {
    let mut buf = Vec::new();
    for (most, mean) in t.queues.lengths.iter().flatten() {
        varint(&mut buf, u64::from(*most));
        varint(&mut buf, u64::from(*mean));
    }
    buf
}
