// SPDX-License-Identifier: Apache-2.0
// Spells out control characters, in all text that the page shows, as the terminal's commands do. Those
// that change the direction of text could turn the figures behind a name around. Selections and
// questions keep the characters. Very long text is cut.
import { Fragment, options } from "preact";

/** Control characters but tabs and ends of lines, and those of Unicode that change text's direction. */
export const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

const SHOWN_MAX = 40_000; // characters: a name of megabytes would keep the browser busy for minutes
const ATTRIBUTES = ["title", "aria-label"];

export function spellOut(text: string): string {
  const shown = text.length <= SHOWN_MAX ? text : text.slice(0, SHOWN_MAX) + "…";
  return shown.replace(CONTROLS, (character) => {
    const code = character.charCodeAt(0).toString(16);
    return code.length <= 2 ? `\\x${code.padStart(2, "0")}` : `\\u${code.padStart(4, "0")}`;
  });
}

/** Return what an element contains, with its own text spelled out. */
function spelled(children: unknown): unknown {
  if (typeof children === "string") return spellOut(children);
  return Array.isArray(children) ? children.map(spelled) : children;
}

/** Spell out the text of all elements that are made from now on. */
export function startSpelling() {
  options.vnode = (node) => {
    if (typeof node.type !== "string" && node.type !== Fragment) return;
    const props = node.props as Record<string, unknown>;
    if (props["children"] !== undefined) props["children"] = spelled(props["children"]);
    for (const name of ATTRIBUTES) if (typeof props[name] === "string") props[name] = spellOut(props[name]);
  };
}
