// SPDX-License-Identifier: Apache-2.0
// The processes of this machine as the page lists them: filtered, in an order or as a tree, each with the
// course of its memory, which the page keeps from the answers that it has seen.
import { askMachine } from "../source";
import type { ProcessOrder } from "../state";
import type { Machine } from "./recordings";

/** A process. What the kernel does not say is null: its own threads and ended processes have no memory. */
export interface MachineProcess {
  pid: number;
  parent_pid: number;
  name: string;
  command: string;
  user: string;
  kernel: boolean;
  rss: number | null;
  anonymous: number | null;
  file: number | null;
  shared: number | null;
  swap: number | null;
  threads: number;
  start_ms: number; // since 1970
  start_ticks: number;
  cpu_ms: number;
}

export interface Finding {
  finding: "ok" | "note" | "no";
  text: string;
}

/** What `heap_profile doctor` finds about a process. */
export interface Check {
  pid: number;
  start_ticks: number;
  findings: Finding[];
  can_be_profiled: boolean;
  profiler_pid: number | null; // 0: of another user
}

export interface Processes {
  processes: MachineProcess[];
  more: boolean; // the machine has more than the server lists
}

export async function askProcesses(signal: AbortSignal): Promise<Processes> {
  const answer = await askMachine<Processes>("api/processes", signal);
  remember(answer.processes);
  return answer;
}

/** A pid is used again, so a process is known by its start, too. */
export const identityOf = (process: { pid: number; start_ticks: number }) => `${process.pid}.${process.start_ticks}`;

// --- the course of memory ---

const COURSE_MAX = 60; // two minutes
const courses = new Map<string, number[]>();

function remember(processes: MachineProcess[]) {
  const seen = new Set<string>();
  for (const process of processes) {
    if (process.rss === null) continue;
    const key = identityOf(process);
    seen.add(key);
    courses.set(key, [...(courses.get(key) ?? []).slice(1 - COURSE_MAX), process.rss]);
  }
  for (const key of courses.keys()) if (!seen.has(key)) courses.delete(key);
}

/** The resident memory at each answer so far, the oldest first. */
export const courseOf = (process: MachineProcess): number[] => courses.get(identityOf(process)) ?? [];

/** How much the resident memory has grown since the page lists it. */
export function growthOf(process: MachineProcess): number | null {
  const course = courseOf(process);
  return course.length > 1 ? course[course.length - 1]! - course[0]! : null;
}

// --- what is listed ---

export interface Listed {
  process: MachineProcess;
  depth: number; // in the tree
}

function matches(process: MachineProcess, words: string[]): boolean {
  const text = `${process.name}\n${process.pid}\n${process.user}\n${process.command}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function keyOf(process: MachineProcess, processOrder: ProcessOrder): number | string | null {
  return processOrder === "growth" ? growthOf(process) : process[processOrder];
}

/** Numbers from the largest, names from the first; what is unknown comes last in either direction. */
function compare(one: MachineProcess, other: MachineProcess, processOrder: ProcessOrder, isReversed: boolean): number {
  const [left, right] = [keyOf(one, processOrder), keyOf(other, processOrder)];
  if (left === null || right === null) return Number(left === null) - Number(right === null) || one.pid - other.pid;
  const order = typeof left === "string" ? left.localeCompare(String(right)) : processOrder === "pid" ? left - Number(right) : Number(right) - left;
  return (isReversed ? -order : order) || one.pid - other.pid;
}

/** Put children after their parents, each family in order. Nothing is lost if parents form a circle. */
function asTree(processes: MachineProcess[]): Listed[] {
  const byPid = new Map(processes.map((process) => [process.pid, process]));
  const children = new Map<number, MachineProcess[]>();
  for (const process of processes) {
    const parent = byPid.has(process.parent_pid) && process.parent_pid !== process.pid ? process.parent_pid : 0;
    children.set(parent, [...(children.get(parent) ?? []), process]);
  }
  const out: Listed[] = [];
  const left = new Set(processes);
  const visit = (process: MachineProcess, depth: number) => {
    const stack: Listed[] = [{ process, depth }];
    for (let at = stack.pop(); at; at = stack.pop()) {
      if (!left.delete(at.process)) continue;
      out.push(at);
      const depthBelow = at.depth + 1;
      for (const child of [...(children.get(at.process.pid) ?? [])].reverse()) stack.push({ process: child, depth: depthBelow });
    }
  };
  for (const process of children.get(0) ?? []) visit(process, 0);
  for (const process of processes) if (left.has(process)) visit(process, 0);
  return out;
}

export interface Listing {
  find: string;
  processOrder: ProcessOrder;
  isReversed: boolean;
  isTree: boolean;
  hasKernel: boolean;
}

/** Return what is listed, in order. In a tree, what a filter leaves keeps its order and depth. */
export function list(processes: MachineProcess[], { find, processOrder, isReversed, isTree, hasKernel }: Listing): Listed[] {
  const words = find.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const sorted = processes.filter((process) => hasKernel || !process.kernel).sort((one, other) => compare(one, other, processOrder, isReversed));
  const listed = isTree ? asTree(sorted) : sorted.map((process) => ({ process, depth: 0 }));
  return words.length === 0 ? listed : listed.filter(({ process }) => matches(process, words));
}

// --- sessions ---

/** Return the number of the session of each process that is profiled. */
export function sessionsByPid(machine: Machine | null): Map<number, number> {
  const sessions = machine?.status?.sessions ?? [];
  return new Map(sessions.flatMap((session) => session.processes.map((process) => [process.pid, session.id] as const)));
}
