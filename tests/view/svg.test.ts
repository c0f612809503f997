// SPDX-License-Identifier: Apache-2.0
// The SVG of a graph: boxes where the canvas has them, figures in words, and names as text.
import assert from "node:assert/strict";
import { test } from "node:test";
import { DARK, LIGHT } from "page/flame/colours";
import { drawSvg, xmlText, type SvgGraph } from "page/flame/svg";
import { decodeTree, figureAt } from "page/tree";
import { figureInWords } from "page/words";
import { encodeTree, type MadeNode } from "./made_tree";

const ROOT = 0xffffffff;
const HOSTILE = "<img src=x onerror=alert(1)>&\"]]>\u0000\ud800\u202e";

const graphOf = (nodes: MadeNode[], change: Partial<SvgGraph> = {}): SvgGraph => ({
  tree: decodeTree(encodeTree(nodes, [{ id: 0, name: "main", module: "/bin/a" }, { id: 1, name: HOSTILE, module: "" }])),
  from: 0, to: 1, flipped: false, matched: null, ...change,
});
const NODES = [
  { parent: ROOT, function: ROOT, bytes: 1000 }, { parent: 0, function: 0, bytes: 900 },
  { parent: 1, function: 1, bytes: 600 }, { parent: 1, function: 0, bytes: 0.1 },
];
const titlesOf = (svg: string) => [...svg.matchAll(/<g><title>([^<]*)<\/title>/g)].map((found) => found[1]!);
const rows = (svg: string) => [...svg.matchAll(/<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"/g)].map((found) => found.slice(1).map(Number));

test("each box has its figures as a title, narrow ones are one box", () => {
  const graph = graphOf(NODES);
  const svg = drawSvg([graph], ["a title"], LIGHT);
  const titles = titlesOf(svg);
  assert.equal(titles.length, 3);
  assert.equal(titles[0], `everything\n${figureInWords(figureAt(graph.tree, 0, false), false)}, 100 % of all`);
  assert(titles[1]!.startsWith("main [a]\n"));
  const [root, first, second] = rows(svg) as [number[], number[], number[]];
  assert(root![2]! > 1599 && Math.abs(first[2]! / root[2]! - 0.9) < 1e-3 && second[1]! > first[1]! && first[1]! > root[1]!);
});

test("names are text", () => {
  const svg = drawSvg([graphOf(NODES)], [HOSTILE], DARK);
  assert(!svg.includes("<img") && !svg.includes("\u0000") && !svg.includes("\u202e") && !/\p{Surrogate}/u.test(svg));
  assert(svg.includes("&lt;img src=x onerror=alert(1)&gt;&amp;"));
  assert.equal(xmlText("a\tb\nc"), "a\tb\nc");
});

test("callers grow upwards, a window shows a part, a difference has signs", () => {
  const up = rows(drawSvg([graphOf(NODES, { flipped: true })], [], LIGHT));
  assert(up[0]![1]! > up[1]![1]!);
  const part = rows(drawSvg([graphOf(NODES, { from: 0, to: 0.6 })], [], LIGHT));
  assert(part.every(([x, , width]) => x! + width! <= 12 + 1600) && part[2]![2]! > 1599);
  const change = drawSvg([graphOf(NODES.map((node) => ({ ...node, lost: node.bytes / 2 })))], [], LIGHT);
  assert.match(titlesOf(change)[0]!, /^everything\n\+500 B .*\nmay be chance$/);
});
