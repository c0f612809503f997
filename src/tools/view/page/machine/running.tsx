// SPDX-License-Identifier: Apache-2.0
// What runs now: the sessions that record, and the largest processes.
import { select } from "../state";
import { bytesInWords, countInWords, plural, timeInWords } from "../words";
import { canBeProfiled, memoryInWords, trendInWords } from "./process_row";
import { courseOf, type MachineProcess } from "./process_list";
import type { Session } from "./recordings";
import { Trend } from "./trend";

function processesInWords(session: Session): string {
  const named = session.processes.slice(0, 3).map(({ name, pid }) => `${name} (${pid})`);
  const more = session.process_count - named.length;
  return named.length === 0 ? "no process yet" : named.join(", ") + (more > 0 ? ` and ${countInWords(more)} more` : "");
}

export interface SessionsProps {
  sessions: Session[];
  pathOf: (session: Session) => string | undefined; // of its profile
  isBusy: boolean;
  onOpen: (path: string) => void;
  onSnapshot: (session: number) => void;
  onStop: (session: number) => void;
}

export function Sessions({ sessions, pathOf, isBusy, onOpen, onSnapshot, onStop }: SessionsProps) {
  return (
    <section aria-label="Running sessions">
      <div class="section-head"><h2>Running sessions</h2></div>
      {sessions.length === 0 ? <p class="faint">Nothing is being recorded.</p> : (
        <ul class="sessions">
          {sessions.map((session) => {
            const path = pathOf(session);
            return (
              <li key={session.id}>
                <p><b>{processesInWords(session)}</b></p>
                <p class="faint">
                  session {session.id}, {timeInWords(session.elapsed_ms / 1000)}, {bytesInWords(session.live_bytes)} live
                  in {plural(session.samples, "sample")}{session.lost > 0 && <span class="warn">, {countInWords(session.lost)} lost</span>}
                </p>
                <p class="buttons">
                  {path && <button type="button" disabled={isBusy} onClick={() => onOpen(path)}>Open</button>}
                  <button type="button" onClick={() => onSnapshot(session.id)}>Snapshot</button>
                  <button type="button" onClick={() => onStop(session.id)}>Stop</button>
                </p>
              </li>
            );
          })}
        </ul>
      )}
    </section>
  );
}

const LARGEST = 8;

export function Largest({ processes, sessions }: { processes: MachineProcess[]; sessions: Map<number, number> }) {
  const largest = processes.filter((process) => process.rss !== null).sort((one, other) => other.rss! - one.rss!).slice(0, LARGEST);
  return (
    <section aria-label="Largest processes">
      <div class="section-head"><h2>Largest processes</h2><button type="button" class="link" onClick={() => select({ page: "processes" })}>All processes</button></div>
      <table class="plain largest" aria-label="Largest processes">
        <thead><tr><th>Process</th><th class="number">Pid</th><th class="number">Resident</th><th>Trend</th><th><span class="sr-only">Action</span></th></tr></thead>
        <tbody>
          {largest.map((process) => {
            const session = sessions.get(process.pid);
            return (
              <tr key={process.pid}>
                <td class="what" title={process.command}>{process.name}</td>
                <td class="number">{process.pid}</td>
                <td class="number">{memoryInWords(process.rss)}</td>
                <td title={trendInWords(process)}><Trend course={courseOf(process)} /></td>
                <td>{session !== undefined ? <b class="profiled">session {session}</b>
                  : canBeProfiled(process, session) ? <button type="button" onClick={() => select({ page: "record", pid: process.pid })}>Profile</button>
                    : <span class="faint">cannot be profiled</span>}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}
