// SPDX-License-Identifier: Apache-2.0
// Profiles to open: those that are open now, and those that heap_profile wrote lately.
import { LongName } from "../long_name";
import { useState } from "preact/hooks";
import { profileTitle } from "../model";
import { select } from "../state";
import type { Profile } from "../types";
import { bytesInWords, plural, timeInWords } from "../words";

/** A profile in a directory that heap_profile made. What is not cheap to know is unknown. */
export interface RecentProfile {
  path: string;
  time_ms: number;
  bytes: number;
  recorder_pid: number | null; // of the heap_profile that still writes to it
  command: string | null; // null: not known yet
  processes: { pid: number; name: string }[]; // the first that have a dump as a file
  dump_files: number;
}

function ageInWords(time: number): string {
  const seconds = Math.max(Date.now() - time, 0) / 1000;
  if (seconds > 36 * 3600) return new Date(time).toLocaleDateString();
  if (seconds < 2) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  return `${timeInWords(60 * Math.floor(seconds / 60)).replace(" 0 s", "")} ago`;
}

function nameOf({ processes, command, path }: RecentProfile): string {
  if (processes.length > 0) return processes.map(({ name, pid }) => `${name} (${pid})`).join(", ");
  return command?.split(" ")[0]?.split("/").pop() || path.split("/").pop()!;
}

export interface RecentProps {
  profiles: RecentProfile[];
  hasMore: boolean;
  isBusy: boolean;
  onOpen: (paths: string[]) => void;
}

export function Recent({ profiles, hasMore, isBusy, onOpen }: RecentProps) {
  const [ticked, setTicked] = useState<string[]>([]);
  // In the order of time: the first is what the second is compared with.
  const pair = profiles.filter(({ path }) => ticked.includes(path)).map(({ path }) => path).reverse();
  const tick = (path: string) => setTicked((last) => (last.includes(path) ? last.filter((one) => one !== path) : [...last, path].slice(-2)));
  return (
    <>
      <div class="section-head">
        <h2>Recent profiles</h2>
        <button type="button" disabled={pair.length !== 2 || isBusy} onClick={() => onOpen(pair)}>Compare the two</button>
        <span class="faint">{pair.length === 2 ? "the older one is the base" : "tick two to compare them"}</span>
      </div>
      <table class="plain recent" aria-label="Recent profiles">
        <thead><tr><th class="tick"><span class="sr-only">Compare</span></th><th>Process</th><th>Command</th><th class="number">When</th><th class="number">Size</th><th class="number">Dumps</th></tr></thead>
        <tbody>
          {profiles.map((profile) => (
            <tr key={profile.path}>
              <td class="tick"><input type="checkbox" aria-label={`Compare ${profile.path}`} checked={ticked.includes(profile.path)} onChange={() => tick(profile.path)} /></td>
              <td class="what">
                <button type="button" class="link" disabled={isBusy} onClick={() => onOpen([profile.path])}><LongName name={nameOf(profile)} /></button>
                {profile.recorder_pid !== null && <b class="profiled"> recording</b>}
                <div class="where" title={profile.path}><span>{profile.path}</span></div>
              </td>
              <td class="command"><code title={profile.command ?? ""}>{profile.command ?? "unknown"}</code></td>
              <td class="number" title={new Date(profile.time_ms).toLocaleString()}>{ageInWords(profile.time_ms)}</td>
              <td class="number">{bytesInWords(profile.bytes)}</td>
              <td class="number">{profile.dump_files > 0 ? profile.dump_files : <span class="faint" title="There are no pprof files in the directory">unknown</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {hasMore && <p class="faint">Older ones are not listed: <code>heap_profile view DIR</code> opens any.</p>}
    </>
  );
}

const COMMANDS: [command: string, meaning: string][] = [
  ["heap_profile host -- COMMAND", "record a program from its start"],
  ["heap_profile -p PID", "record a process that runs"],
  ["heap_profile -n NAME", "record all processes of this name, now and later"],
];

/** What to do on a machine where nothing was ever recorded. */
export function FirstSteps() {
  return (
    <div class="first-steps">
      <div class="section-head"><h2>Recent profiles</h2></div>
      <p>Nothing has been recorded here yet. <button type="button" class="link" onClick={() => select({ page: "record" })}>Record</button> begins a recording; so do these commands:</p>
      <dl>{COMMANDS.map(([command, meaning]) => [<dt key={command}><code>{command}</code></dt>, <dd key={meaning}>{meaning}</dd>])}</dl>
      <p class="faint">Profiles of other tools open, too: type the path of a file above.</p>
    </div>
  );
}

/** The profiles that are open; each can be closed. */
export function Shown({ profiles, isBusy, onKeep }: { profiles: Profile[]; isBusy: boolean; onKeep: (paths: string[]) => void }) {
  if (profiles.length === 0) return null;
  return (
    <div class="shown">
      <h2>Open: {plural(profiles.length, "profile")}</h2>
      <ul>
        {profiles.map((profile) => (
          <li key={profile.path}>
            <b>{profileTitle(profile)}</b> <span class="where">{profile.path}</span>
            <button type="button" disabled={isBusy} aria-label={`Close ${profile.path}`}
              onClick={() => onKeep(profiles.filter((one) => one !== profile).map((one) => one.path))}>Close</button>
          </li>
        ))}
      </ul>
    </div>
  );
}
