// SPDX-License-Identifier: Apache-2.0
// The numbers of functions in the URL. They mean the same functions as long as profiles only grow. With
// another server, or other profiles, the function is found again by its name, and places in the graph
// are dropped.
import { useEffect } from "preact/hooks";
import { askFunctions, useAnswer } from "./source";
import { hasNumbers, select, selection as now, type Selection } from "./state";
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
    select(withNumbers(now(), { function: chosen, functionName, numbering }, answer.value), true);
  }, [answer.value]);
  return !isNeeded || numbering === "" || numbering === verified || answer.error !== "";
}
