// SPDX-License-Identifier: Apache-2.0
// The timeline of a heap: its live bytes with their ±, the process's memory, the rate of allocation, a
// diamond for each dump, and a mark where something was lost or the interval was raised. Clicking a
// diamond selects the dump; dragging over a range selects the difference between the dumps at its ends.
import uPlot from "uplot";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import {
  atDump, atPeak, beginningOf, dumpBeside, dumpIndex, dumpTitle, isAtPeak, keptDump, nearestDump, peakOf, peakTitle, type Place,
} from "../model";
import { dumpsOfRange, indexNear, marksOf, otherHeaps, timelineOf, type Mark, type Series, type SeriesKind, type Timeline as Data } from "./series";
import { Layers, OverChoice, stackOf, useCourse } from "./stack";
import { linesOf, useBudgets, type BudgetLine } from "../budgets";
import { useFold } from "../fold";
import { useConnection } from "../source";
import { select, selection as now, type Selection } from "../state";
import { useTheme } from "../theme";
import { COLOURS, coloursOf, makeOptions, plotHeight, type Colours, type Drawn } from "./draw";
import { attachPointer, type PointerActions } from "./pointer";
import { Range } from "./range";
import "./timeline.css";
import { clampSpan, formatSpan, panSpan, parseSpan, zoomSpan, type Span } from "./zoom";
import type { Dump, Overview } from "../types";
import { amountInWords, bytesInWords, capitalized, figureInWords, plural } from "../words";

const LOW = 560; // in a window that is lower, in pixels, the timeline is folded at first
const NEAR = 10; // a pointer this close to a diamond, in pixels, hits it
const SETTLED_MS = 200; // then a zoomed range is put into the URL

export function goToDump(place: Place, selection: Selection, step: number, widen: boolean) {
  const next = dumpBeside(place.heap, selection, step);
  if (next < 0) return;
  const widens = widen && !isAtPeak(place.heap, selection);
  const base = widens ? (selection.base === "" ? String(dumpIndex(place.heap, selection.dump)) : selection.base) : "";
  select({ ...atDump(place.heap, next), base: base === String(next) ? "" : base });
}

/** The lines that are shown; a button leads to the others. */
function Legend({ data, colours, shown, counts, index, onToggle }: {
  data: Data; colours: Colours; shown: Set<string>; counts: boolean; index: number; onToggle: (key: string) => void;
}) {
  const limit = (kind: SeriesKind, at: number) => data.series.find((one) => one.kind === kind)?.values[at] ?? null;
  const words = (one: Series) => {
    if (!shown.has(one.key) || index < 0) return "";
    const at = indexNear(one.values, index);
    const value = one.values[at] ?? null;
    if (value === null) return "unknown";
    if (one.kind === "rate" || one.kind === "counted") return `${bytesInWords(value)}/s`;
    return one.kind === "live" ? figureInWords({ value, low: limit("low", at), high: limit("high", at) }, counts) : amountInWords(value, counts);
  };
  const strokes = coloursOf(data, colours);
  const [showsAll, showAll] = useState(false);
  const lines = [...data.series, ...data.rates].filter((one) => one.kind !== "low" && one.kind !== "high");
  const others = lines.filter((one) => !shown.has(one.key));
  return (
    <div class="timeline-legend">
      {(showsAll ? lines : lines.filter((one) => shown.has(one.key))).map((one) => (
        <button type="button" key={one.key} class="series" aria-pressed={shown.has(one.key)} onClick={() => onToggle(one.key)}>
          <i class={`dash-${one.kind}`} style={{ borderTopColor: strokes.get(one.key) }} />
          {one.name} <span class="figures">{words(one)}</span>
        </button>
      ))}
      {others.length > 0 && (
        <button type="button" class="series more" aria-expanded={showsAll} title={others.map(({ name }) => name).join(", ")} onClick={() => showAll(!showsAll)}>
          {showsAll ? "fewer" : `${others.length} more`}</button>
      )}
    </div>
  );
}

/** `index`: of the dump that is described; -1: the peak is. */
function Title({ place, index, marks }: { place: Place; index: number; marks: Mark[] }) {
  const { hasGrown } = useConnection();
  const { heap } = place;
  const dump = heap.dumps[index];
  const own = marks.filter((mark) => mark.dump === index);
  return (
    <span class="timeline-title">
      <b>{index < 0 ? capitalized(peakTitle(place)) : !dump ? "No dump" : heap.dumps.length === 1 ? "One dump" : `Dump ${dumpTitle(place, index)}`}</b>
      {index >= 0 && peakOf(heap) && <>{" "}<button type="button" class="link" title="p" onClick={() => select(atPeak())}>{peakTitle(place)}</button></>}
      {heap.unfinished && <span class="faint"> · {hasGrown ? "recording" : "unfinished: still recording, or killed"}</span>}
      {dump && dump.exact_calls !== null && dump.exact_bytes !== null &&
        <span class="faint" title="Counted, not estimated"> · {bytesInWords(dump.exact_bytes)} allocated in {plural(dump.exact_calls, "call")}</span>}
      {own.map((mark) => <span class="warn" key={mark.words} title={mark.words}> · {mark.words}</span>)}
    </span>
  );
}

const TIP_MARKS = 6;

/** What happened at the dumps near the pointer. */
function MarkTip({ marks, x, width }: { marks: Mark[]; x: number; width: number }) {
  if (marks.length === 0) return null;
  const side = x > width / 2 ? { right: `${width - x + 8}px` } : { left: `${x + 8}px` };
  return (
    <div class="mark-tip" role="tooltip" style={side}>
      {marks.slice(0, TIP_MARKS).map((mark) => <p key={mark.words}>{mark.words}.</p>)}
      {marks.length > TIP_MARKS && <p class="faint">And {plural(marks.length - TIP_MARKS, "more mark")}: zoom in to read them.</p>}
    </div>
  );
}

/** The plot, and what of it is shown: the URL has it once it has settled. */
function useZoom(plot: { current: uPlot | null }, data: Data, time: string) {
  const whole: Span = { from: data.seconds[0] ?? 0, to: data.seconds[data.seconds.length - 1] ?? 0 };
  const span = useRef<Span>(whole);
  const written = useRef(time); // the span as the URL has it soon
  const inUrl = useRef(time); // what the URL had last; of a new value, others are the source
  const timer = useRef(0);
  function show(wanted: Span) {
    span.current = clampSpan(wanted, whole);
    plot.current?.setScale("x", { min: span.current.from, max: span.current.to });
  }
  function move(wanted: Span) {
    show(wanted);
    written.current = formatSpan(span.current, whole);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => select({ time: (inUrl.current = written.current) }, true), SETTLED_MS);
  }
  useEffect(() => () => clearTimeout(timer.current), []);
  useEffect(() => { if (time !== inUrl.current) show(parseSpan((written.current = inUrl.current = time)) ?? whole); }, [time]);
  return {
    begin: () => show(parseSpan(written.current) ?? whole),
    zoom: (factor: number, at?: number) => move(zoomSpan(span.current, factor, at)),
    pan: (share: number) => move(panSpan(span.current, share)),
    all: () => move(whole),
  };
}

interface Pointed {
  dump: number; // whose diamond is near; -1: none
  isPeak: boolean; // the peak is nearer
  marks: Mark[]; // that are near
  index: number; // of the values
  x: number;
}

const NOTHING_POINTED: Pointed = { dump: -1, isPeak: false, marks: [], index: -1, x: 0 };

function selectRange(place: Place, from: number, to: number) {
  const range = dumpsOfRange(place.heap, from, to);
  if (range) select({ ...atDump(place.heap, range[1]), base: range[0] >= 0 ? String(range[0]) : "" });
}

interface PlotProps {
  place: Place;
  selection: Selection;
  data: Data;
  marks: Mark[];
  limits: BudgetLine[];
  colours: Colours;
  shown: Set<string>;
  counts: boolean;
  onPoint: (pointed: Pointed) => void;
}

type Zoom = ReturnType<typeof useZoom>;

/** What the pointer does on a plot. `zoom` changes as the page is drawn. */
function actionsOf(made: uPlot, { place, marks, counts, onPoint }: PlotProps, zoom: { current: Zoom }): PointerActions {
  const { heap } = place;
  const beginning = beginningOf(place.profile);
  const away = (time: number, x: number) => Math.abs(made.valToPos((time - beginning) / 1e9, "x") - x);
  const isNear = (dump: number, x: number) => away(heap.dumps[dump]!.time, x) <= NEAR;
  /** Whether the pointer is at the peak, and not rather at this dump. */
  const isPeakNearer = (x: number, dump: number) => {
    const distance = !counts && peakOf(heap)?.time ? away(heap.peak_time!, x) : Infinity;
    return distance <= NEAR && (dump < 0 || distance < away(heap.dumps[dump]!.time, x));
  };
  const diamondAt = (x: number) => {
    const nearest = heap.dumps.length > 0 ? keptDump(heap, nearestDump(heap, beginning + made.posToVal(x, "x") * 1e9)) : -1;
    return nearest >= 0 && isNear(nearest, x) ? nearest : -1;
  };
  return {
    click: (x, withShift) => {
      const hit = diamondAt(x);
      // The peak is compared with other profiles' only.
      const compares = withShift && !isAtPeak(heap, now());
      if (isPeakNearer(x, hit) && !withShift) select(atPeak());
      else if (hit >= 0) select(compares ? { base: String(hit) } : { ...atDump(heap, hit), base: "" });
    },
    range: (from, to) => selectRange(place, beginning + from * 1e9, beginning + to * 1e9),
    hover: (x, index) => {
      const dump = diamondAt(x);
      onPoint({ dump, isPeak: isPeakNearer(x, dump), marks: marks.filter((mark) => isNear(mark.dump, x)), index, x: x + made.over.offsetLeft });
    },
    leave: () => onPoint(NOTHING_POINTED),
    zoom: (factor, at) => { onPoint(NOTHING_POINTED); zoom.current.zoom(factor, at); },
    pan: (share) => { onPoint(NOTHING_POINTED); zoom.current.pan(share); },
  };
}

/** Act on a key; false: the timeline has no such key. */
function actOnKey(event: KeyboardEvent, place: Place, selection: Selection, zoom: Zoom): boolean {
  switch (event.key) {
    case "ArrowLeft": goToDump(place, selection, -1, event.shiftKey); return true;
    case "ArrowRight": goToDump(place, selection, 1, event.shiftKey); return true;
    case "w": zoom.zoom(0.8); return true;
    case "s": zoom.zoom(1.25); return true;
    case "a": zoom.pan(-0.125); return true;
    case "d": zoom.pan(0.125); return true;
    case "Escape": zoom.all(); return true;
    default: return false;
  }
}

function Plot(props: PlotProps) {
  const { place, selection, data, marks, limits, colours, shown, counts } = props;
  const { heap, profile } = place;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const drawn = useRef<Drawn>(null!);
  drawn.current = { place, selection, colours, beginning: beginningOf(profile), marks, limits: counts ? [] : limits };
  const zoom = useZoom(plot, data, selection.time);
  const latest = useRef(zoom);
  latest.current = zoom;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const options = makeOptions({ data, drawn, shown, counts, width: element.clientWidth, showAll: () => latest.current.all() });
    const made = new uPlot(options, [data.seconds, ...[...data.series, ...data.rates].map((one) => one.values)] as uPlot.AlignedData, element);
    plot.current = made;
    latest.current.begin();
    attachPointer(made, actionsOf(made, props, latest));
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: plotHeight(marks) }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [data, marks, limits, colours, counts, [...shown].join()]);
  useEffect(() => plot.current?.redraw(false, true), [selection.dump, selection.base, selection.view, heap]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !plot.current || !actOnKey(event, place, selection, zoom)) return;
    event.preventDefault();
    event.stopPropagation();
  };
  const dump = dumpIndex(heap, selection.dump);
  const words = [isAtPeak(heap, selection) ? peakTitle(place) : dumpTitle(place, dump), ...marks.filter((mark) => mark.dump === dump).map((mark) => mark.words), ...(counts ? [] : limits.map(({ title }) => title))].join(". ");
  return (
    <div class="timeline-plot" style={{ height: `${plotHeight(marks)}px` }} ref={box} tabIndex={0} role="slider" aria-label={`Dump of ${heap.name}`}
      aria-valuemin={1} aria-valuemax={Math.max(heap.dumps.length, 1)} aria-valuenow={dump + 1} aria-valuetext={words} onKeyDown={onKeyDown} />
  );
}

export function Timeline({ overview, place, selection }: { overview: Overview; place: Place; selection: Selection }) {
  const { theme } = useTheme();
  const { heap, process, profile } = place;
  const beginning = beginningOf(profile);
  const counts = selection.view.endsWith("objects");
  const { value: course, error: courseError } = useCourse(selection);
  const data = useMemo(() => (course ? stackOf(course, heap, beginning) : timelineOf({ heap, others: otherHeaps(profile, heap), process, beginning, view: selection.view })),
    [heap, process, beginning, counts, course]);
  const marks = useMemo(() => marksOf(heap), [heap]);
  const { value: budgets } = useBudgets(overview, place, selection);
  const limits = useMemo(() => linesOf(budgets, place), [budgets, heap]);
  const hidden = new Set(selection.hidden.split(","));
  const [pointed, setPointed] = useState(NOTHING_POINTED);
  const [isFolded, fold] = useFold("timeline", () => innerHeight < LOW);
  const box = useRef<HTMLElement>(null);
  const colours = COLOURS[theme.dark ? "dark" : "light"];
  const hasPlot = data.seconds.length > 1;
  const shown = new Set([...data.series, ...data.rates].map((one) => one.key).filter((key) => !hidden.has(key)));
  // The dump that the line above the plot describes; -1: the peak.
  const isPeak = pointed.isPeak || (pointed.dump < 0 && isAtPeak(heap, selection));
  const described = isPeak ? -1 : pointed.dump >= 0 ? pointed.dump : dumpIndex(heap, selection.dump);
  const dump: Dump | undefined = heap.dumps[isPeak && heap.peak_time !== null ? nearestDump(heap, heap.peak_time) : described];
  const atCursor = pointed.index >= 0 ? pointed.index : dump ? data.seconds.indexOf((dump.time - beginning) / 1e9) : -1;
  const toggle = (key: string) => {
    if (!hidden.delete(key)) hidden.add(key);
    select({ hidden: [...hidden].filter((one) => one !== "").join(",") }, true);
  };
  return (
    <section class="timeline" aria-label="Timeline" ref={box}>
      <div class="timeline-head">
        <Title place={place} index={described} marks={marks} />
        {!isFolded && heap.dumps.length > 1 && <OverChoice selection={selection} />}
        {!isFolded && !course && <Legend data={data} colours={colours} shown={shown} counts={counts} index={atCursor} onToggle={toggle} />}
        {hasPlot && <button type="button" class="fold" aria-expanded={!isFolded} title={isFolded ? "Show the timeline" : "Fold the timeline"}
          onClick={fold}>{isFolded ? "▸" : "▾"}</button>}
      </div>
      {hasPlot && !isFolded && (
        <div class="timeline-room">
          <Plot place={place} selection={selection} data={data} marks={marks} limits={limits} colours={colours} shown={shown} counts={counts} onPoint={setPointed} />
          {course && <Layers course={course} selection={selection} colours={colours} dump={pointed.index >= 0 ? pointed.index : dumpIndex(heap, selection.dump)} />}
          <MarkTip marks={pointed.marks} x={pointed.x + 4} width={box.current?.clientWidth ?? 0} />
        </div>
      )}
      {courseError !== "" && <p class="range-line faint">{capitalized(courseError)}.</p>}
      {selection.base !== "" && !isAtPeak(heap, selection) && <Range place={place} selection={selection} />}
    </section>
  );
}
