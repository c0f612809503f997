// SPDX-License-Identifier: Apache-2.0
// The selection in the URL, and what the timeline makes of dumps.
import assert from "node:assert/strict";
import { test } from "node:test";
import { exactly, formatSelection, NOTHING_SELECTED, parseSelection, type Selection } from "page/state";
import { nameOfQuestion } from "page/saved";
import { dumpsOfRange, marksOf, timelineOf } from "page/series";
import type { Dump, Heap } from "page/types";

test("a selection survives the URL", () => {
  const selection: Selection = {
    ...NOTHING_SELECTED, tab: "flame", heap: "0.3", dump: 4, base: "1.0.5", view: "alloc_objects", direction: "sandwich", function: 7,
    filters: [{ kind: "focus", pattern: "a&b=c#d:e%41 +" }, { kind: "hide", pattern: "^operator\\+$" }],
    only: [{ dimension: "function", value: "operator+(a&b, c:d)@/usr/lib/x#1.so" }, { dimension: "type", value: "" }],
    zoom: "5.17", frame: "5.17.3", search: "/x|y/i", by: "module", order: "total",
  };
  assert.deepEqual(parseSelection("#" + formatSelection(selection)), selection);
  assert.equal(formatSelection(NOTHING_SELECTED), "");
  assert.deepEqual(parseSelection(""), NOTHING_SELECTED);
});

test("a fragment that makes no sense selects nothing", () => {
  const wrong = parseSelection("#tab=x&heap=../..&dump=-1&base=a&view=__proto__&direction=1&function=1e9&zoom=1..2&filter=rm:x&filter=focus:&by=0&only=colour:red&only=thread");
  assert.deepEqual(wrong, NOTHING_SELECTED);
});

test("a name as a pattern matches only itself", () => {
  const name = "std::vector<int*>::operator[](unsigned long) {a|b}^$ \\?";
  assert(new RegExp(exactly(name)).test(name));
  assert(!new RegExp(exactly(name)).test(name + "x"));
});

test("a saved page finds the answers by the names that --save gives them", async () => {
  const name = (path: string) => nameOfQuestion(path, async () => 4);
  assert.equal(await name("api/overview"), "api/overview");
  assert.equal(await name("api/tree?heap=0.0&view=space&direction=down"), "api/tree?direction=down&dump=4&heap=0.0&view=space");
  assert.equal(await name("api/tree?heap=0.0&dump=2&view=max&direction=up&root=1.2"), "api/tree?direction=up&dump=2&heap=0.0&view=max");
  assert.equal(await name("api/table?heap=1.0&view=space&by=holder&limit=5&offset=0&search=x"), "api/table?by=holder&dump=4&heap=1.0&order=self&view=space");
});

const figure = (value: number) => ({ value, low: value / 2, high: value * 2 });
const dumpAt = (seconds: number, bytes: number, incomplete = false): Dump => ({
  time: seconds * 1e9, start: 1e9, final: false, incomplete, space: figure(bytes), objects: figure(1),
  alloc_space: figure(bytes * 3), alloc_objects: figure(3), max: null, exact_bytes: bytes * 4, exact_calls: 5,
});
const heap: Heap = {
  id: "0.0", process: 0, name: "libc.malloc", interval_bytes: 4096, first_interval_bytes: 4096, exact: false, partial: false, unseen: "",
  allocator: "", start: 1e9, floor_bytes: 12288,
  unfinished: false, losses: [], notes: [], dumps: [dumpAt(2, 100), dumpAt(3, 250), dumpAt(5, 400, true)],
};
const process0 = { pid: 1, parent_pid: 0, name: "a", command: "a", memory: { time: [1.5e9, 3e9, 6e9], rss: [10, 20, 30], anonymous: null, swap: [0, 0, 0] } };

test("the timeline has dumps and readings on one axis", () => {
  const line = timelineOf(heap, process0, 1e9, "space");
  assert.deepEqual(line.seconds, [0.5, 1, 2, 4, 5]);
  const of = (kind: string) => line.series.find((one) => one.kind === kind)?.values;
  assert.deepEqual(of("live"), [null, 100, 250, 400, null]);
  assert.deepEqual(of("high"), [null, 200, 500, 800, null]);
  assert.deepEqual(of("rss"), [10, null, 20, null, 30]);
  assert.equal(of("swap"), undefined);
  assert.equal(of("anonymous"), undefined);
  assert.deepEqual(line.rate?.values, [null, 400, 600, 300, null]);
});

test("a range is the difference of the dumps at its ends", () => {
  assert.deepEqual(dumpsOfRange(heap, 2.1e9, 5.5e9), [0, 2]);
  assert.deepEqual(dumpsOfRange(heap, 0, 3.5e9), [-1, 1]);
  assert.deepEqual(dumpsOfRange(heap, 2.2e9, 2.8e9), [0, 1]);
  assert.equal(dumpsOfRange(heap, 0, 1.9e9), null);
  assert.equal(dumpsOfRange(heap, 5.1e9, 5.2e9), null);
});

test("an incomplete dump is marked", () => {
  assert.deepEqual(marksOf(heap).map((mark) => mark.dump), [2]);
});
