// SPDX-License-Identifier: Apache-2.0
// A sentence in which names and commands stand between `backquotes`.

export function Sentence({ text }: { text: string }) {
  const parts = text.split(/(`[^`]+`)/);
  return <>{parts.map((part, i) => (part.startsWith("`") && part.length > 2 ? <code key={i}>{part.slice(1, -1)}</code> : part))}</>;
}

