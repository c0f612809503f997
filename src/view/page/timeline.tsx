// SPDX-License-Identifier: Apache-2.0
// The timeline of a heap: its live bytes with their ±, the process's memory, the rate of allocation, and a
// diamond for each dump. Clicking a diamond selects the dump; dragging over a range selects the difference
// between the dumps at its ends.
import uPlot from "uplot";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { beginningOf, dumpChoice, dumpIndex, dumpTitle, type Place } from "./model";
import { dumpsOfRange, marksOf, timelineOf, type Series, type Timeline as Data } from "./series";
import { isSaved } from "./saved";
import { useConnection } from "./source";
import { select, type Selection } from "./state";
import { useTheme } from "./theme";
import { amountInWords, bytesInWords, figureInWords, plural, timeInWords } from "./words";

// Lengths in pixels.
const HEIGHT = 150;
const STRIP = 18; // for the diamonds
const DIAMOND = 6;
const NEAR = 10; // a pointer this close to a diamond hits it

interface Colours {
  live: string; band: string; rss: string; anonymous: string; swap: string; rate: string;
  ink: string; faint: string; line: string; accent: string; ground: string; warn: string;
}

const COLOURS: Record<"light" | "dark", Colours> = {
  light: {
    live: "#0072b2", band: "#0072b22e", rss: "#8a5a00", anonymous: "#b3541e", swap: "#a04a7d", rate: "#00795a",
    ink: "#1b1d20", faint: "#5c636b", line: "#e4e6e9", accent: "#0b5cad", ground: "#ffffff", warn: "#b23c00",
  },
  dark: {
    live: "#56b4e9", band: "#56b4e930", rss: "#e6b450", anonymous: "#e08a5a", swap: "#d79ac0", rate: "#3cc79b",
    ink: "#eceef0", faint: "#a3abb4", line: "#2c3036", accent: "#7ab8ff", ground: "#181a1d", warn: "#ff9f6b",
  },
};

const DASHES: Partial<Record<Series["kind"], number[]>> = { anonymous: [5, 3], swap: [2, 3], rate: [1, 3] };

export function clockInWords(seconds: number): string {
  const whole = Math.abs(seconds);
  if (whole >= 60) return timeInWords(whole);
  return `${Number(whole.toFixed(whole < 1 ? 3 : whole < 10 ? 2 : 1))} s`;
}

interface Drawn {
  place: Place;
  selection: Selection;
  colours: Colours;
  beginning: number;
}

function drawDiamonds(plot: uPlot, { place, selection, colours, beginning }: Drawn) {
  const { ctx: context } = plot;
  const ratio = devicePixelRatio;
  const chosen = dumpIndex(place.heap, selection.dump);
  const base = /^\d+$/.test(selection.base) ? Number(selection.base) : -1;
  const marks = new Set(marksOf(place.heap).map((mark) => mark.dump));
  const y = plot.bbox.top - (STRIP / 2) * ratio;
  const size = DIAMOND * ratio;
  const isCrowded = (place.heap.dumps.length - 1) * 2 * size > plot.bbox.width;
  const at = (i: number) => plot.valToPos((place.heap.dumps[i]!.time - beginning) / 1e9, "x", true);
  const { left, width, top, height } = plot.bbox;
  context.save();
  if (chosen >= 0 && base >= 0) {
    const [from, to] = [Math.min(at(base), at(chosen)), Math.max(at(base), at(chosen))];
    context.fillStyle = colours.band;
    context.fillRect(Math.max(from, left), top, Math.min(to, left + width) - Math.max(from, left), height);
  }
  place.heap.dumps.forEach((dump, i) => {
    const x = at(i);
    if (x < left - 1 || x > left + width + 1) return;
    const isChosen = i === chosen || i === base;
    if (isChosen) {
      context.strokeStyle = colours.accent;
      context.lineWidth = ratio;
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(x, top + height);
      context.stroke();
    }
    const stroke = marks.has(i) || dump.incomplete ? colours.warn : isChosen ? colours.accent : colours.faint;
    if (isCrowded && !isChosen) {
      context.fillStyle = stroke;
      context.fillRect(Math.round(x), y - size, ratio, 2 * size);
      return;
    }
    context.beginPath();
    context.moveTo(x, y - size);
    context.lineTo(x + size, y);
    context.lineTo(x, y + size);
    context.lineTo(x - size, y);
    context.closePath();
    context.fillStyle = i === chosen ? colours.accent : colours.ground;
    context.strokeStyle = stroke;
    context.lineWidth = (isChosen || marks.has(i) ? 2 : 1.25) * ratio;
    context.fill();
    context.stroke();
  });
  context.restore();
}

function makeOptions(data: Data, width: number, drawn: { current: Drawn }, counts: boolean, shown: Set<string>): uPlot.Options {
  const { colours } = drawn.current;
  const font = "11px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";
  const axis = { stroke: colours.faint, font, ticks: { stroke: colours.line, size: 4 }, grid: { stroke: colours.line, width: 1 } };
  const low = data.series.findIndex((one) => one.kind === "low") + 1;
  const high = data.series.findIndex((one) => one.kind === "high") + 1;
  const series: uPlot.Series[] = [{}];
  for (const one of data.series) {
    const isLimit = one.kind === "low" || one.kind === "high";
    series.push({
      scale: "y", spanGaps: true, show: isLimit || shown.has(one.kind),
      stroke: isLimit ? "transparent" : colours[one.kind as "live"], width: one.kind === "live" ? 2 : 1.25,
      dash: DASHES[one.kind], points: { show: false },
    });
  }
  if (data.rate)
    series.push({ scale: "rate", spanGaps: true, show: shown.has("rate"), stroke: colours.rate, width: 1.25, points: { show: false }, paths: uPlot.paths.stepped!({ align: -1 }) });
  const hasRate = data.rate !== null && shown.has("rate");
  return {
    width, height: HEIGHT, padding: [STRIP + 6, hasRate ? 0 : 16, 0, 0], legend: { show: false },
    cursor: { y: false, drag: { x: true, y: false, setScale: false, dist: 5 }, points: { show: false } },
    scales: { x: { time: false }, y: { range: (_, min, max) => [Math.min(min ?? 0, 0), (max ?? 1) > 0 ? max * 1.08 : 1] }, rate: { range: (_, __, max) => [0, (max ?? 1) > 0 ? max * 1.08 : 1] } },
    series,
    bands: low > 0 && high > 0 && shown.has("live") ? [{ series: [high, low], fill: colours.band }] : [],
    axes: [
      { ...axis, size: 24, values: (_, splits) => splits.map(clockInWords), space: 80 },
      { ...axis, scale: "y", size: 66, space: 30, values: (_, splits) => splits.map((value) => (value === 0 ? "0" : amountInWords(value, counts))) },
      ...(hasRate ? [{ ...axis, scale: "rate", side: 1 as const, size: 72, space: 30, grid: { show: false }, values: (_: uPlot, splits: number[]) => splits.map((value) => (value === 0 ? "0" : `${bytesInWords(value)}/s`)) }] : []),
    ],
    hooks: { drawAxes: [(plot) => drawDiamonds(plot, drawn.current)] },
  };
}

export function goToDump(place: Place, selection: Selection, step: number, widen: boolean) {
  const now = dumpIndex(place.heap, selection.dump);
  const next = Math.min(Math.max(now + step, 0), place.heap.dumps.length - 1);
  if (next === now) return;
  const base = widen && !isSaved ? (selection.base === "" ? String(now) : selection.base) : "";
  select({ dump: dumpChoice(place.heap, next), base: base === String(next) ? "" : base });
}

const SERIES_WORDS: Partial<Record<Series["kind"], string>> = { live: "Live", rss: "Resident", anonymous: "Anonymous", swap: "Swap", rate: "Allocated a second" };

function Legend({ data, colours, shown, counts, index, onToggle }: {
  data: Data; colours: Colours; shown: Set<string>; counts: boolean; index: number; onToggle: (kind: string) => void;
}) {
  const all = [...data.series.filter((one) => one.kind !== "low" && one.kind !== "high"), ...(data.rate ? [data.rate] : [])];
  const limit = (kind: "low" | "high") => data.series.find((one) => one.kind === kind)?.values[index] ?? null;
  return (
    <div class="timeline-legend">
      {all.map((one) => {
        const value = index >= 0 ? (one.values[index] ?? null) : null;
        const isLive = one.kind === "live";
        const words = value === null ? "" : isLive
          ? figureInWords({ value, low: limit("low"), high: limit("high") }, counts)
          : amountInWords(value, counts && one.kind !== "rate") + (one.kind === "rate" ? "/s" : "");
        return (
          <button type="button" key={one.kind} class="series" aria-pressed={shown.has(one.kind)} onClick={() => onToggle(one.kind)}>
            <i class={`dash-${one.kind}`} style={{ borderTopColor: colours[one.kind as "live"] }} />
            {isLive && counts ? "Live allocations" : SERIES_WORDS[one.kind]} <span class="figures">{words}</span>
          </button>
        );
      })}
    </div>
  );
}

export function Timeline({ place, selection }: { place: Place; selection: Selection }) {
  const { theme } = useTheme();
  const { hasGrown } = useConnection();
  const colours = COLOURS[theme.dark ? "dark" : "light"];
  const { heap, process, profile } = place;
  const beginning = beginningOf(profile);
  const counts = selection.view.endsWith("objects");
  const data = useMemo(() => timelineOf(heap, process, beginning, selection.view), [heap, process, beginning, counts]);
  const [hidden, setHidden] = useState<Set<string>>(new Set(["anonymous", "rate"]));
  const [index, setIndex] = useState(-1);
  const [near, setNear] = useState(-1); // the dump whose diamond is under the pointer
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const drawn = useRef<Drawn>({ place, selection, colours, beginning });
  drawn.current = { place, selection, colours, beginning };
  const shown = new Set([...data.series.map((one) => one.kind), "rate"].filter((kind) => !hidden.has(kind)) as string[]);

  function diamondAt(x: number): number {
    const current = plot.current;
    let best = -1;
    let distance = NEAR;
    if (!current) return -1;
    heap.dumps.forEach((dump, i) => {
      const away = Math.abs(current.valToPos((dump.time - beginning) / 1e9, "x") - x);
      if (away <= distance) [best, distance] = [i, away];
    });
    return best;
  }

  function zoom(from: number, to: number) {
    const first = data.seconds[0]!;
    const last = data.seconds[data.seconds.length - 1]!;
    const span = Math.min(Math.max(to - from, (last - first) * 1e-6), last - first);
    const begin = Math.min(Math.max(from, first), last - span);
    plot.current?.setScale("x", { min: begin, max: begin + span });
  }
  function pan(share: number) {
    const { min, max } = plot.current!.scales.x!;
    const by = share * (max! - min!);
    zoom(min! + by, max! + by);
  }
  function zoomBy(factor: number, at?: number) {
    const { min, max } = plot.current!.scales.x!;
    const middle = at ?? (min! + max!) / 2;
    zoom(middle - (middle - min!) * factor, middle + (max! - middle) * factor);
  }

  const key = `${theme.dark} ${counts} ${[...hidden].join()}`;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const options = makeOptions(data, element.clientWidth, drawn, counts, shown);
    const values = [data.seconds, ...data.series.map((one) => one.values), ...(data.rate ? [data.rate.values] : [])];
    const made = new uPlot(options, values as uPlot.AlignedData, element);
    plot.current = made;
    const over = made.over;
    made.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    let down = 0;
    const onDown = (event: MouseEvent) => { down = event.clientX; };
    const onUp = (event: MouseEvent) => {
      const x = event.clientX - over.getBoundingClientRect().left;
      const { left, width } = made.select;
      if (Math.abs(event.clientX - down) < 5) {
        const hit = diamondAt(x);
        if (hit >= 0) event.shiftKey && !isSaved ? select({ base: String(hit) }) : select({ dump: dumpChoice(heap, hit), base: "" });
      } else if (width > 0 && !isSaved) {
        const range = dumpsOfRange(heap, beginning + made.posToVal(left, "x") * 1e9, beginning + made.posToVal(left + width, "x") * 1e9);
        if (range) select({ dump: dumpChoice(heap, range[1]), base: range[0] >= 0 ? String(range[0]) : "" });
      }
      made.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    };
    const onMove = (event: MouseEvent) => {
      setNear(diamondAt(event.clientX - over.getBoundingClientRect().left));
      setIndex(made.cursor.idx ?? -1);
    };
    const onLeave = () => { setNear(-1); setIndex(-1); };
    const onWheel = (event: WheelEvent) => {
      if (event.ctrlKey || event.metaKey) {
        const x = event.clientX - over.getBoundingClientRect().left;
        zoomBy(Math.exp(event.deltaY * 0.0025), made.posToVal(x, "x"));
      } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) pan((event.deltaX || event.deltaY) / over.clientWidth);
      else return;
      event.preventDefault();
    };
    over.addEventListener("mousedown", onDown);
    over.addEventListener("mouseup", onUp);
    over.addEventListener("mousemove", onMove);
    over.addEventListener("mouseleave", onLeave);
    over.addEventListener("wheel", onWheel, { passive: false });
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [data, key]);
  useEffect(() => plot.current?.redraw(false, true), [selection.dump, selection.base, heap]);

  function onKeyDown(event: KeyboardEvent) {
    if (event.ctrlKey || event.metaKey || event.altKey || !plot.current) return;
    switch (event.key) {
      case "ArrowLeft": goToDump(place, selection, -1, event.shiftKey); break;
      case "ArrowRight": goToDump(place, selection, 1, event.shiftKey); break;
      case "w": zoomBy(0.8); break;
      case "s": zoomBy(1.25); break;
      case "a": pan(-0.125); break;
      case "d": pan(0.125); break;
      case "Escape": zoom(-Infinity, Infinity); break;
      default: return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  const hasPlot = data.seconds.length > 1;
  const marks = useMemo(() => marksOf(heap), [heap]);
  // The dump that the line above the plot describes.
  const described = near >= 0 ? near : dumpIndex(heap, selection.dump);
  const dump = heap.dumps[described];
  const atCursor = index >= 0 ? index : dump ? data.seconds.indexOf((dump.time - beginning) / 1e9) : -1;
  const toggle = (kind: string) => setHidden((last) => {
    const next = new Set(last);
    if (!next.delete(kind)) next.add(kind);
    return next;
  });
  return (
    <section class="timeline" aria-label="Timeline">
      <div class="timeline-head">
        <span class="timeline-title">
          {dump ? <><b>{heap.dumps.length === 1 ? "One dump" : `Dump ${dumpTitle(place, described)}`}</b>{dump.exact_calls !== null && dump.exact_bytes !== null &&
            <span class="faint"> · {bytesInWords(dump.exact_bytes)} allocated in {plural(dump.exact_calls, "call")}, counted</span>}</>
            : <b>No dump</b>}
          {heap.unfinished && <span class="faint"> · {hasGrown ? "recording" : "unfinished: still recording, or killed"}</span>}
          {marks.filter((mark) => mark.dump === described).map((mark) => <span class="warn" key={mark.words}> · {mark.words}</span>)}
        </span>
        <Legend data={data} colours={colours} shown={shown} counts={counts} index={atCursor} onToggle={toggle} />
      </div>
      {hasPlot && (
        <div class="timeline-plot" ref={box} tabIndex={0} role="slider" aria-label="Dump" aria-valuemin={1} aria-valuemax={Math.max(heap.dumps.length, 1)}
          aria-valuenow={dumpIndex(heap, selection.dump) + 1} aria-valuetext={dumpTitle(place, dumpIndex(heap, selection.dump))} onKeyDown={onKeyDown} />
      )}
    </section>
  );
}
