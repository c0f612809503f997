// SPDX-License-Identifier: Apache-2.0
// Answers that are asked for again and again while the page is seen: of a page that is hidden, nothing.
import { useEffect, useRef, useState } from "preact/hooks";
import { Gone } from "../source";

export interface Polled<T> {
  value: T | null; // the last answer
  error: string;
  again: () => void; // ask at once
}

/** Ask now, and again `pause` ms after each answer. */
export function usePolled<T>(ask: (signal: AbortSignal) => Promise<T>, pause: number): Polled<T> {
  const [answer, set] = useState<{ value: T | null; error: string }>({ value: null, error: "" });
  const [round, next] = useState(0);
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    const control = new AbortController();
    let timer = 0;
    const run = async () => {
      if (!document.hidden) {
        try {
          const value = await latest.current(control.signal);
          if (!control.signal.aborted) set({ value, error: "" });
        } catch (error) {
          if (!control.signal.aborted && !(error instanceof Gone)) set((last) => ({ ...last, error: (error as Error).message }));
        }
      }
      if (!control.signal.aborted) timer = window.setTimeout(run, pause);
    };
    const onShown = () => {
      if (document.hidden) return;
      window.clearTimeout(timer);
      next((last) => last + 1);
    };
    document.addEventListener("visibilitychange", onShown);
    void run();
    return () => {
      control.abort();
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", onShown);
    };
  }, [round]);
  return { ...answer, again: () => next((last) => last + 1) };
}
