// Drawing. Everything that is visible is drawn anew each time: a loop over a million spans is some ms.
const canvas = element("canvas");
const context = canvas.getContext("2d", { alpha: false });
const GUTTER = 128, OVERVIEW = 30, AXIS = 22, TOP = OVERVIEW + AXIS, STRIP = 9, GAP = 4, NODE_GAP = 7, BOTTOM = 6;
const MARKS = [["home", "home of a process"], ["llc", "task to another LLC"], ["node", "task to another node"]];
const view = { t0: 0, t1: about.length || 1, laneHeight: 1, scroll: 0, chosen: -1, shown: [true, true, true], drawMs: 0 };
let width = 0, height = 0, ratio = 1, theme = null, colours = null, overview = null;

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const names = ["back", "panel", "lane", "text", "quiet", "line", "strip", "home", "llc", "node", "accent"];
  theme = Object.fromEntries(names.map((n) => [n, style.getPropertyValue("--" + n).trim()]));
  theme.dark = matchMedia("(prefers-color-scheme: dark)").matches;
  theme.laneRgb = [1, 3, 5].map((i) => parseInt(theme.lane.slice(i, i + 2), 16));
  colours = about.processes.map((p, i) => colourOf(i));
}

// Hues by the golden angle, so that neighbours in number differ; processes without a home are paler.
function colourOf(i) {
  if (i === 0) return theme.dark ? [150, 158, 170] : [120, 128, 140];
  const hue = (i * 137.508 + 200) % 360, instance = about.processes[i][2] === 1;
  const saturation = instance ? 0.68 : 0.34;
  const light = (theme.dark ? 0.6 : 0.5) + [0, 0.07, -0.07][i % 3];
  const f = (n) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (light - saturation * Math.min(light, 1 - light) * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [f(0), f(8), f(4)];
}
const css = (rgb) => `rgb(${rgb[0]},${rgb[1]},${rgb[2]})`;

// --- Layout, in CSS pixels; y counts from the top of all lanes.
function contentHeight(laneHeight) {
  const nodes = new Set(llcs.map((g) => g.node)).size;
  return lanes.length * laneHeight + llcs.length * (STRIP + GAP + 1) + (nodes - 1) * NODE_GAP + BOTTOM;
}
function fitLanes() {
  view.laneHeight = 24;
  while (view.laneHeight > 1 && contentHeight(view.laneHeight) > height - TOP) view.laneHeight--;
}
function layout() {
  let y = 0;
  llcs.forEach((g, i) => {
    if (i > 0 && llcs[i - 1].node !== g.node) y += NODE_GAP;
    g.y = y;
    g.stripY = y + g.lanes * view.laneHeight + 1;
    y = g.stripY + STRIP + GAP;
  });
  view.scroll = Math.max(0, Math.min(view.scroll, contentHeight(view.laneHeight) - (height - TOP)));
}
const chartWidth = () => Math.max(1, width - GUTTER);
const xOf = (time) => GUTTER + ((time - view.t0) / (view.t1 - view.t0)) * chartWidth();
const timeAt = (x) => view.t0 + ((x - GUTTER) / chartWidth()) * (view.t1 - view.t0);
function laneY(lane) {
  const g = llcs.find((g) => lane < g.first + g.lanes);
  return TOP - view.scroll + g.y + (lane - g.first) * view.laneHeight;
}

// --- Lanes: each row of pixels is summed up from its spans, so that no zoom level hides one.
let red, green, blue, cover, edge, image, pixels;
function paintLane(lane, columns) {
  [red, green, blue, cover, edge].forEach((a) => a.fill(0, 0, columns));
  const scale = columns / (view.t1 - view.t0), to = laneFrom[lane + 1];
  for (let i = firstAbove(end, view.t0, laneFrom[lane], to); i < to && start[i] < view.t1; i++) {
    const process = processOf[taskOf[i]];
    const chosen = view.chosen < 0 || view.chosen === process, colour = colours[chosen ? process : 0];
    let weight = chosen ? 1 : 0.22;
    if (flags[i] & GUESSED) weight *= 0.55;
    const x0 = Math.max(0, (start[i] - view.t0) * scale), x1 = Math.min(columns, (end[i] - view.t0) * scale);
    const first = Math.min(columns - 1, x0 | 0), last = Math.min(columns - 1, x1 | 0);
    if (x1 - x0 >= 4 && start[i] >= view.t0) edge[first] = 1;
    for (let x = first; x <= last; x++) {
      const share = Math.max(0, Math.min(x1, x + 1) - Math.max(x0, x)) * weight;
      red[x] += colour[0] * share;
      green[x] += colour[1] * share;
      blue[x] += colour[2] * share;
      cover[x] += share;
    }
  }
}
function blend(columns, row) {
  const [r0, g0, b0] = theme.laneRgb;
  for (let x = 0; x < columns; x++) {
    const c = cover[x];
    let r = r0, g = g0, b = b0;
    if (c > 0) {
      // Even the shortest stint leaves a trace.
      const k = Math.min(1, 0.15 + 0.85 * c), dim = edge[x] ? 0.72 : 1;
      r = (r0 * (1 - k) + (red[x] / c) * k) * dim;
      g = (g0 * (1 - k) + (green[x] / c) * k) * dim;
      b = (b0 * (1 - k) + (blue[x] / c) * k) * dim;
    }
    row[x] = 0xff000000 | (b << 16) | (g << 8) | r;
  }
}
function drawLanes() {
  const columns = Math.round(chartWidth() * ratio), rows = Math.max(1, Math.round((height - TOP) * ratio));
  if (!image || image.width !== columns || image.height !== rows) {
    image = new ImageData(columns, rows);
    pixels = new Uint32Array(image.data.buffer);
    [red, green, blue, cover, edge] = Array.from({ length: 5 }, () => new Float32Array(columns));
  }
  const [br, bg, bb] = [1, 3, 5].map((i) => parseInt(theme.back.slice(i, i + 2), 16));
  pixels.fill(0xff000000 | (bb << 16) | (bg << 8) | br);
  const row = new Uint32Array(columns), gap = view.laneHeight >= 6 ? 1 : 0;
  for (let lane = 0; lane < lanes.length; lane++) {
    const y = laneY(lane) - TOP, from = Math.max(0, Math.round(y * ratio));
    const to = Math.min(rows, Math.round((y + view.laneHeight - gap) * ratio));
    if (from >= to) continue;
    paintLane(lane, columns);
    blend(columns, row);
    for (let r = from; r < to; r++) pixels.set(row, r * columns);
  }
  context.putImageData(image, Math.round(GUTTER * ratio), Math.round(TOP * ratio));
}

function drawNames() {
  if (view.laneHeight < 12) return;
  context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  context.textBaseline = "middle";
  for (let lane = 0; lane < lanes.length; lane++) {
    const y = laneY(lane);
    if (y + view.laneHeight < TOP || y > height) continue;
    const to = laneFrom[lane + 1];
    for (let i = firstAbove(end, view.t0, laneFrom[lane], to); i < to && start[i] < view.t1; i++) {
      const x0 = Math.max(GUTTER, xOf(start[i])), x1 = Math.min(width, xOf(end[i]));
      if (x1 - x0 < 46 || (view.chosen >= 0 && view.chosen !== processOf[taskOf[i]])) continue;
      const [r, g, b] = colours[processOf[taskOf[i]]];
      context.fillStyle = r * 0.3 + g * 0.59 + b * 0.11 > 128 ? "#10151c" : "#ffffff";
      context.save();
      context.beginPath();
      context.rect(x0, y, x1 - x0 - 3, view.laneHeight);
      context.clip();
      context.fillText(about.tasks[taskOf[i]][2] + " " + about.tasks[taskOf[i]][0], x0 + 5, y + view.laneHeight / 2);
      context.restore();
    }
  }
}

// --- Queue lengths: per column the longest and the mean of its bins.
function drawQueues() {
  const scale = (STRIP - 1) / Math.max(1, longestQueue);
  for (const g of llcs) {
    const base = TOP - view.scroll + g.stripY + STRIP;
    if (base < TOP || base - STRIP > height) continue;
    context.fillStyle = theme.lane;
    context.fillRect(GUTTER, base - 1, chartWidth(), 1);
    for (let x = GUTTER; x < width; x++) {
      const from = Math.max(0, Math.floor(timeAt(x) / about.bin));
      const to = Math.min(about.bins, Math.max(from + 1, Math.ceil(timeAt(x + 1) / about.bin)));
      let most = 0, mean = 0;
      for (let i = from; i < to; i++) {
        most = Math.max(most, g.most[i]);
        mean += g.mean[i];
      }
      if (most === 0) continue;
      context.fillStyle = theme.strip;
      context.globalAlpha = 0.45;
      context.fillRect(x, base - most * scale, 1, 1);
      context.globalAlpha = 1;
      const filled = (mean / (to - from)) * scale;
      context.fillRect(x, base - filled, 1, filled);
    }
  }
}

// --- Marks: at most one of a kind in a square of 3 pixels.
function drawMarks() {
  const seen = new Set(), tall = view.laneHeight >= 6, half = tall ? 4 : 2;
  const from = firstAbove(marks.at, view.t0 - 1, 0, about.marks);
  for (const what of [1, 2, 0]) {
    if (!view.shown[what]) continue;
    context.fillStyle = context.strokeStyle = theme[MARKS[what][0]];
    for (let i = from; i < about.marks && marks.at[i] <= view.t1; i++) {
      if (marks.what[i] !== what || (view.chosen >= 0 && processOf[marks.task[i]] !== view.chosen)) continue;
      const x = xOf(marks.at[i]), y = laneY(marks.to[i]) + view.laneHeight / 2;
      const place = (what * 4096 + Math.round(x / 3)) * 65536 + Math.round((y + view.scroll) / 3);
      if (seen.has(place)) continue;
      seen.add(place);
      if (what === 0) {
        context.globalAlpha = 0.55;
        context.beginPath();
        context.moveTo(x, laneY(marks.from[i]) + view.laneHeight / 2);
        context.lineTo(x, y);
        context.stroke();
        context.globalAlpha = 1;
      }
      mark(context, what, x, y, what === 0 ? half + 1 : half);
    }
  }
}
function mark(c, what, x, y, half) {
  c.beginPath();
  if (what === 0) {
    c.moveTo(x, y - half), c.lineTo(x + half, y), c.lineTo(x, y + half), c.lineTo(x - half, y);
  } else if (what === 1) {
    c.arc(x, y, half * 0.8, 0, 7);
  } else {
    c.moveTo(x - half, y - half), c.lineTo(x + half, y), c.lineTo(x - half, y + half);
  }
  c.fill();
}

// --- Frame: overview, axis, labels.
function step(span, most) {
  const rough = span / most, power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
}
function drawAxis() {
  context.fillStyle = theme.back;
  context.fillRect(0, 0, width, TOP);
  if (!overview) overview = busy();
  const scale = chartWidth() / (about.length || 1);
  context.fillStyle = theme.lane;
  context.fillRect(GUTTER, 5, chartWidth(), OVERVIEW - 9);
  context.fillStyle = theme.quiet;
  for (let x = 0; x < chartWidth(); x++) {
    const part = overview[Math.min(overview.length - 1, Math.floor((x / chartWidth()) * overview.length))] * (OVERVIEW - 9);
    context.globalAlpha = 0.55;
    context.fillRect(GUTTER + x, OVERVIEW - 4 - part, 1, part);
  }
  context.globalAlpha = 0.25;
  context.fillStyle = theme.accent;
  const x0 = GUTTER + view.t0 * scale, wide = Math.max(2, (view.t1 - view.t0) * scale);
  context.fillRect(x0, 5, wide, OVERVIEW - 9);
  context.globalAlpha = 1;
  context.strokeStyle = theme.accent;
  context.strokeRect(x0 + 0.5, 5.5, wide - 1, OVERVIEW - 10);
  context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  context.textBaseline = "middle";
  context.fillStyle = theme.quiet;
  context.textAlign = "right";
  context.fillText("CPUs busy", GUTTER - 10, OVERVIEW / 2 + 1);
  context.fillText("time", GUTTER - 10, OVERVIEW + AXIS / 2);
  context.textAlign = "center";
  const apart = step(view.t1 - view.t0, chartWidth() / 110);
  const digits = Math.max(0, Math.min(6, 6 - Math.floor(Math.log10(apart))));
  for (let time = Math.ceil(view.t0 / apart) * apart; time <= view.t1; time += apart) {
    const x = Math.round(xOf(time)) + 0.5;
    context.strokeStyle = theme.line;
    context.beginPath();
    context.moveTo(x, TOP - 5), context.lineTo(x, height);
    context.globalAlpha = 0.3;
    context.stroke();
    context.globalAlpha = 1;
    if (x > GUTTER + 30 && x < width - 34) context.fillText((time / 1e6).toFixed(digits) + " ms", x, OVERVIEW + AXIS / 2 - 1);
  }
  context.textAlign = "left";
}
function busy() {
  const bins = new Float64Array(600), size = (about.length || 1) / 600;
  for (let i = 0; i < nrSpans; i++) {
    for (let b = Math.floor(start[i] / size); b < 600 && b * size < end[i]; b++) {
      bins[b] += (Math.min(end[i], (b + 1) * size) - Math.max(start[i], b * size)) / size / lanes.length;
    }
  }
  return bins;
}
function drawLabels() {
  context.fillStyle = theme.back;
  context.fillRect(0, TOP, GUTTER, height - TOP);
  context.save();
  context.beginPath();
  context.rect(0, TOP, GUTTER, height - TOP);
  context.clip();
  context.textBaseline = "middle";
  for (const node of new Set(llcs.map((g) => g.node))) {
    const groups = llcs.filter((g) => g.node === node), last = groups[groups.length - 1];
    const y0 = TOP - view.scroll + groups[0].y, y1 = TOP - view.scroll + last.stripY + STRIP;
    context.fillStyle = theme.lane;
    context.beginPath();
    context.roundRect(8, y0, 20, y1 - y0, 5);
    context.fill();
    const middle = (Math.max(y0, TOP) + Math.min(y1, height)) / 2;
    if (y1 - y0 > 46) {
      context.save();
      context.translate(18, middle);
      context.rotate(-Math.PI / 2);
      context.fillStyle = theme.text;
      context.textAlign = "center";
      context.font = "600 11px system-ui, 'DejaVu Sans', sans-serif";
      context.fillText("node " + about.nodes[node], 0, 1);
      context.restore();
    }
  }
  for (const g of llcs) {
    const y = TOP - view.scroll + g.y, tall = g.lanes * view.laneHeight;
    context.textAlign = "left";
    context.fillStyle = theme.quiet;
    context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    const many = view.laneHeight >= 9;
    context.fillText("LLC " + g.llc, 34, many ? y + view.laneHeight / 2 : y + tall / 2);
    context.textAlign = "right";
    context.font = Math.min(11, Math.max(8, view.laneHeight - 1)) + "px system-ui, 'DejaVu Sans', sans-serif";
    if (many) {
      for (let i = 0; i < g.lanes; i++) {
        context.fillText(lanes[g.first + i].cpu, GUTTER - 10, y + (i + 0.5) * view.laneHeight);
      }
    } else if (tall >= 9) {
      context.font = "9px system-ui, 'DejaVu Sans', sans-serif";
      const [a, b] = [lanes[g.first].cpu, lanes[g.first + g.lanes - 1].cpu];
      context.fillText(a === b ? a : a + "–" + b, GUTTER - 10, y + tall / 2);
    }
  }
  context.restore();
  context.textAlign = "left";
}

function draw() {
  const begin = performance.now();
  context.setTransform(1, 0, 0, 1, 0, 0);
  drawLanes();
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.save();
  context.beginPath();
  context.rect(GUTTER, TOP, chartWidth(), height - TOP);
  context.clip();
  drawQueues();
  drawNames();
  drawMarks();
  context.restore();
  drawLabels();
  drawAxis();
  view.drawMs = performance.now() - begin;
}
