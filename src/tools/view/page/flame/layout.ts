// SPDX-License-Identifier: Apache-2.0
// Where the boxes of a tree lie, computed once for each tree: left and width as shares of the whole,
// and depth. What is visible is then found by a walk that enters only boxes wider than a pixel and
// writes into arrays that are made once.
import type { Tree } from "../tree";

export interface Layout {
  tree: Tree;
  left: Float64Array;
  width: Float64Array;
  depth: Uint16Array;
  deepest: number;
}

export function layOut(tree: Tree): Layout {
  const values = tree.width;
  const whole = tree.count > 0 && values[0]! > 0 ? values[0]! : 1;
  const left = new Float64Array(tree.count);
  const width = new Float64Array(tree.count);
  const next = new Float64Array(tree.count); // where a node's next child begins
  const depth = new Uint16Array(tree.count);
  let deepest = 0;
  for (let i = 0; i < tree.count; i++) {
    const above = tree.parent[i]!;
    width[i] = Math.max(values[i]! / whole, 0);
    if (above >= 0) {
      left[i] = next[above]!;
      next[above]! += width[i]!;
      depth[i] = Math.min(depth[above]! + 1, 0xffff);
      if (depth[i]! > deepest) deepest = depth[i]!;
    }
    next[i] = left[i]!;
  }
  return { tree, left, width, depth, deepest };
}

/** What is seen of a layout: a part of the whole from 0 to 1, in pixels, and the rows. */
export interface Window {
  from: number;
  to: number;
  pixels: number;
  firstRow: number;
  lastRow: number;
}

/** Boxes to draw. `narrow`: of how many nodes a grey box stands, else 0; it belongs to the caller. */
export interface Boxes {
  length: number;
  node: Int32Array;
  begin: Float64Array; // pixels
  end: Float64Array;
  narrow: Int32Array;
}

const BOXES_MAX = 1 << 18;

export function makeBoxes(): Boxes {
  return {
    length: 0,
    node: new Int32Array(BOXES_MAX),
    begin: new Float64Array(BOXES_MAX),
    end: new Float64Array(BOXES_MAX),
    narrow: new Int32Array(BOXES_MAX),
  };
}

let pending: Int32Array = new Int32Array(1024);

function push(stack: Int32Array, at: number, node: number): Int32Array {
  let into = stack;
  if (at >= into.length) {
    into = new Int32Array(2 * into.length);
    into.set(stack);
  }
  into[at] = node;
  return into;
}

/** Return the first child of `node` that ends after `from`, among its children that are in order. */
function firstVisible(layout: Layout, begin: number, end: number, from: number): number {
  let low = begin;
  let high = end;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (layout.left[middle]! + layout.width[middle]! <= from) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Return the first of the siblings from `child` on that is wide enough; a difference has no order. */
function nextWide(layout: Layout, child: number, end: number, narrowest: number): number {
  let at = child;
  while (at < end && layout.width[at]! < narrowest) at++;
  return at;
}

/** Fill `boxes` with what is visible. Children narrower than a pixel are one box together. */
export function findVisible(layout: Layout, window: Window, boxes: Boxes) {
  const { tree, left, width, depth } = layout;
  const { from, to } = window;
  const scale = window.pixels / (to - from);
  let length = 0;
  const add = (node: number, begin: number, end: number, narrow: number) => {
    if (length >= BOXES_MAX) return;
    boxes.node[length] = node;
    boxes.begin[length] = (begin - from) * scale;
    boxes.end[length] = (end - from) * scale;
    boxes.narrow[length] = narrow;
    length++;
  };
  let waiting = 0;
  if (tree.count > 0 && width[0]! > 0) {
    if (window.firstRow <= 0) add(0, 0, width[0]!, 0);
    pending = push(pending, waiting++, 0);
  }
  while (waiting > 0) {
    const node = pending[--waiting]!;
    const row = depth[node]! + 1;
    const begin = tree.firstChild[node]!;
    if (begin < 0 || row > window.lastRow) continue;
    const end = begin + tree.childCount[node]!;
    for (let child = firstVisible(layout, begin, end, from); child < end; child++) {
      if (left[child]! >= to) break;
      if (width[child]! * scale < 1) {
        const after = tree.lost ? nextWide(layout, child, end, 1 / scale) : end;
        const last = left[after - 1]! + width[after - 1]!;
        if (row >= window.firstRow && (last - left[child]!) * scale >= 0.5)
          add(node, left[child]!, last, after - child);
        child = after - 1;
        continue;
      }
      if (row >= window.firstRow) add(child, left[child]!, left[child]! + width[child]!, 0);
      pending = push(pending, waiting++, child);
    }
  }
  boxes.length = length;
}

/** A place in the graph: a node, or some of its children that are too narrow to be drawn alone. */
export interface Place {
  node: number; // -1: nothing is here
  narrow: number;
  from: number;
  to: number;
}

const NOWHERE: Place = { node: -1, narrow: 0, from: 0, to: 0 };

export function placeAt(layout: Layout, share: number, row: number, narrowest: number): Place {
  const { tree, left, width } = layout;
  if (tree.count === 0 || row < 0 || share < 0 || share >= width[0]!) return NOWHERE;
  let node = 0;
  for (let depth = 1; depth <= row; depth++) {
    const begin = tree.firstChild[node]!;
    if (begin < 0) return NOWHERE;
    const end = begin + tree.childCount[node]!;
    const child = firstVisible(layout, begin, end, share);
    if (child >= end || left[child]! > share) return NOWHERE;
    if (width[child]! < narrowest) {
      if (depth < row) return NOWHERE;
      let first = child;
      while (first > begin && width[first - 1]! < narrowest) first--;
      const after = nextWide(layout, child, end, narrowest);
      return { node, narrow: after - first, from: left[first]!, to: left[after - 1]! + width[after - 1]! };
    }
    node = child;
  }
  return { node, narrow: 0, from: left[node]!, to: left[node]! + width[node]! };
}
