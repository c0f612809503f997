// SPDX-License-Identifier: Apache-2.0
// The comparison with the dump that is chosen for it, in a sentence.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Place } from "page/model";
import { movementOf } from "page/sentences";
import type { Figure } from "page/types";

const counted = (value: number) => ({ value, low: value, high: value });
const dump = (seconds: number, space: Figure) => ({ time: seconds * 1e9, space });
const placeOf = (...dumps: object[]) => ({ heap: { dumps } }) as unknown as Place;
const place = placeOf(dump(1, counted(1000)), dump(2, counted(3000)), dump(3, counted(500)), dump(4, counted(500)));

test("a comparison is with the dump that is chosen for it", () => {
  assert.equal(movementOf(place, { dump: 2, base: "1" }), "2.50 kB less is live than at dump 2, 1.00 s earlier.");
  assert.equal(movementOf(place, { dump: 0, base: "1" }), "2.00 kB less is live than at dump 2, 1.00 s later.");
  assert.equal(movementOf(place, { dump: null, base: "2" }), "As much is live as at dump 3, 1.00 s earlier.");
});

test("nothing is compared without another dump of the heap", () => {
  for (const base of ["", "3", "9", "1.0.0"]) assert.equal(movementOf(place, { dump: null, base }), null);
});

test("only what chance does not explain is a change", () => {
  const of = (margin: number | null) => {
    const estimate = (value: number) => ({ value, low: margin === null ? null : value - margin, high: margin === null ? null : value + margin });
    return movementOf(placeOf(dump(1, estimate(1000)), dump(2, estimate(1400))), { dump: null, base: "0" });
  };
  assert.equal(of(100), "400 B more is live than at dump 1, 1.00 s earlier, beyond chance.");
  assert.equal(of(300), "As much is live as at dump 1, 1.00 s earlier: the difference is within chance.");
  assert.equal(of(null), "400 B more is live than at dump 1, 1.00 s earlier; whether that is chance is unknown.");
});
