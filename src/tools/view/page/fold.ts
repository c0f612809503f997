// SPDX-License-Identifier: Apache-2.0
// Parts of the page that fold. What the user chose is kept in the browser.
import { useState } from "preact/hooks";

const KEY = "heap_profile-folded-";

function kept(part: string): string | null {
  try {
    return localStorage.getItem(KEY + part);
  } catch {
    return null;
  }
}

/** Return whether a part is folded, and what turns that. `otherwise`: before the user chose. */
export function useFold(part: string, otherwise: () => boolean): [isFolded: boolean, toggle: () => void] {
  const [isFolded, set] = useState(() => {
    const known = kept(part);
    return known === null ? otherwise() : known === "yes";
  });
  const toggle = () => {
    set(!isFolded);
    try {
      localStorage.setItem(KEY + part, isFolded ? "no" : "yes");
    } catch {
      // A page that is a file may not keep anything.
    }
  };
  return [isFolded, toggle];
}
