// SPDX-License-Identifier: Apache-2.0
// Breaking a table down in turn: a row becomes a part of the selection, which is then divided by another
// dimension. The path of parts leads back to each table from which a row was chosen.
import { isSaved } from "../saved/saved";
import { addFilter, addOnly, exactly, select, type Selection } from "../state";
import type { MenuEntry } from "../flame/menu";
import type { TableBy, TableRow } from "../types";
import { partInWords } from "../words";

export const TABLE_BY: [by: TableBy, title: string, key: string][] = [
  ["function", "Function", "F"], ["holder", "Holder", "H"], ["module", "Module", "M"], ["file", "File", "I"], ["thread", "Thread", "T"],
  ["type", "Type", "Y"], ["context", "Context", "X"], ["size", "Size", "S"], ["lifetime", "Lifetime", "L"],
];

const isRepeated = (by: TableBy) => by === "function";

/** What can be done with a row; the first is what Enter does. */
export function entriesOf(row: TableRow, selection: Selection): MenuEntry[] {
  const { by, only } = selection;
  const { function: id, part } = row;
  const entries: MenuEntry[] = [];
  const isPart = part !== null;
  if (isPart)
    for (const [next, title, key] of TABLE_BY) {
      const isDone = (next === by && !isRepeated(by)) || only.some((one) => one.dimension === next && !isRepeated(next));
      if (!isDone) entries.push({ title: `Break down by ${title.toLowerCase()}`, key, run: () => addOnly(by, part, { by: next, order: "self", sort: "", search: "" }) });
    }
  if (isPart) entries.push({ title: "Flame graph of this row", key: "g", run: () => addOnly(by, part, { tab: "flame" }) });
  if (id !== undefined) {
    entries.push({ title: "Callers and callees", key: "c", run: () => select({ tab: "flame", direction: "sandwich", function: id, zoom: "", frame: "" }) });
    if (!isSaved) entries.push({ title: "Source", key: "e", run: () => select({ tab: "source", function: id }) });
  }
  if (id !== undefined || ((by === "module" || by === "file") && row.key !== "")) {
    entries.push({ title: "Only stacks with this", key: "f", run: () => addFilter("focus", exactly(row.key)) });
    entries.push({ title: "Only stacks without this", key: "i", run: () => addFilter("ignore", exactly(row.key)) });
  }
  return entries;
}

/** Go back by one part, to the table from which it was chosen. */
export function leave({ only }: Selection, to = only.length - 1) {
  const at = only[to];
  if (at) select({ only: only.slice(0, to), by: at.dimension, order: "self", sort: "", zoom: "" });
}

export function Path({ selection }: { selection: Selection }) {
  const { only } = selection;
  if (only.length === 0) return null;
  return (
    <nav class="path" aria-label="Path of the breakdown">
      <button type="button" onClick={() => leave(selection, 0)}>All</button>
      {only.map(({ dimension, value }, i) => {
        const words = `${dimension} ${partInWords(dimension, value)}`;
        const isLast = i === only.length - 1;
        return (
          <span key={words}>
            <span class="faint"> › </span>
            {isLast ? <b title={value} aria-current="step">{words}</b>
              : <button type="button" title={value} onClick={() => leave(selection, i + 1)}>{words}</button>}
          </span>
        );
      })}
    </nav>
  );
}
