// SPDX-License-Identifier: Apache-2.0
// All processes of the profile at the selected moment, as the overview table of a memory dump: a row for
// each process, a column for each heap and allocator, resident memory where it is known. A click selects the
// heap. Only the rows that are seen exist.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { columnsOfRows, lackingInWords, processRows, reportedBytes, sortedRows, type HeapCell, type ProcessRow } from "./processes";
import { widthOfText } from "./tree";
import { dumpChoice, dumpIndex, openHeap, type Place } from "../model";
import { askReported, useAnswer } from "../source";
import { select, selection as now, type Selection } from "../state";
import { Number as Amount } from "../table/row";
import type { Heap, Reported, ViewName } from "../types";
import { bytesInWords, countInWords, plural, timeInWords } from "../words";

const ROW = 24;
const MORE = 8;
const SHOWN_ROWS = 6; // without scrolling
const SHOWN_ROWS_LOW = 4; // on a low screen
const NAME_LEAST = 220; // pixels, as those below
const GAP = 12;
const PADDING = 32;

interface Column {
  id: string; // as rankOf() knows it
  title: string;
  hint?: string;
  least: number; // pixels
  grows?: boolean;
  cell: (row: ProcessRow) => ComponentChildren;
}

const open = (cell: HeapCell) => select({ ...openHeap(cell.heap), view: now().view, dump: dumpChoice(cell.heap, cell.index) });
const Unknown = () => <span class="faint">unknown</span>;

function HeapAmount({ cell, view, counts }: { cell: HeapCell | undefined; view: ViewName; counts: boolean }) {
  if (!cell) return <span class="faint">–</span>;
  const { objects } = cell.dump;
  const calls = view === "space" && objects ? `${plural(Math.round(objects.value), "allocation")} live` : "";
  return (
    <>
      <button type="button" class="link" tabIndex={-1} title={calls} onClick={() => open(cell)}><Amount figure={cell.dump[view]} counts={counts} signed={false} /></button>
      {calls !== "" && <small>{countInWords(objects!.value)}</small>}
    </>
  );
}

function ReportedAmount({ row }: { row: Reported | undefined }) {
  const bytes = reportedBytes(row);
  if (!row || bytes === null) return <span class="faint">–</span>;
  const shared = row.effective_size !== null && row.size !== null && row.size !== row.effective_size;
  return <span title={shared ? `${bytesInWords(row.size!)} with what it shares` : undefined}>{bytesInWords(bytes)}</span>;
}

function columnsOf(rows: ProcessRow[], view: ViewName, counts: boolean): Column[] {
  const bytes = (value: number | null) => (value === null ? <Unknown /> : bytesInWords(value));
  const hasAllocators = rows.some((row) => row.allocators.size > 0);
  const footprint: Column = { id: "footprint", title: "Footprint", hint: "private", least: 90, cell: (row) => bytes(row.footprint) };
  return [
    { id: "time", title: "Dump", least: 110, cell: (row) => (row.time === null ? <span class="faint">no heap</span> : `${timeInWords(row.time)}${row.hasEnded ? ", ended" : ""}`) },
    { id: "rss", title: "Resident", least: 90, cell: (row) => bytes(row.rss) },
    ...(rows.some((row) => row.footprint !== null) ? [footprint] : []),
    ...columnsOfRows(rows, "heap", view).map((name): Column => (
      { id: `heap:${name}`, title: name, ...(hasAllocators ? { hint: "heap" } : {}), least: 240, grows: true, cell: (row) => <HeapAmount cell={row.heaps.get(name)} view={view} counts={counts} /> })),
    ...columnsOfRows(rows, "allocator", view).map((name): Column => (
      { id: `allocator:${name}`, title: name, hint: "reported", least: Math.max(widthOfText(`${name} ↓`), 80), cell: (row) => <ReportedAmount row={row.allocators.get(name)} /> })),
  ];
}

function Head({ columns, by, grid, onSort }: { columns: Column[]; by: string; grid: Record<string, string>; onSort: (id: string) => void }) {
  const header = (id: string, title: string, hint: string | undefined, type: string) => {
    const isSorted = by === id;
    const rises = id === "name";
    return (
      <span role="columnheader" class={type} key={id} aria-sort={!isSorted ? "none" : rises ? "ascending" : "descending"}>
        <button type="button" class="sort" title={title} onClick={() => onSort(id)}>{title}{isSorted ? (rises ? " ↑" : " ↓") : ""}</button>
        {hint && <small>{hint}</small>}
      </span>
    );
  };
  return (
    <div class="tree-line head" role="row" style={grid}>
      {header("name", "Process", undefined, "tree-name")}
      {columns.map(({ id, title, hint }) => header(id, title, hint, "number"))}
    </div>
  );
}

/** The rows that are seen, and the keyboard's way through them. */
function Body({ rows, columns, heap, grid, height }: { rows: ProcessRow[]; columns: Column[]; heap: Heap; grid: Record<string, string>; height: number }) {
  const body = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [cursor, setCursor] = useState(0);
  const at = Math.min(cursor, Math.max(rows.length - 1, 0));
  const begin = Math.max(Math.floor(top / ROW) - MORE, 0);
  const end = Math.min(Math.ceil((top + height) / ROW) + MORE, rows.length);
  useLayoutEffect(() => { body.current!.scrollTop = 0; setCursor(0); }, [rows.length]);

  function onKeyDown(event: KeyboardEvent) {
    const page = Math.floor(height / ROW);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length };
    const step = steps[event.key];
    const heaps = rows[at]?.heaps;
    const cell = heaps?.get(heap.name) ?? heaps?.values().next().value;
    if (step !== undefined) {
      const next = Math.min(Math.max(at + step, 0), rows.length - 1);
      setCursor(next);
      body.current!.scrollTop = Math.min(Math.max(body.current!.scrollTop, (next + 1) * ROW - height), next * ROW);
    } else if (event.key === "Enter" && cell) open(cell);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  const isChosen = (row: ProcessRow) => [...row.heaps.values()].some((cell) => cell.heap === heap);
  return (
    <div class="dumps-body" ref={body} tabIndex={0} role="rowgroup" aria-label="Processes" style={{ height: `${height}px` }} onKeyDown={onKeyDown}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
      <div class="tree-room" role="presentation" style={{ height: `${rows.length * ROW}px` }}>
        {rows.slice(begin, end).map((row, i) => (
          <div key={begin + i} role="row" aria-rowindex={begin + i + 2} aria-selected={isChosen(row)} style={{ ...grid, top: `${(begin + i) * ROW}px` }}
            class={`tree-line${isChosen(row) ? " chosen" : ""}${begin + i === at ? " cursor" : ""}`}>
            <span role="gridcell" class="tree-name" title={row.command}>{row.title}</span>
            {columns.map((column) => <span role="gridcell" class="number" key={column.id}>{column.cell(row)}</span>)}
          </div>
        ))}
      </div>
    </div>
  );
}

function reportedPath(selection: Selection): string {
  const parameters = new URLSearchParams({ heap: selection.heap });
  if (selection.dump !== null) parameters.set("dump", String(selection.dump));
  return `api/allocators?${parameters}`;
}

export function DumpsPane({ place, selection, counts }: { place: Place; selection: Selection; counts: boolean }) {
  const { profile, heap } = place;
  const { view } = selection;
  const moment = heap.dumps[dumpIndex(heap, selection.dump)]?.time ?? 0;
  const { value: reported } = useAnswer(reportedPath(selection), askReported);
  const all = useMemo(() => processRows(profile, reported?.row ?? [], moment), [profile, reported, moment]);
  const columns = useMemo(() => columnsOf(all, view, counts), [all, view, counts]);
  const [filter, setFilter] = useState("");
  const [chosenSort, setSort] = useState("");
  const by = columns.some((column) => column.id === chosenSort) || chosenSort === "name" ? chosenSort : `heap:${heap.name}`;
  const wanted = filter.toLowerCase();
  const rows = useMemo(() => sortedRows(all.filter((row) => `${row.title} ${row.command}`.toLowerCase().includes(wanted)), by, view), [all, wanted, by, view]);
  const shown = window.innerHeight < 800 ? SHOWN_ROWS_LOW : SHOWN_ROWS;
  const grid = {
    gridTemplateColumns: `minmax(${NAME_LEAST}px, 2fr) ${columns.map(({ least, grows }) => (grows ? `minmax(${least}px, 1fr)` : `${least}px`)).join(" ")}`,
    minWidth: `${columns.reduce((sum, column) => sum + column.least + GAP, NAME_LEAST + PADDING)}px`,
  };
  const lacking = lackingInWords(all);
  return (
    <section class="dumps" aria-label="Processes at this dump">
      {all.length > shown && (
        <div class="tools">
          <input type="search" placeholder="Search processes" aria-label="Search processes" value={filter} spellcheck={false} autocomplete="off"
            onInput={(event) => setFilter(event.currentTarget.value)} />
          <output>{plural(rows.length, "process", "processes")}</output>
          {lacking.length > 0 && <details class="faint"><summary>What this table lacks</summary>{lacking.join(" ")}</details>}
        </div>
      )}
      <div class="dumps-scroll">
        <div class="dumps-table" role="grid" aria-label="Processes at this dump" aria-rowcount={rows.length + 1}>
          <Head columns={columns} by={by} grid={grid} onSort={setSort} />
          <Body rows={rows} columns={columns} heap={heap} grid={grid} height={Math.min(rows.length, shown) * ROW} />
        </div>
      </div>
      {all.length <= shown && lacking.length > 0 && <p class="faint lacking">{lacking.join(" ")}</p>}
    </section>
  );
}
