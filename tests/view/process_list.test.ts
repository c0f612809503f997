// SPDX-License-Identifier: Apache-2.0
// How processes are listed: filters, orders, the tree.
import assert from "node:assert/strict";
import { test } from "node:test";
import { list, type MachineProcess } from "page/machine/process_list";

const NOTHING = { find: "", processOrder: "rss", isReversed: false, isTree: false, hasKernel: false } as const;

function made(pid: number, parent_pid: number, rss: number | null, more: Partial<MachineProcess> = {}): MachineProcess {
  return {
    pid, parent_pid, rss, name: `p${pid}`, command: "", user: "root", kernel: false, anonymous: null, file: null, shared: null, swap: rss,
    threads: 1, start_ms: 0, start_ticks: pid, cpu_ms: 0, ...more,
  };
}

const PROCESSES = [made(1, 0, 10), made(2, 0, null, { kernel: true }), made(3, 1, 30, { name: "Beta", user: "www" }), made(4, 3, 20, { command: "run --now" }), made(5, 1, null)];
const pids = (options: object) => list(PROCESSES, { ...NOTHING, ...options }).map(({ process }) => process.pid);

test("the largest comes first, and what is unknown last, in either direction", () => {
  assert.deepEqual(pids({}), [3, 4, 1, 5]);
  assert.deepEqual(pids({ isReversed: true }), [1, 4, 3, 5]);
  assert.deepEqual(pids({ hasKernel: true }), [3, 4, 1, 2, 5]);
  assert.deepEqual(pids({ processOrder: "pid" }), [1, 3, 4, 5]);
  assert.deepEqual(pids({ processOrder: "name" }), [3, 1, 4, 5]);
  assert.deepEqual(pids({ processOrder: "growth" }), [1, 3, 4, 5]);
});

test("a filter finds names, pids, users and commands; all its words must be there", () => {
  assert.deepEqual(pids({ find: "beta" }), [3]);
  assert.deepEqual(pids({ find: "WWW" }), [3]);
  assert.deepEqual(pids({ find: " --now p4 " }), [4]);
  assert.deepEqual(pids({ find: "root" }), [4, 1, 5]);
  assert.deepEqual(pids({ find: "absent" }), []);
});

test("a tree has children after their parents, the largest first", () => {
  const tree = list(PROCESSES, { ...NOTHING, isTree: true });
  assert.deepEqual(tree.map(({ process, depth }) => [process.pid, depth]), [[1, 0], [3, 1], [4, 2], [5, 1]]);
});

test("parents that form a circle lose no process", () => {
  const circle = [made(7, 8, 1), made(8, 7, 2), made(9, 9, 3)];
  const tree = list(circle, { ...NOTHING, isTree: true });
  assert.deepEqual(tree.map(({ process }) => process.pid).sort(), [7, 8, 9]);
});

test("a chain of 10,000 processes is listed", () => {
  const chain = Array.from({ length: 10000 }, (_, i) => made(i + 1, i, 1));
  const tree = list(chain, { ...NOTHING, isTree: true });
  assert.equal(tree.length, 10000);
  assert.equal(tree[9999]!.depth, 9999);
});
