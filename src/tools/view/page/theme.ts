// SPDX-License-Identifier: Apache-2.0
// Light or dark: as the system prefers, unless the user switched. The choice is kept in the browser.
import { useEffect, useState } from "preact/hooks";
import { DARK, LIGHT, type Theme } from "./flame/colours";

export type Choice = "system" | "light" | "dark";

const KEY = "heap_profile-theme";
const system = typeof matchMedia === "undefined" ? null : matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function kept(): Choice {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

let choice: Choice = kept();

function apply() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  for (const listener of listeners) listener();
}

function isDark(): boolean {
  return choice === "system" ? (system?.matches ?? false) : choice === "dark";
}

system?.addEventListener("change", apply);

export function startTheme() {
  apply();
}

export function chooseTheme(next: Choice) {
  choice = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    /* a browser that keeps nothing: the choice lasts as long as the page */
  }
  apply();
}

export function otherTheme() {
  chooseTheme(isDark() ? "light" : "dark");
}

export function useTheme(): { theme: Theme; choice: Choice } {
  const [now, set] = useState({ dark: isDark(), choice });
  useEffect(() => {
    const listener = () => set({ dark: isDark(), choice });
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return { theme: now.dark ? DARK : LIGHT, choice: now.choice };
}
