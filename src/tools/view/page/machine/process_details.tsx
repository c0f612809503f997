// SPDX-License-Identifier: Apache-2.0
// What is known about the chosen process: its memory by kind, its command, and what doctor finds.
import { bytesInWords } from "../words";
import { checkOf } from "./checks";
import type { MachineProcess } from "./process_list";
import { memoryInWords, trendInWords } from "./process_row";

const FINDINGS = { ok: "ok", note: "note", no: "no" } as const;

function Memory({ process }: { process: MachineProcess }) {
  if (process.rss === null) return <p class="faint">It has no memory of its own.</p>;
  const parts: [string, number | null][] = [["anonymous", process.anonymous], ["of files", process.file], ["shared", process.shared], ["swapped out", process.swap]];
  return (
    <dl>
      <dt>Resident</dt><dd class="number" title={`${process.rss} bytes`}>{bytesInWords(process.rss)}</dd>
      {parts.map(([name, bytes]) => [<dt key={name}>{name}</dt>, <dd key={`${name} bytes`} class="number">{memoryInWords(bytes)}</dd>])}
      <dt>Trend</dt><dd>{trendInWords(process)}</dd>
    </dl>
  );
}

export function ProcessDetails({ process, session }: { process: MachineProcess; session: number | undefined }) {
  const check = checkOf(process);
  return (
    <section class="process-details" aria-label={`Process ${process.pid}`}>
      <div tabIndex={0}>
        <h2>{process.name} ({process.pid})</h2>
        <p class="command"><code>{process.command || process.name}</code></p>
        <p class="faint">of {process.user}, child of {process.parent_pid}, since {new Date(process.start_ms).toLocaleString()}</p>
      </div>
      <div tabIndex={0}><h2>Memory</h2><Memory process={process} /></div>
      <div class="findings" tabIndex={0}>
        <h2>{session !== undefined ? `Profiled by session ${session}` : "Can it be profiled?"}</h2>
        {process.kernel ? <p>No: a kernel thread has no heap.</p>
          : !check ? <p class="faint">…</p>
            : <ul>{check.findings.map(({ finding, text }, i) => <li key={i} class={finding}><b>{FINDINGS[finding]}</b> {text}</li>)}</ul>}
      </div>
    </section>
  );
}
