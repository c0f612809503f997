// SPDX-License-Identifier: Apache-2.0
// The mouse and the trackpad on the timeline: a click selects a dump, a drag a range, Shift and a drag
// move, Ctrl and the wheel zoom.
import type uPlot from "uplot";

const CLICK = 5; // a button that moves less, in pixels, is a click

export interface PointerActions {
  click: (x: number, withShift: boolean) => void;
  range: (from: number, to: number) => void; // in seconds
  hover: (x: number, index: number) => void;
  leave: () => void;
  zoom: (factor: number, at: number) => void;
  pan: (share: number) => void;
}

/** Let the pointer act on a plot until it is destroyed. */
export function attachPointer(plot: uPlot, actions: PointerActions) {
  const { over } = plot;
  const xOf = (event: MouseEvent) => event.clientX - over.getBoundingClientRect().left;
  const noSelection = () => plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  let down = 0; // where the button went down
  noSelection();
  const move = (event: MouseEvent) => {
    actions.pan(-event.movementX / over.clientWidth);
    event.preventDefault();
  };
  const drop = () => {
    window.removeEventListener("mousemove", move);
    window.removeEventListener("mouseup", drop);
  };
  // uPlot draws what is dragged over a frame later, so its rectangle is not asked for.
  const release = (event: MouseEvent) => {
    if (!over.isConnected) return;
    const inside = (clientX: number) => Math.min(Math.max(clientX - over.getBoundingClientRect().left, 0), over.clientWidth);
    const [from, to] = [down, event.clientX].map(inside).sort((a, b) => a - b) as [number, number];
    if (Math.abs(event.clientX - down) < CLICK) actions.click(xOf(event), event.shiftKey);
    else if (to > from && !event.shiftKey) actions.range(plot.posToVal(from, "x"), plot.posToVal(to, "x"));
    noSelection();
  };
  over.addEventListener("mousedown", (event) => {
    down = event.clientX;
    if (event.button === 0) window.addEventListener("mouseup", release, { once: true });
    if (!event.shiftKey && event.button !== 1) return;
    event.preventDefault();
    over.closest<HTMLElement>("[tabindex]")?.focus();
    window.addEventListener("mousemove", move);
    window.addEventListener("mouseup", drop);
  });
  over.addEventListener("mousemove", (event) => actions.hover(xOf(event), plot.cursor.idx ?? -1));
  over.addEventListener("mouseleave", actions.leave);
  over.addEventListener("wheel", (event) => {
    const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    if (event.ctrlKey || event.metaKey) actions.zoom(Math.exp(event.deltaY * 0.0025), plot.posToVal(xOf(event), "x"));
    else if (isSideways) actions.pan((event.deltaX || event.deltaY) / over.clientWidth);
    else return; // the page scrolls
    event.preventDefault();
  }, { passive: false });
}
