// SPDX-License-Identifier: Apache-2.0
// The selection in the URL.
import assert from "node:assert/strict";
import { test } from "node:test";
import { exactly, formatSelection, moduleNamed, NOTHING_SELECTED, parseSelection, type Selection } from "page/state";
import { withNumbers } from "page/numbers";

test("a selection survives the URL", () => {
  const selection: Selection = {
    ...NOTHING_SELECTED, tab: "flame", heap: "0.3", dump: 4, base: "1.0.5", time: "0.25-17", view: "alloc_objects", direction: "sandwich", group: "thread", function: 7, functionName: "a<b>(c)@/lib/x.so", numbering: "12-ab",
    filters: [{ kind: "focus", pattern: "a&b=c#d:e%41 +" }, { kind: "hide", pattern: "^operator\\+$" }],
    only: [{ dimension: "function", value: "operator+(a&b, c:d)@/usr/lib/x#1.so" }, { dimension: "type", value: "" }],
    zoom: "5.17", frame: "5.17.3", search: "/x|y/i", by: "module", order: "total", sql: "SELECT 'a&b' -- #\n", hidden: "rate",
  };
  assert.deepEqual(parseSelection("#" + formatSelection(selection)), selection);
  assert.equal(formatSelection(NOTHING_SELECTED), "");
  assert.deepEqual(parseSelection(""), NOTHING_SELECTED);
});

test("numbers of functions are kept, found again by name, or dropped", () => {
  const selection: Selection = { ...NOTHING_SELECTED, zoom: "1.2", frame: "1.2.3", function: 7, functionName: "f@m", numbering: "9-a" };
  const answer = { numbering: "10-b", same: true, function: 7, name: "f@m" };
  assert.deepEqual(withNumbers(selection, selection, answer), { numbering: "10-b", function: 7, functionName: "f@m" });
  const other = { ...answer, same: false, function: 4 };
  assert.deepEqual(withNumbers(selection, selection, other), { numbering: "10-b", zoom: "", frame: "", function: 4, functionName: "f@m" });
  const gone = { ...other, function: null, name: null };
  assert.deepEqual(withNumbers(selection, selection, gone), { numbering: "10-b", zoom: "", frame: "", function: null, functionName: "" });
  const nameless = { ...selection, functionName: "" };
  assert.equal(withNumbers(nameless, nameless, other).function, null, "a number of another numbering means nothing");
  const fresh = { ...nameless, numbering: "" };
  assert.deepEqual(withNumbers(fresh, fresh, { ...other, function: 7 }), { numbering: "10-b", function: 7, functionName: "f@m" });
  assert.deepEqual(withNumbers(selection, { ...selection, function: 3 }, answer), { numbering: "10-b" }, "an answer about another function");
  assert.equal(formatSelection({ ...NOTHING_SELECTED, numbering: "9-a" }), "");
});

test("a fragment that makes no sense selects nothing", () => {
  const wrong = parseSelection("#tab=x&heap=../..&dump=-1&base=a&time=3&view=__proto__&direction=1&function=1e9&zoom=1..2&filter=rm:x&filter=focus:&by=0&also=1,2,3&rank=dump4&only=colour:red&only=thread");
  assert.deepEqual(wrong, NOTHING_SELECTED);
});

test("a name as a pattern matches only itself", () => {
  const name = "std::vector<int*>::operator[](unsigned long) {a|b}^$ \\?";
  assert(new RegExp(exactly(name)).test(name));
  assert(!new RegExp(exactly(name)).test(name + "x"));
  for (const path of ["/usr/lib/libstdc++.so.6", "libstdc++.so.6"]) assert(new RegExp(moduleNamed("libstdc++.so.6")).test(path));
  assert(!new RegExp(moduleNamed("libc.so.6")).test("/usr/lib/notlibc.so.6"));
});
