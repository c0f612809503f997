// SPDX-License-Identifier: Apache-2.0
// The one selection of the page: heap, dump, view, filters, frame. It stands in the URL's fragment,
// so that back and forward undo it and a link shows the same. Panels read it with useSelection().
import { useEffect, useState } from "preact/hooks";
import { DIMENSIONS, GROUPS, TABLE_ORDERS, VIEWS, type Dimension, type Group, type TableBy, type TableOrder, type ViewName } from "./types";

export const FILTER_KINDS = ["focus", "ignore", "hide", "show-from"] as const;
export type FilterKind = (typeof FILTER_KINDS)[number];

export const FILTER_TITLES: Record<FilterKind, string> = {
  focus: "stack has",
  ignore: "stack has not",
  hide: "hide frames",
  "show-from": "from frame",
};

export interface Filter {
  kind: FilterKind;
  pattern: string;
}

export const PAGES = ["profile", "home", "record", "processes"] as const;
export type Page = (typeof PAGES)[number];

/** A part of the selection to be shown alone: the allocations of one thread, type, module and so on. */
export interface Only {
  dimension: Dimension;
  value: string; // as the server names it: TableRow.part, or "NAME@MODULE" of a function
}

export const TABS = ["overview", "flame", "table", "source", "memory", "details", "leaks", "budgets", "sql", "runs"] as const;
export type Tab = (typeof TABS)[number];

export const DIRECTIONS = ["down", "up", "sandwich"] as const;
export type Direction = (typeof DIRECTIONS)[number];

/** What makes a box of a difference wide: the larger side of its stacks, the later side, or how much they changed. */
export const WIDTHS = ["larger", "after", "change"] as const;
export type Width = (typeof WIDTHS)[number];

export const SORTS = ["", "up", "down"] as const;

export const PROCESS_ORDERS = ["rss", "growth", "swap", "threads", "cpu_ms", "name", "pid", "user"] as const;
export type ProcessOrder = (typeof PROCESS_ORDERS)[number];

export interface Selection {
  page: Page;
  pid: number | null; // of the process to record
  tab: Tab;
  heap: string; // "0.3"; "": the server's choice
  dump: number | null; // null: the last
  base: string; // "": no difference; "2": a dump of the heap; "1.0.5": of another profile
  isRetained: boolean; // of two dumps of one heap: what was allocated between them and is still there
  time: string; // the part of the timeline that is shown, in seconds: "1.5-3"; "": all
  over: Dimension | ""; // what the timeline stacks; "": it shows sums
  hidden: string; // the lines of the timeline that are not shown: "rss,rate"
  also: string; // further dumps of the heap details, as the base: "4,1.0.5"
  view: ViewName;
  filters: Filter[];
  only: Only[]; // all must hold
  direction: Direction;
  width: Width; // of boxes in a difference
  group: Group | ""; // the row of boxes below the root of the flame graph
  function: number | null; // of the sandwich and the source
  functionName: string; // its "NAME@MODULE"; "": not known yet
  numbering: string; // of the functions in this selection: their numbers change with the profiles
  zoom: string; // a path of functions, "5.17.3"
  frame: string; // the path of the frame that is chosen
  search: string;
  by: TableBy;
  order: TableOrder;
  sort: (typeof SORTS)[number]; // "": as the order is by itself
  without: string; // the columns of lists that are hidden: "module,course"
  sql: string; // the statement that ran last
  runs: string; // the profiles of both sides, "0,1,2-3,4,5"; "": the first half and the second
  budgets: string; // as a file of budgets has them; "": those of the command line
  rank: string; // of the heap details: a column, "-" in front for the other way round
  find: string; // in the list of processes
  processOrder: ProcessOrder; // the order of the processes
  isReversed: boolean;
  isTree: boolean; // children are below their parents
}

export const NOTHING_SELECTED: Selection = {
  page: "profile",
  pid: null,
  tab: "overview",
  heap: "",
  dump: null,
  base: "",
  isRetained: false,
  time: "",
  over: "",
  hidden: "anonymous,file,shmem,swap,rate,counted",
  also: "",
  view: "space",
  filters: [],
  only: [],
  direction: "down",
  width: "larger",
  group: "",
  function: null,
  functionName: "",
  numbering: "",
  zoom: "",
  frame: "",
  search: "",
  by: "holder",
  order: "self",
  sort: "",
  without: "",
  sql: "",
  runs: "",
  budgets: "",
  rank: "",
  find: "",
  processOrder: "rss",
  isReversed: false,
  isTree: false,
};

const ONLY_MAX = 8; // as the server takes them

export function oneOf<T extends string>(value: string | null, allowed: readonly T[], otherwise: T): T {
  return allowed.includes(value as T) ? (value as T) : otherwise;
}

function wholeNumber(text: string | null): number | null {
  return text !== null && /^\d{1,10}$/.test(text) ? Number(text) : null;
}

/** Return a text of this form; "": it is of another one. */
const ofForm = (text: string | null, form: RegExp) => (text !== null && form.test(text) ? text : "");

const isPath = (text: string | null): text is string => text !== null && /^\d+(\.\d+)*$/.test(text);

export function parseFilter(text: string): Filter | null {
  const colon = text.indexOf(":");
  const kind = FILTER_KINDS.find((one) => one === text.slice(0, colon));
  const pattern = text.slice(colon + 1);
  return kind && pattern !== "" ? { kind, pattern } : null;
}

function parseOnly(text: string): Only | null {
  const colon = text.indexOf(":");
  const dimension = DIMENSIONS.find((one) => one === text.slice(0, colon));
  return dimension ? { dimension, value: text.slice(colon + 1) } : null;
}

/** Whether a graph or a table is of what was retained between two dumps of the heap. */
export const showsRetained = ({ isRetained, base }: Selection) => isRetained && /^\d+$/.test(base);

export const onlyInWords = (only: Only) => `${only.dimension}:${only.value}`;
export const filterInWords = (filter: Filter) => `${filter.kind}:${filter.pattern}`;

/** Read a fragment that anybody may have written: a value that makes no sense is left out. */
export function parseSelection(fragment: string): Selection {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const path = (name: string) => {
    const text = given.get(name);
    return isPath(text) ? text : "";
  };
  return {
    page: oneOf(given.get("page"), PAGES, NOTHING_SELECTED.page),
    pid: wholeNumber(given.get("pid")),
    tab: oneOf(given.get("tab"), TABS, NOTHING_SELECTED.tab),
    heap: path("heap"),
    dump: wholeNumber(given.get("dump")),
    base: path("base"),
    isRetained: given.get("isRetained") === "true",
    time: /^\d+(\.\d+)?-\d+(\.\d+)?$/.test(given.get("time") ?? "") ? given.get("time")! : "",
    over: oneOf(given.get("over"), ["", ...DIMENSIONS], NOTHING_SELECTED.over),
    hidden: /^[\w.,-]*$/.test(given.get("hidden") ?? " ") ? given.get("hidden")! : NOTHING_SELECTED.hidden,
    also: ofForm(given.get("also"), /^\d+(\.\d+\.\d+)?(,\d+(\.\d+\.\d+)?)?$/),
    view: oneOf(given.get("view"), VIEWS, NOTHING_SELECTED.view),
    filters: given.getAll("filter").map(parseFilter).filter((filter) => filter !== null),
    only: given.getAll("only").map(parseOnly).filter((only) => only !== null).slice(0, ONLY_MAX),
    direction: oneOf(given.get("direction"), DIRECTIONS, NOTHING_SELECTED.direction),
    width: oneOf(given.get("width"), WIDTHS, NOTHING_SELECTED.width),
    group: oneOf(given.get("group"), ["", ...GROUPS], NOTHING_SELECTED.group),
    function: wholeNumber(given.get("function")),
    functionName: given.get("functionName") ?? "",
    numbering: given.get("numbering") ?? "",
    zoom: path("zoom"),
    frame: path("frame"),
    search: given.get("search") ?? "",
    by: oneOf(given.get("by"), DIMENSIONS, NOTHING_SELECTED.by),
    order: oneOf(given.get("order"), TABLE_ORDERS, NOTHING_SELECTED.order),
    sort: oneOf(given.get("sort"), SORTS, NOTHING_SELECTED.sort),
    without: ofForm(given.get("without"), /^[\w,]{1,400}$/),
    sql: given.get("sql") ?? "",
    runs: ofForm(given.get("runs"), /^[\d,]*-[\d,]*$/),
    budgets: given.get("budgets") ?? "",
    rank: ofForm(given.get("rank"), /^-?(name|bytes|count|average|change|dump[0-3])$/),
    find: given.get("find") ?? "",
    processOrder: oneOf(given.get("processOrder"), PROCESS_ORDERS, NOTHING_SELECTED.processOrder),
    isReversed: given.get("isReversed") === "true",
    isTree: given.get("isTree") === "true",
  };
}

/** Whether a selection has numbers of functions. */
export const hasNumbers = ({ function: chosen, zoom, frame }: Selection) => chosen !== null || zoom !== "" || frame !== "";

/** Write a selection as a fragment; what is as at the start is left out. */
export function formatSelection(selection: Selection): string {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(selection)) {
    if (name === "numbering" && !hasNumbers(selection)) continue;
    if (name === "only") for (const only of selection.only) out.append("only", onlyInWords(only));
    else if (name === "filters") for (const filter of selection.filters) out.append("filter", filterInWords(filter));
    else if (value !== null && value !== NOTHING_SELECTED[name as keyof Selection]) out.set(name, String(value));
  }
  return out.toString().replaceAll("%3A", ":");
}

/** A page that was saved opens on what was seen then, unless its address says more. */
const keptFragment = () => document.querySelector<HTMLMetaElement>('meta[name="selection"]')?.content ?? "";

let current = parseSelection(typeof location === "undefined" ? "" : location.hash.length > 1 ? location.hash : keptFragment());
const listeners = new Set<() => void>();

function changed() {
  for (const listener of listeners) listener();
}

if (typeof window !== "undefined")
  window.addEventListener("popstate", () => {
    current = parseSelection(location.hash);
    changed();
  });

export const selection = () => current;

/** Change a part of the selection. `replace`: without an entry of its own in the history. */
export function select(change: Partial<Selection>, replace = false) {
  const next = { ...current, ...change };
  if (change.function !== undefined && change.functionName === undefined) next.functionName = "";
  const fragment = formatSelection(next);
  if (fragment === formatSelection(current)) return;
  current = next;
  history[replace ? "replaceState" : "pushState"](null, "", "#" + fragment);
  changed();
}

export function addFilter(kind: FilterKind, pattern: string) {
  const known = current.filters.some((one) => one.kind === kind && one.pattern === pattern);
  if (!known && pattern !== "") select({ filters: [...current.filters, { kind, pattern }], zoom: "" });
}

export function removeFilter(index: number) {
  select({ filters: current.filters.filter((_, i) => i !== index), zoom: "" });
}

/** Show only a part of what is selected; `more`: what else changes with it. */
export function addOnly(dimension: Dimension, value: string, more: Partial<Selection> = {}) {
  const known = current.only.some((one) => one.dimension === dimension && one.value === value);
  const only = known ? current.only : [...current.only, { dimension, value }].slice(-ONLY_MAX);
  select({ only, zoom: "", frame: "", ...more });
}

export function removeOnly(index: number) {
  select({ only: current.only.filter((_, i) => i !== index), zoom: "" });
}

const escaped = (name: string) => name.replace(/[\\^$.|?*+()[\]{}]/g, "\\$&");

/** Return a pattern of a whole name, for the program's regular expressions. */
export const exactly = (name: string) => `^${escaped(name)}$`;

/** Return a pattern of the paths that end in a file's name. */
export const moduleNamed = (file: string) => `(^|/)${escaped(file)}$`;

export function useSelection(): Selection {
  const [now, set] = useState(current);
  useEffect(() => {
    const listener = () => set(current);
    listeners.add(listener);
    listener();
    return () => void listeners.delete(listener);
  }, []);
  return now;
}
