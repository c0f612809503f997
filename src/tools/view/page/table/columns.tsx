// SPDX-License-Identifier: Apache-2.0
// Columns of a list: each can be made wider or narrower at its head, and hidden. Widths are kept in the browser, which
// columns are hidden stands in the address.
import { useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { select, useSelection } from "../state";

export interface Column {
  name: string; // of all lists: "module"
  title: string;
  least: number; // pixels, unless the user makes it narrower
  width?: number; // at most, unless the user makes it wider; undefined: it takes the room that is left
  isFixed?: boolean; // it cannot be hidden
}

const NARROWEST = 40;
const WIDEST = 4000;
const STEP = 16; // of a key
const ROOM = 32; // left and right of a row
const KEY = "heap_profile-columns";

type Widths = Record<string, number>;

function keptWidths(): Widths {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}") as unknown;
    if (typeof kept !== "object" || kept === null) return {};
    return Object.fromEntries(Object.entries(kept).filter(([, width]) => typeof width === "number" && width >= NARROWEST && width <= WIDEST)) as Widths;
  } catch {
    return {};
  }
}

function keepWidths(widths: Widths) {
  try {
    localStorage.setItem(KEY, JSON.stringify(widths));
  } catch {
    // A page that is a file may not keep anything.
  }
}

export interface Columns {
  has: (name: string) => boolean;
  style: Record<string, string>; // of the box of the list: --columns, --least
  handle: (name: string) => ComponentChildren; // in the column's head
  menu: ComponentChildren;
}

const without = (hidden: string) => new Set(hidden.split(",").filter((name) => name !== ""));

function Menu({ columns, hidden, hasWidths, onReset }: { columns: Column[]; hidden: Set<string>; hasWidths: boolean; onReset: () => void }) {
  const box = useRef<HTMLDetailsElement>(null);
  const close = (event: FocusEvent) => {
    if (!box.current?.contains(event.relatedTarget as Node | null)) box.current!.open = false;
  };
  const toggle = (name: string) => {
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    select({ without: [...next].join(",") }, true);
  };
  return (
    <details class="columns-menu" ref={box} onFocusOut={close} onKeyDown={(event) => { if (event.key === "Escape") box.current!.open = false; event.stopPropagation(); }}>
      <summary>Columns</summary>
      <div class="columns-list">
        {columns.filter((column) => !column.isFixed).map(({ name, title }) => (
          <label key={name}><input type="checkbox" checked={!hidden.has(name)} onChange={() => toggle(name)} />{title}</label>
        ))}
        <button type="button" disabled={!hasWidths} onClick={onReset}>Reset widths</button>
      </div>
    </details>
  );
}

/** `gap`: between two columns. */
export function useColumns(columns: Column[], gap: number): Columns {
  const [widths, setWidths] = useState(keptWidths);
  const hidden = without(useSelection().without);
  const shown = columns.filter((column) => column.isFixed || !hidden.has(column.name));
  const set = (name: string, width: number | null, isLast: boolean) => {
    const next = { ...widths };
    if (width === null) delete next[name];
    else next[name] = Math.round(Math.min(Math.max(width, NARROWEST), WIDEST));
    setWidths(next);
    if (isLast) keepWidths(next);
  };
  const track = ({ name, least, width }: Column) => (widths[name] ? `${widths[name]}px` : `minmax(${least}px, ${width === undefined ? "1fr" : `${width}px`})`);
  const least = shown.reduce((sum, column) => sum + (widths[column.name] ?? column.least), ROOM + gap * (shown.length - 1));
  const handle = (name: string) => <Handle title={columns.find((column) => column.name === name)?.title ?? name} onWidth={(width, isLast) => set(name, width, isLast)} />;
  const reset = () => {
    setWidths({});
    keepWidths({});
  };
  return {
    has: (name) => shown.some((column) => column.name === name),
    style: { "--columns": shown.map(track).join(" "), "--least": `${least}px` },
    handle,
    menu: <Menu columns={columns} hidden={hidden} hasWidths={Object.keys(widths).length > 0} onReset={reset} />,
  };
}

/** Drags the right side of its head. */
function Handle({ title, onWidth }: { title: string; onWidth: (width: number | null, isLast: boolean) => void }) {
  const begun = useRef<{ x: number; width: number } | null>(null);
  const handle = useRef<HTMLSpanElement>(null);
  const widthNow = () => handle.current?.parentElement?.getBoundingClientRect().width ?? 0;
  const drag = (event: PointerEvent, isLast: boolean) => {
    if (begun.current) onWidth(begun.current.width + event.clientX - begun.current.x, isLast);
    if (isLast) begun.current = null;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowLeft" ? -STEP : event.key === "ArrowRight" ? STEP : 0;
    if (step === 0 && event.key !== "Delete") return;
    onWidth(step === 0 ? null : widthNow() + step, true);
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <span class="column-handle" role="separator" aria-orientation="vertical" aria-label={`Width of ${title}`} aria-valuenow={Math.round(widthNow())} aria-valuemin={NARROWEST} tabIndex={0} ref={handle}
      title="Drag, or ← →: width. A double click, or Delete: reset"
      onPointerDown={(event) => { event.currentTarget.setPointerCapture(event.pointerId); begun.current = { x: event.clientX, width: widthNow() }; event.preventDefault(); }}
      onPointerMove={(event) => drag(event, false)} onPointerUp={(event) => drag(event, true)} onPointerCancel={(event) => drag(event, true)}
      onDblClick={() => onWidth(null, true)} onKeyDown={onKeyDown} />
  );
}
