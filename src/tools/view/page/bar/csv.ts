// SPDX-License-Identifier: Apache-2.0
// What is seen as comma-separated values for spreadsheets: the table, the boxes of the graph, what the timeline
// stacks; a figure has its 95 % limits beside it, and what is unknown is an empty cell. Other panels have their
// tables as they stand.
import { askShown } from "../flame/shown";
import { secondsOf, type Place } from "../model";
import type { Selection } from "../state";
import { tablePath } from "../table/pages";
import { hasSelf, keyInWords } from "../table/row";
import { askCourse, askTable } from "../source";
import type { CourseFigures, MaybeFigure } from "../types";
import { coursePath } from "../time/stack";
import { figureAt, functionOf, isUnknownAt, nameOf, selfAt, type Tree } from "../tree";

export type Cell = string | number | null;

/** Write rows as RFC 4180 has them. A spreadsheet runs a text that begins like a formula, so an apostrophe is put before it. */
export function csvOf(rows: Cell[][]): string {
  const cell = (value: Cell) => {
    if (typeof value !== "string") return value === null ? "" : String(value);
    const text = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(value) ? `'${value}` : value;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
}

const ROWS_MOST = 20000; // that one answer has

/** The table in its order, with all rows that are found. */
export async function tableCsv(selection: Selection): Promise<string> {
  const { signal } = new AbortController();
  const { by } = selection;
  const rows: Cell[][] = [];
  const names = hasSelf(by) ? (["self_bytes", "bytes", "self_count", "count"] as const) : (["bytes", "count"] as const);
  let hasLeast = false;
  const figure = (value: MaybeFigure): Cell[] =>
    [value?.value ?? null, value?.low ?? null, value?.high ?? null, ...(hasLeast ? [value?.least ?? null] : [])];
  for (let all = 1; rows.length < all; ) {
    const table = await askTable(tablePath(selection, selection.search, rows.length, ROWS_MOST), signal);
    all = table.rows;
    hasLeast = table.bytes?.least !== undefined;
    if (table.row.length === 0) break;
    for (const row of table.row)
      rows.push([keyInWords(by, row), row.module ?? "", row.file ?? "", row.line ?? null, ...names.flatMap((name) => figure(row[name] ?? null))]);
  }
  const columns = names.flatMap((name) => [name, `${name}_low95`, `${name}_high95`, ...(hasLeast ? [`${name}_least`] : [])]);
  return csvOf([[by, "module", "file", "line", ...columns], ...rows]);
}

function boxesOf(tree: Tree): Cell[][] {
  const hasLeast = figureAt(tree, 0, false).least !== undefined;
  const names = (name: string) => [name, `${name}_low95`, `${name}_high95`, `self_${name}`, ...(hasLeast ? [`${name}_least`] : [])];
  const head = ["box", "parent", "function", "module", "file", "line", ...names("bytes"), ...names("count")];
  const boxes = Array.from({ length: tree.count }, (_, node): Cell[] => {
    const found = functionOf(tree, node);
    const figures = (counts: boolean): Cell[] => {
      const { value, low, high, least = null } = figureAt(tree, node, counts);
      const cells = [value, low, high, selfAt(tree, node, counts), ...(hasLeast ? [least] : [])];
      return isUnknownAt(tree, node, counts) ? cells.map(() => null) : cells;
    };
    return [node, node > 0 ? tree.parent[node]! : null, nameOf(tree, node), found?.module ?? null, found?.file || null, found?.line || null, ...figures(false), ...figures(true)];
  });
  return [head, ...boxes];
}

/** All boxes of the graph, each with the number of the one that it is in; of callers and callees, the callers first. */
export async function graphCsv(selection: Selection): Promise<string> {
  return csvOf((await askShown(selection)).flatMap(({ tree }) => boxesOf(tree)));
}

/** The tables of the panel with their words, an empty line between two. */
export function panelCsv(): string {
  const tables = [...document.querySelectorAll<HTMLTableElement>("#panel table")];
  if (tables.length === 0) throw new Error("There is no table on this panel");
  const rowOf = (row: HTMLTableRowElement) => [...row.cells].flatMap((cell): Cell[] => [cell.textContent, ...Array<Cell>(cell.colSpan - 1).fill(null)]);
  return csvOf(tables.flatMap((table, i) => [...(i > 0 ? [[]] : []), ...[...table.rows].map(rowOf)]));
}

/** What the timeline stacks: a row for each dump. */
export async function courseCsv(selection: Selection, { heap, profile }: Place): Promise<string> {
  const course = await askCourse(coursePath(selection), new AbortController().signal);
  const layers: [string, CourseFigures][] = [...course.row.map((row): [string, CourseFigures] => [keyInWords(selection.over || "holder", row), row]), ["others", course.rest]];
  const head = layers.flatMap(([name]) => [name, `${name} low95`, `${name} high95`]);
  const rows = course.dumps.map((dump, i) =>
    [dump + 1, secondsOf(profile, heap.dumps[dump]!.time), ...layers.flatMap(([, { value, low, high }]) => [value[i]!, low[i]!, high[i]!])]);
  return csvOf([["dump", "seconds", ...head], ...rows]);
}
