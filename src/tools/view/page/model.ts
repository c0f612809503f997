// SPDX-License-Identifier: Apache-2.0
// Questions to the overview: which heap, dump, process a selection means, and their titles.
import type { Dump, Heap, Overview, Process, Profile, View, ViewName } from "./types";
import type { Selection } from "./state";
import { timeInWords } from "./words";

export interface Place {
  profile: Profile;
  process: Process | null;
  heap: Heap;
}

/** Return the heap "profile.heap" of the overview, or null. */
export function placeOf(overview: Overview, id: string): Place | null {
  for (const profile of overview.profiles)
    for (const heap of profile.heaps)
      if (heap.id === id) return { profile, heap, process: profile.processes[heap.process] ?? null };
  return null;
}

/** Return the selected dump's number: the last unless another is chosen. -1: the heap has no dumps. */
export function dumpIndex(heap: Heap, dump: number | null): number {
  const last = heap.dumps.length - 1;
  return dump === null ? last : Math.min(dump, last);
}

/** Whether graphs and tables of a dump can be asked for: a page that is a file may have only some dumps. */
export const isKept = (heap: Heap, dump: number) => heap.dumps[dump]?.kept ?? true;

/** Return the dump nearest to this one that the page has. With a step, look in its direction only. -1: not found. */
export function keptDump(heap: Heap, dump: number, step = 0): number {
  if (step !== 0) {
    for (let i = dump; i >= 0 && i < heap.dumps.length; i += step) if (isKept(heap, i)) return i;
    return -1;
  }
  for (let i = 0; i < heap.dumps.length; i++) {
    if (isKept(heap, dump - i)) return dump - i;
    if (isKept(heap, dump + i)) return dump + i;
  }
  return -1;
}

/** Return the selection of a dump. The last is "the last": it is another one as a recording goes on. */
export function dumpChoice(heap: Heap, index: number): number | null {
  return index === heap.dumps.length - 1 ? null : index;
}

export function viewOf(overview: Overview, name: ViewName): View {
  return (
    overview.views.find((view) => view.name === name) ?? { name, title: name, perfetto: "", bytes: !name.endsWith("objects") }
  );
}

/** Return the name of a profile: of its directory, if its file has the name that all such files have. */
export function profileTitle(profile: Profile): string {
  const parts = profile.path.split("/").filter((part) => part !== "" && part !== ".");
  const isUsual = /^(raw|symbolized)-trace$/.test(profile.name);
  return (isUsual ? parts[parts.length - 2] : undefined) ?? profile.name;
}

export function processTitle(process: Process | null): string {
  if (!process || (process.name === "" && process.pid === 0)) return "unknown process";
  return process.pid === 0 ? process.name : `${process.name || "?"} (${process.pid})`;
}

const beginnings = new WeakMap<Profile, number>();

/** When the first thing of a profile happened, from which the page counts time. */
export function beginningOf(profile: Profile): number {
  const known = beginnings.get(profile);
  if (known !== undefined) return known;
  let first = Infinity;
  for (const heap of profile.heaps) {
    const dump = heap.dumps[0];
    if (dump) first = Math.min(first, dump.start > 0 ? dump.start : dump.time);
  }
  for (const process of profile.processes) if (process.memory.time.length > 0) first = Math.min(first, process.memory.time[0]!);
  const beginning = first === Infinity ? 0 : first;
  beginnings.set(profile, beginning);
  return beginning;
}

/** Return the last dump at or before a time, in ns; -1: all dumps are later. */
export function dumpBefore(heap: Heap, time: number): number {
  let [low, high] = [0, heap.dumps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (heap.dumps[middle]!.time <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Return the dump nearest to a time, in ns. */
export function nearestDump(heap: Heap, time: number): number {
  const before = dumpBefore(heap, time);
  const [one, next] = [heap.dumps[before], heap.dumps[before + 1]];
  return one && (!next || time - one.time <= next.time - time) ? before : before + 1;
}

export function secondsOf(profile: Profile, time: number): number {
  return (time - beginningOf(profile)) / 1e9;
}

export function dumpTitle(place: Place, index: number): string {
  const dump = place.heap.dumps[index];
  if (!dump) return "no dump";
  if (place.heap.dumps.length === 1 && !(dump.time > beginningOf(place.profile))) return "the only one";
  const end = dump.final ? ", at the end" : "";
  return `${index + 1} of ${place.heap.dumps.length}: ${timeInWords(Math.max(secondsOf(place.profile, dump.time), 0))}${end}`;
}

/** The dump that a base names: of the same heap ("2") or of another profile ("1.0.5"). */
export function baseOf(overview: Overview, place: Place, base: string): { place: Place; index: number; dump: Dump } | null {
  if (base === "") return null;
  const parts = base.split(".");
  const of = parts.length === 3 ? placeOf(overview, `${parts[0]}.${parts[1]}`) : place;
  const index = Number(parts[parts.length - 1]);
  const dump = of?.heap.dumps[index];
  return of && dump ? { place: of, index, dump } : null;
}

/** Return the selection of a heap as it opens: at its last dump. */
export function openHeap(id: string): Partial<Selection> {
  return { heap: id, dump: null, base: "", also: "", zoom: "", frame: "" };
}
