// SPDX-License-Identifier: Apache-2.0
// The columns of a table, and one row of it.
import type { Column } from "./columns";
import { LongName } from "../long_name";
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

/** The columns of a table, with their widths. */
export function columnsOf({ by, signed }: Look, hasCourse: boolean): Column[] {
  const isWide = isOfClasses(by);
  const own = hasSelf(by);
  const figures = signed ? 206 : own ? 190 : 200;
  return [
    { name: "key", title: "Name", least: isWide ? 160 : signed ? 160 : 200, ...(isWide && { width: 160 }), isFixed: true },
    ...(hasModule(by) ? [{ name: "module", title: "Module", least: 60, width: signed ? 140 : 180 }] : []),
    ...(signed ? [{ name: "before", title: "Before", least: 76, width: 76 }, { name: "after", title: "After", least: 76, width: 76 }, { name: "percent", title: "Change %", least: 72, width: 72 }] : []),
    { name: "self", title: signed ? (own ? "Change of self" : "Change") : own ? "Self" : "Bytes", least: figures, width: figures },
    isWide ? { name: "share", title: signed ? "Bar" : "Of all", least: 400 } : { name: "share", title: signed ? "Whether it is chance" : "Of all", least: signed ? (own ? 110 : 140) : 120, width: signed ? (own ? 110 : 140) : 120 },
    ...(own ? [{ name: "total", title: signed ? "Change with callees" : "With callees", least: figures, width: figures }] : []),
    { name: "count", title: "Allocations", least: signed ? (own ? 160 : 190) : own ? 150 : 160, width: signed ? (own ? 160 : 190) : own ? 150 : 160 },
    ...(hasCourse ? [{ name: "course", title: "Over time", least: COURSE, width: COURSE }] : []),
  ];
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
function Sides({ row: { before = 0, after = 0 }, counts, has }: { row: TableRow; counts: boolean; has: (name: string) => boolean }) {
  return (
    <>
      {has("before") && <span role="gridcell" class="number">{amountInWords(before, counts)}</span>}
      {has("after") && <span role="gridcell" class="number">{amountInWords(after, counts)}</span>}
      {has("percent") && <span role="gridcell" class="number">{percentInWords(before, after)}</span>}
    </>
  );
}

export function Row({ row, index, top, look, has, course, isChosen, onOpen }: {
  row: TableRow; index: number; top: number; look: Look; has: (name: string) => boolean; course: SparkPoint[] | null; isChosen: boolean; onOpen: (event: MouseEvent) => void;
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
      <span role="gridcell" class="key"><LongName name={key} /></span>
      {hasModule(by) && has("module") && <span role="gridcell" class="module"><LongName name={shortModule(row.module ?? "")} title={row.module ?? ""} /></span>}
      {signed && <Sides row={row} counts={counts} has={has} />}
      {has("self") && <span role="gridcell" class="number"><Number figure={bytes} counts={false} signed={signed} /></span>}
      {has("share") && <span role="gridcell" class="share">
        <Bar value={counted?.value ?? 0} look={look} faint={faint} />
        {signed ? (faint ? judgeInWords(total?.low ?? null, total?.high ?? null, look.judged) : "") : counted?.value ? shareInWords(counted.value, look.whole) : ""}
      </span>}
      {own && has("total") && <span role="gridcell" class="number"><Number figure={row.bytes} counts={false} signed={signed} /></span>}
      {has("count") && <span role="gridcell" class="number"><Number figure={count} counts={true} signed={signed} /></span>}
      {course && has("course") && <span role="gridcell"><Spark points={course} width={COURSE} /></span>}
    </div>
  );
}
