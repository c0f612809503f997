// SPDX-License-Identifier: Apache-2.0
// Saves what is selected as a file: the server writes those of other tools, the page draws the images.
import { useState } from "preact/hooks";
import { courseCsv, graphCsv, panelCsv, tableCsv } from "./csv";
import { BarError } from "./error";
import { Menu, type MenuEntry } from "../flame/menu";
import { askShown, mainDirection } from "../flame/shown";
import { css, LEGEND_MAX, legendOf, type Rgb, type Theme } from "../flame/colours";
import { drawSvg, type SvgGraph } from "../flame/svg";
import { baseOf, dumpIndex, dumpTitle, processTitle, profileTitle, viewOf, type Place } from "../model";
import { isSaved } from "../saved/saved";
import { askFile, panelParameters, selectionParameters, treePath } from "../source";
import { filterInWords, formatSelection, onlyInWords, type Selection } from "../state";
import { CONTROLS } from "../spell_out";
import { useTheme } from "../theme";
import { nameOf } from "../tree";
import type { Overview } from "../types";
import { amountInWords } from "../words";

const FORMATS = [
  { title: "For pprof", key: "p", format: "pprof", ending: ".pb.gz" },
  { title: "Collapsed stacks", key: "c", format: "collapsed", ending: ".collapsed" },
  { title: "For Speedscope", key: "s", format: "speedscope", ending: ".speedscope.json" },
  { title: "JSON", key: "j", format: "json", ending: ".json" },
];

const TITLE_MOST = 200;

/** Let the browser save a file. */
export function save(blob: Blob, name: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function fileName(place: Place, selection: Selection): string {
  const parts = [processTitle(place.process), place.heap.name, String(dumpIndex(place.heap, selection.dump) + 1), selection.view];
  return parts.map((part) => part.replace(/[^\w.-]+/g, "_").replace(/^_|_$/g, "")).join("-");
}

/** Return the question for a file. JSON is of the graph: its direction, and the part that is zoomed to. */
function exportPath(selection: Selection, format: string): string {
  const isGraph = format === "json" && selection.tab === "flame";
  const path = isGraph ? treePath(selection, mainDirection(selection), selection.zoom) : `api/tree?${panelParameters(selection)}`;
  return `${path.replace("api/tree", "api/export")}&format=${format}`;
}

const LINE = 20; // pixels of CSS
const MARGIN = 12;
const SWATCH = 12;
const LEGEND_WIDTH = 200;

/** Draw lines of text and what the colours mean, and return the height. */
function drawHead(context: CanvasRenderingContext2D, width: number, head: string[], legend: Legend, theme: Theme): number {
  const room = (text: string, most: number) => (text.length * 7 > most ? `${text.slice(0, most / 7)}…` : text).replace(CONTROLS, "\ufffd");
  context.textBaseline = "middle";
  context.fillStyle = css(theme.text);
  for (const [i, line] of head.entries()) {
    context.font = `${i === 0 ? "bold " : ""}13px system-ui, sans-serif`;
    context.fillText(room(line, width - 2 * MARGIN), MARGIN, MARGIN + (i + 0.5) * LINE);
  }
  context.font = "12px system-ui, sans-serif";
  const columns = columnsOf(width);
  for (const [i, { words, fill }] of legend.entries()) {
    const x = MARGIN + (i % columns) * LEGEND_WIDTH;
    const y = MARGIN + (head.length + Math.floor(i / columns) + 0.5) * LINE;
    context.fillStyle = css(fill);
    context.fillRect(x, y - SWATCH / 2, SWATCH, SWATCH);
    context.fillStyle = css(theme.text);
    context.fillText(room(words, LEGEND_WIDTH - 2 * SWATCH), x + 1.5 * SWATCH, y);
  }
  return headHeight(width, head, legend);
}

type Legend = { words: string; fill: Rgb }[];
const columnsOf = (width: number) => Math.max(Math.floor((width - 2 * MARGIN) / LEGEND_WIDTH), 1);
const headHeight = (width: number, head: string[], legend: Legend) => 2 * MARGIN + LINE * (head.length + Math.ceil(legend.length / columnsOf(width)));

/** Save the canvas as it is shown, below its title, scale and legend; callers and callees are one image. */
async function saveImage(name: string, head: string[], legend: Legend, theme: Theme) {
  const shown = [...document.querySelectorAll<HTMLCanvasElement>(".flame-scroll canvas")];
  const whole = document.createElement("canvas");
  const width = Math.max(...shown.map((canvas) => canvas.width));
  const scale = width / Math.max(...shown.map((canvas) => canvas.clientWidth), 1);
  const above = Math.round(headHeight(width / scale, head, legend) * scale);
  whole.width = width;
  whole.height = shown.reduce((sum, canvas) => sum + canvas.height, above);
  const context = whole.getContext("2d")!;
  context.fillStyle = css(theme.ground);
  context.fillRect(0, 0, whole.width, whole.height);
  context.scale(scale, scale);
  drawHead(context, width / scale, head, legend, theme);
  context.resetTransform();
  let y = above;
  for (const canvas of shown) {
    context.drawImage(canvas, 0, y);
    y += canvas.height;
  }
  const blob = await new Promise<Blob | null>((resolve) => whole.toBlob(resolve));
  if (blob) save(blob, `${name}.png`);
}

/** Say in a few lines what a graph is of. */
function headOf(overview: Overview, place: Place, selection: Selection): string[] {
  const index = dumpIndex(place.heap, selection.dump);
  const base = baseOf(overview, place, selection.base);
  const view = viewOf(overview, selection.view);
  const lines = [
    `${processTitle(place.process)}, ${place.heap.name}: ${base ? "change of " : ""}${view.title}`,
    `dump ${dumpTitle(place, index)}`,
  ];
  if (base) lines[1] += `, since dump ${dumpTitle(base.place, base.index)}${base.place.heap === place.heap ? "" : ` of ${processTitle(base.place.process)}`}`;
  if (selection.filters.length > 0) lines.push(`filters: ${selection.filters.map(filterInWords).join("  ")}`);
  if (selection.only.length > 0) lines.push(`only: ${selection.only.map(onlyInWords).join("  ")}`);
  if (selection.search !== "") lines.push(`searched: ${selection.search}`);
  return lines;
}

/** Say how much a graph's width stands for; `span`: the share of the whole that is seen. */
function scaleInWords({ tree }: SvgGraph, span: number, { width }: Selection): string {
  const of = !tree.lost ? "" : { larger: ", the larger side of each stack", after: ", what is there after", change: ", what has changed" }[width];
  return `the width is ${amountInWords((tree.width[0] ?? 0) * span, tree.header.counts)}${of}`;
}

export function Export({ overview, place, selection }: { overview: Overview; place: Place; selection: Selection }) {
  const { theme } = useTheme();
  const [at, setAt] = useState<{ x: number; y: number } | null>(null);
  const [error, setError] = useState("");
  const name = fileName(place, selection);

  async function attempt(write: () => Promise<void>) {
    setError("");
    try {
      await write();
    } catch (refusal) {
      setError((refusal as Error).message);
    }
  }
  const saveAs = async (format: string, ending: string) => save(await askFile(exportPath(selection, format)), name + ending);
  async function askedImage() {
    const graphs = await askShown(selection);
    const head = headOf(overview, place, selection);
    if (graphs.length > 1) head.push(`callers and callees of ${nameOf(graphs[1]!.tree, 0)}`);
    const graph = graphs[graphs.length - 1]!;
    return { graph, graphs, head };
  }
  async function saveSvg() {
    const { graph, graphs, head } = await askedImage();
    head.push(scaleInWords(graph, graph.to - graph.from, selection));
    save(new Blob([drawSvg(graphs, head, theme)], { type: "image/svg+xml" }), `${name}.svg`);
  }
  async function savePng() {
    const { graph, head } = await askedImage();
    const shown = document.querySelectorAll<HTMLCanvasElement>(".flame-scroll canvas");
    head.push(scaleInWords(graph, Number(shown[shown.length - 1]?.dataset.span), selection));
    await saveImage(name, head, legendOf(graph.tree, theme).slice(0, LEGEND_MAX), theme);
  }
  async function savePage() {
    const title = overview.profiles.map(profileTitle).join(", ").slice(0, TITLE_MOST);
    save(await askFile(`api/save?${selectionParameters({ ...selection, filters: [], only: [] })}&${new URLSearchParams({ title, fragment: formatSelection(selection) })}`), `${name}.html`);
  }
  const entries: MenuEntry[] = FORMATS.filter(({ format }) => !isSaved || format !== "pprof")
    .map(({ title, key, format, ending }) => ({ title, key, run: () => void attempt(() => saveAs(format, ending)) }));
  if (selection.tab === "flame") {
    entries.push({ title: "The graph as SVG", key: "g", run: () => void attempt(saveSvg) });
    entries.push({ title: "The graph as an image", key: "i", run: () => void attempt(savePng) });
  }
  const saveCsv = async (text: string, what: string) => save(new Blob([text], { type: "text/csv" }), `${name}-${what}.csv`);
  if (selection.tab === "table") entries.push({ title: "The table as CSV", key: "t", run: () => void attempt(async () => saveCsv(await tableCsv(selection), selection.by)) });
  else if (selection.tab === "flame") entries.push({ title: "The boxes as CSV", key: "t", run: () => void attempt(async () => saveCsv(await graphCsv(selection), "boxes")) });
  else if (selection.tab !== "details") entries.push({ title: "The tables as CSV", key: "t", run: () => void attempt(async () => saveCsv(panelCsv(), selection.tab)) });
  if (selection.over !== "") entries.push({ title: "The timeline as CSV", key: "l", run: () => void attempt(async () => saveCsv(await courseCsv(selection, place), "over-time")) });
  if (!isSaved) entries.push({ title: "This page, as a file", key: "h", run: () => void attempt(savePage) });
  if (entries.length === 0) return null;
  return (
    <>
      <BarError message={error} onClose={() => setError("")} />
      <button type="button" aria-haspopup="menu" onClick={(event) => {
        const box = event.currentTarget.getBoundingClientRect();
        setAt({ x: box.left, y: box.bottom + 4 });
      }}>Export</button>
      {at && <Menu title="Export" entries={entries} x={at.x} y={at.y} onClose={() => setAt(null)} />}
    </>
  );
}
