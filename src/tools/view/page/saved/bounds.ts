// SPDX-License-Identifier: Apache-2.0
// What bounds a change in a page that is a file: the exact totals, and the memory that may have no sample.
// src/profile/unseen.c and src/profile/compare/diff_significance.c compute the same.
import type { Bounds, Unseen } from "./change";
import { seenBytes } from "../interval";
import type { Figure } from "../types";
import type { SavedDump, SavedHeap } from "./data";
import { isOfOneProcess, sumsOf, type Question, type Side } from "./leaves";

const CALL_BYTES_MIN = 24;
const NOTHING: Unseen = { chance: 0, left: 0 };

/** [bytes, calls, five sums of the samples]; Infinity: unknown. */
const countedOf = (dump: SavedDump) => dump.counted.map((value) => value ?? Infinity);

function unseenOf(heap: SavedHeap, counted: number[], counts: boolean): Unseen {
  if (heap.as_reported) return NOTHING;
  const bytes: Unseen = { chance: heap.floor_bytes, left: Math.max(counted[0]! - seenBytes(sumsOf(counted, 2)), 0) };
  if (!counts) return bytes;
  const calls = Math.max(counted[1]! - counted[6]!, 0);
  const isKnown = Number.isFinite(bytes.left) && Number.isFinite(calls) && calls > 0;
  const size = isKnown ? Math.max(Math.min(CALL_BYTES_MIN, bytes.left / calls), 1) : CALL_BYTES_MIN;
  return { chance: Math.min(bytes.chance, bytes.left) / size, left: calls };
}

/** Return the bounds of what was allocated between two dumps of a heap. */
function between(earlier: Side, later: Side, counts: boolean): { most: number; unseen: Unseen } {
  const before = countedOf(earlier.dump);
  const counted = countedOf(later.dump);
  for (let i = 0; i < 2; i++) if (Number.isFinite(counted[i])) counted[i]! -= Number.isFinite(before[i]) ? before[i]! : 0;
  for (let i = 2; i < 7; i++) counted[i] = Math.max(counted[i]! - before[i]!, 0);
  const [first, last] = [earlier, later].map(({ dump }) => dump.most[counts ? 1 : 0]) as [number, number];
  return { most: first > 0 && last > first ? last - first : 0, unseen: unseenOf(later.heap, counted, counts) };
}

/** Return the whole heaps' figures, and whether these are counted: then their change is exact, unless a count lacks calls.
    undefined: a filter left out a part when the profiles were read. */
function totalsOf({ at, base, view }: Question, counts: boolean): Bounds["total"] {
  const isWhole = [base!, at].every(({ dump }) => dump.left_out.every((sum) => sum === 0));
  if (!isWhole) return undefined;
  const [before, after] = [base!, at].map(({ dump }) => dump.whole[view][counts ? "count" : "bytes"]) as [Figure, Figure];
  const isCounted = [base!, at].every(({ dump }) => dump.most[0] > 0 && dump.most[1] > 0);
  const isPartial = [base!, at].some(({ dump }) => dump.totals_partial);
  return { before: before.value, after: after.value, isCounted: view.startsWith("alloc_") && isCounted, isPartial };
}

/** Return the bounds of the changes of a question. */
export function boundsOf(question: Question, counts: boolean): Bounds {
  const { at, base, view } = question;
  const before = base!;
  const unit = counts ? 1 : 0;
  const bounds: Bounds = {
    gainedMost: at.dump.most[unit],
    lostMost: before.dump.most[unit],
    gainedUnseen: unseenOf(at.heap, countedOf(at.dump), counts),
    lostUnseen: unseenOf(before.heap, countedOf(before.dump), counts),
    same: false,
    apart: !isOfOneProcess(question),
    total: totalsOf(question, counts),
  };
  if (!isOfOneProcess(question)) return bounds;
  const isForward = at.dump.time >= before.dump.time;
  const [one, other] = [before.dump.whole[view], at.dump.whole[view]];
  bounds.same = at.dump.time === before.dump.time ||
    (view === "max" && one.bytes.value === other.bytes.value && one.count.value === other.count.value);
  if (view !== "max") {
    const { most, unseen } = isForward ? between(before, at, counts) : between(at, before, counts);
    if (isForward) [bounds.gainedMost, bounds.gainedUnseen] = [most, unseen];
    else [bounds.lostMost, bounds.lostUnseen] = [most, unseen];
  }
  if (view.startsWith("alloc_")) bounds[isForward ? "lostUnseen" : "gainedUnseen"] = NOTHING;
  return bounds.same ? { ...bounds, gainedUnseen: NOTHING, lostUnseen: NOTHING } : bounds;
}
