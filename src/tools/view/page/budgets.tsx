// SPDX-License-Identifier: Apache-2.0
// The budgets' tab: what `heap_profile check` says of the profile, by the budgets that view was started with or that are
// written here. They stand in the address. The timeline draws those that limit the heap's live bytes.
import { useState } from "preact/hooks";
import "./budgets.css";
import { LongName } from "./long_name";
import { processTitle, profileTitle, type Place } from "./model";
import { Sentence } from "./sentence";
import { askBudgets, useAnswer, type Answer } from "./source";
import { select, type Selection } from "./state";
import type { Budgets, BudgetResult, Overview } from "./types";
import { amountInWords, bytesInWords, plural, signedInWords } from "./words";

const BYTES_MOST = 8192; // as `view --budgets` takes them
const EXAMPLE = "max-peak = 200M\nmax-live = 64k\nmax-leak = parse_*=64k   # the cache of the parser";

/** The text of the budgets; "": there are none. */
export const budgetsOf = (overview: Overview, selection: Selection) => selection.budgets || (overview.budgets ?? "");

/** The verdicts on the profile of a heap; growth is judged against the profile that is compared. */
export function useBudgets(overview: Overview, place: Place | null, selection: Selection): Answer<Budgets> {
  const text = budgetsOf(overview, selection);
  const parts = selection.base.split(".");
  let path: string | null = null;
  if (place && text.trim() !== "") {
    const parameters = new URLSearchParams({ profile: String(overview.profiles.indexOf(place.profile)) });
    if (parts.length === 3) parameters.set("base", parts[0]!);
    if (selection.budgets !== "") parameters.set("budgets", selection.budgets);
    path = `api/budgets?${parameters}`;
  }
  return useAnswer(path, askBudgets);
}

const isOf = (result: BudgetResult, { heap, process }: Place) =>
  result.heap === heap.name && result.name === (process?.name ?? "") && (result.pid ?? 0) === (process?.pid ?? 0);

/** A limit of the heap's live bytes, to be drawn. */
export interface BudgetLine {
  bytes: number;
  title: string;
  fails: boolean;
}

export function linesOf(budgets: Budgets | null, place: Place): BudgetLine[] {
  const results = budgets?.results.filter((one) => (one.budget === "max-peak" || one.budget === "max-live") && isOf(one, place)) ?? [];
  return results.map((one) => ({ bytes: one.limit, title: `${one.budget} ${one.text}: ${one.state}`, fails: one.state === "fails" }));
}

const ORDER: BudgetResult["state"][] = ["fails", "undecidable", "holds"];

const titleOf = ({ budget, pattern, text }: BudgetResult) => `${budget} ${pattern === undefined ? "" : `${pattern}=`}${text}`;

function subjectOf({ unprofiled, name = "", pid, heap }: BudgetResult): string {
  if (unprofiled !== undefined) return `${name}${unprofiled > 1 ? ` and ${unprofiled - 1} more` : ""}`;
  return heap === undefined ? "all that was profiled" : `${processTitle({ name, pid: pid ?? 0 })}, ${heap}`;
}

function Result({ result }: { result: BudgetResult }) {
  const counts = result.budget.startsWith("max-allocations");
  const isGrowth = result.budget.endsWith("growth");
  return (
    <tr class={result.state}>
      <td class={result.state === "fails" ? "bad" : result.state === "holds" ? "" : "warn"}><b>{result.state}</b></td>
      <td class="budget-name"><LongName name={titleOf(result)} /></td>
      <td>
        <Sentence text={result.finding} />
        {result.stacks.map(({ stack, amount, at_most: atMost }) => (
          <span class="budget-stack" key={stack}>{atMost && "up to "}{isGrowth && !atMost ? signedInWords(amount, counts) : amountInWords(amount, counts)} <LongName name={stack} /></span>
        ))}
      </td>
      <td class="budget-name"><LongName name={subjectOf(result)} /></td>
    </tr>
  );
}

function Verdicts({ budgets }: { budgets: Budgets }) {
  const sorted = [...budgets.results].sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state));
  return (
    <>
      <p><b>{`${budgets.holds} of ${plural(budgets.results.length, "budget")} hold${budgets.holds === 1 ? "s" : ""}`}</b>, {budgets.fails} {budgets.fails === 1 ? "fails" : "fail"}, {budgets.undecidable} undecidable.</p>
      {sorted.length > 0 && (
        <table class="plain budgets-table">
          <thead><tr><th>State</th><th>Budget</th><th>Finding</th><th>Of</th></tr></thead>
          <tbody>{sorted.map((result, i) => <Result key={i} result={result} />)}</tbody>
        </table>
      )}
      {budgets.suppressions.length > 0 && (
        <ul class="notes">
          {budgets.suppressions.map(({ pattern, reason, space }) => (
            <li key={pattern}>{space > 0 ? `${bytesInWords(space)} left out by` : "Nothing left out by"} <code>leak:{pattern}</code> ({reason})</li>
          ))}
        </ul>
      )}
    </>
  );
}

export function BudgetsPanel({ overview, place, selection }: { overview: Overview; place: Place; selection: Selection }) {
  const given = budgetsOf(overview, selection);
  const [text, setText] = useState(given);
  const { value, error, isWaiting } = useBudgets(overview, place, selection);
  const isTooLong = new Blob([text]).size > BYTES_MOST;
  const hasGrowth = /^\s*max-(|peak-|allocated-|allocations-)growth/m.test(given);
  const base = selection.base.split(".");
  const compared = base.length === 3 ? overview.profiles[Number(base[0])] : undefined;
  return (
    <section class="panel budgets" aria-label="Budgets" aria-busy={isWaiting}>
      <form onSubmit={(event) => { event.preventDefault(); if (!isTooLong) select({ budgets: text }); }}>
        <textarea aria-label="Budgets, one a line" rows={6} spellcheck={false} placeholder={EXAMPLE} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <p class="tools-line">
          <button type="submit" class="primary" disabled={isTooLong}>Judge</button>
          <span class="faint">{isTooLong ? "There is room for 8 kB of budgets." : "One a line, as in the file of heap_profile check --budgets. Each process and each heap is judged at its last dump."}</span>
        </p>
      </form>
      {hasGrowth && <p class="faint">{compared ? `Growth is judged against ${profileTitle(compared)}.` : "Growth is not judged: compare with another profile."}</p>}
      {error !== "" ? <p class="bad"><Sentence text={error} /></p> : value ? <Verdicts budgets={value} /> : given.trim() !== "" && <p class="faint">…</p>}
    </section>
  );
}
