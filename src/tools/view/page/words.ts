// SPDX-License-Identifier: Apache-2.0
// Figures in words, as the program's reports print them (src/tools/print/format.c): bytes in units of
// 1000, counts with commas, the margin of an estimate, times and shares. Tests compare both.
import type { Dimension, Figure, Heap, MaybeFigure } from "./types";

const MINUS = "\u2212"; // as wide as a plus
const BYTE_UNITS = ["B", "kB", "MB", "GB", "TB"];
const TIME_UNITS = ["us", "ms", "s"];

/** Like toFixed(), but ties go to the even digit, as printf() rounds them. */
function fixed(value: number, digits: number): string {
  const text = value.toFixed(digits);
  const isTie = value < 1e21 && /^50*$/.test(value.toFixed(digits + 20).slice(-20));
  if (!isTie || Number(text.at(-1)) % 2 === 0) return text;
  return text.slice(0, -1) + (Number(text.at(-1)) - 1);
}

function inUnits(size: number, units: string[]): string {
  let unit = 0;
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000;
    unit++;
  }
  const digits = unit === 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return `${fixed(size, digits)} ${units[unit]}`;
}

export const capitalized = (text: string) => text.slice(0, 1).toUpperCase() + text.slice(1);

export function bytesInWords(bytes: number): string {
  return (bytes <= -0.5 ? MINUS : "") + inUnits(Math.abs(bytes), BYTE_UNITS);
}

export function countInWords(count: number): string {
  const sign = count <= -0.5 ? MINUS : "";
  return sign + fixed(Math.abs(count), 0).replace(/\B(?=(\d{3})+$)/g, ",");
}

export function amountInWords(amount: number, counts: boolean): string {
  return counts ? countInWords(amount) : bytesInWords(amount);
}

export function signedInWords(amount: number, counts: boolean): string {
  const sign = roundsTo0(amount) ? "" : amount < 0 ? MINUS : "+";
  return sign + amountInWords(Math.abs(amount), counts);
}

const BINARY_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

function binaryInWords(bytes: number): string {
  let unit = 0;
  while (bytes >= 1024 && unit < BINARY_UNITS.length - 1) {
    bytes /= 1024;
    unit++;
  }
  return `${bytes} ${BINARY_UNITS[unit]}`;
}

/** A sampling interval: in units of 1024 if it is a whole number of them. */
export function intervalInWords(bytes: number): string {
  return bytes >= 1024 && bytes % 1024 === 0 ? binaryInWords(bytes) : bytesInWords(bytes);
}

/** How the allocations of a heap were seen. */
export function samplingInWords(heap: Pick<Heap, "unseen" | "exact" | "partial" | "interval_bytes">): string {
  if (heap.unseen !== "") return "not at all";
  if (heap.exact) return "every allocation";
  if (heap.interval_bytes === 0) return "unknown";
  if (heap.interval_bytes > 1) return `one sample in ${intervalInWords(heap.interval_bytes)}`;
  return heap.partial ? "every allocation that was not lost" : "as the program reported";
}

/** The limits of the classes of lifetimes, as the server has them, in ms. */
const LIFETIMES: [number, string][] = [
  [0, "0"], [1, "1 ms"], [10, "10 ms"], [100, "100 ms"], [1000, "1 s"], [10_000, "10 s"], [60_000, "1 min"], [600_000, "10 min"], [3_600_000, "1 h"],
];

function lifetimeInWords(value: string): string {
  if (value === "none") return "nothing freed";
  const at = LIFETIMES.findIndex(([ms]) => String(ms) === value);
  if (at < 0) return "unknown";
  if (at === 0) return "below 1 ms";
  const next = LIFETIMES[at + 1];
  return next ? `${LIFETIMES[at]![1]} to ${next[1]}` : `${LIFETIMES[at]![1]} and longer`;
}

function sizeInWords(value: string): string {
  const least = Number(value);
  if (!/^\d+$/.test(value)) return "unknown";
  if (least < 2) return least === 0 ? "below 1 B" : "1 B";
  return `${binaryInWords(least)} to ${binaryInWords(2 * least)}`;
}

/** A part of a selection: the value of only=DIMENSION:VALUE for people. */
export function partInWords(dimension: Dimension, value: string): string {
  const at = value.lastIndexOf("@");
  switch (dimension) {
    case "function":
    case "holder": return at > 0 ? `${value.slice(0, at)} in ${value.slice(value.lastIndexOf("/") + 1).replace(/^.*@/, "") || "no module"}` : value;
    case "thread": return value === "0" ? "unknown" : value;
    case "size": return sizeInWords(value);
    case "lifetime": return lifetimeInWords(value);
    default: return value === "" ? "none" : value;
  }
}

export function timeInWords(seconds: number): string {
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  if (minutes >= 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  if (minutes >= 1) return `${minutes} min ${whole % 60} s`;
  return inUnits(seconds * 1e6, TIME_UNITS);
}

export function shareInWords(part: number, whole: number): string {
  if (!(whole > 0)) return "";
  const percent = (100 * part) / whole;
  if (Math.abs(percent) >= 99.95 && Math.abs(percent) < 100.05) return "100 %";
  return `${percent.toFixed(Math.abs(percent) < 9.995 ? 2 : 1)} %`;
}

/** The change between two amounts in %. */
export function percentInWords(before: number, after: number): string {
  if (before === after) return "0 %";
  if (!(before > 0)) return "new";
  if (!(after > 0)) return "gone";
  const percent = (100 * (after - before)) / before;
  const digits = Math.abs(percent) < 9.95 ? 1 : 0;
  return `${percent < 0 ? MINUS : "+"}${countOrFixed(Math.abs(percent), digits)} %`;
}

const countOrFixed = (value: number, digits: number) => (digits === 0 ? countInWords(value) : value.toFixed(digits));

const roundsTo0 = (amount: number) => Math.abs(amount) < 0.5;

/** Both limits, with their unit once if they have the same. */
function rangeInWords(low: string, high: string): string {
  const unit = low.indexOf(" ");
  const isSame = unit >= 0 && high.includes(" ") && low.slice(unit) === high.slice(high.indexOf(" "));
  return `(${isSame ? low.slice(0, unit) : low} to ${high})`;
}

/** An amount; of what was retained, both of its bounds. */
export function valueInWords({ value, least = value }: Figure, counts: boolean): string {
  const [low, high] = [amountInWords(least, counts), amountInWords(value, counts)];
  return low === high ? high : `${low} to ${high}`;
}

/** The 95 % interval of an estimate: "± 418 kB", "(4.10 to 22.1 kB)", "(up to 4.10 kB)", "exact", "± unknown". */
export function marginInWords(figure: Figure, counts: boolean): string {
  const { value, low, high } = figure;
  if (low === null || high === null) return "± unknown";
  if (low === (figure.least ?? value) && high === value) return "exact";
  const words = (amount: number) => amountInWords(amount, counts);
  if (figure.least !== undefined) return rangeInWords(words(low), words(high));
  const shown = counts ? Math.sign(value) * Math.round(Math.abs(value)) : value;
  const below = shown - low < 0.5 ? 0 : shown - low;
  const above = high - shown < 0.5 ? 0 : high - shown;
  const hasLower = below > 0 && words(low) !== words(shown);
  const hasUpper = above > 0 && words(high) !== words(shown);
  if ((above <= 1.25 * below && below <= 1.25 * above) || (!hasLower && !hasUpper)) return `± ${words(Math.max(above, below))}`;
  return hasLower ? rangeInWords(words(low), words(high)) : `(up to ${words(high)})`;
}

/** Whether chance explains a change that is not marked, from its limits. `isJudged`: rows are judged at all. */
export function judgeInWords(low: number | null, high: number | null, isJudged: boolean): string {
  if (!isJudged) return "not judged at the peak";
  if (low === null || high === null) return "unknown";
  return low <= 0 && high >= 0 ? "within chance" : "may be chance";
}

/** A figure with its margin; a value that the file does not contain is unknown. */
export function figureInWords(figure: MaybeFigure, counts: boolean): string {
  if (figure === null) return "unknown";
  const margin = marginInWords(figure, counts);
  const amount = valueInWords(figure, counts);
  return margin === "exact" ? amount : `${amount} ${margin}`;
}

/** A text of at most so many characters: its middle is left out. */
export function shortened(text: string, most: number): string {
  const letters = [...text.slice(0, most + 1), ...(text.length > most + 1 ? text.slice(Math.max(text.length - most, most + 1)) : "")];
  if (letters.length <= most && text.length <= most + 1) return text;
  const head = Math.ceil((most - 1) / 2);
  return `${letters.slice(0, head).join("")}…${letters.slice(head + 1 - most).join("")}`;
}

/** "1 dump", "2 dumps". */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${countInWords(count)} ${count === 1 ? one : many}`;
}
