// SPDX-License-Identifier: Apache-2.0
// The part of the timeline that is shown: how it is zoomed and moved, and how it stands in the URL.

/** Seconds since the beginning of the profile. */
export interface Span {
  from: number;
  to: number;
}

const SMALLEST = 1e-6; // of the whole

/** Return the span nearest to the wanted one that is inside the whole. */
export function clampSpan(wanted: Span, whole: Span): Span {
  const all = whole.to - whole.from;
  const length = Math.min(Math.max(wanted.to - wanted.from, all * SMALLEST), all);
  const from = Math.min(Math.max(wanted.from, whole.from), whole.to - length);
  return { from, to: from + length };
}

/** Move by a share of what is shown. */
export function panSpan(span: Span, share: number): Span {
  const by = share * (span.to - span.from);
  return { from: span.from + by, to: span.to + by };
}

/** Zoom; the moment `at` stays where it is. */
export function zoomSpan(span: Span, factor: number, at = (span.from + span.to) / 2): Span {
  return { from: at - (at - span.from) * factor, to: at + (span.to - at) * factor };
}

export function parseSpan(text: string): Span | null {
  const [from, to] = text.split("-").map(Number);
  return from !== undefined && to !== undefined && from < to ? { from, to } : null;
}

/** Return a span as the URL has it; "": it is the whole. */
export function formatSpan(span: Span, whole: Span): string {
  const tolerance = (whole.to - whole.from) * SMALLEST;
  if (span.from <= whole.from + tolerance && span.to >= whole.to - tolerance) return "";
  const digits = Math.min(Math.max(Math.ceil(3 - Math.log10(span.to - span.from)), 0), 9);
  const [from, to] = [span.from, span.to].map((seconds) => String(Number(Math.max(seconds, 0).toFixed(digits))));
  return `${from}-${to}`;
}
