// SPDX-License-Identifier: Apache-2.0
// The table's tab: what the selection holds by function, holder (the function that reports charge),
// module, file, thread, type or context. Only the rows that are seen exist; further ones are asked for as they come into sight.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { askTable, selectionParameters, useAnswer } from "./source";
import { isSaved } from "./saved";
import { Sentence } from "./sentence";
import { addFilter, exactly, select, useSelection, type Selection } from "./state";
import { shortModule } from "./tree";
import type { MaybeFigure, Table, TableBy, TableOrder, TableRow } from "./types";
import { figureInWords, plural, shareInWords, signedInWords } from "./words";
import { useShortcuts } from "./keys";

const ROW = 26;
const HEAD = 28;
const PAGE = 500;
const MORE = 8; // rows above and below what is seen
const HAS_MODULE = new Set<TableBy>(["function", "holder"]);
const SEARCH_MS = 150;

const BY: [TableBy, string][] = [
  ["function", "Function"], ["holder", "Holder"], ["module", "Module"], ["file", "File"], ["thread", "Thread"],
  ["type", "Type"], ["context", "Context"],
];
const TITLES: Partial<Record<TableBy, string>> = {
  holder: "The function that a report charges: without allocators, the C library and run times",
};
const HAS_SELF = new Set<TableBy>(["function", "module", "file"]); // others have no callees

function pathOf(selection: Selection, search: string, offset: number): string {
  const parameters = selectionParameters(selection);
  parameters.set("by", selection.by);
  parameters.set("order", selection.order);
  parameters.set("limit", String(PAGE));
  parameters.set("offset", String(offset));
  if (search !== "") parameters.set("search", search);
  return `api/table?${parameters}`;
}

/** Rows by page, of one path without offset; a new path begins anew but shows the old first page. */
function usePages(selection: Selection, search: string) {
  const key = pathOf(selection, search, 0);
  const first = useAnswer(key, askTable);
  const pages = useRef({ of: null as Table | null, key: "", rows: new Map<number, TableRow[]>(), pending: new Set<number>() }).current;
  const [, redraw] = useState(0);
  if (first.value && pages.of !== first.value) {
    pages.of = first.value;
    pages.key = first.key;
    pages.rows = new Map([[0, first.value.row]]);
    pages.pending = new Set();
  }
  const row = (index: number): TableRow | null => pages.rows.get(Math.floor(index / PAGE))?.[index % PAGE] ?? null;
  const need = (begin: number, end: number) => {
    for (let page = Math.floor(begin / PAGE); page * PAGE < end; page++) {
      if (pages.rows.has(page) || pages.pending.has(page) || pages.key !== key) continue;
      const { rows, pending } = pages;
      pending.add(page);
      askTable(pathOf(selection, search, page * PAGE), new AbortController().signal).then(
        (table: Table) => { rows.set(page, table.row); redraw((n) => n + 1); },
        () => pending.delete(page),
      );
    }
  };
  return { first, row, need };
}

function Number({ figure, counts, signed }: { figure: MaybeFigure; counts: boolean; signed: boolean }) {
  if (figure === null) return <span class="faint">unknown</span>;
  const words = figureInWords(figure, counts);
  const margin = words.search(/ (±|-|\+)/);
  const amount = signed ? signedInWords(figure.value, counts) : margin < 0 ? words : words.slice(0, margin);
  if (figure.value === 0 && margin < 0) return <span class="faint">0</span>;
  return <>{amount}{margin >= 0 && <span class="faint">{words.slice(margin)}</span>}</>;
}

/** Whether a change is within chance: its limits include none. */
const isChance = (figure: MaybeFigure) => figure !== null && figure.low !== null && figure.high !== null && figure.low <= 0 && figure.high >= 0;

function Row({ row, top, by, whole, signed, counts, isChosen, onOpen }: {
  row: TableRow; top: number; by: TableBy; whole: number; signed: boolean; counts: boolean; isChosen: boolean; onOpen: () => void;
}) {
  const hasSelf = HAS_SELF.has(by);
  const bytes = (hasSelf ? row.self_bytes : row.bytes) ?? null;
  const count = (hasSelf ? row.self_count : row.count) ?? null;
  const counted = counts ? count : bytes;
  const share = counted && whole > 0 ? counted.value / whole : 0;
  const faint = signed && isChance(counted) && isChance(counts ? row.count : row.bytes);
  return (
    <div class={`row${isChosen ? " chosen" : ""}${faint ? " chance" : ""}`} role="row" aria-selected={isChosen} style={{ top: `${top}px` }} onClick={onOpen}>
      <span role="cell" class="key" title={row.key}>{row.key || "(none)"}</span>
      {HAS_MODULE.has(by) && <span role="cell" class="module" title={row.module}>{shortModule(row.module ?? "")}</span>}
      <span role="cell" class="number"><Number figure={bytes} counts={false} signed={signed} /></span>
      <span role="cell" class="share">
        <i class="bar" style={{ width: `${Math.min(Math.max(share, 0), 1) * 64}px` }} />{signed || !counted?.value ? "" : shareInWords(counted.value, whole)}
      </span>
      {hasSelf && <span role="cell" class="number"><Number figure={row.bytes} counts={false} signed={signed} /></span>}
      <span role="cell" class="number"><Number figure={count} counts={true} signed={signed} /></span>
    </div>
  );
}

export function TablePanel() {
  const selection = useSelection();
  const { by, order } = selection;
  const [search, setSearch] = useState(selection.search);
  useEffect(() => {
    const timer = setTimeout(() => setSearch(selection.search), SEARCH_MS);
    return () => clearTimeout(timer);
  }, [selection.search]);
  const { first, row, need } = usePages(selection, search);
  const [seen, setSeen] = useState({ top: 0, height: 600 });
  const [chosen, setChosen] = useState(0);
  const body = useRef<HTMLDivElement>(null);
  const rows = first.value?.rows ?? 0;
  const begin = Math.max(Math.floor(seen.top / ROW) - MORE, 0);
  const end = Math.min(Math.ceil((seen.top + seen.height) / ROW) + MORE, rows);
  const signed = selection.base !== "";
  const counts = selection.view.endsWith("objects");
  const whole = (counts ? first.value?.count?.value : first.value?.bytes?.value) ?? 0;
  useEffect(() => need(begin, end));
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => setSeen((last) => ({ ...last, height: body.current!.clientHeight })));
    observer.observe(body.current!);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    body.current!.scrollTop = 0;
    setChosen(0);
  }, [by, order, search, selection.heap, selection.view]);
  useShortcuts({ "/": () => document.getElementById("search")?.focus() });

  function open(index: number) {
    const found = row(index);
    setChosen(index);
    if (!found) return;
    if (isSaved) select({ tab: "flame", search: `/${exactly(found.key)}/` });
    else if (found.function !== undefined && HAS_MODULE.has(by)) select({ tab: "flame", direction: "sandwich", function: found.function, zoom: "", frame: "" });
    else if ((by === "module" || by === "file") && found.key !== "") {
      addFilter("focus", exactly(found.key));
      select({ tab: "flame" });
    }
  }
  function go(index: number) {
    const next = Math.min(Math.max(index, 0), rows - 1);
    const element = body.current!;
    setChosen(next);
    if (next * ROW < element.scrollTop) element.scrollTop = next * ROW;
    else if ((next + 1) * ROW + HEAD > element.scrollTop + element.clientHeight) element.scrollTop = (next + 1) * ROW + HEAD - element.clientHeight;
  }
  function onKeyDown(event: KeyboardEvent) {
    const page = Math.max(Math.floor(seen.height / ROW) - 1, 1);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows, End: rows };
    const step = steps[event.key];
    if (step !== undefined) go(chosen + step);
    else if (event.key === "Enter") open(chosen);
    else return;
    event.preventDefault();
  }

  const sortBy = (name: TableOrder, title: string) => (
    <span role="columnheader" class="number" aria-sort={order === name ? "descending" : "none"}>
      <button type="button" class="sort" onClick={() => select({ order: name })}>{title}{order === name ? " ↓" : ""}</button>
    </span>
  );
  const title = BY.find(([name]) => name === by)![1];
  return (
    <section class="panel table" aria-label="Table" aria-busy={first.isWaiting}>
      <div class="tools">
        <span class="group" role="group" aria-label="Broken down by">
          {BY.map(([name, words]) => (
            <button type="button" key={name} aria-pressed={by === name} title={TITLES[name]} onClick={() => select({ by: name })}>{words}</button>
          ))}
        </span>
        <input id="search" type="search" placeholder="Search names" aria-label="Search names" spellcheck={false} autocomplete="off"
          value={selection.search} onInput={(event) => select({ search: event.currentTarget.value }, true)} />
        <output>{first.value && plural(rows, "row")}</output>
      </div>
      <div class={`grid by-${by}${first.isWaiting ? " waits" : ""}`} role="table" aria-rowcount={rows} aria-label={`By ${title.toLowerCase()}`}>
        <div class="grid-body" ref={body} tabIndex={0} aria-label="Rows" onKeyDown={onKeyDown}
          onScroll={(event) => { const { scrollTop, clientHeight } = event.currentTarget; setSeen({ top: scrollTop, height: clientHeight }); }}>
        <div class="row head" role="row">
          <span role="columnheader" class="key">{title}</span>
          {HAS_MODULE.has(by) && <span role="columnheader" class="module">Module</span>}
          {HAS_SELF.has(by) ? sortBy("self", "Self") : <span role="columnheader" class="number">Bytes</span>}
          <span role="columnheader" class="share">{signed ? "" : "Of all"}</span>
          {HAS_SELF.has(by) && sortBy("total", "With callees")}
          <span role="columnheader" class="number">Allocations</span>
        </div>
          {first.value?.unknown ? <div class="empty"><p>The file does not contain these figures. They are unknown, which is not the same as zero.</p></div>
            : first.error !== "" ? <div class={`empty${isSaved ? "" : " bad"}`}><p><Sentence text={first.error} /></p></div>
            : first.value && rows === 0 ? <div class="empty"><p>{search !== "" ? `No name has “${search}”.` : "There are no rows: nothing is in this view."}</p></div>
              : (
                <div class="grid-room" style={{ height: `${rows * ROW}px` }}>
                  {Array.from({ length: Math.max(end - begin, 0) }, (_, i) => {
                    const index = begin + i;
                    const found = row(index);
                    return found
                      ? <Row key={index} row={found} top={index * ROW} by={by} whole={whole} signed={signed} counts={counts} isChosen={index === chosen} onOpen={() => open(index)} />
                      : <div key={index} class="row pending" style={{ top: `${index * ROW}px` }}>…</div>;
                  })}
                </div>
              )}
        </div>
      </div>
    </section>
  );
}
