// SPDX-License-Identifier: Apache-2.0
// Asks the server. Requests are relative to the page's address, which holds the token. An answer
// that is no longer wanted is aborted; a lost server is asked again until it is back.
import { useEffect, useState } from "preact/hooks";
import { isSaved, NotSaved, savedAnswer } from "./saved/saved";
import { decodeTree, type Tree } from "./tree";
import { FILTER_TITLES, filterInWords, onlyInWords, showsRetained, type FilterKind, type Selection } from "./state";
import type { Budgets, Course, Details, FunctionNumbers, Leaks, Overview, ProcessMemory, RangeAnswer, Reported, Runs, SourceLines, SqlAnswer, SqlTable, Summary, Table } from "./types";

/** The server said no, in a sentence. */
export class Refusal extends Error {}

/** Options of the terminal have other names here: a bad filter is a chip. */
const inPageWords = (message: string) =>
  message.replace(/^--(focus|ignore|hide|show-from):? /, (_, kind: FilterKind) => `The filter “${FILTER_TITLES[kind]}” `);

/** No answer at all: the server has ended, or the connection is gone. */
export class Gone extends Error {}

async function request(path: string, options: RequestInit): Promise<Response> {
  if (isSaved)
    return savedAnswer(path).catch((error: Error) => {
      throw error instanceof NotSaved ? new Refusal(inPageWords(error.message)) : error;
    });
  let response: Response;
  try {
    response = await fetch(path, { cache: "no-store", ...options });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    lose();
    throw new Gone("heap_profile view does not answer");
  }
  find();
  if (response.ok) return response;
  let message = `the server answered ${response.status} ${response.statusText}`;
  try {
    const body = (await response.json()) as { error?: unknown };
    if (typeof body.error === "string") message = body.error;
  } catch {
    /* not JSON: the status says it */
  }
  throw new Refusal(inPageWords(message));
}

// --- the connection ---

const RETRY_FIRST_MS = 500;
const RETRY_MOST_MS = 5000;
let isLost = false;
let wait = RETRY_FIRST_MS;
let losses = 0; // how often the connection was found again: answers are then asked for anew
const listeners = new Set<() => void>();

function tell() {
  for (const listener of listeners) listener();
}

function retry() {
  window.setTimeout(() => {
    if (!isLost) return;
    if (document.hidden) return retry();
    fetch("api/overview", { cache: "no-store" }).then(find, () => {
      wait = Math.min(2 * wait, RETRY_MOST_MS);
      retry();
    });
  }, wait);
}

function lose() {
  if (isLost) return;
  isLost = true;
  wait = RETRY_FIRST_MS;
  tell();
  retry();
}

function find() {
  if (!isLost) return;
  isLost = false;
  losses++;
  tell();
}

// --- a recording that goes on ---

const POLL_MS = 2000;
let generation = 0; // of the profiles, as the server read them last
let firstGeneration: number | null = null;

async function poll() {
  if (document.hidden || isLost) return;
  const response = await request("api/state", {}).catch(() => null);
  const state = (await response?.json().catch(() => null)) as { generation?: number } | null;
  if (typeof state?.generation !== "number") return;
  firstGeneration ??= state.generation;
  if (state.generation <= generation) return; // the same, or an answer that was overtaken
  generation = state.generation;
  if (generation !== firstGeneration) tell();
}

/* The overview is asked for after the first generation is known, so that what it lacks is of a later one. */
let begun: Promise<void> = Promise.resolve();

/** Ask at once: the page has opened another profile. */
export const refresh = poll;

/** Ask every two seconds, while the page is seen, whether the profiles have grown. */
export function startPolling() {
  if (isSaved) return;
  begun = poll();
  setInterval(poll, POLL_MS);
}

export interface Connection {
  isLost: boolean;
  epoch: string; // answers are asked for anew when it changes
  hasGrown: boolean; // the profiles have grown since the page was opened
}

const connection = (): Connection => ({
  isLost,
  epoch: `${losses} ${generation === firstGeneration ? 0 : generation}`,
  hasGrown: firstGeneration !== null && generation !== firstGeneration,
});

export function useConnection(): Connection {
  const [now, set] = useState(connection());
  useEffect(() => {
    const listener = () => set(connection());
    listeners.add(listener);
    listener();
    return () => void listeners.delete(listener);
  }, []);
  return now;
}

// --- requests ---

export function selectionParameters(selection: Selection): URLSearchParams {
  const out = new URLSearchParams();
  if (selection.heap !== "") out.set("heap", selection.heap);
  if (selection.dump !== null) out.set("dump", String(selection.dump));
  if (selection.base !== "") out.set("base", selection.base);
  out.set("view", selection.view);
  for (const filter of selection.filters) out.append("filter", filterInWords(filter));
  for (const only of selection.only) out.append("only", onlyInWords(only));
  return out;
}

/** Of a graph or a table: what was retained is live, in bytes or calls. */
export function panelParameters(selection: Selection): URLSearchParams {
  const parameters = selectionParameters(selection);
  if (!showsRetained(selection)) return parameters;
  parameters.set("retained", "1");
  parameters.set("view", selection.view.endsWith("objects") ? "objects" : "space");
  return parameters;
}

const trees = new Map<string, Tree>();
const TREES_KEPT = 8;

/** Return a tree that was asked for before, or null. */
export const keptTree = (path: string) => trees.get(`${connection().epoch} ${path}`) ?? null;

/** `root`: ask for the part below this path alone, with the frames that the whole leaves out. */
export function treePath(selection: Selection, direction: "down" | "up" | "callers" | "callees", root = ""): string {
  const parameters = panelParameters(selection);
  parameters.set("direction", direction);
  if (selection.base !== "") parameters.set("width", selection.width);
  if (root !== "") parameters.set("root", root);
  if (direction === "down" && selection.group !== "") parameters.set("group", selection.group);
  if (direction === "callers" || direction === "callees") parameters.set("function", String(selection.function ?? 0));
  return `api/tree?${parameters}`;
}

/* A graph of more nodes takes long to send and read, and most of its boxes are narrower than a pixel:
 * those below a tenth of one are left out then. */
const TREE_BOUNDS = "least=0.00005&enough=30000";

export async function askTree(path: string, signal: AbortSignal): Promise<Tree> {
  const kept = keptTree(path);
  if (kept) return kept;
  const key = `${connection().epoch} ${path}`;
  const response = await request(`${path}&${TREE_BOUNDS}`, { signal });
  const root = new URLSearchParams(path.slice(path.indexOf("?"))).get("root") ?? "";
  const tree = decodeTree(await response.arrayBuffer(), root);
  trees.set(key, tree);
  const oldest = trees.keys().next().value;
  if (trees.size > TREES_KEPT && oldest !== undefined) trees.delete(oldest);
  return tree;
}

export async function askFile(path: string, method = "GET"): Promise<Blob> {
  return (await request(path, { method })).blob();
}

async function askJson<T>(path: string, signal: AbortSignal): Promise<T> {
  const response = await request(path, { signal });
  return (await response.json()) as T;
}

/** Ask for something to be done, or with what is too long for an address. */
export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const response = await request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), ...(signal && { signal }) });
  return (await response.json()) as T;
}

export const askMachine = <T,>(path: string, signal: AbortSignal) => askJson<T>(path, signal);
export const askOverview = (signal: AbortSignal) => begun.then(() => askJson<Overview>("api/overview", signal));
export const askMemory = (path: string, signal: AbortSignal) => askJson<ProcessMemory>(path, signal);
export const askBudgets = (path: string, signal: AbortSignal) => askJson<Budgets>(path, signal);
export const askLeaks = (path: string, signal: AbortSignal) => askJson<Leaks>(path, signal);
export const askRange = (path: string, signal: AbortSignal) => askJson<RangeAnswer>(path, signal);
export const askRuns = (path: string, signal: AbortSignal) => askJson<Runs>(path, signal);
export const askSummary = (path: string, signal: AbortSignal) => askJson<Summary>(path, signal);
export const askReported = (path: string, signal: AbortSignal) => askJson<{ row: Reported[] }>(path, signal);
export const askDetails = (path: string, signal: AbortSignal) => askJson<Details>(path, signal);
export const askCourse = (path: string, signal: AbortSignal) => askJson<Course>(path, signal);
export const askTable = (path: string, signal: AbortSignal) => askJson<Table>(path, signal);
export const askSource = (path: string, signal: AbortSignal) => askJson<SourceLines>(path, signal);
export const askFunctions = (path: string, signal: AbortSignal) => askJson<FunctionNumbers>(path, signal);
export const askSqlTables = (signal: AbortSignal) => askJson<SqlTable[]>("api/tables", signal);

export async function askSql(sql: string, signal: AbortSignal): Promise<SqlAnswer> {
  const response = await request("api/sql", { method: "POST", headers: { "Content-Type": "text/plain" }, body: sql, signal });
  return (await response.json()) as SqlAnswer;
}

/** Let Perfetto UI read a profile's trace, and return the address that opens it there. */
export async function askPerfetto(profile: number): Promise<string> {
  const response = await request(`api/perfetto?profile=${profile}`, { method: "POST" });
  return ((await response.json()) as { url: string }).url;
}

/** What was asked for: the last answer stays until the next is here, so that nothing jumps. */
export interface Answer<T> {
  value: T | null;
  key: string; // of the value
  error: string;
  isWaiting: boolean;
}

/** Ask when `key` changes (null: ask nothing), and again when a lost server is back. */
export function useAnswer<T>(key: string | null, ask: (key: string, signal: AbortSignal) => Promise<T>): Answer<T> {
  const { epoch } = useConnection();
  const [answer, set] = useState<Answer<T>>({ value: null, key: "", error: "", isWaiting: key !== null });
  useEffect(() => {
    if (key === null) {
      set({ value: null, key: "", error: "", isWaiting: false });
      return;
    }
    const control = new AbortController();
    set((last) => ({ ...last, isWaiting: last.key !== key }));
    ask(key, control.signal).then(
      (value) => !control.signal.aborted && set({ value, key, error: "", isWaiting: false }),
      (error: Error) => {
        if (control.signal.aborted) return;
        const message = error instanceof Gone ? "" : error.message;
        set((last) => ({ value: error instanceof Gone ? last.value : null, key: last.key, error: message, isWaiting: error instanceof Gone }));
      },
    );
    return () => control.abort();
  }, [key, epoch]);
  return answer;
}
