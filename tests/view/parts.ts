// SPDX-License-Identifier: Apache-2.0
// Tables in the browser: broken down step by step, sorted, and as histograms. Figures are the report's.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { bytesInWords, countInWords } from "page/words";

interface Callsite {
  space: { estimate: number };
  frames: { name: string; mapping: string }[];
}

/** What browser.ts has for all tests. */
interface Tools {
  page: () => Page;
  open: (fragment: string) => Promise<void>;
  shows: (selector: string, text: string) => Promise<void>;
  until: (what: string, holds: () => Promise<boolean>) => Promise<void>;
  callsites: Callsite[]; // of the last dump
}

/** Bytes with callees by function, of the callsites with a frame of the module. */
function functionsOf(callsites: Callsite[], module: string): Map<string, number> {
  const sums = new Map<string, number>();
  for (const site of callsites) {
    if (!site.frames.some((frame) => frame.mapping === module)) continue;
    for (const name of new Set(site.frames.map((frame) => frame.name))) sums.set(name, (sums.get(name) ?? 0) + site.space.estimate);
  }
  return sums;
}

export function testParts({ page, open, shows, until, callsites }: Tools) {
  const cells = async (column: number) => {
    const rows = await page().locator(".grid-room .row").all();
    return Promise.all(rows.map(async (row) => (await row.locator("[role=gridcell]").nth(column).textContent())!.replace(/\s+/g, " ")));
  };
  const parameter = (name: string) => new URLSearchParams(new URL(page().url()).hash.slice(1)).getAll(name);

  test("a row is broken down by another dimension, and back", async () => {
    await open("tab=table&heap=0.0&by=module");
    await page().waitForSelector(".grid-room .row");
    const [module] = await cells(0);
    await page().locator(".grid-body").focus();
    await page().keyboard.press("Enter");
    await shows(".menu", "Break down by function");
    await page().keyboard.press("F");
    await shows(".path", `module ${module}`);
    await until("it is a part", async () => parameter("only")[0] === `module:${module}` && parameter("by")[0] === "function");
    await shows(".chip", `only module ${module}`);
    const sums = functionsOf(callsites, module!);
    await until("the rows are functions", async () => (await page().locator(".grid.by-function .row").count()) > 1 && (await page().locator(".grid.waits").count()) === 0 && (await cells(0))[0] !== module);
    const [names, totals] = [await cells(0), await cells(4)];
    const compared = names.filter((name, i) => sums.has(name) && totals[i]!.startsWith(bytesInWords(sums.get(name)!)));
    assert(compared.length >= Math.min(names.length, 5), `${names.slice(0, 8).join(", ")}: ${totals.slice(0, 8).join(", ")}`);
    await page().locator(".grid-body").focus();
    await page().keyboard.press("S");
    await until("the path has two parts", async () => parameter("only").length === 2 && parameter("by")[0] === "size");
    await page().keyboard.press("Backspace");
    await until("the last part is gone", async () => parameter("only").length === 1 && parameter("by")[0] === "function");
    await page().goBack();
    await until("back undoes it", async () => parameter("only").length === 2);
    await page().locator(".path button").first().click();
    await until("all is shown", async () => parameter("only").length === 0 && parameter("by")[0] === "module");
    await page().locator(".grid-room .row").first().click({ button: "right" });
    await page().getByRole("menuitem", { name: "Flame graph of this row" }).click();
    await page().waitForSelector(".flame-scroll canvas");
    await page().getByRole("button", { name: `Remove: only module ${module}` }).click();
    await until("the part is taken back", async () => parameter("only").length === 0);
  });

  test("a table is sorted by any column, down and up", async () => {
    await open("tab=table&heap=0.0&by=holder");
    await page().waitForSelector(".grid-room .row");
    for (const [name, sort] of [["Allocations", "descending"], ["Allocations ↓", "ascending"], ["Holder", "ascending"], ["Holder ↑", "descending"]] as const) {
      await page().getByRole("button", { name, exact: true }).last().click();
      await until(`${name} is sorted`, async () => (await page().locator(`[aria-sort=${sort}]`).count()) === 1 && (await page().locator(".grid.waits").count()) === 0);
    }
    await until("the names are in this order", async () => {
      const names = (await cells(0)).map((name) => name.toLowerCase());
      return names.length > 1 && names.join("\n") === [...names].sort().reverse().join("\n");
    });
  });

  test("sizes are a histogram", async () => {
    await open("tab=table&heap=0.0&by=size");
    await shows(".grid.by-size .row", " B to ");
    const rows = await page().evaluate(() => fetch("api/table?heap=0.0&view=space&by=size&order=name").then((answer) => answer.json())) as
      { row: { bytes: { value: number }; count: { value: number } }[] };
    const [bytes, counts] = [await cells(1), await cells(3)];
    assert.equal(bytes.length, rows.row.length);
    for (const [i, row] of rows.row.entries()) {
      assert(bytes[i]!.startsWith(bytesInWords(row.bytes.value)), `${bytes[i]}, the server has ${row.bytes.value}`);
      assert(counts[i]!.startsWith(countInWords(row.count.value)), `${counts[i]}, the server has ${row.count.value}`);
    }
    const whole = callsites.reduce((sum, site) => sum + site.space.estimate, 0);
    assert(Math.abs(rows.row.reduce((sum, row) => sum + row.bytes.value, 0) - whole) < 1e-6 * whole, "the classes do not add up to the report's stacks");
  });

  test("a graph is grouped by thread, and a group shown alone", async () => {
    const whole = callsites.reduce((sum, site) => sum + site.space.estimate, 0);
    await open("tab=flame&heap=0.0");
    await page().waitForSelector(".flame-scroll canvas");
    await page().locator(".group-choice select").selectOption("thread");
    await until("the URL has it", async () => parameter("group")[0] === "thread");
    await shows(".frames td", "thread python3 (");
    await page().locator(".flame-scroll canvas").focus();
    await page().keyboard.press("ArrowDown");
    await shows(".details h2", "thread python3 (");
    await shows(".details dd", bytesInWords(whole));
    await page().keyboard.press("f");
    await shows(".chip", "only thread");
    await until("it is no group any more", async () => parameter("group").length === 0 && parameter("only").length === 1);
    await page().goBack();
    await until("back undoes it", async () => parameter("group")[0] === "thread" && parameter("only").length === 0);
  });

  test("the frames of a module are hidden", async () => {
    await open("tab=flame&heap=0.0");
    await page().waitForSelector(".flame-scroll canvas");
    await page().locator(".flame-scroll canvas").focus();
    await page().keyboard.press("ArrowDown");
    const chosen = page().locator(".frames [aria-selected=true] td:nth-child(2)");
    await until("a frame of a module is chosen", async () => (await chosen.allInnerTexts()).some((text) => text !== ""));
    const module = await chosen.innerText();
    await page().keyboard.press("m");
    await shows(".chip", "hide frames");
    await until("other modules' frames are there", async () => {
      const modules = await page().locator(".frames tbody td:nth-child(2)").allInnerTexts();
      return modules.length > 1 && !modules.includes(module);
    });
  });

  test("an address of another server opens on the same function", async () => {
    await open("tab=table&heap=0.0");
    await page().waitForSelector(".grid-room .row");
    const [name] = await cells(0);
    await page().locator(".grid-body").focus();
    await page().keyboard.press("c");
    await shows(".waist", name!);
    await until("the address has its name", async () => (parameter("functionName")[0] ?? "").includes("@") && parameter("numbering").length === 1);
    const [full] = parameter("functionName");
    const other = new URLSearchParams({ functionName: full!, numbering: "1-abc", function: "0", zoom: "1.2" });
    await open(`tab=flame&heap=0.0&direction=sandwich&${other}`);
    await shows(".waist", name!);
    await until("the number is new, the zoom is gone", async () => parameter("zoom").length === 0 && parameter("numbering")[0] !== "1-abc");
    await open("tab=flame&heap=0.0&direction=sandwich&function=0&functionName=no%40where&numbering=1-abc&frame=1.2");
    await until("a function that is gone is dropped", async () => parameter("function").length === 0 && parameter("frame").length === 0);
    await page().waitForSelector(".flame-scroll canvas");
  });
}
