// SPDX-License-Identifier: Apache-2.0
// The timeline in the browser: a real program with 100 dumps, and made traces of 500 processes and of
// 10,000 dumps. Figures are those of report and query.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { Page } from "playwright-core";
import type { Course, Table } from "page/types";
import { bytesInWords, countInWords, figureInWords, signedInWords, valueInWords } from "page/words";

interface Estimate {
  estimate: number;
  low95: number;
  high95: number;
}

interface Memory {
  known: boolean;
  rss_bytes: number;
  other_rows: { words: string; bytes: number }[];
}

/** What run.py says of the program with 100 dumps, and of the made traces. */
export interface TimelineExpected {
  url: string; // of the program, and of a made trace with 10,000 dumps
  many: string; // of the made trace with 500 processes
  dumps: number;
  chosen: number[]; // dumps: two neighbours and a later one
  reports: { total: { space: Estimate }; exact_bytes: number; exact_calls: number }[]; // of the chosen
  memory: Memory[]; // of the chosen
}

/** What browser.ts has for all tests. */
interface Tools {
  page: () => Page;
  open: (fragment: string, address: string) => Promise<void>;
  shows: (selector: string, text: string) => Promise<void>;
  until: (what: string, holds: () => Promise<boolean>) => Promise<void>;
  expected: TimelineExpected;
}

function testReal({ page, open, shows, until, expected }: Tools) {
  const [first, next, later] = expected.chosen as [number, number, number];
  const timeOf = () => new URLSearchParams(new URL(page().url()).hash.slice(1)).get("time");
  const exported = async (title: string) => {
    await page().getByRole("button", { name: "Export" }).click();
    const [download] = await Promise.all([page().waitForEvent("download"), page().getByRole("menuitem", { name: title }).click()]);
    return readFileSync((await download.path())!, "utf8").split("\r\n");
  };
  const over = () => page().locator(".timeline-plot .u-over");

  test("dumps of many have the report's figures", async () => {
    assert(expected.dumps >= 20, `${expected.dumps} dumps`); // 150 on an idle machine
    for (const [i, dump] of expected.chosen.entries()) {
      const report = expected.reports[i]!;
      const { estimate, low95, high95 } = report.total.space;
      await open(`heap=0.0&dump=${dump}`, expected.url);
      await shows(".timeline-title", `Dump ${dump + 1} of ${expected.dumps}`);
      await shows(".timeline-title", `${bytesInWords(report.exact_bytes)} allocated in ${countInWords(report.exact_calls)} calls`);
      await shows(".series", `Live ${figureInWords({ value: estimate, low: low95, high: high95 }, false)}`);
    }
  });

  test("a range says what it allocated and retained", async () => {
    await open(`heap=0.0&dump=${next}&base=${first}`, expected.url);
    const change = expected.reports[1]!.total.space.estimate - expected.reports[0]!.total.space.estimate;
    await shows(".range-line", `${signedInWords(change, false)} live`);
    const range = await page().evaluate(async (path) => (await fetch(path)).json() as Promise<Record<string, number>>, `api/range?heap=0.0&dump=${next}&base=${first}`);
    await shows(".range-line", `${bytesInWords(range["allocated"]!)} allocated`);
    const [least, most] = [bytesInWords(range["retained_least"]!), bytesInWords(range["retained_most"]!)];
    await shows(".range-line", `retained since: ${least === most ? least : `${least} to ${most}`}`);
    await page().getByRole("button", { name: "No comparison" }).click();
    await until("nothing is compared", async () => !page().url().includes("base="));
  });

  test("what was retained since is a graph and a table", async () => {
    await open(`heap=0.0&dump=${later}&base=${first}`, expected.url);
    await page().getByRole("group", { name: "Graph and table of" }).getByRole("button", { name: "retained since" }).click();
    const table = await page().evaluate(async (path) => (await fetch(path)).json() as Promise<Table>, `api/table?heap=0.0&dump=${later}&base=${first}&retained=1&by=holder`);
    await shows(".details", `Bytes ${valueInWords(table.bytes!, false)}`);
    assert(page().url().includes("tab=flame") && page().url().includes("isRetained=true"));
    await page().getByRole("tab", { name: "Table" }).click();
    await page().getByRole("button", { name: "Holder", exact: true }).first().click();
    const top = table.row[0]!;
    await shows(".grid-room .row", `${valueInWords(top.bytes!, false)}`);
    const csv = await exported("The table as CSV");
    assert.equal(csv[0], "holder,module,file,line,bytes,bytes_low95,bytes_high95,bytes_least,count,count_low95,count_high95,count_least");
    assert.equal(csv.length, table.rows + 2);
    assert(csv.some((line) => line.includes(`,${top.bytes!.value},${top.bytes!.low},${top.bytes!.high},${top.bytes!.least},`)), csv.slice(0, 3).join("\n"));
    await page().getByRole("group", { name: "Graph and table of" }).getByRole("button", { name: "change" }).click();
    await until("the table is of the change", async () => !page().url().includes("isRetained") && (await page().locator(".bar.grew, .bar.chance, .bar.shrank").count()) > 0);
  });

  test("what is live is stacked over time, and a layer leads to its part", async () => {
    await open(`heap=0.0&tab=flame`, expected.url);
    await page().getByLabel("Live over time").selectOption("by holder");
    await until("the URL has the choice", async () => page().url().includes("over=holder"));
    const course = await page().evaluate(async () => (await fetch("api/course?heap=0.0&by=holder")).json() as Promise<Course>);
    assert(course.row.some(({ key }) => key.startsWith("<img src=x")), "a hostile name is among the holders");
    const layers = page().locator(".layers li");
    const figure = ({ value, low, high }: Course["rest"], at: number) => figureInWords({ value: value[at]!, low: low[at]!, high: high[at]! }, false);
    const last = course.dumps.length - 1;
    await until("each layer has its figure at the last dump", async () => {
      const words = await layers.allInnerTexts();
      return words.length >= course.row.length && course.row.every((row, i) => words[words.length - 1 - i]!.replaceAll("\n", " ").endsWith(figure(row, last)));
    });
    assert.equal(await page().locator("img").count(), 0);
    const box = (await page().locator(".layers").boundingBox())!;
    assert(box.x + box.width <= 1280 && box.height <= 180, JSON.stringify(box));
    await open(`heap=0.0&tab=flame&over=holder&dump=${first}`, expected.url);
    const near = course.dumps.indexOf(first);
    if (near >= 0) await until("they have that of the chosen dump", async () => (await layers.last().innerText()).replaceAll("\n", " ").endsWith(figure(course.row[0]!, near)));
    const csv = await exported("The timeline as CSV");
    assert.equal(csv.length, course.dumps.length + 2);
    assert(csv[course.dumps.length]!.includes(`,${course.row[0]!.value[last]},${course.row[0]!.low[last]},`));
    await layers.last().getByRole("button").click();
    await until("the layer is shown alone", async () => page().url().includes("only=holder"));
    await page().getByLabel("Live over time").selectOption("by type");
    await shows(".timeline", "of what the filters leave");
    await page().getByLabel("Live over time").selectOption("sums");
    await shows(".timeline-legend", "Resident");
  });

  test("rows of a table have lines of what they held", async () => {
    await open("tab=table&heap=0.0&by=holder", expected.url);
    await until("the rows that are seen have lines", async () => {
      const rows = await page().locator(".grid-room .row").count();
      return rows > 3 && (await page().locator(".grid-room .row .spark").count()) === rows;
    });
  });

  test("the memory's table has both dumps and their changes", async () => {
    const [before, now] = [expected.memory[0]!, expected.memory[2]!];
    assert(before.known && now.known);
    await open(`tab=memory&heap=0.0&dump=${later}&base=${first}`, expected.url);
    const row = (words: string, one: number, other: number) => `${words} ${bytesInWords(one)} ${bytesInWords(other)} ${signedInWords(other - one, false)}`;
    await shows(".changes tfoot tr", row("RSS", before.rss_bytes, now.rss_bytes));
    for (const { words, bytes } of now.other_rows)
      await shows(".changes tr", row(words, before.other_rows.find((one) => one.words === words)?.bytes ?? 0, bytes));
  });

  test("the timeline is zoomed, moved and shown whole by mouse and keys", async () => {
    await open("heap=0.0", expected.url);
    const box = (await over().boundingBox())!;
    const [x, y] = [box.x + box.width / 2, box.y + 30];
    await page().mouse.move(x, y);
    await page().keyboard.down("Control");
    await page().mouse.wheel(0, -400);
    await page().keyboard.up("Control");
    await until("the URL has the zoomed range", async () => timeOf() !== null);
    const zoomed = timeOf()!;
    await page().keyboard.down("Shift");
    await page().mouse.down();
    await page().mouse.move(x + 100, y, { steps: 4 });
    await page().mouse.up();
    await page().keyboard.up("Shift");
    await until("the range has moved back", async () => Number.parseFloat(timeOf() ?? "9") < Number.parseFloat(zoomed));
    const moved = timeOf()!;
    await page().mouse.wheel(200, 0);
    await until("the range has moved forth", async () => Number.parseFloat(timeOf() ?? "0") > Number.parseFloat(moved));
    const kept = timeOf()!;
    await open(`heap=0.0&time=${kept}`, expected.url);
    await page().locator(".timeline-plot").focus();
    await page().keyboard.press("d");
    await until("a key moves the range of the URL", async () => Number.parseFloat(timeOf() ?? "0") > Number.parseFloat(kept));
    await over().dblclick({ position: { x: box.width / 3, y: 60 } });
    await until("all is shown", async () => timeOf() === null);
    await page().keyboard.press("w");
    await until("a key zooms", async () => timeOf() !== null);
    await page().keyboard.press("Escape");
    await until("all is shown again", async () => timeOf() === null);
  });

  test("of 10,000 dumps one is found by its number", async () => {
    await open("heap=1.0", expected.url);
    await shows(".timeline-title", "Dump 10000 of 10000");
    assert((await page().locator("option").count()) < 50);
    await page().locator(".chooser button", { hasText: "10000 of 10000" }).click();
    await page().keyboard.type("777 of");
    await page().keyboard.press("Enter");
    await shows(".timeline-title", "Dump 777 of 10000");
    await until("the URL has the dump", async () => page().url().includes("dump=776"));
  });
}

function testMade({ page, open, shows, until, expected }: Tools) {
  test("losses and a raised interval are marks that say what, how much and the dump", async () => {
    await open("heap=0.0", expected.many);
    const box = (await page().locator(".timeline-plot .u-over").boundingBox())!;
    const pointAt = (dump: number) => page().mouse.move(box.x + (box.width * dump) / 20, box.y + 5); // a dump a second
    await pointAt(3);
    await shows(".mark-tip", "Between dumps 2 and 3: 50 samples after the process allocated faster than the profiler could read");
    await pointAt(4);
    await shows(".mark-tip", "Between dumps 3 and 4: 20 samples");
    await shows(".mark-tip", "Between dumps 3 and 4: 4 stacks that end before the outermost frame");
    await pointAt(5);
    await shows(".mark-tip", "the interval was raised from 4 KiB to 8 KiB");
    await pointAt(6);
    await shows(".mark-tip", "250 ms that threads waited for the profiler");
    await pointAt(7);
    await until("no mark is shown", async () => (await page().locator(".mark-tip").count()) === 0);
    await open("heap=0.0&dump=2", expected.many);
    assert.match((await page().locator(".timeline-plot").getAttribute("aria-valuetext"))!, /50 samples/);
    await open("heap=0.1&dump=2", expected.many);
    await shows(".timeline-title", "Dump 3 of 20");
    assert.equal(await page().locator(".timeline-title .warn").count(), 0);
  });

  test("one of 500 processes is found by its name", async () => {
    await open("heap=0.0", expected.many);
    await page().locator(".chooser button", { hasText: "worker-0" }).click();
    await page().keyboard.type("WORKER-437");
    await page().keyboard.press("Enter");
    await until("its heap is selected", async () => page().url().includes("heap=0.437"));
    await shows(".heaps .chosen", "worker-437 (1437)");
    assert((await page().locator(".heaps tbody tr").count()) <= 51);
    await page().getByPlaceholder("Search 500 heaps").fill("worker-49");
    await until("the table has what was searched", async () => (await page().locator(".heaps tbody tr").count()) === 12);
    await page().getByPlaceholder("Search 500 heaps").fill("");
    await page().getByRole("button", { name: "Show all" }).click();
    await until("the table has all", async () => (await page().locator(".heaps tbody tr").count()) === 500);
  });
}

export function testTimeline(tools: Tools) {
  testReal(tools);
  testMade(tools);
}
