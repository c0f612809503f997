// SPDX-License-Identifier: Apache-2.0
// What axe-core finds on each panel, in both themes and at three sizes: nothing.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import type { Page } from "playwright-core";

interface Tools {
  page: () => Page;
  url: string;
  until: (what: string, holds: () => Promise<boolean>) => Promise<void>;
}

interface Violation {
  id: string;
  nodes: { html: string; any: { message: string }[]; all: { message: string }[]; none: { message: string }[] }[];
}

const SIZES = [[360, 640], [1280, 720], [3840, 2160]] as const;
const PANELS = [
  "tab=overview", "tab=overview&base=0", "tab=flame", "tab=flame&base=0&isRetained=true&over=holder", "tab=flame&direction=sandwich&function=0", "tab=table", "tab=table&by=size&over=module&filter=focus:P",
  "tab=source&function=0", "tab=memory", "tab=memory&base=0", "tab=details", "tab=leaks", "tab=leaks&base=0", "tab=budgets&budgets=max-live=1k", "tab=sql", "page=home", "page=record", "page=processes",
];

/** Run axe in the page. A theme changes colours only: of the second one, contrast is looked at. */
async function violationsOf(page: Page, onlyContrast: boolean): Promise<string[]> {
  const violations = await page.evaluate(async (rule) => {
    const { axe } = window as unknown as { axe: { run: (root: Document, options: object) => Promise<{ violations: Violation[] }> } };
    return (await axe.run(document, { resultTypes: ["violations"], ...(rule && { runOnly: { type: "rule", values: [rule] } }) })).violations;
  }, onlyContrast ? "color-contrast" : "");
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, any, all, none }) => `${id}: ${[...any, ...all, ...none].map(({ message }) => message).join("; ")}\n  ${html.slice(0, 300)}`));
}

export function testAxe({ page, url, until }: Tools) {
  const script = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  for (const panel of PANELS)
    test(`axe finds nothing: ${panel}`, async () => {
      await page().goto("about:blank");
      await page().goto(`${url}#heap=0.0&${panel}`);
      await page().waitForSelector("#panel section");
      await page().evaluate(script);
      for (const colorScheme of ["light", "dark"] as const)
        for (const [width, height] of SIZES) {
          await page().setViewportSize({ width, height });
          await page().emulateMedia({ colorScheme });
          await until("the theme is applied", async () => (await page().locator(`html[data-theme=${colorScheme}]`).count()) === 1);
          await until("nothing is asked for", async () => (await page().locator("[aria-busy=true], .waits").count()) === 0);
          assert.deepEqual(await violationsOf(page(), colorScheme === "dark"), [], `${colorScheme}, ${width} x ${height}`);
          const scrolls = await page().evaluate(() => document.documentElement.scrollWidth > innerWidth);
          assert(!scrolls, `${width} x ${height}: the page is wider than its window`);
        }
      await page().setViewportSize({ width: 1280, height: 720 });
      await page().emulateMedia({ colorScheme: null });
    });
}
