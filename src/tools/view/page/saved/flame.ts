// SPDX-License-Identifier: Apache-2.0
// Flame graphs of a page that is a file, made as src/tools/view/answers/flame.c makes them: a node is a group of nodes of
// the stack tree, those that are reached by the same functions. Groups that are too small to be seen are not
// made; zooming asks for them.
import { NONE, type StackTree } from "./data";
import { addSum, LOST, rankOf, SUM, WIDTH, type Leaves } from "./leaves";

export type FlameDirection = "down" | "up" | "callees" | "callers";

export interface FlameRequest {
  tree: StackTree;
  leaves: Leaves;
  direction: FlameDirection;
  function: number; // of callees and callers
  path: number[]; // functions from the root: the graph shows what is below them
  least: number; // groups below this share of the root are left out
}

export interface Flame {
  count: number;
  pruned: boolean;
  parent: Uint32Array; // NONE: the root
  function: Uint32Array; // NONE: the root of a whole graph
  sums: Float64Array; // SUM for each node
  self: Float64Array; // of stacks that end here, in this direction
}

const NODES_MAX = 200_000;
const VISITS_MAX = 30_000_000;
const LEAST_FIRST = 1e-5;
const LEAST_FACTOR = 8;
const LAST_STEP = 0x80000000;

/** A growing array of stack nodes, each with the source of its width. */
class Members {
  at = new Uint32Array(1024);
  source = new Uint32Array(1024);

  reserve(count: number) {
    if (count <= this.at.length) return;
    const room = Math.max(count, this.at.length + (this.at.length >> 1));
    const [at, source] = [new Uint32Array(room), new Uint32Array(room)];
    at.set(this.at);
    source.set(this.source);
    [this.at, this.source] = [at, source];
  }

  set(index: number, at: number, source: number) {
    this.at[index] = at;
    this.source[index] = source;
  }
}

interface Group {
  first: number;
  count: number; // members
  function: number;
  width: number;
}

class TooMany extends Error {}

class Maker {
  private tree: StackTree;
  private isUpwards: boolean;
  private byLeaf: boolean;
  private widths: Float64Array; // by stack node with all below it; from the leaves up, by leaf
  private members = new Members();
  private memberCount = 0;
  private scratch = new Members();
  private children: Group[] = [];
  private childOf = new Map<number, Group>();
  private places: Uint32Array; // by source: the last node that it is in, and LAST_STEP if its stacks end there
  private visits = 0;
  private groups: Group[] = [];
  private parents: number[] = [];
  pruned = false;

  constructor(private request: FlameRequest) {
    const { tree, leaves, direction } = request;
    this.tree = tree;
    this.isUpwards = direction === "up" || direction === "callers";
    this.byLeaf = direction === "up";
    this.widths = this.byLeaf ? Float64Array.from({ length: leaves.count }, (_, i) => leaves.sums[i * SUM + WIDTH]!) : this.widthsBelow();
    this.places = new Uint32Array((this.byLeaf ? leaves.count : tree.count) + 1);
  }

  private widthsBelow(): Float64Array {
    const { tree, request: { leaves } } = this;
    const widths = new Float64Array(tree.count + 1);
    for (let i = 0; i < leaves.count; i++) widths[leaves.node[i]!] = leaves.sums[i * SUM + WIDTH]!;
    for (let i = tree.count; i-- > 0; ) widths[tree.parent[i] === NONE ? tree.count : tree.parent[i]!]! += widths[i]!;
    return widths;
  }

  // --- one step ---

  private addToChild(at: number, source: number, place: number) {
    const own = this.tree.function[at]!;
    let child = this.childOf.get(own);
    if (!child) {
      child = { first: 0, count: 0, function: own, width: 0 };
      this.childOf.set(own, child);
      this.children.push(child);
    }
    child.count++;
    child.width += this.widths[source]!;
    this.scratch.set(place, at, source);
  }

  /** Collect the next stack nodes of a group. The first step upwards is into the function that allocates. */
  private step(group: Group): number {
    const { tree, members, scratch, request: { leaves } } = this;
    let count = 0;
    for (let i = group.first; i < group.first + group.count; i++) {
      const at = members.at[i]!;
      const source = members.source[i]!;
      if (this.isUpwards) {
        const above = group.function === NONE ? leaves.node[source]! : tree.parent[at]!;
        scratch.reserve(count + 1);
        if (above !== NONE) this.addToChild(above, source, count++);
      } else {
        const last = tree.first[at + 1]!;
        scratch.reserve(count + last - tree.first[at]!);
        for (let j = tree.first[at]!; j < last; j++) this.addToChild(tree.children[j]!, tree.children[j]!, count++);
      }
    }
    this.visits += count + group.count;
    return count;
  }

  /** Make the children of a group. Upwards, their members are inside those of the group. */
  private expand(group: Group) {
    this.children = [];
    this.childOf.clear();
    const count = this.step(group);
    let at = this.isUpwards ? group.first : this.memberCount;
    if (!this.isUpwards) {
      this.members.reserve(this.memberCount + count);
      this.memberCount += count;
    }
    for (const child of this.children) {
      child.first = at;
      at += child.count;
      child.count = 0;
    }
    for (let i = 0; i < count; i++) {
      const node = this.scratch.at[i]!;
      const child = this.childOf.get(this.tree.function[node]!)!;
      this.members.set(child.first + child.count++, node, this.scratch.source[i]!);
    }
    this.children.sort((a, b) => rankOf(b.width) - rankOf(a.width) || a.function - b.function);
  }

  // --- the graph ---

  private addNode(group: Group, parent: number) {
    const { members, tree } = this;
    const number = this.groups.length;
    for (let i = group.first; i < group.first + group.count; i++) {
      const ends = group.function !== NONE && (!this.isUpwards || tree.parent[members.at[i]!] === NONE);
      this.places[members.source[i]!] = ends ? number + LAST_STEP : number;
    }
    this.groups.push(group);
    this.parents.push(parent);
  }

  /** Expand everything below the root that is at least `least` wide. */
  private fill(root: Group, least: number) {
    this.groups = [];
    this.parents = [];
    this.pruned = false;
    this.addNode(root, NONE);
    for (let i = 0; i < this.groups.length; i++) {
      if (this.visits > VISITS_MAX) {
        this.pruned = true;
        break;
      }
      this.expand(this.groups[i]!);
      for (const child of this.children) {
        if (child.width <= 0 || child.width < least) {
          this.pruned ||= child.width > 0;
          continue;
        }
        if (this.groups.length >= NODES_MAX) throw new TooMany();
        this.addNode(child, i);
      }
    }
  }

  private beginWith(root: Group, at: number, source: number, width: number) {
    root.count++;
    root.width += width;
    this.members.reserve(this.memberCount + 1);
    this.members.set(this.memberCount++, at, source);
  }

  /** Begin above the outermost functions, below those that allocate, or with the outermost nodes of one. */
  private begin(): Group | null {
    const { tree, request: { leaves, direction } } = this;
    const root: Group = { first: 0, count: 0, function: NONE, width: 0 };
    this.memberCount = 0;
    this.visits = 0;
    this.places.fill(NONE);
    if (direction === "down") this.beginWith(root, tree.count, tree.count, this.widths[tree.count]!);
    if (direction === "up") for (let i = 0; i < leaves.count; i++) this.beginWith(root, leaves.node[i]!, i, this.widths[i]!);
    if (direction === "down" || direction === "up") return root;
    const inside = new Uint8Array(tree.count);
    root.function = this.request.function;
    for (let i = 0; i < tree.count; i++) {
      const parent = tree.parent[i]!;
      inside[i] = parent === NONE ? 0 : inside[parent]!;
      if (inside[i] || tree.function[i] !== root.function) continue;
      inside[i] = 1;
      this.beginWith(root, i, i, this.widths[i]!);
    }
    return root.count > 0 ? root : null;
  }

  private followPath(root: Group): Group | null {
    let at: Group | null = root;
    for (const step of this.request.path) {
      this.expand(at);
      at = this.children.find((child) => child.function === step) ?? null;
      if (!at) return null;
    }
    return at;
  }

  // --- the sums ---

  /** Let each stack node without a place be in that of its caller. */
  private inheritPlaces() {
    const { tree, places } = this;
    for (let i = 0; i < tree.count; i++) {
      if (places[i] !== NONE) continue;
      const place = places[tree.parent[i] === NONE ? tree.count : tree.parent[i]!]!;
      // Downwards, the stacks do not end at the node that is shown, but below it.
      places[i] = place === NONE || this.isUpwards ? place : (place & ~LAST_STEP) >>> 0;
    }
  }

  private finish(): Flame {
    const { request: { leaves }, groups, parents } = this;
    const count = groups.length;
    const sums = new Float64Array(count * SUM);
    const self = new Float64Array(count * SUM);
    if (!this.byLeaf) this.inheritPlaces();
    for (let i = 0; i < leaves.count; i++) {
      const place = this.places[this.byLeaf ? i : leaves.node[i]!]!;
      if (place === NONE) continue;
      const node = (place & ~LAST_STEP) >>> 0;
      addSum(sums, node * SUM, leaves.sums, i * SUM);
      if (place >= LAST_STEP) addSum(self, node * SUM, leaves.sums, i * SUM);
    }
    for (let i = count; i-- > 1; ) addSum(sums, parents[i]! * SUM, sums, i * SUM);
    return {
      count,
      pruned: this.pruned,
      parent: Uint32Array.from(parents),
      function: Uint32Array.from(groups, (group) => group.function),
      sums,
      self,
    };
  }

  make(): Flame | null {
    for (let least = this.request.least; ; least = least < LEAST_FIRST ? LEAST_FIRST : least * LEAST_FACTOR) {
      const begun = this.begin();
      const root = begun && this.followPath(begun);
      if (!root) return null;
      try {
        this.fill(root, least * root.width);
        return this.finish();
      } catch (error) {
        if (!(error instanceof TooMany)) throw error;
      }
    }
  }
}

/** Make a graph; null: there is no such path or function. */
export const makeFlame = (request: FlameRequest): Flame | null => new Maker(request).make();

// --- as the server writes it ---

const COLUMNS: [name: string, type: "f64" | "f32", offset: number, isSelf?: boolean][] = [
  ["width", "f64", WIDTH],
  ["bytes", "f64", 0],
  ["count", "f64", 1],
  ["bytes_variance", "f32", 2],
  ["count_variance", "f32", 3],
  ["samples", "f32", 4],
  ["self_bytes", "f64", 0, true],
  ["self_count", "f64", 1, true],
];
const LOST_COLUMNS = COLUMNS.slice(1).map(([name, type, offset, isSelf]) => [`lost_${name}`, type, offset + LOST, isSelf] as (typeof COLUMNS)[number]);
const padded = (length: number) => (length + 7) & ~7;

/** Return an answer of api/tree. `functions`: by node, its place in the header. */
export function encodeFlame(flame: Flame, functions: Uint32Array, header: object, isDifference: boolean): ArrayBuffer {
  const columns = isDifference ? [...COLUMNS, ...LOST_COLUMNS] : COLUMNS;
  const described = [
    { name: "parent", type: "u32" },
    { name: "function", type: "u32" },
    ...columns.map(([name, type]) => ({ name, type })),
  ];
  const text = new TextEncoder().encode(JSON.stringify({ ...header, columns: described }));
  const begin = padded(4 + text.length);
  const bytes = columns.reduce((sum, [, type]) => sum + padded(flame.count * (type === "f64" ? 8 : 4)), begin + 2 * padded(4 * flame.count));
  const out = new ArrayBuffer(bytes);
  new DataView(out).setUint32(0, begin - 4, true);
  new Uint8Array(out, 4, begin - 4).fill(0x20).set(text);
  new Uint32Array(out, begin, flame.count).set(flame.parent);
  new Uint32Array(out, begin + padded(4 * flame.count), flame.count).set(functions);
  let at = begin + 2 * padded(4 * flame.count);
  for (const [, type, offset, isSelf] of columns) {
    const from = isSelf ? flame.self : flame.sums;
    const column = type === "f64" ? new Float64Array(out, at, flame.count) : new Float32Array(out, at, flame.count);
    for (let i = 0; i < flame.count; i++) column[i] = from[i * SUM + offset]!;
    at += padded(flame.count * column.BYTES_PER_ELEMENT);
  }
  return out;
}
