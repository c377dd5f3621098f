"use strict";
// Data: decoded once into typed arrays. Times are ns since the begin of the run, exact in a double up to 104 days.
const element = (id) => document.getElementById(id);
const about = JSON.parse(element("about").textContent);

function bytes(id) {
  const text = element(id).textContent.trim();
  element(id).remove();
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

// Bits beyond 28 by multiplication: shifts are 32 bits wide.
function reader(data) {
  let at = 0;
  return {
    byte: () => data[at++],
    int() {
      let value = 0, factor = 1, b;
      do {
        b = data[at++];
        value += (b & 127) * factor;
        factor *= 128;
      } while (b > 127);
      return value;
    },
  };
}

const lanes = about.lanes.map(([cpu, llc, node]) => ({ cpu, llc, node }));
const nrSpans = about.spans;
const start = new Float64Array(nrSpans), end = new Float64Array(nrSpans), waited = new Float64Array(nrSpans);
const taskOf = new Uint32Array(nrSpans), flags = new Uint8Array(nrSpans);
// The spans of a lane are those from laneFrom[lane] up to laneFrom[lane + 1].
const laneFrom = new Uint32Array(lanes.length + 1);
const AT_HOME = 16, GUESSED = 32;
const ranNs = new Float64Array(about.processes.length);
const processOf = Uint32Array.from(about.tasks, (t) => t[1]);

{
  const r = reader(bytes("spans"));
  let i = 0;
  for (let lane = 0; lane < lanes.length; lane++) {
    laneFrom[lane] = i;
    let time = 0;
    for (let left = r.int(); left > 0; left--, i++) {
      start[i] = time += r.int();
      end[i] = time += r.int();
      taskOf[i] = r.int();
      waited[i] = r.int();
      flags[i] = r.byte();
      ranNs[processOf[taskOf[i]]] += end[i] - start[i];
    }
  }
  laneFrom[lanes.length] = i;
}

const marks = {
  at: new Float64Array(about.marks), what: new Uint8Array(about.marks), task: new Uint32Array(about.marks),
  from: new Uint16Array(about.marks), to: new Uint16Array(about.marks), count: [0, 0, 0],
};
{
  const r = reader(bytes("marks-data"));
  let time = 0;
  for (let i = 0; i < about.marks; i++) {
    marks.at[i] = time += r.int();
    marks.count[marks.what[i] = r.byte()]++;
    marks.task[i] = r.int();
    marks.from[i] = r.int();
    marks.to[i] = r.int();
  }
}

// In the order of their first lane.
const llcs = [];
lanes.forEach((lane, i) => {
  const last = llcs[llcs.length - 1];
  if (last && last.llc === lane.llc) last.lanes++;
  else llcs.push({ llc: lane.llc, node: lane.node, first: i, lanes: 1, most: null, mean: null });
});
let longestQueue = 0;
{
  const r = reader(bytes("queues"));
  const byLlc = [...llcs].sort((a, b) => a.llc - b.llc);
  for (const group of byLlc) {
    group.most = new Uint32Array(about.bins);
    group.mean = new Float64Array(about.bins);
    for (let i = 0; i < about.bins; i++) {
      group.most[i] = r.int();
      group.mean[i] = r.int() / 1000;
      longestQueue = Math.max(longestQueue, group.most[i]);
    }
  }
}

// The first index in [from, to) whose value is above the limit.
function firstAbove(values, limit, from, to) {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (values[middle] > limit) to = middle;
    else from = middle + 1;
  }
  return from;
}

function duration(ns) {
  if (ns < 1e3) return Math.round(ns) + " ns";
  if (ns < 1e6) return short(ns / 1e3) + " µs";
  if (ns < 1e9) return short(ns / 1e6) + " ms";
  return short(ns / 1e9) + " s";
}
const short = (x) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2)).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
const count = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, " ");
const moment = (ns) => (ns / 1e6).toFixed(3) + " ms";
const processName = (p) => about.processes[p][1] + (about.processes[p][0] ? " " + about.processes[p][0] : "");
