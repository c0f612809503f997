// SPDX-License-Identifier: Apache-2.0
// Colours of boxes: a module's name alone decides its hue, from the palette of Okabe and Ito, which
// colour-blind people can tell apart; functions of a module differ a little in lightness. Text on every fill has
// the contrast of WCAG AA (4.5 : 1), which a test checks.
import { shortModule, valueAt, type Tree } from "../tree";
import { GROUPS, type Group } from "../types";

export type Rgb = readonly [number, number, number];

export interface Theme {
  dark: boolean;
  ground: Rgb;
  text: Rgb;
  narrow: Rgb;
  root: Rgb;
  match: Rgb;
}

export const LIGHT: Theme = {
  dark: false,
  ground: [255, 255, 255],
  text: [23, 25, 28],
  narrow: [222, 225, 229],
  root: [226, 229, 233],
  match: [255, 149, 72],
};
export const DARK: Theme = {
  dark: true,
  ground: [24, 26, 29],
  text: [240, 242, 244],
  narrow: [56, 60, 66],
  root: [60, 65, 72],
  match: [176, 84, 12],
};

const OKABE_ITO: Rgb[] = [
  [86, 180, 233], // sky blue
  [230, 159, 0], // orange
  [0, 158, 115], // bluish green
  [204, 121, 167], // reddish purple
  [240, 228, 66], // yellow
  [0, 114, 178], // blue
  [213, 94, 0], // vermilion
];
const NEUTRAL: Rgb = [140, 147, 156]; // the C library, the loader, and modules beyond the palette
const GREW: Rgb = [213, 94, 0];
const SHRANK: Rgb = [0, 114, 178];
const DEEP: Rgb = [20, 22, 25];
const SHADES = 5;

export const packed = ([red, green, blue]: Rgb) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
export const css = ([red, green, blue]: Rgb) => `rgb(${red} ${green} ${blue})`;

export function mix(one: Rgb, other: Rgb, share: number): Rgb {
  const part = (i: 0 | 1 | 2) => Math.round(one[i] * (1 - share) + other[i] * share);
  return [part(0), part(1), part(2)];
}

function hash(text: string): number {
  let value = 2166136261;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return value >>> 0;
}

const SYSTEM = /^(libc|libm|ld-linux[-\w]*|libpthread|libdl)[.-]|^\[?kernel|^\[vdso\]/;
const HUES = 2 * OKABE_ITO.length;

/** Return the hue of a name, which is the same in every dump, profile and page. */
const hueOfName = (name: string) => hash(name) % HUES;

const hueOfModule = (module: string) => (SYSTEM.test(module) ? -1 : hueOfName(module));

function luminance(colour: Rgb): number {
  const part = (value: number) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * part(colour[0]) + 0.7152 * part(colour[1]) + 0.0722 * part(colour[2]);
}

/** The contrast of WCAG, from 1 to 21. */
export function contrast(one: Rgb, other: Rgb): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

/** Return a colour as bright as light text on it allows, then darker by `more`. */
function darkened(colour: Rgb, theme: Theme, more: number): Rgb {
  let share = 0.2;
  while (share < 0.8 && contrast(theme.text, mix(colour, DEEP, share)) < 5) share += 0.02;
  return mix(colour, DEEP, share + more);
}

/** A function without a module has a hue by its name, since grey alone would tell nothing apart. */
function hueOf(name: string, module: string): number {
  return module === "" ? hueOfName(name) : hueOfModule(shortModule(module));
}

/** The fill of a hue in a theme; shade: 0 to SHADES - 1. */
export function fillOf(hue: number, shade: number, theme: Theme): Rgb {
  const isNeutral = hue < 0 || hue >= 2 * OKABE_ITO.length;
  const base = isNeutral ? NEUTRAL : OKABE_ITO[hue % OKABE_ITO.length]!;
  const isSecond = hue >= OKABE_ITO.length && !isNeutral; // a paler round through the palette
  if (theme.dark) return darkened(base, theme, (isSecond ? 0.12 : 0) + 0.03 * shade);
  return mix(base, [255, 255, 255], (isNeutral ? 0.55 : isSecond ? 0.68 : 0.4) + 0.035 * shade);
}

/** Return the modules of a tree, those with most memory first. */
function modulesOf(tree: Tree): string[] {
  const weights = new Map<string, number>();
  const modules = tree.functions.map((one) => shortModule(one.module));
  for (let i = 1; i < tree.count; i++) {
    const module = modules[tree.function[i]!] ?? "";
    if (module !== "") weights.set(module, (weights.get(module) ?? 0) + Math.abs(valueAt(tree, i)));
  }
  return [...weights].sort((a, b) => b[1] - a[1]).map(([module]) => module);
}

export const LEGEND_MAX = 12;

/** Say what the colours of a tree mean. */
export function legendOf(tree: Tree, theme: Theme): { words: string; fill: Rgb }[] {
  if (!tree.lost) return modulesOf(tree).map((module) => ({ words: module, fill: fillOf(hueOfModule(module), 1, theme) }));
  const changes: [string, number][] = [["new", 1], ["doubled", 0.5], ["halved", -0.5], ["gone", -1]];
  const fills = changes.map(([words, change]) => ({ words, fill: changeFill(change, true, theme) }));
  return [...fills, { words: "within chance", fill: changeFill(0, false, theme) }];
}

function faded(colour: Rgb, theme: Theme): Rgb {
  return mix(colour, theme.ground, theme.dark ? 0.62 : 0.68);
}

/** Colours by function, ready for pixels. `matched`: others fade. */
export function functionColours(tree: Tree, theme: Theme, matched: Uint8Array | null): Uint32Array {
  return Uint32Array.from(tree.functions, (one, i) => {
    if (tree.header.groups && GROUPS.includes(one.kind as Group)) return packed(theme.root);
    const fill = fillOf(hueOf(one.name, one.module), (hash(one.name) >>> 8) % SHADES, theme);
    if (!matched) return packed(fill);
    return packed(matched[i] ? theme.match : faded(fill, theme));
  });
}

/** The fill of a change, as a share of the larger side, from -1 (gone) to 1 (new); within chance it is grey. */
export function changeFill(change: number, beyondChance: boolean, theme: Theme): Rgb {
  const neutral = theme.narrow;
  if (!beyondChance || change === 0) return mix(neutral, change > 0 ? GREW : SHRANK, change === 0 ? 0 : 0.1);
  const strength = 0.1 + 0.5 * Math.min(Math.abs(change), 1);
  return mix(theme.dark ? [40, 43, 48] : [255, 255, 255], change > 0 ? GREW : SHRANK, strength);
}

/** Colours by node, of a difference. */
export function changeColours(tree: Tree, theme: Theme, matched: Uint8Array | null): Uint32Array {
  const before = tree.before!;
  const after = tree.after!;
  const colours = new Uint32Array(tree.count);
  for (let i = 0; i < tree.count; i++) {
    const most = Math.max(before[i]!, after[i]!);
    const fill = changeFill(most > 0 ? (after[i]! - before[i]!) / most : 0, tree.mark?.[i] === 1, theme);
    const isMatch = !matched || matched[tree.function[i]!];
    colours[i] = packed(isMatch ? fill : faded(fill, theme));
  }
  return colours;
}
