// SPDX-License-Identifier: Apache-2.0
// How the process of the chosen heap ended, if it did not end well: what `heap_profile oom` says of it. What it held
// at its last dump, and what had grown since the one before, are in the leaks' panel.
import { dumpChoice, isKept, type Place } from "./model";
import { select, type Selection } from "./state";
import type { ProcessEnd } from "./types";
import { bytesInWords, capitalized, timeInWords } from "./words";

/** The memory of the process and its cgroup at the end; what is unknown is said of the first two. */
export function memoryAtEnd({ rss_bytes: rss, limit_bytes: limit, used_bytes: used, peak_bytes: peak }: ProcessEnd): string {
  const parts = [rss === null ? "resident size unknown" : `resident ${bytesInWords(rss)} at the last look`];
  if (limit === null) return `${parts[0]}; no limit of its cgroup is known`;
  parts.push(`limit of its cgroup ${bytesInWords(limit)}`);
  if (used !== null) parts.push(`seen in use ${bytesInWords(used)}`);
  if (peak !== null) parts.push(`its highest use ${bytesInWords(peak)}`);
  return parts.join(", ");
}

function whenInWords({ profile, process }: Place): string {
  if (profile.realtime_ns === null || !process?.end_time) return "";
  const date = new Date(Number(BigInt(profile.realtime_ns) / 1_000_000n) + process.end_time / 1e6);
  return Number.isNaN(date.getTime()) ? "" : `, at ${date.toLocaleString()}`;
}

export function Ended({ place }: { place: Place }) {
  const { heap, process } = place;
  const end = process?.end;
  const last = heap.dumps.length - 1;
  if (!end || last < 0) return null;
  const before = last > 0 && isKept(heap, last - 1) ? heap.dumps[last - 1]! : null;
  const go = (change: Partial<Selection>) => select({ tab: "leaks", dump: dumpChoice(heap, last), filters: [], only: [], search: "", view: "space", ...change });
  return (
    <section class="ended" aria-label="How the process ended">
      <h2>How the process ended</h2>
      <p class={end.oom_killer ? "warn" : ""}>{capitalized(end.words)}{whenInWords(place)}.</p>
      <p>Memory: {memoryAtEnd(end)}.{end.cgroup !== null && <> Its cgroup: <code>{end.cgroup}</code>.</>}</p>
      <p><button type="button" class="link shows" onClick={() => go({ base: "" })}>What it held at its last dump</button></p>
      {before ? (
        <p><button type="button" class="link shows" onClick={() => go({ base: String(last - 1) })}>What had grown since the dump before</button>
          , {timeInWords((heap.dumps[last]!.time - before.time) / 1e9)} earlier{before.cause && `, which was taken because ${before.cause}`}</p>
      ) : <p class="faint">There is no dump before, so what grew is unknown.</p>}
    </section>
  );
}
