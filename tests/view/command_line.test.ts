// SPDX-License-Identifier: Apache-2.0
// The form of a recording and its command line are the same thing.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { argumentsOf, EMPTY_FORM, formOf, joinWords, lineOf, splitWords } from "page/machine/command_line";
import { OTHER_OPTIONS, RECORD_OPTIONS } from "page/machine/record_options";

const LINES = [
  "heap_profile host -- jq . big.json",
  "heap_profile host -i 1 --follow-children -n cc1plus --no-block-client -o /tmp/x -- make -j2 'CC=gcc -O2' ''",
  "heap_profile -p 12,34 -d 10000 -c 500 --heaps libc.malloc,libc.mmap --stack-mode mixed",
  "heap_profile -n 'a b' --no-startup -q",
  "heap_profile -n '*' -i 64k --no-startup",
  "heap_profile -p 12 --not-an-option",
];

test("a command line becomes a form and the same command line again", () => {
  for (const line of LINES) assert.equal(lineOf(formOf(line)), line);
});

test("other ways to write an option are understood", () => {
  assert.equal(lineOf(formOf("/usr/bin/heap_profile --pid=12 --interval=64k -d5 --output out")), "heap_profile -p 12 -i 64k -d 5 -o out");
  assert.equal(lineOf(formOf("host jq -c .")), "heap_profile host -- jq -c .");
  assert.deepEqual(argumentsOf(formOf("heap_profile host -o /tmp/x -i 1 -- a -o b")), ["host", "-i", "1", "--", "a", "-o", "b"]);
});

test("everything is what heap_profile takes for it", () => {
  const words = argumentsOf({ ...EMPTY_FORM, target: "everything" });
  assert.deepEqual(words, ["-n", "*", "--no-startup"]);
  const configuration = execFileSync(`${process.env["HEAPPROFD_BUILD"]}/heap_profile`, [...words, "--print-config"], { encoding: "utf8" });
  assert.match(configuration, /process_cmdline: "\*"/);
  assert.match(configuration, /no_startup: true/);
});

test("words are split and quoted as a shell does", () => {
  const words = ["a b", "it's", "", "$HOME", "`x`", "\\", '"', "*", "é\n", "-p"];
  assert.deepEqual(splitWords(joinWords(words)), words);
  assert.deepEqual(splitWords(execFileSync("sh", ["-c", `printf '%s' "${"a\\\\ b 'c d' \\\"e\\\" "}"`], { encoding: "utf8" })), ["a b", "c d", "e"]);
  assert.deepEqual(splitWords(`x"a \\"b" 'c`), [`xa "b`, "c"]);
  const said = execFileSync("sh", ["-c", `printf '%s\\0' ${joinWords(words)}`], { encoding: "utf8" });
  assert.deepEqual(said.split("\0").slice(0, -1), words);
});

test("any words stay what they are", () => {
  let state = 7;
  const random = (below: number) => (state = (state * 1103515245 + 12345) % 2147483648) % below;
  const parts = ["-", "--", "o", "p", "n", "host", " ", "'", '"', "\\", "=", "*", "-i", "1", "--name", "heap_profile"];
  for (let i = 0; i < 3000; i++) {
    const line = Array.from({ length: random(12) }, () => parts[random(parts.length)]!).join(random(2) ? " " : "");
    const once = lineOf(formOf(line, EMPTY_FORM));
    assert.equal(lineOf(formOf(once)), once, JSON.stringify(line));
  }
});

test("each option of --help is in the list, and each of the list in --help", () => {
  const helps = { host: execFileSync(`${process.env["HEAPPROFD_BUILD"]}/heap_profile`, ["host", "--help"], { encoding: "utf8" }),
                  running: execFileSync(`${process.env["HEAPPROFD_BUILD"]}/heap_profile`, ["-p", "--help"], { encoding: "utf8" }) };
  for (const [verb, help] of Object.entries(helps)) {
    const found = [...help.matchAll(/^ {2}(?:-(\w),| {3}) +--([\w-]+)/gm)];
    assert(found.length >= 18, `${found.length} options`);
    for (const [, letter, name] of found) {
      if (name! in OTHER_OPTIONS || (verb === "running" && (name === "pid" || name === "name"))) continue;
      const option = RECORD_OPTIONS.find((one) => one.name === name || one.flags?.includes(name!));
      assert(option, `the form has no --${name}`);
      assert.equal(option.letter, letter, `-${letter} of --${name}`);
      assert(option.of === undefined || (option.of === "command") === (verb === "host"), `--${name} is an option of ${verb}`);
    }
    for (const option of RECORD_OPTIONS.filter((one) => one.of === undefined || (one.of === "command") === (verb === "host")))
      assert(help.includes(`--${option.name}`), `--${option.name} is no option of ${verb}`);
  }
});
