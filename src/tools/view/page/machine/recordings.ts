// SPDX-License-Identifier: Apache-2.0
// What runs on this machine, as the server tells it once a second, and how it has gone: rates and live bytes
// over time are made here, because the server tells only what is now.
import { askMachine, post } from "../source";
import type { Loss } from "../types";

export interface SessionProcess {
  pid: number;
  name: string;
  live_bytes: number;
  samples: number;
  lost: number;
  attached: boolean;
  interval_bytes: number; // of malloc, now; 0: not profiled
  first_interval_bytes: number;
  ring: { bytes: number; used_bytes: number; most_bytes: number } | null; // null: it sends nothing more
  losses: Loss[];
}

export interface Session {
  id: number;
  uid: number;
  elapsed_ms: number;
  interval_bytes: number;
  profiled: number;
  process_count: number;
  live_bytes: number;
  samples: number;
  lost: number;
  pid: number;
  requester_pid: number;
  silent_ms: number;
  processes: SessionProcess[];
  profiler: { pid: number; command: string | null };
}

/** A recording that the page began. */
export interface Recording {
  id: number;
  pid: number;
  arguments: string[];
  is_host: boolean;
  directory: string;
  has_trace: boolean;
  running: boolean;
  exit_code: number | null;
  elapsed_ms: number;
  output: string;
  is_cut: boolean;
}

export interface Machine {
  working_directory: string | null;
  recordings: Recording[];
  status: { version?: string; pid?: number; sessions: Session[] } | null; // null: nothing runs
  status_error: string | null;
}

export const askRecordings = (signal: AbortSignal) => askMachine<Machine>("api/recordings", signal);
export const startRecording = (words: string[], directory: string) =>
  post<{ id: number; directory: string }>("api/recordings/start", { arguments: words, directory });
export const endRecording = (recording: number) => post<{ message: string }>("api/recordings/end", { recording });
export const askSession = (verb: "stop" | "snapshot", session: number) => post<{ message: string }>(`api/sessions/${verb}`, { session });
export const askConfiguration = (words: string[], signal: AbortSignal) =>
  post<{ text: string; warnings: string | null }>("api/configuration", { arguments: words }, signal);
export const askDoctor = (words: string[], signal: AbortSignal) => post<{ works: boolean; text: string }>("api/doctor", { arguments: words }, signal);

export const sessionOf = (machine: Machine, recording: Recording) =>
  recording.running ? machine.status?.sessions.find((session) => session.requester_pid === recording.pid) : undefined;

/** The sessions that this page has not begun. */
export function otherSessions(machine: Machine): Session[] {
  const own = new Set(machine.recordings.filter((recording) => recording.running).map((recording) => recording.pid));
  return (machine.status?.sessions ?? []).filter((session) => !own.has(session.requester_pid));
}

/** The session that makes a profile: the page's own recording to its directory, or the only one of the process. */
export function sessionOfProfile(machine: Machine, path: string, pid: number): Session | undefined {
  const own = machine.recordings.find((recording) => recording.running && recording.directory !== "" && path.startsWith(`${recording.directory}/`));
  const session = own && sessionOf(machine, own);
  const others = otherSessions(machine).filter((one) => one.processes.some((process) => process.pid === pid));
  return session ?? (others.length === 1 ? others[0] : undefined);
}

// --- over time ---

const POINTS_MAX = 120;

interface Point {
  ms: number; // of the session
  samples: number;
  live: number;
}

/** The last two minutes of a process in a session. */
export type Course = Point[];

/** Append what a process has now. A session that is silent tells the same again. */
export function extend(course: Course, session: Session, process: SessionProcess): Course {
  const point = { ms: session.elapsed_ms - session.silent_ms, samples: process.samples, live: process.live_bytes };
  const last = course[course.length - 1];
  if (last && (point.ms <= last.ms || point.samples < last.samples)) return point.samples < last.samples ? [point] : course;
  return [...course.slice(1 - POINTS_MAX), point];
}

/** Return the samples a second over the last seconds; null: not known yet. */
export function rateOf(course: Course): number | null {
  const last = course[course.length - 1];
  const before = course[Math.max(course.length - 4, 0)];
  if (!last || !before || last.ms <= before.ms) return null;
  return (1000 * (last.samples - before.samples)) / (last.ms - before.ms);
}

// --- in words ---

const EXITS: Record<number, string> = {
  0: "ended",
  1: "failed",
  2: "the command line is wrong",
  3: "no process was profiled",
};
const COMMAND_EXITS: Record<number, string> = {
  0: "the command ended",
  125: "the profiler failed",
  126: "the command could not be run",
  127: "the command was not found",
};
const SIGNAL_FIRST = 128;

/** Say how a recording ended. The exit code of host is the command's, except for those above. */
export function endInWords(recording: Recording): string {
  const code = recording.exit_code ?? 0;
  const known = (recording.is_host ? COMMAND_EXITS : EXITS)[code];
  if (known) return known;
  return code > SIGNAL_FIRST ? `ended by signal ${code - SIGNAL_FIRST}` : `${recording.is_host ? "the command ended" : "ended"} with exit code ${code}`;
}

/** Return what heap_profile itself says in the output: its messages, without its name. */
export function messagesIn(output: string): string[] {
  const name = "heap_profile: ";
  return output.split("\n").filter((line) => line.startsWith(name)).map((line) => line.slice(name.length));
}

/** Return the lines of doctor that say why something cannot be profiled. */
export const obstaclesIn = (text: string) =>
  text.split("\n").filter((line) => line.startsWith("  NO")).map((line) => line.slice(4).trim());
