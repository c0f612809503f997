// SPDX-License-Identifier: Apache-2.0
// A page that is a file answers as the server does: both are asked the same questions about real recordings,
// of every kind that the page asks, and their answers are the same bytes. Only a last digit of a limit may differ:
// two C libraries round exp() and log() differently.
//
// EXPECTED names a file that run.py writes: pages, each with the address of a server on the same profiles.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Engine, NotSaved } from "page/saved/engine";
import { unpack } from "page/saved/packed";
import { matcherOfPattern } from "page/saved/pattern";
import { decodeTree, type Tree } from "page/tree";
import { DIMENSIONS, GROUPS, VIEWS, type Heap, type Overview, type Table } from "page/types";

interface Expected {
  pages: Record<string, { url: string; saved: string }>;
  patterns: { pattern: string; text: string; matches: boolean | null }[]; // as the program says; null: refused
}

const expected = JSON.parse(readFileSync(process.env["EXPECTED"]!, "utf8")) as Expected;

interface Both {
  url: string;
  engine: Engine;
  heaps: Heap[];
}

const jsonOf = (answer: Uint8Array) => JSON.parse(new TextDecoder().decode(answer)) as unknown;
const parts = (text: string) => new Map([...text.matchAll(/<script type="text\/plain" id="(\w+)">([^<]*)</g)].map(([, id, packed]) => [id!, packed!]));

async function both(name: string): Promise<Both> {
  const { url, saved } = expected.pages[name]!;
  const packed = parts(readFileSync(saved, "utf8"));
  const engine = new Engine(await WebAssembly.compile(await unpack(packed.get("engine")!)), await unpack(packed.get("saved")!));
  const overview = (await (await fetch(`${url}api/overview`)).json()) as Overview;
  return { url, engine, heaps: overview.profiles.flatMap((profile) => profile.heaps) };
}

/** The text of an answer, and what comes after it: the columns of a graph. */
function split(answer: Uint8Array): [string, Uint8Array] {
  const isGraph = answer.length > 4 && answer[4] === 0x7b && answer[3]! < 0x20; // "{" behind the length of the header
  const end = isGraph ? 4 + new DataView(answer.buffer, answer.byteOffset).getUint32(0, true) : answer.length;
  return [new TextDecoder().decode(answer.subarray(isGraph ? 4 : 0, end)).trimEnd(), answer.subarray(end)]; // without padding
}

const NUMBER = /(-?\d+\.\d+(?:e[-+]\d+)?)/;

function isNear(one: string, other: string): boolean {
  const [a, b] = [Number(one), Number(other)];
  return Math.abs(a - b) <= 1e-12 * Math.max(Math.abs(a), Math.abs(b)) + 1e-9;
}

/** Fail unless two answers are the same bytes, but for last digits of numbers in their texts. */
function same(ours: Uint8Array, theirs: Uint8Array, path: string) {
  if (Buffer.compare(ours, theirs) === 0) return;
  const [[text, columns], [otherText, otherColumns]] = [split(ours), split(theirs)];
  assert(Buffer.compare(columns, otherColumns) === 0, `${path}: the columns differ`);
  const [words, otherWords] = [text.split(NUMBER), otherText.split(NUMBER)];
  words.forEach((word, i) => {
    const other = otherWords[i] ?? "";
    if (word === other || (i % 2 === 1 && isNear(word, other))) return;
    const near = (all: string[]) => all.slice(Math.max(i - 4, 0), i + 2).join("");
    assert.fail(`${path}: ${near(words)}\nThe server: ${near(otherWords)}`);
  });
  assert.equal(words.length, otherWords.length, path);
}

let compared = 0; // answers
let refused = 0;

/** Ask both, and return their answer; null: both refuse for the same reason. */
async function ask(of: Both, path: string): Promise<Uint8Array | null> {
  const response = await fetch(of.url + path);
  const theirs = new Uint8Array(await response.arrayBuffer());
  let ours: Uint8Array;
  try {
    ours = of.engine.answer(path);
  } catch (error) {
    if (!(error instanceof NotSaved) || response.ok) throw new Error(`${path}: ${String(error)}`);
    const { error: why } = jsonOf(theirs) as { error: string };
    // Expressions are the browser's, which has other words for what is wrong with them.
    if (!path.includes("filter=")) assert.equal(error.message, why, path);
    refused++;
    return null;
  }
  assert(response.ok, `the file answers ${path}, the server: ${new TextDecoder().decode(theirs)}`);
  same(ours, theirs, path);
  compared++;
  return ours;
}

const encoded = (filters: string[]) => filters.map((filter) => `&filter=${encodeURIComponent(filter)}`).join("");

function pathTo(tree: Tree, node: number): string {
  const ids = [];
  for (let at = node; at > 0; at = tree.parent[at]!) ids.unshift(tree.functions[tree.function[at]!]!.id);
  return ids.join(".");
}

/** Compare graphs of a selection: in all directions, and from nodes in the middle. */
async function compareGraphs(of: Both, selection: string) {
  const answer = await ask(of, `api/tree?${selection}&direction=down`);
  await ask(of, `api/tree?${selection}&direction=up`);
  await ask(of, `api/tree?${selection}&direction=down&least=0.01`);
  if (!answer) return;
  const tree = decodeTree(answer.buffer as ArrayBuffer);
  for (let node = 1; node < tree.count; node += Math.max(Math.ceil(tree.count / 2), 1)) {
    const { id } = tree.functions[tree.function[node]!]!;
    for (const direction of ["callees", "callers"]) await ask(of, `api/tree?${selection}&direction=${direction}&function=${id}`);
    await ask(of, `api/tree?${selection}&direction=down&root=${pathTo(tree, node)}`);
  }
}

/** Compare tables, and what a row of each leads to. */
async function compareTables(of: Both, selection: string, dimensions: readonly string[]) {
  for (const by of dimensions) {
    const answer = await ask(of, `api/table?${selection}&by=${by}&limit=20000&order=total`);
    await ask(of, `api/table?${selection}&by=${by}&sort=name&search=a&offset=1&limit=5`);
    const part = answer && (jsonOf(answer) as Table).row.find((row) => row.part !== null)?.part;
    if (part === null || part === undefined) continue;
    const only = `${selection}&only=${encodeURIComponent(`${by}:${part}`)}`;
    await ask(of, `api/tree?${only}&direction=down`);
    await ask(of, `api/table?${only}&by=function`);
  }
}

async function compareGroups(of: Both, selection: string) {
  for (const group of GROUPS) await ask(of, `api/tree?${selection}&direction=down&group=${group}`);
}

async function compareDetails(of: Both, selection: string) {
  for (const by of ["backtrace", "type"])
    for (const direction of ["down", "up"]) await ask(of, `api/details?${selection}&by=${by}&direction=${direction}`);
}

const names = Object.keys(expected.pages);
const WHOLE_VIEWS: string[] = ["space", "max"]; // of the others only tables and one graph are compared

for (const name of names)
  test(`${name}: graphs, tables, groups and details of dumps`, async () => {
    const of = await both(name);
    const overview = jsonOf(of.engine.answer("api/overview")) as Overview;
    assert(overview.opening !== null && overview.profiles.flatMap((profile) => profile.heaps).length === of.heaps.length);
    for (const heap of of.heaps) {
      const last = heap.dumps.length - 1;
      for (const dump of new Set([last, Math.floor(last / 2)]))
        for (const view of VIEWS) {
          const selection = `heap=${heap.id}&dump=${dump}&view=${view}`;
          await compareTables(of, selection, dump === last ? DIMENSIONS : ["holder", "thread"]);
          await ask(of, `api/tree?${selection}&direction=down`);
          if (!WHOLE_VIEWS.includes(view)) continue;
          await compareGraphs(of, selection);
          await compareGroups(of, selection);
          await compareDetails(of, selection);
          if (dump === last) for (const by of ["holder", "thread"]) await ask(of, `api/course?${selection}&by=${by}&dumps=3`);
          if (dump === last) await ask(of, `api/table?${selection}&course=2&limit=5`);
          if (dump === last) for (const format of ["json", "collapsed", "speedscope"]) await ask(of, `api/export?${selection}&format=${format}`);
        }
      for (const dump of ["", "&dump=0"])
        for (const question of ["summary", "memory", "allocators", "leaks"]) await ask(of, `api/${question}?heap=${heap.id}${dump}`);
    }
    for (const budgets of ["max-peak=1k\nmax-live=100M\nmax-leak=*a*=1\nmax-temporary=1%\nmax-growth=1%\nsuppress: leak:b* # c", "nonsense"])
      for (const base of overview.profiles.keys()) await ask(of, `api/budgets?profile=0&base=${base}&budgets=${encodeURIComponent(budgets)}`);
    for (const question of ["functions?numbering=&function=0", "functions?numbering=1-abc"]) await ask(of, `api/${question}`);
  });

for (const name of names)
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
        if (view === "space") await compareGraphs(of, selection);
        if (view === "space") await ask(of, `api/leaks?${selection}`);
        await compareTables(of, selection, ["function", "holder", "thread"]);
      }
  });

for (const name of names)
  test(`${name}: differences`, async () => {
    const of = await both(name);
    for (const heap of of.heaps) {
      const last = heap.dumps.length - 1;
      const bases = [0, Math.floor(last / 2), last].map(String);
      for (const other of of.heaps)
        if (other.id.split(".")[0] !== heap.id.split(".")[0] && other.name === heap.name) bases.push(`${other.id}.${other.dumps.length - 1}`);
      for (const base of [0, last]) {
        const selection = `heap=${heap.id}&dump=${Math.floor(last / 2)}&base=${base}`;
        await ask(of, `api/range?${selection}`);
        for (const more of ["", "&shrunk=1", "&search=a&limit=2"]) await ask(of, `api/leaks?${selection}${more}`);
        await ask(of, `api/tree?${selection}&retained=1&direction=up`);
        for (const by of ["holder", "thread", "size"]) await ask(of, `api/table?${selection}&retained=1&by=${by}`);
      }
      for (const base of new Set(bases))
        for (const view of VIEWS) {
          const selection = `heap=${heap.id}&base=${base}&view=${view}`;
          const isFirst = view === VIEWS[0];
          if (isFirst) await compareGraphs(of, selection);
          if (isFirst) await compareGroups(of, selection);
          await compareDetails(of, selection);
          await compareTables(of, selection, isFirst ? ["function", "module", "thread"] : ["holder"]);
          await ask(of, `api/tree?${selection}&dump=0`);
          await ask(of, `api/tree?${selection}${encoded(["hide:^_Py", "focus:a"])}`);
          await ask(of, `api/export?${selection}&format=json`);
        }
    }
  });

test("two: runs", async () => {
  const of = await both("two");
  for (const by of ["holder", "function", "module", "thread"])
    for (const sides of ["before=0&after=1", "before=0,0&after=1,1", "before=0,1&after=1,0&search=a&limit=3", "before=9&after=0", "before=&after=0", "before=0"])
      await ask(of, `api/runs?heap=${of.heaps[0]!.id}&view=space&by=${by}&${sides}`);
});

test("thousands of answers were compared", () => {
  assert(compared > 2000 && refused > 50, `${compared} compared, ${refused} refused`);
});

test("what the file does not contain is refused in a sentence", async () => {
  const { engine, heaps } = await both(names[0]!);
  const [heap] = heaps;
  for (const path of [
    "api/source?function=1", "api/tables", `api/export?heap=${heap!.id}&format=pprof`, `api/export?heap=${heap!.id}&base=0&format=collapsed`,
    `api/tree?heap=${heap!.id}&filter=${encodeURIComponent("focus:(a)\\1")}`,
  ])
    assert.throws(() => engine.answer(path), (error) => error instanceof NotSaved && /^[A-Z][^]*[.]$|^--focus/.test(error.message), path);
});

test("a damaged page says so", async () => {
  const packed = parts(readFileSync(expected.pages[names[0]!]!.saved, "utf8"));
  const module = await WebAssembly.compile(await unpack(packed.get("engine")!));
  const block = await unpack(packed.get("saved")!);
  assert.throws(() => new Engine(module, block.subarray(0, block.length / 2)), /damaged at byte [1-9]/);
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
