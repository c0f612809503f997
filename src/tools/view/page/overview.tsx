// SPDX-License-Identifier: Apache-2.0
// The first screen: plain sentences about the profile, what limits its figures, every heap with its
// course over time, and what was not profiled.
import { useState } from "preact/hooks";
import { Changes } from "./changes";
import { Ended } from "./ended";
import { LongName } from "./long_name";
import { dumpIndex, endOf, openHeap, processTitle, profileTitle, type Place } from "./model";
import { isSaved } from "./saved/saved";
import { Parts, Sentence } from "./sentence";
import { lossInWords, movementOf } from "./sentences";
import { askSummary, askTable, selectionParameters, useAnswer, type Answer } from "./source";
import { Spark } from "./spark";
import { NOTHING_SELECTED, select, useSelection, type Page, type Selection } from "./state";
import { shortModule } from "./tree";
import type { Dump, Heap, MaybeFigure, Overview, Process, Profile, Table, Topic, ViewName } from "./types";
import { bytesInWords, countInWords, figureInWords, intervalInWords, plural, samplingInWords, shareInWords, timeInWords } from "./words";

const SPARK_WIDTH = 120;

/** Live bytes over time. */
function HeapSpark({ heap }: { heap: Heap }) {
  return <Spark width={SPARK_WIDTH} points={heap.dumps.flatMap(({ time, space }) => (space === null ? [] : [{ time, value: space.value }]))} />;
}

const HOLDERS = 5;

/** The whole heap at the selected dump in a view. */
const wholeOf = (selection: Selection, view: ViewName) =>
  selectionParameters({ ...NOTHING_SELECTED, heap: selection.heap, dump: selection.dump, view });

/** The path of the table of the functions that hold most in a view of the selected dump. */
function holdersPath(selection: Selection, view: ViewName): string {
  const parameters = wholeOf(selection, view);
  parameters.set("by", "holder");
  parameters.set("limit", String(HOLDERS));
  return `api/table?${parameters}`;
}

/** The exact totals, where they are known. */
const countedInWords = (dump: Dump | undefined) =>
  dump && dump.exact_bytes !== null && dump.exact_calls !== null ? `${bytesInWords(dump.exact_bytes)} in ${plural(dump.exact_calls, "call")}` : "";

/** `counted`: stands for the total of the table. */
function Holders({ title, view, answer, counted = "" }: { title: string; view: ViewName; answer: Answer<Table>; counted?: string }) {
  const table = answer.value;
  const whole = table?.bytes?.value ?? 0;
  const rows = table?.row.filter((row) => (row.bytes?.value ?? 0) > 0) ?? [];
  const total = !table?.bytes || table.unknown ? "" : counted !== "" ? counted : figureInWords(table.bytes, false);
  return (
    <section class="holders" aria-label={title}>
      <h2>{title}{total !== "" && <span class="faint figures"> {total}</span>}</h2>
      {answer.error !== "" ? <p class={isSaved ? "faint" : "bad"}><Sentence text={answer.error} /></p>
        : !table ? <p class="faint">…</p>
          : table.unknown ? <p class="faint">The file does not contain these figures.</p>
            : rows.length === 0 ? <p class="faint">Nothing.</p> : (
              <ol>
                {rows.map((row) => (
                  <li key={row.function}>
                    <button type="button" class={row.key.includes(" @ ") ? "link alone" : "link"}
                      onClick={() => select({ tab: "flame", view, zoom: "", frame: "", filters: [], direction: "sandwich", function: row.function ?? null })}><LongName name={row.key} /></button>
                    {!row.key.includes(" @ ") && <span class="faint module">{shortModule(row.module ?? "")}</span>}
                    <span class="number">{shareInWords(row.bytes!.value, whole)}</span>
                    <span class="number" title={figureInWords(row.bytes!, false)}>{bytesInWords(row.bytes!.value)}</span>
                    <i class="bar" style={{ width: `${Math.min(row.bytes!.value / whole, 1) * 100}%` }} />
                  </li>
                ))}
              </ol>
            )}
    </section>
  );
}

/** What shows a sentence's figures: its title and its selection. */
const SHOWN: Partial<Record<Topic, [title: string, to: Partial<Selection>]>> = {
  live: ["Flame graph of what is live", { tab: "flame", view: "space" }],
  peak: ["Flame graph of the peak", { tab: "flame", view: "max" }],
  growth: ["Table of what is live", { tab: "table", view: "space", by: "holder" }],
  churn: ["Flame graph of all calls", { tab: "flame", view: "alloc_objects" }],
  resident: ["Memory of the process", { tab: "memory" }],
};

function Shows({ topic }: { topic: Topic | undefined }) {
  const shown = topic && SHOWN[topic];
  if (!shown) return null;
  const [title, to] = shown;
  return <button type="button" class="link shows" aria-label={title} title={title} onClick={() => select({ base: "", filters: [], only: [], group: "", zoom: "", frame: "", direction: "down", ...to })} />;
}

/** What the profile says of the heap at the selected dump, as reports begin; and the comparison that is chosen here. */
function FirstAnswer({ place, selection }: { place: Place; selection: Selection }) {
  const { value, error } = useAnswer(`api/summary?${wholeOf(selection, "space")}`, askSummary);
  const movement = movementOf(place, selection);
  return (
    <div class="sentences">
      {error !== "" ? <p class={isSaved ? "faint" : "bad"}><Sentence text={error} /></p>
        : !value ? <p class="faint">…</p>
          : value.sentences.map((parts, i) => <p key={parts.join("")}><Parts parts={parts} /><Shows topic={value.topics[i]} /></p>)}
      {movement !== null && <p>{movement}</p>}
    </div>
  );
}

function First({ overview, place, selection }: { overview: Overview; place: Place; selection: Selection }) {
  const now = useAnswer(holdersPath(selection, "space"), askTable);
  const peak = useAnswer(holdersPath(selection, "max"), askTable);
  const ever = useAnswer(holdersPath(selection, "alloc_space"), askTable);
  const dump = place.heap.dumps[dumpIndex(place.heap, selection.dump)];
  const isLast = dump === place.heap.dumps.at(-1);
  return (
    <>
      {selection.base !== "" && <Changes overview={overview} place={place} selection={selection} />}
      <FirstAnswer place={place} selection={selection} />
      <div class="three">
        <Holders title={dump?.final ? "Live at the end" : "Live at this dump"} view="space" answer={now} />
        <Holders title={isLast ? "Live at the peak" : "Live at the peak until then"} view="max" answer={peak} />
        <Holders title="Allocated since the start" view="alloc_space" answer={ever} counted={countedInWords(dump)} />
      </div>
    </>
  );
}

const known = (figure: MaybeFigure) => (figure === null ? <span class="faint">unknown</span> : figureInWords(figure, false));

function HeapRow({ process, heap, isChosen }: { process: Process | undefined; heap: Heap; isChosen: boolean }) {
  const last = heap.dumps[dumpIndex(heap, null)];
  const lost = heap.losses.length;
  return (
    <tr class={isChosen ? "chosen" : ""} aria-selected={isChosen} onClick={() => select({ ...openHeap(heap), tab: "flame" })}>
      <td title={process?.command}><button type="button" class="link">{processTitle(process ?? null)}</button></td>
      <td>{heap.name}</td>
      {heap.unseen !== "" ? <td colSpan={4} class="unseen"><Sentence text={heap.unseen} /></td> : (
        <>
          <td class="number">{last ? known(last.space) : <span class="faint">no dump yet</span>}</td>
          <td class="number">{last ? known(last.max) : ""}</td>
          <td class="number">{last && last.exact_bytes !== null ? bytesInWords(last.exact_bytes) : last ? known(last.alloc_space) : ""}</td>
          <td class="number">{last && last.exact_calls !== null ? countInWords(last.exact_calls) : ""}</td>
        </>
      )}
      <td>{heap.unseen === "" && <HeapSpark heap={heap} />}</td>
      <td class="number">{countInWords(heap.dumps.length)}</td>
      <td>{samplingInWords(heap)}
        {lost > 0 && <span class="warn"> · {plural(lost, "kind")} of losses</span>}
        {heap.unfinished && <span class="warn"> · unfinished</span>}</td>
    </tr>
  );
}

const HEAPS_FIRST = 50; // of a table that has more

const rankOf = (heap: Heap) => heap.dumps[heap.dumps.length - 1]?.space?.value ?? -1;

/** No profile is open, or it has no dump: the server does not know whether a recording goes on. */
export function NoHeap() {
  const link = (page: Page, title: string) => <button type="button" class="link" onClick={() => select({ page })}>{title}</button>;
  return (
    <div class="empty" role="status">
      <p>There is no dump yet.</p>
      <p class="faint">{link("home", "Start")} lists the profiles to open, {link("record", "Record")} makes one.</p>
      <p class="faint">While a recording goes on, the page shows its first dump as soon as it is there. If it has ended, it has none: no process was profiled, or heap_profile was killed.</p>
    </div>
  );
}

/** The heaps that match a search, the largest first; the chosen one in any case. */
function foundHeaps(profile: Profile, chosen: string, search: string): Heap[] {
  const wanted = search.trim().toLowerCase();
  const names = (heap: Heap) => `${processTitle(profile.processes[heap.process] ?? null)} ${heap.name}`.toLowerCase();
  return profile.heaps.filter((heap) => wanted === "" || heap.id === chosen || names(heap).includes(wanted)).sort((a, b) => rankOf(b) - rankOf(a));
}

/** Add figures up, with limits as of samples that have nothing in common; null: one is unknown. */
export function sumOf(figures: MaybeFigure[]): MaybeFigure {
  const sum = { value: 0, low: 0, high: 0 };
  let hasLimits = true;
  for (const figure of figures) {
    if (figure === null) return null;
    sum.value += figure.value;
    hasLimits &&= figure.low !== null && figure.high !== null;
    sum.low += ((figure.low ?? 0) - figure.value) ** 2;
    sum.high += ((figure.high ?? 0) - figure.value) ** 2;
  }
  return { value: sum.value, low: hasLimits ? sum.value - Math.sqrt(sum.low) : null, high: hasLimits ? sum.value + Math.sqrt(sum.high) : null };
}

/** The heaps of one name of several processes, added up at their last dumps. */
function SumRow({ name, heaps }: { name: string; heaps: Heap[] }) {
  const last = heaps.map((heap) => heap.dumps[heap.dumps.length - 1]!);
  const counted = (key: "exact_bytes" | "exact_calls") => (last.every((dump) => dump[key] !== null) ? last.reduce((sum, dump) => sum + dump[key]!, 0) : null);
  const [bytes, calls] = [counted("exact_bytes"), counted("exact_calls")];
  return (
    <tr>
      <td><button type="button" class="link" title="Flame graph by process" onClick={() => select({ ...openHeap(heaps[0]!), tab: "flame", direction: "down", group: "process", filters: [], only: [] })}>{plural(heaps.length, "process", "processes")} together</button></td>
      <td>{name}</td>
      <td class="number">{known(sumOf(last.map((dump) => dump.space)))}</td>
      <td class="number" title="Each process at its own peak, so not all at one moment">{known(sumOf(last.map((dump) => dump.max)))}</td>
      <td class="number">{bytes !== null ? bytesInWords(bytes) : known(sumOf(last.map((dump) => dump.alloc_space)))}</td>
      <td class="number">{calls !== null ? countInWords(calls) : ""}</td>
      <td colSpan={3} />
    </tr>
  );
}

/** By name, the heaps of those that several processes have. */
function sharedNames(profile: Profile): [string, Heap[]][] {
  const names = new Map<string, Heap[]>();
  for (const heap of profile.heaps)
    if (heap.unseen === "" && heap.dumps.length > 0) names.set(heap.name, [...(names.get(heap.name) ?? []), heap]);
  return [...names].filter(([, heaps]) => new Set(heaps.map((heap) => heap.process)).size > 1);
}

function Heaps({ profile, chosen }: { profile: Profile; chosen: string }) {
  const [search, setSearch] = useState("");
  const [showsAll, setShowsAll] = useState(false);
  const found = foundHeaps(profile, chosen, search);
  const shared = sharedNames(profile);
  const shown = showsAll ? found : found.filter((heap, i) => i < HEAPS_FIRST || heap.id === chosen);
  if (profile.heaps.length === 0) return <NoHeap />;
  return (
    <div class="wide">
      {profile.heaps.length > HEAPS_FIRST && (
        <input class="heaps-filter" type="search" placeholder={`Search ${countInWords(profile.heaps.length)} heaps: process or heap`} aria-label="Search heaps"
          value={search} spellcheck={false} onInput={(event) => setSearch(event.currentTarget.value)} />
      )}
      <table class="plain heaps">
        <thead>
          <tr>
            <th>Process</th><th>Heap</th><th class="number">Live at the last dump</th><th class="number">Peak</th>
            <th class="number">Allocated</th><th class="number">Calls</th><th>Live over time</th><th class="number">Dumps</th><th>How it was seen</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((heap) => (
            <HeapRow key={heap.id} process={profile.processes[heap.process]} heap={heap} isChosen={heap.id === chosen} />
          ))}
        </tbody>
        {shared.length > 0 && <tfoot>{shared.map(([name, heaps]) => <SumRow key={name} name={name} heaps={heaps} />)}</tfoot>}
      </table>
      {shown.length < found.length && (
        <p class="heaps-more">{countInWords(shown.length)} of {countInWords(found.length)} heaps, the largest.{" "}
          <button type="button" class="link" onClick={() => setShowsAll(true)}>Show all</button></p>
      )}
    </div>
  );
}

function Notes({ heap }: { heap: Heap }) {
  const { losses } = heap;
  const notes = heap.notes.filter((note) => note !== heap.unseen);
  const isRaised = heap.interval_bytes > heap.first_interval_bytes && heap.first_interval_bytes > 0;
  if (losses.length + notes.length === 0 && !heap.unfinished && !heap.partial && !isRaised) return null;
  return (
    <section aria-label="Notes on these figures">
      <h2>Notes on these figures</h2>
      <ul class="notes">
        {heap.unfinished && <li class="warn">The profiler was killed or still runs: the profile ends at its last checkpoint.</li>}
        {isRaised && (
          <li>The interval was raised from {intervalInWords(heap.first_interval_bytes)} to {intervalInWords(heap.interval_bytes)} during the recording.</li>
        )}
        {heap.partial && <li class="warn">Some allocations are missing: the figures are partial.</li>}
        {losses.map((loss) => <li key={loss.name} class={loss.amount > 0 ? "warn" : ""}>{lossInWords(loss)}</li>)}
        {notes.map((note) => <li key={note}><Sentence text={note} /></li>)}
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
  const date = endOf(profile);
  if (!date) return "";
  const dumps = profile.heaps.flatMap((heap) => (heap.dumps.length > 0 ? [heap.dumps[0]!, heap.dumps[heap.dumps.length - 1]!] : []));
  const last = Math.max(...dumps.map((dump) => dump.time));
  const start = Math.min(...dumps.map((dump) => dump.start));
  const span = start > 0 && last > start ? `, after ${timeInWords((last - start) / 1e9)}` : "";
  return `Last dump ${date.toLocaleString()}${span}`;
}

export function OverviewPanel({ overview, place }: { overview: Overview; place: Place | null }) {
  const selection = useSelection();
  const hasFigures = place !== null && place.heap.unseen === "" && place.heap.dumps.length > 0;
  return (
    <section class="panel overview" aria-label="Overview">
      {overview.profiles.length === 0 && <NoHeap />}
      {hasFigures && <First overview={overview} place={place} selection={selection} />}
      {hasFigures && <Ended place={place} />}
      {overview.profiles.map((profile) => {
        const chosen = profile.heaps.find((heap) => heap.id === selection.heap);
        return (
          <div class="profile" key={profile.path}>
            <h2>{overview.profiles.length > 1 ? profileTitle(profile) : "Heaps"}</h2>
            <p class="where">{profile.path}{whenInWords(profile) && ` · ${whenInWords(profile)}`}</p>
            {profile.processes[chosen?.process ?? 0]?.command && (
              <p class="command"><code>{profile.processes[chosen?.process ?? 0]!.command}</code></p>
            )}
            {profile.filter !== "" && <p class="faint">Read with <code>{profile.filter}</code>: graphs and tables do not have what it leaves out, totals do.</p>}
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
