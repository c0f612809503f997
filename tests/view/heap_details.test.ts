// SPDX-License-Identifier: Apache-2.0
// The lines of the heap details' tree, and the dumps side by side.
import assert from "node:assert/strict";
import { test } from "node:test";
import { linesOf, parentOf, searchFilter, shownDumps, sortOf, withDump, withoutDump, type Level } from "page/details/rows";
import { columnsOfRows, lackingInWords, processRows, sortedRows } from "page/details/processes";
import type { Place } from "page/model";
import { NOTHING_SELECTED } from "page/state";
import type { DetailsRow, Overview, Profile, Reported } from "page/types";

const row = (id: number, opens = false): DetailsRow => ({ key: `f${id}`, function: id, opens, bytes: [null], count: [null] });
const levels = new Map<string, Level>([
  ["", { total: { key: "", bytes: [], count: [] }, rows: [row(1, true), row(2, true), row(3)], all: 5 }],
  ["1", { total: row(1), rows: [row(2), row(7, true)], all: 2 }],
]);
const shown = (open: string[]) => linesOf((path) => levels.get(path) ?? null, new Set(open), "").map((line) => `${line.depth} ${line.kind} ${line.path}`);

test("rows that are open have their level below them", () => {
  assert.deepEqual(shown([]), ["0 row ", "1 row 1", "1 row 2", "1 row 3", "1 more "]);
  assert.deepEqual(shown(["1", "2", "3", "1.2"]),
    ["0 row ", "1 row 1", "2 row 1.2", "2 row 1.7", "1 row 2", "2 wait 2", "1 row 3", "1 more "]);
  assert.deepEqual(linesOf(() => null, new Set(), ""), []);
});

test("a tree as deep as stacks can be has lines", () => {
  const deep = (path: string): Level => ({ total: row(0), rows: [row(0, true)], all: 1 });
  const open = new Set(Array.from({ length: 3000 }, (_, i) => Array(i + 1).fill("0").join(".")));
  assert.equal(linesOf(deep, open, "").length, 3002);
});

test("a line's parent is the nearest one above with less depth", () => {
  const lines = linesOf((path) => levels.get(path) ?? null, new Set(["1"]), "");
  assert.deepEqual([0, 1, 3, 4].map((index) => parentOf(lines, index)), [0, 0, 1, 0]);
});

test("dumps are added and taken away, the first is the base", () => {
  const selection = { ...NOTHING_SELECTED, heap: "0.0", dump: 3 };
  const one = { ...selection, ...withDump(selection, "0") };
  const three = { ...one, ...withDump(one, "2") };
  const four = { ...three, ...withDump(three, "1") };
  assert.deepEqual([four.base, four.also], ["0", "2,1"]);
  assert.deepEqual(withDump(four, "5"), { also: "2,1" });
  assert.deepEqual(withoutDump(four, "2"), { also: "1" });
  assert.deepEqual(withoutDump(four, "0"), { base: "2", also: "1" });
  assert.deepEqual(withoutDump(one, "0"), { base: "", also: "" });
  assert.deepEqual([selection, one, { ...selection, rank: "dump1" }, { ...one, rank: "-dump1" }, { ...selection, rank: "-change" }].map(sortOf),
    ["bytes", "change", "bytes", "-dump1", "bytes"]);
});

test("dumps stand by time, with their place in the answer", () => {
  const dump = (time: number) => ({ time, start: 0, final: false });
  const heap = { id: "0.0", process: 0, dumps: [dump(1e9), dump(2e9), dump(3e9)] };
  const profile = { path: "/a", name: "a", heaps: [heap], processes: [] };
  const overview = { profiles: [profile] } as unknown as Overview;
  const place = { profile, heap, process: null } as unknown as Place;
  const dumps = shownDumps(overview, place, { ...NOTHING_SELECTED, heap: "0.0", base: "0", also: "1,9" });
  assert.deepEqual(dumps.map(({ id, figure, role }) => `${id} ${figure} ${role}`), ["0 1 base", "1 2 also", "2 0 selected"]);
});

test("a search in any case is an expression that matches only the text", () => {
  assert.equal(searchFilter("a.B(x)"), "focus:[aA]\\.[bB]\\([xX]\\)");
  const expression = new RegExp(searchFilter("std::vec[0]*").slice("focus:".length));
  assert(expression.test("STD::Vec[0]*") && !expression.test("std::vecc"));
});

test("a process has the nearest dump of each heap, and what it reports", () => {
  const figure = (value: number) => ({ value, low: value, high: value });
  const dump = (time: number, bytes: number, final = false) => ({ time, start: 0, final, space: figure(bytes) });
  const process = (pid: number, rss: number[] | null) => ({ pid, name: "p", command: "", memory: { time: [0, 10], rss } });
  const profile = {
    processes: [process(1, [100, 200]), process(2, null), process(3, null)],
    heaps: [
      { id: "0.0", process: 0, name: "malloc", unseen: "", dumps: [dump(0, 5), dump(9, 7), dump(20, 9)] },
      { id: "0.1", process: 1, name: "malloc", unseen: "", dumps: [dump(2, 50, true)] },
      { id: "0.2", process: 1, name: "other", unseen: "not seen", dumps: [dump(10, 1)] },
    ],
  } as unknown as Profile;
  const reported: Reported[] = [
    { process: 2, time: 10, name: "v8", allocator: true, size: 30, effective_size: 20 },
    { process: 2, time: 10, name: "private_footprint", allocator: false, size: 40, effective_size: null },
  ];
  const rows = processRows(profile, reported, 10);
  assert.deepEqual(rows.map((row) => [row.heaps.get("malloc")?.index, row.heaps.size, row.rss, row.footprint, row.hasEnded]),
    [[1, 1, 200, null, false], [0, 1, null, null, true], [undefined, 0, null, 40, false]]);
  assert.deepEqual(columnsOfRows(rows, "heap", "space"), ["malloc"]);
  assert.deepEqual(columnsOfRows(rows, "allocator", "space"), ["v8"]);
  assert.deepEqual(sortedRows(rows, "heap:malloc", "space").map((row) => row.title), ["p (2)", "p (1)", "p (3)"]);
  assert.deepEqual(sortedRows(rows, "allocator:v8", "space")[0]!.title, "p (3)");
  assert.equal(lackingInWords(rows).length, 3);
  assert.deepEqual(lackingInWords(rows.slice(0, 1)), []);
});
