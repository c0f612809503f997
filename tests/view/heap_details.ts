// SPDX-License-Identifier: Apache-2.0
// The heap details in the browser: backtraces and types of several dumps, broken down by the mouse and the
// keyboard, and the table of processes. Figures are those of `report --json` and `diff --by type --json`.
//
// EXPECTED names a file that run.py writes, of what heap_details_profiles.py makes.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { chromium, type Browser, type Page } from "playwright-core";
import { bytesInWords, figureInWords, marginInWords, signedInWords } from "page/words";

interface Estimate {
  estimate: number;
  low95: number;
  high95: number;
}

interface Report {
  pid: number;
  total: Record<string, Estimate>;
  callsites: { space: Estimate; objects: Estimate; frames: { name: string }[] }[];
}

interface Expected {
  url: string;
  heap: string;
  hostileType: string;
  processes: number;
  chromium: Record<string, Record<string, number>>; // what each process reports of its allocators, by pid
  reports: Report[]; // by dump
  memoryDumps: Report;
  types: { type: string; space: { change: number; low95: number; high95: number; before: number; after: number; beyond_chance: boolean } }[];
  total: { change: number; low95: number; high95: number }; // of all types
}

const PATIENCE_MS = 60_000;
const expected = JSON.parse(readFileSync(process.env["EXPECTED"]!, "utf8")) as Expected;
const { reports, types, hostileType } = expected;
const last = reports[reports.length - 1]!;
const complaints: string[] = []; // errors, dialogs, and requests to other places
let browser: Browser;
let page: Page;

before(async () => {
  browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
  page = await browser.newPage({ viewport: { width: 1920, height: 1080 } });
  page.setDefaultTimeout(PATIENCE_MS);
  page.on("pageerror", (error) => complaints.push(String(error.stack)));
  page.on("dialog", (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => !request.url().startsWith(expected.url) && complaints.push(`asked ${request.url()}`));
});
after(() => browser?.close());

async function until(what: string, holds: () => Promise<boolean>) {
  const end = Date.now() + PATIENCE_MS;
  while (!(await holds())) {
    assert(Date.now() < end, `in vain waited until ${what}; the page shows:\n${(await page.locator("body").innerText()).slice(0, 3000)}`);
    await page.waitForTimeout(20);
  }
}

const shows = (selector: string, text: string) =>
  until(`${selector} shows "${text}"`, async () => (await page.locator(selector).allInnerTexts()).some((found) => found.replace(/\s+/g, " ").includes(text)));

const words = (estimate: Estimate) => figureInWords({ value: estimate.estimate, low: estimate.low95, high: estimate.high95 }, false);

/** What a cell begins with. */
const amount = (bytes: number) => (bytes === 0 ? "0" : bytesInWords(bytes));

/** Bytes by the innermost function. */
function allocators(report: Report): Map<string, number> {
  const sums = new Map<string, number>();
  for (const { space, frames } of report.callsites) sums.set(frames[0]!.name, (sums.get(frames[0]!.name) ?? 0) + space.estimate);
  return sums;
}

const backtraces = () => page.getByRole("treegrid", { name: "By backtrace" });
const typeTable = () => page.getByRole("treegrid", { name: "By type" });
const parameter = (name: string) => new URLSearchParams(new URL(page.url()).hash.slice(1)).get(name);

/** The cells of a table's rows, by the row's name. */
async function rowsOf(table: "backtraces" | "types"): Promise<Map<string, string[]>> {
  const found = await page.locator(`#${table === "types" ? "types" : "backtraces"}-table .tree-room [role=row]`).evaluateAll((rows) => rows.map((row) =>
    [row.querySelector(".name, .untyped")?.textContent ?? "", ...[...row.querySelectorAll("[role=gridcell]")].slice(1).map((cell) => cell.textContent ?? "")]));
  return new Map(found.map(([name, ...cells]) => [name!, cells]));
}
const settled = () => until("the tables are there", async () =>
  (await page.locator(".pane[aria-busy=true]").count()) === 0 && (await page.locator("#backtraces-table [role=row]").count()) > 1);
async function openDetails(fragment = "&heap=0.1") {
  await page.goto("about:blank");
  await page.goto(`${expected.url}#tab=details${fragment}`);
  await page.waitForSelector(".tabs");
  await settled();
}

test("heap details have each function's bytes in several dumps", async () => {
  await openDetails("&heap=0.1&direction=up&base=0&also=1&rank=name");
  const shown = [0, 1, reports.length - 1].map((dump) => reports[dump]!);
  const rows = await rowsOf("backtraces");
  shown.forEach((report, i) => assert(rows.get("everything")![i]!.startsWith(bytesInWords(report.total["space"]!.estimate)), `dump ${i}: ${rows.get("everything")![i]}`));
  for (const [name, bytes] of allocators(last)) {
    const cells = rows.get(name);
    assert(cells, `${name} is missing`);
    shown.forEach((report, i) => assert(cells[i]!.startsWith(amount(allocators(report).get(name) ?? 0)), `${name}, dump ${i}: ${cells[i]}`));
    assert(cells[3]!.startsWith(signedInWords(bytes - (allocators(shown[0]!).get(name) ?? 0), false)), `${name}: ${cells[3]}`);
  }
  assert.equal(rows.size, allocators(last).size + 1);
});

test("types change as in diff, beyond chance in colour", async () => {
  await openDetails("&heap=0.1&base=0");
  const rows = await rowsOf("types");
  assert.equal(rows.size, types.length + 1);
  for (const { type, space } of types) {
    const cells = rows.get(type === "" || type === "[unknown]" ? "without a type" : type);
    assert(cells, `${type} is missing: ${[...rows.keys()].join(", ")}`);
    assert(cells[0]!.startsWith(amount(space.before)), `${type}: ${cells[0]}`);
    assert(cells[1]!.startsWith(amount(space.after)), `${type}: ${cells[1]}`);
    const change = { value: space.change, low: space.low95, high: space.high95 };
    assert.equal(cells[2], `${signedInWords(space.change, false)} ${marginInWords(change, false)}`);
  }
  const marked = await typeTable().locator(".tree-line:not(.root) .grew, .tree-line:not(.root) .shrank").count();
  assert.equal(marked, types.filter((row) => row.space.beyond_chance).length);
  const everything = (await rowsOf("backtraces")).get("everything")!;
  assert.deepEqual(everything.slice(0, 2), [words(reports[0]!.total["space"]!), words(last.total["space"]!)]);
  const total = { value: expected.total.change, low: expected.total.low95, high: expected.total.high95 };
  assert.equal(everything[2], `${signedInWords(total.value, false)} ${marginInWords(total, false)}`);
  assert.equal(await page.locator("#page img").count(), 0);
});

test("a type restricts the backtraces, a backtrace the types", async () => {
  await openDetails("&heap=0.1&direction=up");
  await typeTable().getByText(hostileType).click();
  await shows(".chip code", hostileType);
  await settled();
  const ofType = types.find((row) => row.type === hostileType)!.space.after;
  await until("the backtraces are the type's", async () => (await rowsOf("backtraces")).get("everything")?.[0]?.startsWith(bytesInWords(ofType)) === true);
  assert.deepEqual([...(await rowsOf("backtraces")).keys()], ["everything", "typed_allocate"]);
  assert.equal((await rowsOf("types")).size, types.length + 1);
  await page.goBack();
  await until("all types are back", async () => parameter("only") === null);
  await settled();
  await backtraces().getByText("custom_allocate").dblclick();
  await shows(".details-crumbs", "everything › custom_allocate");
  await settled();
  await until("the types are the backtrace's", async () => [...(await rowsOf("types")).keys()].join() === "all types,without a type");
  assert((await rowsOf("types")).get("all types")![0]!.startsWith(bytesInWords(allocators(last).get("custom_allocate")!)));
  await backtraces().press("Backspace");
  await until("nothing is broken down", async () => parameter("zoom") === null && (await page.locator(".details-crumbs").count()) === 0);
});

test("the keyboard opens, closes and breaks rows down", async () => {
  await openDetails();
  await until("single callers are open", async () => (await rowsOf("backtraces")).has("typed_allocate"));
  const chosen = () => backtraces().locator("[aria-selected=true] .name").innerText();
  await backtraces().press("ArrowDown");
  const top = await chosen();
  assert.equal(await backtraces().locator("[aria-selected=true]").getAttribute("aria-expanded"), "true");
  await backtraces().press("ArrowLeft");
  await until("the row is closed", async () => (await rowsOf("backtraces")).size === 2);
  await backtraces().press("ArrowRight");
  await backtraces().press("ArrowRight");
  await until("its child is chosen", async () => (await chosen()) !== top);
  await backtraces().press("Enter");
  await shows(".details-crumbs", `everything › ${top} › `);
  await page.getByRole("button", { name: "Flame graph" }).last().click();
  await page.waitForSelector(".flame-scroll canvas");
  await page.goBack();
  await settled();
  await page.getByRole("searchbox", { name: "Search functions" }).fill("CUSTOM_alloc");
  await until("the stacks are searched", async () => (await backtraces().locator("mark").allInnerTexts()).join() === "custom_alloc" && !(await rowsOf("backtraces")).has("typed_allocate"));
});

test("dumps are added side by side and taken away", async () => {
  await openDetails();
  const add = page.getByRole("combobox", { name: "Add a dump" });
  await add.selectOption("0");
  await until("the first is the base", async () => parameter("base") === "0");
  await add.selectOption("1");
  await until("the second stands beside", async () => parameter("also") === "1");
  await settled();
  assert.equal(await backtraces().getByRole("columnheader").filter({ hasText: /^\d+( of \d+)?: / }).count(), 3);
  await page.getByRole("button", { name: /^Take dump 1 of/ }).click();
  await until("the next one is the base", async () => parameter("base") === "1" && parameter("also") === null);
});

test("all heaps at the dump are in a table, a click selects one", async () => {
  await openDetails();
  await shows(".dumps [role=row]", words(last.total["space"]!));
  await page.locator(".dumps-body .link").last().click();
  await until("the other heap is selected", async () => parameter("heap") === "0.0");
  await shows(".details-unknown", "Types are unknown");
  await openDetails("&heap=1.1"); // as Chrome's memory dumps
  assert((await rowsOf("backtraces")).get("everything")![0]!.startsWith(bytesInWords(expected.memoryDumps.total["space"]!.estimate)));
  assert((await rowsOf("types")).has(hostileType));
});

test("processes report their allocators in a memory dump of Chromium", async () => {
  await openDetails("&heap=3.0");
  const sort = page.locator(".dumps").getByRole("button", { name: "malloc" }).last();
  await sort.click();
  const titles = (await page.locator(".dumps .head [role=columnheader]").allInnerTexts()).map((title) => title.split("\n")[0]!.replace(/ [↓↑]$/, ""));
  const rows = await page.locator(".dumps-body [role=row]").evaluateAll((all) => all.map((row) => [...row.querySelectorAll("[role=gridcell]")].map((cell) => cell.textContent ?? "")));
  for (const [pid, sizes] of Object.entries(expected.chromium)) {
    const row = rows.find(([name]) => name!.endsWith(`(${pid})`));
    assert(row, `${pid} is missing`);
    for (const [name, bytes] of Object.entries(sizes)) assert.equal(row[titles.lastIndexOf(name)], bytesInWords(bytes), `${name} of ${row[0]}`);
  }
  assert(Object.keys(expected.chromium).length >= 7);
  const mallocs = rows.map((row) => row[titles.lastIndexOf("malloc")]!);
  assert.equal(mallocs[0], bytesInWords(Math.max(...Object.values(expected.chromium).map((sizes) => sizes["malloc"]!))));
});

test("500 processes are in a table of which only what is seen exists", async () => {
  await openDetails("&heap=2.0");
  await shows(".dumps output", `${expected.processes} processes`);
  assert((await page.locator(".dumps-body [role=row]").count()) < 40);
  await shows(".dumps-body [role=row]", `worker_${expected.processes} (${expected.processes})`); // sorted by what they hold
  await page.getByRole("searchbox", { name: "Search processes" }).fill("worker_123");
  await shows(".dumps output", "1 process");
  await page.locator(".dumps-body").focus();
  await page.keyboard.press("Enter");
  await shows("#backtraces-table .root", bytesInWords(123_000));
  await shows(".dumps-body [role=row]", bytesInWords(1_000_123));
  assert.deepEqual(complaints, []);
});
