// SPDX-License-Identifier: Apache-2.0
// The pages: the profile that is open, and those about this machine. The row at the top leads from one
// to the other. A saved page has the profile only.
import type { ComponentChildren } from "preact";
import { HomePage } from "./machine/home";
import { ProcessesPage } from "./machine/processes";
import { RecordPage } from "./machine/record";
import { isSaved } from "./saved/saved";
import { select, type Page } from "./state";

export const PAGE_TITLES: Record<Page, string> = { profile: "Profile", home: "Start", record: "Record", processes: "Processes" };

const SHOWN_PAGES: Page[] = ["home", "profile", "record", "processes"];

/** The row of pages, and at its end what is the same on all of them. */
export function Pages({ page, children }: { page: Page; children: ComponentChildren }) {
  return (
    <nav class="pages" aria-label="Pages">
      <b>heapprofd</b>
      {!isSaved && SHOWN_PAGES.map((one) => (
        <button type="button" key={one} class="page-link" aria-current={one === page ? "page" : undefined} onClick={() => select({ page: one })}>
          {PAGE_TITLES[one]}
        </button>
      ))}
      <span class="pages-end">{children}</span>
    </nav>
  );
}

export function MachinePage({ page }: { page: Page }) {
  if (page === "record") return <RecordPage />;
  if (page === "processes") return <ProcessesPage />;
  return <HomePage />;
}
