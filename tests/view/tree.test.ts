// SPDX-License-Identifier: Apache-2.0
// Trees: decoding, places, search; answers that are cut off or lie are refused.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeTree, figureAt, matchedNodes, matchedValue, matcherOf, matchFunctions, moduleInBrackets, nameOf, namesTo, nodeAt, nodeNamed, pathOf, sidesAt, stackOf, zoomFor } from "page/tree";
import { stackInText } from "page/flame/details";
import { encodeTree } from "./made_tree";

const ROOT = 0xffffffff;
const functions = [
  { id: 5, name: "main", module: "/bin/a" },
  { id: 17, name: "<img src=x onerror=alert(1)>", module: "/lib/libc.so.6" },
  { id: 3, name: "leaf", module: "/bin/a" },
];
const nodes = [
  { parent: ROOT, function: ROOT, bytes: 100 },
  { parent: 0, function: 0, bytes: 90 },
  { parent: 0, function: 2, bytes: 10 },
  { parent: 1, function: 1, bytes: 60 },
  { parent: 1, function: 2, bytes: 20 },
  { parent: 3, function: 2, bytes: 60 },
];
const tree = decodeTree(encodeTree(nodes, functions));

test("a tree has the server's nodes", () => {
  assert.equal(tree.count, 6);
  assert.deepEqual([...tree.parent], [-1, 0, 0, 1, 1, 3]);
  assert.deepEqual([...tree.firstChild], [1, 3, -1, 5, -1, -1]);
  assert.deepEqual([...tree.childCount], [2, 2, 0, 1, 0, 0]);
  assert.equal(nameOf(tree, 0), "everything");
  assert.equal(nameOf(tree, 3), "<img src=x onerror=alert(1)>");
  assert.equal(figureAt(tree, 3, false).value, 60);
  assert(figureAt(tree, 3, false).high! > 60);
});

test("names find a node again whose functions have other numbers, also beside unnamed ones", () => {
  const unnamed = { id: 99, name: "0x12f0 @ a", module: "/bin/a" };
  const others = [...functions.map((one) => ({ ...one, id: one.id + 100 })), unnamed];
  const later = decodeTree(encodeTree([...nodes.slice(0, 3), { parent: 1, function: 3, bytes: 80 }, { parent: 3, function: 1, bytes: 60 }, { parent: 3, function: 2, bytes: 20 }, { parent: 4, function: 2, bytes: 60 }], others));
  assert.equal(pathOf(later, nodeNamed(later, namesTo(tree, 5))), "105.99.117.103");
  assert.equal(pathOf(later, nodeNamed(later, namesTo(tree, 4))), "105.99.103");
  assert.equal(nodeNamed(later, []), 0);
  assert.equal(nodeNamed(later, ["main@/bin/a", "gone@/bin/a", "leaf@/bin/a"]), 1);
});

test("a path finds its node again, or the nearest above", () => {
  assert.equal(pathOf(tree, 5), "5.17.3");
  assert.equal(nodeAt(tree, "5.17.3"), 5);
  assert.equal(nodeAt(tree, "5.17.99"), 3);
  assert.equal(nodeAt(tree, ""), 0);
  assert.deepEqual(stackOf(tree, 5), [0, 1, 3, 5]);
});

test("a part of a tree has the paths of the whole", () => {
  const part = decodeTree(encodeTree([{ parent: ROOT, function: 1, bytes: 60 }, { parent: 0, function: 2, bytes: 60 }], functions), "5.17");
  assert.equal(part.prefix, "5");
  assert.equal(pathOf(part, 1), "5.17.3");
  assert.equal(nodeAt(part, "5.17.3"), 1);
  assert.equal(nodeAt(part, "5.17"), 0);
});

test("a copied stack begins with the innermost frame", () => {
  assert.equal(stackInText(tree, 3, "down"), "<img src=x onerror=alert(1)> [libc.so.6]\nmain [a]\n");
  assert.equal(stackInText(tree, 3, "up"), "main [a]\n<img src=x onerror=alert(1)> [libc.so.6]\n");
});

test("search counts each stack once", () => {
  const share = (query: string) => matchedValue(tree, matchFunctions(tree, matcherOf(query)!));
  assert.equal(share("leaf"), 90);
  assert.equal(share("main"), 90);
  assert.equal(share("/^(main|leaf)$/"), 100);
  assert.equal(share("LIBC"), 60);
  assert.equal(matcherOf("/(/"), null);
});

test("a search goes from left to right, callers first, and zooms to what is too narrow to see", () => {
  assert.deepEqual(matchedNodes(tree, matchFunctions(tree, matcherOf("leaf")!)), [5, 4, 2]);
  assert.deepEqual(matchedNodes(tree, matchFunctions(tree, matcherOf("nothing")!)), []);
  assert.deepEqual([zoomFor(tree, 5, 0), zoomFor(tree, 5, 3), zoomFor(tree, 2, 3)], [0, 3, 0]);
  const narrow = decodeTree(encodeTree([...nodes.slice(0, 5), { parent: 3, function: 2, bytes: 0.5 }], functions));
  assert.equal(zoomFor(narrow, 5, 0), 5);
  const chain = [1000, 50, 4, 3].map((bytes, i) => ({ parent: i - 1 < 0 ? ROOT : i - 1, function: i === 0 ? ROOT : i - 1, bytes }));
  assert.equal(zoomFor(decodeTree(encodeTree(chain, functions)), 3, 0), 2);
});

test("a node of a difference has both sides", () => {
  const change = decodeTree(encodeTree(nodes.map((node) => ({ ...node, lost: node.bytes / 2 })), functions));
  assert.deepEqual(sidesAt(change, 3), { before: 30, after: 60 });
});

test("an answer that ends early or has a wrong order is refused", () => {
  const whole = encodeTree(nodes, functions);
  for (const length of [0, 3, 50, whole.byteLength - 8, whole.byteLength - 300])
    assert.throws(() => decodeTree(whole.slice(0, length)), `${length} bytes`);
  const wrong = (parents: number[]) => encodeTree(nodes.map((node, i) => ({ ...node, parent: parents[i]! })), functions);
  assert.throws(() => decodeTree(wrong([ROOT, 0, 0, 1, 1, 5])), /parent/);
  assert.throws(() => decodeTree(wrong([ROOT, 0, 0, 1, 2, 1])), /contiguous/);
  assert.throws(() => decodeTree(encodeTree(nodes, functions, { nodes: 1e9 })), /nodes/);
});

test("a module is in brackets once", () => {
  assert.deepEqual(["/lib/libc.so.6", "[python]", ""].map(moduleInBrackets), ["[libc.so.6]", "[python]", "[?]"]);
});
