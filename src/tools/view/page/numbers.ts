// SPDX-License-Identifier: Apache-2.0
// The numbers of functions in the URL. They mean the same functions as long as profiles only grow. With
// another server, or other profiles, the function is found again by its name. So are places in the graph
// that this page has shown, as when a recording ends and its profile is read anew; others are dropped.
import { useEffect } from "preact/hooks";
import { askFunctions, useAnswer } from "./source";
import { hasNumbers, select, selection as now, type Selection } from "./state";
import { namesTo, nodeAt, nodeNamed, pathOf, type Tree } from "./tree";
import type { FunctionNumbers } from "./types";

/** Return what an answer changes in a selection. */
export function withNumbers(selection: Selection, asked: Pick<Selection, "function" | "functionName" | "numbering">, answer: FunctionNumbers): Partial<Selection> {
  const isStale = asked.numbering !== "" && !answer.same;
  const isAsked = asked.function === selection.function && asked.functionName === selection.functionName;
  const change: Partial<Selection> = { numbering: answer.numbering };
  if (isStale) Object.assign(change, { zoom: "", frame: "" });
  if (selection.function === null || !isAsked) return change;
  if (asked.functionName === "" && isStale) return { ...change, function: null };
  return { ...change, function: answer.function ?? null, functionName: answer.name ?? "" };
}

// --- places in the graph ---

interface Places {
  of: string; // the paths
  zoom: string[]; // the names on them, from the root
  frame: string[];
}

let shown: Places | null = null; // by the last graph
let wanted: Places | null = null; // in the next one: they have lost their numbers

const pathsOf = ({ zoom, frame }: Selection) => `${zoom} ${frame}`;

const namesAt = (tree: Tree, path: string) => (path === "" ? [] : namesTo(tree, nodeAt(tree, path)));

/** Return the path of a place by its names, unless the path that it has leads there. */
function pathNamed(tree: Tree, path: string, names: string[]): string {
  if (names.length === 0) return path;
  const leads = path !== "" && namesAt(tree, path).join("\n") === names.join("\n");
  return leads ? path : pathOf(tree, nodeNamed(tree, names));
}

/** Let the places of a selection outlive the numbers of their functions: find them in another graph by their names. */
export function useNamedPlaces(tree: Tree | null, selection: Selection) {
  const isPlain = selection.zoom === "" && selection.frame === "";
  // For the graph, the news of its numbers, or another place, whichever is later.
  useEffect(() => {
    if (!tree || pathsOf(now()) !== pathsOf(selection)) return; // another selection is on its way
    const places = isPlain ? wanted : shown?.of === pathsOf(selection) ? shown : null;
    const names = places ?? { zoom: namesAt(tree, selection.zoom), frame: namesAt(tree, selection.frame) };
    const next = { zoom: pathNamed(tree, selection.zoom, names.zoom), frame: pathNamed(tree, selection.frame, names.frame) };
    // A graph that is read before its names are known has no such place; the next one may.
    wanted = next.zoom === "" && next.frame === "" && names.zoom.length + names.frame.length > 0 ? { ...names, of: "" } : null;
    shown = { of: pathsOf({ ...selection, ...next }), zoom: names.zoom, frame: names.frame };
    if (shown.of !== pathsOf(selection)) select({ ...next, numbering: "" }, true);
  }, [tree, selection.numbering, selection.zoom, selection.frame]);
}

let verified = ""; // the numbering that the server confirmed last

/** Keep names beside the numbers. Return whether the numbers of an address can be used already. */
export function useNumbers(selection: Selection): boolean {
  const { function: chosen, functionName, numbering } = selection;
  const isNeeded = hasNumbers(selection);
  const parameters = new URLSearchParams({ numbering });
  if (chosen !== null) parameters.set("function", functionName === "" ? String(chosen) : functionName);
  const path = `api/functions?${parameters}`;
  const answer = useAnswer(isNeeded ? path : null, askFunctions);
  useEffect(() => {
    if (!answer.value || answer.key !== path) return;
    verified = answer.value.numbering;
    if (numbering !== "" && !answer.value.same && shown && shown.zoom.length + shown.frame.length > 0) wanted = shown;
    select(withNumbers(now(), { function: chosen, functionName, numbering }, answer.value), true);
  }, [answer.value]);
  return !isNeeded || numbering === "" || numbering === verified || answer.error !== "";
}
