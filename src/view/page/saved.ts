// SPDX-License-Identifier: Apache-2.0
// A page that was saved as a file has answers inside, in the element #saved: by the question's name,
// deflated, in base64. The name is the path with its parameters in alphabetical order, without those
// that only bound the answer.
import type { Overview, Table } from "./types";

const element = typeof document === "undefined" ? null : document.getElementById("saved");

/** Whether the page is a file, without a server. */
export const isSaved = element !== null;

export const NOT_SAVED =
  "This page is a file: it has the graphs and tables of the last dumps, and graphs of live bytes of some earlier ones. " +
  "Open the profile with `heap_profile view` for the rest.";

const BOUNDS = ["least", "limit", "offset", "search", "root"];
let packed: Map<string, string> | null = null;
let overview: Promise<Overview> | null = null;

function answers(): Map<string, string> {
  packed ??= new Map(Object.entries(JSON.parse(element?.textContent ?? "{}") as Record<string, string>));
  return packed;
}

async function unpack(name: string): Promise<ArrayBuffer | null> {
  const text = answers().get(name);
  if (text === undefined) return null;
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

const parse = (buffer: ArrayBuffer) => JSON.parse(new TextDecoder().decode(buffer)) as unknown;

/** Return the number of a heap's last dump, which questions leave out. */
async function lastDump(heap: string): Promise<number> {
  overview ??= unpack("api/overview").then((buffer) => parse(buffer!) as Overview);
  for (const profile of (await overview).profiles)
    for (const one of profile.heaps) if (one.id === heap) return one.dumps.length - 1;
  return -1;
}

/** Return the name under which the file has the answer to a question. */
export async function nameOfQuestion(path: string, last: (heap: string) => Promise<number>): Promise<string> {
  const [question, query = ""] = path.split("?") as [string, string?];
  const parameters = new URLSearchParams(query);
  for (const bound of BOUNDS) parameters.delete(bound);
  const heap = parameters.get("heap");
  if (heap !== null && !parameters.has("dump")) parameters.set("dump", String(await last(heap)));
  if (question === "api/table" && !parameters.has("order")) parameters.set("order", "self");
  parameters.sort();
  const all = [...parameters].map(([name, value]) => `${name}=${value}`);
  return all.length > 0 ? `${question}?${all.join("&")}` : question;
}

/** Search and page through the rows of a saved table, as the server does. */
function boundTable(table: Table, parameters: URLSearchParams): Table {
  const wanted = (parameters.get("search") ?? "").toLowerCase();
  const offset = Number(parameters.get("offset") ?? 0);
  const limit = Number(parameters.get("limit") ?? table.row.length);
  const found = wanted === "" ? table.row
    : table.row.filter((row) => row.key.toLowerCase().includes(wanted) || (row.module ?? "").toLowerCase().includes(wanted));
  return { ...table, rows: found.length, row: found.slice(offset, offset + limit) };
}

/** Answer a question from the file; null: it is not in it. */
export async function savedAnswer(path: string): Promise<Response | null> {
  const buffer = await unpack(await nameOfQuestion(path, lastDump));
  if (buffer === null) return null;
  if (!path.startsWith("api/table")) return new Response(buffer);
  const parameters = new URLSearchParams(path.slice(path.indexOf("?")));
  return new Response(JSON.stringify(boundTable(parse(buffer) as Table, parameters)));
}
