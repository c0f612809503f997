// SPDX-License-Identifier: Apache-2.0
// Drives a page in Chromium for bench/view.py: starts the server, waits for the first graph, changes
// what is shown, and prints the times in milliseconds and the memory in bytes as JSON.
//
//     node view_browser.mjs TOOL COMMAND...     TOOL: view, frames, pprof, speedscope
//     node view_browser.mjs saved PAGE
//
// The command prints the address of the page; a saved page needs none. Times are those of the page itself, from the event
// until the frame after the one that shows the change.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const FRAMES = 240;
const WINDOW = { width: 1920, height: Number(process.env["WINDOW_HEIGHT"] ?? 1080) };
const FIRST_MS = 300_000;
const [tool, ...command] = process.argv.slice(2);

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

function memoryOf(pid) {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const kilobytes = (name) => 1024 * Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? NaN);
  return { now: kilobytes("VmRSS"), peak: kilobytes("VmHWM") };
}

async function rendererMemory(browser) {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  return Math.max(...processInfo.filter(({ type }) => type === "renderer").map(({ id }) => memoryOf(id).now));
}

function serve() {
  if (tool === "saved") return { process: null, address: Promise.resolve(`file://${command[0]}`) };
  const process = spawn(command[0], command.slice(1), { stdio: ["ignore", "pipe", "pipe"] });
  const address = new Promise((resolve, reject) => {
    const read = (data) => {
      const found = /http:\/\/[^\s)]+/.exec(String(data));
      if (found) resolve(found[0].replace(/\/$/, ""));
    };
    process.stdout.on("data", read);
    process.stderr.on("data", read);
    process.on("exit", (code) => reject(new Error(`the server ended with ${code}`)));
  });
  return { process, address };
}

/** Wait until the page holds a condition, and has painted what holds it. */
async function painted(page, holds) {
  await page.waitForFunction(holds, null, { polling: "raf", timeout: FIRST_MS });
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

// --- heap_profile view ---

/** In the page: do something, and return the time until another graph or table is shown. */
async function change([what, value]) {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const shown = () => {
    const graph = document.querySelector("section.flame");
    if (!graph) return document.querySelector(".grid-room .row") ? "table" : null;
    const key = location.hash + document.querySelectorAll(".chip").length;
    return graph.getAttribute("aria-busy") === "true" ? null : `${key} ${document.querySelector(".details .figures")?.textContent}`;
  };
  const input = document.querySelector(".add-filter input");
  if (what === "filter") {
    input.value = value;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    await frame().then(frame);
  }
  const before = shown();
  const begun = performance.now();
  if (what === "select") {
    const box = document.querySelector(value[0]);
    box.value = value[1];
    box.dispatchEvent(new Event("change", { bubbles: true }));
  } else if (what === "filter") input.form.requestSubmit();
  else document.querySelector(value).click();
  await Promise.resolve();
  await frame();
  await frame(); // what asks for the answer has run
  while ((shown() === null || shown() === before) && performance.now() - begun < 60_000) await frame();
  await frame();
  return performance.now() - begun;
}

async function measureView(page, address, started) {
  let transfer = 0;
  page.on("response", (response) => {
    if (!response.url().includes("/api/")) transfer += Number(response.headers()["content-length"] ?? 0);
  });
  await page.goto(`${address}${tool === "saved" ? "" : "/"}#tab=flame&heap=0.0`);
  await painted(page, () => document.querySelector(".flame-scroll canvas") !== null);
  const result = { first: performance.now() - started, transfer };
  const dump = await page.evaluate(() => [...document.querySelectorAll(".choice select")].find((box) => /^\d+ of \d+/.test(box.selectedOptions[0]?.text ?? ""))?.options.length ?? 1);
  const views = [];
  for (const view of ["max", "alloc_space", "objects"]) views.push(await page.evaluate(change, ["select", [".choice .view", view]]));
  result.view = median(views);
  if (dump > 1) {
    await page.evaluate(() => [...document.querySelectorAll(".choice select")].find((box) => /^\d+ of \d+/.test(box.selectedOptions[0]?.text ?? "")).classList.add("dump"));
    const dumps = [];
    for (const index of new Set([0, dump >> 1, dump >> 2])) if (index !== dump - 1) dumps.push(await page.evaluate(change, ["select", [".choice .dump", String(index)]]));
    result.dump = median(dumps);
  }
  result.direction = await page.evaluate(change, ["click", ".tools .group button:nth-child(2)"]);
  const filters = [];
  for (const pattern of ["number[1-8]", "number[1-6]", "number[1-4]"]) filters.push(await page.evaluate(change, ["filter", pattern]));
  result.filter = median(filters);
  result.table = await page.evaluate(change, ["click", "#tab-table"]);
  return result;
}

/** In the page: pan and zoom once for each frame; return how long the frames take. */
async function moveAbout(count) {
  const canvas = document.querySelector(".flame-scroll canvas");
  const box = canvas.getBoundingClientRect();
  const wheel = (options) => canvas.dispatchEvent(new WheelEvent("wheel", { bubbles: true, cancelable: true, clientX: box.left + box.width / 2, clientY: box.top + 100, ...options }));
  const times = { pan: [], zoom: [] };
  for (const what of ["zoom", "pan"]) {
    let last = await new Promise((done) => requestAnimationFrame(done));
    for (let i = 0; i < count; i++) {
      if (what === "pan") wheel({ deltaX: i % 20 < 10 ? 4 : -4 });
      else wheel({ deltaY: i % 20 < 10 ? -3 : 3, ctrlKey: true });
      const now = await new Promise((done) => requestAnimationFrame(done));
      times[what].push(now - last);
      last = now;
    }
  }
  return { ...times, width: box.width, height: box.height };
}

async function measureFrames(page, address) {
  await page.goto(`${address}/#tab=flame&heap=0.0`);
  await painted(page, () => document.querySelector(".flame-scroll canvas") !== null);
  await page.waitForTimeout(500);
  const { pan, zoom, width, height } = await page.evaluate(moveAbout, FRAMES);
  const last = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)];
  return { width, height, pan: median(pan), pan99: last(pan), zoom: median(zoom), zoom99: last(zoom) };
}

// --- the others ---

async function measurePprof(page, address, started) {
  const graph = () => document.querySelector("#chart rect, .box, svg g.frame, .d3-flame-graph rect") !== null;
  await page.goto(`${address}/ui/flamegraph?si=space`, { timeout: FIRST_MS });
  await painted(page, graph);
  const result = { first: performance.now() - started };
  const begun = performance.now();
  await page.goto(`${address}/ui/flamegraph?si=alloc_space`, { timeout: FIRST_MS });
  await painted(page, graph);
  return { ...result, view: performance.now() - begun };
}

async function measureSpeedscope(page, address, started) {
  await page.goto(`${address}/index.html#profileURL=${address}/profile.json`);
  const shows = (text) => page.waitForFunction((wanted) => document.body.innerText.includes(wanted), text, { polling: "raf", timeout: FIRST_MS });
  await shows("Left Heavy");
  await painted(page, () => document.querySelector("canvas") !== null);
  const result = { first: performance.now() - started };
  const begun = performance.now();
  await page.getByText("Left Heavy").click();
  await painted(page, () => document.querySelector("canvas") !== null);
  return { ...result, view: performance.now() - begun };
}

const MEASURES = { view: measureView, saved: measureView, frames: measureFrames, pprof: measurePprof, speedscope: measureSpeedscope };
const free = tool === "frames" ? ["--disable-frame-rate-limit", "--disable-gpu-vsync"] : [];
const browser = await chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: ["--no-sandbox", "--enable-unsafe-swiftshader", ...free] });
const page = await browser.newPage({ viewport: WINDOW });
const started = performance.now();
const server = serve();
try {
  const result = await MEASURES[tool](page, await server.address, started);
  const memory = server.process && memoryOf(server.process.pid);
  console.log(JSON.stringify({ ...result, server: memory?.now, serverPeak: memory?.peak, tab: await rendererMemory(browser) }));
} finally {
  server.process?.removeAllListeners("exit");
  server.process?.kill();
  await browser.close();
}
