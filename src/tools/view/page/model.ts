// SPDX-License-Identifier: Apache-2.0
// Questions to the overview: which heap, dump, process a selection means, and their titles.
import type { Dump, Figure, Heap, Overview, Process, Profile, View, ViewName } from "./types";
import { selection as now, type Selection } from "./state";
import { bytesInWords, shortened, timeInWords } from "./words";

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

/** The peak of a heap, a choice beside its dumps: null if the last dump, which has its figures, does not know it. */
export function peakOf(heap: Heap): { time: number | null; bytes: Figure } | null {
  const bytes = heap.dumps[heap.dumps.length - 1]?.max ?? null;
  return bytes !== null && bytes.value > 0 ? { time: heap.peak_time, bytes } : null;
}

/** Return the selection of the peak: the last dump, in the view of the peak. What is compared stays, if it is another profile's. */
export function atPeak(): Partial<Selection> {
  const { base } = now();
  return { dump: null, base: base.includes(".") ? base : "", view: "max" };
}

export function isAtPeak(heap: Heap, { dump, view }: Pick<Selection, "dump" | "view">): boolean {
  return view === "max" && dumpIndex(heap, dump) === heap.dumps.length - 1 && peakOf(heap) !== null;
}

/** Return the selection of a dump. From the peak, it is of what was live then. */
export function atDump(heap: Heap, index: number): Partial<Selection> {
  return { dump: dumpChoice(heap, index), ...(isAtPeak(heap, now()) && { view: "space" }) };
}

/** Return the dump that is `step` dumps away from what is selected, in the direction of the step. -1: there is none. */
export function dumpBeside(heap: Heap, selected: Selection, step: number): number {
  const peak = isAtPeak(heap, selected) ? heap.peak_time : null;
  if (peak === null) return keptDump(heap, dumpIndex(heap, selected.dump) + step, step);
  const before = dumpBefore(heap, peak);
  return keptDump(heap, step < 0 ? before + step + 1 : before + step, step);
}

export function viewOf(overview: Overview, name: ViewName): View {
  return (
    overview.views.find((view) => view.name === name) ?? { name, title: name, bytes: !name.endsWith("objects") }
  );
}

const RANDOM_DIRECTORY = /^heap_profile-\w{6}$/; // that heap_profile chose: it says nothing to a reader

/** When a profile's last dump was, by the clock; null: unknown. */
export function endOf(profile: Profile): Date | null {
  const last = Math.max(...profile.heaps.map(({ dumps }) => dumps[dumps.length - 1]?.time ?? 0), 0);
  if (profile.realtime_ns === null || last === 0) return null;
  const date = new Date(Number(BigInt(profile.realtime_ns) / 1_000_000n) + last / 1e6);
  return Number.isNaN(date.getTime()) ? null : date;
}

/** The process whose heap has had most. */
function mainProcess(profile: Profile): Process | null {
  const most = (heap: Heap) => heap.dumps[heap.dumps.length - 1]?.max?.value ?? -1;
  const largest = profile.heaps.reduce<Heap | null>((one, other) => (one === null || most(other) > most(one) ? other : one), null);
  return (largest && profile.processes[largest.process]) ?? null;
}

/** Return the name of a profile: of its directory, if its file has the name that all such files have; the program
 * and the time, if the directory has a name by chance. */
export function profileTitle(profile: Profile): string {
  const parts = profile.path.split("/").filter((part) => part !== "" && part !== ".");
  const isUsual = /^(raw|symbolized)-trace$/.test(profile.name);
  const name = (isUsual ? parts[parts.length - 2] : undefined) ?? profile.name;
  const program = mainProcess(profile)?.name ?? "";
  if (!RANDOM_DIRECTORY.test(name) || program === "") return name;
  const end = endOf(profile);
  return end ? `${program}, ${end.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" })}` : program;
}

const APART_MOST = 60; // characters in a title

/** "cc1 (4711) main.c": with what tells it from others of its name. */
export function processTitle(process: Pick<Process, "name" | "pid" | "apart"> | null): string {
  if (!process || (process.name === "" && process.pid === 0)) return "unknown process";
  const apart = process.apart ? ` ${shortened(process.apart, APART_MOST)}` : "";
  return `${process.pid === 0 ? process.name : `${process.name || "?"} (${process.pid})`}${apart}`;
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

/** What a dump is in a view: the peak until then, or its moment. */
export function momentTitle(place: Place, index: number, view: ViewName): string {
  if (isAtPeak(place.heap, { dump: index, view })) return peakTitle(place);
  return `${view === "max" ? "the peak until dump" : "dump"} ${dumpTitle(place, index)}`;
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

/** "peak: 12.9 s, 245 MB" */
export function peakTitle(place: Place): string {
  const peak = peakOf(place.heap);
  if (!peak) return "no peak";
  if (peak.time === null && !place.heap.dumps[place.heap.dumps.length - 1]!.final) return `peak until then: ${bytesInWords(peak.bytes.value)}`;
  const when = peak.time === null ? "" : `${timeInWords(Math.max(secondsOf(place.profile, peak.time), 0))}, `;
  return `peak: ${when}${bytesInWords(peak.bytes.value)}`;
}

/** Return the selection with before and after exchanged; null: nothing is compared. */
export function swapped(overview: Overview, place: Place, selected: Selection): Partial<Selection> | null {
  const base = baseOf(overview, place, selected.base);
  if (!base) return null;
  const { heap } = base.place;
  const dump = dumpIndex(place.heap, selected.dump);
  return { heap: heap.id, dump: dumpChoice(heap, base.index), base: heap === place.heap ? String(dump) : `${place.heap.id}.${dump}`, zoom: "", frame: "" };
}

const profileIdOf = (heap: Heap) => heap.id.slice(0, heap.id.indexOf("."));

/** Return the selection of another heap at the same moments: its dumps that are nearest in time. Profiles share no clock. */
export function atHeap(from: Heap, selected: Selection, heap: Heap): Partial<Selection> {
  const isKnown = from.dumps.length > 0 && heap.dumps.length > 0 && profileIdOf(from) === profileIdOf(heap);
  if (!isKnown || isAtPeak(from, selected)) return openHeap(heap);
  const beside = (index: number) => keptDump(heap, nearestDump(heap, from.dumps[Math.min(index, from.dumps.length - 1)]!.time));
  const at = beside(dumpIndex(from, selected.dump));
  const base = /^\d+$/.test(selected.base) ? beside(Number(selected.base)) : at; // of another profile, it has no such heap
  const { view } = selected;
  return { ...openHeap(heap), view, dump: selected.dump === null ? null : dumpChoice(heap, at), base: base === at ? "" : String(base) };
}

/** Return the selection of a heap as it opens: at its last dump, or at the peak if that answers first. */
export function openHeap(heap: Heap): Partial<Selection> {
  const { view } = now();
  const isMoment = view === "space" || view === "max";
  return { heap: heap.id, dump: null, base: "", also: "", zoom: "", frame: "", ...(isMoment && { view: heap.first_view }) };
}
