// SPDX-License-Identifier: Apache-2.0
// The data inside a page that is a file: blocks by name, deflated, in base64. A block is an answer of the
// server, or a header with columns; src/tools/view/saved/saved_blocks.h describes it.

export type Packed = Record<string, string>;

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

export function unpack(text: string): Promise<ArrayBuffer> {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

export const parse = (buffer: ArrayBuffer | Uint8Array) => JSON.parse(new TextDecoder().decode(buffer)) as unknown;

interface Described {
  columns?: { name: string; type: "d32" | "f64"; count: number }[];
}

export interface Block<Header> {
  header: Header;
  has: (name: string) => boolean;
  numbers: (name: string) => Uint32Array;
  doubles: (name: string) => Float64Array;
}

/** Put byte planes together: the values' first bytes come first, then their second ones and so on. */
function joinPlanes(planes: Uint8Array, count: number, width: number): ArrayBuffer {
  const bytes = new Uint8Array(count * width);
  for (let plane = 0, from = 0; plane < width; plane++)
    for (let i = 0, to = plane; i < count; i++, to += width) bytes[to] = planes[from++]!;
  return bytes.buffer;
}

function addDifferences(values: Uint32Array): Uint32Array {
  let sum = 0;
  for (let i = 0; i < values.length; i++) values[i] = sum = (sum + values[i]!) >>> 0;
  return values;
}

export function readBlock<Header>(buffer: ArrayBuffer): Block<Header> {
  const length = new DataView(buffer).getUint32(0, true);
  const header = parse(new Uint8Array(buffer, 4, length)) as Header & Described;
  const columns = new Map<string, { planes: Uint8Array; count: number }>();
  let at = 4 + length;
  for (const { name, type, count } of header.columns ?? []) {
    const bytes = count * (type === "f64" ? 8 : 4);
    columns.set(name, { planes: new Uint8Array(buffer, at, bytes), count });
    at += bytes;
  }
  const join = (name: string, width: number) => {
    const { planes, count } = columns.get(name)!;
    return joinPlanes(planes, count, width);
  };
  return {
    header,
    has: (name) => columns.has(name),
    numbers: (name) => addDifferences(new Uint32Array(join(name, 4))),
    doubles: (name) => new Float64Array(join(name, 8)),
  };
}
