// SPDX-License-Identifier: Apache-2.0
// The colours of the memory's plot. Areas are parted by lines of the ground's colour, and each has a contrast of 3:1 to
// it at least: so one is told from the next, whatever both are (tests/view/contrast.test.ts).

/** Of each kind, on the light and the dark ground: hues of Okabe and Ito's palette, and greys. */
export const KIND_COLOURS: Record<string, [light: string, dark: string]> = {
  allocator: ["#2b87c4", "#3d8fc9"],
  other_heaps: ["#00568a", "#9cc7ea"],
  anonymous: ["#b87d00", "#c98b00"],
  thread_stacks: ["#009e73", "#00a37a"],
  main_stack: ["#4f8f7a", "#7fcdb4"],
  files_written: ["#d55e00", "#e07a2a"],
  files_clean: ["#868d96", "#78808a"],
  shared: ["#c065a0", "#cc79a7"],
  kernel: ["#6d747d", "#9aa1aa"],
  unknown: ["#454b53", "#c8ccd2"],
};

export const LINES = {
  light: { ink: "#1b1d20", faint: "#5c636b", line: "#e4e6e9", accent: "#0b5cad", ground: "#ffffff" },
  dark: { ink: "#eceef0", faint: "#a3abb4", line: "#2c3036", accent: "#7ab8ff", ground: "#181a1d" },
};

export const colourOf = (kind: string, dark: boolean) => (KIND_COLOURS[kind] ?? KIND_COLOURS["unknown"]!)[dark ? 1 : 0];
