// SPDX-License-Identifier: Apache-2.0
// Draws flame graphs as one SVG file that needs nothing but a viewer: the boxes of the canvas with all
// rows, a label where there is room, and the figures of each box as its title.
import { findVisible, layOut, makeBoxes, type Boxes, type Layout } from "./layout";
import { changeColours, css, functionColours, LEGEND_MAX, legendOf, type Theme } from "./colours";
import { CONTROLS } from "../spell_out";
import { figureAt, fullNameOf, functionOf, moduleInBrackets, nameOf, valueAt, judgedInWords, WHOLE, type Tree } from "../tree";
import { figureInWords, marginInWords, plural, shareInWords, signedInWords, valueInWords } from "../words";

const WIDTH = 1600;
const MARGIN = 12;
const ROW = 18;
const FONT_SIZE = 11;
const LETTER = 0.602 * FONT_SIZE; // of a monospaced font
const LABEL_LEAST = 3; // letters
const PADDING = 3;
const HEAD_LINE = 18;
const LEGEND_COLUMNS = 6;
const FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";

/** A graph to draw, of the window from `from` to `to` of its width. */
export interface SvgGraph {
  tree: Tree;
  from: number;
  to: number;
  flipped: boolean; // rows grow upwards
  matched: Uint8Array | null;
}

/** Return text for XML, which cannot have some characters in any form, and none that turns it around. */
export function xmlText(text: string): string {
  const named: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text
    .replace(CONTROLS, "\ufffd")
    .replace(/[\ufffe\uffff]|\p{Surrogate}/gu, "\ufffd")
    .replace(/[&<>"]/g, (character) => named[character]!);
}

function amountOf(tree: Tree, node: number): string {
  const { counts, partial } = tree.header;
  const figure = figureAt(tree, node, counts);
  if (!tree.lost) return partial ? `${valueInWords(figure, counts)}, partial` : figureInWords(figure, counts);
  return `${signedInWords(figure.value, counts)} ${partial ? "partial" : marginInWords(figure, counts)}`;
}

function titleOf(tree: Tree, node: number): string {
  const found = functionOf(tree, node);
  const { counts, total } = tree.header;
  const lines = [fullNameOf(tree, node)];
  if (found && found.module !== "") lines[0] += ` ${moduleInBrackets(found.module)}`;
  if (found && found.file !== "") lines.push(`${found.file}${found.line > 0 ? `:${found.line}` : ""}`);
  const share = tree.lost ? "" : shareInWords(valueAt(tree, node), total[counts ? 1 : 0] ?? 0);
  lines.push(share === "" ? amountOf(tree, node) : `${amountOf(tree, node)}, ${share} of all`);
  if (tree.lost) lines.push(judgedInWords(tree, node));
  return lines.join("\n");
}

const hex = (colour: number) => // 0xAABBGGRR
  `#${[colour, colour >>> 8, colour >>> 16].map((part) => (part & 0xff).toString(16).padStart(2, "0")).join("")}`;

function label(text: string, room: number): string {
  const letters = Math.floor((room - 2 * PADDING) / LETTER);
  const all = [...text];
  if (all.length <= letters) return text;
  return letters >= LABEL_LEAST ? all.slice(0, letters - 1).join("") + "…" : "";
}

/** Return the colour of each box that stands for one node. */
function fillsOf(graph: SvgGraph, theme: Theme): (node: number) => string {
  const { tree, matched } = graph;
  const byNode = tree.lost ? changeColours(tree, theme, matched) : null;
  const byFunction = byNode ? null : functionColours(tree, theme, matched);
  return (node) =>
    tree.function[node] === WHOLE ? css(theme.root) : hex(byNode ? byNode[node]! : byFunction![tree.function[node]!]!);
}

function box(layout: Layout, boxes: Boxes, i: number, fill: (node: number) => string, theme: Theme, rowTop: (row: number) => number): string {
  const node = boxes.node[i]!;
  const narrow = boxes.narrow[i]!;
  const begin = Math.max(boxes.begin[i]!, 0);
  const width = Math.min(boxes.end[i]!, WIDTH) - begin;
  const y = rowTop(layout.depth[node]! + (narrow > 0 ? 1 : 0));
  const title = narrow > 0 ? `${plural(narrow, "narrower frame")} below ${nameOf(layout.tree, node)}` : titleOf(layout.tree, node);
  const name = node === 0 ? `${nameOf(layout.tree, 0)}: ${amountOf(layout.tree, 0)}` : nameOf(layout.tree, node);
  const words = narrow > 0 ? "" : label(name, width);
  const x = MARGIN + begin;
  return (
    `<g><title>${xmlText(title)}</title>` +
    `<rect x="${x.toFixed(2)}" y="${y}" width="${Math.max(width - 0.5, 0.3).toFixed(2)}" height="${ROW - 1}" fill="${narrow > 0 ? css(theme.narrow) : fill(node)}"/>` +
    (words === "" ? "" : `<text x="${(x + PADDING).toFixed(2)}" y="${y + ROW - 5}">${xmlText(words)}</text>`) +
    "</g>"
  );
}

/** Append the boxes of a graph, and return its height. */
function drawGraph(graph: SvgGraph, theme: Theme, top: number, out: string[]): number {
  const layout = layOut(graph.tree);
  const boxes = makeBoxes();
  findVisible(layout, { from: graph.from, to: graph.to, pixels: WIDTH, firstRow: 0, lastRow: layout.deepest }, boxes);
  let rows = 0;
  for (let i = 0; i < boxes.length; i++) rows = Math.max(rows, layout.depth[boxes.node[i]!]! + (boxes.narrow[i]! > 0 ? 2 : 1));
  const rowTop = (row: number) => top + ROW * (graph.flipped ? rows - 1 - row : row);
  const fill = fillsOf(graph, theme);
  for (let i = 0; i < boxes.length; i++) out.push(box(layout, boxes, i, fill, theme, rowTop));
  return rows * ROW;
}

/** Return a file with the graphs one below the other, under lines of text. */
export function drawSvg(graphs: SvgGraph[], head: string[], theme: Theme): string {
  const body: string[] = [];
  let y = MARGIN;
  for (const [i, line] of head.entries()) {
    y += HEAD_LINE;
    body.push(`<text class="head${i === 0 ? " first" : ""}" x="${MARGIN}" y="${y - 4}">${xmlText(line)}</text>`);
  }
  const main = graphs[graphs.length - 1];
  const legend = main ? legendOf(main.tree, theme).slice(0, LEGEND_MAX) : [];
  for (const [i, { words, fill }] of legend.entries()) {
    const column = i % LEGEND_COLUMNS;
    if (column === 0) y += HEAD_LINE;
    const x = MARGIN + (column * WIDTH) / LEGEND_COLUMNS;
    body.push(`<rect class="swatch" x="${x}" y="${y - 14}" width="${FONT_SIZE}" height="${FONT_SIZE}" fill="${css(fill)}"/><text x="${x + 16}" y="${y - 4}">${xmlText(label(words, WIDTH / LEGEND_COLUMNS - 20))}</text>`);
  }
  y += MARGIN / 2;
  for (const graph of graphs) y += drawGraph(graph, theme, y, body) + MARGIN / 2;
  const height = y + MARGIN / 2;
  const width = WIDTH + 2 * MARGIN;
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">`,
    `<title>${xmlText(head[0] ?? "")}</title>`,
    `<style>text { font: ${FONT_SIZE}px ${FONT}; fill: ${css(theme.text)}; white-space: pre } .head { font-size: 13px } .first { font-weight: bold }</style>`,
    `<rect width="100%" height="100%" fill="${css(theme.ground)}"/>`,
    ...body,
    "</svg>",
    "",
  ].join("\n");
}
