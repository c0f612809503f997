// SPDX-License-Identifier: Apache-2.0
// Sentences that only the page says: how a heap differs from the dump that is chosen for comparison, and losses.
import { dumpIndex, type Place } from "./model";
import type { Selection } from "./state";
import type { Figure, Loss } from "./types";
import { bytesInWords, countInWords, timeInWords } from "./words";

/** Whether two estimates differ by more than their margins explain; null: their limits are unknown. */
export function isBeyondChance(now: Figure, before: Figure): boolean | null {
  if (now.low === null || now.high === null || before.low === null || before.high === null) return null;
  const change = now.value - before.value;
  if (change > 0) return change > Math.hypot(now.value - now.low, before.high - before.value);
  return -change > Math.hypot(now.high - now.value, before.value - before.low);
}

const isExact = (figure: Figure) => figure.low === figure.value && figure.high === figure.value;

/** The change of a heap's live bytes from the dump of it that is compared; null: none is. A change is only called one if
 * it is beyond what chance explains. */
export function movementOf({ heap }: Place, { dump, base }: Pick<Selection, "dump" | "base">): string | null {
  const now = heap.dumps[dumpIndex(heap, dump)];
  const from = /^\d+$/.test(base) ? heap.dumps[Number(base)] : undefined;
  if (!now || !from || from === now || !now.space || !from.space) return null;
  const change = now.space.value - from.space.value;
  const span = timeInWords(Math.abs(now.time - from.time) / 1e9);
  const then = `at dump ${Number(base) + 1}, ${span} ${from.time > now.time ? "later" : "earlier"}`;
  const beyond = isBeyondChance(now.space, from.space);
  if (change === 0) return `As much is live as ${then}.`;
  if (beyond === false) return `As much is live as ${then}: the difference is within chance.`;
  const words = `${bytesInWords(Math.abs(change))} ${change > 0 ? "more" : "less"} is live than ${then}`;
  if (isExact(now.space) && isExact(from.space)) return `${words}.`;
  return beyond === null ? `${words}; whether that is chance is unknown.` : `${words}, beyond chance.`;
}

/** "12 samples in signal handlers, ...: use a larger interval". */
export function lossInWords(loss: Loss): string {
  const amounts: Record<string, string> = { bytes: bytesInWords(loss.amount), us: timeInWords(loss.amount / 1e6) };
  const amount = loss.amount > 0 ? `${amounts[loss.unit] ?? countInWords(loss.amount)} ` : "";
  return `${amount}${loss.words}${loss.remedy !== "" ? `: ${loss.remedy}` : ""}`;
}
