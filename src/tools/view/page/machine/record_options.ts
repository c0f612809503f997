// SPDX-License-Identifier: Apache-2.0
// The options of a recording, each with its meaning: the form shows them, and the command line consists of
// them. Tests compare the list with --help of heap_profile host and heap_profile -p.

export type Group = "sampling" | "processes" | "time" | "heaps" | "ring" | "after";

export const GROUP_TITLES: Record<Group, string> = {
  sampling: "How precise",
  processes: "Further processes",
  time: "When",
  heaps: "Which heaps",
  ring: "If samples come faster than they are read",
  after: "Afterwards",
};

export interface RecordOption {
  name: string; // the long name; of a choice of flags, the first
  letter?: string;
  flags?: string[]; // a choice of these options; else it takes a value, or is a flag
  value?: string; // what stands for the value; without it a flag
  choices?: string[]; // the only values
  otherwise?: string; // what holds without the option
  group: Group;
  title: string;
  meaning: string;
  of?: "command" | "running"; // only with a command, or only with running processes
  isCommon?: boolean; // shown unfolded
}

export const RECORD_OPTIONS: RecordOption[] = [
    {
        name : "interval",
        letter : "i",
        value : "BYTES",
        otherwise : "4096",
        group : "sampling",
        title : "Sampling interval",
        isCommon : true,
        meaning :
            "Mean bytes between two samples. A larger interval costs the program less; 1 records every allocation, exactly. 64k and 1M work, too."
    },
    {
        name : "max-overhead",
        value : "N%|off",
        otherwise : "5%",
        group : "sampling",
        title : "Cost at most",
        meaning :
            "Record every allocation while that costs less than this share of the program's processor time; then sample, at 4096 B and more. Each sample keeps its true weight. With an interval given, there is no limit."
    },

    {
        name : "follow-children",
        group : "processes",
        title : "Follow children",
        isCommon : true,
        meaning : "Profile the processes that a profiled process starts, too."
    },
    {
        name : "name",
        letter : "n",
        value : "A,B",
        group : "processes",
        title : "Names of children",
        of : "command",
        meaning :
            "Profile the processes of these names that the command starts, as the compilers that make starts."
    },
    {
        name : "no-running",
        group : "processes",
        title : "Later processes only",
        of : "running",
        meaning : "Leave out processes that run already."
    },
    {
        name : "no-startup",
        group : "processes",
        title : "Running processes only",
        of : "running",
        meaning : "Leave out processes that start later; the recording ends with the last process."
    },

    {
        name : "duration",
        letter : "d",
        value : "MS",
        otherwise : "until stopped",
        group : "time",
        title : "End after",
        isCommon : true,
        meaning : "End the profile after this many milliseconds. The program goes on."
    },
    {
        name : "continuous-dump",
        letter : "c",
        value : "MS",
        otherwise : "automatic",
        group : "time",
        title : "Dump every",
        isCommon : true,
        meaning :
            "Take a dump each time so many milliseconds have passed. Without it this page takes one a second for 20 s, then fewer as the recording grows older."
    },
    {
        name : "dump-at-max",
        group : "time",
        title : "Dump of the peak",
        meaning : "Put the peak into the trace, for Perfetto's UI, instead of the end."
    },
    {
        name : "timeline",
        value : "MS|off",
        otherwise : "100",
        group : "time",
        title : "Counters every",
        meaning :
            "Read the memory, the page faults and the threads of each process, and the memory of the machine, so often. With off, record only the sizes of the heaps."
    },
    {
        name : "near-limit",
        value : "N%|off",
        otherwise : "90%",
        group : "time",
        title : "Dump near the limit at",
        meaning :
            "Take a dump when the cgroup of a process, or one around it, holds this share of its memory limit."
    },
    {
        name : "end-with-command",
        group : "time",
        title : "End with the command",
        of : "command",
        meaning : "End the profile with the command, even if other profiled processes go on."
    },

    {
        name : "heaps",
        value : "A,B",
        otherwise : "libc.malloc,python.object",
        group : "heaps",
        title : "Heaps",
        meaning :
            "Heaps to profile: libc.malloc, python.object for the objects of Python programs, libc.mmap for memory that the program maps itself, or heaps that programs register."
    },
    {
        name : "all-heaps",
        group : "heaps",
        title : "All heaps",
        meaning : "Profile all heaps except libc.mmap, unless the heaps above name it."
    },
    {
        name : "exclude-heaps",
        value : "A,B",
        group : "heaps",
        title : "Without heaps",
        meaning : "Profile all heaps except these."
    },
    {
        name : "heap-intervals",
        value : "4k,1",
        group : "heaps",
        title : "Intervals of heaps",
        meaning : "Sampling intervals in bytes, one for each of the heaps above."
    },
    {
        name : "stack-mode",
        value : "MODE",
        choices : [ "native", "native-with-thread-names", "pseudo", "mixed" ],
        otherwise : "native",
        group : "heaps",
        title : "A callsite is",
        meaning :
            "The stack; the stack below the thread's name; the contexts that the program reports; or the stack below these."
    },
    {
        name : "context-slices",
        group : "heaps",
        title : "Contexts as slices",
        meaning :
            "Record when each thread enters and leaves the program's contexts, as slices for Perfetto's UI."
    },

    {
        name : "shmem-size",
        value : "BYTES",
        otherwise : "8M",
        group : "ring",
        title : "Ring",
        meaning : "Size of the ring through which each process sends its samples: a power of two."
    },
    {
        name : "block-client",
        flags : [ "block-client", "no-block-client" ],
        otherwise : "let the process wait",
        group : "ring",
        title : "If the ring is full",
        meaning :
            "Let the process wait until there is room (--block-client), or end its profile (--no-block-client)."
    },
    {
        name : "block-client-timeout",
        value : "US",
        otherwise : "no limit",
        group : "ring",
        title : "Wait at most",
        meaning : "End the profile of a process that has waited this many microseconds."
    },

    {
        name : "output",
        letter : "o",
        value : "DIR",
        otherwise : "a new one",
        group : "after",
        title : "Directory",
        isCommon : true,
        meaning :
            "A new or empty directory for the profile. Without it the page makes one in TMPDIR or /tmp."
    },
    {
        name : "with-tracing",
        value : "FILE",
        otherwise : "none",
        group : "after",
        title : "With tracing",
        meaning :
            "A configuration of Perfetto's: its data sources are recorded by the running tracing service, into the same trace."
    },
    {
        name : "no-symbols",
        group : "after",
        title : "No debug files",
        meaning : "Do not search debug files: take names only from the programs' own files."
    },
    {
        name : "no-pprof",
        group : "after",
        title : "No pprof files",
        meaning : "Write no pprof files: traceconv profile makes them from the trace."
    },
    {
        name : "memory-infra",
        group : "after",
        title : "For Chromium",
        meaning : "Also write memory_infra.json.gz, for Chromium's trace viewer."
    },
    {
        name : "quiet",
        letter : "q",
        group : "after",
        title : "Quiet",
        meaning : "Print only errors."
    },
];

/** Options that this page stands for, or that change nothing on Linux: a form has no use for them. */
export const OTHER_OPTIONS: Record<string, string> = {
  view: "This page is what --view opens.",
  summary: "This page shows what the summary says.",
  "print-config": "The configuration stands beside the form.",
  service: "This page follows a recording of our own, not one of the tracing service.",
  detach: "This page follows the recording to its end.",
};

export const isApplicable = (option: RecordOption, isHost: boolean) =>
  option.of === undefined || (option.of === "command") === isHost;
