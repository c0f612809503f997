// SPDX-License-Identifier: Apache-2.0
// A process in the list, and what can be done with it.
import { LongName } from "../long_name";
import { bytesInWords, countInWords, timeInWords } from "../words";
import { checkOf, obstacleOf } from "./checks";
import { courseOf, growthOf, type Listed, type MachineProcess } from "./process_list";
import { Trend } from "./trend";

export const ROW = 28;
const STEP = 14; // of a level of the tree
const DEPTH_MAX = 12;

/** Memory that the kernel does not tell: of its own threads and of ended processes. */
export const memoryInWords = (bytes: number | null) => (bytes === null ? "–" : bytesInWords(bytes));

export function trendInWords(process: MachineProcess): string {
  const growth = growthOf(process);
  if (growth === null) return "not known yet";
  return growth === 0 ? "unchanged" : `${growth > 0 ? "+" : "-"}${bytesInWords(Math.abs(growth))} in the last ${timeInWords(2 * courseOf(process).length - 2)}`;
}

function State({ process, session }: { process: MachineProcess; session: number | undefined }) {
  const check = checkOf(process);
  if (session !== undefined) return <b class="profiled">profiled by session {session}</b>;
  if (process.kernel) return <span class="faint">a kernel thread</span>;
  if (!check) return <span class="faint">…</span>;
  if (check.profiler_pid !== null) return <b class="profiled">profiled by {check.profiler_pid === 0 ? "another user" : `process ${check.profiler_pid}`}</b>;
  const obstacle = obstacleOf(check);
  if (obstacle !== "") return <span class="obstacle" title={obstacle}>no: {obstacle}</span>;
  return <>yes{check.findings.some(({ finding }) => finding === "note") && <span class="faint">, with notes</span>}</>;
}

/** Whether Profile is offered. Before the check it is: the Record page says why not. */
export function canBeProfiled(process: MachineProcess, session: number | undefined): boolean {
  const check = checkOf(process);
  return session === undefined && !process.kernel && (!check || (check.can_be_profiled && check.profiler_pid === null));
}

interface Props {
  has: (column: string) => boolean;
  listed: Listed;
  index: number;
  session: number | undefined;
  isChosen: boolean;
  onChoose: () => void;
  onProfile: () => void;
  onSnapshot: () => void;
  onSave: (event: MouseEvent) => void;
}

export function ProcessRow({ has, listed: { process, depth }, index, session, isChosen, onChoose, onProfile, onSnapshot, onSave }: Props) {
  return (
    <div class={`row${isChosen ? " chosen" : ""}`} role="row" id={`process-${process.pid}`} aria-rowindex={index + 2} aria-selected={isChosen}
      style={{ top: `${index * ROW}px` }} onClick={onChoose}>
      <span role="gridcell" class="key" style={{ paddingLeft: `${Math.min(depth, DEPTH_MAX) * STEP}px` }} ><LongName name={process.name} title={process.command || process.name} /></span>
      {has("pid") && <span role="gridcell" class="number">{process.pid}</span>}
      {has("user") && <span role="gridcell" class="user" title={process.user}>{process.user}</span>}
      {has("resident") && <span role="gridcell" class="number">{memoryInWords(process.rss)}</span>}
      {has("trend") && <span role="gridcell" title={trendInWords(process)}><Trend course={courseOf(process)} /><span class="sr-only">{trendInWords(process)}</span></span>}
      {has("swap") && <span role="gridcell" class="number">{memoryInWords(process.swap)}</span>}
      {has("threads") && <span role="gridcell" class="number">{countInWords(process.threads)}</span>}
      {has("cpu") && <span role="gridcell" class="number">{process.cpu_ms === 0 ? "0 s" : timeInWords(process.cpu_ms / 1000)}</span>}
      {has("state") && <span role="gridcell" class="state"><State process={process} session={session} /></span>}
      <span role="gridcell" class="actions">
        {session !== undefined ? (
          <>
            <button type="button" tabIndex={-1} onClick={onSnapshot}>Snapshot</button>
            <button type="button" tabIndex={-1} aria-haspopup="menu" onClick={onSave}>Save…</button>
          </>
        ) : canBeProfiled(process, session) && <button type="button" tabIndex={-1} onClick={onProfile}>Profile</button>}
      </span>
    </div>
  );
}
