// SPDX-License-Identifier: Apache-2.0
// The frames beside the canvas as a grid that a screen reader can read: the path to the chosen frame
// and what comes after it. It is seen as soon as the keyboard enters it.
import { figureAt, nameOf, functionOf, shortModule, stackOf, valueAt, type Tree } from "../tree";
import { figureInWords, plural, shareInWords } from "../words";

const CHILDREN_SHOWN = 50;

interface Props {
  tree: Tree;
  node: number;
  onChoose: (node: number) => void;
}

export function Frames({ tree, node, onChoose }: Props) {
  if (tree.count === 0) return null;
  const at = Math.max(node, 0);
  const path = stackOf(tree, at);
  const begin = tree.firstChild[at]!;
  const children = begin < 0 ? 0 : tree.childCount[at]!;
  const shown = Array.from({ length: Math.min(children, CHILDREN_SHOWN) }, (_, i) => begin + i);
  const whole = valueAt(tree, 0);
  const counts = tree.header.counts;
  return (
    <div class="frames">
      <table role="treegrid" aria-label="Frames: the path to the chosen one, and what comes after it">
        <thead>
          <tr><th>Function</th><th>Module</th><th class="number">{counts ? "Allocations" : "Bytes"}</th><th class="number">Share</th></tr>
        </thead>
        <tbody>
          {[...path, ...shown].map((one, i) => (
            <tr key={one} role="row" aria-level={Math.min(i, path.length) + 1} aria-selected={one === at} aria-expanded={i < path.length}>
              <td role="gridcell"><button type="button" onClick={() => onChoose(one)}>{nameOf(tree, one)}</button></td>
              <td role="gridcell">{shortModule(functionOf(tree, one)?.module ?? "")}</td>
              <td role="gridcell" class="number">{figureInWords(figureAt(tree, one, counts), counts)}</td>
              <td role="gridcell" class="number">{shareInWords(valueAt(tree, one), whole)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {children > shown.length && <p>{plural(children - shown.length, "smaller frame")} more</p>}
    </div>
  );
}
