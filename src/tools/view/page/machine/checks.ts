// SPDX-License-Identifier: Apache-2.0
// Whether processes can be profiled: asked for those that are seen, a few at a time, and kept for a while.
import { useEffect, useRef, useState } from "preact/hooks";
import { askMachine } from "../source";
import { identityOf, type Check, type MachineProcess } from "./process_list";

const KEPT_MS = 60_000;
const AT_ONCE = 24;
const kept = new Map<string, { check: Check; at: number }>();

function keep(checks: Check[]) {
  const now = performance.now();
  for (const [key, { at }] of kept) if (now - at > 2 * KEPT_MS) kept.delete(key);
  for (const check of checks) kept.set(identityOf(check), { check, at: now });
}

function isDue(process: MachineProcess): boolean {
  const known = kept.get(identityOf(process));
  return !known || performance.now() - known.at > KEPT_MS;
}

export const checkOf = (process: MachineProcess): Check | null => kept.get(identityOf(process))?.check ?? null;

/** Ask for the checks of the processes that are seen; the caller is drawn again as they come. */
export function useChecks(seen: MachineProcess[]) {
  const [, draw] = useState(0);
  const isAsking = useRef(false);
  const isGone = useRef(false);
  useEffect(() => () => { isGone.current = true; }, []);
  useEffect(() => {
    const due = seen.filter((process) => !process.kernel && isDue(process)).slice(0, AT_ONCE);
    if (due.length === 0 || isAsking.current || document.hidden) return;
    isAsking.current = true;
    askMachine<{ checks: Check[] }>(`api/checks?pids=${due.map((process) => process.pid).join()}`, new AbortController().signal)
      .then(({ checks }) => {
        keep(checks);
        return checks.length > 0; // else all have ended, as the next list will tell
      }, () => false)
      .then((isMore) => {
        isAsking.current = false;
        if (isMore && !isGone.current) draw((last) => last + 1);
      });
  });
}

/** Return the first reason why a process cannot be profiled; "": it can. */
export const obstacleOf = (check: Check): string => check.findings.find(({ finding }) => finding === "no")?.text ?? "";
