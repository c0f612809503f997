// SPDX-License-Identifier: Apache-2.0
// Sentences in which names and commands are set apart: as parts by turns, words first, or between
// `backquotes`.

export function Parts({ parts }: { parts: string[] }) {
  return <>{parts.map((part, i) => (i % 2 === 1 ? <code key={i}>{part}</code> : part))}</>;
}

export function Sentence({ text }: { text: string }) {
  return <Parts parts={text.split(/`([^`]+)`/)} />;
}
