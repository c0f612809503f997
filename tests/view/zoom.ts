// SPDX-License-Identifier: Apache-2.0
// At a zoom of 200 % a window of 1280 × 720 has 640 × 360 pixels. On each panel nothing is cut there without a way to read
// it: what does not fit wraps, scrolls, or ends in an ellipsis with the whole in its title.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";

interface Tools {
  page: () => Page;
  url: string;
  until: (what: string, holds: () => Promise<boolean>) => Promise<void>;
}

const PANELS = [
  "tab=overview", "tab=overview&base=0", "tab=flame", "tab=flame&base=0&isRetained=true&over=holder", "tab=flame&direction=sandwich&function=0", "tab=table&by=function",
  "tab=table&by=size", "tab=table&base=0&by=function", "tab=source&function=0", "tab=memory", "tab=memory&base=0", "tab=details", "tab=details&base=0",
  "tab=leaks", "tab=leaks&base=0", "tab=budgets&budgets=max-live%3D1k%0Amax-leak%3D*%3D1k", "tab=sql", "page=home", "page=record", "page=processes",
];

/** Return what is cut on the page. */
function cutOnPage(): string[] {
  const found: string[] = [];
  const SLACK = 1;
  const hides = (overflow: string) => overflow === "hidden" || overflow === "clip";
  const scrolls = (overflow: string) => overflow === "auto" || overflow === "scroll";
  const isSeen = (element: Element) => {
    const { width, height } = element.getBoundingClientRect();
    return width > 1 && height > 1 && element.checkVisibility() && element.closest(".sr-only, .frames, [aria-hidden=true]") === null;
  };
  const words = (element: Element) => `${element.tagName.toLowerCase()}.${element.className}: ${(element.textContent ?? "").slice(0, 60)}`;
  const hasTitle = (element: Element) => element.closest("[title]") !== null || element.querySelector("[title]") !== null;
  /** Whether the part outside of a box is reached by scrolling. */
  const isReached = (element: Element, isAcross: boolean) => {
    for (let at = element.parentElement; at !== null && at !== document.body; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (scrolls(isAcross ? style.overflowX : style.overflowY)) return true;
      if (isAcross && hides(style.overflowX) && at.scrollWidth > at.clientWidth + SLACK) return hasTitle(at); // cut by this one, which is looked at itself
    }
    return !isAcross; // the window scrolls down
  };
  for (const element of document.querySelectorAll<HTMLElement>("#page *")) {
    if (!isSeen(element) || element.closest("svg, canvas, .uplot, select, textarea") !== null) continue;
    const style = getComputedStyle(element);
    const { right } = element.getBoundingClientRect();
    const isLonger = element.scrollWidth > element.clientWidth + SLACK;
    const ends = style.textOverflow === "ellipsis" && hasTitle(element);
    if (hides(style.overflowX) && isLonger && !ends) found.push(`cut: ${words(element)}`);
    if (hides(style.overflowY) && element.scrollHeight > element.clientHeight + 4 && style.whiteSpace !== "nowrap" && !hasTitle(element)) found.push(`cut below: ${words(element)}`);
    const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent!.trim() !== "");
    if (hasText && style.overflowX === "visible" && style.display !== "inline" && isLonger && element.querySelector(".column-handle") === null) found.push(`over its side: ${words(element)}`);
    if (right > innerWidth + SLACK && !isReached(element, true)) found.push(`outside: ${words(element)}`);
  }
  return found;
}

export function testZoom({ page, url, until }: Tools) {
  test("at 200 % nothing is cut on any panel", async () => {
    const found: string[] = [];
    await page().setViewportSize({ width: 640, height: 360 });
    for (const panel of PANELS) {
      await page().goto("about:blank");
      await page().goto(`${url}#heap=0.0&${panel}`);
      await page().waitForSelector("#panel section");
      await until("nothing is asked for", async () => (await page().locator("[aria-busy=true], .waits").count()) === 0);
      for (const cut of await page().evaluate(cutOnPage)) found.push(`${panel}: ${cut}`);
      const scrolls = await page().evaluate(() => document.documentElement.scrollWidth > innerWidth);
      if (scrolls) found.push(`${panel}: the page is wider than its window`);
    }
    await page().setViewportSize({ width: 1280, height: 720 });
    assert.deepEqual(found, []);
  });
}
