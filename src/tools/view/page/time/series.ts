// SPDX-License-Identifier: Apache-2.0
// The series of the timeline: one time axis for dumps and readings of memory. An unknown
// value is null, and the line has a gap. Between a series' own moments its value is undefined, and the
// line goes on. What the profile does not contain has no series.
import { dumpBefore, keptDump } from "../model";
import { lossInWords } from "../sentences";
import type { Dump, Heap, Memory, Process, Profile, ViewName } from "../types";
import { intervalInWords } from "../words";

export type SeriesKind = "live" | "other" | "low" | "high" | "rss" | "anonymous" | "file" | "shmem" | "swap" | "rate" | "counted" | "curve" | "layer" | "rest";
export type Value = number | null | undefined;

export interface Series {
  key: string;
  kind: SeriesKind;
  name: string;
  values: Value[];
}

export interface Timeline {
  seconds: number[];
  series: Series[]; // bytes, or numbers of allocations
  rates: Series[]; // bytes a second
}

type Column = (number | null)[] | null;

/** A reading without any value is a gap. One that leaves out some has them as they were: Perfetto writes what changed. */
function valuesOf(memory: Memory, column: Column): Value[] {
  const columns = [memory.rss, memory.anonymous, memory.file, memory.shmem, memory.swap, memory.live ?? null];
  const isEmpty = memory.time.map((_, i) => columns.every((one) => one === null || one[i] === null));
  return (column ?? []).map((value, i) => (value === null ? (isEmpty[i] ? null : undefined) : value));
}

/** Resident pages that are not anonymous, where the file does not divide them further. */
function otherResident(memory: Memory): Column {
  const { rss, anonymous } = memory;
  if (memory.file !== null || rss === null || anonymous === null) return null;
  const values = rss.map((bytes, i) => (bytes === null || anonymous[i] === null ? null : Math.max(bytes - anonymous[i]!, 0)));
  return values.some((value) => value !== null) ? values : null;
}

function readingsOf(memory: Memory | undefined): Series[] {
  if (!memory || memory.time.length === 0) return [];
  const columns: [SeriesKind, string, Column][] = [
    ["rss", "Resident", memory.rss], ["anonymous", "Anonymous", memory.anonymous], ["file", "Files", memory.file],
    ["file", "Files, shared", otherResident(memory)], ["shmem", "Shared", memory.shmem], ["swap", "Swap", memory.swap],
  ];
  return columns.filter(([, , column]) => column !== null).map(([kind, name, column]) => ({ key: kind, kind, name, values: valuesOf(memory, column) }));
}

/** Bytes allocated a second since the dump before. */
function ratesOf(heap: Heap, amountOf: (dump: Dump) => number | null): Value[] {
  return heap.dumps.map((dump, i) => {
    const before = heap.dumps[i - 1];
    const amount = amountOf(dump);
    const earlier = before ? amountOf(before) : dump.start > 0 ? 0 : null;
    const seconds = (dump.time - (before ? before.time : dump.start)) / 1e9;
    if (amount === null || earlier === null || !(seconds > 0)) return null;
    return Math.max(amount - earlier, 0) / seconds;
  });
}

const hasValue = (values: Value[]) => values.some((value) => value !== null && value !== undefined);

const OTHERS = 4; // heaps that are drawn beside the chosen one

/** The other heaps of a heap's process, those that hold most first. */
export function otherHeaps(profile: Profile, heap: Heap): Heap[] {
  const live = (one: Heap) => one.dumps[one.dumps.length - 1]?.space?.value ?? -1;
  return profile.heaps.filter((one) => one !== heap && one.process === heap.process && one.unseen === "" && live(one) >= 0)
    .sort((a, b) => live(b) - live(a)).slice(0, OTHERS);
}

export interface TimelineRequest {
  heap: Heap;
  others: Heap[]; // of the same process
  process: Process | null;
  beginning: number;
  view: ViewName;
}

/** The series of a heap's own figures, and of the live bytes of the other heaps. */
function liveSeries({ heap, others, view }: TimelineRequest): { series: Series; times: number[] }[] {
  const which: ViewName = view.endsWith("objects") ? "objects" : "space";
  const times = heap.dumps.map((dump) => dump.time);
  const of = (kind: SeriesKind, name: string, value: (dump: Dump) => number | null) =>
    ({ series: { key: kind, kind, name, values: heap.dumps.map(value) }, times });
  const name = `${which === "objects" ? "Live allocations" : "Live"}${others.length > 0 ? ` in ${heap.name}` : ""}`;
  const own = heap.dumps.some((dump) => dump[which] !== null) ? [
    of("live", name, (dump) => dump[which]?.value ?? null),
    of("high", "upper limit", (dump) => dump[which]?.high ?? null),
    of("low", "lower limit", (dump) => dump[which]?.low ?? null),
  ] : [];
  const beside = others.map((other) => ({
    series: { key: other.id, kind: "other" as const, name: `in ${other.name}`, values: other.dumps.map((dump) => dump[which]?.value ?? null) },
    times: other.dumps.map((dump) => dump.time),
  }));
  return [...own, ...beside];
}

/** What was live between the dumps of a heap that has too few for a line, as the file has read it: of all heaps of the process. */
function curveOf({ heap, process, view }: TimelineRequest): Series[] {
  const memory = process?.memory;
  if (!memory?.live || heap.dumps.length > 1 || view.endsWith("objects")) return [];
  return [{ key: "curve", kind: "curve", name: "Live in all heaps", values: valuesOf(memory, memory.live) }];
}

/** If the process has one heap, its live bytes are those of its dump and, at other moments, those of the curve. Where all
 * was recorded, they are exact there, too; else the limits are unknown. */
function joinCurve(series: Series[], isExact: boolean): Series[] {
  const curve = series.find((one) => one.kind === "curve");
  if (!curve || !series.some((one) => one.kind === "live")) return series;
  const joins = ({ kind }: Series) => kind === "live" || (isExact && (kind === "low" || kind === "high"));
  return series.filter((one) => one !== curve).map((one) => (joins(one) ? { ...one, values: one.values.map((value, i) => value ?? curve.values[i]) } : one));
}

export function timelineOf(request: TimelineRequest): Timeline {
  const { heap, others, process, beginning, view } = request;
  const memory = process?.memory;
  const readings = view.endsWith("objects") ? [] : [...curveOf(request), ...readingsOf(memory)];
  const live = liveSeries(request);
  const dumpTimes = heap.dumps.map((dump) => dump.time);
  const times = Float64Array.from(new Set([...dumpTimes, ...live.flatMap((one) => one.times), ...(readings.length > 0 ? memory!.time : [])])).sort();
  const at = new Map([...times].map((time, i) => [time, i]));
  const spread = (series: Series, where: number[]): Series => {
    const values = new Array<Value>(times.length).fill(undefined);
    where.forEach((time, i) => { values[at.get(time)!] = series.values[i]; });
    return { ...series, values };
  };
  const rates: Series[] = [
    { key: "rate", kind: "rate", name: "Rate", values: ratesOf(heap, (dump) => dump.alloc_space?.value ?? null) },
    { key: "counted", kind: "counted", name: "Counted rate", values: ratesOf(heap, (dump) => dump.exact_bytes) },
  ];
  const series = [...live.map((one) => spread(one.series, one.times)), ...readings.map((reading) => spread(reading, memory!.time))];
  return {
    seconds: [...times].map((time) => (time - beginning) / 1e9),
    series: others.length > 0 ? series : joinCurve(series, heap.exact),
    rates: heap.dumps.length > 1 ? rates.filter((one) => hasValue(one.values)).map((one) => spread(one, dumpTimes)) : [],
  };
}

/** Return where a series has the value, or the gap, that is nearest to an index; -1: nowhere. */
export function indexNear(values: Value[], index: number): number {
  for (let away = 0; away < values.length; away++)
    for (const i of [index - away, index + away]) if (values[i] !== undefined) return i;
  return -1;
}

// --- marks ---

/** What a reader must know of a dump. Each kind has a shape and a word. */
export type MarkKind = "lost" | "note" | "interval" | "incomplete";

export interface Mark {
  dump: number;
  kind: MarkKind;
  word: string; // beside the shape
  words: string; // the whole
}

const SLOWED = 0.01; // threads that waited for less of the time have no mark

const since = (dump: number) => (dump === 0 ? "Before dump 1" : `Between dumps ${dump} and ${dump + 1}`);

function lossMarks(heap: Heap, dump: Dump, i: number): Mark[] {
  const marks: Mark[] = [];
  for (const { name, amount } of dump.losses ?? []) {
    const loss = heap.losses.find((one) => one.name === name);
    const seconds = (dump.time - (heap.dumps[i - 1]?.time ?? dump.start)) / 1e9;
    if (!loss || (loss.unit === "us" && amount / 1e6 < SLOWED * seconds)) continue;
    const [kind, word] = loss.affects_figures ? (["lost", "lost"] as const) : (["note", loss.unit === "us" ? "slowed" : "note"] as const);
    marks.push({ dump: i, kind, word, words: `${since(i)}: ${lossInWords({ ...loss, amount })}` });
  }
  return marks;
}

/** Why a dump was taken that nobody asked for. */
const causeMark = (dump: Dump, i: number): Mark[] =>
  dump.cause ? [{ dump: i, kind: "note", word: "by itself", words: `Dump ${i + 1} was taken because ${dump.cause}` }] : [];

function intervalMark(heap: Heap, dump: Dump, i: number): Mark[] {
  const before = i > 0 ? heap.dumps[i - 1]!.interval_bytes : heap.first_interval_bytes;
  const now = dump.interval_bytes;
  if (before === null || now === null || before === 0 || now <= before) return [];
  const words = `${since(i)}: the interval was raised from ${intervalInWords(before)} to ${intervalInWords(now)}, because samples came too fast. Later estimates are coarser`;
  return [{ dump: i, kind: "interval", word: intervalInWords(now), words }];
}

/** Return the marks of a heap, by dump. */
export function marksOf(heap: Heap): Mark[] {
  return heap.dumps.flatMap((dump, i) => [
    ...(dump.incomplete ? [{ dump: i, kind: "incomplete" as const, word: "incomplete", words: `Incomplete: ${dump.why_incomplete}. Its estimates are too low` }] : []),
    ...lossMarks(heap, dump, i),
    ...intervalMark(heap, dump, i),
    ...causeMark(dump, i),
  ]);
}

/** Return the dumps nearest to both ends of a range of time: [base, dump]. A base of -1: the start. */
export function dumpsOfRange(heap: Heap, from: number, to: number): [number, number] | null {
  const dump = keptDump(heap, dumpBefore(heap, to), -1);
  const base = keptDump(heap, dumpBefore(heap, from), -1);
  if (dump < 0) return null;
  if (base < dump) return [base, dump];
  const next = keptDump(heap, dump + 1, 1);
  return next < 0 ? null : [base, next];
}
