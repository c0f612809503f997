// SPDX-License-Identifier: Apache-2.0
// Where boxes lie: inside their callers, none over another, narrow ones together; and their colours.
import assert from "node:assert/strict";
import { test } from "node:test";
import { COLOURS } from "page/time/draw";
import { changeFill, contrast, DARK, fillOf, LIGHT, type Rgb } from "page/flame/colours";
import { findVisible, layOut, makeBoxes, placeAt } from "page/flame/layout";
import { decodeTree } from "page/tree";
import { encodeTree, type MadeNode } from "./made_tree";

const ROOT = 0xffffffff;

/** A tree of so many nodes, breadth first, with sizes that fall as 1, 1/2, 1/3 and so on. */
function madeTree(count: number, children: number) {
  const nodes: MadeNode[] = [{ parent: ROOT, function: ROOT, bytes: 1e9 }];
  for (let above = 0; nodes.length < count; above++) {
    const sum = Array.from({ length: children }, (_, i) => 1 / (i + 1)).reduce((a, b) => a + b);
    for (let i = 0; i < children && nodes.length < count; i++)
      nodes.push({ parent: above, function: nodes.length % 50, bytes: (nodes[above]!.bytes * 0.95) / (i + 1) / sum });
  }
  const functions = Array.from({ length: 50 }, (_, id) => ({ id, name: `f${id}`, module: `m${id % 9}` }));
  return decodeTree(encodeTree(nodes, functions));
}

const layout = layOut(madeTree(20000, 5));
const boxes = makeBoxes();

function check(from: number, to: number, pixels: number) {
  findVisible(layout, { from, to, pixels, firstRow: 0, lastRow: 1000 }, boxes);
  assert(boxes.length > 5);
  const rows = new Map<number, [number, number][]>();
  for (let i = 0; i < boxes.length; i++) {
    const row = layout.depth[boxes.node[i]!]! + (boxes.narrow[i]! > 0 ? 1 : 0);
    assert(boxes.end[i]! > -1e-6 && boxes.begin[i]! < pixels + 1e-6, "a box outside");
    if (boxes.narrow[i] === 0) assert(boxes.end[i]! - boxes.begin[i]! > 1 - 1e-9, "a box below a pixel");
    rows.set(row, [...(rows.get(row) ?? []), [boxes.begin[i]!, boxes.end[i]!]]);
  }
  for (const [row, spans] of rows) {
    spans.sort((a, b) => a[0] - b[0]);
    for (let i = 1; i < spans.length; i++) assert(spans[i]![0] >= spans[i - 1]![1] - 1e-6, `boxes of row ${row} overlap`);
    if (row === 0) continue;
    const above = rows.get(row - 1)!;
    for (const [begin, end] of spans)
      assert(above.some(([a, b]) => a <= begin + 1e-6 && b >= end - 1e-6), `a box of row ${row} is not below its caller`);
  }
}

test("boxes lie in their callers and not over each other", () => {
  check(0, 1, 1000);
  check(0.2, 0.4, 1500);
  check(0.3, 0.3001, 700);
});

test("a place finds what is drawn there", () => {
  const pixels = 1000;
  findVisible(layout, { from: 0, to: 1, pixels, firstRow: 0, lastRow: 1000 }, boxes);
  for (let i = 0; i < boxes.length; i++) {
    const row = layout.depth[boxes.node[i]!]! + (boxes.narrow[i]! > 0 ? 1 : 0);
    const place = placeAt(layout, (boxes.begin[i]! + boxes.end[i]!) / 2 / pixels, row, 1 / pixels);
    assert.equal(place.node, boxes.node[i]);
    assert.equal(place.narrow, boxes.narrow[i]);
  }
  assert.equal(placeAt(layout, 0.5, 5000, 1 / pixels).node, -1);
});

test("only what is seen is walked", () => {
  const large = layOut(madeTree(400000, 40));
  const begun = performance.now();
  for (let i = 0; i < 20; i++) findVisible(large, { from: 0, to: 1, pixels: 1920, firstRow: 0, lastRow: 60 }, boxes);
  assert((performance.now() - begun) / 20 < 50);
  assert(boxes.length < 20000);
});

test("text on every fill has the contrast of WCAG AA", () => {
  assert(Math.abs(contrast([255, 255, 255], [0, 0, 0]) - 21) < 1e-9);
  assert(Math.abs(contrast([118, 118, 118], [255, 255, 255]) - 4.54) < 0.01);
  for (const theme of [LIGHT, DARK]) {
    const fills: Rgb[] = [theme.ground, theme.narrow, theme.root, theme.match];
    for (let hue = -1; hue < 16; hue++) for (let shade = 0; shade < 5; shade++) fills.push(fillOf(hue, shade, theme));
    for (const change of [-1, -0.5, -0.01, 0, 0.01, 0.5, 1]) fills.push(changeFill(change, true, theme), changeFill(change, false, theme));
    for (const fill of fills) assert(contrast(theme.text, fill) >= 4.5, `${theme.dark ? "dark" : "light"} ${fill}: ${contrast(theme.text, fill)}`);
  }
});

test("lines and words of the timeline have the contrast of WCAG AA", () => {
  const rgb = (hex: string): Rgb => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as unknown as Rgb;
  for (const { ground, band: _, line: __, layers: ___, rest: ____, others, ...rest } of [COLOURS.light, COLOURS.dark]) {
    for (const stroke of [...others, ...Object.values(rest)]) assert(contrast(rgb(stroke), rgb(ground)) >= 3, `${stroke} on ${ground}`);
    for (const word of [rest.ink, rest.faint, rest.warn, rest.accent, rest.live]) assert(contrast(rgb(word), rgb(ground)) >= 4.5, `${word} on ${ground}`);
  }
});
