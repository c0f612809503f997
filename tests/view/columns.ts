// SPDX-License-Identifier: Apache-2.0
// The columns of lists: dragged, moved by keys, hidden, and kept; long names end in the middle and can be read.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";

interface Tools {
  page: () => Page;
  open: (fragment: string, address?: string) => Promise<void>;
  until: (what: string, holds: () => Promise<boolean>) => Promise<void>;
  url: string;
  hostile: string; // the address of a page with names of 100,000 characters
}

export function testColumns({ page, url, open, until, hostile }: Tools) {
  const handle = (title: string) => page().getByRole("separator", { name: `Width of ${title}`, exact: true });
  const widthOf = async (title: string) => (await page().getByRole("columnheader", { name: title }).boundingBox())!.width;

  test("columns are dragged, moved by keys, kept, and reset", async () => {
    await open("tab=table&by=function");
    await page().waitForSelector(".grid-room .row");
    const before = await widthOf("Module");
    const at = (await handle("Module").boundingBox())!;
    await page().mouse.move(at.x + 4, at.y + 8);
    await page().mouse.down();
    await page().mouse.move(at.x - 56, at.y + 8, { steps: 4 });
    await page().mouse.up();
    assert(Math.abs((await widthOf("Module")) - (before - 60)) <= 1, `${await widthOf("Module")} after ${before}`);
    await handle("Self").focus();
    const self = await widthOf("Self");
    await page().keyboard.press("ArrowRight");
    await until("the column is wider", async () => Math.abs((await widthOf("Self")) - self - 16) <= 1);
    await open("tab=table&by=function");
    await page().waitForSelector(".grid-room .row");
    await until("widths are kept", async () => Math.abs((await widthOf("Module")) - (before - 60)) <= 1 && Math.abs((await widthOf("Self")) - self - 16) <= 1);
    await handle("Module").dblclick();
    await until("it is as at first", async () => (await widthOf("Module")) > before - 40);
    await page().locator(".columns-menu summary").click();
    await page().getByRole("button", { name: "Reset widths" }).click();
    await until("all are", async () => Math.abs((await widthOf("Self")) - self) <= 1);
  });

  test("columns are hidden, and the address says so", async () => {
    await open("tab=table&by=function");
    await page().waitForSelector(".grid-room .row");
    await page().locator(".columns-menu summary").click();
    await page().getByRole("checkbox", { name: "Module" }).uncheck();
    await page().getByRole("checkbox", { name: "Over time" }).uncheck();
    await until("they are gone", async () => (await page().getByRole("columnheader", { name: /Module|Over time/ }).count()) === 0);
    const cells = await page().locator(".grid-room .row").first().locator("[role=gridcell]").count();
    assert.equal(cells, await page().locator(".row.head [role=columnheader]").count());
    assert.equal(new URLSearchParams(new URL(page().url()).hash.slice(1)).get("without"), "module,course");
    await page().reload();
    await page().waitForSelector(".grid-room .row");
    assert.equal(await page().getByRole("columnheader", { name: "Module" }).count(), 0);
    await page().goto("about:blank");
    await page().goto(`${url}#page=processes&without=user`);
    await page().waitForSelector(".grid-room .row");
    assert.equal(await page().getByRole("columnheader", { name: "User" }).count(), 0);
  });

  test("heads stay while rows scroll", async () => {
    await open("tab=table&by=function");
    await page().waitForSelector(".grid-room .row");
    const top = async () => (await page().locator(".row.head").boundingBox())!.y;
    const before = await top();
    await page().locator(".grid-body").evaluate((box) => { box.scrollTop = 400; });
    assert.equal(await top(), before);
  });

  test("a long name ends in the middle, in one row, and the keyboard shows the whole", async () => {
    await open("tab=table&heap=0.0&by=function&order=total", hostile);
    await page().waitForSelector(".grid-room .row");
    const name = page().locator(".grid-room .key .long-name", { hasText: "<img src=x" }).first();
    const [box, cell] = [(await name.boundingBox())!, (await name.locator("xpath=..").boundingBox())!];
    assert(box.width <= cell.width + 1 && box.height < 26, `${box.width} x ${box.height} in ${cell.width}`);
    assert.match(await name.locator("span").last().innerText(), /^x{5}/);
    await page().locator(".grid-body").focus();
    for (let i = 0; i < 200 && (await page().locator(".row.chosen .long-name", { hasText: "<img src=x" }).count()) === 0; i++) await page().keyboard.press("ArrowDown");
    await page().waitForSelector(".name-tip");
    assert.match(await page().locator(".name-tip").innerText(), /^<img src=x onerror=alert\(1\)>x{100}/);
    const tip = (await page().locator(".name-tip").boundingBox())!;
    assert(tip.width < 700 && tip.height < 200, `${tip.width} x ${tip.height}`);
    await page().mouse.click(5, 5);
    await until("the tip is gone", async () => (await page().locator(".name-tip").count()) === 0);
  });

  test("at 1280 pixels the title of the timeline is whole", async () => {
    await open("heap=0.0&tab=table");
    await page().waitForSelector(".timeline-title");
    const cut = await page().locator(".timeline-title").evaluate((title) => title.scrollWidth > title.clientWidth || title.scrollHeight > title.clientHeight + 1);
    assert(!cut);
    const [title, plot] = [(await page().locator(".timeline-head").boundingBox())!, await page().locator(".timeline-plot").count()];
    assert(title.height <= 30 && plot === 1, `${title.height} pixels`);
    await page().getByRole("button", { name: /^\d+ more$/ }).click();
    await until("all lines are listed", async () => (await page().locator(".timeline-legend .series", { hasText: "Anonymous" }).count()) === 1);
  });
}
