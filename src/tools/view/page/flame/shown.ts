// SPDX-License-Identifier: Apache-2.0
// What the flame graph's tab shows of a selection: which trees, and which part of them. Files of it
// are made from the same trees.
import { layOut } from "./layout";
import type { SvgGraph } from "./svg";
import { askTree, treePath } from "../source";
import type { Selection } from "../state";
import { matcherOf, matchFunctions, nodeAt, type Tree } from "../tree";

export type Which = "down" | "up" | "callers" | "callees";

export function isSandwich(selection: Selection): boolean {
  return selection.direction === "sandwich" && selection.function !== null;
}

/** Return the direction of the graph that grows downwards. */
export function mainDirection(selection: Selection): Which {
  return isSandwich(selection) ? "callees" : selection.direction === "up" ? "up" : "down";
}

/** Return the path of the part that is zoomed to, which the whole tree lacks in part; null: none. */
export function partPathOf(selection: Selection, whole: Tree | null): string | null {
  const isPart = whole?.header.pruned && !isSandwich(selection) && selection.zoom !== "";
  return isPart ? treePath(selection, mainDirection(selection), selection.zoom) : null;
}

function graphOf(tree: Tree, selection: Selection, flipped: boolean): SvgGraph {
  const matches = selection.search === "" ? null : matcherOf(selection.search);
  const matched = matches && matchFunctions(tree, matches);
  const node = flipped || selection.zoom === "" ? 0 : nodeAt(tree, selection.zoom);
  const { left, width } = layOut(tree);
  const from = left[node] ?? 0;
  const to = from + (width[node] ?? 0);
  return { tree, from, to: to > from ? to : from + 1, flipped, matched };
}

export async function askShown(selection: Selection): Promise<SvgGraph[]> {
  const { signal } = new AbortController();
  const whole = await askTree(treePath(selection, mainDirection(selection)), signal);
  const partPath = partPathOf(selection, whole);
  const main = graphOf(partPath === null ? whole : await askTree(partPath, signal), selection, false);
  if (!isSandwich(selection)) return [main];
  return [graphOf(await askTree(treePath(selection, "callers"), signal), selection, true), main];
}
