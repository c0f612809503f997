// SPDX-License-Identifier: Apache-2.0
// The recording page: a form and the command line that it means, side by side and each made from the other;
// below them what runs. When a recording that was begun here has ended, the page goes to its timeline.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useSelection } from "../state";
import { argumentsOf, directoryOf, EMPTY_FORM, formOf, lineOf, missingIn, splitWords, type Form } from "./command_line";
import { askConfiguration, askDoctor, askRecordings, endRecording, extend, obstaclesIn, startRecording, type Machine, type Recording } from "./recordings";
import { goToProfiles } from "./open";
import { usePolled } from "./polled";
import { RecordForm } from "./record_form";
import { courseKey, OtherSessions, OwnRecordings, type Courses } from "./record_live";

const POLL_MS = 1000;
const TYPING_MS = 300;

// The form stays as it is while another page is shown.
let keptForm: Form = EMPTY_FORM;
// Recordings that were begun here, until their timeline has been opened; those that the user has ended.
const followed = new Set<number>();
const asked = new Set<number>();

/** What runs, asked for once a second, and how its processes have gone. */
function useMachine(): { machine: Machine | null; error: string; courses: Courses; ask: () => void } {
  const { value: machine, error, again } = usePolled(askRecordings, POLL_MS);
  const courses = useRef<Courses>(new Map());
  useMemo(() => {
    for (const session of machine?.status?.sessions ?? [])
      for (const process of session.processes) {
        const key = courseKey(session, process);
        courses.current.set(key, extend(courses.current.get(key) ?? [], session, process));
      }
  }, [machine]);
  return { machine, error, courses: courses.current, ask: again };
}

/** Ask when `words` have not changed for a moment; null: ask nothing. */
function useAnswerOf<T>(words: string[] | null, ask: (words: string[], signal: AbortSignal) => Promise<T>): { value: T | null; error: string } {
  const [answer, set] = useState<{ value: T | null; error: string }>({ value: null, error: "" });
  const key = JSON.stringify(words);
  useEffect(() => {
    if (words === null) return set({ value: null, error: "" });
    const control = new AbortController();
    const timer = setTimeout(() => {
      ask(words, control.signal).then((value) => set({ value, error: "" }), (error: Error) => !control.signal.aborted && set({ value: null, error: error.message }));
    }, TYPING_MS);
    return () => {
      control.abort();
      clearTimeout(timer);
    };
  }, [key]);
  return answer;
}

/** What doctor says about the target, if it is one process or a command. */
function Examined({ form }: { form: Form }) {
  const command = splitWords(form.command)[0] ?? "";
  const words = form.target === "pid" && /^\d+$/.test(form.pid.trim()) ? ["-p", form.pid.trim()]
    : form.target === "command" && command !== "" ? ["--", command] : null;
  const { value } = useAnswerOf(words, askDoctor);
  if (!value || words === null) return null;
  if (value.works) return <p class="faint" role="status">heap_profile doctor: it can be profiled.</p>;
  return (
    <div class="record-obstacles bad" role="status">
      <p>heap_profile doctor: it cannot be profiled.</p>
      <ul class="notes">{obstaclesIn(value.text).map((line, i) => <li key={i}>{line}</li>)}</ul>
    </div>
  );
}

function CommandLine({ form, setForm }: { form: Form; setForm: (form: Form) => void }) {
  const [draft, setDraft] = useState<string | null>(null);
  const line = lineOf(form);
  return (
    <div class="record-line">
      <label for="command-line">Command line</label>
      <textarea id="command-line" rows={3} spellcheck={false} value={draft ?? line}
        onFocus={() => setDraft(line)} onBlur={() => setDraft(null)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.isComposing) return;
          event.preventDefault();
          event.currentTarget.form?.requestSubmit();
        }}
        onInput={(event) => {
          setDraft(event.currentTarget.value);
          setForm(formOf(event.currentTarget.value, form));
        }} />
      <button type="button" onClick={() => void navigator.clipboard.writeText(line)}>Copy</button>
      {form.values["output"] === undefined || form.values["output"] === ""
        ? <p class="faint">The page adds <code>-o</code> with a new directory, to find the profile.</p> : null}
    </div>
  );
}

/** The configuration of the command line, or what is wrong with that. */
function Configuration({ words, missing, isHost }: { words: string[]; missing: string; isHost: boolean }) {
  const { value, error } = useAnswerOf(missing === "" ? words : null, askConfiguration);
  if (missing !== "") return <p class="record-configuration faint">{missing}</p>;
  if (error !== "") return <div class="record-configuration"><p class="bad" role="alert">{error}</p></div>;
  return (
    <div class="record-configuration">
      <h2>Perfetto configuration</h2>
      {value?.warnings && <p class="warn">{value.warnings}</p>}
      {value && (
        <>
          <pre tabIndex={0} aria-label="Perfetto configuration">{value.text}</pre>
          <button type="button" onClick={() => void navigator.clipboard.writeText(value.text)}>Copy</button>
          <span class="faint"> heap_profile record -c FILE runs it{isHost && ", but starts no command"}.</span>
        </>
      )}
    </div>
  );
}

function useForm(): [Form, (form: Form) => void] {
  const { pid } = useSelection();
  const [form, set] = useState<Form>(keptForm);
  const setForm = (next: Form) => {
    keptForm = next;
    set(next);
  };
  useEffect(() => {
    if (pid !== null) setForm({ ...keptForm, target: "pid", pid: String(pid) });
  }, [pid]);
  return [form, setForm];
}

/** Show a recording's profile, at its timeline. */
function openTimeline(recording: Recording) {
  followed.delete(recording.id);
  return goToProfiles([recording.directory]);
}

function end(recording: Recording) {
  asked.add(recording.id);
  return endRecording(recording.id);
}

/** Go to the timeline of a recording that was begun here as it ends, unless it failed. */
function useFollowed(machine: Machine | null, open: (recording: Recording) => void) {
  useEffect(() => {
    for (const recording of machine?.recordings ?? []) {
      if (recording.running || !followed.has(recording.id)) continue;
      followed.delete(recording.id);
      if (recording.has_trace && (recording.exit_code === 0 || asked.has(recording.id))) open(recording);
    }
  }, [machine]);
}

export function RecordPage() {
  const [form, setForm] = useForm();
  const [error, setError] = useState("");
  const page = useRef<HTMLElement>(null);
  const { machine, error: problem, courses, ask } = useMachine();
  const missing = missingIn(form);
  const words = argumentsOf(form);
  const say = (failure: Error) => setError(failure.message);
  const open = (recording: Recording) => void openTimeline(recording).catch(say);
  useFollowed(machine, open);
  function start() {
    setError("");
    startRecording(words, directoryOf(form)).then(({ id }) => {
      followed.add(id);
      page.current?.scrollTo({ top: 0 });
      ask();
    }, say);
  }
  return (
    <section class="panel machine record" aria-label="Record" ref={page}>
      {problem !== "" && <p class="bad" role="alert">{problem}</p>}
      {machine && <OwnRecordings machine={machine} courses={courses} open={open} end={end} />}
      <form onSubmit={(event) => {
        event.preventDefault();
        if (missing === "") start();
      }}>
        <RecordForm form={form} change={(change) => setForm({ ...form, ...change })}><Examined form={form} /></RecordForm>
        <div class="record-side">
          <CommandLine form={form} setForm={setForm} />
          <p class="record-start">
            <button type="submit" class="primary" disabled={missing !== ""}>Start recording</button>
            {machine?.working_directory && form.target === "command" && <span class="faint">in <code>{machine.working_directory}</code></span>}
          </p>
          {error !== "" && <p class="bad" role="alert">{error}</p>}
          <Configuration words={words} missing={missing} isHost={form.target === "command"} />
        </div>
      </form>
      {machine && <OtherSessions machine={machine} courses={courses} />}
    </section>
  );
}
