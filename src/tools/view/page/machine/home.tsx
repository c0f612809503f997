// SPDX-License-Identifier: Apache-2.0
// The start page: profiles to open, sessions that run, and the processes that are worth a look.
import { useState } from "preact/hooks";
import { askMachine, askOverview, useAnswer } from "../source";
import { useChecks } from "./checks";
import { goToProfiles, openProfiles } from "./open";
import { usePolled } from "./polled";
import { askProcesses, sessionsByPid } from "./process_list";
import { FirstSteps, Recent, Shown, type RecentProfile } from "./recent";
import { askRecordings, type Session } from "./recordings";
import { Largest, Sessions } from "./running";
import { useSessionActions } from "./session_actions";

const POLL_MS = 2000;
const POLL_RECENT_MS = 5000;

const askRecent = (signal: AbortSignal) => askMachine<{ profiles: RecentProfile[]; more: boolean }>("api/recent", signal);

function OpenPath({ isBusy, onOpen }: { isBusy: boolean; onOpen: (path: string) => void }) {
  const [path, setPath] = useState("");
  return (
    <form class="open-path" onSubmit={(event) => { event.preventDefault(); if (path !== "") onOpen(path); }}>
      <input aria-label="Path of a profile" placeholder="/path/of/a/profile" value={path} spellcheck={false} autocomplete="off" onInput={(event) => setPath(event.currentTarget.value)} />
      <button type="submit" disabled={isBusy || path === ""}>Open</button>
      <span class="faint">a directory that heap_profile wrote, or a file of any tool that it reads</span>
    </form>
  );
}

/** Open profiles, one request at a time. Errors are words. */
function useOpener() {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const run = (work: () => Promise<void>) => {
    setBusy(true);
    setError("");
    work().catch((failure: Error) => setError(failure.message)).finally(() => setBusy(false));
  };
  return { isBusy, error, open: (paths: string[]) => run(() => goToProfiles(paths)), keep: (paths: string[]) => run(() => openProfiles(paths)) };
}

export function HomePage() {
  const { value: overview } = useAnswer("api/overview", (_, signal) => askOverview(signal));
  const recent = usePolled(askRecent, POLL_RECENT_MS);
  const machine = usePolled(askRecordings, POLL_MS);
  const processes = usePolled(askProcesses, POLL_MS);
  const opener = useOpener();
  const actions = useSessionActions(machine.again);
  const own = (processes.value?.processes ?? []).filter((process) => !process.kernel && process.rss !== null).sort((one, other) => other.rss! - one.rss!);
  useChecks(own.slice(0, 8));
  const found = recent.value?.profiles ?? [];
  const pathOf = (session: Session) => found.find((profile) => profile.recorder_pid === session.requester_pid)?.path;
  const failure = opener.error || (actions.isBad ? actions.said : "");
  return (
    <section class="panel machine home" aria-label="Start">
      <OpenPath isBusy={opener.isBusy} onOpen={(path) => opener.open([path])} />
      <p class={`said${failure !== "" ? " bad" : ""}`} role="status">{failure || (opener.isBusy ? "Reading the profile …" : actions.said)}</p>
      <Shown profiles={overview?.profiles ?? []} isBusy={opener.isBusy} onKeep={opener.keep} />
      <div class="columns">
        <section aria-label="Recent profiles">
          {recent.error !== "" ? <p class="bad">{recent.error}</p>
            : !recent.value ? <p class="faint">Looking for profiles …</p>
              : found.length === 0 ? <FirstSteps />
                : <Recent profiles={found} hasMore={recent.value.more} isBusy={opener.isBusy} onOpen={opener.open} />}
        </section>
        <div>
          <Sessions sessions={machine.value?.status?.sessions ?? []} pathOf={pathOf} isBusy={opener.isBusy} onOpen={(path) => opener.open([path])}
            onSnapshot={actions.snapshot} onStop={actions.stop} />
          <Largest processes={own} sessions={sessionsByPid(machine.value)} />
        </div>
      </div>
    </section>
  );
}
