// SPDX-License-Identifier: Apache-2.0
// What runs: the recordings that the page began, and other sessions of this machine that the user may see.
import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { lossInWords } from "../sentences";
import { bytesInWords, countInWords, intervalInWords, plural, shareInWords, timeInWords } from "../words";
import { joinWords } from "./command_line";
import { askSession, endInWords, messagesIn, otherSessions, rateOf, sessionOf, type Course, type Machine, type Recording, type Session, type SessionProcess } from "./recordings";

export type Courses = Map<string, Course>;
export const courseKey = (session: Session, process: SessionProcess) => `${session.id} ${process.pid}`;

const SPARK_WIDTH = 120;
const SPARK_HEIGHT = 24;

function Sparkline({ course }: { course: Course }) {
  const first = course[0];
  const last = course[course.length - 1];
  if (!first || !last || last.ms <= first.ms) return null;
  const most = Math.max(...course.map((point) => point.live), 1);
  const points = course.map((point) => `${(1 + ((point.ms - first.ms) / (last.ms - first.ms)) * (SPARK_WIDTH - 2)).toFixed(1)} ${(SPARK_HEIGHT - 2 - (point.live / most) * (SPARK_HEIGHT - 4)).toFixed(1)}`);
  return (
    <svg class="spark" width={SPARK_WIDTH} height={SPARK_HEIGHT} role="img" aria-label={`Live bytes over the last ${timeInWords((last.ms - first.ms) / 1000)}`}>
      <path class="spark-line" d={`M${points.join("L")}`} />
    </svg>
  );
}

function ringInWords(ring: SessionProcess["ring"]): string {
  if (ring === null) return "closed";
  const share = (bytes: number) => (bytes === 0 ? "0 %" : shareInWords(bytes, ring.bytes));
  return `${share(ring.used_bytes)}, most ${share(ring.most_bytes)}`;
}

function intervalOf(process: SessionProcess): string {
  if (process.interval_bytes === 0) return "not malloc";
  if (process.interval_bytes === 1) return "1: every one";
  const now = intervalInWords(process.interval_bytes);
  return process.interval_bytes > process.first_interval_bytes ? `${now}, raised from ${intervalInWords(process.first_interval_bytes)}` : now;
}

/** A process, and below it what it has lost and why. */
function processRows(process: SessionProcess, course: Course) {
  const rate = rateOf(course);
  const wasRaised = process.interval_bytes > process.first_interval_bytes;
  const isNearlyFull = process.ring !== null && process.ring.most_bytes > process.ring.bytes / 2;
  return [
    <tr key="figures">
      <th scope="row"><span class="name">{process.name}</span> <span class="faint">{process.pid}{process.attached && ", attached"}</span></th>
      <td class="number">{bytesInWords(process.live_bytes)}</td>
      <td><Sparkline course={course} /></td>
      <td class="number">{countInWords(process.samples)}</td>
      <td class="number">{rate === null ? "" : countInWords(rate)}</td>
      <td class={process.lost > 0 ? "number bad" : "number"}>{countInWords(process.lost)}</td>
      <td class={isNearlyFull ? "number warn" : "number"}>{ringInWords(process.ring)}</td>
      <td class={wasRaised ? "number warn" : "number"}>{intervalOf(process)}</td>
    </tr>,
    process.losses.length > 0 && (
      <tr key="losses" class="record-losses">
        <td colSpan={8} class="warn">{process.losses.map(lossInWords).join("; ")}</td>
      </tr>
    ),
  ];
}

const PROCESSES_SHOWN = 100;

function Processes({ session, courses }: { session: Session; courses: Courses }) {
  const shown = session.processes.slice(0, PROCESSES_SHOWN);
  if (session.processes.length === 0)
    return <p class="faint">{session.process_count > 0 ? `${plural(session.process_count, "process", "processes")}, which are not yours to see.` : "No process is profiled yet."}</p>;
  return (
    <div class="wide">
      <table class="plain record-processes">
        <thead>
          <tr>
            <th>Process</th><th class="number">Live</th><th><span class="sr-only">Live over time</span></th><th class="number">Samples</th><th class="number">a second</th><th class="number">Lost</th>
            <th class="number" title="Part of the ring that waited when it was last read, and the most ever">Ring</th><th class="number">Interval</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((process) => <Fragment key={process.pid}>{processRows(process, courses.get(courseKey(session, process)) ?? [])}</Fragment>)}
        </tbody>
      </table>
      {session.process_count > shown.length && <p class="faint">and {countInWords(session.process_count - shown.length)} more</p>}
    </div>
  );
}

/** Buttons that ask the server; what it says stays beside them. */
export function useAsk(): [said: { text: string; isBad: boolean }, ask: (what: () => Promise<{ message: string }>) => void, isBusy: boolean] {
  const [said, setSaid] = useState({ text: "", isBad: false });
  const [isBusy, setBusy] = useState(false);
  function ask(what: () => Promise<{ message: string }>) {
    setBusy(true);
    setSaid({ text: "", isBad: false });
    what().then(({ message }) => setSaid({ text: message, isBad: false }), (error: Error) => setSaid({ text: error.message, isBad: true })).finally(() => setBusy(false));
  }
  return [said, ask, isBusy];
}

export function SessionButtons({ session, onStop }: { session: Session; onStop: () => void }) {
  const [said, ask, isBusy] = useAsk();
  const stop = () => askSession("stop", session.id).then((answer) => {
    onStop();
    return answer;
  });
  return (
    <>
      <button type="button" disabled={isBusy} onClick={() => ask(() => askSession("snapshot", session.id))}>Snapshot</button>
      <button type="button" disabled={isBusy} onClick={() => ask(stop)}>Stop</button>
      {said.text !== "" && <span role="status" class={said.isBad ? "bad" : "faint"}>{said.text}</span>}
    </>
  );
}

function SessionFacts({ session }: { session: Session }) {
  return (
    <>
      {timeInWords(session.elapsed_ms / 1000)}, {bytesInWords(session.live_bytes)} live, {countInWords(session.samples)} samples, {countInWords(session.lost)} lost
      {session.silent_ms > 2000 && <span class="warn">; it has not answered for {timeInWords(session.silent_ms / 1000)}</span>}
    </>
  );
}

/** What the page does with a recording of its own. */
export interface RecordingActions {
  open: (recording: Recording) => void; // its timeline
  end: (recording: Recording) => Promise<{ message: string }>;
}

interface RecordingProps extends RecordingActions {
  recording: Recording;
  session: Session | undefined;
  courses: Courses;
}

function RecordingState({ recording, session }: { recording: Recording; session: Session | undefined }) {
  if (session) return <SessionFacts session={session} />;
  if (recording.running && recording.has_trace && recording.is_host) return <>The profile is written or being written; the command goes on.</>;
  if (recording.running) return <>{recording.has_trace ? "Writing the profile…" : "Starting…"}</>;
  const isGood = recording.exit_code === 0 || (recording.is_host && recording.has_trace);
  return <span class={isGood ? "" : "bad"}>After {timeInWords(recording.elapsed_ms / 1000)}: {endInWords(recording)}{!recording.has_trace && "; there is no profile"}</span>;
}

function RecordingCard({ recording, session, courses, open, end }: RecordingProps) {
  const [said, ask, isBusy] = useAsk();
  const messages = messagesIn(recording.output);
  const hasFailed = !recording.running && recording.exit_code !== 0;
  return (
    <article class="recording" aria-label={`Recording ${recording.id}`}>
      <header>
        <code class="command">{joinWords(recording.arguments)}</code>
        <p class="figures"><RecordingState recording={recording} session={session} /></p>
      </header>
      <p class="record-buttons">
        {recording.has_trace && <button type="button" class="primary" onClick={() => open(recording)}>Timeline</button>}
        {session && <SessionButtons session={session} onStop={() => open(recording)} />}
        {recording.running && recording.is_host && (
          <button type="button" disabled={isBusy} onClick={() => ask(() => end(recording))} title="SIGTERM to the command">End command</button>
        )}
        {recording.running && !recording.is_host && !session && <button type="button" disabled={isBusy} onClick={() => ask(() => end(recording))}>End</button>}
        {said.text !== "" && <span role="status" class={said.isBad ? "bad" : "faint"}>{said.text}</span>}
      </p>
      {session && <Processes session={session} courses={courses} />}
      {messages.length > 0 && <ul class="notes">{messages.map((message, i) => <li key={i}>{message}</li>)}</ul>}
      {recording.output !== "" && (
        <details open={hasFailed || undefined}>
          <summary>Output{recording.is_cut && ", its end"}</summary>
          <pre class="record-output">{recording.output}</pre>
        </details>
      )}
    </article>
  );
}

function OtherSession({ session, courses }: { session: Session; courses: Courses }) {
  return (
    <article class="recording" aria-label={`Session ${session.id}`}>
      <header>
        <p>Session {session.id} of user {session.uid}{session.profiler.command && <>: <code class="command">{session.profiler.command}</code></>}</p>
        <p class="figures"><SessionFacts session={session} /></p>
      </header>
      <p class="record-buttons"><SessionButtons session={session} onStop={() => {}} /></p>
      <Processes session={session} courses={courses} />
    </article>
  );
}

const RECENT_MAX = 2;

/** The newest recording first; older ones that have ended are folded. */
export function OwnRecordings({ machine, courses, ...actions }: RecordingActions & { machine: Machine; courses: Courses }) {
  const all = [...machine.recordings].reverse();
  const isRecent = (recording: Recording) => recording.running || all.indexOf(recording) < RECENT_MAX;
  const older = all.filter((recording) => !isRecent(recording));
  const card = (recording: Recording) =>
    <RecordingCard key={recording.id} recording={recording} session={sessionOf(machine, recording)} courses={courses} {...actions} />;
  if (all.length === 0) return null;
  return (
    <section class="recordings" aria-label="Recordings of this page">
      <h2>Recordings of this page</h2>
      {all.filter(isRecent).map(card)}
      {older.length > 0 && <details><summary>{plural(older.length, "older recording")}</summary>{older.map(card)}</details>}
    </section>
  );
}

/** The sessions that the page has not begun. */
export function OtherSessions({ machine, courses }: { machine: Machine; courses: Courses }) {
  const others = otherSessions(machine);
  return (
    <section class="other-sessions" aria-label="Other sessions">
      <h2>Other sessions on this machine</h2>
      {machine.status_error && <p class="bad">{machine.status_error}</p>}
      {others.length === 0 && !machine.status_error && <p class="faint">None that you may see.{machine.status?.version === undefined && " heapprofd does not run: a recording is a session of its own."}</p>}
      {others.map((session) => <OtherSession key={`${session.pid} ${session.id}`} session={session} courses={courses} />)}
    </section>
  );
}
