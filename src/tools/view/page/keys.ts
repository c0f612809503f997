// SPDX-License-Identifier: Apache-2.0
// The keyboard: shortcuts of whatever is on the page, and the list of all keys that `?` shows.
import { useEffect, useRef } from "preact/hooks";

type Shortcuts = Record<string, () => void>;

export const KEYS: [title: string, keys: [keys: string, meaning: string][]][] = [
  ["Everywhere", [
    ["1 … 9", "Overview, flame graph, table, source, memory, heap details, leaks, budgets, SQL"],
    ["[  ]", "Previous, next dump"],
    ["p", "The peak"],
    ["b", "Compare with the dump before, or no more"],
    ["x", "Swap what is compared"],
    ["v  V", "Next, previous view"],
    ["g  G", "Next, previous heap"],
    ["/", "Search"],
    ["t", "Top-down or bottom-up"],
    ["r", "Take the last filter back"],
    ["l", "Light or dark"],
    ["?", "These keys"],
  ]],
  ["Timeline", [
    ["← →", "Dump by dump"],
    ["Shift ← →", "Widen the range that is compared"],
    ["w s a d", "Zoom in, zoom out, left, right"],
    ["Escape", "The whole time, as a double click"],
    ["Ctrl wheel", "Zoom, as two fingers that spread"],
    ["Shift wheel", "Move, as a drag with Shift or two fingers"],
  ]],
  ["Flame graph", [
    ["↑ ↓ ← →", "From frame to frame"],
    ["Enter", "Zoom to the frame"],
    ["Backspace", "Zoom out by one frame"],
    ["Escape", "The whole graph"],
    ["w s a d", "Zoom in, zoom out, left, right"],
    ["n  N", "Next, previous frame that the search finds"],
    ["f", "Only stacks with this function"],
    ["i", "Only stacks without this function"],
    ["h", "Hide this function's frames"],
    ["m", "Hide this module's frames"],
    ["o", "Show from this function on"],
    ["c", "Callers and callees"],
    ["e", "Source"],
    ["y", "Copy the stack"],
    ["Menu key", "All of these as a menu"],
  ]],
  ["Memory", [
    ["← →", "Dump by dump"],
  ]],
  ["Heap details", [
    ["↑ ↓ Page Home End", "From row to row"],
    ["→ ←", "Open or close a row, to its caller"],
    ["Enter", "Break the row down"],
    ["Backspace", "Back out by one step"],
    ["t", "Top-down or bottom-up"],
  ]],
  ["Processes", [
    ["↑ ↓ Page Home End", "From process to process"],
    ["Enter", "Profile it"],
    ["s", "Take a dump of its session"],
    ["Menu key", "Save a dump of it"],
  ]],
  ["Table", [
    ["↑ ↓ Page Home End", "From row to row"],
    ["Enter", "What can be done with the row"],
    ["F H M I T Y X S L", "Break the row down: the menu names the keys"],
    ["Backspace", "Back to the table before"],
    ["c  e  g", "Callers and callees, source, flame graph"],
  ]],
];

const stack: { current: Shortcuts }[] = [];

function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return element !== null && (/^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName) || element.isContentEditable);
}

if (typeof window !== "undefined")
  window.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    for (let i = stack.length - 1; i >= 0; i--) {
      const run = stack[i]!.current[event.key];
      if (!run) continue;
      event.preventDefault();
      run();
      return;
    }
  });

/** Let keys run actions while the component is on the page; the latest component goes first. */
export function useShortcuts(shortcuts: Shortcuts) {
  const latest = useRef(shortcuts);
  latest.current = shortcuts;
  useEffect(() => {
    stack.push(latest);
    return () => void stack.splice(stack.indexOf(latest), 1);
  }, []);
}
