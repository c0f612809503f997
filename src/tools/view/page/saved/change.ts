// SPDX-License-Identifier: Apache-2.0
// A change between two estimates, and which changes are beyond chance, computed as the program does it:
// src/profile/compare/estimate_change.h explains the method. Tests compare both.
import { calibrationLeaves, cut, limitsOfChange, limitsOfPart, type Calibration, type Limits, type Sums } from "../interval";

const LEVEL = 0.01;
const ROUNDING = 1e-12;
const VARIANCE_ROUNDING = 1e-9;
const SAMPLES_APART_MIN = 1e-6;
const UNSEEN_PROBABILITY = 0.05;

/** Return the difference of two estimates that counts as equal. Integers are exact. */
function roundingOf(one: number, other: number): number {
  const sum = Math.abs(one) + Math.abs(other);
  return sum < 2 ** 53 && Number.isInteger(one) && Number.isInteger(other) ? 0 : ROUNDING * sum;
}

export function restOf(whole: number, common: number): number {
  const rest = whole - common;
  return rest > roundingOf(whole, common) ? rest : 0;
}

export function varianceRestOf(whole: number, common: number): number {
  const rest = whole - common;
  return rest > VARIANCE_ROUNDING * Math.abs(whole) ? rest : 0;
}

// --- how likely ---

/** The complementary error function, for x >= 0: a series below 2, Lentz's continued fraction above. */
export function erfc(x: number): number {
  if (x < 2) {
    let term = x;
    let sum = x;
    for (let n = 1; n < 100 && Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
      term *= (2 * x * x) / (2 * n + 1);
      sum += term;
    }
    return 1 - (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
  }
  let fraction = x;
  let c = x;
  let d = 0;
  for (let n = 1; n < 300; n++) {
    d = 1 / (x + (n / 2) * d);
    c = x + n / 2 / c;
    fraction *= c * d;
    if (Math.abs(c * d - 1) < 1e-15) break;
  }
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / fraction;
}

/** Return the probability that two Poisson numbers of mean `mean` / 2 each differ by `difference` or more. */
function differenceTail(difference: number, mean: number): number {
  const at = difference - 0.5;
  if (!(at > 0)) return 1;
  const slope = at / mean;
  const point = Math.asinh(slope);
  const root = Math.sqrt(1 + slope * slope);
  const distance = 2 * mean * (slope * point - (slope * slope) / (1 + root));
  const r = Math.sqrt(Math.max(distance, 0));
  const q = 2 * Math.sinh(point / 2) * Math.sqrt(mean * root);
  let tail = erfc(r * Math.SQRT1_2) / 2;
  if (r > 1e-3) tail += (Math.exp(-distance / 2) / Math.sqrt(2 * Math.PI)) * (1 / q - 1 / r);
  return Math.min(Math.max(2 * tail, 0), 1);
}

/** Return the weight of a sample that only one side can have, or 0. */
function weightOf(all: Sums, counts: boolean): number {
  const variance = counts ? all.countVariance : all.bytesVariance;
  const estimate = counts ? all.count : all.bytes;
  const missed = all.count - all.samples;
  if (!(variance > 0) || !(estimate > 0)) return 0;
  if (!(all.samples > 0) || !(missed > VARIANCE_ROUNDING * all.count) || !(all.countVariance > 0)) return variance / estimate;
  const calls = all.countVariance / missed;
  return counts ? calls : Math.sqrt(all.bytesVariance / all.countVariance) * calls;
}

export interface Change {
  value: number;
  limits: Limits | null; // null: the file contains no variance
  probability: number; // of this change or a larger one by chance
  probabilityLeast: number; // if all samples were on one side
  isCounted?: boolean; // both sides are counted: the change is exact
  isPartial?: boolean; // as `isCounted`, but the counts lack calls: its limits are unknown
}

function lacksVariance(sums: Sums, interval: number): boolean {
  return interval !== 1 && sums.count + sums.bytes > 0 && (!(sums.samples > 0) || interval === 0) && !(sums.bytesVariance > 0);
}

/** Upper bounds of the memory without samples: with 95 % confidence, and certain. */
export interface Unseen {
  chance: number;
  left: number;
}

/** Bounds of each part by the exact totals, in bytes or calls. */
export interface Bounds {
  gainedMost: number; // 0: unknown
  lostMost: number;
  gainedUnseen: Unseen; // of sums over a heap
  lostUnseen: Unseen;
  same: boolean; // both sides are of the same moment: nothing differs
  apart: boolean; // the sides are of two processes: what one has not sampled, the other may have
  total?: { before: number; after: number; isCounted: boolean; isPartial: boolean }; // whole heaps as reports show them
}

export const unseenMost = ({ chance, left }: Unseen) => Math.min(chance, left);

const raise = (limits: Limits, estimate: number, unseen: Unseen): Limits => ({ low: limits.low, high: Math.max(limits.high, estimate + unseenMost(unseen)) });

/** Return the probability that `value` or more was live on the other side without any sample. */
const unseenProbability = (value: number, { chance, left }: Unseen) => (chance > 0 && value <= left ? UNSEEN_PROBABILITY ** (value / chance) : 0);

/** How each side was sampled: the later one, then the earlier one. */
export interface Sampling {
  intervals: [number, number];
  calibrations: [Calibration, Calibration];
}

function varianceLeft(sums: Sums, counts: boolean, all: Calibration): number {
  return (counts ? sums.countVariance : sums.bytesVariance) * calibrationLeaves(sums, counts, all);
}

function probabilitiesOf(value: number, gained: Sums, lost: Sums, counts: boolean, [ofGained, ofLost]: [Calibration, Calibration]): [number, number] {
  const all: Sums = {
    bytes: gained.bytes + lost.bytes,
    count: gained.count + lost.count,
    bytesVariance: gained.bytesVariance + lost.bytesVariance,
    countVariance: gained.countVariance + lost.countVariance,
    samples: gained.samples + lost.samples,
  };
  const weight = weightOf(all, counts);
  const variance = varianceLeft(gained, counts, ofGained) + varianceLeft(lost, counts, ofLost);
  const apart = weight > 0 ? variance / (weight * weight) : 0;
  if (apart < SAMPLES_APART_MIN) return value !== 0 ? [0, 0] : [1, 1];
  return [differenceTail(Math.abs(value) / weight, apart), differenceTail((counts ? all.count : all.bytes) / weight, apart)];
}

/** `isOfHeap`: of sums over a whole heap. */
export function changeOf(gained: Sums, lost: Sums, counts: boolean, { intervals, calibrations }: Sampling, bounds: Bounds, isOfHeap = false): Change {
  const more = counts ? gained.count : gained.bytes;
  const less = counts ? lost.count : lost.bytes;
  const differenceOf = (one: number, other: number) => (Math.abs(one - other) <= roundingOf(one, other) ? 0 : one - other);
  const total = isOfHeap ? bounds.total : undefined;
  const value = total ? differenceOf(total.after, total.before) : differenceOf(more, less);
  if (total?.isCounted) {
    const chance = value !== 0 ? 0 : 1;
    return { value, limits: { low: value, high: value }, probability: chance, probabilityLeast: chance, isCounted: true, isPartial: total.isPartial };
  }
  const limits = (sums: Sums, side: 0 | 1) => limitsOfPart(sums, counts, intervals[side], calibrations[side]);
  let up = limits(gained, 0);
  let down = limits(lost, 1);
  let [probability, probabilityLeast] = probabilitiesOf(differenceOf(more, less), gained, lost, counts, calibrations);
  if (isOfHeap) {
    up = raise(up, more, bounds.gainedUnseen);
    down = raise(down, less, bounds.lostUnseen);
    const other = more > less ? bounds.lostUnseen : bounds.gainedUnseen;
    if (differenceOf(more, less) !== 0) probability = Math.max(probability, unseenProbability(Math.abs(more - less), other));
  } else if (bounds.apart && (more === 0) !== (less === 0)) {
    const isGain = more > 0; // as leave_room_in_row() in estimate_change.c
    const unseen = isGain ? bounds.lostUnseen : bounds.gainedUnseen;
    if (isGain) down = raise(down, 0, unseen);
    else up = raise(up, 0, unseen);
    const chance = unseenProbability(Math.abs(value), unseen);
    [probability, probabilityLeast] = [Math.max(probability, chance), Math.max(probabilityLeast, chance)];
  }
  const isUncertain = lacksVariance(gained, intervals[0]) || lacksVariance(lost, intervals[1]);
  const change = isOfHeap && bounds.same && value === 0 ? { low: 0, high: 0 } : limitsOfChange(more, cut(up, bounds.gainedMost), less, cut(down, bounds.lostMost), value);
  return { value, limits: isUncertain ? null : change, probability, probabilityLeast };
}

/** Return the numbers of the changes that are beyond chance, in order (Holm's procedure). */
export function marksOf(changes: Change[]): number[] {
  const tested = changes.map((_, i) => i).filter((i) => changes[i]!.limits !== null && changes[i]!.probabilityLeast <= LEVEL);
  tested.sort((a, b) => changes[a]!.probability - changes[b]!.probability);
  const marks = [];
  for (const [i, index] of tested.entries()) {
    if (changes[index]!.probability > LEVEL / (tested.length - i)) break;
    if (changes[index]!.value !== 0) marks.push(index);
  }
  return marks.sort((a, b) => a - b);
}
