// SPDX-License-Identifier: Apache-2.0
// Whether the page is a file with its data inside, and its answers then. A worker computes them, so that the
// page stays responsive.
import { unpack } from "./packed";
import type { Answered, Asked, Begin } from "./worker";

/** The file does not answer the question; the message says why. */
export class NotSaved extends Error {}

export const NOT_SAVED =
  "This page is a file: it does not contain source text, SQL tables or the trace. Open the profile with `heap_profile view` for these.";

const packed = (id: string) => (typeof document === "undefined" ? null : document.getElementById(id));

/** Whether the page is a file, without a server. */
export const isSaved = packed("saved") !== null;

interface Waiting {
  resolve: (response: Response) => void;
  reject: (error: Error) => void;
}

let worker: Promise<Worker> | null = null;
const waiting = new Map<number, Waiting>();
let asked = 0;

function take({ data }: MessageEvent<Answered>) {
  const { resolve, reject } = waiting.get(data.number)!;
  waiting.delete(data.number);
  if (data.answer) resolve(new Response(data.answer));
  else reject(data.isRefused ? new NotSaved(data.message) : new Error(data.message));
}

/** Take a packed text out of the page, which needs it no more. */
function takeText(id: string): string {
  const element = packed(id)!;
  const text = element.textContent;
  element.textContent = "";
  return text;
}

async function start(): Promise<Worker> {
  const script = new Blob([await unpack(takeText("worker"))], { type: "text/javascript" });
  const started = new Worker(URL.createObjectURL(script));
  started.onmessage = take;
  started.onerror = ({ message }) => {
    const error = new Error(message || "this browser does not run the worker of the page");
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
    worker = Promise.reject(error);
    worker.catch(() => {}); // the questions say it
  };
  started.postMessage({ engine: takeText("engine"), saved: takeText("saved") } satisfies Begin);
  return started;
}

/** Answer a question from the file. */
export async function savedAnswer(path: string): Promise<Response> {
  worker ??= start();
  const running = await worker;
  const number = ++asked;
  return new Promise((resolve, reject) => {
    waiting.set(number, { resolve, reject });
    running.postMessage({ number, path } satisfies Asked);
  });
}
