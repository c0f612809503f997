// SPDX-License-Identifier: Apache-2.0
// Comma-separated values: what would be read otherwise is quoted, and no name is a formula.
import assert from "node:assert/strict";
import { test } from "node:test";
import { csvOf } from "page/bar/csv";

test("cells are quoted as they need it, and unknown ones are empty", () => {
  assert.equal(csvOf([["name", "bytes"], ["a,b", 1.5], ['std::map<int, "x">', null], ["two\nlines", -3]]), 'name,bytes\r\n"a,b",1.5\r\n"std::map<int, ""x"">",\r\n"two\nlines",-3\r\n');
});

test("a name that begins like a formula stays a text", () => {
  assert.equal(csvOf([['=HYPERLINK("http://x")', "@a", "-1+2", "operator==", "\uff1d1"]]), `"'=HYPERLINK(""http://x"")",'@a,'-1+2,operator==,'\uff1d1\r\n`);
});
