// SPDX-License-Identifier: Apache-2.0
// A page that is a file answers as the server does: both are asked the same questions about real recordings,
// and every node, row, figure, variance and limit is compared.
//
// EXPECTED names a file that run.py writes: pages, each with the address of a server on the same profiles.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { matcherOfPattern } from "page/saved/pattern";
import { NotSaved, SavedAnswers } from "page/saved/answers";
import { decodeTree, type SumColumns, type Tree } from "page/tree";
import { VIEWS, type Heap, type Overview, type ProcessMemory, type RangeAnswer, type Summary, type Table } from "page/types";

interface Expected {
  pages: Record<string, { url: string; saved: string }>;
  patterns: { pattern: string; text: string; matches: boolean | null }[]; // as the program says; null: refused
}

const expected = JSON.parse(readFileSync(process.env["EXPECTED"]!, "utf8")) as Expected;

interface Both {
  url: string;
  answers: SavedAnswers;
  heaps: Heap[];
}

async function both(name: string): Promise<Both> {
  const { url, saved } = expected.pages[name]!;
  const data = /<script type="application\/json" id="saved">(.*?)<\/script>/s.exec(readFileSync(saved, "utf8"))![1]!;
  const overview = (await (await fetch(`${url}api/overview`)).json()) as Overview;
  return { url, answers: new SavedAnswers(JSON.parse(data) as Record<string, string>), heaps: overview.profiles.flatMap((profile) => profile.heaps) };
}

function near(one: number | null, other: number | null, what: () => string, tolerance = 1e-9) {
  if (one === null || other === null) return assert.equal(one, other, what());
  if (Math.abs(one - other) <= tolerance * Math.max(Math.abs(one), Math.abs(other), 1)) return;
  assert.fail(`${what()}: ${one}, the server has ${other}`);
}

type Shown = Tree["functions"][number] | undefined;

/** Whether two functions show the same; the file and the server number them differently. */
function isSame(one: Shown, other: Shown): boolean {
  if (!one || !other) return one === other;
  const [ours, theirs] = [Object.entries(one), Object.entries(other)];
  const differs = (values: [string, unknown][], from: object) => values.some(([name, value]) => name !== "id" && from[name as keyof typeof from] !== value);
  return !differs(ours, other) && !differs(theirs, one);
}

const nameOf = (tree: Tree, node: number) => JSON.stringify(tree.functions[tree.function[node]!] ?? "");

function sameColumns(ours: SumColumns | null, theirs: SumColumns | null, what: string) {
  assert.equal(ours === null, theirs === null, what);
  for (const name of ["bytes", "count", "bytesVariance", "countVariance", "samples"] as const)
    for (let i = 0; ours && i < ours[name].length; i++) near(ours[name][i]!, theirs![name][i]!, () => `${what}: ${name} of node ${i}`, name === "bytes" || name === "count" ? 1e-9 : 1e-6);
}

function sameTree(ours: Tree, theirs: Tree, what: string) {
  assert.equal(ours.count, theirs.count, `${what}: nodes`);
  const same: number[] = []; // by function of ours: the server's function that was found to be the same
  for (let i = 0; i < ours.count; i++) {
    const [mine, server] = [ours.function[i]!, theirs.function[i]!];
    if (ours.parent[i] !== theirs.parent[i] || (same[mine] !== server && !isSame(ours.functions[mine], theirs.functions[server])))
      assert.fail(`${what}: node ${i} is ${nameOf(ours, i)} below ${ours.parent[i]}, the server has ${nameOf(theirs, i)} below ${theirs.parent[i]}`);
    same[mine] = server;
    for (const name of ["width", "selfBytes", "selfCount", "lostSelfBytes", "lostSelfCount"] as const)
      if (ours[name] !== null) near(ours[name][i]!, theirs[name]![i]!, () => `${what}: ${name} of ${i}`);
  }
  sameColumns(ours.gained, theirs.gained, what);
  sameColumns(ours.lost, theirs.lost, what);
  const { functions: _, columns, left_out, total, lost_total, whole, ...rest } = ours.header;
  const server = theirs.header;
  for (const [name, value] of Object.entries(rest)) assert.deepEqual(value, server[name as keyof typeof server], `${what}: ${name}`);
  assert.deepEqual(columns, server.columns);
  [...total, ...lost_total!, ...left_out!.gained, ...left_out!.lost, left_out!.share].forEach((value, i) =>
    near(value, [...server.total, ...server.lost_total!, ...server.left_out!.gained, ...server.left_out!.lost, server.left_out!.share][i]!, () => `${what}: sum ${i}`));
  assert.equal(whole === undefined, server.whole === undefined, what);
  for (const which of ["bytes", "count"] as const)
    for (const limit of ["value", "low", "high", "before", "after"] as const)
      if (whole) near(whole[which][limit] ?? null, server.whole![which][limit] ?? null, () => `${what}: whole ${which} ${limit}`);
}

/** Ask both; null: both refuse. `mine`: the question to the file, if functions have other numbers there. */
async function ask(of: Both, path: string, mine = path): Promise<[ArrayBuffer, ArrayBuffer] | null> {
  const response = await fetch(of.url + path);
  const own = await of.answers.answer(mine).catch((error: unknown) => {
    if (error instanceof NotSaved && !response.ok) return null;
    throw new Error(`${path}: ${String(error)}`);
  });
  if (own === null) {
    refused++;
    return null;
  }
  assert(response.ok, `the file answers ${path}, the server: ${await response.clone().text()}`);
  return [typeof own === "string" ? (new TextEncoder().encode(own).buffer as ArrayBuffer) : own, await response.arrayBuffer()];
}

let compared = 0; // nodes and rows
let refused = 0;

async function compareTree(of: Both, question: string, mine = question): Promise<[Tree, Tree] | null> {
  const answers = await ask(of, `api/tree?${question}`, `api/tree?${mine}`);
  if (!answers) return null;
  const [ours, theirs] = [decodeTree(answers[0]), decodeTree(answers[1])];
  sameTree(ours, theirs, question);
  compared += ours.count;
  return [ours, theirs];
}

const encoded = (filters: string[]) => filters.map((filter) => `&filter=${encodeURIComponent(filter)}`).join("");

/** The nodes in the middle of a graph whose functions have names that are unique: their ids in the file and on the server. */
function middle([ours, theirs]: [Tree, Tree], count: number): [mine: number, server: number, node: number][] {
  const found: [number, number, number][] = [];
  for (let i = 1; i < ours.count && found.length < count; i += Math.max(Math.floor(ours.count / (2 * count)), 1)) {
    const [one, other] = [ours.functions[ours.function[i]!]!, theirs.functions[theirs.function[i]!]!];
    if (!found.some(([mine]) => mine === one.id)) found.push([one.id, other.id, i]);
  }
  return found;
}

function pathTo(tree: Tree, node: number): string {
  const ids = [];
  for (let at = node; at > 0; at = tree.parent[at]!) ids.unshift(tree.functions[tree.function[at]!]!.id);
  return ids.join(".");
}

async function compareDirections(of: Both, selection: string) {
  const down = await compareTree(of, `${selection}&direction=down`);
  await compareTree(of, `${selection}&direction=up`);
  await compareTree(of, `${selection}&direction=down&least=0.01`);
  if (!down) return;
  for (const [mine, server, node] of middle(down, 2)) {
    for (const direction of ["callees", "callers"])
      await compareTree(of, `${selection}&direction=${direction}&function=${server}`, `${selection}&direction=${direction}&function=${mine}`);
    await compareTree(of, `${selection}&direction=down&root=${pathTo(down[1], node)}`, `${selection}&direction=down&root=${pathTo(down[0], node)}`);
  }
}

type Row = Table["row"][number];
const keyOf = (row: Row) => JSON.stringify([row.key, row.module, row.file, row.line, row.tid]);

/** The rows by what they show; null: several show the same. */
function rowsByKey(table: Table): Map<string, Row | null> {
  const rows = new Map<string, Row | null>();
  for (const row of table.row) rows.set(keyOf(row), rows.has(keyOf(row)) ? null : row);
  return rows;
}

function sameFigures(ours: Omit<Row, "key">, theirs: Omit<Row, "key">, what: string) {
  for (const name of ["bytes", "count", "self_bytes", "self_count"] as const) {
    const [figure, server] = [ours[name], theirs[name]];
    assert.equal(figure === undefined, server === undefined, what);
    for (const limit of ["value", "low", "high"] as const) if (figure && server) near(figure[limit], server[limit], () => `${what}: ${name} ${limit}`, 1e-6);
  }
  compared++;
}

async function compareTables(of: Both, selection: string, keys: string[]) {
  for (const by of keys) {
    const what = `${selection} by ${by}`;
    const answers = await ask(of, `api/table?${selection}&by=${by}&limit=20000&order=total`);
    if (!answers) continue;
    const [ours, theirs] = answers.map((answer) => JSON.parse(new TextDecoder().decode(answer)) as Table) as [Table, Table];
    const [mine, server] = [rowsByKey(ours), rowsByKey(theirs)];
    assert.equal(ours.rows, theirs.rows, what);
    assert.deepEqual([...mine.keys()].sort(), [...server.keys()].sort(), what);
    sameFigures(ours, theirs, what);
    for (const [key, row] of mine) if (row) sameFigures(row, server.get(key)!, `${what}: ${key}`);
  }
}

const ALL = ["function", "holder", "module", "file", "thread", "type", "context"];

const ALONE = Object.keys(expected.pages).filter((name) => name !== "process"); // it is two readings of "threads"

for (const name of ALONE)
  test(`${name}: graphs and tables of dumps`, async () => {
    const of = await both(name);
    for (const heap of of.heaps) {
      const last = heap.dumps.length - 1;
      for (const dump of new Set([last, Math.floor(last / 2)]))
        for (const view of VIEWS) {
          const selection = `heap=${heap.id}&dump=${dump}&view=${view}`;
          await compareDirections(of, selection);
          await compareTables(of, selection, dump === last ? ALL : ["holder", "thread"]);
        }
    }
    assert(compared > 10_000 || name === "two", `${compared} compared`);
  });

for (const name of ALONE)
  test(`${name}: filters`, async () => {
    const of = await both(name);
    const heap = of.heaps[0]!;
    const cases = [
      ["focus:json|Py"], ["ignore:^Py_"], ["hide:python|[.]so"], ["show-from:Py[[:upper:]]"], ["hide:^_"], ["focus:nobody"],
      ["show-from:main", "show-from:(Eval|exec)"], ["focus:Object", "ignore:Dict", "hide:Vector"], ["hide:.*"], ["show-from:[]x]"],
      ["focus:^$"], ["focus:(*"], ["hide:a{2"], ["focus:x**"], Array.from({ length: 9 }, () => "focus:P"), ["nonsense"], ["focus:"],
    ];
    for (const filters of cases)
      for (const view of ["space", "alloc_objects"]) {
        const selection = `heap=${heap.id}&view=${view}${encoded(filters)}`;
        if (view === "space") await compareDirections(of, selection);
        await compareTables(of, selection, ["function", "holder", "thread"]);
      }
  });

for (const name of Object.keys(expected.pages))
  test(`${name}: differences`, async () => {
    const of = await both(name);
    for (const heap of of.heaps) {
      const last = heap.dumps.length - 1;
      const bases = [0, Math.floor(last / 2), last].map(String);
      for (const other of of.heaps)
        if (other.id.split(".")[0] !== heap.id.split(".")[0] && other.name === heap.name) bases.push(`${other.id}.${other.dumps.length - 1}`);
      for (const base of [0, last]) {
        const path = `api/range?heap=${heap.id}&dump=${Math.floor(last / 2)}&base=${base}`;
        const [ours, theirs] = (await ask(of, path))!.map((answer) => JSON.parse(new TextDecoder().decode(answer)) as RangeAnswer) as [RangeAnswer, RangeAnswer];
        assert.equal(ours.why, theirs.why);
        for (const figure of ["allocated", "freed", "change", "retained_least", "retained_most"] as const) near(ours[figure], theirs[figure], () => `${path}: ${figure}`, 1e-6);
      }
      for (const base of new Set(bases))
        for (const view of VIEWS) {
          const selection = `heap=${heap.id}&base=${base}&view=${view}`;
          await compareDirections(of, selection);
          await compareTables(of, selection, ["function", "module"]);
          await compareTree(of, `${selection}&dump=0`);
          await compareTree(of, `${selection}${encoded(["hide:^_Py", "focus:a"])}`);
        }
    }
  });

test("the sentences are the server's", async () => {
  for (const name of Object.keys(expected.pages)) {
    const of = await both(name);
    for (const heap of of.heaps)
      for (const path of [`api/summary?heap=${heap.id}`, `api/summary?heap=${heap.id}&dump=0`]) {
        const answers = await ask(of, path);
        const [ours, theirs] = answers!.map((answer) => JSON.parse(new TextDecoder().decode(answer)) as Summary);
        assert.deepEqual(ours, theirs, path);
      }
  }
});

test("the memory is the server's", async () => {
  for (const name of Object.keys(expected.pages)) {
    const of = await both(name);
    for (const heap of of.heaps)
      for (const path of [`api/memory?heap=${heap.id}`, `api/memory?heap=${heap.id}&dump=0`]) {
        const answers = await ask(of, path);
        const [ours, theirs] = answers!.map((answer) => JSON.parse(new TextDecoder().decode(answer)) as ProcessMemory);
        if (heap.dumps.length > 1) assert.deepEqual(ours, theirs, path);
      }
  }
});

test("what the file does not contain is refused in a sentence", async () => {
  const { answers, heaps } = await both(Object.keys(expected.pages)[0]!);
  const [heap] = heaps;
  for (const path of [
    "api/source?function=1", "api/tables", "api/export?format=pprof", `api/tree?heap=${heap!.id}&only=thread:1`, `api/table?heap=${heap!.id}&by=size`, `api/table?heap=${heap!.id}&base=0&by=thread`,
    "api/tree?heap=9.9", `api/tree?heap=${heap!.id}&dump=99999`, `api/tree?heap=${heap!.id}&view=x`, `api/tree?heap=${heap!.id}&direction=x`,
    `api/tree?heap=${heap!.id}&base=7.7.7`, `api/tree?heap=${heap!.id}&filter=${encodeURIComponent("focus:(a)\\1")}`,
  ])
    await assert.rejects(answers.answer(path), (error) => error instanceof NotSaved && /^[A-Z][^]*[.]$|^focus/.test(error.message), path);
});

test("expressions match as in the program", () => {
  for (const { pattern, text, matches } of expected.patterns) {
    let found: boolean | null = null;
    try {
      found = matcherOfPattern(pattern)(text);
    } catch {
      /* refused */
    }
    assert.equal(found, matches, `${pattern} on ${text}`);
  }
  assert(expected.patterns.length > 100);
});
