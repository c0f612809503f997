// SPDX-License-Identifier: Apache-2.0
// All processes of the profile at the selected moment, as the overview table of a memory dump: a row for
// each process, a column for each heap, resident memory where it is known. A click selects the heap. Only
// the rows that are seen exist.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { dumpChoice, dumpIndex, openHeap, processTitle, secondsOf, type Place } from "./model";
import { select, type Selection } from "./state";
import { Number as Amount } from "./table_row";
import type { Dump, Heap, Process, Profile, ViewName } from "./types";
import { bytesInWords, countInWords, plural, timeInWords } from "./words";

const ROW = 24;
const MORE = 8;
const SHOWN_ROWS = 6; // without scrolling
const SHOWN_ROWS_LOW = 4; // on a low screen
const HEAPS_MAX = 12; // columns

interface Cell {
  heap: Heap;
  index: number; // of its dump
  dump: Dump;
}

interface ProcessRow {
  title: string;
  command: string;
  time: number; // of its dump, in seconds
  hasEnded: boolean;
  rss: number | null;
  cells: Map<string, Cell>;
}

/** Return the index of the time that is nearest, among those that count. -1: there are none. */
function nearest(times: number[], time: number, counts: (index: number) => boolean = () => true): number {
  let best = -1;
  times.forEach((one, i) => { if (counts(i) && (best < 0 || Math.abs(one - time) < Math.abs(times[best]! - time))) best = i; });
  return best;
}

function rowOf(profile: Profile, process: Process, heaps: Heap[], moment: number): ProcessRow {
  const cells = new Map<string, Cell>();
  for (const heap of heaps) {
    const index = nearest(heap.dumps.map((dump) => dump.time), moment);
    if (index >= 0 && heap.unseen === "") cells.set(heap.name, { heap, index, dump: heap.dumps[index]! });
  }
  const dumps = [...cells.values()].map((cell) => cell.dump);
  const time = dumps[0]?.time ?? moment;
  const { memory } = process;
  const rss = memory.rss?.[nearest(memory.time, time, (i) => (memory.rss?.[i] ?? 0) > 0)] ?? null;
  return {
    title: processTitle(process), command: process.command, cells, time: secondsOf(profile, time),
    hasEnded: dumps.length > 0 && dumps.every((dump) => dump.final && dump.time < moment), rss,
  };
}

function rowsOf(profile: Profile, moment: number): ProcessRow[] {
  const heaps = new Map<number, Heap[]>();
  for (const heap of profile.heaps) heaps.set(heap.process, [...(heaps.get(heap.process) ?? []), heap]);
  return profile.processes.map((process, i) => rowOf(profile, process, heaps.get(i) ?? [], moment));
}

const amountOf = (cell: Cell | undefined, view: ViewName) => cell?.dump[view]?.value ?? 0;

/** Names of heaps, what holds most first. */
function heapNames(rows: ProcessRow[], view: ViewName): string[] {
  const sums = new Map<string, number>();
  for (const row of rows) for (const [name, cell] of row.cells) sums.set(name, (sums.get(name) ?? 0) + amountOf(cell, view));
  return [...sums].sort((a, b) => b[1] - a[1]).map(([name]) => name).slice(0, HEAPS_MAX);
}

/** Sorted by the name, "time", "rss" or a heap's bytes. */
function sorted(rows: ProcessRow[], by: string, view: ViewName): ProcessRow[] {
  const rank = (row: ProcessRow) => (by === "rss" ? (row.rss ?? -1) : by === "time" ? row.time : amountOf(row.cells.get(by), view));
  return [...rows].sort((a, b) => (by === "name" ? a.title.localeCompare(b.title) : rank(b) - rank(a)));
}

const open = (cell: Cell) => select({ ...openHeap(cell.heap.id), dump: dumpChoice(cell.heap, cell.index) });

function HeapCell({ cell, view, counts, isSelected }: { cell: Cell | undefined; view: ViewName; counts: boolean; isSelected: boolean }) {
  if (!cell) return <span role="gridcell" class="number faint">–</span>;
  const objects = cell.dump.objects;
  const calls = view === "space" && objects ? `${plural(Math.round(objects.value), "allocation")} live` : "";
  return (
    <span role="gridcell" class="number" aria-selected={isSelected}>
      <button type="button" class="link" tabIndex={-1} title={calls} onClick={(event) => { event.stopPropagation(); open(cell); }}>
        <Amount figure={cell.dump[view]} counts={counts} signed={false} />
      </button>
      {calls !== "" && <small>{countInWords(objects!.value)}</small>}
    </span>
  );
}

export function DumpsPane({ place, selection, counts }: { place: Place; selection: Selection; counts: boolean }) {
  const { profile, heap } = place;
  const { view } = selection;
  const moment = heap.dumps[dumpIndex(heap, selection.dump)]?.time ?? 0;
  const all = useMemo(() => rowsOf(profile, moment), [profile, moment]);
  const names = useMemo(() => heapNames(all, view), [all, view]);
  const [filter, setFilter] = useState("");
  const [by, setBy] = useState("");
  const [top, setTop] = useState(0);
  const [cursor, setCursor] = useState(0);
  const body = useRef<HTMLDivElement>(null);
  const wanted = filter.toLowerCase();
  const rows = useMemo(() => sorted(all.filter((row) => `${row.title} ${row.command}`.toLowerCase().includes(wanted)), by || heap.name, view), [all, wanted, by, heap.name, view]);
  const shown = window.innerHeight < 800 ? SHOWN_ROWS_LOW : SHOWN_ROWS;
  const height = Math.min(rows.length, shown) * ROW;
  const at = Math.min(cursor, Math.max(rows.length - 1, 0));
  const begin = Math.max(Math.floor(top / ROW) - MORE, 0);
  const end = Math.min(Math.ceil((top + height) / ROW) + MORE, rows.length);
  const grid = { gridTemplateColumns: `minmax(220px, 2fr) 110px 90px repeat(${names.length}, minmax(190px, 1fr))` };
  useLayoutEffect(() => { body.current!.scrollTop = 0; setCursor(0); }, [wanted, by]);

  function onKeyDown(event: KeyboardEvent) {
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: shown, PageUp: -shown, Home: -rows.length, End: rows.length };
    const step = steps[event.key];
    const cell = rows[at]?.cells.get(heap.name) ?? [...(rows[at]?.cells.values() ?? [])][0];
    if (step !== undefined) {
      const next = Math.min(Math.max(at + step, 0), rows.length - 1);
      setCursor(next);
      body.current!.scrollTop = Math.min(Math.max(body.current!.scrollTop, (next + 1) * ROW - height), next * ROW);
    } else if (event.key === "Enter" && cell) open(cell);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  const header = (sort: string, title: string, type = "number") => (
    <span role="columnheader" class={type} key={sort} aria-sort={(by || heap.name) === sort ? (sort === "name" ? "ascending" : "descending") : "none"}>
      <button type="button" class="sort" tabIndex={-1} onClick={() => setBy(sort)}>{title}{(by || heap.name) === sort ? (sort === "name" ? " ↑" : " ↓") : ""}</button>
    </span>
  );
  return (
    <section class="dumps" aria-label="Processes at this dump">
      {all.length > shown && (
        <div class="tools">
          <input type="search" placeholder="Search processes" aria-label="Search processes" value={filter} spellcheck={false} autocomplete="off"
            onInput={(event) => setFilter(event.currentTarget.value)} />
          <output>{plural(rows.length, "process", "processes")}</output>
        </div>
      )}
      <div class="dumps-scroll">
        <div class="dumps-table" role="grid" aria-label="Processes at this dump" aria-rowcount={rows.length + 1}>
          <div class="tree-line head" role="row" style={grid}>
            {header("name", "Process", "tree-name")}{header("time", "Dump")}{header("rss", "Resident")}{names.map((name) => header(name, name))}
          </div>
          <div class="dumps-body" ref={body} tabIndex={0} role="rowgroup" aria-label="Processes" style={{ height: `${height}px` }} onKeyDown={onKeyDown}
            onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
            <div class="tree-room" style={{ height: `${rows.length * ROW}px` }}>
              {rows.slice(begin, end).map((row, i) => (
                <div key={begin + i} role="row" aria-rowindex={begin + i + 2} style={{ ...grid, top: `${(begin + i) * ROW}px` }}
                  class={`tree-line${[...row.cells.values()].some((cell) => cell.heap === heap) ? " chosen" : ""}${begin + i === at ? " cursor" : ""}`}>
                  <span role="gridcell" class="tree-name" title={row.command}>{row.title}</span>
                  <span role="gridcell" class="number">{row.cells.size === 0 ? <span class="faint">no heap</span> : <>{timeInWords(Math.max(row.time, 0))}{row.hasEnded ? ", ended" : ""}</>}</span>
                  <span role="gridcell" class="number">{row.rss === null ? <span class="faint">unknown</span> : bytesInWords(row.rss)}</span>
                  {names.map((name) => <HeapCell key={name} cell={row.cells.get(name)} view={view} counts={counts} isSelected={row.cells.get(name)?.heap === heap} />)}
                </div>
              ))}
            </div>
          </div>
        </div>
      </div>
    </section>
  );
}
