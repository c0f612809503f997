// SPDX-License-Identifier: Apache-2.0
/*
 * The 95 % interval of an estimate, computed as in src/profile/confidence_interval.c, whose header explains
 * the method. The page needs it for sums that it forms itself. Tests compare the results of both.
 */
"use strict";

const FlameInterval = (() => {
  const LOW = 0.4, HIGH = 0.7; /* weights of the prior, in samples */
  const TWO_SIDES = 1.959964, ONE_SIDE = 1.644854;
  const NONE_MISSED = 0.025, WHOLE_ONE_SIDE = 0.96, WHOLE_TWO_SIDES = 0.975;
  const COUNTED = 50, STEPS = 100000, SLACK = 0.4;
  const SMALLEST_BYTES = 24, UNSEEN = 3, SEVERAL = 0.7;
  const SEEN_ROUNDING_BYTES = 0.01, SEEN_ROUNDING = 1e-10;

  function gammaQuantile(mean, variance, deviations) {
    const scale = variance / mean, shape = mean / scale;
    const root = 1 - 1 / (9 * shape) + deviations / (3 * Math.sqrt(shape));
    return root > 0 ? scale * shape * root ** 3 : 0;
  }

  function wholeQuantile(mean, variance, probability) {
    const per = (variance - mean) / mean, size = mean / per, ratio = per / (1 + per);
    let term = Math.exp(-size * Math.log1p(per)), sum = term, misses = 0;
    for (; sum < probability && misses < STEPS; misses++) {
      term *= (ratio * (size + misses)) / (misses + 1);
      sum += term;
    }
    return misses;
  }

  /* Estimates the calls that were not sampled; null if nothing is known about them. */
  function missedOf([, count, , countVariance, samples]) {
    const missed = count - samples;
    if (!(samples > 0) || !(countVariance > 0) || !(missed > 1e-9 * count)) return null;
    const per = Math.max((countVariance - missed) / missed, 1e-9);
    return { count: missed, variance: missed * (1 + per), per,
             mayBeNone: Math.exp((-missed / per) * Math.log1p(per)) >= NONE_MISSED };
  }

  function around(estimate, low, high) {
    return { low: Math.min(Math.max(low, 0), estimate), high: Math.max(high, estimate) };
  }

  function ofSum(estimate, variance) {
    if (!(estimate > 0) || !(variance > 0)) return { low: estimate, high: estimate };
    const weight = variance / estimate;
    const limit = (prior, deviations) =>
      gammaQuantile(estimate + prior * weight, variance + prior * weight * weight, deviations);
    return around(estimate, limit(LOW, -TWO_SIDES), limit(HIGH, TWO_SIDES));
  }

  function spreadOf(ratio) {
    const root = Math.sqrt(Math.max(ratio, 1));
    let half = Math.min(Math.sqrt(6 * (root - 1)), 12);
    for (let i = 0; i < 8 && half > 1e-6; i++) {
      const slope = Math.cosh(half) - root;
      if (!(slope > 0)) break;
      half = Math.max(half - (Math.sinh(half) - root * half) / slope, 0);
    }
    return 2 * half;
  }

  function unseenCount([, count, , countVariance, samples], interval) {
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

  /* sums: bytes, count, their variances, samples; interval: mean bytes between samples. */
  function ofCount(sums, interval) {
    const [, count, , countVariance, samples] = sums;
    if (!(samples > 0)) return ofSum(count, countVariance);
    const missed = missedOf(sums);
    if (!missed) return { low: count, high: count };
    const e = missed.per, more = e * (1 + e);
    let low = 0, high;
    if (!missed.mayBeNone)
      low = gammaQuantile(missed.count + LOW * e, missed.variance + LOW * more, -TWO_SIDES);
    const mean = missed.count + HIGH * e, variance = missed.variance + HIGH * more;
    if (missed.count < COUNTED)
      high = wholeQuantile(mean, variance, missed.mayBeNone ? WHOLE_ONE_SIDE : WHOLE_TWO_SIDES);
    else high = gammaQuantile(mean, variance, TWO_SIDES);
    high += unseenCount(sums, interval);
    return around(count, Math.floor(samples + low), samples + high);
  }

  /* Returns a lower limit of the sampled bytes, like seen_bytes_least() in confidence_interval.c. */
  function seenBytesLeast([bytes, count, variance, , samples], missed) {
    const squares = missed.per * missed.count;
    const shares = Math.min((samples * missed.count) / count,
                            missed.count - squares / (1 + Math.sqrt(squares)));
    return Math.ceil(bytes - Math.sqrt(variance * Math.max(shares, 0)) - SEEN_ROUNDING_BYTES - SEEN_ROUNDING * bytes);
  }

  function ofBytes(sums) {
    const [bytes, , variance] = sums;
    const all = ofSum(bytes, variance), missed = missedOf(sums);
    if (!(all.high > all.low) || !missed) return all;
    const e = missed.per, size = Math.sqrt(variance / (missed.count * (1 + e)));
    const missedBytes = Math.min(size * missed.count, bytes), seen = bytes - missedBytes;
    let high = seen + gammaQuantile(missedBytes + HIGH * size * e, variance + HIGH * size * size * e * (1 + e),
                                    missed.mayBeNone ? ONE_SIDE : TWO_SIDES);
    const least = seenBytesLeast(sums, missed);
    if (!missed.mayBeNone) return around(bytes, Math.max(all.low, least), high);
    const whole = wholeQuantile(missed.count + HIGH * e, missed.variance + HIGH * e * (1 + e), WHOLE_ONE_SIDE);
    high = whole > 0 ? Math.max(high, seen + size * (whole + SLACK)) : bytes;
    return around(bytes, least, high);
  }

  return { ofBytes, ofCount };
})();
