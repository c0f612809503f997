// SPDX-License-Identifier: Apache-2.0
// Figures in words and limits of estimates: the page's are those of the program (figures.c).
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { cut, limitsOfBytes, limitsOfChange, limitsOfCount, type Limits } from "page/interval";
import { bytesInWords, countInWords, figureInWords, marginInWords, shareInWords, signedInWords, timeInWords } from "page/words";

interface Case {
  kind: string;
  value: number;
  text: string;
  low: number;
  high: number;
  counts: boolean;
  sums: number[];
  lost: number[];
  most: number;
  interval: number;
  bytes: [number, number];
  count: [number, number];
}

const cases = JSON.parse(readFileSync(process.env["FIGURES"]!, "utf8")) as Case[];
const ofKind = (kind: string) => {
  const found = cases.filter((one) => one.kind === kind);
  assert(found.length > 10, `${found.length} cases of ${kind}`);
  return found;
};

const formats: Record<string, (value: number) => string> = {
  bytes: bytesInWords,
  count: countInWords,
  time: timeInWords,
  "signed bytes": (value) => signedInWords(value, false),
  "signed count": (value) => signedInWords(value, true),
};

for (const [kind, format] of Object.entries(formats))
  test(`${kind} are formatted as in reports`, () => {
    for (const { value, text } of ofKind(kind)) assert.equal(format(value), text, String(value));
  });

test("margins are formatted as in reports", () => {
  for (const { value, low, high, counts, text } of ofKind("margin"))
    if (text !== "" && !(low === high)) assert.equal(marginInWords({ value, low, high }, counts), text, `${value} ${low} ${high} ${counts}`);
});

function isNear(mine: Limits, [low, high]: [number, number], what: string) {
  const near = (a: number, b: number) => Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b), 1);
  assert(near(mine.low, low) && near(mine.high, high), `${what}: ${mine.low} ${mine.high}, the program has ${low} ${high}`);
}

test("limits of estimates are the program's", () => {
  for (const one of ofKind("limits")) {
    const [bytes, count, bytesVariance, countVariance, samples] = one.sums as [number, number, number, number, number];
    const sums = { bytes, count, bytesVariance, countVariance, samples };
    isNear(limitsOfBytes(sums), one.bytes, `bytes of ${one.sums}`);
    isNear(limitsOfCount(sums, one.interval), one.count, `count of ${one.sums}, interval ${one.interval}`);
  }
});

test("what is unknown is not a number", () => {
  assert.equal(figureInWords(null, false), "unknown");
  assert.equal(marginInWords({ value: 5, low: null, high: null }, false), "± unknown");
  assert.equal(figureInWords({ value: 5000, low: 5000, high: 5000 }, false), "5.00 kB");
});

test("shares", () => {
  assert.equal(shareInWords(1, 0), "");
  assert.equal(shareInWords(1, 1), "100 %");
  assert.equal(shareInWords(0.123, 1), "12.3 %");
  assert.equal(shareInWords(0.01234, 1), "1.23 %");
});

test("limits of changes are the program's", () => {
  const sumsOf = ([bytes, count, bytesVariance, countVariance, samples]: number[]) =>
    ({ bytes: bytes!, count: count!, bytesVariance: bytesVariance!, countVariance: countVariance!, samples: samples! });
  for (const one of ofKind("change")) {
    const [gained, lost] = [sumsOf(one.sums), sumsOf(one.lost)];
    const limits = (sums: typeof gained) => (one.counts ? limitsOfCount(sums, one.interval) : limitsOfBytes(sums));
    const [more, less] = one.counts ? [gained.count, lost.count] : [gained.bytes, lost.bytes];
    isNear(limitsOfChange(more, cut(limits(gained), one.most), less, cut(limits(lost), 0)), [one.low, one.high], JSON.stringify(one));
  }
});
