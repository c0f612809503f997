// SPDX-License-Identifier: Apache-2.0
// The selection bar: profile, process, heap, dump, what it is compared with, view; and the filters in
// the order in which they apply, each of which can be taken back.
import { useState } from "preact/hooks";
import { showNative } from "../machine/open";
import { isSaved } from "../saved/saved";
import { Chooser, type Option } from "./chooser";
import "./chooser.css";
import { FILTER_KINDS, FILTER_TITLES, removeFilter, removeOnly, addFilter, select, type FilterKind, type Selection } from "../state";
import { atDump, atPeak, baseOf, dumpIndex, dumpTitle, isAtPeak, isKept, momentTitle, openHeap, peakOf, peakTitle, processTitle, profileTitle, viewOf, type Place } from "../model";
import type { Heap, Overview } from "../types";
import { bytesInWords, capitalized, partInWords } from "../words";

const MANY = 60; // more options are a list with a search

/** `options` are made when they are needed: there may be very many, of which `title` is the chosen. */
export function Choice(props: {
  label: string; class?: string; value: string; title: string; count: number; options: () => Option[]; onChange: (value: string) => void;
}) {
  if (props.count > MANY) return <Chooser {...props} />;
  return (
    <label class="choice">
      <span>{props.label}</span>
      <select class={props.class} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.options().map(({ value, title }) => <option key={value} value={value}>{title}</option>)}
      </select>
    </label>
  );
}

/** The heap to show for a process: the one of the same name, or else its first. */
function heapOfProcess(place: Place, process: number): Heap | undefined {
  const heaps = place.profile.heaps.filter((heap) => heap.process === process);
  return heaps.find((heap) => heap.name === place.heap.name) ?? heaps[0];
}

/** The processes with a heap, the largest first. */
function processOptions({ profile }: Place): Option[] {
  const live = new Map<number, number>();
  for (const heap of profile.heaps)
    live.set(heap.process, (live.get(heap.process) ?? 0) + (heap.dumps[heap.dumps.length - 1]?.space?.value ?? 0));
  return [...live].sort((a, b) => b[1] - a[1]).map(([process, bytes]) => (
    { value: String(process), title: processTitle(profile.processes[process] ?? null), note: bytesInWords(bytes) }));
}

const dumpOptions = (place: Place): Option[] =>
  place.heap.dumps.map((_, i) => ({ value: String(i), title: dumpTitle(place, i) })).filter((_, i) => isKept(place.heap, i));

const PEAK = "peak"; // among the dumps

/** The dumps of a heap, behind its peak. */
const momentOptions = (place: Place): Option[] =>
  [...(peakOf(place.heap) ? [{ value: PEAK, title: peakTitle(place) }] : []), ...dumpOptions(place)];

/** The dumps of the heaps of this name in other profiles, the last first: in the view of the peak, it is the peak. */
function otherDumps(overview: Overview, place: Place, selection: Selection): Option[] {
  return overview.profiles.filter((profile) => profile !== place.profile).flatMap((profile) => (
    profile.heaps.filter((heap) => heap.name === place.heap.name).flatMap((heap) => {
      const at: Place = { profile, heap, process: profile.processes[heap.process] ?? null };
      const titleOf = (i: number) => `${profileTitle(profile)}: ${processTitle(at.process)}, ${momentTitle(at, i, selection.view)}`;
      return heap.dumps.map((_, i) => ({ value: `${heap.id}.${i}`, title: titleOf(i) }))
        .filter((_, i) => isKept(heap, i)).reverse();
    })));
}

function baseTitle(overview: Overview, place: Place, selection: Selection): string {
  const base = baseOf(overview, place, selection.base);
  if (selection.base === "") return "nothing";
  if (!base) return "?";
  const title = momentTitle(base.place, base.index, selection.view);
  return base.place.heap === place.heap ? title : `${profileTitle(base.place.profile)}, ${title}`;
}

export function baseOptions(overview: Overview, place: Place, selection: Selection): Option[] {
  const dump = dumpIndex(place.heap, selection.dump);
  const own = dumpOptions(place).filter(({ value }) => value !== String(dump)).map(({ value }) => ({ value, title: momentTitle(place, Number(value), selection.view) }));
  const options = [{ value: "", title: "nothing" }, ...own, ...otherDumps(overview, place, selection)];
  if (!options.some(({ value }) => value === selection.base)) options.push({ value: selection.base, title: baseTitle(overview, place, selection) });
  return options;
}

function AddFilter() {
  const [kind, setKind] = useState<FilterKind>("focus");
  const [pattern, setPattern] = useState("");
  return (
    <form class="add-filter" onSubmit={(event) => { event.preventDefault(); addFilter(kind, pattern); setPattern(""); }}>
      <select aria-label="Kind of the filter" value={kind} onChange={(event) => setKind(event.currentTarget.value as FilterKind)}>
        {FILTER_KINDS.map((one) => <option key={one} value={one}>{FILTER_TITLES[one]}</option>)}
      </select>
      <input aria-label="Filter: regular expression over functions, files and modules" placeholder="Add a filter: expression"
        value={pattern} spellcheck={false} autocomplete="off" onInput={(event) => setPattern(event.currentTarget.value)} />
    </form>
  );
}

/** The parts to which the selection is restricted. */
function Parts({ selection }: { selection: Selection }) {
  return (
    <>
      {selection.only.map(({ dimension, value }, i) => (
        <span class="chip" key={`${dimension}:${value}`}>
          <span class="chip-kind">only {dimension}</span>
          <code title={value}>{partInWords(dimension, value)}</code>
          <button type="button" aria-label={`Remove: only ${dimension} ${partInWords(dimension, value)}`} onClick={() => removeOnly(i)}>×</button>
        </span>
      ))}
    </>
  );
}

/** The server reads the profiles again, which a saved page cannot. */
function Native({ native }: { native: boolean }) {
  const [waits, setWaits] = useState(false);
  const [error, setError] = useState("");
  const change = () => {
    setWaits(true);
    showNative(!native).then(() => setError(""), (one: Error) => setError(one.message)).finally(() => setWaits(false));
  };
  return (
    <label class="native" title={error || "The native loop that executes the functions, and what only passes calls on"}>
      <input type="checkbox" checked={native} disabled={waits} onChange={change} />
      {error === "" ? "interpreter's frames" : "interpreter's frames: failed"}
    </label>
  );
}

export function Filters({ selection, native }: { selection: Selection; native: boolean | null }) {
  const { filters } = selection;
  return (
    <div class="filters" aria-label="Filters">
      <Parts selection={selection} />
      {filters.map((filter, i) => (
        <span class="chip" key={`${filter.kind}:${filter.pattern}`}>
          <span class="chip-kind">{FILTER_TITLES[filter.kind]}</span>
          <code>{filter.pattern}</code>
          <button type="button" aria-label={`Remove: ${FILTER_TITLES[filter.kind]} ${filter.pattern}`} onClick={() => removeFilter(i)}>×</button>
        </span>
      ))}
      <AddFilter />
      {native !== null && !isSaved && <Native native={native} />}
    </div>
  );
}

export function Bar({ overview, selection, place }: { overview: Overview; selection: Selection; place: Place | null }) {
  if (!place) return null;
  const { profile, heap } = place;
  const dump = dumpIndex(heap, selection.dump);
  const processes = new Set(profile.heaps.map((one) => one.process)).size;
  const heaps = profile.heaps.filter((one) => one.process === heap.process);
  const others = overview.profiles.reduce((sum, one) => sum + (one === profile ? 0 : one.heaps.reduce((dumps, { dumps: own }) => dumps + own.length, 0)), 0);
  const view = viewOf(overview, selection.view);
  const isPeak = isAtPeak(heap, selection);
  const title = isPeak ? peakTitle(place) : dumpTitle(place, dump);
  const open = (next: Heap | undefined) => next && select(openHeap(next));
  return (
    <div class="choices">
      {overview.profiles.length > 1 && (
        <Choice label="Profile" value={String(overview.profiles.indexOf(profile))} title={profileTitle(profile)} count={overview.profiles.length}
          options={() => overview.profiles.map((one, i) => ({ value: String(i), title: profileTitle(one) }))}
          onChange={(value) => open(overview.profiles[Number(value)]?.heaps[0])} />
      )}
      {processes > 1 ? (
        <Choice label="Process" value={String(heap.process)} title={processTitle(place.process)} count={processes} options={() => processOptions(place)}
          onChange={(value) => open(heapOfProcess(place, Number(value)))} />
      ) : <span class="choice"><span>Process</span><b>{processTitle(place.process)}</b></span>}
      {heaps.length > 1 ? (
        <Choice label="Heap" value={heap.id} title={heap.name} count={heaps.length} options={() => heaps.map((one) => ({ value: one.id, title: one.name }))}
          onChange={(value) => open(heaps.find((one) => one.id === value))} />
      ) : <span class="choice"><span>Heap</span><b>{heap.name}</b></span>}
      {heap.unseen === "" && heap.dumps.length > 0 && (
        <Choice label="Dump" value={isPeak ? PEAK : String(dump)} title={title} count={heap.dumps.length} options={() => momentOptions(place)}
          onChange={(value) => select(value === PEAK ? atPeak() : atDump(heap, Number(value)))} />
      )}
      {(heap.dumps.length > 1 || overview.profiles.length > 1) && (
        <Choice label="Compared with" class="compared" value={selection.base} title={baseTitle(overview, place, selection)} count={heap.dumps.length + others}
          options={() => baseOptions(overview, place, selection)} onChange={(value) => select({ base: value })} />
      )}
      <Choice label="View" class="view" value={selection.view} title={capitalized(view.title)} count={overview.views.length}
        options={() => overview.views.map((one) => ({ value: one.name, title: capitalized(one.title) }))}
        onChange={(value) => select({ view: value as Selection["view"] })} />
      <span class="sr-only" role="status">{view.title}, {title}</span>
    </div>
  );
}
