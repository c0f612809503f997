// SPDX-License-Identifier: Apache-2.0
// Draws a flame graph. Boxes are upright and rows have one height, so a row is written once as a line
// of pixels and then copied downwards: the time hardly depends on the number of boxes. Labels and
// outlines are drawn on top. A frame allocates nothing but labels that were not drawn before.
import { findVisible, makeBoxes, type Boxes, type Layout } from "./layout";
import { css, packed, type Theme } from "./colours";
import { CONTROLS } from "../spell_out";
import { nameOf, valueAt, WHOLE, type Tree } from "../tree";
import { signedInWords } from "../words";

export const ROW = 18; // CSS pixels
const FONT_SIZE = 12;
const FONT = `${FONT_SIZE}px system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif`;
const LABEL_LEAST = 26; // pixels that a box needs for a label
const PADDING = 4;
const LABELS_MAX = 3000;

/** Return the text of a box. Of a difference it ends with the change, so that not colour alone tells it. */
function textOf(tree: Tree, node: number): string {
  return tree.lost ? `${nameOf(tree, node)}  ${signedInWords(valueAt(tree, node), tree.header.counts)}` : nameOf(tree, node);
}

export interface Look {
  theme: Theme;
  byFunction: Uint32Array | null;
  byNode: Uint32Array | null; // of a difference; it goes before byFunction
  hovered: number;
  selected: number;
}

export class Painter {
  readonly boxes: Boxes = makeBoxes();
  private context: CanvasRenderingContext2D;
  private image: ImageData | null = null;
  private pixels = new Uint32Array(0);
  private filled = new Uint8Array(0); // rows with a box
  private ratio = 1;
  private widths = new Float32Array(128); // of ASCII characters
  private wide = 12;
  private labels = new Map<number, { length: number; text: string }>();
  private labelled: Layout | null = null;
  width = 0; // CSS pixels
  height = 0;

  constructor(private canvas: HTMLCanvasElement) {
    /* Without acceleration: putImageData() is then a copy, and text is as fast. */
    this.context = canvas.getContext("2d", { alpha: false, willReadFrequently: true })!;
    this.measure();
  }

  private measure() {
    this.context.font = FONT;
    for (let code = 32; code < 127; code++)
      this.widths[code] = this.context.measureText(String.fromCharCode(code)).width;
    this.wide = this.context.measureText("W").width;
  }

  resize(width: number, height: number, ratio: number) {
    const across = Math.max(Math.round(width * ratio), 1);
    const down = Math.max(Math.round(height * ratio), 1);
    this.width = width;
    this.height = height;
    if (this.image && this.image.width === across && this.image.height === down && this.ratio === ratio) return;
    this.ratio = ratio;
    this.canvas.width = across;
    this.canvas.height = down;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.image = this.context.createImageData(across, down);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.filled = new Uint8Array(Math.ceil(height / ROW) + 2);
  }

  /** Draw what lies between the shares `from` and `to`, scrolled down by `top`. */
  paint(layout: Layout, from: number, to: number, top: number, flipped: boolean, look: Look) {
    if (!this.image) return;
    const firstRow = Math.max(Math.floor(top / ROW), 0);
    const lastRow = Math.floor((top + this.height) / ROW);
    findVisible(layout, { from, to, pixels: this.width, firstRow, lastRow }, this.boxes);
    this.paintBoxes(layout, top, flipped, look);
    this.context.putImageData(this.image, 0, 0);
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.paintLabels(layout, top, flipped, look);
    this.paintOutlines(layout, top, flipped, look);
  }

  /** Return the y of a row; flipped: rows grow upwards from the bottom. */
  rowTop(row: number, top: number, flipped: boolean): number {
    return flipped ? this.height - (row + 1) * ROW + top : row * ROW - top;
  }

  private paintBoxes(layout: Layout, top: number, flipped: boolean, look: Look) {
    const { boxes, pixels, ratio } = this;
    const { width, height } = this.image!;
    const ground = packed(look.theme.ground);
    const narrow = packed(look.theme.narrow);
    const root = packed(look.theme.root);
    const functions = layout.tree.function;
    pixels.fill(ground);
    const filled = this.filled.fill(0);
    const firstRow = Math.max(Math.floor(top / ROW), 0);
    for (let i = 0; i < boxes.length; i++) {
      const node = boxes.node[i]!;
      const isNarrow = boxes.narrow[i]! > 0;
      const row = layout.depth[node]! + (isNarrow ? 1 : 0);
      const y = Math.max(Math.round(this.rowTop(row, top, flipped) * ratio), 0);
      const begin = Math.max(Math.round(boxes.begin[i]! * ratio), 0);
      let end = Math.min(Math.round(boxes.end[i]! * ratio), width);
      if (end - begin >= 3 && end < width) end--;
      else if (end === begin) end = Math.min(begin + 1, width);
      if (y >= height || end <= begin) continue;
      let colour: number;
      if (isNarrow) colour = narrow;
      else if (functions[node] === WHOLE) colour = root;
      else colour = look.byNode ? look.byNode[node]! : look.byFunction![functions[node]!]!;
      const at = y * width;
      if (end - begin < 8) for (let x = begin; x < end; x++) pixels[at + x] = colour;
      else pixels.fill(colour, at + begin, at + end);
      filled[row - firstRow] = 1;
    }
    for (let i = 0; i < filled.length; i++) {
      if (!filled[i]) continue;
      const y = this.rowTop(firstRow + i, top, flipped);
      const first = Math.max(Math.round(y * ratio), 0);
      const last = Math.min(Math.round((y + ROW) * ratio) - 1, height); // a line of ground between rows
      for (let line = first + 1; line < last; line++)
        pixels.copyWithin(line * width, first * width, (first + 1) * width);
      if (last <= first) pixels.fill(ground, first * width, (first + 1) * width);
    }
  }

  /** Return as much of a text as fits, without measuring it again while it fits as much. */
  private fitted(key: number, text: string, room: number): string {
    let used = 0;
    let at = 0;
    let length = 0; // that fits with "…" after it
    while (at < text.length) {
      const code = text.charCodeAt(at);
      used += code < 128 ? this.widths[code]! : this.wide;
      if (used > room) break;
      at++;
      if (used + this.wide <= room) length = at;
    }
    if (at === text.length) return text;
    const known = this.labels.get(key);
    if (known && known.length === length) return known.text;
    const cut = length > 1 ? text.slice(0, length) + "…" : "";
    this.labels.set(key, { length, text: cut });
    return cut;
  }

  /** Return how many frames a narrow box stands for, in as many words as fit. */
  private fittedCount(narrow: number, room: number): string {
    const digit = this.widths[48]!;
    const digits = Math.floor(Math.log10(narrow)) + 1;
    if (room > (digits + 10) * digit) return `${narrow} narrower`;
    return room > digits * digit ? String(narrow) : "";
  }

  private paintLabels(layout: Layout, top: number, flipped: boolean, look: Look) {
    const { boxes, context } = this;
    if (this.labelled !== layout) {
      this.labels.clear();
      this.labelled = layout;
    }
    context.font = FONT;
    context.textBaseline = "middle";
    context.fillStyle = css(look.theme.text);
    let drawn = 0;
    for (let i = 0; i < boxes.length && drawn < LABELS_MAX; i++) {
      const begin = Math.max(boxes.begin[i]!, 0);
      const room = Math.min(boxes.end[i]!, this.width) - begin - 2 * PADDING;
      if (room < LABEL_LEAST - 2 * PADDING) continue;
      const node = boxes.node[i]!;
      const narrow = boxes.narrow[i]!;
      const cut = narrow > 0 ? this.fittedCount(narrow, room) : this.fitted(node, textOf(layout.tree, node), room);
      if (cut === "") continue;
      const row = layout.depth[node]! + (narrow > 0 ? 1 : 0);
      context.fillText(cut.replace(CONTROLS, "\ufffd"), begin + PADDING, this.rowTop(row, top, flipped) + ROW / 2);
      drawn++;
    }
  }

  private paintOutlines(layout: Layout, top: number, flipped: boolean, look: Look) {
    if (look.hovered < 0 && look.selected < 0) return;
    const { boxes, context } = this;
    for (let i = 0; i < boxes.length; i++) {
      const node = boxes.node[i]!;
      if (boxes.narrow[i]! > 0 || (node !== look.hovered && node !== look.selected)) continue;
      const begin = Math.max(boxes.begin[i]!, 0);
      const end = Math.min(boxes.end[i]!, this.width);
      const isSelected = node === look.selected;
      context.strokeStyle = css(look.theme.text);
      context.lineWidth = isSelected ? 2 : 1;
      const inset = context.lineWidth / 2;
      const y = this.rowTop(layout.depth[node]!, top, flipped);
      context.strokeRect(begin + inset, y + inset, Math.max(end - begin - 2 * inset - 1, 1), ROW - 1 - 2 * inset);
    }
  }
}
