// SPDX-License-Identifier: Apache-2.0
// The pages about this machine in the browser: the start page on recordings and a session of the test's own,
// and the list of processes with 500 that the test starts. Figures are those of report, /proc and doctor.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { copyFileSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { bytesInWords, figureInWords, signedInWords } from "page/words";

interface Recorded {
  path: string; // its directory
  command: string;
  space: { estimate: number; low95: number; high95: number }; // its live bytes at the end, by report
}

export interface MachineExpected {
  tool: string; // heap_profile
  url: string; // of a page without a profile
  recordings: [Recorded, Recorded]; // in its TMPDIR
  session: number; // the pid of a heap_profile that records
}

/** What browser.ts has for all tests. */
interface Tools {
  page: () => Page;
  shows: (selector: string, text: string) => Promise<void>;
  until: (what: string, holds: () => Promise<boolean>) => Promise<void>;
  complaints: string[];
  expected: MachineExpected;
}

const SLEEPERS = 500;
const HOSTILE = "<img src=x onerror=1>";

const residentOf = (pid: number) => 1024 * Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]);

/** The lines of doctor about a process: mark and text. */
function findingsOf(tool: string, pid: number): string[] {
  let text: string;
  try {
    text = execFileSync(tool, ["doctor", "-p", String(pid)], { encoding: "utf8" });
  } catch (failed) {
    text = (failed as { stdout: string }).stdout; // it cannot be profiled
  }
  const lines = text.slice(text.indexOf(`process ${pid}\n`)).split("\n").slice(1).filter((line) => line !== "");
  return lines.map((line) => line.trim().replace(/^(ok|note|NO) +/, (_, mark: string) => `${mark.toLowerCase()} `));
}

export function testMachine({ page, shows, until, complaints, expected }: Tools) {
  const [older, newer] = expected.recordings;
  const parameter = (name: string) => new URLSearchParams(new URL(page().url()).hash.slice(1)).get(name);
  async function open(fragment: string) {
    await page().goto("about:blank");
    await page().goto(`${expected.url}#${fragment}`);
    await page().waitForSelector(".machine");
  }

  test("the start page lists a recording and opens it", async () => {
    await open("page=home");
    const row = page().locator(".recent tr", { hasText: older.path });
    await shows(".recent tr", older.command);
    assert.match(await row.innerText(), /python3 \(\d+\)/);
    await row.getByRole("button").click();
    const { estimate, low95, high95 } = older.space;
    await shows(".sentences", `${figureInWords({ value: estimate, low: low95, high: high95 }, false)} was never freed`);
    assert.equal(parameter("page"), null);
    await page().goBack();
    await shows(".shown", older.path);
    await page().getByRole("button", { name: `Close ${older.path}/symbolized-trace` }).click();
    await until("it is closed", async () => (await page().locator(".shown").count()) === 0);
    await page().getByLabel("Path of a profile").fill("/dev/null");
    await page().locator(".open-path button").click();
    await shows(".said.bad", "'/dev/null' is neither a file nor a directory");
    assert.deepEqual(complaints, []);
  });

  test("two recordings that are ticked are compared, the older as the base", async () => {
    await open("page=home");
    for (const { path } of [newer, older]) await page().getByRole("checkbox", { name: `Compare ${path}` }).check();
    await page().getByRole("button", { name: "Compare the two" }).click();
    await page().waitForSelector(".flame-scroll canvas").catch(async () => {
      assert.fail(`no flame graph at ${page().url()}: ${await page().locator("body").innerText()}`);
    });
    await page().mouse.move(1, 1);
    await page().locator(".flame-scroll canvas").focus();
    await page().keyboard.press("Escape");
    await shows(".details dd", signedInWords(newer.space.estimate - older.space.estimate, false));
    assert.deepEqual(complaints, []);
  });

  test("a running session is opened, takes a dump and ends", async () => {
    await open("page=home");
    const session = page().locator(".sessions li", { hasText: `session ${expected.session},` });
    await shows(".sessions", "python3 (");
    await session.getByRole("button", { name: "Snapshot" }).click();
    await shows(".said", "took a dump of 1 session");
    const pid = /python3 \((\d+)\)/.exec(await session.innerText())![1]!;
    await open(`page=processes&find=${pid}`);
    await shows(`#process-${pid} .state`, `profiled by session ${expected.session}`);
    const files: string[] = [];
    page().once("download", (download) => files.push(download.suggestedFilename()));
    await page().locator(`#process-${pid}`).getByRole("button", { name: "Save…" }).click();
    await page().waitForSelector(".menu button:focus");
    await page().keyboard.press("p");
    await shows(".said", `Saved ${pid}.pb.gz`);
    await until("the file is there", async () => files[0] === `${pid}.pb.gz`);
    await open("page=home");
    await session.getByRole("button", { name: "Open" }).click();
    await shows(".heaps", "libc.malloc");
    await page().goBack();
    await session.getByRole("button", { name: "Stop" }).click();
    await shows(".sessions, [aria-label='Running sessions']", "Nothing is being recorded.");
    assert.deepEqual(complaints, []);
  });

  test("500 processes are listed, found, judged and sent to Record", async () => {
    const hostile = `${dirname(older.path)}/${HOSTILE}`;
    copyFileSync("/bin/sleep", hostile);
    // A shell, which leads a group, starts them faster than this thread would.
    const group = spawn("/bin/sh", ["-c", `i=1; while [ $i -lt ${SLEEPERS} ]; do sleep 600 & i=$((i + 1)); done; wait`], { stdio: "ignore", detached: true });
    const named = spawn(hostile, ["600"], { stdio: "ignore" });
    try {
      const first = named.pid!;
      await open(`page=processes&find=sleep+600`);
      await until("all are listed", async () => Number(/^[\d,]+/.exec(await page().locator(".tools output").innerText())?.[0].replaceAll(",", "")) >= SLEEPERS - 1);
      assert((await page().locator(".grid-room .row").count()) < 100, "rows that are not seen exist");
      await page().locator(".grid-body").focus();
      await page().keyboard.press("End");
      await until("the last row is chosen", async () => (await page().locator(".row.chosen").count()) === 1);
      await page().getByRole("searchbox").fill(String(first));
      await shows(".grid-room .row", HOSTILE);
      await shows(`#process-${first}`, bytesInWords(residentOf(first)));
      await shows(`#process-${first} .state`, "yes");
      await page().locator(`#process-${first} .key`).click();
      await shows(".process-details h2", `${HOSTILE} (${first})`);
      const findings = (await page().locator(".findings li").allInnerTexts()).map((text) => text.replace(/\s+/g, " "));
      assert.deepEqual(findings, findingsOf(expected.tool, first).map((text) => text.replace(/\s+/g, " ")));
      await page().locator(".grid-body").focus();
      await page().keyboard.press("Enter");
      await until("Record has the pid", async () => parameter("page") === "record" && parameter("pid") === String(first));
      assert.deepEqual(complaints, []);
    } finally {
      named.kill("SIGKILL");
      process.kill(-group.pid!, "SIGKILL");
    }
  });

  test("the tree and the order stand in the address", async () => {
    await open("page=processes&isTree=true&processOrder=name");
    await until("rows are there", async () => (await page().locator(".grid-room .row").count()) > 0);
    await page().getByRole("button", { name: "List" }).click();
    await page().locator(".row.head button", { hasText: "Pid" }).click();
    await until("the lowest pid is first", async () => (await page().locator(".grid-room .row [role=gridcell]:nth-child(2)").first().innerText()) === "1");
    assert.equal(parameter("processOrder"), "pid");
    assert.equal(parameter("isTree"), null);
    await page().goBack();
    await page().goBack();
    assert.equal(parameter("isTree"), "true");
  });
}
