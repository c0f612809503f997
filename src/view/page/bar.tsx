// SPDX-License-Identifier: Apache-2.0
// The selection bar: profile, process, heap, dump, what it is compared with, view; and the filters in
// the order in which they apply, each of which can be taken back.
import { useState } from "preact/hooks";
import { isSaved } from "./saved";
import { FILTER_KINDS, removeFilter, removeOnly, addFilter, select, type FilterKind, type Selection } from "./state";
import { baseOf, dumpChoice, dumpIndex, dumpTitle, openHeap, processTitle, profileTitle, viewOf, type Place } from "./model";
import type { Heap, Overview } from "./types";
import { partInWords } from "./words";

const KIND_TITLES: Record<FilterKind, string> = {
  focus: "stack has",
  ignore: "stack has not",
  hide: "hide frames",
  "show-from": "show from",
};

function Choice(props: { label: string; class?: string; value: string; options: [value: string, title: string][]; onChange: (value: string) => void }) {
  return (
    <label class="choice">
      <span>{props.label}</span>
      <select class={props.class} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.options.map(([value, title]) => <option key={value} value={value}>{title}</option>)}
      </select>
    </label>
  );
}

/** The heap to show for a process: the one of the same name, or else its first. */
function heapOfProcess(place: Place, process: number): Heap | undefined {
  const heaps = place.profile.heaps.filter((heap) => heap.process === process);
  return heaps.find((heap) => heap.name === place.heap.name) ?? heaps[0];
}

function baseOptions(overview: Overview, place: Place, selection: Selection): [string, string][] {
  const options: [string, string][] = [["", "nothing"]];
  const dump = dumpIndex(place.heap, selection.dump);
  place.heap.dumps.forEach((_, i) => {
    if (i !== dump) options.push([String(i), `dump ${dumpTitle(place, i)}`]);
  });
  for (const profile of overview.profiles) {
    if (profile === place.profile) continue;
    for (const heap of profile.heaps) {
      const other = { profile, heap, process: profile.processes[heap.process] ?? null };
      const last = heap.dumps.length - 1;
      if (last >= 0 && heap.name === place.heap.name)
        options.push([`${heap.id}.${last}`, `${profileTitle(profile)}: ${processTitle(other.process)}, last dump`]);
    }
  }
  if (!options.some(([value]) => value === selection.base)) {
    const base = baseOf(overview, place, selection.base);
    options.push([selection.base, base ? `${profileTitle(base.place.profile)}, dump ${dumpTitle(base.place, base.index)}` : "?"]);
  }
  return options;
}

function AddFilter() {
  const [kind, setKind] = useState<FilterKind>("focus");
  const [pattern, setPattern] = useState("");
  return (
    <form class="add-filter" onSubmit={(event) => { event.preventDefault(); addFilter(kind, pattern); setPattern(""); }}>
      <select aria-label="Kind of the filter" value={kind} onChange={(event) => setKind(event.currentTarget.value as FilterKind)}>
        {FILTER_KINDS.map((one) => <option key={one} value={one}>{KIND_TITLES[one]}</option>)}
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
          <button type="button" aria-label={`Take back: only ${dimension} ${partInWords(dimension, value)}`} onClick={() => removeOnly(i)}>×</button>
        </span>
      ))}
    </>
  );
}

export function Filters({ selection }: { selection: Selection }) {
  const { filters } = selection;
  return (
    <div class="filters" aria-label="Filters">
      <Parts selection={selection} />
      {filters.map((filter, i) => (
        <span class="chip" key={`${filter.kind}:${filter.pattern}`}>
          <span class="chip-kind">{KIND_TITLES[filter.kind]}</span>
          <code>{filter.pattern}</code>
          <button type="button" aria-label={`Take back: ${KIND_TITLES[filter.kind]} ${filter.pattern}`} onClick={() => removeFilter(i)}>×</button>
        </span>
      ))}
      <AddFilter />
    </div>
  );
}

export function Bar({ overview, selection, place }: { overview: Overview; selection: Selection; place: Place | null }) {
  if (!place) return null;
  const { profile, heap } = place;
  const dump = dumpIndex(heap, selection.dump);
  const withHeaps = profile.processes.map((process, i) => [process, i] as const).filter(([, i]) => profile.heaps.some((one) => one.process === i));
  const heaps = profile.heaps.filter((one) => one.process === heap.process);
  const view = viewOf(overview, selection.view);
  const open = (next: Heap | undefined) => next && select(openHeap(next.id));
  return (
    <div class="choices">
      {overview.profiles.length > 1 && (
        <Choice label="Profile" value={String(overview.profiles.indexOf(profile))}
          options={overview.profiles.map((one, i) => [String(i), profileTitle(one)])}
          onChange={(value) => open(overview.profiles[Number(value)]?.heaps[0])} />
      )}
      {withHeaps.length > 1 ? (
        <Choice label="Process" value={String(heap.process)} options={withHeaps.map(([process, i]) => [String(i), processTitle(process)])}
          onChange={(value) => open(heapOfProcess(place, Number(value)))} />
      ) : <span class="choice"><span>Process</span><b>{processTitle(place.process)}</b></span>}
      {heaps.length > 1 ? (
        <Choice label="Heap" value={heap.id} options={heaps.map((one) => [one.id, one.name])} onChange={(value) => select(openHeap(value))} />
      ) : <span class="choice"><span>Heap</span><b>{heap.name}</b></span>}
      {heap.unseen === "" && heap.dumps.length > 0 && (
        <Choice label="Dump" value={String(dump)} options={heap.dumps.map((_, i) => [String(i), dumpTitle(place, i)])}
          onChange={(value) => select({ dump: dumpChoice(heap, Number(value)) })} />
      )}
      {!isSaved && (heap.dumps.length > 1 || overview.profiles.length > 1) && (
        <Choice label="Compared with" class="compared" value={selection.base} options={baseOptions(overview, place, selection)}
          onChange={(value) => select({ base: value })} />
      )}
      <Choice label="View" class="view" value={selection.view}
        options={overview.views.map((one) => [one.name, one.perfetto ? `${one.perfetto} — ${one.title}` : one.title])}
        onChange={(value) => select({ view: value as Selection["view"] })} />
      <span class="sr-only" role="status">{view.title}, {dumpTitle(place, dump)}</span>
    </div>
  );
}
