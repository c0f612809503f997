// SPDX-License-Identifier: Apache-2.0
// The memory's tab: where the process's memory went, from the heap's live bytes to the RSS. The parts over
// time as a stacked area, or as one bar if there is a single snapshot; beside it the table of
// `heap_profile report --rss` for the selected dump. A click selects the dump nearest to a moment.
import uPlot from "uplot";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { colourOf, LINES } from "./memory_colours";
import { atDump, beginningOf, dumpChoice, dumpIndex, isAtPeak, dumpTitle, keptDump, nearestDump, type Place } from "./model";
import { Sentence } from "./sentence";
import { askMemory, useAnswer } from "./source";
import { select, type Selection } from "./state";
import { useTheme } from "./theme";
import { clockInWords } from "./time/draw";
import { parseSpan } from "./time/zoom";
import { goToDump } from "./time/timeline";
import type { MemoryMoment, MemoryRow, MemorySnapshots, ProcessMemory } from "./types";
import { bytesInWords, countInWords, figureInWords, shareInWords, signedInWords } from "./words";

const HEIGHT = 220; // of the plot, in pixels

const pathOf = (heap: string, dump: string | null) => `api/memory?${new URLSearchParams(dump === null ? { heap } : { heap, dump })}`;

/** The dump whose memory is shown: at the peak, the one that is nearest to it. */
function shownDump({ heap }: Place, selection: Selection): number | null {
  const isPeak = isAtPeak(heap, selection) && heap.peak_time !== null;
  return isPeak ? dumpChoice(heap, keptDump(heap, nearestDump(heap, heap.peak_time!))) : selection.dump;
}

/** Of the dump that the selection is compared with, "2" or "1.0.5"; null: nothing. */
function basePath({ base, heap }: Selection): string | null {
  const parts = base.split(".");
  if (base === "") return null;
  return parts.length === 3 ? pathOf(`${parts[0]}.${parts[1]}`, parts[2]!) : pathOf(heap, base);
}

// --- in words ---

function sourceInWords(row: MemoryRow): string {
  const words = { estimated: "estimated from samples", counted: "counted", rule: `by the size classes of ${row.rule ?? "?"}`,
    measured: "measured", remainder: "remainder", not_known: "unknown" };
  return words[row.source];
}

function rowInWords(row: MemoryRow): string {
  if (row.bytes === null) return "unknown";
  const margin = row.margin_bytes !== undefined && row.margin_bytes >= 0.5 ? ` ± ${bytesInWords(row.margin_bytes)}` : "";
  return bytesInWords(row.bytes) + margin;
}

/** The figures of the table in sentences, the most important first. */
function memorySentences(moment: MemoryMoment): string[] {
  const { allocator_rows: own, other_rows: others, rss_bytes: rss, allocator_bytes: held } = moment;
  if (!own || !others || rss === undefined || held === undefined) return [];
  const row = (name: string) => own.find((one) => one.name === name);
  const live = row("live_requested");
  const rest = row("free_lists");
  const sentences = [`The process has ${bytesInWords(rss)} in memory. The allocator holds ${bytesInWords(held)} of it` +
    `${live ? `; the live blocks are ${rowInWords(live)}, as requested` : ""}.`];
  if (rest && rest.bytes !== null && rest.bytes > 0)
    sentences.push(`${rowInWords(rest)} of the allocator's memory is the rest: ${rest.words}.`);
  const largest = others.reduce<MemoryRow | null>((best, one) => ((one.bytes ?? 0) > (best?.bytes ?? 0) ? one : best), null);
  if (largest && largest.bytes !== null)
    sentences.push(`The largest part outside of the allocator: ${largest.words}, ${bytesInWords(largest.bytes)}.`);
  if ((moment.profiler_bytes ?? 0) > 0) sentences.push(`The profiler's own ${bytesInWords(moment.profiler_bytes!)} in the process is beside that.`);
  if ((moment.swap_bytes ?? 0) > 0) sentences.push(`${bytesInWords(moment.swap_bytes!)} is swapped out, which is not part of the RSS.`);
  return sentences;
}

// --- the table ---

function Figures({ bytes, parts, at }: { bytes: number; parts: { swap: number[]; mapped: number[]; mappings: number[] }; at: number }) {
  return (
    <>
      <td class="number">{bytesInWords(bytes)}</td>
      <td class="number">{bytesInWords(parts.swap[at]!)}</td>
      <td class="number">{bytesInWords(parts.mapped[at]!)}</td>
      <td class="number">{countInWords(parts.mappings[at]!)}</td>
    </>
  );
}

function Parts({ moment, snapshots, at, dark }: { moment: MemoryMoment; snapshots: MemorySnapshots; at: number; dark: boolean }) {
  return (
    <table class="parts">
      <caption class="sr-only">Parts of the resident memory at dump {moment.dump}</caption>
      <thead>
        <tr><th>Memory</th><th class="number">Resident</th><th class="number">Swapped</th><th class="number">Mapped</th><th class="number">Mappings</th></tr>
      </thead>
      <tbody>
        {snapshots.kinds.map((kind) => [
          <tr key={kind.name}>
            <th scope="row"><i style={{ background: colourOf(kind.name, dark) }} />{kind.words}</th>
            <Figures bytes={kind.rss[at]!} parts={kind} at={at} />
          </tr>,
          kind.name === "allocator" && moment.allocator_rows?.map((row) => (
            <tr key={row.name} class="inner">
              <th scope="row">{row.name === "live_requested" && <i class="live" />}{row.words}</th>
              <td class="number">{rowInWords(row)}</td>
              <td colSpan={3} class="faint">{sourceInWords(row)}</td>
            </tr>
          )),
        ])}
      </tbody>
      <tfoot>
        <tr><th scope="row">RSS</th><Figures bytes={snapshots.rss[at]!} parts={snapshots} at={at} /></tr>
      </tfoot>
    </table>
  );
}

// --- the difference of two dumps ---

/** A known moment: its table, and the place of its snapshot. */
interface Known {
  moment: MemoryMoment;
  snapshots: MemorySnapshots;
  at: number;
}

function knownOf(answer: ProcessMemory | null): Known | null {
  const at = answer?.snapshots.chosen ?? null;
  return answer && at !== null ? { moment: answer.moment, snapshots: answer.snapshots, at } : null;
}

/** Return a kind's bytes; a kind that the process never had has none. */
function kindBytes({ snapshots, at }: Known, name: string, part: "rss" | "swap" | "mapped"): number {
  return snapshots.kinds.find((kind) => kind.name === name)?.[part][at] ?? 0;
}

function changeInWords(now: number | null, before: number | null, margins: (number | undefined)[] = []): string {
  if (now === null || before === null) return "unknown";
  const margin = Math.hypot(...margins.map((one) => one ?? 0));
  return signedInWords(now - before, false) + (margin >= 0.5 ? ` ± ${bytesInWords(margin)}` : "");
}

function ChangedRow({ words, colour, before, now, swap, mapped }: {
  words: string; colour: string | null; before: number; now: number; swap: number; mapped: number;
}) {
  return (
    <tr>
      <th scope="row">{colour && <i style={{ background: colour }} />}{words}</th>
      <td class="number">{bytesInWords(before)}</td>
      <td class="number">{bytesInWords(now)}</td>
      <td class="number">{signedInWords(now - before, false)}</td>
      <td class="number">{signedInWords(swap, false)}</td>
      <td class="number">{signedInWords(mapped, false)}</td>
    </tr>
  );
}

function ChangedInner({ row, earlier }: { row: MemoryRow; earlier: MemoryRow | undefined }) {
  return (
    <tr class="inner">
      <th scope="row">{row.name === "live_requested" && <i class="live" />}{row.words}</th>
      <td class="number">{earlier ? rowInWords(earlier) : "unknown"}</td>
      <td class="number">{rowInWords(row)}</td>
      <td class="number">{changeInWords(row.bytes, earlier?.bytes ?? null, [row.margin_bytes, earlier?.margin_bytes])}</td>
      <td colSpan={2} class="faint">{sourceInWords(row)}</td>
    </tr>
  );
}

/** The parts at two dumps, and their changes. */
function Changes({ now, before, titles, dark }: { now: Known; before: Known; titles: [before: string, now: string]; dark: boolean }) {
  const kinds = [...now.snapshots.kinds, ...before.snapshots.kinds.filter((kind) => !now.snapshots.kinds.some((one) => one.name === kind.name))];
  const change = (name: string, part: "swap" | "mapped") => kindBytes(now, name, part) - kindBytes(before, name, part);
  const all = (of: Known, part: "rss" | "swap" | "mapped") => of.snapshots[part][of.at]!;
  return (
    <table class="parts changes">
      <caption class="sr-only">Change of the parts of the resident memory</caption>
      <thead>
        <tr><th>Memory</th><th class="number">{titles[0]}</th><th class="number">{titles[1]}</th><th class="number">Change</th>
          <th class="number">Change in swap</th><th class="number">Change in mapped</th></tr>
      </thead>
      <tbody>
        {kinds.map((kind) => [
          <ChangedRow key={kind.name} words={kind.words} colour={colourOf(kind.name, dark)} before={kindBytes(before, kind.name, "rss")}
            now={kindBytes(now, kind.name, "rss")} swap={change(kind.name, "swap")} mapped={change(kind.name, "mapped")} />,
          kind.name === "allocator" && now.moment.allocator_rows?.map((row) => (
            <ChangedInner key={row.name} row={row} earlier={before.moment.allocator_rows?.find((one) => one.name === row.name)} />
          )),
        ])}
      </tbody>
      <tfoot>
        <ChangedRow words="RSS" colour={null} before={all(before, "rss")} now={all(now, "rss")} swap={all(now, "swap") - all(before, "swap")}
          mapped={all(now, "mapped") - all(before, "mapped")} />
      </tfoot>
    </table>
  );
}

// --- over time ---

/** Return the sums of the kinds up to each, by snapshot. */
function stackOf(snapshots: MemorySnapshots): number[][] {
  let below = snapshots.time.map(() => 0);
  return snapshots.kinds.map((kind) => (below = below.map((sum, i) => sum + kind.rss[i]!)));
}

interface Drawn {
  snapshots: MemorySnapshots;
  beginning: number;
  accent: string;
}

function drawChosen(plot: uPlot, { snapshots, beginning, accent }: Drawn) {
  if (snapshots.chosen === null) return;
  const { ctx: context } = plot;
  const x = plot.valToPos((snapshots.time[snapshots.chosen]! - beginning) / 1e9, "x", true);
  context.save();
  context.strokeStyle = accent;
  context.lineWidth = 2 * devicePixelRatio;
  context.beginPath();
  context.moveTo(x, plot.bbox.top);
  context.lineTo(x, plot.bbox.top + plot.bbox.height);
  context.stroke();
  context.restore();
}

function makeOptions(drawn: Drawn, width: number, dark: boolean): uPlot.Options {
  const colours = LINES[dark ? "dark" : "light"];
  const font = "11px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";
  const axis = { stroke: colours.faint, font, ticks: { stroke: colours.line, size: 4 }, grid: { stroke: colours.line, width: 1 } };
  // The highest sum is drawn first, so that each area shows above the one below it.
  const areas = drawn.snapshots.kinds.map((kind): uPlot.Series => {
    return { scale: "y", stroke: colours.ground, fill: colourOf(kind.name, dark), width: 2, points: { show: false } };
  });
  return {
    width, height: HEIGHT, padding: [8, 16, 0, 0], legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: { x: { time: false }, y: { range: (_, __, max) => [0, (max ?? 0) > 0 ? max * 1.05 : 1] } },
    series: [{}, ...areas.reverse(), { scale: "y", stroke: colours.ground, width: 5, points: { show: false } }, { scale: "y", stroke: colours.ink, width: 2, points: { show: false } }],
    axes: [
      { ...axis, size: 24, space: 80, values: (_, splits) => splits.map(clockInWords) },
      { ...axis, scale: "y", size: 66, space: 30, values: (_, splits) => splits.map((value) => (value === 0 ? "0" : bytesInWords(value))) },
    ],
    hooks: { draw: [(plot) => drawChosen(plot, drawn)] },
  };
}

function OverTime({ place, selection, snapshots, dark }: { place: Place; selection: Selection; snapshots: MemorySnapshots; dark: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const { heap, profile } = place;
  const beginning = beginningOf(profile);
  const stack = useMemo(() => stackOf(snapshots), [snapshots]);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const seconds = snapshots.time.map((time) => (time - beginning) / 1e9);
    const drawn = { snapshots, beginning, accent: LINES[dark ? "dark" : "light"].accent };
    const plot = new uPlot(makeOptions(drawn, element.clientWidth, dark), [seconds, ...[...stack].reverse(), snapshots.live.value, snapshots.live.value] as uPlot.AlignedData, element);
    const shown = parseSpan(selection.time); // of the timeline
    if (shown) plot.setScale("x", { min: shown.from, max: shown.to });
    const { over } = plot;
    const onClick = (event: MouseEvent) => {
      const second = plot.posToVal(event.clientX - over.getBoundingClientRect().left, "x");
      select({ ...atDump(heap, keptDump(heap, nearestDump(heap, beginning + second * 1e9))), base: "" });
    };
    const onMove = () => setPointed(plot.cursor.idx ?? null);
    const onLeave = () => setPointed(null);
    over.addEventListener("click", onClick);
    over.addEventListener("mousemove", onMove);
    over.addEventListener("mouseleave", onLeave);
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [snapshots, heap, beginning, dark, selection.time]);
  function onKeyDown(event: KeyboardEvent) {
    const step = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (step === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    goToDump(place, selection, step, false);
    event.preventDefault();
    event.stopPropagation();
  }
  const at = pointed !== null && pointed < snapshots.time.length ? pointed : snapshots.chosen;
  const dump = dumpIndex(heap, selection.dump);
  return (
    <div>
      <p class="figures">
        {at === null ? "No snapshot before this dump" : `${clockInWords((snapshots.time[at]! - beginning) / 1e9)}: ${bytesInWords(snapshots.rss[at]!)} resident, ` +
          `${bytesInWords(snapshots.live.value[at]!)} live, ${bytesInWords(snapshots.swap[at]!)} swapped out`}
        {snapshots.all > snapshots.time.length && <span class="faint"> · {countInWords(snapshots.time.length)} of {countInWords(snapshots.all)} snapshots drawn</span>}
      </p>
      <div class="memory-plot" ref={box} tabIndex={0} role="slider" aria-label="Dump whose memory is shown" aria-valuemin={1}
        aria-valuemax={heap.dumps.length} aria-valuenow={dump + 1} aria-valuetext={dumpTitle(place, dump)} onKeyDown={onKeyDown} />
    </div>
  );
}

/** One snapshot: its parts side by side. */
function SingleBar({ snapshots, dark }: { snapshots: MemorySnapshots; dark: boolean }) {
  return (
    <div class="memory-bar" aria-hidden="true">
      {snapshots.kinds.map((kind) => (
        <i key={kind.name} title={`${kind.words}: ${bytesInWords(kind.rss[0]!)}, ${shareInWords(kind.rss[0]!, snapshots.rss[0]!)}`}
          style={{ width: `${(100 * kind.rss[0]!) / Math.max(snapshots.rss[0]!, 1)}%`, background: colourOf(kind.name, dark) }} />
      ))}
    </div>
  );
}

// --- the panel ---

function Unknown({ answer, place, dump }: { answer: ProcessMemory; place: Place; dump: number }) {
  const rss = answer.moment.timeline_rss_bytes;
  return (
    <div class="memory-unknown" role="status">
      <h2>The parts of the memory are unknown at this dump</h2>
      <p>{answer.why}</p>
      <p>Live blocks: {figureInWords(place.heap.dumps[dump]?.space ?? null, false)}. Resident: {rss !== null ? bytesInWords(rss) : "unknown"}.</p>
    </div>
  );
}

function baseTitle({ base }: Selection): string {
  const parts = base.split(".");
  return `${parts.length === 3 ? `Profile ${Number(parts[0]) + 1}, dump` : "Dump"} ${Number(parts[parts.length - 1]) + 1}`;
}

export function MemoryPanel({ place, selection }: { place: Place; selection: Selection }) {
  const { theme } = useTheme();
  const shown = shownDump(place, selection);
  const { value: answer, error, isWaiting } = useAnswer(pathOf(selection.heap, shown === null ? null : String(shown)), askMemory);
  const base = useAnswer(basePath(selection), askMemory);
  if (error !== "") return <div class="empty bad"><p>{error}</p></div>;
  if (!answer) return <div class="empty"><p class="faint">The memory is being read…</p></div>;
  const { moment, snapshots } = answer;
  const now = knownOf(answer);
  const before = selection.base === "" ? null : knownOf(base.value);
  const titles: [string, string] = [baseTitle(selection), `Dump ${moment.dump}`];
  return (
    <section class={isWaiting ? "panel memory waits" : "panel memory"} aria-label="Memory" aria-busy={isWaiting}>
      <div>
        {shown !== selection.dump && <p class="faint">At dump {dumpTitle(place, dumpIndex(place.heap, shown))}, the nearest to the peak.</p>}
        {!moment.known ? <Unknown answer={answer} place={place} dump={dumpIndex(place.heap, shown)} />
          : <div class="memory-sentences">{memorySentences(moment).map((sentence) => <p key={sentence}>{sentence}</p>)}</div>}
        {snapshots.time.length > 1 ? <OverTime place={place} selection={selection} snapshots={snapshots} dark={theme.dark} />
          : snapshots.time.length === 1 && <SingleBar snapshots={snapshots} dark={theme.dark} />}
        {selection.base !== "" && !before && (base.error !== "" || base.value) &&
          <p class="warn">The change is unknown: {base.error !== "" ? base.error : `${titles[0]}: ${base.value!.why}`}</p>}
        {moment.not_known && <ul class="notes faint">{moment.not_known.map((note) => <li key={note}><Sentence text={note} /></li>)}</ul>}
      </div>
      {now && <div class="wide" tabIndex={0}>{before ? <Changes now={now} before={before} titles={titles} dark={theme.dark} /> : <Parts {...now} dark={theme.dark} />}</div>}
    </section>
  );
}
