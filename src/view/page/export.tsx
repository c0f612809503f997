// SPDX-License-Identifier: Apache-2.0
// Saves what is selected as a file: for pprof, as collapsed stacks, for Speedscope, or what the flame
// graph shows as an image.
import { useState } from "preact/hooks";
import { BarError } from "./bar_error";
import { Menu, type MenuEntry } from "./flame/menu";
import { dumpIndex, processTitle, type Place } from "./model";
import { isSaved } from "./saved";
import { askFile, selectionParameters } from "./source";
import type { Selection } from "./state";

const FORMATS = [
  { title: "For pprof", key: "p", format: "pprof", ending: ".pb.gz" },
  { title: "Collapsed stacks", key: "c", format: "collapsed", ending: ".collapsed" },
  { title: "For Speedscope", key: "s", format: "speedscope", ending: ".speedscope.json" },
];

function save(blob: Blob, name: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function nameOf(place: Place, selection: Selection): string {
  const parts = [processTitle(place.process), place.heap.name, String(dumpIndex(place.heap, selection.dump) + 1), selection.view];
  return parts.map((part) => part.replace(/[^\w.-]+/g, "_").replace(/^_|_$/g, "")).join("-");
}

function saveImage(name: string) {
  const canvas = document.querySelector<HTMLCanvasElement>(".flame-scroll canvas");
  canvas?.toBlob((blob) => blob && save(blob, `${name}.png`));
}

export function Export({ place, selection }: { place: Place; selection: Selection }) {
  const [at, setAt] = useState<{ x: number; y: number } | null>(null);
  const [error, setError] = useState("");
  const name = nameOf(place, selection);

  async function saveAs(format: string, ending: string) {
    const parameters = selectionParameters(selection);
    parameters.set("format", format);
    setError("");
    try {
      save(await askFile(`api/export?${parameters}`), name + ending);
    } catch (refusal) {
      setError((refusal as Error).message);
    }
  }
  const entries: MenuEntry[] = isSaved ? []
    : FORMATS.map(({ title, key, format, ending }) => ({ title, key, run: () => void saveAs(format, ending) }));
  if (selection.tab === "flame") entries.push({ title: "The graph as an image", key: "i", run: () => saveImage(name) });
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
