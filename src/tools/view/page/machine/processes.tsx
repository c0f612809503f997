// SPDX-License-Identifier: Apache-2.0
// The page of processes: what runs on this machine, how its memory moves, and what can be profiled.
import { useState } from "preact/hooks";
import { useShortcuts } from "../keys";
import { select, useSelection } from "../state";
import { useVirtualRows } from "../virtual_rows";
import { useChecks } from "./checks";
import { usePolled } from "./polled";
import { ProcessDetails } from "./process_details";
import { COLUMNS, FIND, ProcessHead, ProcessTools } from "./process_head";
import { useColumns } from "../table/columns";
import { askProcesses, list, sessionsByPid, type Listed } from "./process_list";
import { canBeProfiled, ProcessRow, ROW } from "./process_row";
import { askRecordings } from "./recordings";
import { SaveMenu, useSessionActions } from "./session_actions";

const HEAD = 28;
const POLL_MS = 2000;

export function ProcessesPage() {
  const selection = useSelection();
  const processes = usePolled(askProcesses, POLL_MS);
  const machine = usePolled(askRecordings, POLL_MS);
  const [chosenPid, choose] = useState<number | null>(null);
  const [hasKernel, setKernel] = useState(false);
  const [menu, setMenu] = useState<{ pid: number; x: number; y: number } | null>(null);
  const actions = useSessionActions(machine.again);
  const listed = list(processes.value?.processes ?? [], { ...selection, hasKernel });
  const sessions = sessionsByPid(machine.value);
  const rows = useVirtualRows(listed.length, ROW, HEAD);
  const seen = listed.slice(rows.begin, rows.end);
  const chosen = Math.max(listed.findIndex(({ process }) => process.pid === chosenPid), 0);
  const process = listed[chosen]?.process;
  useChecks(seen.map((one) => one.process));
  useShortcuts({ "/": () => document.getElementById(FIND)?.focus() });

  const columns = useColumns(COLUMNS, 16);
  const profile = ({ process: { pid } }: Listed) => select({ page: "record", pid });
  const snapshot = ({ process: { pid } }: Listed) => {
    const session = sessions.get(pid);
    if (session !== undefined) actions.snapshot(session);
  };
  function go(index: number) {
    const next = Math.min(Math.max(index, 0), listed.length - 1);
    if (next < 0) return;
    choose(listed[next]!.process.pid);
    rows.reveal(next);
  }
  function onKeyDown(event: KeyboardEvent) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = listed[chosen];
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: rows.page, PageUp: -rows.page, Home: -listed.length, End: listed.length };
    const step = steps[event.key];
    if (step !== undefined) go(chosen + step);
    else if (!at) return;
    else if (event.key === "Enter" && canBeProfiled(at.process, sessions.get(at.process.pid))) profile(at);
    else if (event.key === "s") snapshot(at);
    else if (event.key === "ContextMenu" && sessions.has(at.process.pid)) setMenu({ pid: at.process.pid, x: innerWidth / 3, y: innerHeight / 3 });
    else return;
    event.preventDefault();
  }

  return (
    <section class="panel machine processes" aria-label="Processes" aria-busy={processes.value === null}>
      <ProcessTools selection={selection} count={processes.value && listed.length} hasMore={processes.value?.more ?? false}
        hasKernel={hasKernel} onKernel={() => setKernel(!hasKernel)}>
        <p class={`said${actions.isBad || processes.error !== "" ? " bad" : ""}`} role="status">{processes.error || actions.said}</p>
        {columns.menu}
      </ProcessTools>
      <div class="grid" style={columns.style}>
        <div class="grid-body" ref={rows.box} tabIndex={0} role="grid" aria-rowcount={listed.length + 1} aria-label="Processes of this machine" aria-activedescendant={process && `process-${process.pid}`}
          onKeyDown={onKeyDown} onScroll={rows.onScroll}>
          <ProcessHead selection={selection} columns={columns} />
          {processes.value && listed.length === 0 && <div class="empty"><p>No process has “{selection.find}” in its name, pid, user or command.</p></div>}
          <div class="grid-room" style={{ height: `${listed.length * ROW}px` }}>
            {seen.map((one, i) => (
              <ProcessRow key={one.process.pid} has={columns.has} listed={one} index={rows.begin + i} session={sessions.get(one.process.pid)} isChosen={rows.begin + i === chosen}
                onChoose={() => choose(one.process.pid)} onProfile={() => profile(one)} onSnapshot={() => snapshot(one)}
                onSave={(event) => setMenu({ pid: one.process.pid, x: event.clientX, y: event.clientY })} />
            ))}
          </div>
        </div>
      </div>
      {process && <ProcessDetails process={process} session={sessions.get(process.pid)} />}
      {menu && <SaveMenu {...menu} onSave={(format) => actions.save(menu.pid, format)} onClose={() => setMenu(null)} />}
    </section>
  );
}
