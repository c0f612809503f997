// SPDX-License-Identifier: Apache-2.0
// Areas of plots are told apart: by a contrast of 3:1 between each of them and the line beside it, in both themes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { colourOf, KIND_COLOURS, LINES } from "page/memory_colours";
import { css, DARK, fillOf, LIGHT } from "page/flame/colours";

const LEAST = 3;

function luminance(colour: string): number {
  const parts = colour.startsWith("#") ? [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)) : colour.match(/[\d.]+/g)!.map(Number);
  const [red, green, blue] = parts.map((part) => part / 255).map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

test("the memory's areas differ from the lines between them, and lines from the ground", () => {
  for (const dark of [false, true]) {
    const lines = LINES[dark ? "dark" : "light"];
    for (const kind of Object.keys(KIND_COLOURS)) {
      const found = contrast(colourOf(kind, dark), lines.ground);
      assert(found >= LEAST, `${kind}, ${dark ? "dark" : "light"}: ${found.toFixed(2)}`);
    }
    assert(contrast(lines.ink, lines.ground) >= LEAST);
  }
});

test("the timeline's layers differ from the lines between them", () => {
  for (const [theme, ink] of [[LIGHT, "#1b1d20"], [DARK, "#eceef0"]] as const)
    for (const hue of [-1, 0, 1, 2, 3, 4, 5, 6, 7]) {
      const found = contrast(css(fillOf(hue, 1, theme)), ink);
      assert(found >= LEAST, `hue ${hue}: ${found.toFixed(2)}`);
    }
});
