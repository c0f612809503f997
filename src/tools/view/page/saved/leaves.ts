// SPDX-License-Identifier: Apache-2.0
// The figures of a selection by stack, of one dump or of the difference of two, as src/tools/view/model/leaves.c sums
// them up; and which figures a sample has, as src/profile/compare/diff.c takes them.
import { restOf, varianceRestOf } from "./change";
import type { Calibration, Sums } from "../interval";
import { FIGURES, NONE, type SavedDump, type SavedHeap, type SavedPair } from "./data";
import type { Filtered } from "./filter";
import type { ViewName } from "../types";

/** Numbers of a sum over stacks: five of what was gained, five of what was lost, and the width of its box. */
export const SUM = 11;
export const LOST = 5;
export const WIDTH = 10;

export interface Leaves {
  count: number;
  node: Uint32Array;
  sums: Float64Array; // SUM for each
  total: Float64Array;
  leftOut: Float64Array; // by filters
  intervals: [number, number]; // gained, lost
  calibrations: [Calibration, Calibration];
  exact: boolean;
  partial: boolean;
  unknown: boolean;
}

/** Return a figure to order by, rounded to 40 bits by Dekker's splitting, as flame_rank() in
 * src/tools/view/answers/flame.h does. */
export function rankOf(figure: number): number {
  const multiple = figure * 8193; // 2^13 + 1
  return multiple - (multiple - figure);
}

/** A dump with its heap. */
export interface Side {
  id: string; // of the heap
  heap: SavedHeap;
  dump: SavedDump;
}

export interface Question {
  at: Side;
  base: Side | null;
  pair: SavedPair | null; // of a difference of two heaps
  view: ViewName;
  filtered: Filtered;
}

/** Whether both sides of a difference are sums since the start of one process. */
export const isOfOneProcess = ({ at, base, pair }: Question) => base !== null && (base.id === at.id || pair!.places !== null);

export const countsCalls = (view: ViewName) => view === "objects" || view === "alloc_objects";

export function sumsOf(values: ArrayLike<number>, at: number): Sums {
  return { bytes: values[at]!, count: values[at + 1]!, bytesVariance: values[at + 2]!, countVariance: values[at + 3]!, samples: values[at + 4]! };
}

export function addSum(sums: Float64Array, to: number, more: ArrayLike<number>, from: number) {
  for (let i = 0; i < SUM; i++) sums[to + i]! += more[from + i]!;
}

// --- the figures of a sample ---

const ALLOCATED = 0;
const FREED = 5;
export const PEAK = 10;
const NOTHING = new Float64Array(FIGURES);

/** Write the five sums of a view to out[at...]. */
export function estimate(figures: ArrayLike<number>, view: ViewName, out: Float64Array, at: number) {
  const first = view === "max" ? PEAK : ALLOCATED;
  const isLive = view === "space" || view === "objects";
  for (let i = 0; i < 5; i++) out[at + i] = isLive ? Math.max(figures[i]! - figures[FREED + i]!, 0) : figures[first + i]!;
}

export function take(columns: Float64Array[], index: number, out: Float64Array): Float64Array {
  for (let i = 0; i < FIGURES; i++) out[i] = columns[i]![index]!;
  return out;
}

const early = new Float64Array(5);
const late = new Float64Array(5);

/** Write what is gained and lost between two values of a part of one process to out. */
function changeOfParts(before: ArrayLike<number>, after: ArrayLike<number>, view: ViewName, out: Float64Array) {
  estimate(before, view, early, 0);
  estimate(after, view, late, 0);
  out.fill(0);
  if ([0, 1, 2, 3].every((i) => early[i] === late[i])) return;
  // What both have: at least what the earlier had, less all that was freed since.
  const isForward = after[1]! >= before[1]!;
  const first = isForward ? early : late;
  const [one, other] = isForward ? [before, after] : [after, before];
  for (let i = 0; i < 5; i++) {
    const freed = view.startsWith("alloc_") ? 0 : other[FREED + i]! - (view === "max" ? 0 : one[FREED + i]!);
    const common = Math.min(Math.max(first[i]! - freed, 0), early[i]!, late[i]!);
    const rest = i === 2 || i === 3 ? varianceRestOf : restOf;
    out[i] = rest(late[i]!, common);
    out[LOST + i] = rest(early[i]!, common);
  }
}

/** The smallest units of a sample that are compared: its parts; at the peak, the whole if its parts have no peak. */
function atomsOf({ samples, parts, threads, types, contexts }: SavedHeap, sample: number, view: ViewName): { key: string; figures: Float64Array }[] {
  const count = samples.parts[sample]!;
  const whole = () => take(samples.figures, sample, new Float64Array(FIGURES));
  if (count === 0 || (view === "max" && !samples.tagged[sample])) return [{ key: count === 0 ? "" : "peak", figures: whole() }];
  return Array.from({ length: count }, (_, i) => {
    const part = samples.firstPart[sample]! + i;
    const key = JSON.stringify([threads[parts.thread[part]!]!.tid, types[parts.type[part]!], contexts[parts.context[part]!]]);
    return { key, figures: samples.detailed[sample] ? take(parts.figures, samples.firstFigures[sample]! + i, new Float64Array(FIGURES)) : whole() };
  });
}

// --- collecting ---

class Collector {
  readonly leaves: Leaves;
  private places: Uint32Array; // by node: its leaf + 1
  private nodes: number[] = [];
  private values = new Float64Array(SUM * 1024);
  private sum = new Float64Array(SUM);

  constructor(private question: Question) {
    const { at, base, view } = question;
    const sides = base ? [base, at] : [at];
    this.places = new Uint32Array(question.filtered.tree.count);
    const isEach = sides.every((side) => side.heap.interval_bytes === 1);
    const hasBias = view === "max" && !base; // as sampling_of() in leaves.c
    const calibrationOf = ({ dump: { calibration } }: Side): Calibration =>
      hasBias ? calibration : ([...calibration.slice(0, 6), 0, 0] as unknown as Calibration);
    this.leaves = {
      count: 0,
      node: new Uint32Array(0),
      sums: new Float64Array(0),
      total: new Float64Array(SUM),
      leftOut: new Float64Array(SUM),
      intervals: [at.heap.interval_bytes, (base ?? at).heap.interval_bytes],
      calibrations: [calibrationOf(at), calibrationOf(base ?? at)],
      exact: sides.every((side) => side.dump.exact),
      partial: isEach && sides.some((side) => side.dump.partial),
      unknown: sides.some((side) => side.heap.unknown.includes(view)),
    };
  }

  private rank = (sum: Float64Array, at: number) => sum[at + (countsCalls(this.question.view) ? 1 : 0)]!;

  private setWidth(sum: Float64Array) {
    sum[WIDTH] = Math.abs(this.rank(sum, 0) - this.rank(sum, LOST));
  }

  /** Add a sum to the leaf of its stack, or to what is left out. */
  add(node: number, sum: Float64Array) {
    const { leaves } = this;
    const place = this.question.filtered.place(node);
    addSum(leaves.total, 0, sum, 0);
    if (place === NONE) return addSum(leaves.leftOut, 0, sum, 0);
    if (this.places[place] === 0) {
      this.places[place] = this.nodes.push(place);
      if (this.nodes.length * SUM > this.values.length) {
        const grown = new Float64Array(2 * this.values.length);
        grown.set(this.values);
        this.values = grown;
      }
    }
    addSum(this.values, (this.places[place]! - 1) * SUM, sum, 0);
  }

  /** Count what a filter left out when the profiles were read. */
  private addLeftOut() {
    const { at, base, view } = this.question;
    this.sum.fill(0);
    estimate(at.dump.left_out, view, this.sum, 0);
    if (base) estimate(base.dump.left_out, view, this.sum, LOST);
    this.setWidth(this.sum);
    addSum(this.leaves.total, 0, this.sum, 0);
    addSum(this.leaves.leftOut, 0, this.sum, 0);
  }

  addDump() {
    const { heap, dump } = this.question.at;
    const figures = new Float64Array(FIGURES);
    this.sum.fill(0);
    for (const sample of dump.samples) {
      estimate(take(heap.samples.figures, sample, figures), this.question.view, this.sum, 0);
      this.sum[WIDTH] = this.rank(this.sum, 0);
      if (this.sum[0] !== 0 || this.sum[1] !== 0) this.add(heap.samples.node[sample]!, this.sum);
    }
  }

  /** Add what differs between two dumps of one heap, which share the samples that have not changed. */
  addDumps() {
    const { at, base } = this.question;
    const { callsite, node } = at.heap.samples;
    const before = new Map<number, number>();
    for (const sample of base!.dump.samples) before.set(callsite[sample]!, sample);
    const add = (earlier: number, later: number) => {
      this.changeOfSample(earlier, later, this.sum);
      this.setWidth(this.sum);
      if (this.sum[1] !== 0 || this.sum[LOST + 1] !== 0 || this.sum[WIDTH] !== 0) this.add(node[later === -1 ? earlier : later]!, this.sum);
    };
    for (const sample of at.dump.samples) {
      const earlier = before.get(callsite[sample]!) ?? -1;
      if (earlier !== sample) add(earlier, sample);
      before.delete(callsite[sample]!);
    }
    for (const sample of base!.dump.samples) if (before.has(callsite[sample]!)) add(sample, -1);
  }

  /** Write the change of a callsite, part by part; at the peak of the whole if its parts have no peak. -1: no sample. */
  private changeOfSample(before: number, after: number, out: Float64Array) {
    const { view, at: { heap } } = this.question;
    const { samples, parts } = heap;
    const sides = [before, after].filter((one) => one >= 0);
    const isTagged = sides.every((one) => samples.tagged[one] !== 0);
    const hasParts = sides.every((one) => samples.parts[one]! > 0);
    const whole = (one: number, room: Float64Array) => (one < 0 ? NOTHING : take(samples.figures, one, room));
    if (!hasParts || (view === "max" && !isTagged)) return changeOfParts(whole(before, this.one), whole(after, this.other), view, out);
    const figures = (sample: number, part: number, room: Float64Array) =>
      part < 0 ? NOTHING
        : samples.detailed[sample] ? take(parts.figures, samples.firstFigures[sample]! + part, room)
          : take(samples.figures, sample, room);
    const numberOf = (sample: number) => (sample < 0 ? 0 : samples.parts[sample]!);
    this.more.fill(0);
    const add = (earlier: number, later: number) => {
      changeOfParts(figures(before, earlier, this.one), figures(after, later, this.other), view, out);
      addSum(this.more, 0, out, 0);
    };
    for (let part = 0; part < numberOf(after); part++) add(this.partLike(before, after, part), part);
    for (let part = 0; part < numberOf(before); part++) if (this.partLike(after, before, part) < 0) add(part, -1);
    out.set(this.more);
  }

  private one = new Float64Array(FIGURES);
  private other = new Float64Array(FIGURES);
  private more = new Float64Array(SUM);

  /** Return the part of a sample that has the thread, type and context of another one's; -1: it has none. */
  private partLike(sample: number, other: number, part: number): number {
    const { samples, parts } = this.question.at.heap;
    if (sample < 0) return -1;
    const wanted = samples.firstPart[other]! + part;
    const first = samples.firstPart[sample]!;
    for (let i = 0; i < samples.parts[sample]!; i++) {
      const at = first + i;
      if (parts.thread[at] === parts.thread[wanted] && parts.type[at] === parts.type[wanted] && parts.context[at] === parts.context[wanted]) return i;
    }
    return -1;
  }

  /** Add the difference of two heaps: they share no sample, and rows of one number are of one place. */
  addHeaps() {
    const { at, base, pair, view } = this.question;
    const rows = new Map<number, { node: number; sum: Float64Array }>();
    const figures = new Float64Array(FIGURES);
    const own = new Float64Array(SUM);
    const collect = (side: Side, numbers: Uint32Array, part: number) => {
      for (const sample of side.dump.samples) {
        let row = rows.get(numbers[sample]!);
        if (!row) {
          row = { node: side.heap.samples.node[sample]!, sum: new Float64Array(SUM) };
          rows.set(numbers[sample]!, row);
        }
        own.fill(0);
        estimate(take(side.heap.samples.figures, sample, figures), view, own, part);
        addSum(row.sum, 0, own, 0);
      }
    };
    collect(base!, pair!.before, LOST);
    collect(at, pair!.after, 0);
    for (const { node, sum } of rows.values()) {
      this.setWidth(sum);
      this.add(node, sum);
    }
  }

  /** Add the difference of two profiles of one process: parts of one place in it are compared. */
  addProcess() {
    const { at, base, pair, view } = this.question;
    const rows = new Map<number, { node: number; sum: Float64Array }>();
    const atoms = new Map<string, { row: number; values: [Float64Array, Float64Array] }>();
    const collect = (side: Side, places: Uint32Array, numbers: Uint32Array, which: 0 | 1) => {
      for (const sample of side.dump.samples) {
        const row = numbers[sample]!;
        for (const { key, figures } of atomsOf(side.heap, sample, view)) {
          const name = `${places[sample]} ${key}`;
          let atom = atoms.get(name);
          if (!atom) {
            atom = { row, values: [new Float64Array(FIGURES), new Float64Array(FIGURES)] };
            atoms.set(name, atom);
            if (!rows.has(row)) rows.set(row, { node: side.heap.samples.node[sample]!, sum: new Float64Array(SUM) });
          }
          for (let i = 0; i < FIGURES; i++) atom.values[which][i]! += figures[i]!;
        }
      }
    };
    collect(base!, pair!.places!.before, pair!.before, 0);
    collect(at, pair!.places!.after, pair!.after, 1);
    for (const { row, values } of atoms.values()) {
      changeOfParts(values[0], values[1], view, this.sum);
      addSum(rows.get(row)!.sum, 0, this.sum, 0);
    }
    for (const { node, sum } of rows.values()) {
      this.setWidth(sum);
      this.add(node, sum);
    }
  }

  finish(): Leaves {
    this.addLeftOut();
    this.leaves.count = this.nodes.length;
    this.leaves.node = Uint32Array.from(this.nodes);
    this.leaves.sums = this.values;
    return this.leaves;
  }
}

export function leavesOf(question: Question): Leaves {
  const collector = new Collector(question);
  if (!question.base) collector.addDump();
  else if (question.base.id === question.at.id) collector.addDumps();
  else if (isOfOneProcess(question)) collector.addProcess();
  else collector.addHeaps();
  return collector.finish();
}
