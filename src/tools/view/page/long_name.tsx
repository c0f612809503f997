// SPDX-License-Identifier: Apache-2.0
// A name on one line. If there is no room, its middle is left out: names of one family begin alike and
// differ at their ends. The title has it in full.
const TAIL = 14; // characters that are always there
const HEAD_MOST = 300; // more are wider than any screen
const TITLE_MOST = 2000;

export function LongName({ name, title = name }: { name: string; title?: string }) {
  const letters = [...name.slice(0, HEAD_MOST)]; // no letter is cut in two
  const isShort = name.length <= 2 * TAIL;
  const tail = isShort ? "" : [...name.slice(-2 * TAIL)].slice(-TAIL).join("");
  const head = isShort ? name : name.length > HEAD_MOST ? letters.join("") : letters.slice(0, -TAIL).join("");
  return (
    <span class="long-name" title={title.length > TITLE_MOST ? `${title.slice(0, TITLE_MOST)}…` : title}>
      <span>{head}</span>{tail !== "" && <span>{tail}</span>}
    </span>
  );
}
