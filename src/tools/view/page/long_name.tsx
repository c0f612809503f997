// SPDX-License-Identifier: Apache-2.0
// A name on one line. If there is no room, its middle is left out: names of one family begin alike and
// differ at their ends. The title has it in full, and so has a tip below what the keyboard has reached.
import { useEffect, useState } from "preact/hooks";

const TAIL = 14; // characters that are always there
const HEAD_MOST = 300; // more are wider than any screen
const TITLE_MOST = 2000;

export function LongName({ name, title = name }: { name: string; title?: string }) {
  const letters = [...name.slice(0, HEAD_MOST)]; // no letter is cut in two
  const isShort = name.length <= 2 * TAIL;
  const tail = isShort ? "" : [...name.slice(-2 * TAIL)].slice(-TAIL).join("");
  const head = isShort ? name : name.length > HEAD_MOST ? letters.join("") : letters.slice(0, -TAIL).join("");
  return (
    <span class="long-name" title={title.length > TITLE_MOST ? `${title.slice(0, TITLE_MOST)}…` : title}>
      <span>{head}</span>{tail !== "" && <span>{tail}</span>}
    </span>
  );
}

/** Return the name in an element, or in the row that is active in it, whose middle is left out. */
function cutNameIn(element: Element | null): HTMLElement | null {
  const row = element?.getAttribute("aria-activedescendant");
  const names = (row ? document.getElementById(row) : element)?.querySelectorAll<HTMLElement>(".long-name") ?? [];
  return [...names].find(({ firstElementChild: head }) => head !== null && head.scrollWidth > head.clientWidth) ?? null;
}

const TIP_ROOM = 160; // pixels, below which it is above the name

/** The whole name of what the keyboard has reached. A screen reader has it already. */
export function NameTip() {
  const [tip, show] = useState<{ name: string; left: number; top: number; bottom: number } | null>(null);
  useEffect(() => {
    const look = () => {
      const active = document.activeElement;
      const cut = active?.matches(":focus-visible") ? cutNameIn(active) : null;
      const at = cut?.getBoundingClientRect();
      show(cut && at ? { name: cut.title, left: at.left, top: at.top, bottom: at.bottom } : null);
    };
    const hide = () => show(null);
    const events: [string, () => void][] = [["focusin", look], ["keyup", look], ["focusout", hide], ["pointerdown", hide]];
    for (const [event, listener] of events) document.addEventListener(event, listener);
    return () => { for (const [event, listener] of events) document.removeEventListener(event, listener); };
  }, []);
  if (!tip) return null;
  const isBelow = tip.bottom + TIP_ROOM < innerHeight;
  const place = isBelow ? { top: `${tip.bottom + 4}px` } : { bottom: `${innerHeight - tip.top + 4}px` };
  return <div class="name-tip" aria-hidden="true" style={{ left: `${Math.max(Math.min(tip.left, innerWidth / 2), 8)}px`, ...place }}>{tip.name}</div>;
}
