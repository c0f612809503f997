// SPDX-License-Identifier: Apache-2.0
// The series of the timeline: one time axis for dumps and readings of memory, values where there are
// some and null elsewhere. What the profile does not contain has no series.
import type { Heap, Memory, Process, ViewName } from "./types";

export interface Series {
  name: string;
  kind: "live" | "low" | "high" | "rss" | "anonymous" | "swap" | "rate";
  values: (number | null)[];
}

export interface Timeline {
  seconds: number[];
  series: Series[];
  rate: Series | null; // bytes a second, of its own scale
}

function readingsOf(memory: Memory | undefined): { kind: Series["kind"]; name: string; values: (number | null)[] }[] {
  if (!memory || memory.time.length === 0) return [];
  const has = (values: (number | null)[] | null): values is (number | null)[] =>
    values !== null && values.length === memory.time.length && values.some((value) => value !== null && value > 0);
  const found: { kind: Series["kind"]; name: string; values: (number | null)[] }[] = [];
  if (has(memory.rss)) found.push({ kind: "rss", name: "Resident", values: memory.rss });
  if (has(memory.anonymous)) found.push({ kind: "anonymous", name: "of it anonymous", values: memory.anonymous });
  if (has(memory.swap)) found.push({ kind: "swap", name: "Swap", values: memory.swap });
  return found;
}

/** Bytes allocated a second between dumps: exact totals where there are some, else estimates. */
function ratesOf(heap: Heap): (number | null)[] {
  return heap.dumps.map((dump, i) => {
    const before = heap.dumps[i - 1];
    const begin = before ? before.time : dump.start;
    const amount = dump.exact_bytes ?? dump.alloc_space?.value ?? null;
    const earlier = before ? (before.exact_bytes ?? before.alloc_space?.value ?? null) : 0;
    const seconds = (dump.time - begin) / 1e9;
    if (amount === null || earlier === null || !(seconds > 0) || (!before && !(dump.start > 0))) return null;
    return Math.max(amount - earlier, 0) / seconds;
  });
}

export function timelineOf(heap: Heap, process: Process | null, beginning: number, view: ViewName): Timeline {
  const memory = process?.memory;
  const readings = readingsOf(memory);
  const times = new Set<number>(heap.dumps.map((dump) => dump.time));
  if (readings.length > 0) for (const time of memory!.time) times.add(time);
  const sorted = [...times].sort((a, b) => a - b);
  const at = new Map(sorted.map((time, i) => [time, i]));
  const spread = (where: number[], values: (number | null)[]) => {
    const all = new Array<number | null>(sorted.length).fill(null);
    where.forEach((time, i) => { all[at.get(time)!] = values[i] ?? null; });
    return all;
  };
  const dumpTimes = heap.dumps.map((dump) => dump.time);
  const which: ViewName = view === "objects" || view === "alloc_objects" ? "objects" : "space";
  const figures = heap.dumps.map((dump) => dump[which]);
  const series: Series[] = [];
  if (figures.some((figure) => figure !== null)) {
    const name = which === "objects" ? "Live allocations" : "Live bytes";
    series.push({ kind: "live", name, values: spread(dumpTimes, figures.map((one) => one?.value ?? null)) });
    series.push({ kind: "high", name: "upper limit", values: spread(dumpTimes, figures.map((one) => one?.high ?? one?.value ?? null)) });
    series.push({ kind: "low", name: "lower limit", values: spread(dumpTimes, figures.map((one) => one?.low ?? one?.value ?? null)) });
  }
  if (which === "space")
    for (const reading of readings) series.push({ ...reading, values: spread(memory!.time, reading.values) });
  const rates = ratesOf(heap);
  const rate = heap.dumps.length > 1 && rates.some((one) => one !== null)
    ? { kind: "rate" as const, name: "Allocated a second", values: spread(dumpTimes, rates) } : null;
  return { seconds: sorted.map((time) => (time - beginning) / 1e9), series, rate };
}

export interface Mark {
  dump: number;
  words: string;
}

/** What a reader must know of single dumps. */
export function marksOf(heap: Heap): Mark[] {
  const marks: Mark[] = [];
  heap.dumps.forEach((dump, i) => {
    if (dump.incomplete) marks.push({ dump: i, words: "This dump is incomplete: samples of it are missing from the trace." });
  });
  return marks;
}

/** Return the dumps nearest to both ends of a range of time: [base, dump]. A base of -1: the start. */
export function dumpsOfRange(heap: Heap, from: number, to: number): [number, number] | null {
  let dump = -1;
  heap.dumps.forEach((one, i) => { if (one.time <= to) dump = i; });
  if (dump < 0) return null;
  let base = -1;
  heap.dumps.forEach((one, i) => { if (one.time <= from) base = i; });
  if (base === dump) {
    if (dump + 1 >= heap.dumps.length) return null;
    dump++;
  }
  return [base, dump];
}
