// SPDX-License-Identifier: Apache-2.0
// The table that is seen, and what the timeline stacks, as comma-separated values for spreadsheets. A
// figure has its 95 % limits beside it; what is unknown is an empty cell.
import { secondsOf, type Place } from "../model";
import type { Selection } from "../state";
import { tablePath } from "../table/pages";
import { hasSelf, keyInWords } from "../table/row";
import { askCourse, askTable } from "../source";
import type { CourseFigures, MaybeFigure } from "../types";
import { coursePath } from "../time/stack";

export type Cell = string | number | null;

/** Write rows as RFC 4180 has them. A spreadsheet runs a text that begins like a formula, so an apostrophe is put before it. */
export function csvOf(rows: Cell[][]): string {
  const cell = (value: Cell) => {
    if (typeof value !== "string") return value === null ? "" : String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
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

/** What the timeline stacks: a row for each dump. */
export async function courseCsv(selection: Selection, { heap, profile }: Place): Promise<string> {
  const course = await askCourse(coursePath(selection), new AbortController().signal);
  const layers: [string, CourseFigures][] = [...course.row.map((row): [string, CourseFigures] => [keyInWords(selection.over || "holder", row), row]), ["others", course.rest]];
  const head = layers.flatMap(([name]) => [name, `${name} low95`, `${name} high95`]);
  const rows = course.dumps.map((dump, i) =>
    [dump + 1, secondsOf(profile, heap.dumps[dump]!.time), ...layers.flatMap(([, { value, low, high }]) => [value[i]!, low[i]!, high[i]!])]);
  return csvOf([["dump", "seconds", ...head], ...rows]);
}
