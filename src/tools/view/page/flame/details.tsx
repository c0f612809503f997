// SPDX-License-Identifier: Apache-2.0
// What the side panel says about the frame under the pointer, or else the chosen one: where it is,
// how much it holds with its ±, and its shares. It also has the modules' colours.
import { useMemo, useState } from "preact/hooks";
import { css, LEGEND_MAX, legendOf, type Theme } from "./colours";
import type { Place } from "./layout";
import { figureAt, fullNameOf, functionOf, groupOf, isUnknownAt, judgedInWords, moduleInBrackets, nameOf, selfAt, shortModule, sidesAt, stackOf, valueAt, type Tree } from "../tree";
import { amountInWords, countInWords, figureInWords, marginInWords, percentInWords, plural, shareInWords, shortened, signedInWords, valueInWords } from "../words";

interface Props {
  tree: Tree;
  theme: Theme;
  node: number; // chosen; -1: none
  hover: Place | null;
  direction: "down" | "up" | "callers" | "callees";
}

const KINDS: Record<string, string> = {
  inlined: "inlined into its caller",
  jit: "made by a JIT compiler",
  interpreted: "interpreted",
  kernel: "of the kernel",
};

export function stackInText(tree: Tree, node: number, direction: Props["direction"]): string {
  const names = stackOf(tree, node).filter((at) => functionOf(tree, at)).map((at) => {
    const found = functionOf(tree, at)!;
    const where = found.file ? ` ${found.file}${found.line ? `:${found.line}` : ""}` : "";
    if (groupOf(tree, at)) return found.name;
    return `${found.full_name ?? found.name} ${moduleInBrackets(found.module)}${where}`;
  });
  const innermostFirst = direction === "down" || direction === "callees" ? names.reverse() : names;
  return innermostFirst.join("\n") + "\n";
}

const SPOKEN_MOST = 200; // characters of a name

/** The chosen box in sentences, for a screen reader. */
export function nodeInWords(tree: Tree, node: number): string {
  const { counts, total } = tree.header;
  const figure = figureAt(tree, node, counts);
  const amount = tree.lost ? `${signedInWords(figure.value, counts)}, ${judgedInWords(tree, node)}` : `${figureInWords(figure, counts)}, ${shareInWords(figure.value, total[counts ? 1 : 0] ?? 0)} of all`;
  const module = shortModule(functionOf(tree, node)?.module ?? "");
  const name = (at: number) => shortened(fullNameOf(tree, at), SPOKEN_MOST);
  const above = tree.parent[node]!;
  const place = above < 0 ? "" : `, row ${stackOf(tree, node).length} after ${above === 0 ? "the root" : name(above)}`;
  return `${name(node)}${module && ` in ${module}`}${place}: ${amount}. ${plural(tree.childCount[node]!, "box", "boxes")} after it.`;
}

function CopyStack({ tree, node, direction }: { tree: Tree; node: number; direction: Props["direction"] }) {
  const [said, say] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(stackInText(tree, node, direction));
      say("Copied");
    } catch {
      say("The browser did not allow it");
    }
    setTimeout(() => say(""), 2000);
  };
  return (
    <p>
      <button type="button" onClick={copy}>Copy stack</button> <span role="status" class="faint">{said}</span>
    </p>
  );
}

function Amount({ tree, node, counts }: { tree: Tree; node: number; counts: boolean }) {
  const figure = figureAt(tree, node, counts);
  const margin = tree.header.partial ? "partial" : marginInWords(figure, counts);
  const amount = tree.lost ? signedInWords(figure.value, counts) : valueInWords(figure, counts);
  return (
    <>
      <dt>{counts ? "Allocations" : "Bytes"}</dt>
      <dd>
        {isUnknownAt(tree, node, counts) ? <span class="faint">unknown</span> : <>{amount} <span class="faint">{margin}</span></>}
      </dd>
    </>
  );
}

function Moved({ tree, node }: { tree: Tree; node: number }) {
  const counts = tree.header.counts;
  const { before, after } = sidesAt(tree, node);
  const which = counts ? "count" : "bytes";
  return (
    <>
      <dt>Before</dt><dd>{amountInWords(before, counts)}</dd>
      <dt>After</dt><dd>{amountInWords(after, counts)} <span class="faint">{percentInWords(before, after)}</span></dd>
      {tree.header.one_process !== false && (
        <>
          <dt title="Live after, not before">Gained</dt><dd>{amountInWords(tree.gained[which][node]!, counts)}</dd>
          <dt title="Live before, not after">Lost</dt><dd>{amountInWords(tree.lost![which][node]!, counts)}</dd>
        </>
      )}
      <dt>Change</dt>
      <dd>{judgedInWords(tree, node)}</dd>
    </>
  );
}

function Node({ tree, node, direction }: { tree: Tree; node: number; direction: Props["direction"] }) {
  const found = functionOf(tree, node);
  const value = valueAt(tree, node);
  const above = tree.parent[node]!;
  const counts = tree.header.counts;
  const whole = tree.header.total[counts ? 1 : 0] ?? 0;
  const self = selfAt(tree, node, counts);
  const samples = tree.gained.samples[node]! + (tree.lost?.samples[node] ?? 0);
  const isDown = direction === "down" || direction === "callees";
  return (
    <>
      <h2 class="name">{fullNameOf(tree, node)}</h2>
      {groupOf(tree, node) && <p class="where">{tree.header.groups!.find(({ name }) => name === found?.name)?.note}</p>}
      {found && !groupOf(tree, node) && (
        <p class="where">
          {shortModule(found.module) || "no module"}
          {found.file !== "" && <><br />{found.file}{found.line > 0 && `:${found.line}`}</>}
          {KINDS[found.kind] && <><br />{KINDS[found.kind]}</>}
        </p>
      )}
      <dl class="figures">
        <Amount tree={tree} node={node} counts={counts} />
        <Amount tree={tree} node={node} counts={!counts} />
        {tree.lost ? <Moved tree={tree} node={node} /> : (
          <>
            <dt>Of all</dt><dd>{shareInWords(value, whole)}</dd>
            {above > 0 && <><dt>Of {isDown ? "its caller" : "the frame above"}</dt><dd>{shareInWords(value, valueAt(tree, above))}</dd></>}
            {isDown && <><dt>{tree.least ? "Itself at most" : "Itself"}</dt><dd>{amountInWords(self, counts)} <span class="faint">{shareInWords(self, whole)}</span></dd></>}
          </>
        )}
        {samples > 0 && <><dt>Samples</dt><dd>{countInWords(samples)}</dd></>}
      </dl>
    </>
  );
}

function Legend({ tree, theme }: { tree: Tree; theme: Theme }) {
  const entries = useMemo(() => legendOf(tree, theme), [tree, theme]);
  const shown = entries.slice(0, LEGEND_MAX);
  return (
    <ul class="legend" aria-label={tree.lost ? "Colours of changes" : "Colours of modules"}>
      {shown.map(({ words, fill }) => <li key={words}><i style={{ background: css(fill) }} />{words}</li>)}
      {entries.length > shown.length && <li class="faint">and {plural(entries.length - shown.length, "module")} more</li>}
    </ul>
  );
}

export function Details({ tree, theme, node, hover, direction }: Props) {
  const shown = hover ? hover.node : Math.max(node, 0);
  return (
    <section class="details" aria-label="Frame" tabIndex={0}>
      <div class="details-frame">
        {hover && hover.narrow > 0 ? (
          <>
            <h2 class="name">{plural(hover.narrow, "narrower frame")}</h2>
            <p class="where">below {nameOf(tree, hover.node)}; a click brings them nearer</p>
          </>
        ) : shown < tree.count ? (
          <>
            <Node tree={tree} node={shown} direction={direction} />
            {!hover && node > 0 && <CopyStack tree={tree} node={shown} direction={direction} />}
            {!hover && node <= 0 && (
              <p class="hint">Point at a frame to read its figures. A click zooms, the right button opens a menu, <kbd>?</kbd> lists the keys.</p>
            )}
          </>
        ) : null}
      </div>
      <Legend tree={tree} theme={theme} />
    </section>
  );
}
