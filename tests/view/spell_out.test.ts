// SPDX-License-Identifier: Apache-2.0
// Text that could turn the figures behind it around.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Fragment, h, type VNode } from "preact";
import { spellOut, startSpelling } from "page/spell_out";

test("controls are spelled out as on a terminal", () => {
  assert.equal(spellOut("a\u202eb\u0000\u001b[1m\u2069\u061c\u009b"), "a\\u202eb\\x00\\x1b[1m\\u2069\\u061c\\x9b");
  const plain = "Ünïcödé \u0627\u0633\u0645 <b> \t\n \\u202e";
  assert.equal(spellOut(plain), plain);
  assert(spellOut("a".repeat(10_000_000)).length < 200_000);
});

test("elements spell out their text, and nothing else", () => {
  const name = "evil\u202egnp";
  const Part = ({ text }: { text: string }) => h("i", null, text);
  startSpelling();
  const props = (node: VNode) => node.props as Record<string, unknown>;
  assert.deepEqual(props(h("td", { title: name }, name, 12, [name])), { title: spellOut(name), children: [spellOut(name), 12, [spellOut(name)]] });
  assert.deepEqual(props(h(Fragment, null, name)), { children: spellOut(name) });
  assert.deepEqual(props(h("input", { value: name })), { value: name });
  assert.deepEqual(props(h(Part, { text: name })), { text: name });
});
