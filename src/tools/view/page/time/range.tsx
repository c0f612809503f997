// SPDX-License-Identifier: Apache-2.0
// The line about the range between two dumps of the heap: what was allocated, freed and retained in it.
import { dumpIndex, secondsOf, type Place } from "../model";
import { askRange, useAnswer } from "../source";
import { select, showsRetained, type Selection } from "../state";
import type { RangeAnswer } from "../types";
import { bytesInWords, signedInWords, timeInWords } from "../words";

/** Bytes that were allocated after the first dump and are live at the second. */
function retainedInWords({ retained_least: least, retained_most: most }: RangeAnswer): string {
  if (least === null || most === null) return "unknown";
  const [low, high] = [bytesInWords(least), bytesInWords(most)];
  return low === high ? low : `${low} to ${high}`;
}

const HELP = "Allocated after the first dump and live at the second. A trace has no ages of allocations, only the sums of each callsite: " +
  "at least the growth of callsites, at most what they allocated meanwhile and still hold. Both are estimates from samples.";

function Figures({ answer }: { answer: RangeAnswer }) {
  if (answer.why !== "") return <span class="faint">retained since: unknown. {answer.why}</span>;
  return (
    <>
      <span class="figures">{signedInWords(answer.change!, false)} live</span>
      <span class="figures">{bytesInWords(answer.allocated!)} allocated</span>
      <span class="figures">{bytesInWords(answer.freed!)} freed</span>
      <span class="figures" title={HELP}>retained since: <b>{retainedInWords(answer)}</b></span>
    </>
  );
}

/** What the graph and the table have of the range. */
function Shown({ selection }: { selection: Selection }) {
  const isRetained = showsRetained(selection);
  const tab = selection.tab === "table" ? "table" : "flame";
  const show = (retained: boolean) => select({ tab, isRetained: retained, view: selection.view.endsWith("objects") ? "objects" : "space", zoom: "", frame: "" });
  const isShown = selection.tab === tab;
  return (
    <span class="group" role="group" aria-label="Graph and table of">
      <button type="button" aria-pressed={isShown && !isRetained} onClick={() => show(false)}>change</button>
      <button type="button" aria-pressed={isShown && isRetained} title={HELP} onClick={() => show(true)}>retained since</button>
    </span>
  );
}

export function Range({ place, selection }: { place: Place; selection: Selection }) {
  const { heap, profile } = place;
  const base = /^\d+$/.test(selection.base) ? heap.dumps[Number(selection.base)] : undefined;
  const index = dumpIndex(heap, selection.dump);
  const dump = heap.dumps[index];
  const key = base && dump ? `api/range?${new URLSearchParams({ heap: heap.id, dump: String(index), base: selection.base })}` : null;
  const { value: answer, error } = useAnswer(key, askRange);
  if (!base || !dump) return null;
  const [first, second] = [Number(selection.base), index].sort((a, b) => a - b) as [number, number];
  const span = secondsOf(profile, heap.dumps[second]!.time) - secondsOf(profile, heap.dumps[first]!.time);
  return (
    <p class="range-line" role="status">
      <span>Between dumps {first + 1} and {second + 1}, {timeInWords(span)}:</span>
      {error !== "" ? <span class="bad">{error}</span> : answer && <Figures answer={answer} />}
      {answer?.why === "" && <Shown selection={selection} />}
      <button type="button" class="link" onClick={() => select({ base: "" })}>No comparison</button>
    </p>
  );
}
