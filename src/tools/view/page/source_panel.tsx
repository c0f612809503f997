// SPDX-License-Identifier: Apache-2.0
// The source's tab: the file of the chosen function, with the bytes that each line holds.
import { askSource, selectionParameters, useAnswer } from "./source";
import { useSelection } from "./state";
import type { MaybeFigure } from "./types";
import { bytesInWords, figureInWords } from "./words";

const amountOf = (figure: MaybeFigure | number) => (typeof figure === "number" ? figure : (figure?.value ?? 0));

function words(figure: MaybeFigure | number): string {
  if (amountOf(figure) === 0) return "";
  return typeof figure === "number" ? bytesInWords(figure) : figureInWords(figure, false);
}

const scrollTo = (row: HTMLElement | null) => row?.scrollIntoView({ block: "center" });

export function SourcePanel() {
  const selection = useSelection();
  const parameters = selectionParameters(selection);
  parameters.set("function", String(selection.function ?? ""));
  const answer = useAnswer(selection.function === null ? null : `api/source?${parameters}`, askSource);
  const source = answer.value;
  const most = Math.max(...(source?.lines?.map((line) => amountOf(line.total)) ?? []), 1);
  return (
    <section class="panel source" aria-label="Source" aria-busy={answer.isWaiting}>
      {selection.function === null ? <div class="empty"><p>Choose a function first: in the flame graph by its menu (Source), or in the table.</p></div>
        : answer.error !== "" ? <div class="empty bad"><p>{answer.error}</p></div>
          : !source ? <div class="empty"><p class="faint">The source is being read…</p></div>
            : !source.found ? <div class="empty"><p>{source.file !== "" ? `${source.file} cannot be read on this machine${source.why && `: ${source.why}`}.`
              : source.why || "The profile does not name the source file of this function."}</p></div>
              : (
                <>
                  <p class="where">{source.file}</p>
                  <table class="lines">
                    <thead><tr><th class="number">Self</th><th class="number">With callees</th><th class="number">Line</th><th>Source</th></tr></thead>
                    <tbody>
                      {(source.lines ?? []).map((line) => (
                        <tr key={line.n} class={amountOf(line.total) > 0 ? "hot" : ""} ref={line.n === source.line ? scrollTo : undefined}>
                          <td class="number">{words(line.self)}</td>
                          <td class="number">{words(line.total)}<i class="bar" style={{ width: `${(amountOf(line.total) / most) * 100}%` }} /></td>
                          <td class="number faint">{line.n}</td>
                          <td><code>{line.text}</code></td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </>
              )}
    </section>
  );
}
