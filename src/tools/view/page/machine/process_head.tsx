// SPDX-License-Identifier: Apache-2.0
// The tools above the list of processes, and its columns' titles, which sort it.
import type { ComponentChildren } from "preact";
import { select, type ProcessOrder, type Selection } from "../state";
import type { Column, Columns } from "../table/columns";
import { plural } from "../words";

export const FIND = "find-processes";

interface ProcessColumn extends Column {
  order?: ProcessOrder;
  isNumber?: boolean;
}

export const COLUMNS: ProcessColumn[] = [
  { name: "process", title: "Process", least: 120, order: "name", isFixed: true },
  { name: "pid", title: "Pid", least: 64, width: 64, order: "pid", isNumber: true },
  { name: "user", title: "User", least: 64, width: 96, order: "user" },
  { name: "resident", title: "Resident", least: 80, width: 80, order: "rss", isNumber: true },
  { name: "trend", title: "Trend", least: 96, width: 96, order: "growth" },
  { name: "swap", title: "Swap", least: 72, width: 72, order: "swap", isNumber: true },
  { name: "threads", title: "Threads", least: 64, width: 64, order: "threads", isNumber: true },
  { name: "cpu", title: "CPU time", least: 88, width: 88, order: "cpu_ms", isNumber: true },
  { name: "state", title: "Can be profiled", least: 120 },
  { name: "actions", title: "Action", least: 152, width: 152, isFixed: true },
];

/** Names rise as they stand, numbers fall. */
const RISING: ProcessOrder[] = ["name", "user", "pid"];

export function ProcessHead({ selection: { processOrder, isReversed }, columns: { has, handle } }: { selection: Selection; columns: Columns }) {
  return (
    <div class="row head" role="row" aria-rowindex={1}>
      {COLUMNS.filter(({ name }) => has(name)).map(({ name, title, order: of, isNumber }) => {
        const isRising = of !== undefined && RISING.includes(of) !== isReversed;
        const sorted = of !== processOrder ? "none" : isRising ? "ascending" : "descending";
        return (
          <span role="columnheader" key={title} class={isNumber ? "number" : ""} aria-sort={of === undefined ? undefined : sorted}>
            {of === undefined ? title : (
              <button type="button" class="sort" onClick={() => select({ processOrder: of, isReversed: of === processOrder && !isReversed })}>
                {title}{of !== processOrder ? "" : isRising ? " ↑" : " ↓"}
              </button>
            )}
            {handle(name)}
          </span>
        );
      })}
    </div>
  );
}

interface ToolsProps {
  selection: Selection;
  count: number | null;
  hasMore: boolean;
  hasKernel: boolean;
  onKernel: () => void;
  children: ComponentChildren;
}

export function ProcessTools({ selection, count, hasMore, hasKernel, onKernel, children }: ToolsProps) {
  return (
    <div class="tools">
      <span class="group" role="group" aria-label="Shown as">
        <button type="button" aria-pressed={!selection.isTree} onClick={() => select({ isTree: false })}>List</button>
        <button type="button" aria-pressed={selection.isTree} onClick={() => select({ isTree: true })}>Tree</button>
      </span>
      <input id={FIND} type="search" placeholder="Name, pid, user, command" aria-label="Find processes by name, pid, user or command" spellcheck={false}
        autocomplete="off" value={selection.find} onInput={(event) => select({ find: event.currentTarget.value }, true)} />
      <label class="check"><input type="checkbox" checked={hasKernel} onChange={onKernel} /> Kernel threads</label>
      <output>{count !== null && plural(count, "process", "processes")}{hasMore && ", not all of this machine"}</output>
      {children}
    </div>
  );
}
