// SPDX-License-Identifier: Apache-2.0
// What the timeline makes of dumps, readings and losses, and how its range moves.
import assert from "node:assert/strict";
import { test } from "node:test";
import { matchOptions } from "page/bar/chooser";
import { atHeap, dumpBeside, isAtPeak, nearestDump, peakOf, peakTitle } from "page/model";
import { dumpsOfRange, indexNear, marksOf, otherHeaps, timelineOf } from "page/time/series";
import { clampSpan, formatSpan, panSpan, parseSpan, zoomSpan } from "page/time/zoom";
import { NOTHING_SELECTED } from "page/state";
import type { Dump, Heap, Memory, Process } from "page/types";
import { intervalInWords, samplingInWords } from "page/words";

const figure = (value: number) => ({ value, low: value / 2, high: value * 2 });
const dumpAt = (seconds: number, bytes: number, more: Partial<Dump> = {}): Dump => ({
  time: seconds * 1e9, start: 1e9, final: false, incomplete: false, why_incomplete: "", interval_bytes: 4096, losses: [],
  space: figure(bytes), objects: figure(1), alloc_space: figure(bytes * 3), alloc_objects: figure(3), max: null,
  exact_bytes: bytes * 4, exact_calls: 5, ...more,
});
const overrun = { name: "overrun", amount: 70, unit: "", words: "samples", remedy: "do that", affects_figures: true };
const blocked = { name: "blocked_us", amount: 500_009, unit: "us", words: "waited", remedy: "", affects_figures: false };
const heap: Heap = {
  id: "0.0", process: 0, name: "libc.malloc", interval_bytes: 8192, first_interval_bytes: 4096, exact: false, partial: false, unseen: "",
  allocator: "", start: 1e9, peak_time: 3.4e9, first_view: "space", floor_bytes: 12288, unfinished: false, losses: [overrun, blocked], notes: [],
  dumps: [
    dumpAt(2, 100, { losses: [{ name: "blocked_us", amount: 500_000 }] }), dumpAt(3, 250, { losses: [{ name: "overrun", amount: 20 }, { name: "blocked_us", amount: 9 }] }),
    dumpAt(5, 400, { incomplete: true, why_incomplete: "it is cut off", interval_bytes: 8192 }),
  ],
};
const withMemory = (memory: Partial<Memory>): Process => ({
  pid: 1, parent_pid: 0, name: "a", command: "a",
  memory: { all: 3, time: [1.5e9, 3e9, 6e9], rss: null, anonymous: null, file: null, shmem: null, swap: null, ...memory },
});
const lineOf = (one: Heap, process: Process | null, others: Heap[] = []) => timelineOf({ heap: one, others, process, beginning: 1e9, view: "space" });
const of = (line: ReturnType<typeof timelineOf>, kind: string) => [...line.series, ...line.rates].find((one) => one.kind === kind)?.values;

test("another heap is shown at the same moments, one of another profile as it opens", () => {
  const other = { ...heap, id: "0.1", dumps: [1, 2.1, 3.2, 9].map((seconds) => dumpAt(seconds, 7)) };
  const of = (dump: number | null, base: string, to: Heap) => {
    const { heap: id, dump: at, base: since } = atHeap(heap, { ...NOTHING_SELECTED, dump, base }, to);
    return [id, at, since];
  };
  assert.deepEqual(of(1, "0", other), ["0.1", 2, "1"]);
  assert.deepEqual(of(0, "", other), ["0.1", 1, ""]);
  assert.deepEqual(of(1, "1.0.5", other), ["0.1", 2, ""]);
  assert.deepEqual(of(1, "0", { ...other, id: "1.0" }), ["1.0", null, ""]);
});

test("the timeline has dumps and readings on one axis", () => {
  const line = lineOf(heap, withMemory({ rss: [10, 20, 30], swap: [0, 0, 0] }));
  assert.deepEqual(line.seconds, [0.5, 1, 2, 4, 5]);
  assert.deepEqual(of(line, "live"), [undefined, 100, 250, 400, undefined]);
  assert.deepEqual(of(line, "high"), [undefined, 200, 500, 800, undefined]);
  assert.deepEqual(of(line, "rss"), [10, undefined, 20, undefined, 30]);
  assert.deepEqual(of(line, "swap"), [0, undefined, 0, undefined, 0]);
  assert.equal(of(line, "anonymous"), undefined);
  assert.deepEqual(of(line, "rate"), [undefined, 300, 450, 225, undefined]);
  assert.deepEqual(of(line, "counted"), [undefined, 400, 600, 300, undefined]);
});

test("an unknown value is a gap, one that a reading leaves out is not", () => {
  const line = lineOf(heap, withMemory({ rss: [10, null, null], anonymous: [7, null, 9] }));
  assert.deepEqual(of(line, "rss"), [10, undefined, null, undefined, undefined]);
  assert.deepEqual(of(line, "anonymous"), [7, undefined, null, undefined, 9]);
  assert.deepEqual(of(line, "file"), [3, undefined, null, undefined, undefined]);
  assert.deepEqual([1, 2, 4].map((index) => indexNear(of(line, "rss")!, index)), [0, 2, 2]);
  const unknown = { ...heap, dumps: [dumpAt(2, 100), dumpAt(3, 1, { space: null }), dumpAt(4, 1)] };
  assert.deepEqual(of(lineOf(unknown, null), "live"), [100, null, 1]);
  const unlimited = { ...heap, dumps: [dumpAt(2, 100, { space: { value: 100, low: null, high: null } }), dumpAt(3, 1)] };
  assert.deepEqual(["low", "live", "high"].map((kind) => of(lineOf(unlimited, null), kind)), [[null, 0.5], [100, 1], [null, 2]]);
});

test("the largest other heaps of the process have a line each, with their names", () => {
  const other = (id: string, live: number, more: Partial<Heap> = {}): Heap => ({ ...heap, id, name: `heap ${id}`, dumps: [dumpAt(4, live)], ...more });
  const heaps = [heap, other("0.1", 5), other("0.2", 9), other("0.3", 7, { unseen: "not hooked" }), other("0.4", 8, { process: 1 })];
  const profile = { name: "", path: "", warning: "", realtime_ns: null, processes: [], heaps, unprofiled: [] };
  const others = otherHeaps(profile, heap);
  assert.deepEqual(others.map((one) => one.id), ["0.2", "0.1"]);
  const line = lineOf(heap, null, others);
  assert.deepEqual(line.seconds, [1, 2, 3, 4]);
  assert.deepEqual(line.series.filter((one) => one.kind !== "low" && one.kind !== "high").map((one) => [one.name, one.values]), [
    ["Live in libc.malloc", [100, 250, undefined, 400]], ["in heap 0.2", [undefined, undefined, 9, undefined]], ["in heap 0.1", [undefined, undefined, 5, undefined]],
  ]);
});

test("the curve that a file has joins the only dump of its only heap", () => {
  const one = { ...heap, exact: true, dumps: [dumpAt(6, 400)] };
  const memory = withMemory({ rss: [10, 20, 30], live: [100, 900, 500] });
  assert.deepEqual(of(lineOf(one, memory), "live"), [100, 900, 400]);
  assert.deepEqual(of(lineOf(one, memory), "high"), [100, 900, 800]);
  assert.deepEqual(of(lineOf({ ...one, exact: false }, memory), "high"), [undefined, undefined, 800]);
  assert.equal(of(lineOf(one, memory), "curve"), undefined);
  const beside = lineOf(one, memory, [{ ...heap, id: "0.1", dumps: [dumpAt(6, 7)] }]);
  assert.deepEqual([of(beside, "live"), of(beside, "curve")], [[undefined, undefined, 400], [100, 900, 500]]); // of all heaps
  assert.equal(of(lineOf(heap, memory), "curve"), undefined); // its dumps are a line
});

test("a range is the difference of the dumps at its ends", () => {
  assert.deepEqual(dumpsOfRange(heap, 2.1e9, 5.5e9), [0, 2]);
  assert.deepEqual(dumpsOfRange(heap, 0, 3.5e9), [-1, 1]);
  assert.deepEqual(dumpsOfRange(heap, 2.2e9, 2.8e9), [0, 1]);
  assert.equal(dumpsOfRange(heap, 0, 1.9e9), null);
  assert.equal(dumpsOfRange(heap, 5.1e9, 5.2e9), null);
  assert.deepEqual([0, 2.4e9, 2.6e9, 4.5e9, 9e9].map((time) => nearestDump(heap, time)), [0, 0, 1, 2, 2]);
});

test("the peak is a moment beside the dumps", () => {
  const peaked = { ...heap, dumps: [...heap.dumps.slice(0, 2), dumpAt(5, 0, { max: figure(700) })] };
  const atPeak = { ...NOTHING_SELECTED, view: "max" as const };
  assert.equal(peakOf(heap), null); // its file has none
  assert.equal(peakOf(peaked)!.bytes.value, 700);
  assert.ok(isAtPeak(peaked, atPeak) && isAtPeak(peaked, { ...atPeak, dump: 2 }));
  assert.ok(!isAtPeak(peaked, { ...atPeak, dump: 1 }) && !isAtPeak(peaked, NOTHING_SELECTED) && !isAtPeak(heap, atPeak));
  assert.deepEqual([-2, -1, 1].map((step) => dumpBeside(peaked, atPeak, step)), [0, 1, 2]);
  assert.equal(dumpBeside({ ...peaked, peak_time: null }, atPeak, -1), 1);
  assert.equal(dumpBeside(peaked, { ...NOTHING_SELECTED, dump: 2 }, 1), -1);
  const profile = { name: "", path: "", warning: "", filter: "", realtime_ns: null, processes: [], heaps: [peaked], unprofiled: [] };
  assert.equal(peakTitle({ profile, process: null, heap: peaked }), "peak: 2.40 s, 700 B");
});

test("losses, a raised interval and an incomplete dump are marks of their dumps", () => {
  const marks = marksOf(heap);
  assert.deepEqual(marks.map((mark) => [mark.dump, mark.kind]), [[0, "note"], [1, "lost"], [2, "incomplete"], [2, "interval"]]);
  assert.equal(marks[0]!.words, "Before dump 1: 500 ms waited");
  assert.equal(marks[1]!.words, "Between dumps 1 and 2: 20 samples: do that");
  assert.match(marks[2]!.words, /it is cut off/);
  assert.match(marks[3]!.words, /from 4 KiB to 8 KiB/);
  const unknown = heap.dumps.map((dump) => ({ ...dump, incomplete: false, losses: null, interval_bytes: null }));
  assert.deepEqual(marksOf({ ...heap, dumps: unknown }), []);
});

test("a list with a search shows a part: around the choice, or the best matches", () => {
  const options = Array.from({ length: 1000 }, (_, i) => ({ value: String(i), title: `${i + 1} of 1000` }));
  assert.deepEqual(matchOptions(options, "", "500").shown.map((one) => one.value).filter((_, i) => i % 25 === 0), ["475", "500"]);
  assert.equal(matchOptions(options, "", "999").shown.at(-1)!.value, "999");
  const { shown, all } = matchOptions(options, " 99 OF", "0");
  assert.deepEqual(shown.map((one) => one.title), ["99 of 1000", "199 of 1000", "299 of 1000", "399 of 1000", "499 of 1000", "599 of 1000", "699 of 1000", "799 of 1000", "899 of 1000", "999 of 1000"]);
  assert.equal(all, 10);
  assert.deepEqual(matchOptions(options, "none", "0"), { shown: [], all: 0 });
});

test("an interval is in the unit that fits", () => {
  assert.deepEqual([1, 512, 4096, 5000, 1048576].map(intervalInWords), ["1 B", "512 B", "4 KiB", "5.00 kB", "1 MiB"]);
});

test("a heap says how it was seen, as report does", () => {
  const seen = (more: Partial<Heap>) => samplingInWords({ ...heap, ...more });
  assert.equal(seen({}), "one sample in 8 KiB");
  assert.equal(seen({ interval_bytes: 0 }), "unknown");
  assert.equal(seen({ interval_bytes: 1, exact: true }), "every allocation");
  assert.equal(seen({ interval_bytes: 1, partial: true }), "every allocation that was not lost");
  assert.equal(seen({ interval_bytes: 1 }), "as the program reported");
  assert.equal(seen({ unseen: "not hooked" }), "not at all");
});

test("the shown range stays inside the whole, and in the URL", () => {
  const whole = { from: 0.5, to: 10.5 };
  assert.deepEqual(clampSpan({ from: -3, to: 2 }, whole), { from: 0.5, to: 5.5 });
  assert.deepEqual(clampSpan(panSpan({ from: 8, to: 10 }, 1), whole), { from: 8.5, to: 10.5 });
  assert.deepEqual(zoomSpan({ from: 2, to: 6 }, 0.5, 3), { from: 2.5, to: 4.5 });
  assert.deepEqual(clampSpan(zoomSpan({ from: 2, to: 6 }, 9), whole), whole);
  assert.equal(formatSpan(whole, whole), "");
  assert.equal(formatSpan({ from: 1.23456789, to: 3 }, whole), "1.235-3");
  assert.deepEqual(parseSpan("1.235-3"), { from: 1.235, to: 3 });
  assert.equal(parseSpan(""), null);
  assert.equal(parseSpan("3-1"), null);
});
