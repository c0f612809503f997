// SPDX-License-Identifier: Apache-2.0
// The processes of a profile at a moment: the dump of each of their heaps that is nearest to it, resident
// memory, and what they report of their allocators. Nothing here touches the page.
import { isKept, processTitle, secondsOf } from "../model";
import type { Dump, Heap, Process, Profile, Reported, ViewName } from "../types";

const COLUMNS_MAX = 16; // of heaps, and of allocators

export interface HeapCell {
  heap: Heap;
  index: number; // of its dump
  dump: Dump;
}

export interface ProcessRow {
  title: string;
  command: string;
  time: number | null; // of its dump, in seconds
  hasEnded: boolean;
  rss: number | null;
  footprint: number | null;
  heaps: Map<string, HeapCell>;
  allocators: Map<string, Reported>;
}

/** Return the index of the nearest time that counts; -1: no time counts. */
function nearest(times: number[], time: number, counts: (index: number) => boolean = () => true): number {
  let best = -1;
  times.forEach((one, i) => { if (counts(i) && (best < 0 || Math.abs(one - time) < Math.abs(times[best]! - time))) best = i; });
  return best;
}

function rowOf(profile: Profile, process: Process, heaps: Heap[], reported: Reported[], moment: number): ProcessRow {
  const cells = new Map<string, HeapCell>();
  for (const heap of heaps) {
    const index = nearest(heap.dumps.map((dump) => dump.time), moment, (i) => isKept(heap, i));
    if (index >= 0 && heap.unseen === "") cells.set(heap.name, { heap, index, dump: heap.dumps[index]! });
  }
  const dumps = [...cells.values()].map((cell) => cell.dump);
  const time = dumps[0]?.time ?? null;
  const { memory } = process;
  return {
    title: processTitle(process), command: process.command, heaps: cells,
    time: time === null ? null : Math.max(secondsOf(profile, time), 0),
    hasEnded: dumps.length > 0 && dumps.every((dump) => dump.final && dump.time < moment),
    rss: dumps[0]?.rss_bytes ?? memory.rss?.[nearest(memory.time, time ?? moment, (i) => (memory.rss?.[i] ?? 0) > 0)] ?? null,
    footprint: reported.find((row) => row.name === "private_footprint" && !row.allocator)?.size ?? null,
    allocators: new Map(reported.filter((row) => row.allocator).map((row) => [row.name, row])),
  };
}

/** Return a row for each process; `reported` is of all processes. */
export function processRows(profile: Profile, reported: Reported[], moment: number): ProcessRow[] {
  const byProcess = <T extends { process: number }>(items: T[]) => {
    const lists = profile.processes.map((): T[] => []);
    for (const item of items) lists[item.process]?.push(item);
    return lists;
  };
  const heaps = byProcess(profile.heaps);
  const rows = byProcess(reported);
  return profile.processes.map((process, i) => rowOf(profile, process, heaps[i]!, rows[i]!, moment));
}

/** What an allocator holds by its own account: without what it shares, where that is known. */
export const reportedBytes = (row: Reported | undefined) => row?.effective_size ?? row?.size ?? null;

/** Return the figure that a column sorts by: "name", "time", "rss", "footprint", "heap:NAME", "allocator:NAME". */
function rankOf(row: ProcessRow, column: string, view: ViewName): number {
  const name = column.slice(column.indexOf(":") + 1);
  if (column.startsWith("heap:")) return row.heaps.get(name)?.dump[view]?.value ?? -1;
  if (column.startsWith("allocator:")) return reportedBytes(row.allocators.get(name)) ?? -1;
  if (column === "footprint") return row.footprint ?? -1;
  return (column === "rss" ? row.rss : row.time) ?? -1;
}

/** Return the rows with the largest of a column first, or by name. */
export function sortedRows(rows: ProcessRow[], column: string, view: ViewName): ProcessRow[] {
  if (column === "name") return [...rows].sort((a, b) => a.title.localeCompare(b.title));
  return [...rows].sort((a, b) => rankOf(b, column, view) - rankOf(a, column, view));
}

/** Return the columns of heaps or allocators, those that hold most first. */
export function columnsOfRows(rows: ProcessRow[], kind: "heap" | "allocator", view: ViewName): string[] {
  const names = new Set(rows.flatMap((row) => [...(kind === "heap" ? row.heaps : row.allocators).keys()]));
  const sum = (name: string) => rows.reduce((all, row) => all + Math.max(rankOf(row, `${kind}:${name}`, view), 0), 0);
  return [...names].map((name) => [name, sum(name)] as const).sort((a, b) => b[1] - a[1]).slice(0, COLUMNS_MAX).map(([name]) => name);
}

/** Return what the table lacks, in sentences. */
export function lackingInWords(rows: ProcessRow[]): string[] {
  const without = (lacks: (row: ProcessRow) => boolean) => rows.filter(lacks).length;
  const ofAll = (count: number) => (count === rows.length ? (count === 1 ? "the process" : "all processes") : `${count} of ${rows.length} processes`);
  const noHeap = without((row) => row.heaps.size === 0);
  const noRss = without((row) => row.rss === null);
  const sentences = [];
  if (noHeap > 0) sentences.push(`The profile has no heap of ${ofAll(noHeap)}: they were not profiled, or had no dump.`);
  if (rows.some((row) => row.allocators.size > 0))
    sentences.push("Sizes of allocators are those that the processes report. They have no backtraces, and no limits of an estimate.");
  if (noRss > 0) sentences.push(`The resident memory of ${ofAll(noRss)} is unknown.`);
  return sentences;
}
