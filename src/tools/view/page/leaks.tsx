// SPDX-License-Identifier: Apache-2.0
// The leaks' tab: what `heap_profile leaks` prints of the selected dump, or of what has grown since the one that it
// is compared with. The rows and the line below each are that verb's own.
import { useEffect, useState } from "preact/hooks";
import "./leaks.css";
import { LongName } from "./long_name";
import { baseOf, dumpIndex, momentTitle, type Place } from "./model";
import { Sentence } from "./sentence";
import { askLeaks, selectionParameters, useAnswer } from "./source";
import { select, type Selection } from "./state";
import { Number as Figure } from "./table/row";
import type { LeakRow, Leaks, Overview, Trend } from "./types";
import { bytesInWords, countInWords, plural, signedInWords, timeInWords } from "./words";

const ROWS_FIRST = 100;
const SEARCH_MS = 150;

const TREND_WORDS: Record<Trend, string> = { grows: "grows", turns_over: "turns over", stays: "no longer grows", unclear: "" };

function leaksPath(selection: Selection, search: string, limit: number, shrunk: boolean): string {
  const parameters = selectionParameters(selection);
  parameters.delete("view");
  parameters.set("limit", String(limit));
  if (search !== "") parameters.set("search", search);
  if (shrunk) parameters.set("shrunk", "1");
  return `api/leaks?${parameters}`;
}

/** How many leaks there are, in the words of the verb. */
function FoundSentence({ leaks, isDifference }: { leaks: Leaks; isDifference: boolean }) {
  const total = leaks.bytes && <Figure figure={leaks.bytes} counts={false} signed={isDifference} />;
  if (leaks.lacks_ms > 0)
    return (
      <p><b>{total} is live{leaks.grown > 0 && `, at ${plural(leaks.grown, "callsite")}`}.</b> The profile is too short to tell growth from setup: that
        takes {timeInWords(leaks.lacks_ms / 1000)}.</p>
    );
  return (
    <p><b>{plural(leaks.potential_leaks, "potential leak")} found</b>{leaks.potential_leaks < leaks.grown && `, among ${plural(leaks.grown, "callsite")}`}
      {total && <>; in all {total}</>}.</p>
  );
}

function LeakLine({ row, isDifference }: { row: LeakRow; isDifference: boolean }) {
  const types = row.types.map(({ name, count }) => `${name === "" ? "no type" : name} ${isDifference ? signedInWords(count, true) : countInWords(count)}`);
  return (
    <tr class={isDifference && row.beyond_chance === false ? "chance" : row.trend === "grows" ? "grows" : ""}>
      <th scope="row">
        <button type="button" class="link" title={row.text} onClick={() => select({ tab: "flame", direction: "sandwich", function: row.function, zoom: "", frame: "", filters: [] })}>
          <LongName name={row.text} />
        </button>
        <span class="leak-line">{row.trend !== null && TREND_WORDS[row.trend] !== "" ? <><b>{TREND_WORDS[row.trend]}</b>{row.line.slice(TREND_WORDS[row.trend].length)}</> : row.line}</span>
        {types.length > 0 && <span class="leak-line">by type: {types.join(", ")}</span>}
      </th>
      <td class="number"><Figure figure={row.bytes} counts={false} signed={isDifference} /></td>
      <td class="number"><Figure figure={row.count} counts={true} signed={isDifference} /></td>
    </tr>
  );
}

function Rows({ leaks, isDifference, onMore }: { leaks: Leaks; isDifference: boolean; onMore: () => void }) {
  const left = leaks.rows - leaks.row.length;
  return (
    <>
      <table class="plain leaks-table">
        <thead><tr><th>Function and its callers</th><th class="number">{isDifference ? "Grown by" : "Bytes"}</th><th class="number">Allocations</th></tr></thead>
        <tbody>{leaks.row.map((row, i) => <LeakLine key={i} row={row} isDifference={isDifference} />)}</tbody>
      </table>
      {left > 0 && (
        <p>{countInWords(left)} more with {bytesInWords(leaks.rest_bytes)}. <button type="button" class="link" onClick={onMore}>Show more</button></p>
      )}
    </>
  );
}

export function LeaksPanel({ overview, place, selection }: { overview: Overview; place: Place; selection: Selection }) {
  const [search, setSearch] = useState(selection.search);
  const [limit, setLimit] = useState(ROWS_FIRST);
  const [shrunk, setShrunk] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSearch(selection.search), SEARCH_MS);
    return () => clearTimeout(timer);
  }, [selection.search]);
  const isDifference = selection.base !== "";
  const base = baseOf(overview, place, selection.base);
  const { value: leaks, error, isWaiting } = useAnswer(leaksPath(selection, search, limit, shrunk && isDifference), askLeaks);
  const moment = momentTitle(place, dumpIndex(place.heap, selection.dump), "space");
  return (
    <section class="panel leaks" aria-label="Leaks" aria-busy={isWaiting}>
      <div class="tools">
        <span>{isDifference && base ? `Grown from ${momentTitle(base.place, base.index, "space")} to ${moment}` : `Live at ${moment}`}</span>
        <input id="search" type="search" placeholder="Search functions" aria-label="Search functions" spellcheck={false} autocomplete="off"
          value={selection.search} onInput={(event) => select({ search: event.currentTarget.value }, true)} />
        {isDifference && (
          <label class="native"><input type="checkbox" checked={shrunk} onChange={() => setShrunk(!shrunk)} />what shrank instead</label>
        )}
      </div>
      <div class={`leaks-body${isWaiting ? " waits" : ""}`} tabIndex={0} role="group" aria-label="Rows of leaks">
        {error !== "" ? <div class="empty bad"><p><Sentence text={error} /></p></div>
          : !leaks ? <p class="faint">…</p>
            : leaks.why !== "" ? <div class="empty"><p><Sentence text={leaks.why} /></p></div> : (
              <>
                <FoundSentence leaks={leaks} isDifference={isDifference} />
                {leaks.row.length === 0 ? <p class="faint">{search !== "" ? `No function has “${search}”.` : shrunk ? "Nothing shrank." : isDifference ? "Nothing has grown." : "Nothing is live."}</p>
                  : <Rows leaks={leaks} isDifference={isDifference} onMore={() => setLimit(limit * 10)} />}
                {isDifference && !shrunk && leaks.shrunk > 0 && <p class="faint">{plural(leaks.shrunk, "callsite")} shrank, by {bytesInWords(leaks.shrunk_bytes)} together.</p>}
              </>
            )}
      </div>
    </section>
  );
}
