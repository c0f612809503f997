// SPDX-License-Identifier: Apache-2.0
// What a comparison says first: how much more there is, and the functions that grew and shrank most.
import { LongName } from "./long_name";
import { baseOf, momentTitle, profileTitle, swapped, type Place } from "./model";
import { movementOf } from "./sentences";
import { askTable, selectionParameters, useAnswer } from "./source";
import { NOTHING_SELECTED, select, type Selection } from "./state";
import { shortModule } from "./tree";
import type { Overview, Table, TableRow } from "./types";
import { figureInWords, signedInWords } from "./words";

const ROWS = 5;

/** The path of the functions that changed most, those that grew first or those that shrank. */
function changesPath(selection: Selection, sort: "down" | "up"): string {
  const { heap, dump, base, view } = selection;
  const parameters = selectionParameters({ ...NOTHING_SELECTED, heap, dump, base, view });
  for (const [name, value] of Object.entries({ by: "holder", order: "bytes", sort, limit: String(ROWS) })) parameters.set(name, value);
  return `api/table?${parameters}`;
}

/** "A, dump 2 of 9: 1.20 s", or of the peak. */
function baseInWords(overview: Overview, place: Place, selection: Selection): string {
  const base = baseOf(overview, place, selection.base);
  if (!base) return "?";
  const moment = momentTitle(base.place, base.index, selection.view);
  return base.place.profile === place.profile ? moment : `${profileTitle(base.place.profile)}, ${moment}`;
}

const amountOf = (row: TableRow) => Math.abs(row.bytes?.value ?? 0);

/** `most`: has a bar of the full width. */
function Rows({ title, rows, most, isJudged }: { title: string; rows: TableRow[]; most: number; isJudged: boolean }) {
  return (
    <section class="holders" aria-label={title}>
      <h2>{title}</h2>
      {rows.length === 0 ? <p class="faint">Nothing.</p> : (
        <ol>
          {rows.map((row) => (
            <li key={row.key}>
              <button type="button" class={row.key.includes(" @ ") ? "link alone" : "link"}
                onClick={() => select({ tab: "flame", zoom: "", frame: "", filters: [], only: [], direction: "sandwich", function: row.function ?? null })}><LongName name={row.key} /></button>
              {!row.key.includes(" @ ") && <span class="faint module">{shortModule(row.module ?? "")}</span>}
              <span class={isJudged && row.beyond_chance === false ? "number change faint" : "number change"} title={figureInWords(row.bytes!, false)}>
                {signedInWords(row.bytes!.value, false)}{isJudged && row.beyond_chance === false && ", within chance"}</span>
              <i class="bar" style={{ width: `${(amountOf(row) / most) * 100}%` }} />
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

/** Say whether a change is more than chance, as the server judges the whole heap. */
function sureness({ bytes, unknown }: Table): string {
  if (unknown || !bytes || bytes.low === null || bytes.high === null) return "whether that is chance is unknown";
  if (bytes.low === bytes.high) return "exactly";
  return bytes.low <= 0 && bytes.high >= 0 ? "within chance" : "beyond chance";
}

export function Changes({ overview, place, selection }: { overview: Overview; place: Place; selection: Selection }) {
  const grew = useAnswer(changesPath(selection, "down"), askTable);
  const shrank = useAnswer(changesPath(selection, "up"), askTable);
  const error = grew.error || shrank.error;
  const most = Math.max(...[grew.value?.row[0], shrank.value?.row[0]].map((row) => (row ? amountOf(row) : 0)));
  const rowsOf = (table: Table, sign: number) => table.row.filter((row) => sign * (row.bytes?.value ?? 0) > 0);
  const other = swapped(overview, place, selection);
  return (
    <div class="changes" role="group" aria-label="The change">
      <h2>Compared with {baseInWords(overview, place, selection)}
        {other && <>{" "}<button type="button" class="link" title="x" onClick={() => select(other)}>swap</button></>}</h2>
      {error !== "" ? <p class="bad">{error}</p> : !grew.value || !shrank.value ? <p class="faint">…</p> : (
        <>
          {grew.value.bytes && !(selection.view === "space" && movementOf(place, selection)) && <p>In all {signedInWords(grew.value.bytes.value, false)}, {sureness(grew.value)}.</p>}
          <div class="three">
            <Rows title="Grew most" rows={rowsOf(grew.value, 1)} most={most} isJudged={grew.value.judged !== false} />
            <Rows title="Shrank most" rows={rowsOf(shrank.value, -1)} most={most} isJudged={shrank.value.judged !== false} />
          </div>
        </>
      )}
    </div>
  );
}
