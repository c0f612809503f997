// SPDX-License-Identifier: Apache-2.0
// Runs the engine of a page that is a file: the server's own answers in WebAssembly (src/tools/view/engine/),
// from the profiles as one block (src/tools/view/saved/saved_profiles.h).
import { matcherOfPattern, WrongPattern } from "./pattern";

/** The file does not answer the question; the message says why. */
export class NotSaved extends Error {}

interface Exports {
  memory: WebAssembly.Memory;
  _initialize: () => void;
  engine_room: (bytes: number) => number;
  engine_open: (block: number, length: number) => number;
  engine_answer: (question: number, length: number) => number;
  engine_text: () => number;
  engine_length: () => number;
}

const ENOSYS = 52; // of WASI

export class Engine {
  private exports: Exports;
  private patterns = new Map<number, (text: string) => boolean>();
  private lastPattern = 0;
  private decoder = new TextDecoder();
  private encoder = new TextEncoder();

  constructor(module: WebAssembly.Module, block: Uint8Array) {
    const page = {
      page_pattern_new: (text: number, reason: number, reasonBytes: number) => this.newPattern(this.textAt(text), reason >>> 0, reasonBytes),
      page_pattern_matches: (pattern: number, text: number) => Number(this.patterns.get(pattern)!(this.textAt(text))),
      page_pattern_free: (pattern: number) => void this.patterns.delete(pattern),
      page_fail: (message: number, length: number) => {
        throw new Error(this.decoder.decode(this.bytes().subarray(message >>> 0, (message >>> 0) + length)).trim());
      },
    };
    // The C library asks for files and streams. The page has no such thing.
    const system: Record<string, () => number> = {};
    for (const { module: from, name } of WebAssembly.Module.imports(module)) if (from !== "page") system[name] = () => ENOSYS;
    const instance = new WebAssembly.Instance(module, { page, wasi_snapshot_preview1: system });
    this.exports = instance.exports as unknown as Exports;
    this.exports._initialize();
    if (this.exports.engine_open(this.hand(block), block.length) < 0) throw new Error(this.decoder.decode(this.text()));
  }

  private bytes = () => new Uint8Array(this.exports.memory.buffer);

  // Addresses come as signed numbers: above 2 GiB they are negative.
  private textAt(signed: number): string {
    const bytes = this.bytes();
    const at = signed >>> 0;
    return this.decoder.decode(bytes.subarray(at, bytes.indexOf(0, at)));
  }

  private text(): Uint8Array {
    const at = this.exports.engine_text() >>> 0;
    return this.bytes().slice(at, at + (this.exports.engine_length() >>> 0));
  }

  /** Copy bytes to where the engine takes them. */
  private hand(bytes: Uint8Array): number {
    const room = this.exports.engine_room(bytes.length) >>> 0;
    this.bytes().set(bytes, room);
    return room;
  }

  private newPattern(text: string, reason: number, reasonBytes: number): number {
    try {
      this.patterns.set(++this.lastPattern, matcherOfPattern(text));
      return this.lastPattern;
    } catch (error) {
      if (!(error instanceof WrongPattern)) throw error;
      const room = this.bytes().subarray(reason, reason + reasonBytes - 1);
      const { written } = this.encoder.encodeInto(error.message, room);
      this.bytes()[reason + written] = 0;
      return 0;
    }
  }

  /** Answer a question as the server would. */
  answer(path: string): Uint8Array {
    const [question, query = ""] = path.split("?") as [string, string?];
    const words = [question, ...[...new URLSearchParams(query)].flat()];
    const bytes = this.encoder.encode(words.map((word) => `${word.replaceAll("\0", "")}\0`).join(""));
    if (this.exports.engine_answer(this.hand(bytes), bytes.length) < 0) throw new NotSaved(this.decoder.decode(this.text()));
    return this.text();
  }
}
