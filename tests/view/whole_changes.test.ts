// SPDX-License-Identifier: Apache-2.0
// Changes of whole heaps in a page that is a file: exact only if both sides are counted, and nothing is missing.
import assert from "node:assert/strict";
import { test } from "node:test";
import { boundsOf } from "page/saved/bounds";
import { figureOf } from "page/saved/table";
import { WIDTH, type Leaves, type Question } from "page/saved/leaves";

const FIGURES = 20; // more than a dump has

function made({ lacksCalls = false, leftOut = 0 }) {
  const side = (id: string, bytes: number, totals_partial: boolean) => ({
    id,
    heap: { interval_bytes: 4096, floor_bytes: 12000, as_reported: false },
    dump: {
      time: bytes, exact: false, partial: false, totals_partial, counted: [bytes, 10, 0, 0, 0, 0, 0], most: [bytes, 10], left_out: Array(FIGURES).fill(leftOut),
      whole: { alloc_space: { bytes: { value: bytes, low: bytes, high: bytes }, count: { value: 10, low: 10, high: 10 } } },
    },
  });
  const question = { at: side("1.0", 5000, lacksCalls), base: side("0.0", 3000, false), pair: { places: null }, view: "alloc_space" } as unknown as Question;
  const calibration = [0, 0, 0, 0, 0, 0, 0, 0];
  const leaves = { partial: false, intervals: [4096, 4096], calibrations: [calibration, calibration] } as unknown as Leaves;
  return { total: boundsOf(question, false).total, figure: figureOf(question, leaves, new Float64Array(2 * WIDTH + 2), false, true) };
}

test("a change between counted totals is exact", () => assert.deepEqual(made({}).figure, { value: 2000, low: 2000, high: 2000 }));

test("a change between totals that lack calls has no limits", () => assert.deepEqual(made({ lacksCalls: true }).figure, { value: 2000, low: null, high: null }));

test("a change of what a filter kept is not that of the whole heap", () => {
  const { total, figure } = made({ leftOut: 1 });
  assert.equal(total, undefined);
  assert.equal(figure.value, 0);
});
