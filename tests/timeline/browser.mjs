// Drives Chromium over its debugging pipe (file descriptors 3 and 4), so that no package is needed.
// usage: node browser.mjs CHROMIUM PROFILE-FOLDER PAGE SCREENSHOT-FOLDER
import { spawn } from "node:child_process";
import { writeFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";

const [program, work, page, shots] = process.argv.slice(2);
const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe", "--hide-scrollbars",
  "--disable-dev-shm-usage", `--user-data-dir=${work}/profile`, "--window-size=1600,900"];
const browser = spawn(program, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
const waiting = new Map(), complaints = [];
let number = 0, rest = "";
browser.stdio[4].on("data", (data) => {
  const messages = (rest + data).split("\0");
  rest = messages.pop();
  for (const m of messages.map((m) => JSON.parse(m))) {
    if (m.method === "Runtime.exceptionThrown") complaints.push(m.params.exceptionDetails.exception?.description ?? m.params.exceptionDetails.text);
    if (m.method === "Runtime.consoleAPICalled" && m.params.type === "error") complaints.push(JSON.stringify(m.params.args));
    if (m.method === "Log.entryAdded" && m.params.entry.level === "error") complaints.push(m.params.entry.text);
    if (m.method === "Network.requestWillBeSent" && !/^(file|data|chrome):/.test(m.params.request.url)) complaints.push("asks for " + m.params.request.url);
    if (!waiting.has(m.id)) continue;
    const [done, failed] = waiting.get(m.id);
    waiting.delete(m.id);
    m.error ? failed(new Error(m.error.message)) : done(m.result);
  }
});
let session;
const send = (method, params = {}) => new Promise((done, failed) => {
  waiting.set(++number, [done, failed]);
  browser.stdio[3].write(JSON.stringify({ id: number, method, params, sessionId: session }) + "\0");
});
const evaluate = async (expression) => {
  const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
  assert(!exceptionDetails, exceptionDetails?.exception?.description);
  return result.value;
};
// Two frames: what was asked for is drawn.
const state = () => evaluate("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r(timelineState()))))");
async function click(id) {
  const { x, y } = await evaluate(`(({x, y, width, height}) => ({x: x + width / 2, y: y + height / 2}))(document.getElementById("${id}").getBoundingClientRect())`);
  for (const type of ["mousePressed", "mouseReleased"]) await send("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 });
  return state();
}
async function shot(name) {
  const { data } = await send("Page.captureScreenshot", { format: "png" });
  writeFileSync(`${shots}/${name}.png`, Buffer.from(data, "base64"));
}
async function open() {
  await send("Page.navigate", { url: pathToFileURL(resolve(page)).href });
  for (let i = 0; !(await evaluate("document.readyState === 'complete' && !!window.timelineReadyMs")); i++) {
    assert(i < 600, "the page does not get ready");
    await new Promise((r) => setTimeout(r, 100));
  }
}

try {
  const { targetInfos } = await send("Target.getTargets");
  const target = targetInfos.find((t) => t.type === "page");
  session = (await send("Target.attachToTarget", { targetId: target.targetId, flatten: true })).sessionId;
  for (const domain of ["Page", "Runtime", "Log", "Network"]) await send(domain + ".enable");
  await send("Emulation.setDeviceMetricsOverride", { width: 1600, height: 900, deviceScaleFactor: 1, mobile: false });
  const theme = (value) => send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
  await theme("light");
  await open();
  const whole = await state();
  console.log(`page: ${statSync(page).size} bytes, ${whole.spans} stints, ${whole.marks} migrations, ${whole.lanes} CPUs; ` +
    `on the screen ${Math.round(whole.readyMs)} ms after the navigation began, drawn in ${Math.round(whole.drawMs)} ms`);
  assert.equal(whole.from, 0);
  assert.equal(whole.to, whole.length);
  await shot("whole-light");

  const zoomed = await click("in");
  assert(zoomed.to - zoomed.from < 0.6 * whole.length, "the button zooms in");
  await send("Input.dispatchMouseEvent", { type: "mouseWheel", x: 700, y: 400, deltaX: 0, deltaY: -600 });
  let s = await state();
  assert(s.to - s.from < 0.6 * (zoomed.to - zoomed.from), "the wheel zooms in");
  const wide = s.to - s.from;
  for (const [type, x] of [["mousePressed", 700], ["mouseMoved", 500], ["mouseReleased", 500]]) {
    await send("Input.dispatchMouseEvent", { type, x, y: 400, button: "left", buttons: 1, clickCount: 1 });
  }
  const panned = await state();
  assert(panned.from > s.from && Math.abs(panned.to - panned.from - wide) < 1, "dragging moves");

  // Until lanes have names and stints can be told apart.
  for (let i = 0; i < 3; i++) await click("in");
  for (let i = 0; i < 11; i++) s = await click("taller");
  assert(s.laneHeight > whole.laneHeight, "lanes get taller");
  await send("Input.dispatchMouseEvent", { type: "mouseMoved", x: 640, y: 330 });
  await state();
  const tip = await evaluate("document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText");
  assert(/CPU|LLC/.test(tip), `the tooltip says where: ${tip}`);
  await shot("near-light");
  await theme("dark");
  await state();
  await shot("near-dark");
  s = await click("fit");
  console.log(`drawn again in ${Math.round(s.drawMs)} ms`);
  assert.deepEqual([s.from, s.to, s.laneHeight], [0, whole.length, whole.laneHeight], "fit shows all again");
  await shot("whole-dark");
  assert.deepEqual(complaints, []);
  console.log("zoom, wheel, drag, lanes, tooltip, fit: fine; no complaint in the console, no request to the network");
} catch (e) {
  console.error(e.message, complaints);
  process.exitCode = 1;
} finally {
  browser.kill();
}
