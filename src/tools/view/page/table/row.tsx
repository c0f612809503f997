// SPDX-License-Identifier: Apache-2.0
// The columns of a table, and one row of it.
import { Spark, type SparkPoint } from "../spark";
import { shortModule } from "../tree";
import { isOfClasses } from "./pages";
import type { MaybeFigure, TableBy, TableOrder, TableRow } from "../types";
import { amountInWords, figureInWords, judgeInWords, marginInWords, partInWords, percentInWords, shareInWords, signedInWords, valueInWords } from "../words";

export const ROW = 26; // pixels
const BAR = 64;
const COURSE = 96; // a line of what the row holds over time
const WIDE_BAR = 320; // of a histogram

const HAS_MODULE = new Set<TableBy>(["function", "holder"]);
const HAS_SELF = new Set<TableBy>(["function", "module", "file"]); // others have no callees
export const hasModule = (by: TableBy) => HAS_MODULE.has(by);
export const hasSelf = (by: TableBy) => HAS_SELF.has(by);

/** What all rows of a table have in common. */
export interface Look {
  by: TableBy;
  whole: number; // in the view's unit
  most: number; // of the first rows, for bars of histograms
  signed: boolean; // a difference
  counts: boolean; // the view counts calls
  judged: boolean; // of a difference: whether rows are
}

/** The orders of a column of bytes or calls. The view's own figure ranks rows; a change has a sign. */
export function ordersOf({ by, signed, counts }: Look, ofCounts: boolean): { self: TableOrder; total: TableOrder } {
  if (ofCounts === counts && !signed) return { self: "self", total: "total" };
  const unit = ofCounts ? "count" : "bytes";
  return { self: hasSelf(by) ? `self_${unit}` : unit, total: unit };
}

export function keyInWords(by: TableBy, row: Pick<TableRow, "key" | "part" | "tid">): string {
  if (isOfClasses(by)) return partInWords(by, row.part ?? "");
  if (by === "thread") return row.key === "" && row.tid === 0 ? "(unknown)" : `${row.key || "(no name)"}${row.tid ? ` (${row.tid})` : ""}`;
  return row.key || "(none)";
}

export function Number({ figure, counts, signed }: { figure: MaybeFigure; counts: boolean; signed: boolean }) {
  if (figure === null) return <span class="faint">unknown</span>;
  const margin = marginInWords(figure, counts);
  if (figure.least !== undefined) return <span title={figureInWords(figure, counts)}>{valueInWords(figure, counts)}</span>;
  if (figure.value === 0 && margin === "exact") return <span class="faint">0</span>;
  const amount = signed ? signedInWords(figure.value, counts) : amountInWords(figure.value, counts);
  return <>{amount}{margin !== "exact" && <span class="faint"> {margin}</span>}</>;
}

/** A bar as long as the share; of a change, with its direction in words, as long as beside the largest. */
function Bar({ value, look, faint }: { value: number; look: Look; faint: boolean }) {
  const isWide = isOfClasses(look.by);
  const all = look.signed || isWide ? look.most : look.whole;
  const share = all > 0 ? Math.min(Math.abs(value) / all, 1) : 0;
  const kind = !look.signed ? "" : faint ? " chance" : value > 0 ? " grew" : " shrank";
  return <i class={`bar${kind}`} style={{ width: `${share * (isWide ? WIDE_BAR : BAR)}px` }} />;
}

/** What each side of a difference has, with callees, and the change in %. */
function Sides({ row: { before = 0, after = 0 }, counts }: { row: TableRow; counts: boolean }) {
  return (
    <>
      <span role="gridcell" class="number">{amountInWords(before, counts)}</span>
      <span role="gridcell" class="number">{amountInWords(after, counts)}</span>
      <span role="gridcell" class="number">{percentInWords(before, after)}</span>
    </>
  );
}

export function Row({ row, index, top, look, course, isChosen, onOpen }: {
  row: TableRow; index: number; top: number; look: Look; course: SparkPoint[] | null; isChosen: boolean; onOpen: (event: MouseEvent) => void;
}) {
  const { by, signed, counts } = look;
  const own = hasSelf(by);
  const bytes = (own ? row.self_bytes : row.bytes) ?? null;
  const count = (own ? row.self_count : row.count) ?? null;
  const counted = counts ? count : bytes;
  const faint = signed && !row.beyond_chance;
  const total = (counts ? row.count : row.bytes) ?? null;
  const key = keyInWords(by, row);
  return (
    <div class={`row${isChosen ? " chosen" : ""}${faint ? " chance" : ""}`} role="row" id={`row-${index}`} aria-rowindex={index + 2} aria-selected={isChosen} style={{ top: `${top}px` }}
      onClick={onOpen} onContextMenu={(event) => { event.preventDefault(); onOpen(event); }}>
      <span role="gridcell" class="key" title={key}>{key}</span>
      {hasModule(by) && <span role="gridcell" class="module" title={row.module}>{shortModule(row.module ?? "")}</span>}
      {signed && <Sides row={row} counts={counts} />}
      <span role="gridcell" class="number"><Number figure={bytes} counts={false} signed={signed} /></span>
      <span role="gridcell" class="share">
        <Bar value={counted?.value ?? 0} look={look} faint={faint} />
        {signed ? (faint ? judgeInWords(total?.low ?? null, total?.high ?? null, look.judged) : "") : counted?.value ? shareInWords(counted.value, look.whole) : ""}
      </span>
      {own && <span role="gridcell" class="number"><Number figure={row.bytes} counts={false} signed={signed} /></span>}
      <span role="gridcell" class="number"><Number figure={count} counts={true} signed={signed} /></span>
      {course && <span role="gridcell"><Spark points={course} width={COURSE} /></span>}
    </div>
  );
}
