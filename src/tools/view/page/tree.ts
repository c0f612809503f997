// SPDX-License-Identifier: Apache-2.0
// A tree of callstacks as the server sends it: a JSON header and one typed array for each column.
// Parents have lower numbers than their children; the children of a node are contiguous, the largest
// first. Nothing here touches the page, so that tests run it in node.
import { judgeInWords } from "./words";
import { cut, limitsOfChange, limitsOfPart, type Sums } from "./interval";
import { GROUPS, type Figure, type Group, type TreeFunction, type TreeHeader } from "./types";

export const WHOLE = 0xffffffff; // the function of a root that stands for everything
const NODES_MAX = 4_000_000;
const SEEN_SHARE = 0.01; // of the width of the graph, which a box needs to be seen
const ZOOMED_SHARE = 0.1; // that it has when the graph zooms for it

export interface SumColumns {
  bytes: Float64Array;
  count: Float64Array;
  bytesVariance: Float32Array;
  countVariance: Float32Array;
  samples: Float32Array;
}

export interface Tree {
  header: TreeHeader;
  prefix: string; // the path above node 0, if the tree is only a part of the whole
  count: number;
  functions: TreeFunction[];
  parent: Int32Array;
  function: Uint32Array;
  firstChild: Int32Array;
  childCount: Int32Array;
  gained: SumColumns;
  lost: SumColumns | null;
  least: SumColumns | null; // of what was retained: the lower bounds of `gained`
  width: Float64Array; // of boxes, in the unit of the view; children are never wider than their parent
  selfBytes: Float64Array;
  selfCount: Float64Array;
  lostSelfBytes: Float64Array | null;
  lostSelfCount: Float64Array | null;
  before: Float64Array | null; // of a difference: what each side has in all, in the unit of the view
  after: Float64Array | null;
  mark: Uint8Array | null; // of a difference: 1 beyond chance
}

type Column = Int32Array | Uint32Array | Float64Array | Float32Array | Uint8Array;

const ARRAYS: Record<string, { new (buffer: ArrayBuffer, offset: number, length: number): Column; BYTES_PER_ELEMENT: number }> = {
  i32: Int32Array,
  u32: Uint32Array,
  f64: Float64Array,
  f32: Float32Array,
  u8: Uint8Array,
};

function readColumns(buffer: ArrayBuffer, header: TreeHeader, begin: number): Map<string, Column> {
  const columns = new Map<string, Column>();
  let at = begin;
  for (const { name, type } of header.columns) {
    const make = ARRAYS[type];
    if (!make) throw new Error(`column ${name} has the type ${type}, which this page does not know`);
    if (at + header.nodes * make.BYTES_PER_ELEMENT > buffer.byteLength)
      throw new Error(`the answer ends within its column ${name}`);
    columns.set(name, new make(buffer, at, header.nodes));
    at = (at + header.nodes * make.BYTES_PER_ELEMENT + 7) & ~7;
  }
  return columns;
}

function need<T extends Column>(columns: Map<string, Column>, name: string): T {
  const column = columns.get(name);
  if (!column) throw new Error(`the answer has no column ${name}`);
  return column as T;
}

function sumColumns(columns: Map<string, Column>, prefix: string): SumColumns {
  return {
    bytes: need(columns, `${prefix}bytes`),
    count: need(columns, `${prefix}count`),
    bytesVariance: need(columns, `${prefix}bytes_variance`),
    countVariance: need(columns, `${prefix}count_variance`),
    samples: need(columns, `${prefix}samples`),
  };
}

/** By node: 1 if its change is beyond chance; null if the tree is not a difference. */
function marksOf(header: TreeHeader): Uint8Array | null {
  if (!header.difference) return null;
  const mark = new Uint8Array(header.nodes);
  for (const node of header.marks ?? []) mark[node] = 1;
  return mark;
}

/** Set firstChild and childCount; fail if the order is not as promised, on which all drawing relies. */
function findChildren(tree: Tree) {
  const { parent, firstChild, childCount, count } = tree;
  firstChild.fill(-1);
  for (let i = 1; i < count; i++) {
    const above = parent[i]!;
    if (above < 0 || above >= i) throw new Error(`node ${i} of the answer has the parent ${above}`);
    if (firstChild[above] === -1) firstChild[above] = i;
    else if (firstChild[above]! + childCount[above]! !== i)
      throw new Error(`the children of node ${above} of the answer are not contiguous`);
    childCount[above]!++;
  }
}

/** What the server leaves out is empty. */
function completed(given: Partial<TreeFunction> & { id: number }): TreeFunction {
  return { name: "?", module: "", file: "", line: 0, kind: "", ...given };
}

/** Read an answer. `root`: the path that was asked for; node 0 is its last function. */
export function decodeTree(buffer: ArrayBuffer, root = ""): Tree {
  if (buffer.byteLength < 4) throw new Error("the answer is empty");
  const length = new DataView(buffer).getUint32(0, true);
  if (4 + length > buffer.byteLength) throw new Error("the answer ends within its header");
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as TreeHeader;
  const count = header.nodes;
  if (!(count >= 0 && count <= NODES_MAX)) throw new Error(`the answer has ${count} nodes`);
  const columns = readColumns(buffer, header, 4 + length);
  const parent = need<Uint32Array>(columns, "parent");
  const difference = header.difference;
  const tree: Tree = {
    header,
    prefix: root.slice(0, Math.max(root.lastIndexOf("."), 0)),
    count,
    functions: header.functions.map(completed),
    parent: new Int32Array(parent.buffer, parent.byteOffset, count), // of a root: -1
    function: need(columns, "function"),
    firstChild: new Int32Array(count),
    childCount: new Int32Array(count),
    gained: sumColumns(columns, ""),
    lost: difference ? sumColumns(columns, "lost_") : null,
    least: header.retained ? sumColumns(columns, "lost_") : null,
    width: need(columns, "width"),
    selfBytes: need(columns, "self_bytes"),
    selfCount: need(columns, "self_count"),
    lostSelfBytes: difference ? need<Float64Array>(columns, "lost_self_bytes") : null,
    lostSelfCount: difference ? need<Float64Array>(columns, "lost_self_count") : null,
    before: difference ? need<Float64Array>(columns, "before") : null,
    after: difference ? need<Float64Array>(columns, "after") : null,
    mark: marksOf(header),
  };
  findChildren(tree);
  return tree;
}

export function functionOf(tree: Tree, node: number): TreeFunction | null {
  return tree.functions[tree.function[node]!] ?? null;
}

/** Return what the tree is grouped by at this node; null: it is a function's. */
export function groupOf(tree: Tree, node: number): Group | null {
  const kind = functionOf(tree, node)?.kind as Group;
  return tree.header.groups && GROUPS.includes(kind) ? kind : null;
}

export function nameOf(tree: Tree, node: number): string {
  return functionOf(tree, node)?.name ?? (tree.parent[node] === -1 ? "everything" : "[unknown]");
}

/** Return the name with parameters and template arguments, which boxes leave out. */
export function fullNameOf(tree: Tree, node: number): string {
  return functionOf(tree, node)?.full_name ?? nameOf(tree, node);
}

/** Return the module without its directory. */
export function shortModule(module: string): string {
  return module.slice(module.lastIndexOf("/") + 1);
}

/** Return the module in brackets, which names like [python] and [vdso] have of their own. */
export function moduleInBrackets(module: string): string {
  const name = shortModule(module) || "?";
  return name.startsWith("[") ? name : `[${name}]`;
}

function sumsAt(columns: SumColumns, node: number): Sums {
  return {
    bytes: columns.bytes[node]!,
    count: columns.count[node]!,
    bytesVariance: columns.bytesVariance[node]!,
    countVariance: columns.countVariance[node]!,
    samples: columns.samples[node]!,
  };
}

function lacksVariance(sums: Sums, interval: number): boolean {
  const has = sums.count + sums.bytes > 0;
  return interval !== 1 && has && (!(sums.samples > 0) || interval === 0) && !(sums.bytesVariance > 0);
}

const NOTHING: Sums = { bytes: 0, count: 0, bytesVariance: 0, countVariance: 0, samples: 0 };

/** Return what a node has retained: the most, the least, and the limits of both, as view_retained_shown() in leaves.c. */
function retainedAt(tree: Tree, node: number, counts: boolean): Figure {
  const { exact, partial, intervals: [interval], calibrations: [calibration], most = [] } = tree.header;
  const [highest, lowest] = [sumsAt(tree.gained, node), sumsAt(tree.least!, node)];
  const [value, least] = counts ? [highest.count, lowest.count] : [highest.bytes, lowest.bytes];
  if (exact) return { value, least, low: least, high: value };
  if (partial || lacksVariance(highest, interval)) return { value, least, low: null, high: null };
  const limits = (sums: Sums, of: number) => cut(limitsOfPart(sums, counts, interval, calibration), most[counts ? 1 : 0] ?? 0, of);
  return { value, least, low: Math.min(limits(lowest, least).low, least), high: Math.max(limits(highest, value).high, value) };
}

/** Return a node's figure with its limits; of a difference: what was gained less what was lost. */
export function figureAt(tree: Tree, node: number, counts: boolean): Figure {
  const { whole, most = [0, 0], unseen = [] } = tree.header;
  if (isWhole(tree, node)) return counts ? whole!.count : whole!.bytes;
  const gained = sumsAt(tree.gained, node);
  const lost = tree.lost ? sumsAt(tree.lost, node) : NOTHING;
  const [gainedInterval, lostInterval] = tree.header.intervals;
  const [ofGained, ofLost] = tree.header.calibrations;
  const amount = (sums: Sums) => (counts ? sums.count : sums.bytes);
  const value = amount(gained) - amount(lost);
  if (tree.least) return retainedAt(tree, node, counts);
  if (tree.header.exact) return { value, low: value, high: value };
  if (tree.header.partial || lacksVariance(gained, gainedInterval) || lacksVariance(lost, lostInterval))
    return { value, low: null, high: null };
  const unit = counts ? 1 : 0;
  const up = limitsOfPart(gained, counts, gainedInterval, ofGained);
  if (!tree.lost) return { value, ...cut(up, most[unit] ?? 0, value) };
  const down = limitsOfPart(lost, counts, lostInterval, ofLost);
  // As leave_room_in_row() in estimate_change.c.
  if (amount(gained) > 0 && amount(lost) === 0) down.high = Math.max(down.high, unseen[2 + unit] ?? 0);
  if (amount(lost) > 0 && amount(gained) === 0) up.high = Math.max(up.high, unseen[unit] ?? 0);
  return { value, ...limitsOfChange(amount(gained), cut(up, most[unit] ?? 0), amount(lost), cut(down, most[2 + unit] ?? 0)) };
}

/** Whether the file lacks a node's bytes, or its calls: nothing tells them, though there are some. */
export const isUnknownAt = (tree: Tree, node: number, counts: boolean) =>
  counts !== tree.header.counts && figureAt(tree, node, counts).value === 0 && valueAt(tree, node) !== 0 && !(tree.gained.samples[node]! > 0);

/** Say whether a node of a difference has changed beyond chance. `whole` nodes are judged at any moment. */
export function judgedInWords(tree: Tree, node: number): string {
  if (tree.mark?.[node]) return "beyond chance";
  const { low, high } = figureAt(tree, node, tree.header.counts);
  return judgeInWords(low, high, tree.header.judged !== false || isWhole(tree, node));
}

/** Whether a node is the whole heap. */
function isWhole(tree: Tree, node: number): boolean {
  const { whole, left_out: left } = tree.header;
  return whole !== undefined && node === 0 && tree.function[0] === WHOLE && !(left && left.share > 0);
}

/** Return what a node of a difference has before and after. */
export function sidesAt(tree: Tree, node: number): { before: number; after: number } {
  const { before, after } = tree.header.whole?.[tree.header.counts ? "count" : "bytes"] ?? {};
  if (before !== undefined && after !== undefined && isWhole(tree, node)) return { before, after };
  return { before: tree.before![node]!, after: tree.after![node]! };
}

/** Return what a node holds itself, in bytes or calls; of a difference: gained less lost. */
export function selfAt(tree: Tree, node: number, counts: boolean): number {
  const own = (counts ? tree.selfCount : tree.selfBytes)[node]!;
  return own - ((counts ? tree.lostSelfCount : tree.lostSelfBytes)?.[node] ?? 0);
}

/** Return what a node is worth in the view of the tree. */
export function valueAt(tree: Tree, node: number): number {
  const { counts } = tree.header;
  const which = counts ? "count" : "bytes";
  return tree.gained[which][node]! - (tree.lost ? tree.lost[which][node]! : 0);
}

/** Return what the filters left out, and its share of the whole. */
export function leftOut(tree: Tree): { value: number; share: number } | null {
  const left = tree.header.left_out;
  if (!left) return null;
  const which = tree.header.counts ? 1 : 0;
  return { value: (left.gained[which] ?? 0) + (left.lost[which] ?? 0), share: left.share };
}

/** Return the nodes from the root to a node. */
export function stackOf(tree: Tree, node: number): number[] {
  const stack = [];
  for (let at = node; at >= 0; at = tree.parent[at]!) stack.unshift(at);
  return stack;
}

/** Return a node's place as the ids of its functions, which is the same in another tree. */
export function pathOf(tree: Tree, node: number): string {
  const ids: (number | string)[] = tree.prefix === "" ? [] : [tree.prefix];
  for (const at of stackOf(tree, node)) {
    const found = functionOf(tree, at);
    if (found) ids.push(found.id);
  }
  return ids.join(".");
}

/** Return the node at a path, or the last node of it that the tree has. */
export function nodeAt(tree: Tree, path: string): number {
  if (tree.count === 0) return -1;
  const isBelow = tree.prefix !== "" && path.startsWith(`${tree.prefix}.`);
  const below = isBelow ? path.slice(tree.prefix.length + 1) : path;
  const ids = below === "" ? [] : below.split(".").map(Number);
  if (ids.length > 0 && functionOf(tree, 0)?.id === ids[0]) ids.shift();
  let at = 0;
  for (const id of ids) {
    const begin = tree.firstChild[at]!;
    const end = begin + tree.childCount[at]!;
    let next = begin;
    while (next < end && functionOf(tree, next)?.id !== id) next++;
    if (begin < 0 || next === end) break;
    at = next;
  }
  return at;
}

const UNNAMED = /^0x[0-9a-f]+ @ /;

/** The name and module of a node's function. */
function nameAndModule(tree: Tree, node: number): string {
  const found = functionOf(tree, node);
  return found ? `${found.full_name ?? found.name}@${found.module}` : "";
}

/** Return a node's place by the names of its functions, which outlive their numbers. */
export function namesTo(tree: Tree, node: number): string[] {
  return stackOf(tree, node).map((at) => nameAndModule(tree, at)).filter((name) => name !== "");
}

/** Return the node of this name that is nearest below another one, with none but unnamed ones between; the widest of several. -1: none. */
function nodeBelow(tree: Tree, top: number, name: string): number {
  const level = [top];
  for (let i = 0; i < level.length; i++) {
    const begin = tree.firstChild[level[i]!]!;
    for (let at = begin; at < begin + tree.childCount[level[i]!]!; at++) {
      const own = nameAndModule(tree, at);
      if (own === name) return at;
      if (own === "" || UNNAMED.test(own)) level.push(at);
    }
  }
  return -1;
}

/** Return the node at such a place, or the last node of it that the tree has. An address is passed over: its function may have a name by now. */
export function nodeNamed(tree: Tree, names: string[]): number {
  let at = 0;
  for (const [i, name] of names.entries()) {
    if (i === 0 && nameAndModule(tree, 0) === name) continue;
    const next = nodeBelow(tree, at, name);
    if (next >= 0) at = next;
    else if (!UNNAMED.test(name)) break;
  }
  return at;
}

/** Return a test of names: text without regard to case, or /a regular expression/. null: not one. */
export function matcherOf(query: string): ((name: string) => boolean) | null {
  const between = /^\/(.*)\/(i?)$/.exec(query);
  if (!between) {
    const wanted = query.toLowerCase();
    return (name) => name.toLowerCase().includes(wanted);
  }
  try {
    const expression = new RegExp(between[1]!, between[2]);
    return (name) => expression.test(name);
  } catch {
    return null;
  }
}

/** By function: 1 if its name, module or file matches. */
export function matchFunctions(tree: Tree, matches: (name: string) => boolean): Uint8Array {
  return Uint8Array.from(tree.functions, (one) =>
    matches(one.full_name ?? one.name) || matches(one.module) || matches(one.file) ? 1 : 0);
}

/** Return the nodes whose function matches, from left to right in the graph, callers before callees. */
export function matchedNodes(tree: Tree, matched: Uint8Array): number[] {
  const found: number[] = [];
  const waiting = tree.count > 0 ? [0] : [];
  while (waiting.length > 0) {
    const node = waiting.pop()!;
    if (tree.function[node] !== WHOLE && matched[tree.function[node]!]) found.push(node);
    for (let i = tree.childCount[node]! - 1; i >= 0; i--) waiting.push(tree.firstChild[node]! + i);
  }
  return found;
}

/** Return the part of the graph in which a node can be seen: the present one, or else the narrowest that is not much wider than the node. */
export function zoomFor(tree: Tree, node: number, zoomed: number): number {
  const share = (of: number) => tree.width[node]! / tree.width[of]!;
  const stack = stackOf(tree, node);
  if (stack.includes(zoomed) && share(zoomed) >= SEEN_SHARE) return zoomed;
  return share(0) >= SEEN_SHARE ? 0 : stack.find((one) => share(one) >= ZOOMED_SHARE) ?? node;
}

/** Return what is in stacks with a function that matches; each stack counts once. */
export function matchedValue(tree: Tree, matched: Uint8Array): number {
  const inside = new Uint8Array(tree.count);
  let sum = 0;
  for (let i = 0; i < tree.count; i++) {
    const above = tree.parent[i]!;
    if (above >= 0 && inside[above]) inside[i] = 1;
    else if (tree.function[i] !== WHOLE && matched[tree.function[i]!]) {
      inside[i] = 1;
      sum += valueAt(tree, i);
    }
  }
  return sum;
}
