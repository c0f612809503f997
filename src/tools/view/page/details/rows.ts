// SPDX-License-Identifier: Apache-2.0
// The heap details without the page: which dumps stand side by side, what is asked for, and the lines of
// the tree table. Nothing here touches the page, so that tests run it in node.
import { baseOf, dumpIndex, dumpTitle, profileTitle, type Place } from "../model";
import type { Selection } from "../state";
import type { Details, DetailsRow, MaybeFigure, Overview } from "../types";

export const DUMPS_MAX = 4;
export const LEVEL_ROWS = 200; // asked for at a time

// --- dumps side by side ---

export interface ShownDump {
  id: string; // as a base: "2", "1.0.5"
  figure: number; // its place in the rows' figures
  title: string;
  role: "selected" | "base" | "also";
  profile: number;
  time: number;
}

/** Return the dumps in the order in which the server answers: the selected one, the base, the others. */
function askedDumps(overview: Overview, place: Place, selection: Selection): ShownDump[] {
  const also = selection.also === "" ? [] : selection.also.split(",");
  const selected = String(dumpIndex(place.heap, selection.dump));
  const asked = [selected, ...(selection.base !== "" ? [selection.base] : []), ...also];
  return asked.flatMap((id, figure): ShownDump[] => {
    const found = baseOf(overview, place, id);
    if (!found) return [];
    const title = dumpTitle(found.place, found.index);
    const isOwn = found.place.heap === place.heap;
    return [{
      id, figure, profile: overview.profiles.indexOf(found.place.profile), time: found.dump.time,
      title: isOwn ? title : `${profileTitle(found.place.profile)}, ${title}`,
      role: figure === 0 ? "selected" : id === selection.base ? "base" : "also",
    }];
  });
}

/** Return the dumps by time; those of other profiles first. */
export function shownDumps(overview: Overview, place: Place, selection: Selection): ShownDump[] {
  const own = overview.profiles.indexOf(place.profile);
  return askedDumps(overview, place, selection)
    .sort((a, b) => Number(a.profile === own) - Number(b.profile === own) || a.profile - b.profile || a.time - b.time);
}

/** Return the selection with one dump more: the first becomes the base. */
export function withDump(selection: Selection, id: string): Partial<Selection> {
  if (selection.base === "") return { base: id };
  const also = selection.also === "" ? [] : selection.also.split(",");
  return { also: [...also, id].slice(0, DUMPS_MAX - 2).join(",") };
}

/** Return the selection without a dump. Without its base, the next dump becomes the base. */
export function withoutDump(selection: Selection, id: string): Partial<Selection> {
  const also = selection.also === "" ? [] : selection.also.split(",");
  if (id === selection.base) return { base: also[0] ?? "", also: also.slice(1).join(",") };
  return { also: also.filter((one) => one !== id).join(",") };
}

// --- questions ---

/** Return a filter that finds a text in any case, as the searches of tables do. */
export function searchFilter(text: string): string {
  const pattern = [...text].map((letter) => {
    const [lower, upper] = [letter.toLowerCase(), letter.toUpperCase()];
    if (lower !== upper && lower.length === 1 && upper.length === 1) return `[${lower}${upper}]`;
    return letter.replace(/[\\^$.|?*+()[\]{}]/, "\\$&");
  });
  return `focus:${pattern.join("")}`;
}

/** How rows are sorted: by the change, if there is one, or what is chosen among the columns. */
export function sortOf(selection: Selection): string {
  const { rank: sort, base, also } = selection;
  const dumps = base === "" ? 1 : also === "" ? 2 : 2 + also.split(",").length;
  const isMissing = (sort.endsWith("change") && base === "") || (sort.includes("dump") && Number(sort.slice(-1)) >= dumps);
  return sort === "" || isMissing ? (base !== "" ? "change" : "bytes") : sort;
}

export const directionOf = (selection: Selection): "down" | "up" => (selection.direction === "up" ? "up" : "down");

/** The path that is broken down; "" if the page has it for the other direction. */
export const zoomOf = (selection: Selection) => (selection.direction === "sandwich" ? "" : selection.zoom);

export const below = (path: string, row: DetailsRow) => (path === "" ? String(row.function) : `${path}.${row.function}`);

// --- the lines of the tree table ---

export interface Level {
  total: DetailsRow;
  rows: DetailsRow[]; // those that have been asked for
  all: number;
}

export const levelOf = (answer: Details): Level => ({ total: answer.total, rows: answer.row, all: answer.rows });

export type Line =
  | { kind: "row"; path: string; depth: number; row: DetailsRow; isOpen: boolean; place: number; siblings: number }
  | { kind: "more" | "wait"; path: string; depth: number; left: number }; // path: of the parent

/** Return the lines that are open below a root, which is the first line. */
export function linesOf(level: (path: string) => Level | null, open: ReadonlySet<string>, root: string): Line[] {
  const top = level(root);
  if (!top) return [];
  const lines: Line[] = [{ kind: "row", path: root, depth: 0, row: top.total, isOpen: true, place: 1, siblings: 1 }];
  // What remains to be listed, the next last: a level may be deep.
  const todo = [{ path: root, level: top as Level | null, next: 0, depth: 1 }];
  while (todo.length > 0) {
    const at = todo[todo.length - 1]!;
    const row = at.level?.rows[at.next];
    if (!row) {
      if (!at.level) lines.push({ kind: "wait", path: at.path, depth: at.depth, left: 0 });
      else if (at.level.all > at.level.rows.length) lines.push({ kind: "more", path: at.path, depth: at.depth, left: at.level.all - at.level.rows.length });
      todo.pop();
      continue;
    }
    const path = below(at.path, row);
    const isOpen = row.opens === true && open.has(path);
    lines.push({ kind: "row", path, depth: at.depth, row, isOpen, place: ++at.next, siblings: at.level!.all });
    if (isOpen) todo.push({ path, level: level(path), next: 0, depth: at.depth + 1 });
  }
  return lines;
}

/** Return the index of the line above which a line is: its caller's. */
export function parentOf(lines: Line[], index: number): number {
  const { depth } = lines[index]!;
  let at = index;
  while (at > 0 && lines[at]!.depth >= depth) at--;
  return at;
}

/** Bytes of an average allocation; null: unknown, or nothing was allocated. */
export function averageOf(row: DetailsRow, figure: number): number | null {
  const bytes = row.bytes[figure];
  const count = row.count[figure];
  return bytes && count && count.value > 0 ? bytes.value / count.value : null;
}

export const figureOf = (row: DetailsRow, figure: number, counts: boolean): MaybeFigure | undefined =>
  (counts ? row.count : row.bytes)[figure];
