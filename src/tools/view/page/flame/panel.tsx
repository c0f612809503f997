// SPDX-License-Identifier: Apache-2.0
// The flame graph's tab: direction and search above, the graph, details at the side. Of a function's
// callers and callees ("sandwich") there are two graphs: callers grow upwards, callees downwards.
import { useEffect, useMemo, useState } from "preact/hooks";
import { FlameView } from "./view";
import { Details, nodeInWords, stackInText } from "./details";
import { Frames } from "./frames";
import { groupActions, GroupChoice, GroupNotes } from "./groups";
import { Menu, type MenuEntry } from "./menu";
import type { Place } from "./layout";
import { isSandwich as hasSandwich, mainDirection, partPathOf, type Which } from "./shown";
import { addFilter, exactly, moduleNamed, select, showsRetained, useSelection, WIDTHS, type Direction, type Selection, type Width } from "../state";
import { useNamedPlaces } from "../numbers";
import { isSaved } from "../saved/saved";
import { Sentence } from "../sentence";
import { askTree, treePath, useAnswer } from "../source";
import { functionOf, leftOut, matchedValue, matcherOf, matchedNodes, matchFunctions, nameOf, nodeAt, pathOf, shortModule, stackOf, valueAt, zoomFor, type Tree } from "../tree";
import { amountInWords, countInWords, plural, shareInWords } from "../words";
import { useTheme } from "../theme";
import { useFold } from "../fold";
import { useShortcuts } from "../keys";

const NARROW = 760; // in a narrower window, in pixels, the details are hidden at first

const DIRECTION_TITLES: Record<Direction, string> = {
  down: "Top-down",
  up: "Bottom-up",
  sandwich: "Callers and callees",
};

interface Chosen {
  which: Which;
  node: number;
  tree: Tree;
}

interface Matches {
  matched: Uint8Array | null; // by function
  isWrong: boolean;
  value: number;
  nodes: number[];
}

function useMatches(tree: Tree | null, query: string): Matches {
  return useMemo(() => {
    if (!tree || query === "") return { matched: null, isWrong: false, value: 0, nodes: [] };
    const matcher = matcherOf(query);
    if (!matcher) return { matched: null, isWrong: true, value: 0, nodes: [] };
    const matched = matchFunctions(tree, matcher);
    return { matched, isWrong: false, value: matchedValue(tree, matched), nodes: matchedNodes(tree, matched) };
  }, [tree, query]);
}

function actionsOf(chosen: Chosen): MenuEntry[] {
  const found = functionOf(chosen.tree, chosen.node);
  const copy = () => void navigator.clipboard?.writeText(stackInText(chosen.tree, chosen.node, chosen.which)).catch(() => {});
  const copyEntry: MenuEntry = { title: "Copy the stack", key: "y", run: copy };
  const ofGroup = groupActions(chosen.tree, chosen.node);
  if (ofGroup) return [...ofGroup, copyEntry];
  if (!found) return [copyEntry];
  const name = exactly(found.name);
  const entries: MenuEntry[] = [
    { title: "Only stacks with this function", key: "f", run: () => addFilter("focus", name) },
    { title: "Only stacks without this function", key: "i", run: () => addFilter("ignore", name) },
    { title: "Hide this function's frames", key: "h", run: () => addFilter("hide", name) },
    { title: "Show from this function on", key: "o", run: () => addFilter("show-from", name) },
    { title: "Callers and callees", key: "c", run: () => select({ direction: "sandwich", function: found.id, zoom: "", frame: "" }) },
    ...(isSaved ? [] : [{ title: "Source", key: "e", run: () => select({ tab: "source", function: found.id }) }]),
    copyEntry,
  ];
  const module = shortModule(found.module);
  if (module !== "")
    entries.splice(4, 0, { title: `Hide ${module}`, key: "m", run: () => addFilter("hide", moduleNamed(module)) });
  return entries;
}

interface SearchProps {
  tree: Tree | null;
  query: string;
  isWrong: boolean;
  value: number;
  nodes: number[]; // that match
  node: number; // chosen; -1: none
  onStep: (step: number) => void;
}

function Search({ tree, query, isWrong, value, nodes, node, onStep }: SearchProps) {
  const at = nodes.indexOf(node);
  let words = "";
  if (isWrong) words = "not a regular expression";
  else if (query !== "" && tree && tree.count > 0)
    words = `${at < 0 ? plural(nodes.length, "frame") : `${countInWords(at + 1)} of ${countInWords(nodes.length)}`}: ${amountInWords(value, tree.header.counts)}, ${shareInWords(value, valueAt(tree, 0)) || "0 %"} of what is shown`;
  return (
    <span class="search">
      <input
        id="search"
        type="search"
        placeholder="Search: name, or /expression/"
        aria-label="Search functions, modules and files"
        spellcheck={false}
        autocomplete="off"
        value={query}
        onInput={(event) => select({ search: event.currentTarget.value }, true)}
        onKeyDown={(event) => {
          if (event.key === "Enter") onStep(event.shiftKey ? -1 : 1);
          if (event.key !== "Escape") return;
          select({ search: "" }, true);
          document.querySelector<HTMLElement>(".flame-scroll canvas")?.focus();
        }}
      />
      {nodes.length > 0 && (
        <span class="group">
          <button type="button" title="Shift Enter, N" onClick={() => onStep(-1)}>Previous</button>
          <button type="button" title="Enter, n" onClick={() => onStep(1)}>Next</button>
        </span>
      )}
      <output for="search" class={isWrong ? "bad" : ""}>{words}</output>
    </span>
  );
}

const WIDTH_TITLES: Record<Width, string> = { larger: "larger of both", after: "after", change: "change" };

/** What is wide in a difference. */
function WidthChoice({ selection }: { selection: Selection }) {
  if (selection.base === "" || showsRetained(selection)) return null;
  return (
    <label class="group-choice">
      <span class="faint">Width</span>{" "}
      <select value={selection.width} onChange={(event) => select({ width: event.currentTarget.value as Width })}>
        {WIDTHS.map((one) => <option key={one} value={one}>{WIDTH_TITLES[one]}</option>)}
      </select>
    </label>
  );
}

/** The callers above a part of the graph that was asked for alone. */
function Crumbs({ tree, zoom }: { tree: Tree; zoom: string }) {
  const names = stackOf(tree, nodeAt(tree, zoom)).slice(1, -1).map((node) => nameOf(tree, node));
  return <span class="crumbs faint" title={names.join(" › ")}>{names.length > 0 ? `below ${names.join(" › ")}` : ""}</span>;
}

function Empty({ tree, selection }: { tree: Tree; selection: Selection }) {
  const left = leftOut(tree);
  if (tree.header.unknown) return <div class="empty"><p>The file does not contain these figures. They are unknown, which is not the same as zero.</p></div>;
  if (left && left.value > 0)
    return (
      <div class="empty">
        <p>The filters leave nothing: they take out {amountInWords(left.value, tree.header.counts)}.</p>
        {selection.filters.length > 0 && <button type="button" onClick={() => select({ filters: [], zoom: "", frame: "" })}>Remove all filters</button>}
      </div>
    );
  if (tree.header.retained) return <div class="empty"><p>Nothing that was allocated between the two dumps is live at the second.</p></div>;
  if (tree.header.difference) return <div class="empty"><p>Nothing changed between the two dumps.</p></div>;
  return <div class="empty"><p>There is nothing in this view. Another view above may have something.</p></div>;
}

export function FlamePanel() {
  const selection = useSelection();
  const { theme } = useTheme();
  const isSandwich = hasSandwich(selection);
  const main = mainDirection(selection);
  const whole = useAnswer(treePath(selection, main), askTree);
  const partPath = partPathOf(selection, whole.value);
  const part = useAnswer(partPath, askTree);
  const answer = partPath !== null && part.key === partPath && part.value ? part : whole;
  const callers = useAnswer(isSandwich ? treePath(selection, "callers") : null, askTree);
  useNamedPlaces(whole.value, selection);
  const [hover, setHover] = useState<{ place: Place; which: Which } | null>(null);
  const [chosenCaller, setChosenCaller] = useState(-1);
  const [menu, setMenu] = useState<{ chosen: Chosen; x: number; y: number } | null>(null);
  const tree = answer.value;
  const search = useMatches(tree, selection.search);
  const callerSearch = useMatches(callers.value, selection.search);
  useEffect(() => setHover(null), [tree]);
  useEffect(() => setChosenCaller(-1), [callers.value]);
  const node = tree && selection.frame !== "" ? nodeAt(tree, selection.frame) : -1;
  function step(by: number) {
    const { nodes } = search;
    if (!tree || nodes.length === 0) return;
    const at = nodes.indexOf(node);
    const next = nodes[at < 0 ? (by > 0 ? 0 : nodes.length - 1) : (at + by + nodes.length) % nodes.length]!;
    const zoom = zoomFor(tree, next, Math.max(nodeAt(tree, selection.zoom), 0));
    select({ frame: pathOf(tree, next), zoom: zoom > 0 ? pathOf(tree, zoom) : tree.prefix }, true);
  }
  useShortcuts({
    n: () => step(1),
    N: () => step(-1),
    "/": () => document.getElementById("search")?.focus(),
    t: () => select({ direction: selection.direction === "down" ? "up" : "down", zoom: "", frame: "" }),
  });

  const hovered = hover ? (hover.which === "callers" ? callers.value : tree) : null;
  const side = hovered && hover
    ? { tree: hovered, which: hover.which, node: -1 }
    : chosenCaller >= 0 && callers.value
      ? { tree: callers.value, which: "callers" as Which, node: chosenCaller }
      : { tree, which: main, node };

  function view(of: Tree, which: Which) {
    const isCallers = which === "callers";
    const choose = (chosen: number) => {
      if (isCallers) setChosenCaller(chosen);
      else {
        setChosenCaller(-1);
        select({ frame: pathOf(of, chosen) }, true);
      }
    };
    const zoom = (chosen: number) => {
      if (isCallers) return choose(chosen);
      setChosenCaller(-1);
      const path = chosen > 0 ? pathOf(of, chosen) : chosen === 0 ? of.prefix : "";
      select({ zoom: path, frame: path });
    };
    const run = (key: string, chosen: number) => {
      const found = { which, node: chosen, tree: of };
      const entry = actionsOf(found).find((one) => one.key === key);
      const isMenu = key === "ContextMenu" || key === "F10";
      if (isMenu) setMenu({ chosen: found, x: innerWidth / 3, y: innerHeight / 3 });
      else entry?.run();
      return isMenu || entry !== undefined;
    };
    return (
      <FlameView
        tree={of} path={isCallers ? callers.key : answer.key} theme={theme} flipped={isCallers}
        matched={isCallers ? callerSearch.matched : search.matched}
        zoom={isCallers ? "" : selection.zoom}
        frame={isCallers ? (chosenCaller >= 0 ? pathOf(of, chosenCaller) : "") : selection.frame}
        label={isCallers ? "Callers" : isSandwich ? "Callees" : `Flame graph, ${DIRECTION_TITLES[selection.direction].toLowerCase()}`}
        onHover={(place) => setHover(place ? { place, which } : null)}
        onChoose={choose}
        onZoom={zoom}
        onMenu={(chosen, x, y) => setMenu({ chosen: { which, node: chosen, tree: of }, x, y })}
        onKey={run}
      />
    );
  }

  const [isFolded, fold] = useFold("details", () => innerWidth < NARROW);
  const left = tree && leftOut(tree);
  const isEmpty = tree !== null && (tree.count === 0 || (tree.count === 1 && valueAt(tree, 0) === 0));
  return (
    <section class="panel flame" aria-label="Flame graph" aria-busy={answer.isWaiting}>
      <div class="tools">
        <span class="group" role="group" aria-label="Direction">
          {(["down", "up"] as Direction[]).map((one) => (
            <button type="button" key={one} aria-pressed={selection.direction === one}
              onClick={() => select({ direction: one, zoom: "", frame: "" })}>{DIRECTION_TITLES[one]}</button>
          ))}
          {selection.function !== null && (
            <button type="button" aria-pressed={isSandwich} onClick={() => select({ direction: "sandwich", zoom: "", frame: "" })}>
              {DIRECTION_TITLES.sandwich}
            </button>
          )}
        </span>
        <GroupChoice selection={selection} />
        <WidthChoice selection={selection} />
        <Search tree={tree} query={selection.search} isWrong={search.isWrong} value={search.value} nodes={search.nodes} node={node} onStep={step} />
        {answer === part && <Crumbs tree={whole.value!} zoom={selection.zoom} />}
        {selection.zoom !== "" && <button type="button" onClick={() => select({ zoom: "" })}>Whole graph</button>}
        {left && left.value > 0 && !isEmpty && (
          <span class="faint">the filters leave out {amountInWords(left.value, tree!.header.counts)} ({shareInWords(left.share, 1)})</span>
        )}
        {tree && <GroupNotes tree={tree} selection={selection} />}
        <button type="button" class="end" aria-expanded={!isFolded} onClick={fold}>{isFolded ? "Show details" : "Hide details"}</button>
        {tree?.header.pruned && <span class="faint">small frames are left out; zoom to see them</span>}
      </div>
      <div class="flame-body">
        <div class={`flame-graphs${answer.isWaiting ? " waits" : ""}`}>
          {answer.error !== "" ? <div class={`empty${isSaved ? "" : " bad"}`}><p><Sentence text={answer.error} /></p></div>
            : !tree ? <div class="empty"><p class="faint">The flame graph is being made…</p></div>
              : isEmpty ? <Empty tree={tree} selection={selection} />
                : isSandwich ? (
                  <>
                    <div class="half">{callers.value && view(callers.value, "callers")}</div>
                    <div class="waist"><b class="name">{nameOf(tree, 0)}</b><span class="faint">callers above, callees below</span></div>
                    <div class="half">{view(tree, "callees")}</div>
                  </>
                ) : view(tree, main)}
        </div>
        <p class="sr-only" role="status" id="chosen-box">{side.tree && side.node >= 0 && nodeInWords(side.tree, side.node)}</p>
        {side.tree && !isEmpty && !isFolded && (
          <Details tree={side.tree} theme={theme} node={side.node} hover={hover?.place ?? null} direction={side.which} />
        )}
      </div>
      {tree && !isEmpty && <Frames tree={tree} node={node} onChoose={(chosen) => select({ frame: pathOf(tree, chosen) }, true)} />}
      {menu && (
        <Menu title={nameOf(menu.chosen.tree, menu.chosen.node)} entries={actionsOf(menu.chosen)} x={menu.x} y={menu.y} onClose={() => setMenu(null)} />
      )}
    </section>
  );
}
