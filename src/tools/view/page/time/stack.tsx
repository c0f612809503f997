// SPDX-License-Identifier: Apache-2.0
// What a heap holds over time, by function, thread and so on: areas on top of each other in place of the
// timeline's sums, and beside them their names, with the figures at the pointer.
import type { ComponentChildren } from "preact";
import { LongName } from "../long_name";
import { askCourse, selectionParameters, useAnswer, type Answer } from "../source";
import { addOnly, select, type Selection } from "../state";
import { keyInWords } from "../table/row";
import { shortModule } from "../tree";
import type { Course, CourseFigures, Dimension, Heap } from "../types";
import { figureInWords, plural } from "../words";
import type { Colours } from "./draw";
import type { Series, Timeline, Value } from "./series";

const OVER: [by: Dimension, title: string][] = [
  ["holder", "by holder"], ["function", "by function"], ["module", "by module"], ["thread", "by thread"], ["type", "by type"], ["context", "by context"],
];

/** The question what the selection holds over time. Its dumps do not matter; the peak is a moment. */
export function coursePath(selection: Selection): string {
  const view = selection.view.endsWith("objects") ? "objects" : "space";
  const parameters = selectionParameters({ ...selection, view, dump: null, base: "" });
  parameters.set("by", selection.over);
  return `api/course?${parameters}`;
}

export const useCourse = (selection: Selection): Answer<Course> =>
  useAnswer(selection.over === "" || selection.heap === "" ? null : coursePath(selection), askCourse);

export function OverChoice({ selection }: { selection: Selection }) {
  return (
    <select class="over" aria-label="Live over time" title="Live over time: sums, or what holds them" value={selection.over}
      onChange={(event) => select({ over: event.currentTarget.value as Selection["over"] })}>
      <option value="">sums</option>
      {OVER.map(([by, title]) => <option key={by} value={by}>{title}</option>)}
    </select>
  );
}

/** The rows and the sum of the others, in the order in which they are stacked. */
function layersOf(course: Course): { key: string; figures: CourseFigures }[] {
  const rest = course.rest.value.some((value) => value > 0) ? [{ key: "rest", figures: course.rest }] : [];
  return [...course.row.map((row, i) => ({ key: `row ${i}`, figures: row })), ...rest];
}

/** The series of a stack: each is the sum of its layer and those below. The highest is drawn first, under the others. */
export function stackOf(course: Course, heap: Heap, beginning: number): Timeline {
  const sums = course.dumps.map(() => 0);
  const series = layersOf(course).map(({ key, figures }): Series => {
    const values = new Array<Value>(heap.dumps.length).fill(undefined);
    course.dumps.forEach((dump, i) => { values[dump] = sums[i]! += figures.value[i]!; });
    return { key, kind: key === "rest" ? "rest" : "layer", name: key, values };
  });
  return { seconds: heap.dumps.map((dump) => (dump.time - beginning) / 1e9), series: series.reverse(), rates: [] };
}

/** Of the dumps of a course, the number of the one nearest to a dump. */
function nearestOf(dumps: number[], dump: number): number {
  let best = -1;
  dumps.forEach((one, i) => { if (best < 0 || Math.abs(one - dump) < Math.abs(dumps[best]! - dump)) best = i; });
  return best;
}

function Layer({ colour, figures, at, counts, children }: {
  colour: string; figures: CourseFigures; at: number; counts: boolean; children: ComponentChildren;
}) {
  const figure = at < 0 ? null : { value: figures.value[at]!, low: figures.low[at]!, high: figures.high[at]! };
  return (
    <li>
      <i style={{ background: colour }} />
      {children}
      <span class="number">{figureInWords(figure, counts)}</span>
    </li>
  );
}

/** The layers, the highest first as in the plot. `dump`: whose figures are shown. */
export function Layers({ course, selection, colours, dump }: { course: Course; selection: Selection; colours: Colours; dump: number }) {
  const { over, view, filters, only } = selection;
  if (over === "") return null;
  const at = nearestOf(course.dumps, dump);
  const counts = view.endsWith("objects");
  const others = course.rows - course.row.length;
  const step = course.dumps.length > 1 ? Math.round(course.all / course.dumps.length) : 1;
  return (
    <div class="layers" aria-label="What is stacked">
      <ul>
        {others > 0 && course.rest.value.some((value) => value > 0) && (
          <Layer colour={colours.rest} figures={course.rest} at={at} counts={counts}><span>{plural(others, "other")}</span></Layer>
        )}
        {course.row.map((row, i) => {
          const title = row.module ? `${keyInWords(over, row)} in ${shortModule(row.module)}` : keyInWords(over, row);
          const name = over === "module" ? shortModule(title) : keyInWords(over, row);
          return (
            <Layer key={`${row.key} ${row.part}`} colour={colours.layers[i % colours.layers.length]!} figures={row} at={at} counts={counts}>
              {row.part === null ? <LongName name={name} title={title} />
                : <button type="button" class="link" onClick={() => addOnly(over, row.part!)}><LongName name={name} title={`${title}: a click shows it alone`} /></button>}
            </Layer>
          );
        }).reverse()}
      </ul>
      {course.rows === 0 && <p class="faint">{course.unknown ? "The file does not contain these figures." : "Nothing is live at any dump."}</p>}
      {(filters.length > 0 || only.length > 0) && <p class="faint">of what the filters leave</p>}
      {step > 1 && <p class="faint">of {plural(course.dumps.length, "dump")} of {course.all}</p>}
      {over === "function" && <p class="faint">each function by itself, without callees</p>}
    </div>
  );
}
