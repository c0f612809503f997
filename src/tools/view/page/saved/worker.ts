// SPDX-License-Identifier: Apache-2.0
// The worker of a page that is a file: takes the engine and the profiles, packed, then answers questions.
import { Engine, NotSaved } from "./engine";
import { unpack } from "./packed";

export interface Begin {
  engine: string;
  saved: string;
}
export interface Asked {
  number: number;
  path: string;
}
export interface Answered {
  number: number;
  answer: Uint8Array<ArrayBuffer> | null; // null: refused, or failed
  message: string;
  isRefused: boolean;
}

let engine: Promise<Engine> | null = null;

async function begin(packed: Begin): Promise<Engine> {
  const [code, block] = await Promise.all([unpack(packed.engine), unpack(packed.saved)]);
  return new Engine(await WebAssembly.compile(code), block);
}

function fail(error: Error) {
  engine = Promise.reject(error);
  engine.catch(() => {}); // the questions say it
}

async function answer({ number, path }: Asked): Promise<Answered> {
  try {
    return { number, answer: (await engine!).answer(path) as Uint8Array<ArrayBuffer>, message: "", isRefused: false };
  } catch (error) {
    const isRefused = error instanceof NotSaved;
    // What was interrupted inside the engine is half done: it must not answer any more.
    if (!isRefused) fail(error as Error);
    return { number, answer: null, message: (error as Error).message, isRefused };
  }
}

onmessage = async ({ data }: MessageEvent<Begin | Asked>) => {
  if ("engine" in data) {
    engine = begin(data);
    engine.catch(() => {}); // the questions say it
    return;
  }
  const answered = await answer(data);
  postMessage(answered, { transfer: answered.answer ? [answered.answer.buffer] : [] });
};
