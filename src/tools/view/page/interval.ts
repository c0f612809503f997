// SPDX-License-Identifier: Apache-2.0
// The 95 % interval of an estimate from its five sums, computed as the program does it. The header
// src/profile/confidence_interval.h explains the method. Tests compare both.

/** Five sums over the samples of a place in the tree. */
export interface Sums {
  bytes: number;
  count: number;
  bytesVariance: number;
  countVariance: number;
  samples: number;
}

export interface Limits {
  low: number;
  high: number;
}

/** All samples that were calibrated together by a heap's exact totals: the variance of the estimate of all bytes and
 * of all calls, the missed calls, and of bytes and of calls the number of samples (null: not calibrated),
 * by how much missed bytes were multiplied at most (0: unknown), and the bias of the peak in bytes and in
 * calls, by variance (0: unknown, or not of the peak). */
export type Calibration = [number, number, number, number | null, number | null, number, number, number];

interface Missed {
  count: number;
  variance: number;
  per: number;
  mayBeNone: boolean;
}

const LOW = 0.4; // prior of the lower limit, in samples
const HIGH = 0.7;
const TWO_SIDES = 1.959964;
const ONE_SIDE = 1.644854;
const NONE_MISSED = 0.025;
const WHOLE_ONE_SIDE = 0.96;
const WHOLE_TWO_SIDES = 0.975;
const COUNTED = 50; // missed calls below which the limit is a whole number
const STEPS = 100000;
const SLACK = 0.4;
const SMALLEST_BYTES = 24;
const UNSEEN = 3;
const SEVERAL = 0.7;
const SAMPLES_IN_REST = 2;
const RAISED_PART = 0.6;
const SEEN_ROUNDING_BYTES = 0.01;
const SEEN_ROUNDING = 1e-10;

function gammaQuantile(mean: number, variance: number, deviations: number): number {
  const scale = variance / mean;
  const shape = mean / scale;
  const root = 1 - 1 / (9 * shape) + deviations / (3 * Math.sqrt(shape));
  return root > 0 ? scale * shape * root ** 3 : 0;
}

function wholeQuantile(mean: number, variance: number, probability: number): number {
  const per = (variance - mean) / mean;
  const size = mean / per;
  const ratio = per / (1 + per);
  let term = Math.exp(-size * Math.log1p(per));
  let sum = term;
  let misses = 0;
  for (; sum < probability && misses < STEPS; misses++) {
    term *= (ratio * (size + misses)) / (misses + 1);
    sum += term;
  }
  return misses;
}

/** Return the calls that sampling missed, or null if nothing is known of them. */
function missedOf({ count, countVariance, samples }: Sums): Missed | null {
  const missed = count - samples;
  if (!(samples > 0) || !(countVariance > 0) || !(missed > 1e-9 * count)) return null;
  const per = Math.max((countVariance - missed) / missed, 1e-9);
  const mayBeNone = Math.exp((-missed / per) * Math.log1p(per)) >= NONE_MISSED;
  return { count: missed, variance: missed * (1 + per), per, mayBeNone };
}

function around(estimate: number, low: number, high: number): Limits {
  return { low: Math.min(Math.max(low, 0), estimate), high: Math.max(high, estimate) };
}

function ofSum(estimate: number, variance: number): Limits {
  if (!(estimate > 0) || !(variance > 0)) return { low: estimate, high: estimate };
  const weight = variance / estimate;
  const limit = (prior: number, deviations: number) =>
    gammaQuantile(estimate + prior * weight, variance + prior * weight * weight, deviations);
  return around(estimate, limit(LOW, -TWO_SIDES), limit(HIGH, TWO_SIDES));
}

function spreadOf(ratio: number): number {
  const root = Math.sqrt(Math.max(ratio, 1));
  let half = Math.min(Math.sqrt(6 * (root - 1)), 12);
  for (let i = 0; i < 8 && half > 1e-6; i++) {
    const slope = Math.cosh(half) - root;
    if (!(slope > 0)) break;
    half = Math.max(half - (Math.sinh(half) - root * half) / slope, 0);
  }
  return 2 * half;
}

function unseenCount({ count, countVariance, samples }: Sums, interval: number): number {
  const squares = countVariance + count;
  const spread = spreadOf((samples * squares) / (count * count));
  if (spread < 1e-3) return 0;
  const perFactor = count / spread;
  const smallest = (interval * -Math.expm1(-spread) * count) / (spread * squares);
  const most = Math.log(smallest / SMALLEST_BYTES);
  if (!(most > 0)) return 0;
  const share = (UNSEEN * interval) / (perFactor * smallest);
  const factors = share < 1 ? Math.min(-Math.log1p(-share), most) : most;
  return Math.min(spread / SEVERAL, 1) * perFactor * factors * Math.exp(-smallest / interval);
}

/** Return the limits of the number of allocations; `interval`: mean bytes between two samples. */
export function limitsOfCount(sums: Sums, interval: number): Limits {
  const { count, countVariance, samples } = sums;
  if (!(samples > 0)) return ofSum(count, countVariance);
  const missed = missedOf(sums);
  if (!missed) return { low: count, high: count };
  const e = missed.per;
  const more = e * (1 + e);
  let low = 0;
  if (!missed.mayBeNone) low = gammaQuantile(missed.count + LOW * e, missed.variance + LOW * more, -TWO_SIDES);
  const mean = missed.count + HIGH * e;
  const variance = missed.variance + HIGH * more;
  let high =
    missed.count < COUNTED
      ? wholeQuantile(mean, variance, missed.mayBeNone ? WHOLE_ONE_SIDE : WHOLE_TWO_SIDES)
      : gammaQuantile(mean, variance, TWO_SIDES);
  high += unseenCount(sums, interval);
  return around(count, Math.floor(samples + low), samples + high);
}

/** Return the bytes that were certainly sampled: seen_bytes_least() in confidence_interval.c. */
function seenBytesLeast({ bytes, count, bytesVariance, samples }: Sums, missed: Missed): number {
  const squares = missed.per * missed.count;
  const shares = Math.min(
    (samples * missed.count) / count,
    missed.count - squares / (1 + Math.sqrt(squares)),
  );
  const deviation = Math.sqrt(bytesVariance * Math.max(shares, 0));
  return Math.ceil(bytes - deviation - SEEN_ROUNDING_BYTES - SEEN_ROUNDING * bytes);
}

/** Return a lower bound of the bytes that were sampled: profile_interval_seen_bytes(). */
export function seenBytes(sums: Sums): number {
  if (!(sums.samples > 0)) return sums.bytesVariance > 0 ? 0 : Math.max(sums.bytes, 0);
  const missed = missedOf(sums);
  return Math.max(missed ? Math.min(seenBytesLeast(sums, missed), sums.bytes) : sums.bytes, 0);
}

/** Return the limits of the bytes. */
export function limitsOfBytes(sums: Sums): Limits {
  const { bytes, bytesVariance } = sums;
  const all = ofSum(bytes, bytesVariance);
  const missed = missedOf(sums);
  if (!(all.high > all.low) || !missed) return all;
  const e = missed.per;
  const size = Math.sqrt(bytesVariance / (missed.count * (1 + e)));
  const missedBytes = Math.min(size * missed.count, bytes);
  const seen = bytes - missedBytes;
  const mean = missedBytes + HIGH * size * e;
  const variance = bytesVariance + HIGH * size * size * e * (1 + e);
  let high = seen + gammaQuantile(mean, variance, missed.mayBeNone ? ONE_SIDE : TWO_SIDES);
  const least = seenBytesLeast(sums, missed);
  if (!missed.mayBeNone) return around(bytes, Math.max(all.low, least), high);
  const whole = wholeQuantile(missed.count + HIGH * e, missed.variance + HIGH * e * (1 + e), WHOLE_ONE_SIDE);
  high = whole > 0 ? Math.max(high, seen + size * (whole + SLACK)) : bytes;
  return around(bytes, least, high);
}

/** Return the share of the variance that calibration leaves: profile_calibration_leaves(). */
export function calibrationLeaves(sums: Sums, counts: boolean, all: Calibration): number {
  const part = counts ? sums.countVariance : sums.bytesVariance;
  const whole = all[counts ? 1 : 0];
  const samples = all[counts ? 4 : 3];
  if (!samples || !(whole > 0) || missedOf(sums)?.mayBeNone) return 1;
  const share = part / (whole * (1 + SAMPLES_IN_REST / samples));
  const missed = (sums.count - sums.samples) / all[2];
  const apart = counts && missed > 0 && share > 0 ? (missed - share) ** 2 / share : 0;
  return Math.min(Math.max(1 - share + apart, 0), 1);
}

/** Return the bytes that were certainly sampled: seen_bytes_calibrated() in confidence_interval.c. */
function seenBytesCalibrated({ bytes, bytesVariance, countVariance, samples }: Sums, ratio: number): number {
  const e = (Math.sqrt(1 + (4 * countVariance) / samples) - 1) / 2;
  const missed = Math.sqrt((bytesVariance * samples * e) / (1 + e));
  return Math.ceil(bytes - ratio * missed - SEEN_ROUNDING_BYTES - SEEN_ROUNDING * bytes);
}

/** Return the limits of a part of what was calibrated together: profile_interval_calibrated(). */
function calibrated({ low, high }: Limits, sums: Sums, counts: boolean, all: Calibration): Limits {
  const value = counts ? sums.count : sums.bytes;
  const few = missedOf(sums);
  if (!counts && all[5] > 0 && few) {
    low = seenBytesCalibrated(sums, all[5]);
    if (!few.mayBeNone) low = Math.max(low, ofSum(sums.bytes, sums.bytesVariance).low);
    low = Math.min(Math.max(low, 0), value);
  }
  const width = Math.sqrt(calibrationLeaves(sums, counts, all));
  return { low: value - width * (value - low), high: value + width * (high - value) };
}

/** Return an estimate at the peak with a part of the bias that was taken from it: raised_peak() in estimates.c. */
function raisedPeak(sums: Sums, all: Calibration): Sums {
  const bytes = sums.bytes + RAISED_PART * all[6] * sums.bytesVariance;
  const count = sums.count + RAISED_PART * all[7] * sums.countVariance;
  const more = sums.count > 0 ? count / sums.count : 1;
  return {
    bytes,
    count,
    bytesVariance: sums.bytesVariance * (sums.bytes > 0 ? bytes / sums.bytes : 1),
    countVariance: sums.countVariance * more,
    samples: sums.samples * more,
  };
}

/** Return the limits of an estimate of one profile: interval_of() in estimates.c. */
export function limitsOfPart(sums: Sums, counts: boolean, interval: number, all: Calibration): Limits {
  const limits = (of: Sums) => calibrated(counts ? limitsOfCount(of, interval) : limitsOfBytes(of), of, counts, all);
  const found = limits(sums);
  return all[6] > 0 ? { low: found.low, high: Math.max(found.high, limits(raisedPeak(sums, all)).high) } : found;
}

/** Return limits that are at most what is certain: no more was allocated than was counted. 0: unknown. An estimate
 * above it is the upper limit. */
export function cut(limits: Limits, most: number, estimate = 0): Limits {
  return most > 0 ? { low: Math.min(limits.low, most), high: Math.max(Math.min(limits.high, most), estimate) } : limits;
}

/** The limits of gained less lost, from those of each: Zou and Donner's MOVER, as in estimate_change.c; with the
 * change itself. */
export function limitsOfChange(gained: number, up: Limits, lost: number, down: Limits, value = gained - lost): Limits {
  const more = Math.min(gained, up.high);
  const less = Math.min(lost, down.high);
  return {
    low: Math.min(more - less - Math.hypot(more - up.low, down.high - less), value),
    high: Math.max(more - less + Math.hypot(up.high - more, less - down.low), value),
  };
}
