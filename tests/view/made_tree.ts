// SPDX-License-Identifier: Apache-2.0
// Makes answers of api/tree as the server writes them, for tests of the code that reads and draws them.

export interface MadeNode {
  parent: number;
  function: number;
  bytes: number;
  lost?: number;
}

const TYPES = { f64: Float64Array, f32: Float32Array, u32: Uint32Array };

export function encodeTree(nodes: MadeNode[], functions: { id: number; name: string; module: string }[], change: object = {}): ArrayBuffer {
  const isDifference = nodes.some((node) => node.lost !== undefined);
  const columns: [string, keyof typeof TYPES, (node: MadeNode) => number][] = [
    ["parent", "u32", (node) => node.parent],
    ["function", "u32", (node) => node.function],
    ["width", "f64", (node) => node.bytes + (node.lost ?? 0)],
  ];
  if (isDifference) columns.push(["before", "f64", (node) => node.lost!], ["after", "f64", (node) => node.bytes]);
  for (const prefix of isDifference ? ["", "lost_"] : [""]) {
    const bytes = (node: MadeNode) => (prefix === "" ? node.bytes : node.lost!);
    columns.push([`${prefix}bytes`, "f64", bytes], [`${prefix}count`, "f64", (node) => bytes(node) / 10]);
    columns.push([`${prefix}bytes_variance`, "f32", bytes], [`${prefix}count_variance`, "f32", () => 1], [`${prefix}samples`, "f32", () => 3]);
    columns.push([`${prefix}self_bytes`, "f64", () => 0], [`${prefix}self_count`, "f64", () => 0]);
  }
  const header = {
    nodes: nodes.length, pruned: false, difference: isDifference, counts: false, exact: false, partial: false, unknown: false,
    intervals: [4096, 4096], calibrations: [[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]], total: [nodes[0]?.bytes ?? 0, 1, 1, 1, 1], left_out: null, marks: [],
    functions: functions.map((one) => ({ file: "", line: 0, kind: "", ...one })),
    columns: columns.map(([name, type]) => ({ name, type })), ...change,
  };
  let text = JSON.stringify(header);
  const encode = () => new TextEncoder().encode(text);
  while ((4 + encode().length) % 8 !== 0) text += " ";
  const head = encode();
  const parts = [new Uint8Array(new Uint32Array([head.length]).buffer), head];
  for (const [, type, of] of columns) {
    const column = new Uint8Array(TYPES[type].from(nodes, of).buffer);
    parts.push(column, new Uint8Array((8 - (column.length % 8)) % 8));
  }
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all.buffer;
}
