// SPDX-License-Identifier: Apache-2.0
// What the terminal says in the browser: the rows of `heap_profile leaks`, of the same files.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";

interface Row {
  bytes: string;
  count: string;
  text: string;
  line: string;
}
interface Leaks {
  found: string;
  rows: Row[];
}

export interface ReportsExpected {
  url: string;
  leaks: Leaks;
  growth: Leaks;
}

interface Tools {
  page: () => Page;
  open: (fragment: string, address?: string) => Promise<void>;
  shows: (selector: string, text: string) => Promise<void>;
  until: (what: string, holds: () => Promise<boolean>) => Promise<void>;
  complaints: string[];
}

export function testReports({ page, open, shows, until, complaints }: Tools, expected: ReportsExpected) {
  const settled = (panel: string) => until(`${panel} has its answer`, async () => (await page().locator(`.${panel}[aria-busy=false]`).count()) === 1);

  async function compareRows({ found, rows }: Leaks) {
    await shows(".leaks-body", found);
    const lines = page().locator(".leaks-table tbody tr");
    await until("all rows are there", async () => (await lines.count()) === rows.length);
    for (const [i, row] of rows.entries()) {
      const line = lines.nth(i);
      const text = await line.locator("button").innerText();
      const isShort = row.text.length < 200;
      assert(isShort ? text.replace(/\n/g, "") === row.text : text.startsWith(row.text.slice(0, 200)), `${text.slice(0, 200)}: leaks prints ${row.text.slice(0, 200)}`);
      const cells = await line.locator("td").allInnerTexts();
      assert(cells[0]!.startsWith(row.bytes.replace("-", "−")) && cells[1]!.startsWith(row.count.replace("-", "−")), `${cells.join(" | ")}: leaks prints ${row.bytes} | ${row.count}`);
      if (row.line !== "") assert.equal((await line.locator(".leak-line").first().innerText()).trim(), row.line);
    }
  }

  test("the rows of leaks are the terminal's, of a dump and between two", async () => {
    await open("tab=leaks&heap=0.0", expected.url);
    await settled("leaks");
    assert(expected.leaks.rows.length > 5 && expected.leaks.rows.some(({ line }) => line.startsWith("grows")) && expected.leaks.rows.some(({ line }) => line.startsWith("turns over")));
    await compareRows(expected.leaks);
    await open("tab=leaks&heap=0.0&dump=2&base=0", expected.url);
    await settled("leaks");
    await compareRows(expected.growth);
  });

  test("leaks are searched, lead to the graph, and take filters; a hostile name is text", async () => {
    await open("tab=leaks&heap=0.0", expected.url);
    await settled("leaks");
    const leak = page().locator(".leaks-table button", { hasText: "<img src=x" }).first();
    assert.match((await leak.getAttribute("title"))!, /^<img src=x onerror=alert\(1\)>xxx/);
    const [button, table] = [await leak.boundingBox(), await page().locator(".leaks-table").boundingBox()];
    assert(button!.width < table!.width && button!.height < 40, "the name is on one line");
    await page().locator("#search").fill("<IMG src");
    await until("one row is found", async () => (await page().locator(".leaks-table tbody tr").count()) === 1);
    await page().locator("#search").fill("no such function");
    await shows(".leaks-body", "No function has “no such function”.");
    await page().locator("#search").fill("");
    await page().getByPlaceholder("Add a filter: expression").fill("cached");
    await page().keyboard.press("Enter");
    await until("only the cache is left", async () => (await page().locator(".leaks-table tbody tr").count()) === 1);
    await shows(".leaks-table", "turns over");
    await page().locator(".leaks-table button").click();
    await until("its callers and callees are there", async () => (await page().locator(".flame-scroll canvas").count()) === 2);
    assert.deepEqual(complaints, []);
  });
}
