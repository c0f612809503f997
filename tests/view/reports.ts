// SPDX-License-Identifier: Apache-2.0
// What the terminal says in the browser: the rows of `heap_profile leaks`, the deaths of `oom`, the verdicts of
// `check`, and the processes of a build, of the same files.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { bytesInWords, figureInWords, signedInWords, timeInWords } from "page/words";

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

interface Check {
  holds: number;
  fails: number;
  results: { budget: string; text: string; state: string; finding: string; stacks: { stack: string }[] }[];
}
interface Estimate {
  estimate: number;
  low95: number;
  high95: number;
}

export interface ReportsExpected {
  url: string;
  death: { end: { words: string }; heaps: { held: { space: Estimate }; grown: { space: Estimate; seconds: number } }[] };
  check: Check;
  grown: Check;
  runs: { url: string; saved: string; before: Record<string, number>[]; after: Record<string, number>[] };
  curve: number[];
  built: { name: string; pid: number; total: { space: Estimate } }[];
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
      const text = (await line.locator("button").textContent())!;
      const isShort = row.text.length < 200;
      assert(isShort ? text === row.text : text.startsWith(row.text.slice(0, 200)), `${text.slice(0, 200)}: leaks prints ${row.text.slice(0, 200)}`);
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

  test("how a process ended is what oom says, and leads to what it held and what grew", async () => {
    const { end, heaps: [heap] } = expected.death;
    await open("tab=overview&heap=1.0", expected.url);
    await shows(".ended", end.words[0]!.toUpperCase() + end.words.slice(1));
    await shows(".ended", `What had grown since the dump before, ${timeInWords(heap!.grown.seconds)} earlier`);
    await page().getByRole("button", { name: "What it held at its last dump" }).click();
    const { estimate, low95, high95 } = heap!.held.space;
    await shows(".leaks-body", figureInWords({ value: estimate, low: low95, high: high95 }, false));
    await page().getByRole("tab", { name: "Overview" }).click();
    await page().getByRole("button", { name: "What had grown" }).click();
    await shows(".leaks-body", `in all ${signedInWords(heap!.grown.space.estimate, false)}`);
  });

  test("budgets are judged as check judges them, from the command line, as they are written, and beyond another profile", async () => {
    const verdicts = async ({ results }: Check) => {
      await until("all verdicts are there", async () => (await page().locator(".budgets-table tbody tr").count()) === results.length);
      for (const { budget, text, state, finding, stacks } of results) {
        const row = page().locator(".budgets-table tbody tr", { hasText: budget }).filter({ hasText: text });
        const words = (await row.innerText()).replace(/\s+/g, " ");
        assert(words.includes(state) && words.includes(finding), `${words.slice(0, 500)}: check prints ${state}: ${finding}`);
        assert.equal(await row.locator(".budget-stack").count(), stacks.length);
      }
    };
    await open("tab=budgets&heap=0.0", expected.url);
    await shows(".budgets p", `${expected.check.holds} of ${expected.check.results.length} budgets hold`);
    assert(expected.check.fails === 2 && expected.check.holds === 1);
    await verdicts(expected.check);
    await shows(".budgets .notes", "leak:no_such_<b>function (<script>alert(3)</script>)");
    const slider = await page().locator(".timeline-plot").getAttribute("aria-valuetext");
    assert.match(slider!, /max-peak 1G: holds.*max-live 1M: fails/);
    await page().getByLabel("Budgets, one a line").fill("max-growth = 5%");
    await page().getByRole("button", { name: "Judge" }).click();
    await shows(".budgets", "Growth is not judged: compare with another profile.");
    await open(`tab=budgets&heap=0.0&base=1.0.0&budgets=${encodeURIComponent("max-growth = 5%")}`, expected.url);
    await shows(".budgets", "Growth is judged against killed.");
    await verdicts(expected.grown);
    await page().getByLabel("Budgets, one a line").fill("max-peak = much");
    await page().getByRole("button", { name: "Judge" }).click();
    await shows(".budgets .bad", "line 1");
    await page().getByLabel("Budgets, one a line").fill("#".repeat(9000));
    await until("too many cannot be judged", async () => page().getByRole("button", { name: "Judge" }).isDisabled());
    assert.deepEqual(complaints, []);
  });

  test("the processes of a build are told apart, and summed up side by side", async () => {
    const compilers = expected.built.filter(({ name }) => name.startsWith("python"));
    assert.equal(compilers.length, 2);
    await open("tab=overview&heap=2.0", expected.url);
    const rows = page().locator(".profile", { hasText: "build" }).locator(".heaps");
    for (const { pid, total } of compilers) {
      const row = (await rows.locator("tbody tr", { hasText: `(${pid})` }).innerText()).replace(/\s+/g, " ");
      assert.match(row, new RegExp(`\\(${pid}\\) (2000|3000) …y+.*…y*(2000|3000)'`), row);
      assert(row.includes(bytesInWords(total.space.estimate)), `${row}: the report has ${bytesInWords(total.space.estimate)}`);
    }
    const sum = expected.built.reduce((all, { total }) => all + total.space.estimate, 0);
    await until("the sum is there", async () => (await rows.locator("tfoot").innerText()).includes(bytesInWords(sum)));
    await page().getByRole("button", { name: `${expected.built.length} processes together` }).click();
    await until("it is grouped by process", async () => page().url().includes("group=process") && (await page().locator("section.flame[aria-busy=true]").count()) === 0);
    await page().mouse.move(1, 1);
    await page().locator(".flame-scroll canvas").focus();
    await page().keyboard.press("Escape");
    await shows(".details dd", bytesInWords(sum));
    await shows(".flame .tools", "Each process at its last dump");
    await page().keyboard.press("ArrowDown");
    await shows(".details h2", "process python3");
    assert.deepEqual(complaints, []);
  });

  const { runs } = expected;
  for (const address of [runs.url, `file://${runs.saved}`])
    test(`runs of two releases are compared with their spread: ${address.slice(0, 4)}`, async () => {
      const mean = (side: Record<string, number>[], name: string) => side.reduce((sum, run) => sum + (run[name] ?? 0), 0) / side.length;
      await open(address === runs.url ? "tab=runs&runs=0,1,2-3,4,5&by=function" : "", address);
      await shows(".runs-sides summary", "3 runs before, 3 after");
      for (const name of ["grown", "same", "<img src=x onerror=alert(4)>"]) {
        const row = page().locator(".runs-table tbody tr", { hasText: name }).first();
        await until(`${name} is there`, async () => (await row.count()) === 1);
        const cells = (await row.locator("td").allTextContents()).map((text) => text.replace(/\s+/g, " "));
        const [before, after] = [mean(runs.before, name), mean(runs.after, name)];
        assert(cells[0]!.startsWith(`${bytesInWords(before)}, spread `) && cells[1]!.startsWith(`${bytesInWords(after)}, spread `), `${name}: ${cells.join(" | ")}`);
        assert(cells[2]!.startsWith(signedInWords(after - before, false)), `${name}: ${cells.join(" | ")}`);
        assert.equal(cells[3], name === "grown" ? "beyond chance" : "within chance");
        assert.equal(await row.locator("circle").count() + (await row.locator("rect").count()), 6);
      }
      const long = page().locator(".runs-table tbody tr", { hasText: "zzzz" }).first();
      assert((await long.boundingBox())!.height < 40, "a long name is on one line");
      await page().locator(".runs-sides summary").click();
      await page().getByRole("radio", { name: "after2.collapsed: in neither" }).check();
      await shows(".runs-sides summary", "3 runs before, 2 after");
      await shows(".runs", "Three runs a side, or more");
      assert.match(page().url(), /runs=0%2C1%2C2-3%2C4/);
      assert.equal(await page().locator(".runs-table tbody tr", { hasText: "zzzz" }).count(), 0);
      await page().goBack();
      await shows(".runs-sides summary", "3 runs before, 3 after");
      assert.deepEqual(complaints, []);
    });

  test("a heaptrack file's curve is the line of its heap", async () => {
    await open("tab=overview&heap=3.0", expected.url);
    const answer = (await (await page().request.get(`${expected.url}api/overview`)).json()) as { profiles: { processes: { memory: { live: number[] } }[] }[] };
    assert.deepEqual(answer.profiles[3]!.processes[0]!.memory.live, expected.curve);
    const plot = (await page().locator(".timeline-plot .u-over").boundingBox())!;
    for (const share of [0.2, 0.5, 0.8]) {
      await page().mouse.move(plot.x + share * plot.width, plot.y + plot.height / 2);
      const at = Math.round(share * (expected.curve.length - 1));
      const near = expected.curve.slice(at - 2, at + 3).map((bytes) => `Live ${bytesInWords(bytes)}`);
      await until(`the legend has ${near.join(" or ")}`, async () => near.includes((await page().locator(".series").first().innerText()).replace(/\s+/g, " ").trim()));
    }
  });
}
