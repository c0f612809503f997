// SPDX-License-Identifier: Apache-2.0
// The first screen in sentences: how large a heap is, how it moved, what holds it, and what part of the
// process's memory it is. A change is only called one if it is beyond what chance explains.
import { dumpIndex, processTitle, type Place } from "./model";
import type { Selection } from "./state";
import type { Dump, Figure, Loss, Table } from "./types";
import { bytesInWords, countInWords, figureInWords, plural, shareInWords, timeInWords } from "./words";

/** Whether two estimates differ by more than their margins explain; null: their limits are unknown. */
export function isBeyondChance(now: Figure, before: Figure): boolean | null {
  if (now.low === null || now.high === null || before.low === null || before.high === null) return null;
  const change = now.value - before.value;
  if (change > 0) return change > Math.hypot(now.value - now.low, before.high - before.value);
  return -change > Math.hypot(now.high - now.value, before.value - before.low);
}

const isExact = (figure: Figure) => figure.low === figure.value && figure.high === figure.value;

function largest(place: Place, dump: Dump, holders: Table | null): string | null {
  const where = `live in ${processTitle(place.process)}, ${place.heap.name}`;
  if (dump.space === null) return `How much is ${where} is unknown: the file does not contain it.`;
  const row = holders?.row[0];
  const held = row ? (row.self_bytes ?? row.bytes) : null;
  const all = `${figureInWords(dump.space, false).replace(/^a/, "A")} ${dump.space.value === 1 ? "is" : "are"} ${where}`;
  if (!row || !held || !(held.value > 0)) return `${all}.`;
  return `\`${row.key}\` holds ${shareInWords(held.value, dump.space.value)} of the ${figureInWords(dump.space, false)} ${where}.`;
}

/** The change since the dump that is compared, or since the first. */
function movement(dump: Dump, { heap }: Place, base: string): string | null {
  const isCompared = /^\d+$/.test(base); // with a dump of this heap
  const from = heap.dumps[isCompared ? Number(base) : 0];
  if (!from || from === dump || !dump.space || !from.space) return null;
  const change = dump.space.value - from.space.value;
  const span = timeInWords(Math.abs(dump.time - from.time) / 1e9);
  const then = `at ${isCompared ? `dump ${Number(base) + 1}` : "the first dump"}, ${span} ${from.time > dump.time ? "later" : "earlier"}`;
  const beyond = isBeyondChance(dump.space, from.space);
  if (change === 0) return `That is as much as ${then}.`;
  if (beyond === false) return `That is as much as ${then}: the difference is within chance.`;
  const words = `That is ${bytesInWords(Math.abs(change))} ${change > 0 ? "more" : "less"} than ${then}`;
  if (isExact(dump.space) && isExact(from.space)) return `${words}.`;
  return beyond === null ? `${words}; whether that is chance is unknown.` : `${words}, beyond chance.`;
}

/** A dump knows the peak until it was taken. */
function peak(dump: Dump, isLast: boolean): string | null {
  const { max, space } = dump;
  if (!max || !(max.value > 0)) return null;
  if (space !== null && space.value > 0.98 * max.value)
    return isLast ? "It is as large now as it has ever been." : "It was as large then as it had ever been.";
  return `At its peak${isLast ? "" : " until then"} it was ${figureInWords(max, false)}.`;
}

/** What was counted, and how much of it is free. Live bytes of which some were lost do not tell that. */
function churn(dump: Dump, isPartial: boolean): string | null {
  if (dump.exact_bytes === null || dump.exact_calls === null || !(dump.exact_bytes > 0)) return null;
  const words = `${bytesInWords(dump.exact_bytes)} were allocated in ${plural(dump.exact_calls, "call")}, counted`;
  const freed = dump.space ? 1 - dump.space.value / dump.exact_bytes : 0;
  if (isPartial || !(freed > 0.005 && freed <= 1)) return `${words}.`;
  return `${words}; ${freed < 1 && freed >= 0.9995 ? "nearly all" : freed === 1 ? "all" : shareInWords(freed, 1)} of it is free again.`;
}

function resident(place: Place, dump: Dump): string | null {
  const memory = place.process?.memory;
  if (!memory?.rss || !dump.space) return null;
  const away = (i: number) => Math.abs(memory.time[i]! - dump.time);
  let nearest = -1;
  let most = 0;
  memory.rss.forEach((bytes, i) => {
    if (bytes === null) return;
    if (nearest < 0 || away(i) < away(nearest)) nearest = i;
    most = Math.max(most, bytes);
  });
  const rss = dump.rss_bytes ?? memory.rss[nearest];
  if (!rss) return null;
  const share = dump.space.value <= rss ? `; the heap's live bytes are ${shareInWords(dump.space.value, rss)} of that` : "";
  // Memory is read a few times a second: it may have been more between two readings, and after the last.
  const atMost = most > rss ? ` It reached at least ${bytesInWords(most)}.` : "";
  const when = dump.rss_bytes ? "then" : "at the nearest reading";
  return `The process had ${bytesInWords(rss)} resident ${when}${share}.${atMost}`;
}

/** Return the sentences about a heap at the selected dump, the most important first. */
export function sentencesOf(place: Place, { dump, base }: Pick<Selection, "dump" | "base">, holders: Table | null): string[] {
  const at = place.heap.dumps[dumpIndex(place.heap, dump)];
  if (!at) return [];
  const found = [largest(place, at, holders), movement(at, place, base), peak(at, at === place.heap.dumps.at(-1)), churn(at, place.heap.partial), resident(place, at)];
  return found.filter((sentence) => sentence !== null);
}

/** "12 samples in signal handlers, ...: use a larger interval". */
export function lossInWords(loss: Loss): string {
  const amounts: Record<string, string> = { bytes: bytesInWords(loss.amount), us: timeInWords(loss.amount / 1e6) };
  const amount = loss.amount > 0 ? `${amounts[loss.unit] ?? countInWords(loss.amount)} ` : "";
  return `${amount}${loss.words}${loss.remedy !== "" ? `: ${loss.remedy}` : ""}`;
}
