// SPDX-License-Identifier: Apache-2.0
// The page that records, in a real browser: it records a real program, and what it shows is compared with
// what `heap_profile status --json` and `report --json` say.
//
// run.py starts the server: PAGE_URL. PROGRAM is the Python program to record, TOOL is heap_profile.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { chromium, type Browser, type Page } from "playwright-core";
import { figureInWords } from "page/words";
import { quote } from "page/machine/command_line";

interface Heap {
  total: Record<string, { estimate: number; low95: number; high95: number }>;
  dumps: number;
}

const PATIENCE_MS = 60_000;
const { PAGE_URL: url, PROGRAM: program, TOOL: tool } = process.env as Record<string, string>;
const complaints: string[] = [];
let browser: Browser;
let page: Page;

before(async () => {
  browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
  page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
  page.setDefaultTimeout(PATIENCE_MS);
  page.on("pageerror", (error) => complaints.push(String(error.stack)));
  page.on("dialog", (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => !request.url().startsWith(url!) && complaints.push(`asked ${request.url()}`));
});
after(() => browser?.close());

async function shows(selector: string, text: string) {
  const end = Date.now() + PATIENCE_MS;
  const found = async () => (await page.locator(selector).allInnerTexts()).map((one) => one.replace(/\s+/g, " "));
  while (!(await found()).some((one) => one.includes(text))) {
    assert(Date.now() < end, `${selector} does not show "${text}"; the page shows:\n${(await page.locator("body").innerText()).slice(0, 3000)}`);
    await page.waitForTimeout(50);
  }
}

const latest = () => page.evaluate(async () => (await (await fetch("api/recordings")).json()).recordings.at(-1) as { directory: string; pid: number });
const button = (name: string) => page.getByRole("button", { name, exact: true });

test("form, command line and configuration are kept in step", async () => {
  await page.goto(`${url}#page=record`);
  await page.getByLabel("Command line").fill(`heap_profile host -i 512 --no-block-client -- /usr/bin/python3 ${quote(program!)}`);
  assert.equal(await page.getByLabel("Sampling interval", { exact: true }).inputValue(), "512");
  assert.equal(await page.getByLabel("If the ring is full", { exact: true }).inputValue(), "no-block-client");
  await shows(".record-configuration pre", "sampling_interval_bytes: 512");
  await page.getByLabel("Sampling interval", { exact: true }).fill("1x");
  assert.match(await page.getByLabel("Command line").inputValue(), / -i 1x --no-block-client -- /);
  await shows(".record-configuration .bad", "--interval takes bytes, as in 4096, 64k or 1M, not '1x'");
  await page.getByLabel("Sampling interval", { exact: true }).fill("256");
  const text = execFileSync(tool!, ["host", "-i", "256", "--no-block-client", "--print-config"], { encoding: "utf8" });
  await shows(".record-configuration pre", text.replace(/\s+/g, " ").trim());
});

test("a program is recorded, watched and stopped, and the page goes to its timeline", async () => {
  await page.keyboard.press("Enter");
  await shows(".record-processes tbody", "python3");
  const { directory, pid } = await latest();
  await shows(".recording .command", `heap_profile host -o ${directory} -i 256 --no-block-client -- /usr/bin/python3 ${quote(program!)}`);
  await button("Snapshot").click();
  await shows(".recording [role=status]", "took a dump of 1 session");
  await page.locator(".recording summary").click();
  await shows(".record-output", "<img src=x onerror=alert(1)>");
  await button("Timeline").click();
  await page.getByRole("tab", { name: "Flame graph" }).click();
  await page.locator(".flame-scroll canvas").first().focus();
  const name = page.locator(".details .name").first();
  // Addresses may have other names at the end.
  for (let i = 0; i < 20 && (i < 2 || /^0x/.test(await name.innerText())); i++) {
    await page.keyboard.press("ArrowDown");
    await page.waitForURL((url) => (/frame=([\d.]*)/.exec(url.hash)?.[1]!.split(".").length ?? 0) > i);
  }
  await page.keyboard.press("Enter");
  await page.waitForURL(/zoom=/);
  const zoomed = await name.innerText();
  await shows(".timeline-title", "recording");
  await page.locator(".top-right").getByRole("button", { name: "Stop" }).click();
  await shows(".timeline-title", "at the end");
  await page.waitForURL(/zoom=/); // the page stays where the reader was, though the functions have other numbers
  await shows(".details .name", zoomed);
  await page.goto(`${url}#page=record`);
  await button("Timeline").click();
  const { heaps } = JSON.parse(execFileSync(tool!, ["report", "--json", "--top", "1", directory], { encoding: "utf8", maxBuffer: 1 << 28 })) as { heaps: Heap[] };
  const heap = heaps.reduce((most, one) => one.total["max"]!.estimate > most.total["max"]!.estimate ? one : most);
  const { estimate, low95, high95 } = heap.total["space"]!;
  await shows(".sentences", `${figureInWords({ value: estimate, low: low95, high: high95 }, false)} was live when the profile ended`);
  await shows(".timeline-title", `Dump ${heap.dumps} of ${heap.dumps}`);
  assert(heap.dumps >= 2, `${heap.dumps} dumps`);
  await page.goto(`${url}#page=record`);
  process.kill(pid, 0); // the command goes on
  await button("End command").click();
  await shows(".recording", "the command ended with exit code 3");
});

test("what cannot be recorded says why", async () => {
  await page.goto(`${url}#page=record&pid=4000001`);
  await shows(".record-obstacles", "no process has this pid");
  assert.equal(await page.getByLabel("Command line").inputValue(), "heap_profile -p 4000001 -i 256 --no-block-client");
  await button("Start recording").click();
  await shows(".recording .bad", "failed");
  await shows(".recording .notes", "4000001");
  assert.deepEqual(complaints, []);
});
