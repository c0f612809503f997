// SPDX-License-Identifier: Apache-2.0
// Opens the trace in Perfetto UI. The first click lets the server hand it to https://ui.perfetto.dev; the
// second follows the link, which a browser lets only the user do.
import { useEffect, useRef, useState } from "preact/hooks";
import { BarError } from "./error";
import { askPerfetto } from "../source";

export function Perfetto({ profile }: { profile: number }) {
  const [{ url, error }, set] = useState({ url: "", error: "" });
  const link = useRef<HTMLAnchorElement>(null);
  useEffect(() => link.current?.focus(), [url]);

  async function ask() {
    try {
      set({ url: await askPerfetto(profile), error: "" });
    } catch (refusal) {
      set({ url: "", error: (refusal as Error).message });
    }
  }
  if (url !== "")
    return (
      <a class="button" href={url} target="_blank" rel="noopener noreferrer" ref={link}
        title="Opens ui.perfetto.dev in a new tab; it reads the trace from this machine">Open Perfetto UI</a>
    );
  return (
    <>
      <BarError message={error} onClose={() => set({ url: "", error: "" })} />
      <button type="button" onClick={ask}
        title="Let https://ui.perfetto.dev in this browser read the trace, from 127.0.0.1:9001, until heap_profile view ends">Perfetto UI</button>
    </>
  );
}
