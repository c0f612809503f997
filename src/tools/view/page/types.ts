// SPDX-License-Identifier: Apache-2.0
// The server's answers, as JSON gives them. A value that the profile does not contain is null.

import type { Calibration } from "./interval";

/** An estimate with its 95 % limits. Equal limits: exact. No limits: they are unknown. */
export interface Figure {
  value: number;
  low: number | null;
  high: number | null;
  least?: number; // of what was retained: between this and the value. The limits are of both
}

export type MaybeFigure = Figure | null;

export const VIEWS = ["space", "objects", "alloc_space", "alloc_objects", "max"] as const;
export type ViewName = (typeof VIEWS)[number];

export interface View {
  name: ViewName;
  title: string;
  bytes: boolean;
}

export interface Dump extends Record<ViewName, MaybeFigure> {
  kept?: boolean; // of a page that is a file: it has the dump's stacks
  time: number;
  start: number;
  final: boolean;
  incomplete: boolean;
  why_incomplete: string; // "": it is complete
  interval_bytes: number | null;
  losses: NewLoss[] | null; // since the dump before; null: the file does not tell them by dump
  cause?: string; // why it was taken, if nobody asked for it
  exact_bytes: number | null;
  exact_calls: number | null;
  rss_bytes: number | null; // of the process at the dump, without the profiler's; null: unknown
}

/** The increase of a loss, whose words the heap has. */
export interface NewLoss {
  name: string;
  amount: number; // of a flag: 0
}

export interface Loss {
  name: string;
  amount: number;
  unit: string; // "", "bytes" or "us"
  words: string;
  remedy: string;
  affects_figures: boolean;
}

export interface Heap {
  id: string;
  process: number;
  name: string;
  interval_bytes: number;
  first_interval_bytes: number;
  exact: boolean;
  partial: boolean;
  unseen: string;
  allocator: string;
  start: number;
  peak_time: number | null; // ns; null: unknown
  first_view: ViewName; // the one that answers first at the last dump
  floor_bytes: number;
  unfinished: boolean;
  losses: Loss[];
  notes: string[];
  dumps: Dump[];
}

/** Readings of a process's memory by time. A column without a known value is null. */
export interface Memory {
  all: number; // more than there are times: some are left out
  time: number[];
  rss: (number | null)[] | null;
  anonymous: (number | null)[] | null;
  file: (number | null)[] | null;
  shmem: (number | null)[] | null;
  swap: (number | null)[] | null;
  live?: (number | null)[] | null; // in all profiled heaps of the process
}

/** How a process ended, as `heap_profile report --json` has it. */
export interface ProcessEnd {
  words: string;
  oom_killer: boolean;
  cgroup: string | null;
  limit_bytes: number | null; // of its cgroup; what is null is unknown
  used_bytes: number | null;
  peak_bytes: number | null;
  rss_bytes: number | null;
}

export interface Process {
  pid: number;
  parent_pid: number;
  name: string;
  command: string;
  apart?: string; // arguments that not all processes of its name have; of a long one the end
  end?: ProcessEnd; // unless it ended well, or still runs
  end_time?: number; // ns, as the times of dumps
  memory: Memory;
}

export interface Unprofiled {
  name: string;
  pid: number;
  count: number;
  reason: string;
  by_choice: boolean;
}

export interface Profile {
  name: string;
  path: string;
  warning: string;
  filter: string; // as options; what it leaves out was left out when the profile was read
  realtime_ns: string | null;
  processes: Process[];
  heaps: Heap[];
  unprofiled: Unprofiled[];
}

export interface Overview {
  version: string;
  profiles: Profile[];
  views: View[];
  native: boolean | null; // whether the interpreters' own frames are shown; null: there are no interpreted functions
  budgets: string | null; // those that view was started with, as a file of budgets has them
  opening: { heap: string; dump: number; view: ViewName; base?: string; tab?: string } | null;
}

/** By which a selection can be restricted: only=DIMENSION:VALUE, docs/view-requests.md. */
export const DIMENSIONS = ["function", "holder", "module", "file", "thread", "type", "context", "size", "lifetime"] as const;
export type Dimension = (typeof DIMENSIONS)[number];

export type TableBy = Dimension;
/** Self and total are the view's own figures; of a difference, how much stacks have changed. */
export const TABLE_ORDERS = ["self", "total", "bytes", "count", "self_bytes", "self_count", "before", "after", "percent", "name"] as const;
export type TableOrder = (typeof TABLE_ORDERS)[number];

export interface TableRow {
  key: string;
  part: string | null; // what only= calls it: `only=${by}:${part}`; null: only= cannot keep it
  function?: number;
  module?: string;
  file?: string;
  line?: number;
  tid?: number;
  bytes: MaybeFigure; // with callees
  count: MaybeFigure;
  self_bytes?: MaybeFigure;
  self_count?: MaybeFigure;
  before?: number; // of a difference, with callees, in the unit of the view: each side in all
  after?: number;
  beyond_chance?: boolean; // of a difference, as the server judges it
  course?: number[]; // with its callees at each dump of the table's course
}

export interface Table {
  bytes: MaybeFigure;
  count: MaybeFigure;
  unknown: boolean;
  judged?: boolean; // as in TreeHeader
  rows: number;
  course?: number[]; // dumps
  row: TableRow[];
}

/** Whether what a row holds grows, turns over as in a cache, or stays. */
export type Trend = "grows" | "turns_over" | "stays" | "unclear";

/** A row of `heap_profile leaks`. */
export interface LeakRow {
  text: string; // function < callers
  function: number; // the first of them
  bytes: MaybeFigure; // by which it grew, if two dumps are compared
  count: MaybeFigure;
  beyond_chance?: boolean; // of a difference
  types: { name: string; count: number }[];
  line: string; // below the row: what was freed, and the ages of what is live; "": nothing is known
  trend: Trend | null; // null: no ages are known
}

export interface Leaks {
  why: string; // nothing is known, because; the other members are missing then
  same_process: boolean;
  exact: boolean;
  bytes: MaybeFigure; // of the heap
  count: MaybeFigure;
  potential_leaks: number;
  lacks_ms: number; // the profile is too short to tell a leak: it needs so long; 0: it is not
  grown: number; // rows in all, before the search
  shrunk: number;
  shrunk_bytes: number;
  row: LeakRow[];
  rows: number; // that the search finds
  rest_bytes: number; // of those that are found and not here
}

/** A verdict of `heap_profile check --json`. */
export interface BudgetResult {
  budget: string; // "max-peak"
  state: "holds" | "fails" | "undecidable";
  text: string;
  pattern?: string;
  limit: number;
  finding: string; // in words
  stacks: { stack: string; amount: number; at_most: boolean }[];
  pid?: number | null;
  name?: string;
  heap?: string;
  unprofiled?: number; // it is about processes that were not profiled
}

export interface Budgets {
  holds: number;
  fails: number;
  undecidable: number;
  results: BudgetResult[];
  suppressions: { pattern: string; reason: string; space: number }[];
}

/** One side of a comparison of runs, in the view's unit. */
export interface RunsSide {
  mean: number;
  spread: number | null; // standard deviation between the runs; null: there is one
  runs: number[];
}

export interface RunsFigures {
  before: RunsSide;
  after: RunsSide;
  change: number; // of the mean
  low: number | null; // null: unknown, a side has one run
  high: number | null;
  probability: number | null;
}

export interface RunsRow extends RunsFigures {
  key: string;
  part: string | null;
  function?: number;
  module?: string;
  beyond_chance: boolean; // among all rows
}

export interface Runs {
  counts: boolean;
  total: RunsFigures;
  row: RunsRow[];
  rows: number; // that the search finds
}

/** Figures by dump, in the view's unit. */
export interface CourseFigures {
  value: number[];
  low: (number | null)[]; // null: unknown
  high: (number | null)[];
}

/** The rows of a table over time: those that had most at any dump, and the others' sum. */
export interface Course {
  unknown: boolean;
  all: number; // the heap's dumps
  dumps: number[]; // those of the columns
  rows: number;
  row: (Pick<TableRow, "key" | "part" | "function" | "module" | "tid"> & CourseFigures)[];
  rest: CourseFigures;
}

/** A row of the heap details: its figures by dump. */
export interface DetailsRow {
  key: string;
  full_name?: string; // only if it differs
  function?: number; // by backtrace
  module?: string;
  opens?: boolean; // it has further callees or callers
  bytes: MaybeFigure[];
  count: MaybeFigure[];
  change?: { bytes: MaybeFigure; count: MaybeFigure }; // of the selected dump to the base
  mark?: boolean; // it is beyond chance
}

export interface Details {
  unknown?: boolean; // by type: the file has no types
  path: { key: string; module: string }[];
  total: DetailsRow;
  rows: number;
  row: DetailsRow[];
}

/** A size that a process reports of an allocator, or of itself. */
export interface Reported {
  process: number;
  time: number;
  name: string;
  allocator: boolean;
  size: number | null;
  effective_size: number | null; // without what is shared
}

export interface SourceLines {
  file: string;
  found: boolean;
  why: string;
  line?: number; // of the function
  lines?: { n: number; text: string; self: MaybeFigure | number; total: MaybeFigure | number }[];
}

/** A row of `report --rss`, docs/rss.md. */
export interface MemoryRow {
  name: string;
  words: string;
  bytes: number | null; // null: unknown
  source: "estimated" | "counted" | "rule" | "measured" | "remainder" | "not_known";
  rule?: string;
  margin_bytes?: number;
}

/** The table of `report --rss` at a dump; without the optional members if it is not known. */
export interface MemoryMoment {
  dump: number; // from 1
  timeline_rss_bytes: number | null; // null: unknown
  known: boolean;
  allocator?: string | null;
  allocator_rows?: MemoryRow[];
  allocator_bytes?: number;
  other_rows?: MemoryRow[];
  rss_bytes?: number; // without the profiler's own
  profiler_bytes?: number;
  swap_bytes?: number;
  not_known?: string[];
}

/** By snapshot. */
export interface MemoryParts {
  rss: number[];
  swap: number[];
  mapped: number[];
  mappings: number[];
}

export interface MemorySnapshots extends MemoryParts {
  all: number; // more than there are times: some are left out
  chosen: number | null; // the snapshot of the dump
  time: number[];
  profiler: number[]; // resident, beside `rss`
  live: { value: number[]; low: number[]; high: number[] };
  kinds: (MemoryParts & { name: string; words: string })[];
}

export interface ProcessMemory {
  why: string; // the memory at the dump is unknown; "": it is known
  moment: MemoryMoment;
  snapshots: MemorySnapshots;
}

/** What happened between two dumps, in bytes; null: unknown. */
export interface RangeAnswer {
  why: string; // the figures are unknown; "": they are known
  allocated: number | null;
  freed: number | null;
  change: number | null;
  retained_least: number | null;
  retained_most: number | null;
}

export type Topic = "live" | "peak" | "growth" | "churn" | "resident" | "unseen";

/** What a heap's profile says at a dump, as reports begin. */
export interface Summary {
  sentences: string[][]; // of each, words and names by turns: a function or a command after every words
  topics: Topic[]; // of each, what it is about
}

export interface SqlAnswer {
  columns: string[];
  rows: (string | number | null)[][];
  more: boolean;
  seconds: number;
}

export interface SqlTable {
  name: string;
  columns: { name: string; type: string }[];
}

/** What the numbers of functions mean, docs/view-requests.md. */
export interface FunctionNumbers {
  numbering: string;
  same: boolean; // as in the numbering that was asked about
  function?: number | null;
  name?: string | null;
}

export interface TreeFunction {
  id: number;
  name: string;
  full_name?: string; // only if it differs
  module: string;
  file: string;
  line: number;
  kind: string;
  part?: string; // of a group: what only= calls it
}

/** What a graph can be grouped by: such a function is no function, and its kind is one of these. */
export const GROUPS = ["thread", "type", "context", "heap", "process"] as const;
export type Group = (typeof GROUPS)[number];

/** A whole heap's figure; of a difference, with both sides. */
export interface WholeFigure extends Figure {
  before?: number;
  after?: number;
}

export interface TreeHeader {
  nodes: number;
  pruned: boolean;
  difference: boolean;
  retained?: boolean; // nodes have an upper bound and, in the columns of what is lost, a lower one
  counts: boolean;
  exact: boolean;
  partial: boolean;
  intervals: [number, number];
  calibrations: [Calibration, Calibration];
  total: number[];
  lost_total?: number[];
  unseen?: number[]; // of a difference, bytes and calls that the later side may have where it has no sample, then the earlier one
  most?: number[]; // bytes and calls that are certainly not exceeded; of a difference, those gained, then those lost; 0: unknown
  whole?: { bytes: WholeFigure; count: WholeFigure }; // of the root, if nothing is filtered
  unknown?: boolean; // the file lacks these figures
  left_out: { gained: number[]; lost: number[]; share: number } | null;
  marks?: number[]; // of a difference: nodes that changed beyond chance
  judged?: boolean; // of a difference; false: only the whole heap is, because samples decide which moment is the peak
  one_process?: boolean; // of a difference; false: no sample is in both, so what was lost is the figure before
  functions: TreeFunction[];
  groups?: { name: string; note: string }[]; // all of them; the note says which other dump a heap has
  columns: { name: string; type: string }[];
}
