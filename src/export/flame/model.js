// SPDX-License-Identifier: Apache-2.0
/*
 * The model of the flame graph's page: it unpacks the profile, builds the top-down and bottom-up trees,
 * lays out the boxes, and computes figures with their 95 % limits. It does not use the DOM, so that tests
 * can run it in node.
 *
 * A graph is a tree of nodes (a parent has a lower number than its children) and a list of sites: the
 * nodes that allocate themselves, with their figures. A figure consists of five sums over samples: bytes,
 * count, the variances of both, and the number of samples. A difference has them twice: gained and lost.
 */
"use strict";

const Flame = (() => {
  const SUMS = 5;
  const BYTES = 0, COUNT = 1, BYTES_VARIANCE = 2, COUNT_VARIANCE = 3, SAMPLES = 4;

  /* --- unpacking --- */

  /* Makes arrays of the five sums. A sum that is 0 for all sites is packed as the number 0. */
  function unpackSums(sums, length) {
    if (!sums) return null;
    return sums.map((values) => (values === 0 ? new Float64Array(length) : Float64Array.from(values)));
  }

  function unpackGraph(packed) {
    const count = packed.up.length;
    const parent = new Int32Array(count);
    for (let i = 0; i < count; i++) parent[i] = packed.up[i] === 0 ? -1 : i - packed.up[i];
    const length = packed.sites.length;
    const graph = {
      ...packed,
      count,
      parent,
      frame: Int32Array.from(packed.frames),
      sites: Int32Array.from(packed.sites),
      figures: packed.figures.map((figure) => ({
        gained: unpackSums(figure.gained, length),
        lost: unpackSums(figure.lost, length),
      })),
    };
    delete graph.up;
    delete graph.frames;
    orderChildren(graph);
    return graph;
  }

  /* Sets graph.children and graph.childStart: the children of node n are
   * children[childStart[n]] to children[childStart[n + 1] - 1]. n = graph.count stands for the root. */
  function orderChildren(graph) {
    const { count, parent } = graph;
    const start = new Int32Array(count + 2);
    const slot = (i) => (parent[i] < 0 ? count : parent[i]);
    for (let i = 0; i < count; i++) start[slot(i) + 1]++;
    for (let i = 0; i <= count; i++) start[i + 1] += start[i];
    const next = start.slice(), children = new Int32Array(count);
    for (let i = 0; i < count; i++) children[next[slot(i)]++] = i;
    graph.childStart = start;
    graph.children = children;
  }

  /* --- values --- */

  /* Returns each site's value, from which box widths follow: 0 if it is negative. */
  function siteValues(graph, view) {
    const { gained, lost } = graph.figures[view.figure];
    const which = view.bytes ? BYTES : COUNT;
    return gained[which].map((value, i) => Math.max(value - (lost ? lost[which][i] : 0), 0));
  }

  /* Returns each node's value with that of its callees. */
  function nodeValues(graph, values) {
    const totals = new Float64Array(graph.count);
    graph.sites.forEach((node, i) => { totals[node] += values[i]; });
    for (let i = graph.count - 1; i >= 0; i--)
      if (graph.parent[i] >= 0) totals[graph.parent[i]] += totals[i];
    return totals;
  }

  /* Returns the view to show first: live bytes, or the peak if nothing is live at the end, or any other
   * view that is not empty. */
  function openingView(graph) {
    const rank = (view) => (view.name === "space" ? 0 : view.name === "max" ? 1 : 2);
    const found = [...graph.views].sort((a, b) => rank(a) - rank(b))
      .find((view) => siteValues(graph, view).some((value) => value > 0));
    return found ? graph.views.indexOf(found) : 0;
  }

  /* --- trees: children are made when they are first asked for --- */

  function byValue(a, b) {
    return b.value - a.value || a.frame - b.frame;
  }

  /* direction: "top-down", from the outermost caller, or "bottom-up", from the allocating function. */
  function makeTree(graph, view, direction) {
    const values = siteValues(graph, view);
    const total = values.reduce((sum, value) => sum + value, 0);
    const root = { parent: null, frame: -1, depth: 0, value: total, kids: null };
    const tree = { graph, view, direction, values, root };
    if (direction === "top-down") {
      tree.totals = nodeValues(graph, values);
      root.node = graph.count;
    } else {
      root.sites = Array.from(values.keys()).filter((i) => values[i] > 0);
      root.at = root.sites.map((i) => graph.sites[i]);
    }
    return tree;
  }

  function kidsBelow(tree, item) {
    const { graph, totals } = tree, kids = [];
    for (let i = graph.childStart[item.node]; i < graph.childStart[item.node + 1]; i++) {
      const node = graph.children[i];
      if (totals[node] > 0)
        kids.push({ parent: item, frame: graph.frame[node], depth: item.depth + 1,
                    value: totals[node], node, kids: null });
    }
    return kids;
  }

  function kidsAbove(tree, item) {
    const { graph, values } = tree, found = new Map();
    item.at.forEach((node, i) => {
      if (node < 0) return;
      const frame = graph.frame[node], site = item.sites[i];
      let kid = found.get(frame);
      if (!kid) {
        kid = { parent: item, frame, depth: item.depth + 1, value: 0, sites: [], at: [], kids: null };
        found.set(frame, kid);
      }
      kid.value += values[site];
      kid.sites.push(site);
      kid.at.push(graph.parent[node]);
    });
    return [...found.values()];
  }

  /* Returns the children, the largest first. */
  function kidsOf(tree, item) {
    if (!item.kids)
      item.kids = (tree.direction === "top-down" ? kidsBelow : kidsAbove)(tree, item).sort(byValue);
    return item.kids;
  }

  /* Returns the item with the same stack in another tree of the same graph and direction, or else its
   * nearest caller there. */
  function findSameStack(tree, item) {
    const frames = [];
    for (let at = item; at && at.parent; at = at.parent) frames.unshift(at.frame);
    let found = tree.root;
    for (const frame of frames) {
      const kid = kidsOf(tree, found).find((one) => one.frame === frame);
      if (!kid) break;
      found = kid;
    }
    return found;
  }

  /* --- layout --- */

  /* Makes the boxes of `zoomed`, of its callers, which get the same width, and of its callees that are at
   * least a pixel wide. Narrower siblings share one box without a name; `narrow` is their number. */
  function layout(tree, zoomed, width) {
    const boxes = [];
    const path = [];
    for (let at = zoomed; at; at = at.parent) path.unshift(at);
    for (const item of path) boxes.push({ item, x: 0, width, depth: item.depth, narrow: 0 });
    const pending = [{ item: zoomed, x: 0 }];
    const scale = zoomed.value > 0 ? width / zoomed.value : 0;
    let deepest = zoomed.depth;
    while (pending.length > 0) {
      const { item, x } = pending.pop();
      const kids = kidsOf(tree, item);
      let left = x;
      for (let i = 0; i < kids.length; i++) {
        const wide = kids[i].value * scale;
        if (wide < 1) {
          let rest = 0;
          for (let j = i; j < kids.length; j++) rest += kids[j].value;
          if (rest * scale >= 1)
            boxes.push({ item, x: left, width: rest * scale, depth: item.depth + 1,
                         narrow: kids.length - i, value: rest });
          break;
        }
        boxes.push({ item: kids[i], x: left, width: wide, depth: kids[i].depth, narrow: 0 });
        pending.push({ item: kids[i], x: left });
        left += wide;
      }
      if (kids.length > 0 && kids[0].value * scale >= 1) deepest = Math.max(deepest, item.depth + 1);
    }
    return { boxes, deepest };
  }

  /* --- search --- */

  /* Returns a function that tests names: for text without regard to case, or for a regular expression
   * between slashes. Returns null if the expression is invalid. */
  function makeMatcher(query) {
    const between = /^\/(.*)\/(i?)$/.exec(query);
    if (!between) {
      const wanted = query.toLowerCase();
      return (name) => name.toLowerCase().includes(wanted);
    }
    try {
      const expression = new RegExp(between[1], between[2]);
      return (name) => expression.test(name);
    } catch {
      return null;
    }
  }

  /* Returns, by frame, 1 if its function or module matches. */
  function matchFrames(profile, matcher) {
    const count = profile.frameNames.length;
    const matches = new Uint8Array(count);
    for (let i = 0; i < count; i++)
      matches[i] = matcher(nameOf(profile, i)) || matcher(moduleOf(profile, i)) ? 1 : 0;
    return matches;
  }

  /* Returns the sum of the stacks that have a matching frame. */
  function matchedValue(tree, matches) {
    const { graph, values } = tree;
    const onStack = new Uint8Array(graph.count);
    for (let i = 0; i < graph.count; i++)
      onStack[i] = matches[graph.frame[i]] || (graph.parent[i] >= 0 && onStack[graph.parent[i]]) ? 1 : 0;
    let sum = 0;
    graph.sites.forEach((node, i) => { if (onStack[node]) sum += values[i]; });
    return sum;
  }

  /* --- names --- */

  function unpack(packed) {
    const count = packed.frames.length / 3;
    const column = (which) => Int32Array.from({ length: count }, (_, i) => packed.frames[3 * i + which]);
    return { title: packed.title, texts: packed.texts, packedGraphs: packed.graphs, graphs: [],
             frameNames: column(0), frameModules: column(1), frameFiles: column(2) };
  }

  function graphOf(profile, index) {
    if (!profile.graphs[index]) profile.graphs[index] = unpackGraph(profile.packedGraphs[index]);
    return profile.graphs[index];
  }

  const nameOf = (profile, frame) => (frame < 0 ? "all" : profile.texts[profile.frameNames[frame]]);
  const moduleOf = (profile, frame) => (frame < 0 ? "" : profile.texts[profile.frameModules[frame]]);
  const fileOf = (profile, frame) => (frame < 0 ? "" : profile.texts[profile.frameFiles[frame]]);

  /* --- figures of an item of a tree --- */

  function sitesOf(tree, item) {
    if (tree.direction !== "top-down") return item.sites;
    const { graph } = tree;
    if (!item.parent) return Array.from(graph.sites.keys());
    const below = new Uint8Array(graph.count);
    below[item.node] = 1;
    for (let i = item.node + 1; i < graph.count; i++)
      if (graph.parent[i] >= 0 && below[graph.parent[i]]) below[i] = 1;
    const found = [];
    graph.sites.forEach((node, i) => { if (below[node]) found.push(i); });
    return found;
  }

  function sumOf(sums, sites) {
    const all = new Array(SUMS).fill(0);
    if (sums)
      for (let which = 0; which < SUMS; which++)
        for (const site of sites) all[which] += sums[which][site];
    return all;
  }

  /* Returns {bytes, count}, each with its value, its limits, and whether the limits are known. */
  function figuresOf(tree, item) {
    const { graph, view } = tree;
    const figure = graph.figures[view.figure], sites = sitesOf(tree, item);
    const gained = sumOf(figure.gained, sites), lost = sumOf(figure.lost, sites);
    return { bytes: changeOf(gained, lost, false, graph), count: changeOf(gained, lost, true, graph) };
  }

  /* Returns what the item allocates itself; null in a bottom-up tree. */
  function ownFigures(tree, item) {
    if (tree.direction !== "top-down" || !item.parent) return null;
    const sites = [];
    tree.graph.sites.forEach((node, i) => { if (node === item.node) sites.push(i); });
    const figure = tree.graph.figures[tree.view.figure];
    const gained = sumOf(figure.gained, sites), lost = sumOf(figure.lost, sites);
    return { bytes: gained[BYTES] - lost[BYTES], count: gained[COUNT] - lost[COUNT] };
  }

  function changeOf(gained, lost, counts, graph) {
    const which = counts ? COUNT : BYTES;
    const limits = counts ? FlameInterval.ofCount : FlameInterval.ofBytes;
    const [gainedInterval, lostInterval] = graph.intervals;
    const value = gained[which] - lost[which];
    const up = limits(gained, gainedInterval), down = limits(lost, lostInterval);
    return {
      value,
      low: value - Math.hypot(gained[which] - up.low, down.high - lost[which]),
      high: value + Math.hypot(up.high - gained[which], lost[which] - down.low),
      exact: graph.exact,
      partial: graph.partial,
      unknown: lacksVariance(gained, gainedInterval) || lacksVariance(lost, lostInterval),
    };
  }

  function lacksVariance(sums, interval) {
    return interval !== 1 && sums[COUNT] + sums[BYTES] > 0 &&
           (!(sums[SAMPLES] > 0) || interval === 0) && !(sums[BYTES_VARIANCE] > 0);
  }

  /* --- text --- */

  function formatBytes(bytes) {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let value = Math.abs(bytes), unit = 0;
    while (value >= 999.5 && unit < 4) {
      value /= 1000;
      unit++;
    }
    const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    return (bytes < 0 ? "-" : "") + value.toFixed(digits) + " " + units[unit];
  }

  function formatCount(count) {
    return (count <= -0.5 ? "-" : "") +
           Math.abs(count).toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",");
  }

  function formatValue(value, counts) {
    return counts ? formatCount(value) : formatBytes(value);
  }

  function formatMargin(change, counts) {
    if (change.exact) return "exact";
    if (change.partial) return "partial";
    if (change.unknown) return "± unknown";
    const below = change.value - change.low, above = change.high - change.value;
    if (above <= 1.25 * below && below <= 1.25 * above)
      return "± " + formatValue(Math.max(above, below), counts);
    return "-" + formatValue(below, counts) + " +" + formatValue(above, counts);
  }

  function formatShare(part, whole) {
    if (!(whole > 0)) return "";
    const percent = (100 * part) / whole;
    return percent >= 99.95 ? "100 %" : percent.toFixed(percent < 9.995 ? 2 : 1) + " %";
  }

  return { unpack, graphOf, unpackGraph, siteValues, openingView, nodeValues, makeTree, kidsOf, findSameStack,
           layout, makeMatcher, matchFrames, matchedValue, nameOf, moduleOf, fileOf, figuresOf, ownFigures,
           formatBytes, formatCount, formatValue, formatMargin, formatShare };
})();
