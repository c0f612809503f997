// SPDX-License-Identifier: Apache-2.0
/*
 * What the script of a flame graph's page makes of the page's data, without a browser: node flame_page.js
 * SCRIPTS PAGE [QUERY...] prints it as JSON. SCRIPTS is the directory of interval.js and model.js.
 */
"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");

const [scripts, page, ...queries] = process.argv.slice(2);
for (const name of ["interval.js", "model.js"])
  vm.runInThisContext(fs.readFileSync(path.join(scripts, name), "utf8"), { filename: name });
const Flame = vm.runInThisContext("Flame");

const html = fs.readFileSync(page, "utf8");
/* As a browser finds the end of a script. */
const begin = html.indexOf(">", html.indexOf('<script type="application/json"')) + 1;
const profile = Flame.unpack(JSON.parse(html.slice(begin, html.indexOf("</script>", begin))));

function everyPlace(tree, visit) {
  const pending = [{ item: tree.root, stack: [] }];
  while (pending.length > 0) {
    const { item, stack } = pending.pop();
    visit(item, stack);
    for (const kid of Flame.kidsOf(tree, item))
      pending.push({ item: kid, stack: [...stack, Flame.nameOf(profile, kid.frame)] });
  }
}

function places(tree) {
  const found = [];
  everyPlace(tree, (item, stack) => {
    const figures = Flame.figuresOf(tree, item), own = Flame.ownFigures(tree, item);
    found.push({ stack, value: item.value, own, bytes: figures.bytes, count: figures.count,
                 margins: [Flame.formatMargin(figures.bytes, false), Flame.formatMargin(figures.count, true)] });
  });
  return found;
}

/* Boxes lie in the boxes that they are called from, and none over another. */
function drawn(tree, zoomed, width) {
  const { boxes, deepest } = Flame.layout(tree, zoomed, width), faults = [];
  const rows = new Map();
  for (const box of boxes) {
    if (!rows.has(box.depth)) rows.set(box.depth, []);
    rows.get(box.depth).push(box);
    if (box.width < 1 - 1e-9) faults.push("narrower than a pixel");
    if (box.x < -1e-6 || box.x + box.width > width + 1e-6) faults.push("outside");
    if (box.depth > deepest) faults.push("deeper than the deepest");
  }
  for (const [depth, row] of rows) {
    row.sort((a, b) => a.x - b.x);
    for (let i = 1; i < row.length; i++)
      if (row[i].x < row[i - 1].x + row[i - 1].width - 1e-6) faults.push("one over the other");
    for (const box of row) {
      const caller = box.narrow ? box.item : box.item.parent;
      const above = (rows.get(depth - 1) || []).find((one) => one.item === caller && !one.narrow);
      if (depth > 0 && (!above || box.x < above.x - 1e-6 || box.x + box.width > above.x + above.width + 1e-6))
        faults.push("not below its caller");
    }
  }
  return { boxes: boxes.length, narrow: boxes.filter((box) => box.narrow).length, deepest, faults };
}

function search(tree, query) {
  const matcher = Flame.makeMatcher(query);
  return matcher && Flame.matchedValue(tree, Flame.matchFrames(profile, matcher));
}

function look(graph, view) {
  const down = Flame.makeTree(graph, view, "top-down"), up = Flame.makeTree(graph, view, "bottom-up");
  const zoomed = Flame.kidsOf(down, down.root)[0] || down.root;
  const again = Flame.findSameStack(Flame.makeTree(graph, view, "top-down"), zoomed);
  return { name: view.name, title: view.title, total: down.root.value, down: places(down), up: places(up),
           drawn: [drawn(down, down.root, 1000), drawn(up, up.root, 1000), drawn(down, zoomed, 333)],
           foundAgain: again.frame === zoomed.frame && again.depth === zoomed.depth,
           searches: Object.fromEntries(queries.map((query) => [query, [search(down, query), search(up, query)]])) };
}

const graphs = profile.packedGraphs.map((packed, i) => {
  const graph = Flame.graphOf(profile, i);
  return { opens: graph.views[Flame.openingView(graph)].name, process: packed.process, pid: packed.pid, labels: packed.labels, heap: packed.heap,
           difference: packed.difference, exact: packed.exact, views: graph.views.map((view) => look(graph, view)) };
});
console.log(JSON.stringify({ title: profile.title, texts: profile.texts, graphs,
  words: { bytes: [0, 999, 1000, 4096.4, 99949, 1234567, -5e9].map(Flame.formatBytes),
           counts: [0, 12, 1234.4, 1234567, -1000].map(Flame.formatCount),
           shares: [[0, 0], [1, 3], [1, 1], [5, 100]].map(([part, whole]) => Flame.formatShare(part, whole)) } }));
