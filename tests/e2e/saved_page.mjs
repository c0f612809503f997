// SPDX-License-Identifier: Apache-2.0
// Asks a page that is a file, with the engine inside it: node saved_page.mjs PAGE. Each line of the input is a question,
// each line of the output is JSON: the answer in base64, or the reason of the failure.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { inflateSync } from "node:zlib";

const text = readFileSync(process.argv[2], "utf8");
const unpack = (id) => inflateSync(Buffer.from(new RegExp(`<script type="text/plain" id="${id}">([^<]*)<`).exec(text)[1], "base64"));

const module = new WebAssembly.Module(unpack("engine"));
const system = {};
for (const { module: from, name } of WebAssembly.Module.imports(module)) (system[from] ??= {})[name] = () => {
  throw new Error(`the engine called ${name}`);
};
const { exports: engine } = new WebAssembly.Instance(module, system);

const hand = (bytes) => {
  const room = engine.engine_room(bytes.length);
  new Uint8Array(engine.memory.buffer).set(bytes, room);
  return room;
};
const answer = () => Buffer.from(engine.memory.buffer).subarray(engine.engine_text(), engine.engine_text() + engine.engine_length());

engine._initialize();
const block = unpack("saved");
if (engine.engine_open(hand(block), block.length) < 0) throw new Error(answer().toString());

for await (const path of createInterface({ input: process.stdin })) {
  const [question, query = ""] = path.split("?");
  const bytes = Buffer.from([question, ...[...new URLSearchParams(query)].flat()].map((word) => `${word}\0`).join(""));
  const isRefused = engine.engine_answer(hand(bytes), bytes.length) < 0;
  process.stdout.write(`${JSON.stringify(isRefused ? { error: answer().toString() } : { answer: answer().toString("base64") })}\n`);
}
