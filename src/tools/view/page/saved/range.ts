// SPDX-License-Identifier: Apache-2.0
// What happened between two dumps of a heap, from the data of a page that is a file: src/tools/view/answers/answer_range.c
// explains the bounds of what was retained.
import type { SavedDump, SavedHeap } from "./data";
import type { RangeAnswer } from "../types";

const HALF_A_COUNT = 0.5; // as answer_range.c has it
const ALLOCATED = 0;
const FREED = 5;

const live = (heap: SavedHeap, sample: number, which: number) =>
  sample < 0 ? 0 : heap.samples.figures[ALLOCATED + which]![sample]! - heap.samples.figures[FREED + which]![sample]!;

/** Sum up a figure over a dump, with what a filter left out when the profile was read. */
const totalOf = (heap: SavedHeap, dump: SavedDump, figure: number) =>
  dump.samples.reduce((sum, sample) => sum + heap.samples.figures[figure]![sample]!, dump.left_out[figure]!);

/** `why`: the file cannot tell; "": it can. */
export function rangeOf(heap: SavedHeap, from: SavedDump, to: SavedDump, why: string): RangeAnswer {
  if (why !== "") return { why, allocated: null, freed: null, change: null, retained_least: null, retained_most: null };
  const { callsite, figures } = heap.samples;
  const before = new Map(Array.from(from.samples, (sample) => [callsite[sample]!, sample]));
  let least = 0;
  let most = 0;
  for (const sample of to.samples) {
    const earlier = before.get(callsite[sample]!) ?? -1;
    const allocated = figures[ALLOCATED]![sample]! - (earlier < 0 ? 0 : figures[ALLOCATED]![earlier]!);
    if (live(heap, sample, 1) - live(heap, earlier, 1) > HALF_A_COUNT) least += live(heap, sample, 0) - live(heap, earlier, 0);
    most += Math.max(Math.min(live(heap, sample, 0), allocated), 0);
  }
  const allocated = totalOf(heap, to, ALLOCATED) - totalOf(heap, from, ALLOCATED);
  const freed = totalOf(heap, to, FREED) - totalOf(heap, from, FREED);
  const retained_least = Math.max(least, 0);
  return { why, allocated, freed, change: allocated - freed, retained_least, retained_most: Math.max(most, retained_least) };
}
