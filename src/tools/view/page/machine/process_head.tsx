// SPDX-License-Identifier: Apache-2.0
// The tools above the list of processes, and its columns' titles, which sort it.
import type { ComponentChildren } from "preact";
import { select, type ProcessOrder, type Selection } from "../state";
import { plural } from "../words";

export const FIND = "find-processes";

const COLUMNS: [title: string, processOrder: ProcessOrder | null, isNumber: boolean][] = [
  ["Process", "name", false],
  ["Pid", "pid", true],
  ["User", "user", false],
  ["Resident", "rss", true],
  ["Trend", "growth", false],
  ["Swap", "swap", true],
  ["Threads", "threads", true],
  ["CPU time", "cpu_ms", true],
  ["Can be profiled", null, false],
  ["Action", null, false],
];

/** Names rise as they stand, numbers fall. */
const RISING: ProcessOrder[] = ["name", "user", "pid"];

export function ProcessHead({ selection: { processOrder, isReversed } }: { selection: Selection }) {
  return (
    <div class="row head" role="row" aria-rowindex={1}>
      {COLUMNS.map(([title, of, isNumber]) => {
        const isRising = of !== null && RISING.includes(of) !== isReversed;
        const sorted = of !== processOrder ? "none" : isRising ? "ascending" : "descending";
        return (
          <span role="columnheader" key={title} class={isNumber ? "number" : ""} aria-sort={of === null ? undefined : sorted}>
            {of === null ? title : (
              <button type="button" class="sort" onClick={() => select({ processOrder: of, isReversed: of === processOrder && !isReversed })}>
                {title}{of !== processOrder ? "" : isRising ? " ↑" : " ↓"}
              </button>
            )}
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
      <label class="check"><input type="checkbox" checked={hasKernel} onChange={onKernel} /> Threads of the kernel</label>
      <output>{count !== null && plural(count, "process", "processes")}{hasMore && ", not all of this machine"}</output>
      {children}
    </div>
  );
}
