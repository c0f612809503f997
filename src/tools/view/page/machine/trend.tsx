// SPDX-License-Identifier: Apache-2.0
// A line of resident memory over the last two minutes. It shows the change: a line is flat unless the memory
// has moved by a noticeable part of itself.

const WIDTH = 96;
const HEIGHT = 20;
const POINTS = 60;
const NOTICEABLE = 0.05;

export function Trend({ course }: { course: number[] }) {
  if (course.length < 2) return null;
  const most = Math.max(...course);
  const least = Math.min(...course);
  const span = Math.max(most - least, NOTICEABLE * most, 1);
  const middle = (most + least) / 2;
  const x = (i: number) => WIDTH - 1 - ((course.length - 1 - i) * (WIDTH - 2)) / (POINTS - 1);
  const y = (value: number) => HEIGHT / 2 - ((value - middle) / span) * (HEIGHT - 4);
  const line = course.map((value, i) => `${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("L");
  return (
    <svg class="spark" width={WIDTH} height={HEIGHT} aria-hidden="true">
      <path class="spark-line" d={`M${line}`} />
    </svg>
  );
}
