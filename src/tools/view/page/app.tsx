// SPDX-License-Identifier: Apache-2.0
// The page: a row that leads to other pages, the bar with the selection, the timeline, and below them one
// tab. It asks for the overview, opens on the heap and view that the server names, and says so when the
// server is gone.
import { useEffect, useErrorBoundary, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { Bar, Filters } from "./bar/bar";
import { BudgetsPanel } from "./budgets";
import { Export } from "./bar/export";
import { FlamePanel } from "./flame/panel";
import { HeapDetailsPanel } from "./details/panel";
import { KEYS, useShortcuts } from "./keys";
import { atHeap, atPeak, dumpChoice, dumpIndex, isAtPeak, keptDump, openHeap, peakOf, placeOf, profileTitle, swapped, type Place } from "./model";
import { LeaksPanel } from "./leaks";
import { NameTip } from "./long_name";
import { MemoryPanel } from "./memory";
import { useNumbers } from "./numbers";
import { NoHeap, OverviewPanel } from "./overview";
import { MachinePage, PAGE_TITLES, Pages } from "./pages";
import { RecordingButtons } from "./bar/recording";
import { Perfetto } from "./bar/perfetto";
import { RunsPanel } from "./runs";
import { Sentence } from "./sentence";
import { askOverview, askTree, keptTree, treePath, useAnswer, useConnection } from "./source";
import { isSaved, NOT_SAVED } from "./saved/saved";
import { SourcePanel } from "./source_panel";
import { SqlPanel } from "./sql";
import { NOTHING_SELECTED, oneOf, removeFilter, select, selection as now, TABS, useSelection, type Selection, type Tab } from "./state";
import { TablePanel } from "./table/panel";
import { otherTheme, useTheme } from "./theme";
import { goToDump, Timeline } from "./time/timeline";
import type { Overview } from "./types";

const TAB_TITLES: Record<Tab, string> = { overview: "Overview", flame: "Flame graph", table: "Table", source: "Source", memory: "Memory", details: "Heap details", leaks: "Leaks", budgets: "Budgets", sql: "SQL", runs: "Runs" };
const WITHOUT_FILTERS: Tab[] = ["overview", "memory", "budgets", "sql"];
const NEED_SERVER: Tab[] = ["source", "sql"];
const SHOWN_TABS = TABS.filter((tab) => !isSaved || !NEED_SERVER.includes(tab));

function Keys({ onClose }: { onClose: () => void }) {
  return (
    <dialog class="keys" aria-label="Keys" ref={(element) => { if (element && !element.open) element.showModal(); }} onClose={onClose}
      onClick={(event) => event.target === event.currentTarget && onClose()}>
      <div class="keys-body">
        <header><h2>Keys</h2><button type="button" onClick={onClose}>Close</button></header>
        <div class="keys-columns">
          {KEYS.map(([title, keys]) => (
            <section key={title}>
              <h3>{title}</h3>
              <dl>{keys.map(([key, meaning]) => [<dt key={key}><kbd>{key}</kbd></dt>, <dd key={meaning}>{meaning}</dd>])}</dl>
            </section>
          ))}
        </div>
        <p class="faint">The pointer, on the flame graph: click zooms, drag pans, Ctrl and the wheel zoom. On the timeline: a click on a diamond
          selects a dump, a drag over a range compares the dumps at its ends. <a href="licenses.txt">Licenses of libraries</a></p>
      </div>
    </dialog>
  );
}

function Unseen({ place }: { place: Place }) {
  return (
    <div class="unseen-heap" role="status">
      <h2>Nothing was seen of {place.heap.name}</h2>
      <p><Sentence text={place.heap.unseen} /></p>
      <p class="faint">Its figures are unknown, which is not the same as zero.</p>
    </div>
  );
}

function NoDump({ place }: { place: Place }) {
  return (
    <div class="empty" role="status">
      <p>{place.heap.name} has no dump yet.</p>
      <p class="faint">{place.heap.unfinished ? "Its profiler still runs or was killed before the first dump." : "The profile ended before the first dump."}
        {" "}While it is recorded, <code>heap_profile snapshot</code> takes one.</p>
    </div>
  );
}

function cycle<T>(all: T[], at: T, step: number): T {
  const index = Math.max(all.indexOf(at), 0);
  return all[(index + step + all.length) % all.length]!;
}

function useGlobalKeys(overview: Overview | null, place: Place | null, selection: Selection, showKeys: () => void) {
  const views = overview?.views.map((view) => view.name) ?? [];
  const heaps = overview?.profiles.flatMap((profile) => profile.heaps) ?? [];
  const nextView = (step: number) => views.length > 0 && select({ view: cycle(views, selection.view, step) });
  const nextHeap = (step: number) => heaps.length > 0 && place && select(atHeap(place.heap, selection, cycle(heaps, place.heap, step)));
  const dump = place ? dumpIndex(place.heap, selection.dump) : -1;
  useShortcuts({
    "?": showKeys,
    "[": () => place && goToDump(place, selection, -1, false),
    "]": () => place && goToDump(place, selection, 1, false),
    p: () => place && peakOf(place.heap) && select(atPeak()),
    x: () => {
      const other = overview && place && swapped(overview, place, selection);
      if (other) select(other);
    },
    b: () => {
      const before = place && !isAtPeak(place.heap, selection) ? keptDump(place.heap, dump - 1, -1) : -1;
      if (selection.base !== "") select({ base: "" });
      else if (before >= 0) select({ base: String(before) });
    },
    v: () => nextView(1),
    V: () => nextView(-1),
    g: () => nextHeap(1),
    G: () => nextHeap(-1),
    r: () => removeFilter(selection.filters.length - 1),
    l: otherTheme,
    ...Object.fromEntries(SHOWN_TABS.map((tab, i) => [String(i + 1), () => select({ page: "profile", tab })])),
  });
}

function Tabs({ selection, profiles }: { selection: Selection; profiles: number }) {
  const shown = SHOWN_TABS.filter((tab) => tab !== "runs" || profiles > 2);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    const tab = cycle(shown, selection.tab, step);
    select({ tab });
    document.getElementById(`tab-${tab}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Panels" onKeyDown={onKeyDown}>
      {shown.map((tab) => (
        <button type="button" role="tab" id={`tab-${tab}`} key={tab} aria-selected={selection.tab === tab} aria-controls="panel"
          tabIndex={selection.tab === tab ? 0 : -1} onClick={() => select({ tab })}>{TAB_TITLES[tab]}</button>
      ))}
    </div>
  );
}

/** A fault of the page in one panel is said there; the rest of the page goes on. */
function Guarded({ children }: { children: ComponentChildren }) {
  const [error, reset] = useErrorBoundary();
  if (!error) return <>{children}</>;
  return (
    <div class="empty" role="alert">
      <p class="bad">The page made an error here: {String((error as Error).message ?? error)}</p>
      <button type="button" onClick={reset}>Try again</button>
    </div>
  );
}

function Panel({ overview, place, selection }: { overview: Overview; place: Place | null; selection: Selection }) {
  if (selection.tab === "overview") return <OverviewPanel overview={overview} place={place} />;
  if (isSaved && NEED_SERVER.includes(selection.tab)) return <div class="empty"><p><Sentence text={NOT_SAVED} /></p></div>;
  if (selection.tab === "sql") return <SqlPanel />;
  if (!place) return <NoHeap />;
  if (place.heap.unseen !== "") return <Unseen place={place} />;
  if (place.heap.dumps.length === 0) return <NoDump place={place} />;
  if (selection.tab === "table") return <TablePanel heap={place.heap} />;
  if (selection.tab === "memory") return <MemoryPanel place={place} selection={selection} />;
  if (selection.tab === "details") return <HeapDetailsPanel overview={overview} place={place} selection={selection} />;
  if (selection.tab === "leaks") return <LeaksPanel overview={overview} place={place} selection={selection} />;
  if (selection.tab === "budgets") return <BudgetsPanel key={`${overview.budgets} ${selection.budgets}`} overview={overview} place={place} selection={selection} />;
  if (selection.tab === "runs") return <RunsPanel overview={overview} place={place} selection={selection} />;
  if (selection.tab === "source") return <SourcePanel />;
  return <FlamePanel />;
}

/** Make the first selection: the server's choice where the URL has none. */
function useOpening(overview: Overview | null, selection: Selection) {
  useEffect(() => {
    if (!overview) return;
    const { opening } = overview;
    const isKnown = selection.heap !== "" && placeOf(overview, selection.heap) !== null;
    const first = overview.profiles.find((profile) => profile.heaps.length > 0)?.heaps[0];
    if (isKnown) return;
    const given = selection.view !== NOTHING_SELECTED.view ? selection.view : (opening?.view ?? selection.view);
    const heap = opening && placeOf(overview, opening.heap)?.heap;
    const tab = selection.tab !== NOTHING_SELECTED.tab ? selection.tab : oneOf(opening?.tab ?? null, TABS, selection.tab);
    if (heap) select({ ...openHeap(heap), dump: dumpChoice(heap, opening.dump), base: opening.base ?? "", view: given, tab }, true);
    else if (first) select(openHeap(first), true);
  }, [overview, selection.heap]);
}

/** Ask for the flame graph while the overview is read: the first click then finds it. */
function usePrefetch(place: Place | null, selection: Selection) {
  useEffect(() => {
    if (selection.tab !== "overview" || !place || place.heap.unseen !== "" || place.heap.dumps.length === 0) return;
    const control = new AbortController();
    const path = treePath(now(), "down");
    if (!keptTree(path)) askTree(path, control.signal).catch(() => {});
    return () => control.abort();
  }, [selection.tab, selection.heap, selection.dump, selection.view, selection.base]);
}

/** The profile that is open: its selection, its timeline, a tab of it. */
function ProfilePage({ overview, error, title }: { overview: Overview | null; error: string; title: string }) {
  const selection = useSelection();
  const { isLost } = useConnection();
  const place = overview ? placeOf(overview, selection.heap) : null;
  const isReady = useNumbers(selection);
  useOpening(overview, selection);
  usePrefetch(place, selection);
  const hasTimeline = place !== null && place.heap.unseen === "";
  const needsFilters = place !== null && !WITHOUT_FILTERS.includes(selection.tab);
  return (
    <>
      <header class="top">
        <h1 class={overview && overview.profiles.length > 1 ? "sr-only" : ""} title={title}>{title || "heap_profile view"}</h1>
        {overview && <Bar overview={overview} selection={selection} place={place} />}
        <span class="top-right">
          {place?.heap.unfinished && !isSaved && <RecordingButtons key={place.profile.path} place={place} />}
          {overview && place && !isSaved && <Perfetto key={place.profile.path} profile={overview.profiles.indexOf(place.profile)} />}
          {overview && place && place.heap.unseen === "" && place.heap.dumps.length > 0 && <Export overview={overview} place={place} selection={selection} />}
        </span>
      </header>
      {hasTimeline && place && <Guarded key={place.heap.id}><Timeline overview={overview!} place={place} selection={selection} /></Guarded>}
      <section class="tabs-row" aria-label="Panels and filters">
        <Tabs selection={selection} profiles={overview?.profiles.length ?? 0} />
        {needsFilters && <Filters selection={selection} native={overview?.native ?? null} />}
      </section>
      <main id="panel">
        <div class="tab-panel" role="tabpanel" aria-labelledby={`tab-${selection.tab}`}>
        {error !== "" ? <div class="empty bad"><p>{error}</p></div>
          : !overview || !isReady ? <div class="empty"><p class="faint">{isLost ? "No answer yet." : "Reading the profile…"}</p></div>
            : <Guarded key={selection.tab}><Panel overview={overview} place={place} selection={selection} /></Guarded>}
        </div>
      </main>
    </>
  );
}

export function App() {
  const selection = useSelection();
  const { theme } = useTheme();
  const { isLost } = useConnection();
  const [showsKeys, setShowsKeys] = useState(false);
  const { value: overview, error } = useAnswer("api/overview", (_, signal) => askOverview(signal));
  const page = isSaved ? "profile" : selection.page;
  useGlobalKeys(overview, overview ? placeOf(overview, selection.heap) : null, selection, () => setShowsKeys(true));
  const title = overview?.profiles.map(profileTitle).join(", ") ?? "";
  const pageTitle = page === "profile" ? title : PAGE_TITLES[page];
  useEffect(() => { document.title = pageTitle === "" ? "heap_profile view" : `${pageTitle} – heap_profile view`; }, [pageTitle]);
  return (
    <>
      {isLost && (
        <div class="banner" role="alert">heap_profile view does not answer: it has ended, or the connection to it is lost. The page asks again, and shows the last state meanwhile.</div>
      )}
      <Pages page={page}>
        <button type="button" onClick={otherTheme} title="l">{theme.dark ? "Light" : "Dark"}</button>
        <button type="button" onClick={() => setShowsKeys(true)} title="?">Keys</button>
      </Pages>
      {page === "profile" ? <ProfilePage overview={overview} error={error} title={title} />
        : <main id="panel"><h1 class="sr-only">{PAGE_TITLES[page]}</h1><Guarded key={page}><MachinePage page={page} /></Guarded></main>}
      <NameTip />
      {showsKeys && <Keys onClose={() => setShowsKeys(false)} />}
    </>
  );
}
