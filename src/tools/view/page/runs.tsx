// SPDX-License-Identifier: Apache-2.0
// The runs' tab: two groups of runs, as of two releases, each a profile. Rows have the mean of each side with the spread
// between its runs, and the change with its 95 % interval, which contains that spread.
import { useEffect, useState } from "preact/hooks";
import { LongName } from "./long_name";
import { profileTitle, viewOf, type Place } from "./model";
import "./runs.css";
import { Sentence } from "./sentence";
import { askRuns, selectionParameters, useAnswer } from "./source";
import { select, type Selection } from "./state";
import { keyInWords } from "./table/row";
import type { Overview, Runs, RunsFigures, RunsRow, RunsSide } from "./types";
import { amountInWords, capitalized, countInWords, marginInWords, plural, signedInWords } from "./words";

const BY = ["holder", "function", "module", "file"] as const;
const LEAST = 3; // runs of a side, with fewer of which little is beyond chance
const SEARCH_MS = 150;
const ROWS_FIRST = 100;

export interface Sides {
  before: number[]; // profiles
  after: number[];
}

/** Return the sides "0,1,2-3,4,5"; without a choice, the first half of the profiles and the second. */
export function sidesOf(runs: string, profiles: number): Sides {
  const all = Array.from({ length: profiles }, (_, i) => i);
  if (runs === "") return { before: all.slice(0, profiles >> 1), after: all.slice(profiles >> 1) };
  const [before = [], after = []] = runs.split("-").map((side) => side.split(",").filter((text) => text !== "").map(Number).filter((profile) => profile < profiles));
  return { before, after };
}

const formatSides = ({ before, after }: Sides) => `${before.join()}-${after.join()}`;

const SIDES = [["before", "before"], ["after", "after"], ["none", "in neither"]] as const;

/** Which side each profile is on. */
function Choice({ overview, sides }: { overview: Overview; sides: Sides }) {
  const put = (profile: number, side: (typeof SIDES)[number][0]) => {
    const without = (list: number[]) => list.filter((one) => one !== profile);
    const next = { before: without(sides.before), after: without(sides.after) };
    if (side !== "none") next[side] = [...next[side], profile].sort((a, b) => a - b);
    select({ runs: formatSides(next) });
  };
  return (
    <table class="plain runs-choice">
      <thead><tr><th>Run</th>{SIDES.map(([side, title]) => <th key={side}>{title}</th>)}</tr></thead>
      <tbody>
        {overview.profiles.map((profile, i) => (
          <tr key={profile.path}>
            <td title={profile.path}><LongName name={profileTitle(profile)} title={profile.path} /></td>
            {SIDES.map(([side, title]) => (
              <td key={side}><input type="radio" name={`side-${i}`} aria-label={`${profileTitle(profile)}: ${title}`} checked={side === "none" ? !sides.before.includes(i) && !sides.after.includes(i) : sides[side].includes(i)} onChange={() => put(i, side)} /></td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const meanInWords = ({ mean, spread, runs }: RunsSide, counts: boolean) =>
  runs.length < 2 ? amountInWords(mean, counts) : `${amountInWords(mean, counts)}, spread ${amountInWords(spread ?? 0, counts)}`;

const DOTS = 160; // pixels
const DOT = 3;

/** The runs of both sides as dots, on one scale from zero. */
function Dots({ before, after }: RunsFigures) {
  const most = Math.max(...before.runs, ...after.runs, 1);
  const x = (value: number) => DOT + (Math.max(value, 0) / most) * (DOTS - 2 * DOT);
  return (
    <svg width={DOTS} height={20} class="dots" aria-hidden="true">
      {before.runs.map((value, i) => <circle key={i} class="of-before" cx={x(value)} cy={6} r={DOT} />)}
      {after.runs.map((value, i) => <rect key={i} class="of-after" x={x(value) - DOT} y={12} width={2 * DOT} height={2 * DOT} />)}
    </svg>
  );
}

function judge({ beyond_chance: isMarked, low, high }: RunsRow): string {
  if (isMarked) return "beyond chance";
  if (low === null || high === null) return "unknown: a side has one run";
  return low <= 0 && high >= 0 ? "within chance" : "may be chance";
}

function Figures({ figures, counts }: { figures: RunsFigures; counts: boolean }) {
  const { before, after, change, low, high } = figures;
  return (
    <>
      <td class="number">{meanInWords(before, counts)}</td>
      <td class="number">{meanInWords(after, counts)}</td>
      <td class="number">{signedInWords(change, counts)} <span class="faint">{marginInWords({ value: change, low, high }, counts)}</span></td>
    </>
  );
}

function Rows({ runs, by }: { runs: Runs; by: (typeof BY)[number] }) {
  return (
    <table class="plain runs-table">
      <thead><tr><th>{capitalized(by)}</th><th class="number">Mean before</th><th class="number">Mean after</th><th class="number">Change</th><th>Whether it is chance</th><th>Runs: ● before, ■ after</th></tr></thead>
      <tbody>
        <tr class="all"><th scope="row">The whole heap</th><Figures figures={runs.total} counts={runs.counts} /><td /><td><Dots {...runs.total} /></td></tr>
        {runs.row.map((row) => (
          <tr key={row.part ?? row.key} class={row.beyond_chance ? "" : "chance"}>
            <th scope="row">{row.function === undefined ? <LongName name={keyInWords(by, row)} /> : (
              <button type="button" class="link" onClick={() => select({ tab: "flame", direction: "sandwich", function: row.function!, zoom: "", frame: "", filters: [] })}><LongName name={keyInWords(by, row)} /></button>
            )}</th>
            <Figures figures={row} counts={runs.counts} />
            <td>{judge(row)}</td>
            <td><Dots {...row} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function RunsPanel({ overview, place, selection }: { overview: Overview; place: Place; selection: Selection }) {
  const [search, setSearch] = useState(selection.search);
  const [limit, setLimit] = useState(ROWS_FIRST);
  useEffect(() => {
    const timer = setTimeout(() => setSearch(selection.search), SEARCH_MS);
    return () => clearTimeout(timer);
  }, [selection.search]);
  const sides = sidesOf(selection.runs, overview.profiles.length);
  const by = BY.find((one) => one === selection.by) ?? "holder";
  const parameters = selectionParameters({ ...selection, base: "", dump: null });
  for (const [name, value] of Object.entries({ by, before: sides.before.join(), after: sides.after.join(), limit: String(limit) })) parameters.set(name, value);
  if (search !== "") parameters.set("search", search);
  const hasBoth = sides.before.length > 0 && sides.after.length > 0;
  const { value: runs, error, isWaiting } = useAnswer(hasBoth ? `api/runs?${parameters}` : null, askRuns);
  const fewest = Math.min(sides.before.length, sides.after.length);
  return (
    <section class="panel runs" aria-label="Runs" aria-busy={isWaiting}>
      <details class="runs-sides" open={!hasBoth}>
        <summary>{plural(sides.before.length, "run")} before, {countInWords(sides.after.length)} after: choose</summary>
        <Choice overview={overview} sides={sides} />
      </details>
      <div class="tools">
        <span class="group" role="group" aria-label="Compared by">
          {BY.map((one) => <button type="button" key={one} aria-pressed={one === by} onClick={() => select({ by: one })}>{capitalized(one)}</button>)}
        </span>
        <input id="search" type="search" placeholder="Search names" aria-label="Search names" spellcheck={false} autocomplete="off"
          value={selection.search} onInput={(event) => select({ search: event.currentTarget.value }, true)} />
        <span class="faint">{capitalized(viewOf(overview, selection.view).title)} of {place.heap.name} at the last dump of each run</span>
      </div>
      {hasBoth && fewest < LEAST && <p class="warn">{fewest === 1 ? "A side has one run, and so no spread: what is chance is unknown." : "Three runs a side, or more, tell a change from chance better."}</p>}
      {error !== "" ? <p class="bad"><Sentence text={error} /></p>
        : !hasBoth ? <p class="faint">Choose runs on both sides.</p>
          : !runs ? <p class="faint">…</p> : (
            <div class={`runs-body${isWaiting ? " waits" : ""}`}>
              <Rows runs={runs} by={by} />
              {runs.rows > runs.row.length && <p>{countInWords(runs.rows - runs.row.length)} more. <button type="button" class="link" onClick={() => setLimit(limit * 10)}>Show more</button></p>}
            </div>
          )}
    </section>
  );
}
