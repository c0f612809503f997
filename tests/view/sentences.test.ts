// SPDX-License-Identifier: Apache-2.0
// The sentences of the first screen: what they compare with, and until when.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Place } from "page/model";
import { sentencesOf } from "page/sentences";

const counted = (value: number) => ({ value, low: value, high: value });
const dump = (seconds: number, space: number, max: number) =>
  ({ time: seconds * 1e9, space: counted(space), max: counted(max), exact_bytes: null, exact_calls: null });
const place = {
  process: { pid: 7, name: "made", memory: { time: [1e9, 2e9, 3e9], rss: [4000, 8000, 2000] } },
  heap: { name: "libc.malloc", dumps: [dump(1, 1000, 1000), dump(2, 3000, 3000), dump(3, 500, 3000)] },
} as unknown as Place;

test("the last dump is compared with the first, and knows the peak", () => {
  assert.deepEqual(sentencesOf(place, { dump: null, base: "" }, null), [
    "500 B are live in made (7), libc.malloc.",
    "That is 500 B less than at the first dump, 2.00 s earlier.",
    "At its peak it was 3.00 kB.",
    "The process had 2.00 kB resident at the nearest reading; the heap's live bytes are 25.0 % of that. It reached at least 8.00 kB.",
  ]);
});

test("an earlier dump knows the peak until then", () => {
  assert.deepEqual(sentencesOf(place, { dump: 1, base: "" }, null).slice(1), [
    "That is 2.00 kB more than at the first dump, 1.00 s earlier.",
    "It was as large then as it had ever been.",
    "The process had 8.00 kB resident at the nearest reading; the heap's live bytes are 37.5 % of that.",
  ]);
});

test("a comparison is with the dump that is chosen for it", () => {
  assert.equal(sentencesOf(place, { dump: null, base: "1" }, null)[1], "That is 2.50 kB less than at dump 2, 1.00 s earlier.");
  assert.equal(sentencesOf(place, { dump: 0, base: "2" }, null)[1], "That is 500 B more than at dump 3, 2.00 s later.");
});

test("what is free again is unknown if allocations or frees were lost", () => {
  const of = (partial: boolean) => {
    const dumps = place.heap.dumps.map((one) => ({ ...one, exact_bytes: 1000, exact_calls: 4 }));
    return sentencesOf({ ...place, heap: { ...place.heap, partial, dumps } }, { dump: null, base: "" }, null)[3];
  };
  assert.equal(of(false), "1.00 kB were allocated in 4 calls, counted; 50.0 % of it is free again.");
  assert.equal(of(true), "1.00 kB were allocated in 4 calls, counted.");
});
