// SPDX-License-Identifier: Apache-2.0
// The heap details' tab, in the manner of Chrome's memory dumps: all heaps at the selected moment, and the
// selected one by backtrace and by type, in up to four dumps side by side. A step into a row breaks both
// down; a level of the tree is asked for when its row is opened.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { baseOptions, Choice } from "../bar/bar";
import { DumpsPane } from "./dumps";
import {
  averageOf, DUMPS_MAX, directionOf, figureOf, LEVEL_ROWS, levelOf, linesOf, searchFilter, shownDumps, sortOf, withDump, withoutDump, zoomOf,
  type Level, type ShownDump,
} from "./rows";
import { TreeTable, type Column } from "./tree";
import { useShortcuts } from "../keys";
import type { Place } from "../model";
import { Sentence } from "../sentence";
import { askDetails, selectionParameters, useAnswer, useConnection } from "../source";
import { select, type Selection } from "../state";
import { Number as Amount } from "../table/row";
import { matcherOf, shortModule } from "../tree";
import type { Details, DetailsRow, MaybeFigure, Overview } from "../types";
import { amountInWords, bytesInWords, figureInWords, shareInWords } from "../words";

const SEARCH_MS = 150;
const CHAIN_MOST = 64; // rows without siblings that open by themselves

// --- questions ---

function detailsPath(selection: Selection, by: "backtrace" | "type", search: string): string {
  const parameters = selectionParameters(selection);
  if (selection.also !== "") for (const dump of selection.also.split(",")) parameters.append("also", dump);
  parameters.set("by", by);
  parameters.set("direction", directionOf(selection));
  parameters.set("order", sortOf(selection));
  parameters.set("limit", String(LEVEL_ROWS));
  if (search !== "" && by === "backtrace") parameters.append("filter", searchFilter(search));
  if (by === "type" && zoomOf(selection) !== "") parameters.set("root", zoomOf(selection));
  return `api/details?${parameters}`;
}

interface Levels {
  key: string;
  levels: Map<string, Level>;
  stale: Map<string, Level>; // of the last key: shown until the new ones are here
  errors: Map<string, string>;
  control: AbortController;
  pending: Set<string>;
}

/** Levels of the tree by path, asked for as they are needed. `key`: the question without its root. */
function useLevels(key: string, onLevel: (path: string, answer: Details) => void) {
  const { epoch } = useConnection();
  const [, redraw] = useState(0);
  const store = useRef<Levels>({ key: "", levels: new Map(), stale: new Map(), errors: new Map(), control: new AbortController(), pending: new Set() }).current;
  if (store.key !== `${epoch} ${key}`) {
    store.control.abort();
    store.stale = new Map([...store.stale, ...store.levels]);
    Object.assign(store, { key: `${epoch} ${key}`, levels: new Map(), errors: new Map(), control: new AbortController(), pending: new Set() });
  }
  useEffect(() => () => store.control.abort(), []);
  const ask = (path: string) => {
    if (store.pending.has(path) || store.errors.has(path)) return;
    const { pending, levels, errors, control } = store;
    const offset = levels.get(path)?.rows.length ?? 0;
    pending.add(path);
    askDetails(`${key}&root=${path}&offset=${offset}`, control.signal).then((answer) => {
      const level = levelOf(answer);
      if (control.signal.aborted) return;
      levels.set(path, { ...level, rows: [...(levels.get(path)?.rows ?? []), ...level.rows] });
      pending.delete(path);
      onLevel(path, answer);
      redraw((n) => n + 1);
    }, (error: Error) => {
      if (control.signal.aborted) return;
      pending.delete(path);
      errors.set(path, error.message);
      redraw((n) => n + 1);
    });
  };
  return {
    level: (path: string) => store.levels.get(path) ?? (store.errors.has(path) ? null : store.stale.get(path)) ?? null,
    isHere: (path: string) => store.levels.has(path),
    error: (path: string) => store.errors.get(path) ?? "",
    need: (path: string) => { if (!store.levels.has(path)) ask(path); },
    more: ask,
  };
}

// --- columns ---

function Change({ row, counts }: { row: DetailsRow; counts: boolean }) {
  const figure = row.change?.[counts ? "count" : "bytes"];
  if (figure === undefined) return <span class="faint">…</span>;
  const kind = !row.mark || figure === null ? "chance" : figure.value > 0 ? "grew" : "shrank";
  return <span class={`change ${kind}`}><Amount figure={figure} counts={counts} signed={true} /></span>;
}

function Share({ figure, whole }: { figure: MaybeFigure | undefined; whole: MaybeFigure | undefined }) {
  if (!figure || !whole || !(whole.value > 0)) return null;
  const share = figure.value / whole.value;
  return <span class="share"><i class="bar" style={{ width: `${Math.min(Math.max(share, 0), 1) * 32}px` }} />{figure.value > 0 ? shareInWords(figure.value, whole.value) : ""}</span>;
}

/** The amount alone; its margin is in the tip. */
function Short({ figure, counts }: { figure: MaybeFigure | undefined; counts: boolean }) {
  if (figure === undefined) return <span class="faint">…</span>;
  if (figure === null) return <span class="faint">unknown</span>;
  return <span title={figureInWords(figure, counts)}>{amountInWords(figure.value, counts)}</span>;
}

/** A dump's title without what its neighbours say too: "3: 885 ms". */
const shortTitle = (title: string) => title.replace(/ of \d[\d,]*/, "").replace(", at the end", "");

const amountColumn = (sort: string, title: string, figure: number, counts: boolean, rest: Partial<Column> = {}): Column => ({
  sort, title, text: (row) => figureInWords(figureOf(row, figure, counts) ?? null, counts), ...rest,
  cell: (row) => {
    const found = figureOf(row, figure, counts);
    return found === undefined ? <span class="faint">…</span> : <Amount figure={found} counts={counts} signed={false} />;
  },
  short: {
    title: shortTitle(title), text: (row) => amountInWords(figureOf(row, figure, counts)?.value ?? 0, counts),
    cell: (row) => <Short figure={figureOf(row, figure, counts)} counts={counts} />,
  },
});

function columnsOf(dumps: ShownDump[], counts: boolean, whole: DetailsRow | null): Column[] {
  const average: Column = {
    sort: "average", title: "Average", isOptional: true,
    cell: (row) => { const mean = averageOf(row, 0); return mean === null ? <span class="faint">{row.count[0] === null ? "unknown" : ""}</span> : bytesInWords(mean); },
  };
  const share: Column = {
    sort: "", title: "Share", isOptional: true,
    cell: (row) => <Share figure={figureOf(row, 0, counts)} whole={whole ? figureOf(whole, 0, counts) : undefined} />,
  };
  if (dumps.length < 2) return [amountColumn("bytes", "Bytes", 0, false), amountColumn("count", "Count", 0, true), average, share];
  const roles = { selected: "selected", base: "compared with", also: "" };
  return [
    ...dumps.map((dump) => amountColumn(`dump${dump.figure}`, dump.title, dump.figure, counts, { hint: roles[dump.role] })),
    { sort: "change", title: "Change", hint: "from the base", text: (row) => `+${figureInWords(row.change?.[counts ? "count" : "bytes"] ?? null, counts)}`, cell: (row) => <Change row={row} counts={counts} /> },
    amountColumn(counts ? "bytes" : "count", counts ? "Bytes" : "Count", 0, !counts, { isOptional: true, hint: "selected" }), average, share,
  ];
}

const onSort = (sort: string) => select({ rank: sort });

// --- by backtrace ---

function Marked({ text, search }: { text: string; search: string }) {
  const at = search === "" ? -1 : text.toLowerCase().indexOf(search.toLowerCase());
  if (at < 0) return <>{text}</>;
  return <>{text.slice(0, at)}<mark>{text.slice(at, at + search.length)}</mark>{text.slice(at + search.length)}</>;
}

function BacktraceName({ row, search, isRoot }: { row: DetailsRow; search: string; isRoot: boolean }) {
  if (isRoot && row.function === undefined) return <span class="name">everything</span>;
  const module = shortModule(row.module ?? "");
  return (
    <>
      <span class="name" title={row.full_name ?? row.key}><Marked text={row.key} search={search} /></span>
      {!row.key.endsWith(`@ ${module}`) && <span class="faint module" title={row.module}>{module}</span>}
    </>
  );
}

function Actions({ selection, path }: { selection: Selection; path: string }) {
  const id = path === "" ? null : Number(path.slice(path.lastIndexOf(".") + 1));
  return (
    <span class="actions">
      <button type="button" disabled={id === null || path === zoomOf(selection)} title="Enter" onClick={() => select({ zoom: path })}>Break down</button>
      <button type="button" disabled={id === null} onClick={() => select({ tab: "flame", direction: directionOf(selection), zoom: path, frame: path })}>Flame graph</button>
      <button type="button" disabled={id === null} onClick={() => select({ tab: "flame", direction: "sandwich", function: id, zoom: "", frame: "" })}>Callers and callees</button>
      <button type="button" disabled={id === null} onClick={() => select({ tab: "source", function: id })}>Source</button>
    </span>
  );
}

function useOpened() {
  const state = useRef({ open: new Set<string>(), closed: new Set<string>() }).current;
  const [, redraw] = useState(0);
  const set = (path: string, opens: boolean) => {
    state.open[opens ? "add" : "delete"](path);
    state.closed[opens ? "delete" : "add"](path);
    redraw((n) => n + 1);
  };
  return { ...state, set };
}

function outOf(selection: Selection) {
  const zoom = zoomOf(selection);
  if (zoom !== "") select({ zoom: zoom.slice(0, Math.max(zoom.lastIndexOf("."), 0)) });
}

function Backtraces({ selection, dumps, counts, search }: { selection: Selection; dumps: ShownDump[]; counts: boolean; search: string }) {
  const zoom = zoomOf(selection);
  const opened = useOpened();
  const key = detailsPath(selection, "backtrace", search);
  const levels = useLevels(key, (path, answer) => {
    const only = answer.row[0];
    // The outermost functions of a program call one another: open them down to the first that calls two.
    if (directionOf(selection) === "up" || answer.rows !== 1 || only?.opens !== true || path.split(".").length > CHAIN_MOST) return;
    const child = path === "" ? String(only.function) : `${path}.${only.function}`;
    if (!opened.closed.has(child)) opened.open.add(child);
  });
  const lines = linesOf(levels.level, opened.open, zoom);
  useEffect(() => {
    levels.need(zoom);
    for (const line of lines) if (line.kind === "row" && line.isOpen) levels.need(line.path);
  });
  const top = levels.level(zoom);
  const columns = useMemo(() => columnsOf(dumps, counts, top?.total ?? null), [dumps, counts, top?.total]);
  const error = levels.error(zoom);
  return (
    <section class="pane" aria-label="By backtrace" aria-busy={!levels.isHere(zoom)}>
      <header><h2>By backtrace</h2><Actions selection={selection} path={selection.frame} /></header>
      {error !== "" ? <div class="empty"><p class={zoom === "" ? "bad" : ""}><Sentence text={error} /></p></div>
        : (
          <TreeTable id="backtraces" label="By backtrace" lines={lines} columns={columns} sort={sortOf(selection)} chosen={selection.frame} nameTitle="Function"
            name={(row, path) => <BacktraceName row={row} search={search} isRoot={path === zoom} />} waits={top !== null && !levels.isHere(zoom)}
            onSort={onSort} onChoose={(frame) => select({ frame }, true)} onEnter={(path) => select({ zoom: path, frame: path })} onOut={() => outOf(selection)}
            onOpen={opened.set} onMore={levels.more} />
        )}
    </section>
  );
}

// --- by type ---

function TypesUnknown({ place }: { place: Place }) {
  const isOwn = place.process !== null && place.heap.allocator !== "";
  return (
    <div class="details-unknown" role="status">
      <h3>Types are unknown</h3>
      <p>{isOwn ? "The allocations of this heap have no types: a program calls malloc with a size only." : "This file has no types of allocations."}</p>
      <p>
        A program names them with <code>HeapProfile_reportAllocationOfType(heap, id, size, "Texture")</code> for a heap of its own
        (docs/heaps.md). Chrome's memory dumps have the types of its allocators.
      </p>
    </div>
  );
}

function Types({ place, selection, dumps, counts }: { place: Place; selection: Selection; dumps: ShownDump[]; counts: boolean }) {
  const [search, setSearch] = useState("");
  const withoutType = selection.only.filter((one) => one.dimension !== "type");
  const chosenType = selection.only.find((one) => one.dimension === "type")?.value ?? null;
  const key = detailsPath({ ...selection, only: withoutType }, "type", "");
  const [limit, setLimit] = useState(LEVEL_ROWS);
  const parameters = new URLSearchParams(key.slice(key.indexOf("?")));
  parameters.set("limit", String(limit));
  const { value: answer, error, isWaiting } = useAnswer(`api/details?${parameters}`, askDetails);
  const matches = matcherOf(search) ?? (() => true);
  const level = answer && { total: answer.total, rows: answer.row.filter((row) => matches(row.key)).map((row, i) => ({ ...row, function: i })), all: answer.rows };
  const lines = level ? linesOf((path) => (path === "" ? { ...level, all: search === "" ? level.all : level.rows.length } : null), new Set(), "") : [];
  const columns = useMemo(() => columnsOf(dumps, counts, answer?.total ?? null), [dumps, counts, answer?.total]);
  const [cursor, setCursor] = useState("");
  const chosen = chosenType === null ? cursor : String(level?.rows.findIndex((row) => row.key === chosenType) ?? "");
  /** Show the backtraces of a type alone; of all types again by its row or the first one. */
  const enter = (path: string) => {
    const type = path === "" ? undefined : level?.rows[Number(path)]?.key;
    select({ only: type === undefined || type === chosenType ? withoutType : [...withoutType, { dimension: "type", value: type }] });
  };
  return (
    <section class="pane" aria-label="By type" aria-busy={isWaiting}>
      <header>
        <h2>By type</h2>
        {answer && !answer.unknown && (
          <input type="search" placeholder="Search types" aria-label="Search types" spellcheck={false} autocomplete="off" value={search}
            onInput={(event) => setSearch(event.currentTarget.value)} />
        )}
      </header>
      {error !== "" ? <div class="empty"><p class="bad"><Sentence text={error} /></p></div>
        : answer?.unknown ? <TypesUnknown place={place} />
          : (
            <TreeTable id="types" label="By type" lines={lines} columns={columns} sort={sortOf(selection)} chosen={chosen} nameTitle="Type"
              name={(row, path) => (path === "" ? <span class="name">all types</span> : row.key === "" ? <span class="faint untyped">without a type</span>
                : <span class="name" title={row.key}><Marked text={row.key} search={search} /></span>)}
              waits={isWaiting && answer !== null} onSort={onSort} onChoose={setCursor} onPress={enter} onEnter={enter} onOut={() => select({ only: withoutType })}
              onOpen={() => {}} onMore={() => setLimit(limit * 8)} />
          )}
    </section>
  );
}

// --- above the panes ---

function ChosenDumps({ overview, place, selection, dumps }: { overview: Overview; place: Place; selection: Selection; dumps: ShownDump[] }) {
  const options = baseOptions(overview, place, { ...selection, base: "" }).slice(1).filter(({ value }) => !dumps.some((dump) => dump.id === value));
  if (dumps.length < 2 && options.length === 0) return null;
  return (
    <span class="chosen-dumps" role="group" aria-label="Dumps side by side">
      {dumps.map((dump) => (
        <span class={`chip ${dump.role}`} key={dump.id}>
          <span class="chip-kind">{dump.role === "selected" ? "dump" : dump.role === "base" ? "compared with" : "and"}</span>
          {dump.title}
          {dump.role === "selected" ? <span class="chip-end" /> : (
            <button type="button" aria-label={`Take dump ${dump.title} away`} onClick={() => select(withoutDump(selection, dump.id))}>×</button>
          )}
        </span>
      ))}
      {dumps.length < DUMPS_MAX && options.length > 0 && (
        <Choice label="Add a dump" value="" title="Add a dump" count={options.length} options={() => [{ value: "", title: "Add a dump" }, ...options]}
          onChange={(id) => select(withDump(selection, id))} />
      )}
    </span>
  );
}

/** The path that is broken down: each of its steps leads back there. */
function Crumbs({ selection }: { selection: Selection }) {
  const zoom = zoomOf(selection);
  const parameters = selectionParameters({ ...selection, base: "" });
  parameters.set("direction", directionOf(selection));
  parameters.set("root", zoom);
  parameters.set("limit", "1");
  const { value } = useAnswer(zoom === "" ? null : `api/details?${parameters}`, askDetails);
  if (zoom === "") return null;
  const ids = zoom.split(".");
  return (
    <nav class="details-crumbs" aria-label="What is broken down">
      <button type="button" class="link" onClick={() => select({ zoom: "" })}>everything</button>
      {value?.path.map((step, i) => (
        <span key={i}> › {i + 1 < ids.length
          ? <button type="button" class="link" title={step.module} onClick={() => select({ zoom: ids.slice(0, i + 1).join(".") })}>{step.key}</button>
          : <b title={step.module}>{step.key}</b>}</span>
      ))}
    </nav>
  );
}

function useDelayed(text: string): string {
  const [delayed, set] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => set(text), SEARCH_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return delayed;
}

export function HeapDetailsPanel({ overview, place, selection }: { overview: Overview; place: Place; selection: Selection }) {
  const direction = directionOf(selection);
  const dumps = shownDumps(overview, place, selection);
  const counts = selection.view.endsWith("objects");
  const search = useDelayed(selection.search);
  const turn = () => select({ direction: direction === "down" ? "up" : "down", zoom: "", frame: "" });
  useShortcuts({ "/": () => document.getElementById("search")?.focus(), t: turn });
  const choice = (name: "down" | "up", title: string) => (
    <button type="button" aria-pressed={direction === name} onClick={() => direction !== name && turn()}>{title}</button>
  );
  return (
    <section class="panel heap-details" aria-label="Heap details">
      <DumpsPane place={place} selection={selection} counts={counts} />
      <div class="tools">
        <span class="group" role="group" aria-label="Direction">{choice("down", "Top-down")}{choice("up", "Bottom-up")}</span>
        <input id="search" type="search" placeholder="Search functions" aria-label="Search functions" spellcheck={false} autocomplete="off"
          value={selection.search} onInput={(event) => select({ search: event.currentTarget.value }, true)} />
        <ChosenDumps overview={overview} place={place} selection={selection} dumps={dumps} />
        <Crumbs selection={selection} />
      </div>
      <div class={dumps.length > 1 ? "panes compared" : "panes"}>
        <Backtraces selection={selection} dumps={dumps} counts={counts} search={search} />
        <Types place={place} selection={selection} dumps={dumps} counts={counts} />
      </div>
    </section>
  );
}
