// SPDX-License-Identifier: Apache-2.0
// The rows of a table by page, as far as they were seen. The order of rows is that of the column which
// the user chose, down or up.
import { useEffect, useRef, useState } from "preact/hooks";
import { askTable, panelParameters, useAnswer } from "../source";
import type { SparkPoint } from "../spark";
import type { Selection } from "../state";
import type { Heap, Table, TableBy, TableOrder, TableRow } from "../types";

const PAGE = 500;

/** Sizes and lifetimes are classes, in an order of their own. */
export const isOfClasses = (by: TableBy) => by === "size" || by === "lifetime";

/** The order of the rows; `sort`: of a column that was chosen. */
export function orderOf({ by, order, sort }: Selection): { order: TableOrder; sort: "up" | "down" } {
  const of = isOfClasses(by) && order === "self" && sort === "" ? "name" : order;
  return { order: of, sort: sort === "" ? (of === "name" ? "up" : "down") : sort };
}

export function tablePath(selection: Selection, search: string, offset: number, limit = PAGE): string {
  const parameters = panelParameters(selection);
  parameters.set("by", selection.by);
  parameters.set("order", orderOf(selection).order);
  if (selection.sort !== "") parameters.set("sort", selection.sort);
  parameters.set("limit", String(limit));
  parameters.set("offset", String(offset));
  if (search !== "") parameters.set("search", search);
  return `api/table?${parameters}`;
}

/** Rows by page, of one path without offset; a new path begins anew but shows the old first page. */
export function usePages(selection: Selection, search: string) {
  const key = tablePath(selection, search, 0);
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
      askTable(tablePath(selection, search, page * PAGE), new AbortController().signal).then(
        (table: Table) => { rows.set(page, table.row); redraw((n) => n + 1); },
        () => pending.delete(page),
      );
    }
  };
  return { first, row, need };
}

const COURSES = 100; // rows that are asked for together
const COURSE_DUMPS = 24; // of a line, 4 pixels apart
const SETTLED_MS = 200; // then the lines are asked for: each takes as many tables as it has dumps

/** What the rows that are seen hold over time, by index; they come after the table. */
export function useCourses(selection: Selection, heap: Heap, search: string, begin: number, end: number) {
  const key = tablePath(selection, search, 0);
  const [settled, settle] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => settle(key), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [key]);
  const first = Math.floor(begin / COURSES) * COURSES;
  const limit = Math.ceil((end - first) / COURSES) * COURSES;
  const isWanted = heap.dumps.length > 1 && settled === key && limit > 0;
  const { value, key: of } = useAnswer(isWanted ? `${tablePath(selection, search, first, limit)}&course=${COURSE_DUMPS}` : null, askTable);
  const times = value?.course?.map((dump) => heap.dumps[dump]?.time ?? 0) ?? [];
  const isOfRows = of.startsWith(key.slice(0, key.indexOf("&limit=")));
  return (index: number): SparkPoint[] =>
    (isOfRows ? value?.row[index - first]?.course ?? [] : []).map((amount, i) => ({ time: times[i]!, value: amount }));
}
