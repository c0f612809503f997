// SPDX-License-Identifier: Apache-2.0
// The page in a real browser, on real recordings that the real server serves: what is shown is compared
// with what `heap_profile report --json` and `query` say of the same files.
//
// EXPECTED names a file that run.py writes. `reports` has the report of each dump of a
// recording, `memory` those of --rss, `focused` the last with --focus, `sql` the answer of `query`.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { bytesInWords, countInWords, figureInWords, percentInWords, shareInWords, signedInWords } from "page/words";
import { testAxe } from "./axe";
import { testColumns } from "./columns";
import { testMachine, type MachineExpected } from "./machine";
import { testParts } from "./parts";
import { testReports, type ReportsExpected } from "./reports";
import { testTimeline, type TimelineExpected } from "./timeline";
import { testZoom } from "./zoom";

interface Estimate {
  estimate: number;
  low95: number;
  high95: number;
}
interface Callsite {
  space: Estimate;
  frames: { name: string; mapping: string }[];
}
interface Heap {
  name: string;
  pid: number;
  total: Record<string, Estimate>;
  callsites: Callsite[];
  exact_bytes: number;
  exact_calls: number;
}
interface Memory {
  known: boolean;
  rss_bytes: number;
  allocator_bytes: number;
  allocator_rows: { words: string; bytes: number | null }[];
  other_rows: { words: string; bytes: number }[];
}
interface Expected {
  url: string;
  server: number; // its pid
  saved: string; // a page that is a file
  trace: string; // the recording's file
  own_network: boolean; // port 9001 is free
  begun: string; // the address of a page on a recording that has written nothing yet
  begunTrace: string; // its file
  timeline: TimelineExpected;
  reports: Heap[];
  sentences: string[][]; // of each dump, with which report begins
  memory: Memory[]; // of each dump, by report --rss
  focus: string;
  focused: Heap;
  machine: MachineExpected;
  reported: ReportsExpected;
  sql: { statement: string; rows: Record<string, string | number>[] };
}

const PAGE_BYTES_MAX = 250_000;
// Chromium asks the user before a public site may read from this machine.
const ALLOW_LOOPBACK = "--disable-features=LocalNetworkAccessChecks";
const PATIENCE_MS = 60_000;
const expected = JSON.parse(readFileSync(process.env["EXPECTED"]!, "utf8")) as Expected;
const last = expected.reports[expected.reports.length - 1]!;
let browser: Browser;
let context: BrowserContext;
let page: Page;
const complaints: string[] = []; // errors, dialogs, and requests to other places
let received = 0;

before(async () => {
  browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", ALLOW_LOOPBACK] });
  context = await browser.newContext({ viewport: { width: 1280, height: 720 }, permissions: ["clipboard-read", "clipboard-write"] });
  page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.on("pageerror", (error) => complaints.push(String(error.stack)));
  page.on("dialog", (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => message.text().includes("Content Security Policy") && complaints.push(message.text()));
  page.on("request", (request) => {
    if (![expected.url, expected.begun, expected.timeline.url, expected.timeline.many, expected.machine.url, expected.reported.url, expected.reported.runs.url, `file://${expected.reported.runs.saved}`, `file://${expected.saved}`, "data:", "blob:"].some((allowed) => request.url().startsWith(allowed))) complaints.push(`asked ${request.url()}`);
  });
  page.on("response", (response) => {
    if (!response.url().includes("/api/")) received += Number(response.headers()["content-length"] ?? NaN);
  });
});
after(() => browser?.close());

/** Open the page anew with a selection. */
async function open(fragment: string, address = expected.url) {
  await page.goto("about:blank");
  await page.goto(`${address}#${fragment}`);
  await page.waitForSelector(".tabs");
}

async function until(what: string, holds: () => Promise<boolean>) {
  const end = Date.now() + PATIENCE_MS;
  while (!(await holds())) {
    assert(Date.now() < end, `in vain waited until ${what}; the page shows:\n${(await page.locator("body").innerText()).slice(0, 2000)}`);
    await page.waitForTimeout(20);
  }
}

const shows = (selector: string, text: string) =>
  until(`${selector} shows "${text}"`, async () => (await page.locator(selector).allInnerTexts()).some((found) => found.replace(/\s+/g, " ").includes(text)));

const words = (estimate: Estimate, counts = false) => figureInWords({ value: estimate.estimate, low: estimate.low95, high: estimate.high95 }, counts);

async function openGraph(fragment = "") {
  await open(`tab=flame${fragment}`);
  await page.waitForSelector(".flame-scroll canvas");
}

/** Let the side panel show the whole graph: nothing is chosen and the pointer is elsewhere. */
async function chooseRoot() {
  await page.mouse.move(1, 1);
  await page.locator(".flame-scroll canvas").focus();
  await page.keyboard.press("Escape");
}

/** Bytes with callees by function, of all callsites; a function counts once for each stack. */
function byFunction(heap: Heap): Map<string, number> {
  const sums = new Map<string, number>();
  for (const site of heap.callsites)
    for (const name of new Set(site.frames.map((frame) => frame.name))) sums.set(name, (sums.get(name) ?? 0) + site.space.estimate);
  return sums;
}

const sentences = async () => (await page.locator(".sentences p").allInnerTexts()).map((text) => text.replace(/\s+/g, " "));

/** Wait until the sentences are those with which report begins. */
const says = (dump: number) => {
  const wanted = expected.sentences[dump]!.join("\n");
  return until(`the sentences are ${wanted}`, async () => (await sentences()).join("\n") === wanted);
};

test("the first screen begins as the report does", async () => {
  await open("");
  await says(expected.reports.length - 1);
  assert.match((await page.locator(".sentences code").allInnerTexts()).join(), /\[/); // names are set apart
  await shows(".holders h2", `${bytesInWords(last.exact_bytes)} in ${countInWords(last.exact_calls)} calls`);
  await shows(".heaps", words(last.total["space"]!));
  await shows(".timeline-title", `Dump ${expected.reports.length} of ${expected.reports.length}`);
});

test("the page is small and fetches nothing from elsewhere", () => {
  assert(received > 10_000 && received < PAGE_BYTES_MAX, `${received} bytes`);
  assert.deepEqual(complaints, []);
});

test("the sentences are those of the selected dump, and of what it is compared with", async () => {
  await open("heap=0.0&dump=0");
  await says(0);
  await open("heap=0.0&dump=0&base=1");
  await until("the comparison is the last sentence", async () => / than at dump 2, [\d.]+ m?s later, beyond chance\.$/.test((await sentences()).join("\n")));
});

test("the whole graph is the report's total, in each view", async () => {
  await openGraph();
  await chooseRoot();
  for (const view of ["space", "alloc_space", "max"]) {
    await page.locator(".choice .view").selectOption(view);
    await shows(".details dd", words(last.total[view]!));
  }
  await page.locator(".choice .view").selectOption("objects");
  await shows(".details dd", words(last.total["objects"]!, true));
});

test("the table has each function's bytes", async () => {
  await open("tab=table&by=function&order=total");
  await page.waitForSelector(".grid-room .row");
  const sums = byFunction(last);
  const modules = new Map<string, Set<string>>();
  for (const { name, mapping } of last.callsites.flatMap((site) => site.frames)) modules.set(name, (modules.get(name) ?? new Set()).add(mapping));
  let compared = 0;
  for (const row of await page.locator(".grid-room .row").all()) {
    const cells = await row.locator("[role=gridcell]").allTextContents();
    const sum = sums.get(cells[0]!);
    if (sum === undefined || modules.get(cells[0]!)!.size > 1) continue;
    assert(cells[4]!.startsWith(bytesInWords(sum)) || cells[4] === "0", `${cells.join(" | ")}: the report has ${bytesInWords(sum)}`);
    compared++;
  }
  assert(compared >= 5, `${compared} rows compared`);
});

test("the table of a difference has both sides, the change and its share, sorted by any", async () => {
  await open("tab=table&heap=0.0&base=0&by=function&order=name&sort=down");
  const sides = [byFunction(expected.reports[0]!), byFunction(last)];
  await shows(".grid .head", "Change %");
  await page.waitForSelector(".grid-room .row .key");
  let compared = 0;
  for (const row of await page.locator(".grid-room .row").all()) {
    const cells = await row.locator("[role=gridcell]").allTextContents();
    const [before, after] = sides.map((of) => of.get(cells[0]!) ?? 0) as [number, number];
    if (cells[2] !== bytesInWords(before) || cells[3] !== bytesInWords(after)) continue; // of several modules
    assert.equal(cells[4], percentInWords(before, after), cells.join(" | "));
    compared++;
  }
  assert(compared >= 5, `${compared} rows compared`);
  await page.locator(".grid .head").getByRole("button", { name: "Before" }).click();
  await until("the order is in the address", async () => page.url().includes("order=before"));
});

test("boxes of a difference are as wide as the larger side, the later one, or the change", async () => {
  await openGraph("&heap=0.0&base=0");
  await chooseRoot();
  await shows(".details dl", "Gained");
  await shows(".legend", "doubled");
  const [before, after] = [expected.reports[0]!, last].map((report) => report.total["space"]!.estimate) as [number, number];
  await shows(".details dl", percentInWords(before, after));
  for (const width of ["after", "change", "larger"]) {
    const answer = page.waitForResponse((response) => response.url().includes(`width=${width}`));
    if (width === "larger") await page.goto(page.url().replace(/&width=\w+/, "").replace("base=0", "base=1")); // the others are kept
    else await page.getByLabel("Width").selectOption(width);
    assert.equal((await answer).status(), 200);
  }
});

testParts({ page: () => page, open, shows, until, callsites: last.callsites });
testTimeline({ page: () => page, open, shows, until, expected: expected.timeline });
testAxe({ page: () => page, until, url: expected.url });
testColumns({ page: () => page, url: expected.url, open, until, hostile: expected.reported.url });
testZoom({ page: () => page, until, url: expected.url });
testReports({ page: () => page, open, shows, until, complaints }, expected.reported);
testMachine({ page: () => page, shows, until, complaints, expected: expected.machine });

test("search says what share matches", async () => {
  await openGraph();
  const [name, sum] = [...byFunction(last)].filter(([, bytes]) => bytes < 0.9 * last.total["space"]!.estimate).sort((a, b) => b[1] - a[1])[0]!;
  await page.keyboard.press("/");
  await page.keyboard.type(`/^${name.replace(/[^\w]/g, "\\$&")}$/`);
  await shows(".search output", `${bytesInWords(sum)}, ${shareInWords(sum, last.total["space"]!.estimate)}`);
  assert(page.url().includes("search="));
  await page.keyboard.press("Enter");
  await shows(".search output", "1 of ");
  await shows(".details h2", name);
  await page.keyboard.press("Shift+Enter");
  const count = /of ([\d,]+)/.exec(await page.locator(".search output").innerText())![1];
  await shows(".search output", `${count} of ${count}`);
});

test("a filter leaves what the report leaves, and is taken back", async () => {
  await openGraph();
  await page.getByPlaceholder("Add a filter: expression").fill(expected.focus);
  await page.keyboard.press("Enter");
  const kept = expected.focused.callsites.reduce((sum, site) => sum + site.space.estimate, 0);
  await shows(".tools", `the filters leave out ${bytesInWords(last.total["space"]!.estimate - kept)}`);
  await chooseRoot();
  await shows(".details dd", bytesInWords(kept));
  await page.locator(".chip button").click();
  await until("the filter is gone", async () => (await page.locator(".chip").count()) === 0);
  await shows(".details dd", words(last.total["space"]!));
  await page.goBack();
  await page.waitForSelector(".chip");
});

test("keys go from dump to dump and compare them", async () => {
  await openGraph();
  await chooseRoot();
  await page.keyboard.press("[");
  const before = expected.reports[expected.reports.length - 2]!;
  await shows(".timeline-title", `Dump ${expected.reports.length - 1} of ${expected.reports.length}`);
  await shows(".details dd", words(before.total["space"]!));
  await page.keyboard.press("]");
  await page.keyboard.press("b");
  await until("the URL has the base", async () => page.url().includes(`base=${expected.reports.length - 2}`));
  await page.locator(".compared").selectOption("0");
  const change = last.total["space"]!.estimate - expected.reports[0]!.total["space"]!.estimate;
  await shows(".details dd", signedInWords(change, false));
  await shows(".legend", "within chance");
  await page.keyboard.press("1");
  await shows(".changes h2", "Compared with dump 1 of");
  await shows(".changes", "Grew most");
  await page.keyboard.press("x");
  await shows(".changes h2", `Compared with dump ${expected.reports.length} of`);
  await shows(".timeline-title", `Dump 1 of ${expected.reports.length}`);
  await page.goBack();
  await page.keyboard.press("2");
  await page.keyboard.press("p");
  await shows(".timeline-title", "Peak: ");
  await chooseRoot();
  await shows(".details dd", words(last.total["max"]!));
  await page.keyboard.press("[");
  await until("the dump before the peak is of what was live then", async () => /dump=\d+/.test(page.url()) && !page.url().includes("view=max"));
});

test("a diamond selects its dump, a drag compares the dumps at its ends", async () => {
  await openGraph();
  const over = page.locator(".timeline-plot .u-over");
  const box = (await over.boundingBox())!;
  await page.mouse.click(box.x + box.width - 1, box.y + 20);
  await shows(".timeline-title", `Dump ${expected.reports.length} of`);
  await page.mouse.move(box.x + 5, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2, box.y + 40, { steps: 3 });
  await page.mouse.move(box.x + box.width - 60, box.y + 40, { steps: 3 });
  await page.mouse.up();
  await until("a dump is selected by the range", async () => /(dump|base)=\d+/.test(page.url()));
});

test("in any window the panel has half of the height, and nothing is out of reach", async () => {
  await openGraph();
  for (const [width, height] of [[640, 360], [360, 740], [1280, 720], [3840, 2160]] as const) {
    await page.setViewportSize({ width, height });
    for (const tab of ["overview", "flame", "table", "memory", "details"]) {
      await page.locator(`#tab-${tab}`).click();
      await page.waitForSelector("main .panel");
      const box = (await page.locator("main").boundingBox())!;
      assert(box.height >= height / 2, `${tab} has ${box.height} of ${height}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert(wide <= 0, `${tab} in ${width} × ${height}: the page is ${wide} pixels too wide`);
    }
  }
  await page.setViewportSize({ width: 360, height: 740 });
  await page.locator("#tab-table").click();
  const name = (await page.locator(".grid-room .row .key").first().boundingBox())!;
  assert(name.width >= 150, `a function's name has ${name.width} pixels`);
  await page.setViewportSize({ width: 1280, height: 720 });
  await page.locator("#tab-flame").click();
  await page.getByTitle("Fold the timeline").click();
  await until("thirty rows fit", async () => (await page.locator(".flame-scroll canvas").boundingBox())!.height >= 30 * 18);
  await page.getByTitle("Show the timeline").click();
});

test("a click zooms, back undoes it, the menu opens callers and callees", async () => {
  await openGraph();
  const canvas = page.locator(".flame-scroll canvas");
  const box = (await canvas.boundingBox())!;
  await page.mouse.click(box.x + 60, box.y + 50);
  await until("the URL has the frame", async () => /zoom=\d+/.test(page.url()));
  const name = await page.locator(".details h2").innerText();
  await page.goBack();
  await until("the zoom is gone", async () => !page.url().includes("zoom="));
  await page.mouse.click(box.x + 60, box.y + 50, { button: "right" });
  await shows(".menu-title", name);
  await page.keyboard.press("c");
  await shows(".waist", name);
  await until("both graphs are there", async () => (await page.locator(".flame-scroll canvas").count()) === 2);
  const sum = byFunction(last).get(name);
  await page.mouse.move(1, 1);
  if (sum !== undefined) await shows(".details dd", bytesInWords(sum));
});

test("the wheel zooms and pans, the graph is saved as an image", async () => {
  await openGraph();
  const canvas = page.locator(".flame-scroll canvas");
  const box = (await canvas.boundingBox())!;
  const pixels = () => // of a row of frames
    canvas.evaluate((element) => {
      const { width } = element as HTMLCanvasElement;
      return (element as HTMLCanvasElement).getContext("2d")!.getImageData(0, 130, width, 1).data.join();
    });
  const begun = await pixels();
  await page.mouse.move(box.x + box.width - 20, box.y + 130);
  await page.keyboard.down("Control");
  await page.mouse.wheel(0, -600);
  await page.keyboard.up("Control");
  await until("the graph is zoomed", async () => (await pixels()) !== begun);
  const zoomed = await pixels();
  await page.mouse.wheel(-200, 0);
  await until("the graph is panned", async () => (await pixels()) !== zoomed);
  const image = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  await page.getByRole("menuitem", { name: "image" }).click();
  assert.match((await image).suggestedFilename(), /libc\.malloc.*space\.png$/);
  await canvas.focus();
  await page.keyboard.press("Escape");
  await page.mouse.move(1, 1);
  await until("the whole graph is back", async () => (await pixels()) !== zoomed);
});

test("what is selected is exported", async () => {
  await openGraph();
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  await page.keyboard.press("c");
  const file = readFileSync(await (await download).path(), "utf8");
  const sum = file.trim().split("\n").reduce((bytes, line) => bytes + Number(line.slice(line.lastIndexOf(" "))), 0);
  const total = last.total["space"]!.estimate;
  assert(Math.abs(sum - total) < 1e-3 * total, `${sum} bytes, the report has ${total}`);
});

test("boxes and tables are exported as CSV", async () => {
  const exported = async (entry: string) => {
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export" }).click();
    await page.getByRole("menuitem", { name: entry }).click();
    return readFileSync(await (await download).path(), "utf8").split("\r\n");
  };
  await openGraph();
  const boxes = await exported("The boxes as CSV");
  assert.equal(boxes[0], "box,parent,function,module,file,line,bytes,bytes_low95,bytes_high95,self_bytes,count,count_low95,count_high95,self_count");
  const whole = boxes[1]!.split(",").slice(6, 9).map(Number);
  const { estimate, low95, high95 } = last.total["space"]!;
  [estimate, low95, high95].forEach((wanted, i) => assert(Math.abs(whole[i]! - wanted) < 1, `${boxes[1]}: the report has ${wanted}`));
  await openGraph("&heap=1.0"); // with hostile names
  assert((await exported("The boxes as CSV")).some((line) => line.includes(",<img src=x onerror=alert(1)>,")));
  await open("tab=overview&heap=0.0");
  await shows(".heaps", words(last.total["space"]!));
  assert((await exported("The tables as CSV")).some((line) => line.includes(words(last.total["space"]!))));
});

test("the graph says its chosen box, and nothing moves if the reader wants that", async () => {
  await page.emulateMedia({ reducedMotion: "reduce" });
  await openGraph();
  await page.locator(".flame-scroll canvas").focus();
  await page.keyboard.press("ArrowDown");
  const said = page.locator(".flame-body > [role=status]");
  await until("the box is said", async () => / of all\. \d+ box(es)? after it\.$/.test(await said.innerText()));
  assert((await said.innerText()).startsWith(await page.locator(".details .name").innerText()));
  assert.equal(await page.evaluate(() => document.getAnimations().length + Number.parseFloat(getComputedStyle(document.querySelector(".flame-graphs")!).transitionDuration)), 0);
  assert.match(await said.innerText(), /, row 2 after the root: /);
  assert.equal(await page.locator(".flame-scroll canvas").getAttribute("aria-describedby"), await said.getAttribute("id"));
  for (const panel of ["tab=overview", "tab=table&base=0&heap=0.0", "tab=memory", "tab=details", "tab=leaks", "tab=sql", "page=home", "page=record", "page=processes"]) {
    await page.goto("about:blank");
    await page.goto(`${expected.url}#${panel}`);
    await page.waitForSelector("#panel section");
    const moving = await page.evaluate(() => [...document.querySelectorAll("*")].filter((element) => [undefined, "::before", "::after"].some((part) => {
      const { transitionDuration, animationName, scrollBehavior } = getComputedStyle(element, part);
      return transitionDuration !== "0s" || animationName !== "none" || scrollBehavior !== "auto";
    })).map(({ className }) => className));
    assert.deepEqual(moving, [], panel);
  }
  await page.emulateMedia({ reducedMotion: null });
});

test("the graph is saved as SVG, JSON and an image of callers and callees", async () => {
  const exported = async (key: string) => {
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export" }).click();
    await page.keyboard.press(key);
    return (await download).path();
  };
  /** Return the titles of the boxes. */
  const boxesOf = (path: string) => {
    execFileSync("xmllint", ["--noout", path]);
    return [...readFileSync(path, "utf8").matchAll(/<g><title>([^<]*)<\/title>/g)].map((found) => found[1]!.split("\n"));
  };
  await openGraph();
  const whole = boxesOf(await exported("g"));
  assert.deepEqual(whole[0], ["everything", `${words(last.total["space"]!)}, 100 % of all`]);
  const sums = byFunction(last);
  const outermost = whole.find(([name]) => name!.startsWith("_start "))!;
  assert(outermost.at(-1)!.startsWith(bytesInWords(sums.get("_start")!)), outermost.join());

  await openGraph("&heap=0.0&dump=0&base=1&direction=up"); // what was gained since then is lost
  const before = expected.reports[1]!.total["space"]!.estimate - expected.reports[0]!.total["space"]!.estimate;
  const change = boxesOf(await exported("g"));
  assert(change[0]![1]!.startsWith(signedInWords(-before, false)), `${change[0]!.join()}: the reports have ${signedInWords(-before, false)}`);
  const json = JSON.parse(readFileSync(await exported("j"), "utf8")) as { direction: string; nodes: { bytes: { change: number } }[] };
  assert.equal(json.direction, "up");
  assert(Math.abs(json.nodes[0]!.bytes.change + before) < 1, `${json.nodes[0]!.bytes.change}, the reports have ${-before}`);

  await openGraph("&heap=1.0"); // with hostile names
  assert(boxesOf(await exported("g")).some(([name]) => name!.includes("&lt;script&gt;")));
  await page.locator(".flame-scroll canvas").focus();
  for (const key of ["ArrowDown", "ArrowDown", "c"]) await page.keyboard.press(key);
  await until("both graphs are there", async () => (await page.locator(".flame-scroll canvas").count()) === 2);
  const size = await page.locator(".flame-scroll canvas").evaluateAll((all) => all.reduce((sum, canvas) => sum + (canvas as HTMLCanvasElement).height, 0));
  const image = readFileSync(await exported("i"));
  assert(image.readUInt32BE(20) > size + 60); // height in the header of a PNG: title, scale and legend are above
});

test("Perfetto UI reads the trace, another site does not", { skip: !expected.own_network }, async () => {
  await open("");
  await page.getByRole("button", { name: "Perfetto UI" }).click();
  const link = page.getByRole("link", { name: "Open Perfetto UI" });
  const address = (await link.getAttribute("href"))!;
  const trace = address.split("?url=")[1]!;
  assert(address.startsWith("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/"));
  await context.route(/^https:/, (route) => route.fulfill({ contentType: "text/html", body: "<title>a site</title>" })); // no network here
  const [tab] = await Promise.all([context.waitForEvent("page"), link.click()]);
  await tab.waitForURL(address);
  const read = (site: Page) => site.evaluate((url) => fetch(url).then((answer) => answer.arrayBuffer()).then((bytes) => bytes.byteLength, String), trace);
  assert.equal(await tab.evaluate(() => window.opener), null);
  assert.equal(await read(tab), readFileSync(expected.trace).length);
  await tab.goto("https://example.org/");
  assert.match(String(await read(tab)), /Failed to fetch/);
  await tab.close();
  await context.unroute(/^https:/);

  await open("heap=1.0"); // of another profiler's file
  await page.getByRole("button", { name: "Perfetto UI" }).click();
  await shows(".bar-error", "Perfetto UI can open traces only.");
  await page.getByRole("button", { name: "Close" }).click();
  await until("the error is closed", async () => (await page.locator(".bar-error").count()) === 0);
});

test("a screen reader finds the frames in a grid", async () => {
  await openGraph();
  const grid = page.getByRole("treegrid");
  await until("the grid has rows", async () => (await grid.getByRole("row").count()) > 2);
  await grid.getByRole("button").nth(1).focus();
  await page.keyboard.press("Enter");
  await until("the frame is chosen", async () => (await page.locator(".details h2").innerText()) === (await grid.locator("[aria-selected=true] button").innerText()));
});

test("the memory's parts are those of report --rss, a click selects a dump", async () => {
  await open("tab=memory");
  const count = expected.reports.length;
  const isOf = async (dump: number) => {
    const memory = expected.memory[dump]!;
    await shows(".timeline-title", `Dump ${dump + 1} of ${count}`);
    if (!memory.known) return shows(".memory-unknown", "unknown");
    await shows(".parts tfoot tr", `RSS ${bytesInWords(memory.rss_bytes)}`);
    await shows(".parts tr", `the allocator's memory ${bytesInWords(memory.allocator_bytes)}`);
    for (const row of [...memory.allocator_rows, ...memory.other_rows])
      await shows(".parts tr", `${row.words} ${row.bytes === null ? "unknown" : bytesInWords(row.bytes)}`);
  };
  assert(expected.memory.some((memory) => memory.known));
  await isOf(count - 1);
  const box = (await page.locator(".memory-plot .u-over").boundingBox())!;
  await page.mouse.click(box.x + 2, box.y + 40);
  await until("an earlier dump is selected", async () => /dump=\d+/.test(page.url()));
  const dump = Number(/dump=(\d+)/.exec(page.url())![1]);
  await isOf(dump);
  await page.locator(".memory-plot").focus();
  await page.keyboard.press("ArrowRight");
  await isOf(dump + 1);
});

test("SQL answers as query does", async () => {
  await open("tab=sql");
  await page.locator("textarea").fill(expected.sql.statement);
  await page.keyboard.press("Control+Enter");
  const cells = expected.sql.rows.map((row) => Object.values(row).map(String));
  assert(cells.length > 0);
  await until("the rows are there", async () => (await page.locator(".sql-main tbody tr").count()) === cells.length);
  for (const [i, row] of cells.entries()) assert.deepEqual(await page.locator(".sql-main tbody tr").nth(i).locator("td").allInnerTexts(), row);
  const link = page.url();
  await page.goto("about:blank");
  await page.goto(link);
  await until("the link has the statement", async () => (await page.locator("textarea").inputValue()) === expected.sql.statement);
  await page.locator("textarea").fill("SELECT nonsense FROM nowhere");
  await page.getByRole("button", { name: "Run" }).click();
  await shows(".sql-main .bad", "nowhere");
});

test("hostile names are text", async () => {
  await open("tab=table&by=function");
  await page.locator(".choice select").first().selectOption({ label: "hostile.collapsed" });
  await shows(".grid-room .key", "<img src=x onerror=alert(1)>");
  await shows(".grid-room .key", "\\u202eright-to-left");
  await page.keyboard.press("2");
  await page.waitForSelector(".flame-scroll canvas");
  await page.locator(".flame-scroll canvas").focus();
  await page.keyboard.press("ArrowDown");
  await shows(".details h2", "main");
  await page.keyboard.press("ArrowDown");
  await shows(".details h2", "<img src=x onerror=alert(1)>");
  await page.keyboard.press("h");
  await shows(".chip code", "<img src=x onerror=alert\\(1\\)>");
  await page.keyboard.press("1");
  await page.waitForSelector(".holders");
  assert.equal(await page.locator("#page img, #page script, #page iframe").count(), 0);
  assert.deepEqual(complaints, []);
});

test("a fragment that makes no sense opens the page as it opens without", async () => {
  await open("tab=zzz&heap=99.99&dump=100000&view=nothing&filter=rm:x&zoom=1..2&function=-3");
  await shows(".heaps", words(last.total["space"]!));
  await open("tab=flame&heap=<img>&filter=focus:(");
  await until("the wrong expression is named", async () => (await page.locator(".empty.bad").count()) > 0);
});

test("? lists the keys, l switches to dark", async () => {
  await openGraph();
  await page.keyboard.press("?");
  await shows("dialog", "Callers and callees");
  await page.keyboard.press("Escape");
  await until("the list is closed", async () => (await page.locator("dialog").count()) === 0);
  await page.keyboard.press("l");
  await until("it is dark", async () => (await page.evaluate(() => getComputedStyle(document.body).backgroundColor)) === "rgb(24, 26, 29)");
  await page.keyboard.press("l");
});

test("the page saves itself, and opens there on what it showed", async () => {
  const file = `${expected.saved}.again.html`;
  await open(`heap=0.0&dump=1&tab=table&by=module&over=module&filter=ignore:%22%3E%3Cscript%3E`);
  await page.waitForSelector(".grid-room .row");
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  await page.getByRole("menuitem", { name: "This page, as a file" }).click();
  await (await download).saveAs(file);
  await open("", `file://${file}`);
  await shows(".tabs [aria-selected=true]", "Table");
  await shows(".chip", '"><script>');
  await shows(".timeline-title", "Dump 2 of");
  await page.waitForSelector(".grid.by-module .row .spark");
  await shows(".layers", "of what the filters leave");
});

test("a saved page answers filters, callers, differences, the memory, details, groups and parts", async () => {
  await open("heap=0.0&dump=0", `file://${expected.saved}`);
  await says(0);
  await open("", `file://${expected.saved}`);
  await says(expected.reports.length - 1);
  await page.keyboard.press("2");
  await page.waitForSelector(".flame-scroll canvas");
  await chooseRoot();
  for (const view of ["space", "alloc_space"]) {
    await page.locator(".choice .view").selectOption(view);
    await shows(".details dd", words(last.total[view]!));
  }
  await page.locator(".choice .view").selectOption("space");
  await page.getByPlaceholder("Add a filter: expression").fill(expected.focus);
  await page.keyboard.press("Enter");
  const kept = expected.focused.callsites.reduce((sum, site) => sum + site.space.estimate, 0);
  await shows(".tools", `the filters leave out ${bytesInWords(last.total["space"]!.estimate - kept)}`);
  await page.getByPlaceholder("Add a filter: expression").fill("(");
  await page.keyboard.press("Enter");
  await shows(".flame .empty", "a ( has no )");
  await page.locator(".chip button").nth(1).click();
  await page.locator(".chip button").click();
  await page.locator(".compared").selectOption("0");
  await chooseRoot();
  await shows(".details dd", signedInWords(last.total["space"]!.estimate - expected.reports[0]!.total["space"]!.estimate, false));
  await page.locator(".compared").selectOption("");
  await page.keyboard.press("3");
  await page.getByRole("button", { name: "Function", exact: true }).click();
  await page.waitForSelector(".grid.by-function:not(.waits) .grid-room .row");
  await page.keyboard.press("/");
  await page.keyboard.type("Main");
  await until("the rows are searched", async () => (await page.locator(".grid-room .key").allTextContents()).every((name) => /main/i.test(name)));
  await page.locator(".grid-room .row").first().click();
  await page.getByRole("menuitem", { name: "Callers and callees" }).click();
  await until("callers and callees are there", async () => (await page.locator(".flame-scroll canvas").count()) === 2);
  await page.keyboard.press("4");
  const memory = expected.memory[expected.memory.length - 1]!;
  if (memory.known) await shows(".parts tfoot tr", `RSS ${bytesInWords(memory.rss_bytes)}`);
  else await shows(".memory-unknown", "unknown");
  await page.keyboard.press("5");
  await shows("#backtraces-table [role=row]", bytesInWords(last.total["space"]!.estimate));
  await page.keyboard.press("2");
  await page.locator(".tools .group button").first().click();
  await page.locator(".group-choice select").selectOption("thread");
  await until("it is grouped", async () => page.url().includes("group=thread") && (await page.locator("section.flame[aria-busy=true]").count()) === 0);
  await page.keyboard.press("ArrowDown");
  assert.equal(await page.locator(".flame .empty").count(), 0);
  await page.locator(".group-choice select").selectOption("");
  await page.keyboard.press("3");
  await page.waitForSelector(".grid-room .row");
  await page.locator(".grid-body").focus();
  await page.keyboard.press("Enter");
  await shows(".menu", "Break down by module");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator(".banner, #tab-sql, #tab-source").count(), 0);
  assert.deepEqual(complaints, []);
});

test("a recording that has just begun is said, and shown when it has a dump", async () => {
  await open("", expected.begun);
  await shows(".overview .empty", "There is no dump yet.");
  await page.keyboard.press("2");
  await shows("#panel .empty", "There is no dump yet.");
  await page.keyboard.press("1");
  copyFileSync(expected.trace, expected.begunTrace);
  await says(expected.reports.length - 1);
  assert.deepEqual(complaints, []);
});

test("a server that is gone is said, and so is its return", async () => {
  await openGraph();
  await context.setOffline(true);
  await page.keyboard.press("v");
  await shows(".banner", "does not answer");
  await context.setOffline(false);
  await until("the banner is gone", async () => (await page.locator(".banner").count()) === 0);
  await chooseRoot();
  await shows(".details dd", words(last.total["objects"]!, true));
  process.kill(expected.server, "SIGTERM");
  await page.keyboard.press("3");
  await shows(".banner", "does not answer");
  assert.deepEqual(complaints, []);
});
