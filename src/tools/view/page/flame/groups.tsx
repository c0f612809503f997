// SPDX-License-Identifier: Apache-2.0
// The row of groups below the root of a flame graph: threads, types, contexts, all heaps of the process, or all processes.
import type { MenuEntry } from "./menu";
import { addOnly, select, type Selection } from "../state";
import { functionOf, groupOf, type Tree } from "../tree";
import { GROUPS, type Dimension } from "../types";

export function GroupChoice({ selection }: { selection: Selection }) {
  if (selection.direction !== "down") return null;
  return (
    <label class="group-choice">
      <span class="faint">Grouped by</span>{" "}
      <select value={selection.group} onChange={(event) => select({ group: event.currentTarget.value as Selection["group"], zoom: "", frame: "" })}>
        <option value="">nothing</option>
        {GROUPS.map((one) => <option key={one} value={one}>{one}</option>)}
      </select>
    </label>
  );
}

/** Which heaps have another dump than the selected one, or unknown figures. */
export function GroupNotes({ tree, selection }: { tree: Tree; selection: Selection }) {
  if (selection.group === "process") return <span class="faint">{selection.view === "max" ? "Each process at its own peak, so not all at one moment" : "Each process at its last dump"}</span>;
  const notes = (tree.header.groups ?? []).filter(({ name, note }) => note !== "" || name.endsWith("(unknown)"));
  if (notes.length === 0) return null;
  const words = notes.map(({ name, note }) => (note === "" ? name : `${name}: ${note}`)).join("; ");
  return <span class="faint" title={words}>{words}</span>;
}

/** What can be done with a group; null: the node is a function. */
export function groupActions(tree: Tree, node: number): MenuEntry[] | null {
  const group = groupOf(tree, node);
  const part = functionOf(tree, node)?.part;
  if (!group) return null;
  if (part === undefined) return [];
  const only = (more: Partial<Selection>) => addOnly(group as Dimension, part, more);
  return [
    { title: `Only this ${group}`, key: "f", run: () => only({ group: "" }) },
    { title: `Table of this ${group}`, key: "b", run: () => only({ tab: "table" }) },
  ];
}
