// SPDX-License-Identifier: Apache-2.0
/*
 * The flame graph's page: the user's choices, the canvas, keys and pointer. model.js has the layout and the
 * figures. Text from the profile is untrusted: it is inserted as text, never as HTML.
 */
"use strict";

const ROW = 20, TEXT_MIN = 28, FONT = "12px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";
const byId = (id) => document.getElementById(id);
const canvas = byId("canvas"), scroll = byId("scroll"), tip = byId("tip");
const context = canvas.getContext("2d");
const dark = window.matchMedia("(prefers-color-scheme: dark)");

const profile = Flame.unpack(JSON.parse(byId("profile").textContent));
const state = { graph: 0, view: 0, direction: "top-down", tree: null, zoomed: null, selected: null,
                boxes: [], rows: [], deepest: 0, matches: null, matched: 0 };

/* --- text --- */

function graphTitle(packed) {
  const name = `${packed.process || "?"} (${packed.pid}) · ${packed.heap}`;
  return packed.difference ? `${name}, grown` : name;
}

function addLine(parent, className, text) {
  const line = document.createElement("div");
  line.className = className;
  line.textContent = text;
  parent.append(line);
}

function formatFigure(what, change, counts) {
  return `${Flame.formatValue(change.value, counts)}${what} (${Flame.formatMargin(change, counts)})`;
}

/* Replaces an element's content with the description of an item. */
function describe(parent, item) {
  const { tree, zoomed } = state;
  const figures = Flame.figuresOf(tree, item), own = Flame.ownFigures(tree, item);
  parent.replaceChildren();
  addLine(parent, "name", Flame.nameOf(profile, item.frame));
  const where = [Flame.moduleOf(profile, item.frame), Flame.fileOf(profile, item.frame)].filter((text) => text);
  if (where.length > 0) addLine(parent, "where", where.join(" · "));
  const words = [formatFigure("", figures.bytes, false),
                 formatFigure(" allocations", figures.count, true)];
  words.push(Flame.formatShare(item.value, tree.root.value) + " of all");
  if (zoomed.parent && item.depth > zoomed.depth)
    words.push(Flame.formatShare(item.value, zoomed.value) + " of what is shown");
  if (own && (own.bytes !== 0 || own.count !== 0) && Flame.kidsOf(tree, item).length > 0)
    words.push(`own: ${Flame.formatBytes(own.bytes)}, ${Flame.formatCount(own.count)} allocations`);
  addLine(parent, "figures", words.join(" · "));
}

function describeNarrow(parent, box) {
  parent.replaceChildren();
  addLine(parent, "name", `${Flame.formatCount(box.narrow)} narrower frames`);
  addLine(parent, "figures", Flame.formatValue(box.value, !state.tree.view.bytes) + " · " +
          Flame.formatShare(box.value, state.tree.root.value) + " of all · zoom into what calls them");
}

function showChosen() {
  const chosen = byId("chosen");
  if (state.selected && state.tree.root.value > 0) describe(chosen, state.selected);
  else {
    chosen.replaceChildren();
    addLine(chosen, "hint", state.tree.root.value > 0
      ? "Click a frame to zoom; arrow keys go from frame to frame."
      : "There is nothing in this view.");
  }
}

/* --- drawing --- */

function hash(text) {
  let value = 2166136261;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return value >>> 0;
}

const colours = new Map();
/* Modules differ in hue; functions of a module differ a little in hue (by namespace) and in lightness. */
function colourOf(frame) {
  const key = frame * 2 + dark.matches;
  let colour = colours.get(key);
  if (!colour) {
    const name = Flame.nameOf(profile, frame), shade = hash(name) % 9;
    const space = name.includes("::") ? hash(name.split("::", 1)[0]) % 5 : 0;
    const hue = (hash(Flame.moduleOf(profile, frame)) % 360) + space * 14;
    colour = frame < 0 ? (dark.matches ? "#4a4e55" : "#d4d7db")
      : dark.matches ? `hsl(${hue} 34% ${27 + shade}%)` : `hsl(${hue} 62% ${75 + shade}%)`;
    colours.set(key, colour);
  }
  return colour;
}

function fitted(text, width) {
  if (context.measureText(text).width <= width) return text;
  let low = 0, high = Math.min(text.length, Math.ceil(width / 3));
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
    else high = middle - 1;
  }
  return low > 0 ? text.slice(0, low) + "…" : "";
}

function rowOf(box) {
  return box.depth * ROW;
}

function drawBox(box, top) {
  const y = rowOf(box) - top, faded = box.depth < state.zoomed.depth;
  const gap = box.width > 3 ? 1 : 0;
  const matches = !box.narrow && state.matches && box.item.frame >= 0 && state.matches[box.item.frame];
  context.globalAlpha = faded ? 0.55 : 1;
  if (matches) context.fillStyle = dark.matches ? "#c7631f" : "#ff9f43";
  else if (box.narrow) context.fillStyle = dark.matches ? "#33363a" : "#e2e4e7";
  else context.fillStyle = colourOf(box.item.frame);
  if (state.matches && !matches && !faded) context.globalAlpha = 0.5;
  context.fillRect(box.x, y, Math.max(box.width - gap, 1), ROW - 1);
  context.globalAlpha = faded ? 0.75 : 1;
  if (box.width >= TEXT_MIN && !box.narrow) {
    context.fillStyle = dark.matches ? "#f1f2f3" : "#17181a";
    const text = box.item.parent ? Flame.nameOf(profile, box.item.frame)
      : `all: ${Flame.formatValue(box.item.value, !state.tree.view.bytes)}`;
    context.fillText(fitted(text, box.width - 8), box.x + 4, y + ROW / 2);
  }
  context.globalAlpha = 1;
  if (box.item === state.selected && !box.narrow) {
    context.strokeStyle = dark.matches ? "#ffffff" : "#000000";
    context.lineWidth = 2;
    context.strokeRect(box.x + 1, y + 1, Math.max(box.width - gap - 2, 1), ROW - 3);
  }
}

function draw() {
  const ratio = window.devicePixelRatio || 1;
  const width = scroll.clientWidth, height = scroll.clientHeight, top = scroll.scrollTop;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  context.textBaseline = "middle";
  const last = Math.min(Math.ceil((top + height) / ROW), state.rows.length - 1);
  for (let row = Math.floor(top / ROW); row <= last; row++)
    for (const box of state.rows[row]) drawBox(box, top);
}

let pending = false;
function drawSoon() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; draw(); });
}

/* --- the user's choices --- */

function relayout() {
  const { boxes, deepest } = Flame.layout(state.tree, state.zoomed, scroll.clientWidth);
  state.rows = Array.from({ length: deepest + 1 }, () => []);
  for (const box of boxes) (state.rows[box.depth] ||= []).push(box);
  const height = state.rows.length * ROW;
  /* The canvas is only as high as the window and does not scroll; #room below it gives the scroll bar its
   * length. */
  byId("room").style.height = `${Math.max(height - scroll.clientHeight, 0)}px`;
  byId("reset").hidden = !state.zoomed.parent;
  drawSoon();
}

function showMatches() {
  const query = byId("search").value.trim(), found = byId("found");
  const matcher = query === "" ? null : Flame.makeMatcher(query);
  found.className = query !== "" && !matcher ? "bad" : "";
  state.matches = matcher ? Flame.matchFrames(profile, matcher) : null;
  if (query === "") found.textContent = "";
  else if (!matcher) found.textContent = "not a regular expression";
  else {
    const value = Flame.matchedValue(state.tree, state.matches);
    found.textContent = `${Flame.formatShare(value, state.tree.root.value) || "0 %"}: ` +
                        Flame.formatValue(value, !state.tree.view.bytes);
  }
  drawSoon();
}

/* Builds the tree of the chosen graph, view and direction. With keepPlace, zoom and selection stay on the
 * same stacks. */
function rebuild(keepPlace) {
  const graph = Flame.graphOf(profile, state.graph);
  const { zoomed, selected } = state;
  state.tree = Flame.makeTree(graph, graph.views[state.view], state.direction);
  state.zoomed = keepPlace ? Flame.findSameStack(state.tree, zoomed) : state.tree.root;
  state.selected = keepPlace && selected ? Flame.findSameStack(state.tree, selected) : null;
  byId("top-down").setAttribute("aria-pressed", state.direction === "top-down");
  byId("bottom-up").setAttribute("aria-pressed", state.direction === "bottom-up");
  scroll.scrollTop = keepPlace ? scroll.scrollTop : 0;
  hideTip();
  relayout();
  showMatches();
  showChosen();
}

function fillViews() {
  const graph = profile.packedGraphs[state.graph], select = byId("view");
  select.replaceChildren(...graph.views.map((view, i) => new Option(view.title, i)));
  select.value = state.view;
}

function chooseGraph(index) {
  const name = profile.packedGraphs[state.graph].views[state.view].name;
  state.graph = index;
  const { views, labels } = profile.packedGraphs[index];
  state.view = Math.max(views.findIndex((view) => view.name === name), 0);
  byId("graph").value = index;
  byId("graph").title = labels;
  fillViews();
  rebuild(false);
}

function chooseView(index) {
  state.view = index;
  byId("view").value = index;
  rebuild(true);
}

function turn(direction) {
  state.direction = direction;
  rebuild(false);
}

function zoom(item) {
  state.zoomed = item;
  state.selected = item;
  hideTip();
  relayout();
  showChosen();
  scrollTo(item);
}

function scrollTo(item) {
  const y = item.depth * ROW;
  if (y < scroll.scrollTop) scroll.scrollTop = Math.max(y - ROW, 0);
  else if (y + ROW > scroll.scrollTop + scroll.clientHeight)
    scroll.scrollTop = y + 2 * ROW - scroll.clientHeight;
}

/* --- pointer --- */

function boxAt(event) {
  const area = canvas.getBoundingClientRect();
  const x = event.clientX - area.left, row = Math.floor((event.clientY - area.top + scroll.scrollTop) / ROW);
  return (state.rows[row] || []).find((box) => x >= box.x && x < box.x + box.width);
}

function hideTip() {
  tip.hidden = true;
  state.tipped = null;
}

function moveTip(event) {
  const margin = 14, { innerWidth, innerHeight } = window;
  const area = tip.getBoundingClientRect();
  const left = event.clientX + margin + area.width > innerWidth ? innerWidth - area.width - 4 : event.clientX + margin;
  const below = event.clientY + margin + area.height <= innerHeight;
  tip.style.left = `${Math.max(left, 4)}px`;
  tip.style.top = `${below ? event.clientY + margin : Math.max(event.clientY - area.height - margin, 4)}px`;
}

canvas.addEventListener("pointermove", (event) => {
  const box = boxAt(event);
  canvas.style.cursor = box && !box.narrow ? "pointer" : "default";
  if (!box) return hideTip();
  if (state.tipped !== box) {
    state.tipped = box;
    if (box.narrow) describeNarrow(tip, box);
    else describe(tip, box.item);
    tip.hidden = false;
  }
  moveTip(event);
});
canvas.addEventListener("pointerleave", hideTip);
canvas.addEventListener("click", (event) => {
  const box = boxAt(event);
  if (box) zoom(box.item);
});

/* --- keys --- */

function neighbour(item, step) {
  if (!item.parent) return item;
  const kids = Flame.kidsOf(state.tree, item.parent), at = kids.indexOf(item) + step;
  return kids[Math.min(Math.max(at, 0), kids.length - 1)];
}

function isDrawn(item) {
  return (state.rows[item.depth] || []).some((box) => box.item === item && !box.narrow);
}

/* Selects an item. If it is outside of the zoomed part, or too narrow to be drawn, the zoom follows it. */
function select(item) {
  state.selected = item;
  for (const zoomed of [item.parent, item]) {
    if (isDrawn(item)) break;
    state.zoomed = zoomed || item;
    relayout();
  }
  showChosen();
  scrollTo(item);
  drawSoon();
}

function next(index, count) {
  return (index + 1) % count;
}

const keys = {
  ArrowDown: () => { const kids = Flame.kidsOf(state.tree, state.selected || state.zoomed);
                     if (!state.selected) select(state.zoomed); else if (kids.length > 0) select(kids[0]); },
  ArrowUp: () => select((state.selected || state.zoomed).parent || state.tree.root),
  ArrowLeft: () => select(neighbour(state.selected || state.zoomed, -1)),
  ArrowRight: () => select(neighbour(state.selected || state.zoomed, 1)),
  Enter: () => zoom(state.selected || state.zoomed),
  Backspace: () => zoom(state.zoomed.parent || state.tree.root),
  Escape: () => zoom(state.tree.root),
  t: () => turn(state.direction === "top-down" ? "bottom-up" : "top-down"),
  v: () => chooseView(next(state.view, profile.packedGraphs[state.graph].views.length)),
  g: () => chooseGraph(next(state.graph, profile.packedGraphs.length)),
  "/": () => byId("search").focus(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const inField = /^(INPUT|SELECT|BUTTON|SUMMARY)$/.test(event.target.tagName);
  if (inField) {
    if (event.key === "Escape") canvas.focus();
    if (event.key === "Enter" && event.target === byId("search")) canvas.focus();
    return;
  }
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

/* --- start --- */

byId("title").textContent = profile.title;
document.title = profile.title;
byId("graph").replaceChildren(...profile.packedGraphs.map((graph, i) => new Option(graphTitle(graph), i)));
byId("graph").addEventListener("change", (event) => chooseGraph(Number(event.target.value)));
byId("view").addEventListener("change", (event) => chooseView(Number(event.target.value)));
byId("top-down").addEventListener("click", () => turn("top-down"));
byId("bottom-up").addEventListener("click", () => turn("bottom-up"));
byId("reset").addEventListener("click", () => zoom(state.tree.root));
byId("search").addEventListener("input", showMatches);
scroll.addEventListener("scroll", () => { hideTip(); drawSoon(); });
dark.addEventListener("change", drawSoon);
new ResizeObserver(relayout).observe(scroll);

if (profile.packedGraphs.length > 0) {
  chooseGraph(0);
  chooseView(Flame.openingView(Flame.graphOf(profile, 0)));
}
