// SPDX-License-Identifier: Apache-2.0
// What a page that is a file has of its profiles: functions, stacks as one tree, and the samples of each
// heap and dump (src/tools/view/saved/saved_stacks.h). Parts are read when they are first needed, and kept.
import { readBlock, unpack, type Block, type Packed } from "./blocks";
import type { Calibration } from "../interval";
import type { Figure, ViewName } from "../types";

export const FIGURES = 15; // five sums each of what was allocated, freed, and live at the peak
export const NONE = 0xffffffff;

export interface SavedFunction {
  name: string;
  full_name?: string; // only if it differs
  path?: string;
  file?: string;
  line?: number;
  kind?: string;
  folded?: "allocates" | "other"; // a frame that is not the program's own
}

/** Stacks as a tree; children of node i are children[first[i]] to children[first[i + 1] - 1]. */
export interface StackTree {
  count: number;
  parent: Uint32Array; // NONE: outermost
  function: Uint32Array;
  first: Uint32Array; // the outermost are the children of node `count`
  children: Uint32Array;
}

export interface Samples {
  node: Uint32Array;
  callsite: Uint32Array;
  parts: Uint32Array; // how many
  firstPart: Uint32Array;
  firstFigures: Uint32Array; // of the first part, if `detailed`
  tagged: Uint32Array;
  detailed: Uint32Array; // its parts have figures of their own
  figures: Float64Array[];
}

export interface SavedHeap {
  interval_bytes: number; // 0: the limits of its figures are unknown
  unknown: ViewName[];
  floor_bytes: number; // what may have no sample
  as_reported: boolean; // the program drew the samples itself
  dumps_at_peak: boolean; // the dumps are of the peak, not of their moments
  why_no_threads: string | null; // null: the file has them
  threads: { tid: number; name: string }[];
  types: string[];
  contexts: string[];
  samples: Samples;
  parts: { thread: Uint32Array; type: Uint32Array; context: Uint32Array; figures: Float64Array[] };
}

export interface SavedDump {
  time: number; // ns
  exact: boolean;
  partial: boolean;
  totals_partial: boolean; // the exact totals lack calls
  counted: (number | null)[]; // bytes and calls by the exact totals, then five sums of the samples; null: unknown
  most: [number, number];
  calibration: Calibration;
  sentences: string[][]; // as in Summary
  left_out: number[]; // by a filter when the profile was read
  whole: Record<ViewName, { bytes: Figure; count: Figure }>;
  samples: Uint32Array; // numbers in the heap
}

/** For each sample of two heaps, the row that it belongs to in a difference. */
export interface SavedPair {
  before: Uint32Array;
  after: Uint32Array;
  places: { before: Uint32Array; after: Uint32Array } | null; // by address, of one process in two profiles; else null
}

/** Make a tree of nodes whose parents come before them. */
export function linkTree(parent: Uint32Array, functions: Uint32Array, count: number): StackTree {
  const first = new Uint32Array(count + 3);
  const children = new Uint32Array(count);
  const above = (node: number) => (parent[node] === NONE ? count : parent[node]!);
  // Count into the place after the next, so that filling moves each first to its own.
  for (let i = 0; i < count; i++) first[above(i) + 2]!++;
  for (let i = 2; i < count + 3; i++) first[i]! += first[i - 1]!;
  for (let i = 0; i < count; i++) children[first[above(i) + 1]!++] = i;
  return { count, parent, function: functions, first, children };
}

function readTree(block: Block<unknown>): StackTree {
  const above = block.numbers("above");
  for (let i = 0; i < above.length; i++) above[i] = above[i] === 0 ? NONE : i - above[i]!;
  return linkTree(above, block.numbers("function"), above.length);
}

/** Return where each run of `counts` begins. */
function begins(counts: (i: number) => number, length: number): Uint32Array {
  const first = new Uint32Array(length);
  for (let i = 0, sum = 0; i < length; i++) {
    first[i] = sum;
    sum += counts(i);
  }
  return first;
}

function readHeap(block: Block<SavedHeap>): SavedHeap {
  const parts = block.numbers("parts");
  const detailed = block.numbers("detailed");
  const figures = (prefix: string) => Array.from({ length: FIGURES }, (_, i) => block.doubles(`${prefix}figure ${i}`));
  return {
    ...block.header,
    samples: {
      node: block.numbers("node"),
      callsite: block.numbers("callsite"),
      parts,
      firstPart: begins((i) => parts[i]!, parts.length),
      firstFigures: begins((i) => (detailed[i] ? parts[i]! : 0), parts.length),
      tagged: block.numbers("tagged"),
      detailed,
      figures: figures(""),
    },
    parts: { thread: block.numbers("thread"), type: block.numbers("type"), context: block.numbers("context"), figures: figures("part ") },
  };
}

export class SavedData {
  private known = new Map<string, Promise<unknown>>();

  constructor(private packed: Packed) {}

  /** Return an answer of the server that the file has, or null. */
  async answer(name: string): Promise<ArrayBuffer | null> {
    const text = this.packed[name];
    return text === undefined ? null : unpack(text);
  }

  private read<Header, T>(name: string, make: (block: Block<Header>) => T): Promise<T | null> {
    let known = this.known.get(name) as Promise<T | null> | undefined;
    if (!known) {
      known = this.answer(name).then((buffer) => (buffer === null ? null : make(readBlock<Header>(buffer))));
      this.known.set(name, known);
    }
    return known;
  }

  functions = async () => (await this.read<{ functions: SavedFunction[] }, SavedFunction[]>("functions", ({ header }) => header.functions)) ?? [];
  tree = async () => (await this.read("tree", readTree))!;
  heap = (heap: string) => this.read(`heap ${heap}`, readHeap);
  dump = (heap: string, dump: number) =>
    this.read(`dump ${heap}.${dump}`, (block: Block<SavedDump>): SavedDump => ({ ...block.header, samples: block.numbers("samples") }));

  /** Return the rows of a difference of two heaps, or null. */
  async pair(base: string, at: string): Promise<SavedPair | null> {
    const make = (block: Block<unknown>): SavedPair => ({
      before: block.numbers("before"),
      after: block.numbers("after"),
      places: block.has("exact before") ? { before: block.numbers("exact before"), after: block.numbers("exact after") } : null,
    });
    const found = await this.read(`pair ${base} ${at}`, make);
    if (found) return found;
    const turned = await this.read(`pair ${at} ${base}`, make);
    return turned && { before: turned.after, after: turned.before, places: turned.places && { before: turned.places.after, after: turned.places.before } };
  }
}
