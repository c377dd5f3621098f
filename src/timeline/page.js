// The page around the canvas: zoom, pan, hover, legend, histogram.
const tip = element("tip");
const SHORTEST = 100; // ns over the whole width
let due = false;

function refresh() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    layout();
    draw();
    // Since the page was asked for.
    window.timelineReadyMs ||= performance.now();
    element("range").textContent = `${moment(view.t0)} – ${moment(view.t1)} · ${duration(view.t1 - view.t0)}`;
  });
}
function show(t0, t1) {
  const whole = about.length || 1, span = Math.max(Math.min(SHORTEST, whole), Math.min(t1 - t0, whole));
  view.t0 = Math.max(0, Math.min(t0, whole - span));
  view.t1 = view.t0 + span;
  refresh();
}
function zoom(factor, x = GUTTER + chartWidth() / 2) {
  const time = Math.max(view.t0, Math.min(view.t1, timeAt(x)));
  // The time under the pointer stays where it is.
  show(time - (time - view.t0) * factor, time + (view.t1 - time) * factor);
}
const pan = (share) => show(view.t0 + share * (view.t1 - view.t0), view.t1 + share * (view.t1 - view.t0));
function setLaneHeight(h, y = TOP) {
  const before = view.laneHeight, at = y - TOP + view.scroll;
  view.laneHeight = Math.max(1, Math.min(40, h));
  view.scroll = (at * contentHeight(view.laneHeight)) / contentHeight(before) - (y - TOP);
  refresh();
}
const taller = () => setLaneHeight(view.laneHeight < 4 ? view.laneHeight + 1 : Math.round(view.laneHeight * 1.3), (TOP + height) / 2);
const lower = () => setLaneHeight(view.laneHeight <= 4 ? view.laneHeight - 1 : Math.round(view.laneHeight / 1.3), (TOP + height) / 2);
function fit() {
  fitLanes();
  view.scroll = 0;
  show(0, about.length);
}
function choose(process) {
  view.chosen = view.chosen === process ? -1 : process;
  for (const row of element("processes").children) row.classList.toggle("chosen", row.process === view.chosen);
  refresh();
}

// --- What is under the pointer.
function laneAt(y) {
  const at = y - TOP + view.scroll;
  for (const g of llcs) {
    if (at >= g.y && at < g.y + g.lanes * view.laneHeight) return { lane: g.first + Math.floor((at - g.y) / view.laneHeight) };
    if (at >= g.stripY && at < g.stripY + STRIP + GAP / 2) return { queue: g };
  }
  return null;
}
// The span at a time, or the nearest one that is at most 3 pixels off.
function spanAt(lane, time) {
  const off = (3 * (view.t1 - view.t0)) / chartWidth();
  const i = firstAbove(end, time, laneFrom[lane], laneFrom[lane + 1]);
  const distance = (k) => Math.max(0, start[k] - time, time - end[k]);
  const near = [i, i - 1].filter((k) => k >= laneFrom[lane] && k < laneFrom[lane + 1] && distance(k) <= off);
  return near.sort((a, b) => distance(a) - distance(b))[0];
}
function markAt(x, y) {
  const off = 5, from = firstAbove(marks.at, timeAt(x - off), 0, about.marks);
  for (let i = from; i < about.marks && marks.at[i] <= timeAt(x + off); i++) {
    if (view.shown[marks.what[i]] && Math.abs(laneY(marks.to[i]) + view.laneHeight / 2 - y) <= off) return i;
  }
  return -1;
}
function describe(x, y) {
  if (x < GUTTER || y < TOP) return null;
  const time = timeAt(x), place = laneAt(y), m = view.laneHeight >= 6 || view.t1 - view.t0 < about.length / 20 ? markAt(x, y) : -1;
  if (m >= 0) {
    const task = marks.task[m], where = (lane) => `CPU ${lanes[lane].cpu}, LLC ${lanes[lane].llc}, node ${about.nodes[lanes[lane].node]}`;
    const what = ["Home moved", "Moved to another LLC", "Moved to another node"][marks.what[m]];
    return [what, ["process", processName(processOf[task])], ["task", about.tasks[task].filter((_, i) => i !== 1).join(" ")],
      ["at", moment(marks.at[m])], ["from", where(marks.from[m])], ["to", where(marks.to[m])]];
  }
  if (!place) return null;
  if (place.queue) {
    const g = place.queue, bin = Math.min(about.bins - 1, Math.max(0, Math.floor(time / about.bin)));
    return [`LLC ${g.llc}: tasks that wait`, ["longest", count(g.most[bin])], ["mean", g.mean[bin].toFixed(3)],
      ["from", moment(bin * about.bin)], ["for", duration(about.bin)]];
  }
  const lane = lanes[place.lane], cpu = `${lane.cpu}, LLC ${lane.llc}, node ${about.nodes[lane.node]}`;
  const i = spanAt(place.lane, time);
  if (i === undefined) return ["Idle", ["CPU", cpu], ["at", moment(time)]];
  const task = taskOf[i], reason = flags[i] & 15;
  const rows = [processName(processOf[task]), ["task", about.tasks[task][2] + (about.tasks[task][0] ? " " + about.tasks[task][0] : "")], ["CPU", cpu],
    ["start", moment(start[i])], ["length", duration(end[i] - start[i]) + (flags[i] & GUESSED ? " (worked out)" : "")]];
  if (task !== 0) {
    rows.push(["waited", duration(waited[i])], ["sent", reason ? about.reasons[reason - 1] : "not by the policy"]);
    if (about.processes[processOf[task]][2]) rows.push(["at home", flags[i] & AT_HOME ? "yes" : "no"]);
  }
  return rows;
}
function hover(x, y) {
  const rows = describe(x, y);
  tip.hidden = !rows;
  if (!rows) return;
  // Text only: names are chosen by users.
  tip.replaceChildren(...rows.flatMap((row) => (typeof row === "string" ? [node("strong", row)] : [node("span", row[0]), node("div", row[1])])));
  const box = canvas.getBoundingClientRect(), size = tip.getBoundingClientRect();
  const left = box.left + x + 16, top = box.top + y + 16;
  tip.style.left = Math.max(4, left + size.width > innerWidth ? box.left + x - size.width - 12 : left) + "px";
  tip.style.top = Math.max(4, top + size.height > innerHeight ? box.top + y - size.height - 12 : top) + "px";
}
function node(name, text, ...children) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  e.append(...children);
  return e;
}

// --- Pointer and keys.
let drag = null;
canvas.addEventListener("wheel", (e) => {
  e.preventDefault();
  const turn = e.deltaMode === 1 ? e.deltaY * 30 : e.deltaY;
  if (e.ctrlKey) (turn < 0 ? taller : lower)();
  else if (e.shiftKey) {
    view.scroll += turn || e.deltaX;
    refresh();
  } else if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan(e.deltaX / chartWidth());
  else zoom(Math.exp(Math.max(-300, Math.min(300, turn)) * 0.002), e.offsetX);
}, { passive: false });
canvas.addEventListener("pointerdown", (e) => {
  canvas.setPointerCapture(e.pointerId);
  drag = { x: e.offsetX, y: e.offsetY, t0: view.t0, t1: view.t1, scroll: view.scroll, moved: false, overview: e.offsetY < OVERVIEW };
  if (drag.overview) centre(e.offsetX);
});
canvas.addEventListener("pointermove", (e) => {
  if (!drag) return hover(e.offsetX, e.offsetY);
  drag.moved ||= Math.hypot(e.offsetX - drag.x, e.offsetY - drag.y) > 3;
  if (drag.overview) return centre(e.offsetX);
  if (!drag.moved) return;
  canvas.classList.add("drags");
  tip.hidden = true;
  const by = ((drag.x - e.offsetX) / chartWidth()) * (drag.t1 - drag.t0);
  view.scroll = drag.scroll + drag.y - e.offsetY;
  show(drag.t0 + by, drag.t1 + by);
});
canvas.addEventListener("pointerup", (e) => {
  canvas.classList.remove("drags");
  if (drag && !drag.moved && !drag.overview && e.offsetX > GUTTER && e.offsetY > TOP) {
    const place = laneAt(e.offsetY), i = place && place.lane !== undefined ? spanAt(place.lane, timeAt(e.offsetX)) : undefined;
    choose(i === undefined ? view.chosen : processOf[taskOf[i]]);
  }
  drag = null;
});
canvas.addEventListener("pointerleave", () => (tip.hidden = true));
canvas.addEventListener("dblclick", (e) => zoom(0.25, e.offsetX));
function centre(x) {
  const time = ((x - GUTTER) / chartWidth()) * about.length, half = (view.t1 - view.t0) / 2;
  show(time - half, time + half);
}
const keys = {
  "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: fit, "[": lower, "]": taller,
  ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), Escape: () => choose(view.chosen),
  ArrowUp: () => ((view.scroll -= 60), refresh()), ArrowDown: () => ((view.scroll += 60), refresh()),
};
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
  e.preventDefault();
  keys[e.key]();
});
for (const [id, action] of Object.entries({ in: () => zoom(0.5), out: () => zoom(2), fit, taller, lower })) {
  element(id).addEventListener("click", action);
}

// --- The side.
function fillSide() {
  document.title = about.title;
  element("title").textContent = about.title;
  const sums = [["CPUs", lanes.length], ["stints", count(nrSpans)], ["length", duration(about.length)], ...about.facts];
  element("facts").textContent = sums.map(([name, value]) => `${name}: ${value}`).join(" · ");
  element("facts").title = element("facts").textContent;
  element("accuracy").textContent = about.accuracy;
  const names = ["median", "95%", "99%", "longest"];
  element("quantiles").append(...names.map((name, i) => node("tr", undefined, node("th", name), node("td", duration(about.quantiles[i])))));
  element("quantiles").append(node("tr", undefined, node("th", "wake-ups"), node("td", count(about.latencies))));
  element("quantiles").querySelectorAll("th").forEach((th) => (th.style.textAlign = "left"));
  MARKS.forEach(([, text], what) => {
    const box = node("input");
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => ((view.shown[what] = box.checked), refresh()));
    const sign = node("canvas");
    sign.className = "sign";
    const row = node("label", undefined, box, sign, node("span", text), node("b", count(marks.count[what])));
    row.className = "row";
    element("marks").append(row);
  });
  const order = [...about.processes.keys()].sort((a, b) => about.processes[b][2] - about.processes[a][2] || ranNs[b] - ranNs[a] || a - b);
  const shown = order.filter((p) => ranNs[p] > 0).slice(0, 10);
  if (!shown.includes(0) && ranNs[0] > 0) shown.push(0);
  for (const p of shown) {
    const key = node("i");
    key.className = "key";
    const share = ((ranNs[p] / (about.length || 1)) * 100).toFixed(0);
    const row = node("div", undefined, key, node("span", processName(p)), node("b", share + "% of a CPU"));
    row.className = "row";
    row.process = p;
    row.addEventListener("click", () => choose(p));
    element("processes").append(row);
  }
  const more = about.processes.length - shown.length;
  if (more > 0) element("processes").after(node("p", `and ${count(more)} more; processes with a home are in stronger colours`));
}
function paintSide() {
  for (const row of element("processes").children) row.firstChild.style.background = css(colours[row.process]);
  document.querySelectorAll(".sign").forEach((sign, what) => {
    sign.width = sign.height = 12 * ratio;
    sign.style.cssText = "width:12px;height:12px;flex:none";
    const c = sign.getContext("2d");
    c.scale(ratio, ratio);
    c.fillStyle = theme[MARKS[what][0]];
    mark(c, what, 6, 6, 5);
  });
  drawHistogram();
}
function drawHistogram() {
  const h = element("histogram"), box = h.getBoundingClientRect(), c = h.getContext("2d");
  h.width = box.width * ratio;
  h.height = box.height * ratio;
  c.scale(ratio, ratio);
  c.font = "10px system-ui, 'DejaVu Sans', sans-serif";
  const base = box.height - 16, buckets = about.buckets;
  c.fillStyle = theme.quiet;
  if (!buckets.length) return c.fillText("no wake-ups", 4, 20);
  const low = Math.log2(buckets[0][0] || 1), high = Math.max(low + 1, Math.log2(buckets[buckets.length - 1][0] || 1) + 0.25);
  const x = (ns) => ((Math.log2(Math.max(1, ns)) - low) / (high - low)) * box.width;
  const most = Math.max(...buckets.map((b) => b[1]));
  c.fillStyle = theme.line;
  c.fillRect(0, base, box.width, 1);
  c.fillStyle = theme.accent;
  buckets.forEach(([begin, n], i) => {
    const to = i + 1 < buckets.length ? x(buckets[i + 1][0]) : box.width;
    // A single wake-up among millions can still be seen.
    const tall = n ? Math.max(1, (n / most) * (base - 16)) : 0;
    c.fillRect(x(begin), base - tall, Math.max(1, to - x(begin) - 1), tall);
  });
  c.textBaseline = "top";
  ["p50", "p95", "p99"].forEach((name, i) => {
    const at = Math.min(box.width - 1, x(about.quantiles[i]));
    c.fillStyle = theme.strip;
    c.fillRect(at, 12, 1, base - 12);
    c.textAlign = at > box.width - 26 ? "right" : "left";
    if (i === 0 || at - x(about.quantiles[i - 1]) > 24) c.fillText(name, at, 0);
  });
  c.fillStyle = theme.quiet;
  let free = 0;
  for (let ns = 1; ns < 1e12; ns *= 10) {
    const at = x(ns), text = duration(ns), half = c.measureText(text).width / 2;
    if (at - half < free || at + half > box.width) continue;
    c.textAlign = "center";
    c.fillText(text, at, base + 4);
    c.fillRect(at, base, 1, 3);
    free = at + half + 8;
  }
}

// --- Begin.
function resize() {
  const fitted = height > 0 && view.laneHeight === bestLaneHeight();
  [width, height, ratio] = [canvas.clientWidth, canvas.clientHeight, devicePixelRatio || 1];
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  image = null;
  if (fitted || overview === null) fitLanes();
  paintSide();
  refresh();
}
function bestLaneHeight() {
  const before = view.laneHeight;
  fitLanes();
  const best = view.laneHeight;
  view.laneHeight = before;
  return best;
}
function retheme() {
  readTheme();
  paintSide();
  refresh();
}
// For tests and for those who look at the page with the developer's tools.
window.timelineState = () => ({
  from: view.t0, to: view.t1, length: about.length, laneHeight: view.laneHeight, scroll: view.scroll, lanes: lanes.length, llcs: llcs.length,
  spans: nrSpans, marks: about.marks, chosen: view.chosen, drawMs: view.drawMs, readyMs: window.timelineReadyMs, describe,
});
readTheme();
fillSide();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", retheme);
new ResizeObserver(resize).observe(element("stage"));
