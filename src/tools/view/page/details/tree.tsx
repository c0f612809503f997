// SPDX-License-Identifier: Apache-2.0
// A tree table: rows that open, with figures in columns. Only the lines that are seen exist. The keyboard
// moves through it as through any tree; a screen reader finds a treegrid.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { parentOf, type Line } from "./rows";
import type { DetailsRow } from "../types";
import { countInWords } from "../words";

const ROW = 24;
const MORE = 8; // lines above and below what is seen
const NAME_LEAST = 240; // pixels, as those below
const WIDTH_LEAST = 80;
const WIDTH_MOST = 240;
const GAP = 12;
const PADDING = 32;

export interface Column {
  sort: string; // what it sorts by; "": nothing
  title: string;
  hint?: string; // below the title
  text?: (row: DetailsRow) => string; // makes the column as wide as its texts
  isOptional?: boolean; // left out where there is no room
  cell: (row: DetailsRow) => ComponentChildren;
  short?: Pick<Column, "title" | "text" | "cell">; // what it becomes where there is still no room
}

export interface TreeTableProps {
  id: string;
  label: string;
  lines: Line[];
  columns: Column[];
  sort: string;
  chosen: string; // the path of a row
  nameTitle: string;
  name: (row: DetailsRow, path: string) => ComponentChildren;
  onSort: (sort: string) => void;
  onChoose: (path: string) => void;
  onPress?: (path: string) => void; // a click; without it, a click chooses and a second one enters
  onEnter: (path: string) => void;
  onOut: () => void;
  onOpen: (path: string, opens: boolean) => void;
  onMore: (path: string) => void;
  waits: boolean;
}

let pen: CanvasRenderingContext2D | null = null;

/** Return the width of a text in pixels, in bold. */
export function widthOfText(text: string): number {
  if (!pen) {
    pen = document.createElement("canvas").getContext("2d")!;
    pen.font = `600 13px ${getComputedStyle(document.body).fontFamily}`;
  }
  return Math.ceil(pen.measureText(text).width) + 4;
}

interface Fitted {
  columns: Column[];
  widths: number[];
}

/** The columns for which there is room, as wide as their texts in the rows of the first level. */
function fitting(columns: Column[], lines: Line[], width: number): Fitted {
  const rows = lines.filter((line) => line.kind === "row" && line.depth <= 1).map((line) => (line as Line & { kind: "row" }).row);
  const widthOf = ({ title, text }: Column) => {
    const longest = text ? rows.reduce((most, row) => Math.max(most, widthOfText(text(row))), 0) : 0;
    return Math.min(Math.max(longest, widthOfText(`${title} ↓`), WIDTH_LEAST), WIDTH_MOST);
  };
  let shown = columns.map((column) => ({ column, width: widthOf(column) }));
  const isTooWide = () => shown.reduce((sum, one) => sum + one.width + GAP, NAME_LEAST + PADDING) > width;
  while (isTooWide() && shown.some(({ column }) => column.isOptional)) {
    const last = shown.map(({ column }) => column.isOptional === true).lastIndexOf(true);
    shown = shown.filter((_, i) => i !== last);
  }
  for (let i = 0; i < shown.length && isTooWide(); i++) {
    const column = { ...shown[i]!.column, ...shown[i]!.column.short };
    shown[i] = { column, width: widthOf(column) };
  }
  return { columns: shown.map((one) => one.column), widths: shown.map((one) => one.width) };
}

function Head({ props, columns, style }: { props: TreeTableProps; columns: Column[]; style: Record<string, string> }) {
  const isUp = props.sort.startsWith("-");
  const by = props.sort.replace("-", "");
  const header = (sort: string, title: string, hint: string | undefined, type: string) => {
    // Numbers begin with the largest, names with the first.
    const falls = sort === "name" ? isUp : !isUp;
    if (sort === "") return <span key={title} role="columnheader" class={type}>{title}</span>;
    return (
      <span key={sort} role="columnheader" class={type} aria-sort={by !== sort ? "none" : falls ? "descending" : "ascending"}>
        <button type="button" class="sort" title={hint} onClick={() => props.onSort(by === sort && !isUp ? `-${sort}` : sort)}>
          {title}{by === sort ? (falls ? " ↓" : " ↑") : ""}
        </button>
        {hint && <small>{hint}</small>}
      </span>
    );
  };
  return (
    <div class="tree-line head" role="row" style={style}>
      {header("name", props.nameTitle, undefined, "tree-name")}
      {columns.map((column) => header(column.sort, column.title, column.hint, "number"))}
    </div>
  );
}

function RowLine({ props, line, columns, style, index, onPoint }: {
  props: TreeTableProps; line: Line & { kind: "row" }; columns: Column[]; style: Record<string, string>; index: number; onPoint: () => void;
}) {
  const { row, path } = line;
  const isRoot = line.depth === 0;
  const isChosen = props.chosen === path;
  return (
    <div class={`tree-line${isChosen ? " chosen" : ""}${isRoot ? " root" : ""}`} role="row" id={`${props.id}-${index}`} style={style} aria-selected={isChosen} aria-rowindex={index + 2}
      aria-level={line.depth + 1} aria-setsize={line.siblings} aria-posinset={line.place} aria-expanded={row.opens || isRoot ? line.isOpen : undefined}
      onMouseDown={onPoint} onClick={() => (props.onPress ?? props.onChoose)(path)} onDblClick={() => props.onPress || props.onEnter(path)}>
      <span role="gridcell" class="tree-name" style={{ paddingLeft: `${Math.min(line.depth, 40) * 14}px` }}>
        {row.opens && !isRoot
          ? <button type="button" class="twisty" tabIndex={-1} aria-label={line.isOpen ? "Close" : "Open"}
            onClick={(event) => { event.stopPropagation(); props.onOpen(path, !line.isOpen); }}>{line.isOpen ? "▾" : "▸"}</button>
          : <span class="twisty" />}
        {props.name(row, path)}
      </span>
      {columns.map((column) => <span role="gridcell" class="number" key={column.title} title={column.text?.(row)}>{column.cell(row)}</span>)}
    </div>
  );
}

/** The line of the keyboard, and what keys do there. */
function useKeyboard(props: TreeTableProps, body: { current: HTMLDivElement | null }) {
  const { lines } = props;
  const [cursor, setCursor] = useState(0);
  const at = Math.min(cursor, Math.max(lines.length - 1, 0));
  const headOf = (element: HTMLElement) => element.querySelector<HTMLElement>(".head")?.offsetHeight ?? 0;
  function go(index: number) {
    const next = Math.min(Math.max(index, 0), lines.length - 1);
    const line = lines[next];
    const element = body.current!;
    setCursor(next);
    if (line?.kind === "row") props.onChoose(line.path);
    const above = (next + 1) * ROW + headOf(element) - element.clientHeight;
    element.scrollTop = Math.min(Math.max(element.scrollTop, above), next * ROW);
  }
  function right(line: Line) {
    if (line.kind === "row" && line.row.opens && !line.isOpen) props.onOpen(line.path, true);
    else if (line.kind === "row" && line.isOpen) go(at + 1);
  }
  function left(line: Line) {
    if (line.kind === "row" && line.isOpen && line.depth > 0) props.onOpen(line.path, false);
    else go(parentOf(lines, at));
  }
  function enter(line: Line) {
    if (line.kind === "row") props.onEnter(line.path);
    else if (line.kind === "more") props.onMore(line.path);
  }
  function onKeyDown(event: KeyboardEvent) {
    const line = lines[at];
    if (!line || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(Math.floor(body.current!.clientHeight / ROW) - 2, 1);
    const keys: Record<string, () => void> = {
      ArrowDown: () => go(at + 1), ArrowUp: () => go(at - 1), PageDown: () => go(at + page), PageUp: () => go(at - page),
      Home: () => go(0), End: () => go(lines.length - 1), ArrowRight: () => right(line), ArrowLeft: () => left(line),
      Enter: () => enter(line), Backspace: props.onOut,
    };
    const run = keys[event.key];
    if (!run) return;
    run();
    event.preventDefault();
    event.stopPropagation();
  }
  return { at, setCursor, onKeyDown };
}

/** A line that stands for rows that are not here. */
function MissingLine({ line, onMore }: { line: Line & { kind: "more" | "wait" }; onMore: (path: string) => void }) {
  return (
    <span role="gridcell" class="tree-name faint" style={{ paddingLeft: `${Math.min(line.depth, 40) * 14 + 20}px` }}>
      {line.kind === "wait" ? "…" : <button type="button" class="link" tabIndex={-1} onClick={() => onMore(line.path)}>{countInWords(line.left)} more</button>}
    </span>
  );
}

export function TreeTable(props: TreeTableProps) {
  const { lines } = props;
  const body = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, height: 600, width: 900 });
  const { at, setCursor, onKeyDown } = useKeyboard(props, body);
  const { columns, widths } = fitting(props.columns, lines, seen.width);
  const begin = Math.max(Math.floor(seen.top / ROW) - MORE, 0);
  const end = Math.min(Math.ceil((seen.top + seen.height) / ROW) + MORE, lines.length);
  const grid = { gridTemplateColumns: `minmax(${NAME_LEAST}px, 1fr) ${widths.map((width) => `${width}px`).join(" ")}` };
  const look = () => {
    const { scrollTop: top, clientHeight: height, clientWidth: width } = body.current!;
    setSeen({ top, height, width });
  };
  useLayoutEffect(() => {
    const observer = new ResizeObserver(look);
    observer.observe(body.current!);
    return () => observer.disconnect();
  }, []);
  return (
    <div id={`${props.id}-table`} class={`tree-table${props.waits ? " waits" : ""}`} role="treegrid" aria-label={props.label} aria-rowcount={lines.length + 1}
      aria-activedescendant={lines.length > 0 ? `${props.id}-${at}` : undefined} tabIndex={0} ref={body} onKeyDown={onKeyDown} onScroll={look}>
      <Head props={props} columns={columns} style={grid} />
      <div class="tree-room" role="rowgroup" style={{ height: `${lines.length * ROW}px` }}>
        {lines.slice(begin, end).map((line, i) => {
          const index = begin + i;
          const style = { ...grid, top: `${index * ROW}px` };
          if (line.kind === "row")
            return <RowLine key={line.path} props={props} line={line} columns={columns} style={style} index={index} onPoint={() => setCursor(index)} />;
          return (
            <div key={`${line.kind} ${line.path}`} class="tree-line" role="row" id={`${props.id}-${index}`} style={style}>
              <MissingLine line={line as Line & { kind: "more" | "wait" }} onMore={props.onMore} />
            </div>
          );
        })}
      </div>
    </div>
  );
}
