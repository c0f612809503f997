// SPDX-License-Identifier: Apache-2.0
// What filters leave of the stacks of a page that is a file, as src/tools/view/model/profiles.c and stack_tree.c do it:
// focus and ignore choose stacks by all of their frames, hide and show-from make a smaller tree.
import { matcherOfPattern, WrongPattern } from "./pattern";
import { linkTree, NONE, type SavedFunction, type StackTree } from "./data";
import { parseFilter, type Filter, type FilterKind } from "../state";

const PATTERNS_MAX = 8;

export interface Filtered {
  tree: StackTree;
  /** Return the node of a stack in that tree; NONE: the filters leave it out. */
  place: (node: number) => number;
}

function parseFilters(texts: string[]): Filter[] {
  if (texts.length > PATTERNS_MAX) throw new WrongPattern(`there are more than ${PATTERNS_MAX} filters`);
  return texts.map((text) => {
    const filter = parseFilter(text);
    if (!filter) throw new WrongPattern(`filter=${text}: a filter is focus, ignore, hide or show-from, a colon and an expression`);
    return filter;
  });
}

/** Set the bit of each pattern in the marks of the functions that match it. */
function matchFunctions(functions: SavedFunction[], filters: Filter[]): Uint8Array {
  const marks = new Uint8Array(functions.length);
  filters.forEach(({ kind, pattern }, bit) => {
    let matches: (text: string) => boolean;
    try {
      matches = matcherOfPattern(pattern);
    } catch (error) {
      throw new WrongPattern(`${kind} '${pattern}': ${(error as Error).message}`);
    }
    functions.forEach(({ name, full_name, file, path }, i) => {
      if (matches(name) || matches(full_name ?? name) || matches(file ?? "") || matches(path ?? "")) marks[i]! |= 1 << bit;
    });
  });
  return marks;
}

/** Make the tree without hidden frames; ofNodes: by node of the whole tree, its node there. */
function treeWithout(from: StackTree, marks: Uint8Array, hide: number, showFrom: number): { tree: StackTree; ofNodes: Uint32Array } {
  const found = new Uint8Array(from.count); // the bits of show-from on each stack
  const ofNodes = new Uint32Array(from.count);
  const known = new Map<number, number>();
  const parents: number[] = [];
  const functions: number[] = [];
  const most = marks.length + 1;
  for (let i = 0; i < from.count; i++) {
    const parent = from.parent[i]!;
    const own = from.function[i]!;
    const mark = marks[own]!;
    const before = parent === NONE ? 0 : found[parent]!;
    let bits = before;
    // A pattern counts once those before it have matched: each sees what they left.
    for (let bit = 1; bit < 256; bit <<= 1) {
      if ((showFrom & bit) === 0 || (bits & bit) !== 0) continue;
      if ((mark & bit) === 0 || (mark & hide) !== 0) break;
      bits |= bit;
    }
    found[i] = bits;
    const above = parent === NONE || bits !== before ? NONE : ofNodes[parent]!;
    ofNodes[i] = above;
    if ((bits & showFrom) !== showFrom || (mark & hide) !== 0) continue;
    const key = (above === NONE ? 0 : above + 1) * most + own;
    let node = known.get(key);
    if (node === undefined) {
      node = parents.push(above) - 1;
      functions.push(own);
      known.set(key, node);
    }
    ofNodes[i] = node;
  }
  return { tree: linkTree(Uint32Array.from(parents), Uint32Array.from(functions), parents.length), ofNodes };
}

function filterTree(tree: StackTree, functions: SavedFunction[], filters: Filter[]): Filtered {
  if (filters.length === 0) return { tree, place: (node) => node };
  const marks = matchFunctions(functions, filters);
  const bitsOf = (kind: FilterKind) => filters.reduce((bits, one, i) => (one.kind === kind ? bits | (1 << i) : bits), 0);
  const focus = bitsOf("focus");
  const ignore = bitsOf("ignore");
  const onStack = new Uint8Array(tree.count);
  for (let i = 0; i < tree.count; i++) {
    const parent = tree.parent[i]!;
    onStack[i] = marks[tree.function[i]!]! | (parent === NONE ? 0 : onStack[parent]!);
  }
  const isKept = (node: number) => (onStack[node]! & focus) === focus && (onStack[node]! & ignore) === 0;
  const hide = bitsOf("hide");
  const showFrom = bitsOf("show-from");
  if (hide === 0 && showFrom === 0) return { tree, place: (node) => (isKept(node) ? node : NONE) };
  const without = treeWithout(tree, marks, hide, showFrom);
  return { tree: without.tree, place: (node) => (isKept(node) ? without.ofNodes[node]! : NONE) };
}

let last: { key: string; tree: StackTree; filtered: Filtered } | null = null;

/** Return what filters "KIND:EXPRESSION" leave; the last ones are kept. */
export function filtered(tree: StackTree, functions: SavedFunction[], texts: string[]): Filtered {
  const key = JSON.stringify(texts);
  if (last?.key !== key || last.tree !== tree) last = { key, tree, filtered: filterTree(tree, functions, parseFilters(texts)) };
  return last.filtered;
}
