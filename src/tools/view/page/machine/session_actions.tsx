// SPDX-License-Identifier: Apache-2.0
// What a click does to a session: take a dump, end it, save a dump of a process as a file. The page says how
// it went.
import { useState } from "preact/hooks";
import { save } from "../bar/export";
import { Menu } from "../flame/menu";
import { askFile } from "../source";
import { askSession } from "./recordings";

export const DUMP_FORMATS = [
  { title: "The trace so far", key: "t", format: "trace", ending: ".trace" },
  { title: "Its newest dump for pprof", key: "p", format: "pprof", ending: ".pb.gz" },
  { title: "Its newest dump as MemoryInfra", key: "m", format: "memory_infra", ending: ".json.gz" },
] as const;
export type DumpFormat = (typeof DUMP_FORMATS)[number];

export function useSessionActions(onDone: () => void) {
  const [{ said, isBad }, say] = useState({ said: "", isBad: false });
  const run = (doing: string, work: () => Promise<string>) => {
    say({ said: doing, isBad: false });
    work().then(
      (done) => {
        say({ said: done, isBad: false });
        onDone();
      },
      (error: Error) => say({ said: error.message, isBad: true }),
    );
  };
  return {
    said,
    isBad,
    snapshot: (session: number) => run(`Taking a dump of session ${session} …`, async () => (await askSession("snapshot", session)).message),
    stop: (session: number) => run(`Ending session ${session} …`, async () => (await askSession("stop", session)).message),
    save: (pid: number, { format, ending }: DumpFormat) =>
      run(`Taking a dump of process ${pid} …`, async () => {
        const file = await askFile(`api/dump?pid=${pid}&format=${format}`, "POST");
        save(file, `${pid}${ending}`);
        return `Saved ${pid}${ending}.`;
      }),
  };
}

export function SaveMenu({ pid, x, y, onSave, onClose }: { pid: number; x: number; y: number; onSave: (format: DumpFormat) => void; onClose: () => void }) {
  const entries = DUMP_FORMATS.map((format) => ({ title: format.title, key: format.key, run: () => onSave(format) }));
  return <Menu title={`Save a dump of process ${pid}`} entries={entries} x={x} y={y} onClose={onClose} />;
}
