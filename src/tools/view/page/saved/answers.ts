// SPDX-License-Identifier: Apache-2.0
// Answers the page's questions from the data inside a page that is a file, as the server answers them from
// the profiles. What the file does not contain is refused in a sentence.
import { changeOf, marksOf, unseenMost, type Bounds, type Unseen } from "./change";
import { WrongPattern } from "./pattern";
import { parse, type Packed } from "./blocks";
import { boundsOf } from "./bounds";
import { NONE, SavedData, type SavedFunction } from "./data";
import { filtered } from "./filter";
import { encodeFlame, makeFlame, type Flame, type FlameDirection } from "./flame";
import { countsCalls, isOfOneProcess, leavesOf, LOST, SUM, sumsOf, WIDTH, type Leaves, type Question, type Side } from "./leaves";
import { rangeOf } from "./range";
import { figureOf, makeTable, parseTable } from "./table";
import { shortModule } from "../tree";
import { DIMENSIONS, VIEWS, type Heap, type Overview, type Summary, type ViewName } from "../types";

/** The file does not answer the question; the message says why. */
export class NotSaved extends Error {}

export const NOT_SAVED =
  "This page is a file: it does not contain source text, SQL tables or the trace. Open the profile with `heap_profile view` for these.";

const DIRECTIONS: FlameDirection[] = ["down", "up", "callees", "callers"];
/** Parameters that this page understands. A question with another one would be answered wrongly. */
const KNOWN = ["heap", "dump", "base", "view", "filter", "direction", "function", "root", "least", "by", "order", "sort", "search", "offset", "limit"];

const fiveOf = (sum: Float64Array, at: number) => Array.from(sum.subarray(at, at + 5));

function headerOf(question: Question, leaves: Leaves, flame: Flame) {
  const { base, view } = question;
  const share = leaves.total[WIDTH]! > 0 ? leaves.leftOut[WIDTH]! / leaves.total[WIDTH]! : 0;
  return {
    nodes: flame.count,
    pruned: flame.pruned,
    difference: base !== null,
    counts: countsCalls(view),
    unknown: leaves.unknown,
    exact: leaves.exact,
    partial: leaves.partial,
    intervals: leaves.intervals,
    calibrations: leaves.calibrations,
    total: fiveOf(leaves.total, 0),
    lost_total: fiveOf(leaves.total, LOST),
    ...limitsOf(question, leaves),
    left_out: { gained: fiveOf(leaves.leftOut, 0), lost: fiveOf(leaves.leftOut, LOST), share },
    marks: base ? marksOfNodes(question, leaves, flame) : [],
    judged: view !== "max" || leaves.exact,
    one_process: isOfOneProcess(question),
  };
}

/** Return the most that the exact totals allow, and the limits of the whole heap. */
function limitsOf(question: Question, leaves: Leaves) {
  const { at, base, view } = question;
  if (!base) return { most: at.dump.most, whole: at.dump.whole[view] };
  const [bytes, count] = [boundsOf(question, false), boundsOf(question, true)];
  const figure = (counts: boolean) => {
    const { total } = boundsOf(question, counts);
    return { ...figureOf(question, leaves, leaves.total, counts, true), ...(total && { before: total.before, after: total.after }) };
  };
  const room = (one: Bounds, unseen: Unseen) => (one.apart ? unseenMost(unseen) : 0);
  const unseen = [room(bytes, bytes.gainedUnseen), room(count, count.gainedUnseen), room(bytes, bytes.lostUnseen), room(count, count.lostUnseen)];
  return { most: [bytes.gainedMost, count.gainedMost, bytes.lostMost, count.lostMost], unseen, whole: { bytes: figure(false), count: figure(true) } };
}

/** Return the nodes whose change is beyond chance. At the peak of a sampled heap only the whole heap's is judged. */
function marksOfNodes(question: Question, leaves: Leaves, flame: Flame): number[] {
  const { view } = question;
  const counts = countsCalls(view);
  const bounds = boundsOf(question, counts);
  const change = (sums: Float64Array, at: number, isOfHeap: boolean) =>
    changeOf(sumsOf(sums, at), sumsOf(sums, at + LOST), counts, leaves, bounds, isOfHeap);
  const isJudged = view !== "max" || leaves.exact;
  const marks = isJudged ? marksOf(Array.from({ length: flame.count }, (_, i) => change(flame.sums, i * SUM, false))) : [];
  const isOfHeap = !(leaves.leftOut[WIDTH]! > 0) && flame.function[0] === NONE;
  if (!isOfHeap) return marks;
  return [...marksOf([change(leaves.total, 0, true)]), ...marks.filter((node) => node !== 0)];
}

/** List the functions of a graph in the order of its nodes; places: by node, that of its function. */
function functionsOf(flame: Flame, functions: SavedFunction[]) {
  const places = new Uint32Array(flame.count).fill(NONE);
  const known = new Map<number, number>();
  const list: object[] = [];
  for (let i = 0; i < flame.count; i++) {
    const id = flame.function[i]!;
    if (id === NONE) continue;
    let place = known.get(id);
    if (place === undefined) {
      const { path = "", folded: _, ...names } = functions[id]!;
      place = list.push({ id, ...names, module: shortModule(path) }) - 1;
      known.set(id, place);
    }
    places[i] = place;
  }
  return { places, list };
}

export class SavedAnswers {
  private data: SavedData;
  private overview: Promise<Overview> | null = null;

  constructor(packed: Packed) {
    this.data = new SavedData(packed);
  }

  private async heapOf(id: string): Promise<Heap> {
    this.overview ??= this.data.answer("api/overview").then((buffer) => parse(buffer!) as Overview);
    for (const profile of (await this.overview).profiles) for (const heap of profile.heaps) if (heap.id === id) return heap;
    throw new NotSaved(`This page is a file and has no heap ${id}.`);
  }

  private async side(id: string, number: string | null): Promise<Side> {
    const { dumps } = await this.heapOf(id);
    const index = number === null ? dumps.length - 1 : Number(number);
    const [heap, dump] = await Promise.all([this.data.heap(id), this.data.dump(id, index)]);
    if (heap && dump) return { id, heap, dump };
    throw new NotSaved(
      index >= 0 && index < dumps.length
        ? "This page is a file and has only some of the dumps, not this one. Open the profile with `heap_profile view` for the rest."
        : `There is no dump ${number}: the heap has ${dumps.length}.`,
    );
  }

  private async question(parameters: URLSearchParams): Promise<Question> {
    const id = parameters.get("heap") ?? "";
    const base = parameters.get("base") ?? "";
    const view = (parameters.get("view") ?? "space") as ViewName;
    if (!VIEWS.includes(view)) throw new NotSaved(`There is no view ${view}.`);
    const parts = base.split(".");
    const baseId = parts.length === 3 ? `${parts[0]}.${parts[1]}` : id;
    const [at, before, tree, functions] = await Promise.all([
      this.side(id, parameters.get("dump")),
      base === "" ? null : this.side(baseId, parts[parts.length - 1]!),
      this.data.tree(),
      this.data.functions(),
    ]);
    const pair = before && baseId !== id ? await this.data.pair(baseId, id) : null;
    if (before && baseId !== id && !pair)
      throw new NotSaved("This page is a file and does not contain the difference of these two. Open the profiles with `heap_profile view` for it.");
    return { at, base: before, pair, view, filtered: filtered(tree, functions, parameters.getAll("filter")) };
  }

  private async tree(parameters: URLSearchParams): Promise<ArrayBuffer> {
    const direction = (parameters.get("direction") ?? "down") as FlameDirection;
    if (!DIRECTIONS.includes(direction)) throw new NotSaved(`There is no direction ${direction}.`);
    const question = await this.question(parameters);
    const functions = await this.data.functions();
    const root = parameters.get("root") ?? "";
    const leaves = leavesOf(question);
    const flame = makeFlame({
      tree: question.filtered.tree,
      leaves,
      direction,
      function: Number(parameters.get("function") ?? NONE),
      path: root === "" ? [] : root.split(".").map(Number),
      least: Number(parameters.get("least") ?? 0),
    });
    if (!flame) throw new NotSaved("Nothing of this selection is below that path.");
    const { places, list } = functionsOf(flame, functions);
    return encodeFlame(flame, places, { ...headerOf(question, leaves, flame), functions: list }, question.base !== null);
  }

  private async table(parameters: URLSearchParams): Promise<string> {
    const asked = parseTable(parameters);
    if (!DIMENSIONS.includes(asked.by)) throw new NotSaved(`There is no table by ${asked.by}.`);
    const table = makeTable(await this.question(parameters), await this.data.functions(), asked);
    if (typeof table === "string") throw new NotSaved(table);
    return JSON.stringify(table);
  }

  private async memory(parameters: URLSearchParams): Promise<ArrayBuffer> {
    const id = parameters.get("heap") ?? "";
    const dump = parameters.get("dump") ?? String((await this.heapOf(id)).dumps.length - 1);
    const answer = await this.data.answer(`api/memory?dump=${dump}&heap=${id}`);
    if (!answer)
      throw new NotSaved("This page is a file and does not contain the memory at this dump. Open the profile with `heap_profile view` for it.");
    return answer;
  }

  private async summary(parameters: URLSearchParams): Promise<string> {
    const { dump } = await this.side(parameters.get("heap") ?? "", parameters.get("dump"));
    return JSON.stringify({ sentences: dump.sentences } satisfies Summary);
  }

  private async range(parameters: URLSearchParams): Promise<string> {
    const { id, heap, dump: at } = await this.side(parameters.get("heap") ?? "", parameters.get("dump"));
    const { dump: base } = await this.side(id, parameters.get("base"));
    const { dumps } = await this.heapOf(id);
    const [one, other] = [dumps[Number(parameters.get("dump") ?? dumps.length - 1)]!, dumps[Number(parameters.get("base"))]!];
    const lacks = ["space", "alloc_space"].some((view) => heap.unknown.includes(view as ViewName));
    const why = lacks ? "The file does not have both what was allocated and what is live."
      : heap.dumps_at_peak ? "The dumps are of the peak, not of their moments."
        : one.incomplete || other.incomplete ? "One of the dumps is incomplete." : "";
    return JSON.stringify(other.time <= one.time ? rangeOf(heap, base, at, why) : rangeOf(heap, at, base, why));
  }

  /** Answer a question, as the server would. */
  async answer(path: string): Promise<ArrayBuffer | string> {
    const [question, query = ""] = path.split("?") as [string, string?];
    const parameters = new URLSearchParams(query);
    const unknown = [...parameters.keys()].find((name) => !KNOWN.includes(name));
    if (unknown !== undefined) throw new NotSaved(`This page is a file and cannot choose by ${unknown}. Open the profile with \`heap_profile view\` for it.`);
    try {
      if (question === "api/tree") return await this.tree(parameters);
      if (question === "api/table") return await this.table(parameters);
    } catch (error) {
      if (error instanceof WrongPattern) throw new NotSaved(error.message);
      throw error;
    }
    if (question === "api/memory") return this.memory(parameters);
    if (question === "api/range") return this.range(parameters);
    if (question === "api/summary") return this.summary(parameters);
    const found = await this.data.answer(path);
    if (!found) throw new NotSaved(NOT_SAVED);
    return found;
  }
}
