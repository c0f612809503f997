// SPDX-License-Identifier: Apache-2.0
// Tables of a page that is a file, summed up as src/tools/view/answers/table.c does it: by function, module and file over
// the tree of stacks, by thread, type and context over the parts of samples.
import { changeOf, marksOf } from "./change";
import { cut, limitsOfPart } from "../interval";
import { boundsOf } from "./bounds";
import { FIGURES, NONE, type SavedFunction, type StackTree } from "./data";
import { addSum, countsCalls, estimate, leavesOf, LOST, PEAK, rankOf, SUM, sumsOf, take, WIDTH, type Leaves, type Question } from "./leaves";
import { shortModule } from "../tree";
import type { Figure, Table, TableBy, TableOrder, TableRow } from "../types";

const ROWS = 500;
const OPEN = "Open the profile with `heap_profile view` for it.";

interface Row {
  label: string;
  function: number; // NONE: the row is not of one
  tid: number | null;
  self: Float64Array;
  total: Float64Array;
}

const rowOf = (label: string, number = NONE, tid: number | null = null): Row =>
  ({ label, function: number, tid, self: new Float64Array(SUM), total: new Float64Array(SUM) });

// --- over the tree ---

/** Make a row for each key of the functions, and return the row of each function. */
function rowsOfFunctions(functions: SavedFunction[], by: TableBy): { rows: Row[]; of: Uint32Array } {
  const rows: Row[] = [];
  const known = new Map<string, number>();
  const of = Uint32Array.from(functions, (one, i) => {
    if (by === "function" || by === "holder") return rows.push(rowOf("", i)) - 1;
    const label = (by === "module" ? one.path : one.file) ?? "";
    const row = known.get(label) ?? rows.push(rowOf(label)) - 1;
    known.set(label, row);
    return row;
  });
  return { rows, of };
}

/** Return, by node, the sum of the leaves at it and below. */
function sumsBelow(tree: StackTree, leaves: Leaves): Float64Array {
  const sums = new Float64Array((tree.count + 1) * SUM);
  for (let i = 0; i < leaves.count; i++) sums.set(leaves.sums.subarray(i * SUM, (i + 1) * SUM), leaves.node[i]! * SUM);
  for (let i = tree.count; i-- > 0; )
    if (tree.parent[i] !== NONE && sums[i * SUM + WIDTH] !== 0) addSum(sums, tree.parent[i]! * SUM, sums, i * SUM);
  return sums;
}

/** Add the sum of each node to its row, unless a caller has the same row. */
function sumTree(rows: Row[], of: Uint32Array, tree: StackTree, leaves: Leaves) {
  const sums = sumsBelow(tree, leaves);
  const above = new Uint32Array(rows.length); // how many nodes of the path have the row
  const path = [tree.count];
  const next = [tree.first[tree.count]!];
  while (path.length > 0) {
    const depth = path.length - 1;
    const node = path[depth]!;
    if (next[depth]! < tree.first[node + 1]!) {
      const child = tree.children[next[depth]!++]!;
      const row = of[tree.function[child]!]!;
      if (above[row]!++ === 0) addSum(rows[row]!.total, 0, sums, child * SUM);
      path.push(child);
      next.push(tree.first[child]!);
    } else {
      path.pop();
      next.pop();
      if (depth > 0) above[of[tree.function[node]!]!]!--;
    }
  }
  for (let i = 0; i < leaves.count; i++) addSum(rows[of[tree.function[leaves.node[i]!]!]!]!.self, 0, leaves.sums, i * SUM);
}

const NAMELESS = /^0x[0-9a-f]+ @ /;

/** Return whether a function has a name, and another one in its module has none. */
function names(named: SavedFunction, nameless: SavedFunction): boolean {
  return !NAMELESS.test(named.name) && NAMELESS.test(nameless.name) && named.path === nameless.path;
}

/** Return the function that holds the memory of a stack: the innermost one of the program's own. Without one, that of
 * a library that does more than allocate; if it has no name, the next one in its module that has. */
function holderOf(tree: StackTree, functions: SavedFunction[], leaf: number): number {
  let other = NONE;
  let outermost = NONE;
  for (let node = leaf; node !== NONE; node = tree.parent[node]!) {
    outermost = tree.function[node]!;
    const one = functions[outermost]!;
    if (one.folded === undefined) return outermost;
    if (one.folded !== "allocates" && (other === NONE || names(one, functions[other]!))) other = outermost;
  }
  return other !== NONE ? other : outermost;
}

function rowsByFunction(question: Question, functions: SavedFunction[], leaves: Leaves, by: TableBy): Row[] {
  const { tree } = question.filtered;
  const { rows, of } = rowsOfFunctions(functions, by);
  if (by !== "holder") sumTree(rows, of, tree, leaves);
  for (let i = 0; by === "holder" && i < leaves.count; i++) {
    const row = rows[holderOf(tree, functions, leaves.node[i]!)]!;
    addSum(row.self, 0, leaves.sums, i * SUM);
    addSum(row.total, 0, leaves.sums, i * SUM);
  }
  return rows;
}

// --- over parts ---

function rowsByPart(question: Question, by: "thread" | "type" | "context"): Row[] | null {
  const { at: { heap, dump }, view, filtered } = question;
  const { samples, parts } = heap;
  const rows = new Map<string, Row>();
  const room = new Float64Array(FIGURES);
  const sum = new Float64Array(SUM);
  const figures = (columns: Float64Array[], index: number) => {
    estimate(take(columns, index, room), view, sum, 0);
    sum[WIDTH] = sum[countsCalls(view) ? 1 : 0]!;
  };
  const add = (label: string, tid: number | null) => {
    const key = tid === null ? label : String(tid);
    const row = rows.get(key) ?? rowOf(label, NONE, tid);
    rows.set(key, row);
    addSum(row.self, 0, sum, 0);
    addSum(row.total, 0, sum, 0);
  };
  for (const sample of dump.samples) {
    if (filtered.place(samples.node[sample]!) === NONE) continue;
    if (by !== "thread" && !samples.tagged[sample]) {
      figures(samples.figures, sample);
      add("", null);
      continue;
    }
    const count = samples.parts[sample]!;
    if (count === 0) {
      figures(samples.figures, sample);
      add("", 0);
      continue;
    }
    // Samples of several threads have no peak of each.
    if (!samples.tagged[sample] && count > 1 && view === "max" && samples.figures[PEAK]![sample]! > 0) return null;
    for (let i = 0; i < count; i++) {
      const part = samples.firstPart[sample]! + i;
      if (samples.detailed[sample] && (samples.tagged[sample] || count > 1)) figures(parts.figures, samples.firstFigures[sample]! + i);
      else figures(samples.figures, sample);
      const thread = heap.threads[parts.thread[part]!]!;
      if (by === "thread") add(thread.name, thread.tid);
      else add(by === "type" ? heap.types[parts.type[part]!]! : heap.contexts[parts.context[part]!]!, null);
    }
  }
  return [...rows.values()];
}

// --- as the server writes it ---

/** `isOfHeap`: the sum is that of the whole heap. */
export function figureOf(question: Question, leaves: Leaves, sum: Float64Array, counts: boolean, isOfHeap = false): Figure {
  const which = counts ? 1 : 0;
  const value = sum[which]! - sum[LOST + which]!;
  const gained = sumsOf(sum, 0);
  if (question.base) {
    const change = changeOf(gained, sumsOf(sum, LOST), counts, leaves, boundsOf(question, counts), isOfHeap);
    const isPartial = change.isCounted ? change.isPartial : leaves.partial;
    return { value: change.value, ...((isPartial ? null : change.limits) ?? { low: null, high: null }) };
  }
  if (isOfHeap) return question.at.dump.whole[question.view][counts ? "count" : "bytes"];
  const interval = question.at.heap.interval_bytes;
  if (interval === 0 || leaves.partial) return { value, low: null, high: null };
  return { value, ...cut(limitsOfPart(gained, counts, interval, leaves.calibrations[0]), question.at.dump.most[which]!, value) };
}

export interface TableQuestion {
  by: TableBy;
  order: TableOrder;
  sort: string; // "up", "down"; "": as the order is by itself
  search: string;
  offset: number;
  limit: number;
}

export function parseTable(parameters: URLSearchParams): TableQuestion {
  return {
    by: (parameters.get("by") ?? "function") as TableBy,
    order: (parameters.get("order") ?? "self") as TableOrder,
    sort: parameters.get("sort") ?? "",
    search: parameters.get("search") ?? "",
    offset: Number(parameters.get("offset") ?? 0),
    limit: Number(parameters.get("limit") ?? ROWS),
  };
}

/** Return the rows whose change is beyond chance; null: this is no difference. */
function marked(question: Question, leaves: Leaves, rows: Row[]): Set<Row> | null {
  const { base, view } = question;
  if (!base) return null;
  if (view === "max" && !leaves.exact) return new Set();
  const counts = countsCalls(view);
  const bounds = boundsOf(question, counts);
  const changes = rows.map(({ total }) => changeOf(sumsOf(total, 0), sumsOf(total, LOST), counts, leaves, bounds));
  return new Set(marksOf(changes).map((index) => rows[index]!));
}

function writeRow(question: Question, functions: SavedFunction[], leaves: Leaves, by: TableBy, row: Row, marks: Set<Row> | null): TableRow {
  const figure = (sum: Float64Array, counts: boolean) => figureOf(question, leaves, sum, counts);
  const of = functions[row.function];
  const hasSelf = by === "function" || by === "module" || by === "file";
  return {
    ...(of ? { function: row.function, key: of.name, module: shortModule(of.path ?? ""), file: of.file ?? "", line: of.line ?? 0 } : { key: row.label }),
    ...(row.tid !== null ? { tid: row.tid } : {}),
    part: null,
    bytes: figure(row.total, false),
    count: figure(row.total, true),
    ...(hasSelf ? { self_bytes: figure(row.self, false), self_count: figure(row.self, true) } : {}),
    ...(marks ? { beyond_chance: marks.has(row) } : {}),
  };
}

/** Return what rows are ordered by. */
function valueBy(row: Row, order: TableOrder): number {
  const isSelf = order.startsWith("self");
  const sum = isSelf ? row.self : row.total;
  if (order === "self" || order === "total") return sum[WIDTH]!;
  const which = order.endsWith("count") ? 1 : 0;
  return sum[which]! - sum[LOST + which]!;
}

function byName(functions: SavedFunction[]) {
  const nameOf = (row: Row) => (functions[row.function]?.name ?? row.label).toLowerCase();
  return (a: Row, b: Row) => (nameOf(a) < nameOf(b) ? -1 : nameOf(a) > nameOf(b) ? 1 : (a.tid ?? 0) - (b.tid ?? 0));
}

/** Answer api/table; why there is no such table. */
export function makeTable(question: Question, functions: SavedFunction[], asked: TableQuestion): Table | string {
  const { by, order, sort, search, offset, limit } = asked;
  const isOfParts = by === "thread" || by === "type" || by === "context";
  if (isOfParts && question.base) return `This page is a file and has no table by ${by} of a difference. ${OPEN}`;
  if (by === "size" || by === "lifetime") return `This page is a file and has no table by ${by}. ${OPEN}`;
  if (by === "thread" && question.at.heap.why_no_threads !== null) return `There is no table by thread: ${question.at.heap.why_no_threads}.`;
  const leaves = leavesOf(question);
  const wanted = search.toLowerCase();
  const isFound = (row: Row) => {
    const of = functions[row.function];
    const texts = of ? [shortModule(of.path ?? ""), of.full_name ?? of.name] : [row.label];
    return wanted === "" || texts.some((text) => text.toLowerCase().includes(wanted));
  };
  const all = isOfParts ? rowsByPart(question, by) : rowsByFunction(question, functions, leaves, by);
  if (!all) return "There is no table by thread: the file does not contain the peak of single threads.";
  const changed = all.filter((row) => row.total[WIDTH] !== 0);
  const marks = marked(question, leaves, changed);
  const rows = changed.filter(isFound);
  const sign = (sort === "" ? order === "name" : sort === "up") ? 1 : -1;
  const compare = order === "name" ? byName(functions) : (a: Row, b: Row) => rankOf(valueBy(a, order)) - rankOf(valueBy(b, order));
  rows.sort((a, b) => sign * compare(a, b) || a.function - b.function);
  return {
    bytes: figureOf(question, leaves, leaves.total, false, true),
    count: figureOf(question, leaves, leaves.total, true, true),
    unknown: leaves.unknown,
    judged: question.view !== "max" || leaves.exact,
    rows: rows.length,
    row: rows.slice(offset, offset + limit).map((row) => writeRow(question, functions, leaves, by, row, marks)),
  };
}
