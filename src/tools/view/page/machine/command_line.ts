// SPDX-License-Identifier: Apache-2.0
// A recording as a form and as a command line, and the way from one to the other. Words that the form has no
// field for are kept.
import { RECORD_OPTIONS, isApplicable, type RecordOption } from "./record_options";

export const TARGETS = ["command", "pid", "name", "everything"] as const;
export type Target = (typeof TARGETS)[number];

export interface Form {
  target: Target;
  command: string; // as typed
  pid: string; // "12,34"
  name: string; // "nginx,php-fpm"
  values: Record<string, string>; // by an option's name; a flag has its own name
  others: string[]; // words that no field of the form takes
}

export const EMPTY_FORM: Form = { target: "command", command: "", pid: "", name: "", values: {}, others: [] };

// --- words ---

/** Quote a word as a shell needs it. */
export function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export const joinWords = (words: string[]) => words.map(quote).join(" ");

/** Split a line as a shell does, but without any expansion: quotes and backslashes only. */
export function splitWords(line: string): string[] {
  const words: string[] = [];
  const part = /'([^']*)'?|"((?:\\.|[^"\\])*)"?|\\(.?)|(\s+)|([^\s'"\\]+)/gsy;
  let word: string | null = null;
  for (let found = part.exec(line); found !== null && found[0] !== ""; found = part.exec(line)) {
    const [, single, double, escaped, space, plain] = found;
    if (space !== undefined) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? "") + (single ?? double?.replace(/\\([\\"$`])/g, "$1") ?? escaped ?? plain ?? "");
    }
  }
  if (word !== null) words.push(word);
  return words;
}

// --- from the form ---

const optionWords = (option: RecordOption, value: string): string[] => {
  if (option.flags) return [`--${value}`];
  const name = option.letter ? `-${option.letter}` : `--${option.name}`;
  return option.value ? [name, value] : [name];
};

/** Return the options of the form, in the order of the list. `leavesOut` names one to leave out. */
function optionsOf(form: Form, leavesOut = ""): string[] {
  const isHost = form.target === "command";
  // Everything is a pattern of names, and heap_profile takes patterns for running processes only.
  const values = form.target === "everything" ? { ...form.values, "no-startup": "no-startup" } : form.values;
  return RECORD_OPTIONS.filter((option) => isApplicable(option, isHost) && option.name !== leavesOut && (values[option.name] ?? "") !== "")
    .flatMap((option) => optionWords(option, values[option.name]!));
}

function withTarget(form: Form, options: string[]): string[] {
  const rest = [...options, ...form.others];
  if (form.target === "command") return ["host", ...rest, "--", ...splitWords(form.command)];
  if (form.target === "pid") return ["-p", form.pid.replaceAll(" ", ""), ...rest];
  return ["-n", form.target === "everything" ? "*" : form.name, ...rest];
}

/** Return heap_profile's arguments without the directory, which the server adds. */
export const argumentsOf = (form: Form) => withTarget(form, optionsOf(form, "output"));

export const directoryOf = (form: Form) => form.values["output"] ?? "";

/** Return the command line as it is shown. */
export const lineOf = (form: Form) => joinWords(["heap_profile", ...withTarget(form, optionsOf(form))]);

/** Return what is missing before the form can start; "": nothing. */
export function missingIn(form: Form): string {
  if (form.target === "command" && splitWords(form.command).length === 0) return "Enter the command to run.";
  if (form.target === "pid" && form.pid.trim() === "") return "Enter the pid of a process.";
  if (form.target === "name" && form.name.trim() === "") return "Enter the name of a program.";
  return "";
}

// --- from a command line ---

interface Found {
  option: RecordOption | "pid" | "name";
  name: string;
  value: string | null; // null: the next word is the value, or the option takes no value
}

/** Return what option a word is, or null. */
function findOption(word: string, isHost: boolean): Found | null {
  const [, long, longValue] = /^--([\w-]+)(?:=(.*))?$/s.exec(word) ?? [];
  const [, letter, letterValue] = /^-(\w)(.*)$/s.exec(word) ?? [];
  if (long === undefined && letter === undefined) return null;
  if (!isHost && (letter === "p" || long === "pid")) return { option: "pid", name: "pid", value: longValue ?? (letterValue || null) };
  if (!isHost && (letter === "n" || long === "name")) return { option: "name", name: "name", value: longValue ?? (letterValue || null) };
  const option = RECORD_OPTIONS.find((one) => isApplicable(one, isHost) &&
    (long !== undefined ? one.name === long || one.flags?.includes(long) : one.letter === letter));
  if (!option || (option.value === undefined && (longValue !== undefined || (letterValue ?? "") !== ""))) return null;
  return { option, name: long ?? option.name, value: longValue ?? (letterValue || null) };
}

function take(form: Form, found: Found, value: string) {
  if (found.option === "pid") {
    form.target = "pid";
    form.pid = value;
  } else if (found.option === "name") {
    form.target = value === "*" ? "everything" : "name";
    form.name = value === "*" ? "" : value;
  } else {
    form.values[found.option.name] = found.option.value ? value : found.name;
  }
}

/** Return the form of a command line; with `before`, whose fields for other targets stay. */
export function formOf(line: string, before: Form = EMPTY_FORM): Form {
  const words = splitWords(line);
  if (/(^|\/)heap_profile$/.test(words[0] ?? "")) words.shift();
  const isHost = words[0] === "host" || words.length === 0;
  if (isHost) words.shift();
  const form: Form = { ...before, target: isHost ? "command" : before.target === "command" ? "name" : before.target, values: {}, others: [] };
  if (isHost) form.command = "";
  while (words.length > 0) {
    const word = words.shift()!;
    if (isHost && (word === "--" || !word.startsWith("-"))) {
      form.command = joinWords(word === "--" ? words : [word, ...words]);
      break;
    }
    const found = findOption(word, isHost);
    const needsValue = found !== null && (typeof found.option === "string" || found.option.value !== undefined);
    if (!found || (needsValue && found.value === null && words.length === 0)) form.others.push(word);
    else take(form, found, needsValue ? (found.value ?? words.shift()!) : "");
  }
  return form;
}
