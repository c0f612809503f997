// SPDX-License-Identifier: Apache-2.0
// The table's tab: what the selection holds by each dimension, and each row of it by others. Only the rows that are seen exist; further ones are asked for as they come into sight.
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { useColumns } from "./columns";
import { entriesOf, leave, Path, TABLE_BY } from "./break_down";
import { Menu } from "../flame/menu";
import { isSaved } from "../saved/saved";
import { Sentence } from "../sentence";
import { select, showsRetained, useSelection } from "../state";
import { columnsOf, hasModule, hasSelf, keyInWords, ordersOf, Row, ROW, type Look } from "./row";
import { orderOf, useCourses, usePages } from "./pages";
import type { Heap, TableBy, TableOrder, TableRow } from "../types";
import { useVirtualRows } from "../virtual_rows";
import { plural } from "../words";
import { useShortcuts } from "../keys";

const HEAD = 28;
const SEARCH_MS = 150;

const NOT_JUDGED = "Rows are not judged: samples decide which moment is the peak, so only the whole heap is compared with chance there";

const TITLES: Partial<Record<TableBy, string>> = {
  holder: "The function that a report charges: without allocators, the C library and run times",
  size: "By the mean size of each stack's blocks: files have no sizes of single blocks",
  lifetime: "By the mean lifetime of the blocks that each stack has freed",
};

export function TablePanel({ heap }: { heap: Heap }) {
  const selection = useSelection();
  const { by } = selection;
  const { order, sort } = orderOf(selection);
  const [menu, setMenu] = useState<{ row: TableRow; x: number; y: number } | null>(null);
  const [search, setSearch] = useState(selection.search);
  useEffect(() => {
    const timer = setTimeout(() => setSearch(selection.search), SEARCH_MS);
    return () => clearTimeout(timer);
  }, [selection.search]);
  const { first, row, need } = usePages(selection, search);
  const [chosen, setChosen] = useState(0);
  const rows = first.value?.rows ?? 0;
  const { box, begin, end, page, onScroll, reveal } = useVirtualRows(rows, ROW, HEAD);
  const courseOf = useCourses(selection, heap, search, begin, Math.min(end, rows));
  const hasCourse = heap.dumps.length > 1;
  const signed = selection.base !== "" && !showsRetained(selection);
  const counts = selection.view.endsWith("objects");
  const whole = (counts ? first.value?.count?.value : first.value?.bytes?.value) ?? 0;
  const figure = (found: TableRow) => (counts ? found.count : found.bytes)?.value ?? 0;
  const most = Math.max(...(first.value?.row ?? []).map((found) => Math.abs(figure(found))), 0);
  const look: Look = { by, whole, most, signed, counts, judged: first.value?.judged !== false };
  const columns = useColumns(columnsOf(look, hasCourse), signed ? 12 : 16);
  const { has, handle } = columns;
  useEffect(() => need(begin, end));
  useLayoutEffect(() => {
    box.current!.scrollTop = 0;
    setChosen(0);
  }, [by, order, sort, search, selection.heap, selection.view, selection.only]);
  useShortcuts({ "/": () => document.getElementById("search")?.focus() });

  function open(index: number, x: number, y: number) {
    const found = row(index);
    setChosen(index);
    if (!found) return;
    if (entriesOf(found, selection).length > 0) setMenu({ row: found, x, y });
  }
  function openByKey(index: number) {
    const at = box.current!.getBoundingClientRect();
    open(index, at.left + 48, at.top + HEAD + (index + 1) * ROW - box.current!.scrollTop);
  }
  function go(index: number) {
    const next = Math.min(Math.max(index, 0), rows - 1);
    setChosen(next);
    reveal(next);
  }
  function run(key: string): boolean {
    const found = row(chosen);
    const entry = found && entriesOf(found, selection).find((one) => one.key === key);
    entry?.run();
    return !!entry;
  }
  function onKeyDown(event: KeyboardEvent) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows, End: rows };
    const step = steps[event.key];
    if (step !== undefined) go(chosen + step);
    else if (event.key === "Enter" || event.key === "ContextMenu") openByKey(chosen);
    else if (event.key === "Backspace") leave(selection);
    else if (!run(event.key)) return;
    event.preventDefault();
  }

  const sortBy = (column: string, wanted: TableOrder, title: string, isNumber = true) => {
    if (!has(column)) return null;
    const isSorted = order === wanted;
    const next = isSorted ? (sort === "down" ? "up" : "down") : wanted === "name" ? "up" : "down";
    return (
      <span role="columnheader" class={isNumber ? "number" : "key"} aria-sort={!isSorted ? "none" : sort === "up" ? "ascending" : "descending"}>
        <button type="button" class="sort" onClick={() => select({ order: wanted, sort: next })}>{title}{!isSorted ? "" : sort === "up" ? " ↑" : " ↓"}</button>
        {handle(column)}
      </span>
    );
  };
  const bytesOrder = ordersOf(look, false);
  const countOrder = ordersOf(look, true);
  const title = TABLE_BY.find(([name]) => name === by)![1];
  return (
    <section class="panel table" aria-label="Table" aria-busy={first.isWaiting}>
      <div class="tools">
        <span class="group" role="group" aria-label="Broken down by">
          {TABLE_BY.map(([name, words]) => (
            <button type="button" key={name} aria-pressed={by === name} title={TITLES[name]} onClick={() => select({ by: name, order: "self", sort: "" })}>{words}</button>
          ))}
        </span>
        <input id="search" type="search" placeholder="Search names" aria-label="Search names" spellcheck={false} autocomplete="off"
          value={selection.search} onInput={(event) => select({ search: event.currentTarget.value }, true)} />
        <output>{first.value && plural(rows, "row")}</output>
        {columns.menu}
        {TITLES[by] && <span class="faint note" title={TITLES[by]}>{TITLES[by]}</span>}
        {signed && (order === "self" || order === "total") && <span class="faint note" title="Of each row, its stacks are ranked by how much they have changed, up or down">Most changed first</span>}
        {signed && !look.judged && <span class="faint note" title={NOT_JUDGED}>{NOT_JUDGED}</span>}
      </div>
      <Path selection={selection} />
      <div class={`grid by-${by}${signed ? " sides" : ""}${hasCourse ? " has-course" : ""}${first.isWaiting ? " waits" : ""}`} style={columns.style}>
        <div class="grid-body" ref={box} tabIndex={0} role="grid" aria-rowcount={rows + 1} aria-label={`By ${title.toLowerCase()}`}
          aria-activedescendant={row(chosen) ? `row-${chosen}` : undefined} onKeyDown={onKeyDown} onScroll={onScroll}>
        <div class="row head" role="row" aria-rowindex={1}>
          {sortBy("key", "name", title, false)}
          {hasModule(by) && has("module") && <span role="columnheader" class="module">Module{handle("module")}</span>}
          {signed && <>{sortBy("before", "before", "Before")}{sortBy("after", "after", "After")}{sortBy("percent", "percent", "Change %")}</>}
          {sortBy("self", bytesOrder.self, signed ? (hasSelf(by) ? "Change of self" : "Change") : hasSelf(by) ? "Self" : "Bytes")}
          {has("share") && <span role="columnheader" class="share">{signed ? <span class="sr-only">Whether it is chance</span> : "Of all"}{handle("share")}</span>}
          {hasSelf(by) && sortBy("total", bytesOrder.total, signed ? "Change with callees" : "With callees")}
          {sortBy("count", countOrder.self, "Allocations")}
          {hasCourse && has("course") && <span role="columnheader" title={hasSelf(by) ? "With callees, at all dumps; each line is scaled to its own highest value" : "At all dumps; each line is scaled to its own highest value"}>Over time{handle("course")}</span>}
        </div>
          {first.value?.unknown ? <div class="empty"><p>The file does not contain these figures. They are unknown, which is not the same as zero.</p></div>
            : first.error !== "" ? <div class={`empty${isSaved ? "" : " bad"}`}><p><Sentence text={first.error} /></p></div>
            : first.value && rows === 0 ? <div class="empty"><p>{search !== "" ? `No name has “${search}”.` : "There are no rows: nothing is in this view."}</p></div>
              : (
                <div class="grid-room" role="rowgroup" style={{ height: `${rows * ROW}px` }}>
                  {Array.from({ length: Math.max(end - begin, 0) }, (_, i) => {
                    const index = begin + i;
                    const found = row(index);
                    return found
                      ? <Row key={index} row={found} index={index} top={index * ROW} look={look} has={has} course={hasCourse ? courseOf(index) : null} isChosen={index === chosen} onOpen={(event) => open(index, event.clientX, event.clientY)} />
                      : <div key={index} class="row pending" role="row" style={{ top: `${index * ROW}px` }}><span role="gridcell">…</span></div>;
                  })}
                </div>
              )}
        </div>
      </div>
      {menu && <Menu title={keyInWords(by, menu.row)} entries={entriesOf(menu.row, selection)} x={menu.x} y={menu.y} onClose={() => setMenu(null)} />}
    </section>
  );
}
