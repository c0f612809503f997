// SPDX-License-Identifier: Apache-2.0
// The first screen: plain sentences about the profile, what limits its figures, every heap with its
// course over time, and what was not profiled.
import { dumpIndex, openHeap, processTitle } from "./model";
import { select, useSelection } from "./state";
import type { Dump, Heap, MaybeFigure, Overview, Process, Profile } from "./types";
import { bytesInWords, countInWords, figureInWords, plural, timeInWords } from "./words";

const SPARK_WIDTH = 120;
const SPARK_HEIGHT = 24;

/** Live bytes over time, from zero; as high as the most that any of the heaps drawn together has. */
function Sparkline({ heap }: { heap: Heap }) {
  const points = heap.dumps.filter((dump) => dump.space !== null);
  if (points.length < 2) return null;
  const first = points[0]!.time;
  const span = points[points.length - 1]!.time - first || 1;
  const most = Math.max(...points.map((dump) => dump.space!.value), 1);
  const at = (dump: Dump) => {
    const x = 1 + ((dump.time - first) / span) * (SPARK_WIDTH - 2);
    const y = SPARK_HEIGHT - 2 - (dump.space!.value / most) * (SPARK_HEIGHT - 4);
    return `${x.toFixed(1)} ${y.toFixed(1)}`;
  };
  const line = points.map(at).join("L");
  return (
    <svg class="spark" width={SPARK_WIDTH} height={SPARK_HEIGHT} aria-hidden="true">
      <path class="spark-area" d={`M1 ${SPARK_HEIGHT - 1}L${line}L${SPARK_WIDTH - 1} ${SPARK_HEIGHT - 1}Z`} />
      <path class="spark-line" d={`M${line}`} />
    </svg>
  );
}

/** The command at the end of a sentence ("...: heap_profile ...") can be copied. */
export function Sentence({ text }: { text: string }) {
  const parts = text.split(/(`[^`]+`)/);
  return <>{parts.map((part, i) => (part.startsWith("`") && part.length > 2 ? <code key={i}>{part.slice(1, -1)}</code> : part))}</>;
}

const known = (figure: MaybeFigure) => (figure === null ? <span class="faint">unknown</span> : figureInWords(figure, false));

function HeapRow({ process, heap, isChosen }: { process: Process | undefined; heap: Heap; isChosen: boolean }) {
  const last = heap.dumps[dumpIndex(heap, null)];
  const lost = heap.losses.reduce((sum, loss) => sum + (loss.amount > 0 ? 1 : 0), 0);
  return (
    <tr class={isChosen ? "chosen" : ""} aria-selected={isChosen} onClick={() => select({ ...openHeap(heap.id), tab: "flame" })}>
      <td><button type="button" class="link">{processTitle(process ?? null)}</button></td>
      <td>{heap.name}</td>
      {heap.unseen !== "" ? <td colSpan={4} class="unseen"><Sentence text={heap.unseen} /></td> : (
        <>
          <td class="number">{last ? known(last.space) : <span class="faint">no dump yet</span>}</td>
          <td class="number">{last ? known(last.max) : ""}</td>
          <td class="number">{last && last.exact_bytes !== null ? bytesInWords(last.exact_bytes) : last ? known(last.alloc_space) : ""}</td>
          <td class="number">{last && last.exact_calls !== null ? countInWords(last.exact_calls) : ""}</td>
        </>
      )}
      <td>{heap.unseen === "" && <Sparkline heap={heap} />}</td>
      <td class="number">{countInWords(heap.dumps.length)}</td>
      <td>{heap.exact ? "every allocation" : `one sample in ${bytesInWords(heap.interval_bytes)}`}
        {lost > 0 && <span class="warn"> · {plural(lost, "kind")} of losses</span>}
        {heap.unfinished && <span class="warn"> · unfinished</span>}</td>
    </tr>
  );
}

const rankOf = (heap: Heap) => heap.dumps[heap.dumps.length - 1]?.space?.value ?? -1;

function Heaps({ profile, chosen }: { profile: Profile; chosen: string }) {
  const heaps = [...profile.heaps].sort((a, b) => rankOf(b) - rankOf(a));
  if (heaps.length === 0) return <p class="hint">This profile has no heap: no process was profiled.</p>;
  return (
    <div class="wide">
      <table class="plain heaps">
        <thead>
          <tr>
            <th>Process</th><th>Heap</th><th class="number">Live at the last dump</th><th class="number">Peak</th>
            <th class="number">Allocated</th><th class="number">Calls</th><th>Live over time</th><th class="number">Dumps</th><th>How it was seen</th>
          </tr>
        </thead>
        <tbody>
          {heaps.map((heap) => (
            <HeapRow key={heap.id} process={profile.processes[heap.process]} heap={heap} isChosen={heap.id === chosen} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Notes({ heap }: { heap: Heap }) {
  const losses = heap.losses.filter((loss) => loss.amount > 0);
  if (losses.length + heap.notes.length === 0 && !heap.unfinished && !heap.partial) return null;
  return (
    <section aria-label="What limits these figures">
      <h2>What limits these figures</h2>
      <ul class="notes">
        {heap.unfinished && <li class="warn">The profiler was killed or still runs: the profile ends at its last checkpoint.</li>}
        {heap.partial && <li class="warn">Every allocation was to be recorded, but some were lost: the figures are partial.</li>}
        {losses.map((loss) => <li key={loss.name} class="warn"><Sentence text={loss.words} /></li>)}
        {heap.notes.map((note) => <li key={note}><Sentence text={note} /></li>)}
      </ul>
    </section>
  );
}

function NotProfiled({ profile }: { profile: Profile }) {
  if (profile.unprofiled.length === 0) return null;
  return (
    <section aria-label="Not profiled">
      <h2>Not profiled</h2>
      <table class="plain">
        <thead><tr><th>Process</th><th class="number">How many</th><th>Why</th></tr></thead>
        <tbody>
          {profile.unprofiled.map((one) => (
            <tr key={`${one.pid} ${one.name} ${one.reason}`} class={one.by_choice ? "faint" : ""}>
              <td>{one.name || "?"}{one.pid > 0 && ` (${one.pid})`}</td>
              <td class="number">{one.count > 0 ? countInWords(one.count) : "unknown"}</td>
              <td><Sentence text={one.reason} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function whenInWords(profile: Profile): string {
  const times = profile.heaps.flatMap((heap) => heap.dumps);
  if (profile.realtime_ns === null || times.length === 0) return "";
  const last = times.reduce((one, other) => (other.time > one.time ? other : one));
  const start = times.reduce((one, other) => (other.start < one.start ? other : one)).start;
  const ended = Number(BigInt(profile.realtime_ns) / 1_000_000n) + last.time / 1e6;
  const date = new Date(ended);
  if (!Number.isFinite(ended) || Number.isNaN(date.getTime())) return "";
  const span = start > 0 && last.time > start ? `, after ${timeInWords((last.time - start) / 1e9)}` : "";
  return `Last dump ${date.toLocaleString()}${span}`;
}

export function OverviewPanel({ overview }: { overview: Overview }) {
  const selection = useSelection();
  return (
    <section class="panel overview" aria-label="Overview">
      {overview.sentences.length > 0 && (
        <div class="sentences">{overview.sentences.map((sentence) => <p key={sentence}><Sentence text={sentence} /></p>)}</div>
      )}
      {overview.profiles.map((profile) => {
        const chosen = profile.heaps.find((heap) => heap.id === selection.heap);
        return (
          <div class="profile" key={profile.path}>
            <h2>{overview.profiles.length > 1 ? profile.name : "Heaps"}</h2>
            <p class="where">{profile.path}{whenInWords(profile) && ` · ${whenInWords(profile)}`}</p>
            {profile.processes[chosen?.process ?? 0]?.command && (
              <p class="command"><code>{profile.processes[chosen?.process ?? 0]!.command}</code></p>
            )}
            {profile.warning !== "" && <p class="warn"><Sentence text={profile.warning} /></p>}
            <Heaps profile={profile} chosen={selection.heap} />
            {chosen && <Notes heap={chosen} />}
            <NotProfiled profile={profile} />
          </div>
        );
      })}
    </section>
  );
}
