// SPDX-License-Identifier: Apache-2.0
// What the timeline draws: uPlot's options for the series, and above them a strip of diamonds, one for
// each dump, and a strip of marks.
import uPlot from "uplot";
import type { BudgetLine } from "../budgets";
import { css, DARK, fillOf, LIGHT, type Theme } from "../flame/colours";
import { dumpIndex, isAtPeak, isKept, peakOf, type Place } from "../model";
import type { Mark, SeriesKind, Timeline } from "./series";
import type { Selection } from "../state";
import { amountInWords, bytesInWords, timeInWords } from "../words";

// Lengths in pixels.
const HEIGHT = 150;
const STRIP = 18; // for the diamonds
const MARK_STRIP = 16;
const DIAMOND = 6;
const MARK = 5; // half of a mark's width
const WORD = 8; // between words of marks
const PEAK_ROOM = 48; // for its word

export interface Colours extends Record<Exclude<SeriesKind, "low" | "high" | "other" | "layer">, string> {
  others: string[];
  layers: string[];
  band: string; ink: string; faint: string; line: string; accent: string; ground: string; warn: string;
}

const LAYERS = 8; // as many as the palette has hues, and a paler one
const layersIn = (theme: Theme) => Array.from({ length: LAYERS }, (_, i) => css(fillOf(i, 1, theme)));

export const COLOURS: Record<"light" | "dark", Colours> = {
  light: {
    layers: layersIn(LIGHT), rest: css(fillOf(-1, 1, LIGHT)),
    others: ["#cc79a7", "#009e73", "#d55e00", "#2f8fd0"], live: "#0072b2", curve: "#0072b2", band: "#0072b22e", rss: "#8a5a00", anonymous: "#b3541e", file: "#6b6f00", shmem: "#5a4fa0", swap: "#a04a7d",
    rate: "#00795a", counted: "#1b1d20", ink: "#1b1d20", faint: "#5c636b", line: "#e4e6e9", accent: "#0b5cad", ground: "#ffffff", warn: "#b23c00",
  },
  dark: {
    layers: layersIn(DARK), rest: css(fillOf(-1, 1, DARK)),
    others: ["#cc79a7", "#3cc79b", "#ff8a4c", "#2f8fd0"], live: "#56b4e9", curve: "#56b4e9", band: "#56b4e930", rss: "#e6b450", anonymous: "#e08a5a", file: "#c5c95a", shmem: "#b3a8f0", swap: "#d79ac0",
    rate: "#3cc79b", counted: "#eceef0", ink: "#eceef0", faint: "#a3abb4", line: "#2c3036", accent: "#7ab8ff", ground: "#181a1d", warn: "#ff9f6b",
  },
};

/** The colour of each series of bytes, by key. */
export function coloursOf(data: Timeline, colours: Colours): Map<string, string> {
  const all = [...data.series, ...data.rates];
  const others = all.filter((one) => one.kind === "other");
  const layers = all.filter((one) => one.kind === "layer").reverse();
  return new Map(all.map((one) => [one.key, one.kind === "other" ? colours.others[others.indexOf(one) % colours.others.length]!
    : one.kind === "layer" ? colours.layers[layers.indexOf(one) % colours.layers.length]!
    : one.kind === "low" || one.kind === "high" ? "transparent" : colours[one.kind]]));
}

const DASHES: Partial<Record<SeriesKind, number[]>> = { anonymous: [5, 3], file: [8, 3], shmem: [8, 3, 2, 3], swap: [2, 3], counted: [1, 3] };
const FONT = "11px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";

export interface Drawn {
  place: Place;
  selection: Selection;
  colours: Colours;
  beginning: number;
  marks: Mark[];
  limits: BudgetLine[];
}

export function clockInWords(seconds: number): string {
  const whole = Math.abs(seconds);
  if (whole >= 60) return timeInWords(whole);
  return `${Number(whole.toFixed(whole < 1 ? 3 : whole < 10 ? 2 : 1))} s`;
}

/** The chosen dump of the heap, unless it is the peak, and the one that it is compared with; -1: none. */
function chosenDumps({ place, selection }: { place: Place; selection: Selection }): { chosen: number; base: number } {
  const base = /^\d+$/.test(selection.base) ? Number(selection.base) : -1;
  const isPeak = isAtPeak(place.heap, selection) && place.heap.peak_time !== null;
  return { chosen: isPeak ? -1 : dumpIndex(place.heap, selection.dump), base: base < place.heap.dumps.length ? base : -1 };
}

function drawDiamond(context: CanvasRenderingContext2D, x: number, y: number, size: number) {
  context.beginPath();
  context.moveTo(x, y - size);
  context.lineTo(x + size, y);
  context.lineTo(x, y + size);
  context.lineTo(x - size, y);
  context.closePath();
  context.fill();
  context.stroke();
}

function drawDumps(plot: uPlot, drawn: Drawn) {
  const { ctx: context } = plot;
  const { place: { heap }, colours, beginning } = drawn;
  const ratio = devicePixelRatio;
  const { chosen, base } = chosenDumps(drawn);
  const marked = new Set(drawn.marks.map((mark) => mark.dump));
  const { left, width, top, height } = plot.bbox;
  const y = top - (STRIP / 2) * ratio;
  const size = DIAMOND * ratio;
  const at = (i: number) => plot.valToPos((heap.dumps[i]!.time - beginning) / 1e9, "x", true);
  const apart = heap.dumps.length > 1 ? (at(heap.dumps.length - 1) - at(0)) / (heap.dumps.length - 1) : Infinity;
  const isCrowded = apart < 2 * size;
  let last = -1; // the column that was filled last
  const draw = (i: number) => {
    const x = at(i);
    const isChosen = i === chosen || i === base;
    if (x < left - 1 || x > left + width + 1) return;
    if (isChosen) {
      context.fillStyle = colours.accent;
      context.fillRect(x - ratio / 2, y, ratio, top + height - y);
    }
    const stroke = marked.has(i) ? colours.warn : isChosen ? colours.accent : colours.faint;
    if (isCrowded && !isChosen) {
      if (Math.round(x) === last && !marked.has(i)) return;
      last = Math.round(x);
      context.fillStyle = stroke;
      context.globalAlpha = apart < 2 * ratio && !marked.has(i) ? 0.4 : 1; // no more than a bar
      context.fillRect(last, y - size, ratio, 2 * size);
      context.globalAlpha = 1;
      return;
    }
    context.fillStyle = i === chosen ? colours.accent : colours.ground;
    context.strokeStyle = stroke;
    context.lineWidth = (isChosen || marked.has(i) ? 2 : 1.25) * ratio;
    context.setLineDash(heap.dumps[i]!.incomplete ? [2 * ratio, 2 * ratio] : []);
    drawDiamond(context, x, y, size);
    context.setLineDash([]);
  };
  heap.dumps.forEach((_, i) => i !== chosen && i !== base && isKept(heap, i) && draw(i));
  if (base >= 0) draw(base);
  if (chosen >= 0) draw(chosen);
}

/** Whether layers add up to the whole heap. */
const isWhole = ({ filters, only }: Selection) => filters.length + only.length === 0;

/** A ring at the peak, and its word. It is between two dumps, where no line leads. */
function drawPeak(plot: uPlot, { place: { heap }, selection, colours, beginning }: Drawn) {
  const peak = peakOf(heap);
  if (!peak || peak.time === null || selection.view.endsWith("objects") || (selection.over !== "" && !isWhole(selection))) return;
  const { ctx: context } = plot;
  const ratio = devicePixelRatio;
  const { left, width, top, height } = plot.bbox;
  const [x, y] = [plot.valToPos((peak.time - beginning) / 1e9, "x", true), plot.valToPos(peak.bytes.value, "y", true)];
  if (x < left - 1 || x > left + width + 1) return;
  const isChosen = isAtPeak(heap, selection);
  context.strokeStyle = context.fillStyle = isChosen ? colours.accent : colours.live;
  if (isChosen) context.fillRect(x - ratio / 2, top, ratio, height);
  context.lineWidth = 2 * ratio;
  context.beginPath();
  context.arc(x, y, 4 * ratio, 0, 2 * Math.PI);
  if (isChosen) context.fill();
  context.stroke();
  context.font = FONT.replace("11px", `${11 * ratio}px`);
  context.textBaseline = "bottom"; // the line is below the peak
  context.textAlign = x > left + width - PEAK_ROOM * ratio ? "right" : "left";
  context.fillText("peak", x, y - 5 * ratio);
}

const LIMIT_MOST = 2.5; // a limit that is higher, times what is drawn, would leave no room for the lines

/** The limits of budgets that are in sight: each a dashed line with its words. A higher one has its words at the top. */
function drawLimits(plot: uPlot, { limits, colours }: Drawn) {
  const { ctx: context } = plot;
  const ratio = devicePixelRatio;
  const { left, width, top } = plot.bbox;
  context.font = FONT.replace("11px", `${11 * ratio}px`);
  context.textAlign = "left";
  context.textBaseline = "top";
  const height = 13 * ratio;
  let free = top; // below the words of higher limits
  for (const { bytes, title, fails } of [...limits].sort((a, b) => b.bytes - a.bytes)) {
    const isAbove = bytes > plot.scales["y"]!.max!;
    const y = isAbove ? top : Math.round(plot.valToPos(bytes, "y", true));
    context.fillStyle = context.strokeStyle = fails ? colours.warn : colours.ink;
    if (!isAbove) {
      context.lineWidth = 1.5 * ratio;
      context.setLineDash([8 * ratio, 4 * ratio]);
      context.beginPath();
      context.moveTo(left, y);
      context.lineTo(left + width, y);
      context.stroke();
      context.setLineDash([]);
    }
    const above = y - height - 2 * ratio; // else the words are below the line
    const at = isAbove ? free : above >= free ? above : Math.max(y + 3 * ratio, free);
    context.fillText(isAbove ? `↑ ${title}` : title, left + 4 * ratio, at);
    free = Math.max(at + height, isAbove ? 0 : y);
  }
}

/** A full triangle: lost; a hollow one: a note; an arrow up: interval; a cross: incomplete. */
function drawShape(context: CanvasRenderingContext2D, kind: Mark["kind"], x: number, y: number, size: number) {
  context.beginPath();
  if (kind === "incomplete") {
    context.moveTo(x - size, y - size);
    context.lineTo(x + size, y + size);
    context.moveTo(x + size, y - size);
    context.lineTo(x - size, y + size);
  } else if (kind === "interval") {
    context.moveTo(x, y + size);
    context.lineTo(x, y - size);
    context.moveTo(x - size * 0.7, y - size * 0.2);
    context.lineTo(x, y - size);
    context.lineTo(x + size * 0.7, y - size * 0.2);
  } else {
    context.moveTo(x, y - size);
    context.lineTo(x + size, y + size);
    context.lineTo(x - size, y + size);
    context.closePath();
  }
  if (kind === "lost") context.fill();
  context.stroke();
}

function drawMarks(plot: uPlot, { place, colours, beginning, marks }: Drawn) {
  const { ctx: context } = plot;
  const ratio = devicePixelRatio;
  const { left, width, top } = plot.bbox;
  const y = top - (STRIP + MARK_STRIP / 2) * ratio;
  const size = MARK * ratio;
  context.strokeStyle = context.fillStyle = colours.warn;
  context.lineWidth = 1.5 * ratio;
  context.font = FONT.replace("11px", `${11 * ratio}px`);
  context.textBaseline = "middle";
  context.textAlign = "left";
  const places = marks.map((mark) => plot.valToPos((place.heap.dumps[mark.dump]!.time - beginning) / 1e9, "x", true));
  let free = -Infinity; // right of what was drawn last
  marks.forEach((mark, i) => {
    const x = Math.max(places[i]!, free + size);
    if (places[i]! < left - 1 || places[i]! > left + width + 1 || x > places[i]! + 4 * size) return;
    drawShape(context, mark.kind, x, y, size);
    free = x + 1.5 * size;
    const end = free + context.measureText(mark.word).width;
    if (end + WORD * ratio > (places[i + 1] ?? left + width)) return;
    context.fillText(mark.word, free, y);
    free = end + (WORD / 2) * ratio;
  });
}

function drawRange(plot: uPlot, drawn: Drawn) {
  const { chosen, base } = chosenDumps(drawn);
  if (chosen < 0 || base < 0) return;
  const { left, width, top, height } = plot.bbox;
  const at = (i: number) => plot.valToPos((drawn.place.heap.dumps[i]!.time - drawn.beginning) / 1e9, "x", true);
  const from = Math.max(Math.min(at(base), at(chosen)), left);
  const to = Math.min(Math.max(at(base), at(chosen)), left + width);
  plot.ctx.fillStyle = drawn.colours.band;
  if (to > from) plot.ctx.fillRect(from, top, to - from, height);
}

function drawAll(plot: uPlot, drawn: Drawn) {
  plot.ctx.save();
  drawRange(plot, drawn);
  drawDumps(plot, drawn);
  drawPeak(plot, drawn);
  drawLimits(plot, drawn);
  drawMarks(plot, drawn);
  plot.ctx.restore();
}

function makeSeries(data: Timeline, colours: Colours, shown: Set<string>): uPlot.Series[] {
  const strokes = coloursOf(data, colours);
  const own = data.series.map((one): uPlot.Series => (one.kind === "layer" || one.kind === "rest" ? {
    scale: "y", stroke: colours.ink, fill: strokes.get(one.key), width: 1, points: { show: false },
  } : {
    scale: "y", show: one.kind === "low" || one.kind === "high" || shown.has(one.key), stroke: strokes.get(one.key),
    width: one.kind === "live" || one.kind === "curve" ? 2 : 1.25, dash: DASHES[one.kind], points: { show: false },
  }));
  const rates = data.rates.map((one): uPlot.Series => ({
    scale: "rate", show: shown.has(one.key), stroke: strokes.get(one.key), width: 1.25, dash: DASHES[one.kind],
    points: { show: false }, paths: uPlot.paths.stepped!({ align: -1 }),
  }));
  return [{}, ...own, ...rates];
}

export interface PlotRequest {
  data: Timeline;
  drawn: { current: Drawn };
  shown: Set<string>; // by key
  counts: boolean;
  width: number;
  showAll: () => void;
}

export function makeOptions({ data, drawn, shown, counts, width, showAll }: PlotRequest): uPlot.Options {
  const { colours, marks } = drawn.current;
  const axis = { stroke: colours.faint, font: FONT, ticks: { stroke: colours.line, size: 4 }, grid: { stroke: colours.line, width: 1 } };
  const [low, high] = (["low", "high"] as const).map((kind) => data.series.findIndex((one) => one.kind === kind) + 1) as [number, number];
  const hasRate = data.rates.some((one) => shown.has(one.key));
  const room = (_: uPlot, min: number | null, max: number | null): uPlot.Range.MinMax => [Math.min(min ?? 0, 0), (max ?? 1) > 0 ? (max ?? 1) * 1.08 : 1];
  const hasPeak = data.series.some((one) => one.kind === "layer") && isWhole(drawn.current.selection);
  const peak = counts ? 0 : (peakOf(drawn.current.place.heap)?.bytes.value ?? 0);
  const withPeak = (plot: uPlot, min: number | null, max: number | null) => {
    const most = shown.has("live") || shown.has("curve") || hasPeak ? Math.max(max ?? 0, peak) : max;
    const limits = drawn.current.limits.map(({ bytes }) => bytes).filter((bytes) => bytes <= LIMIT_MOST * (most ?? 0));
    return room(plot, min, Math.max(most ?? 0, ...limits));
  };
  return {
    width, height: HEIGHT + (marks.length > 0 ? MARK_STRIP : 0), legend: { show: false },
    padding: [STRIP + 6 + (marks.length > 0 ? MARK_STRIP : 0), hasRate ? 0 : 16, 0, 0],
    cursor: {
      y: false, drag: { x: true, y: false, setScale: false, dist: 5 }, points: { show: false },
      bind: {
        mousedown: (_, __, handler) => (event) => (event.shiftKey || event.button !== 0 ? null : handler(event)),
        dblclick: () => () => { showAll(); return null; },
      },
    },
    scales: { x: { time: false }, y: { range: withPeak }, rate: { range: room } },
    series: makeSeries(data, colours, shown),
    bands: low > 0 && high > 0 && shown.has("live") ? [{ series: [high, low], fill: colours.band }] : [],
    axes: [
      { ...axis, size: 24, values: (_, splits) => splits.map(clockInWords), space: 80 },
      { ...axis, scale: "y", size: 66, space: 30, values: (_, splits) => splits.map((value) => (value === 0 ? "0" : amountInWords(value, counts))) },
      ...(hasRate ? [{ ...axis, scale: "rate", side: 1 as const, size: 72, space: 30, grid: { show: false }, values: (_: uPlot, splits: number[]) => splits.map((value) => (value === 0 ? "0" : `${bytesInWords(value)}/s`)) }] : []),
    ],
    hooks: { drawAxes: [(plot) => drawAll(plot, drawn.current)] },
  };
}

export const plotHeight = (marks: Mark[]) => HEIGHT + (marks.length > 0 ? MARK_STRIP : 0);
