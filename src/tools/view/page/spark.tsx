// SPDX-License-Identifier: Apache-2.0
// A small line of something over time, from zero and as high as its most.

const HEIGHT = 20;

export interface SparkPoint {
  time: number;
  value: number;
}

/** Of the points of each column of pixels, the highest. */
function columnsOf(points: SparkPoint[], width: number): SparkPoint[] {
  const step = Math.ceil(points.length / width);
  if (step <= 1) return points;
  const columns: SparkPoint[] = [];
  for (let i = 0; i < points.length; i += step)
    columns.push(points.slice(i, i + step).reduce((most, point) => (point.value > most.value ? point : most)));
  return columns;
}

export function Spark({ points, width }: { points: SparkPoint[]; width: number }) {
  const columns = columnsOf(points, width);
  if (columns.length < 2) return null;
  const first = columns[0]!.time;
  const span = columns[columns.length - 1]!.time - first || 1;
  const most = Math.max(...columns.map((point) => point.value), 1);
  const at = ({ time, value }: SparkPoint) => {
    const x = 1 + ((time - first) / span) * (width - 2);
    const y = HEIGHT - 2 - (Math.max(value, 0) / most) * (HEIGHT - 4);
    return `${x.toFixed(1)} ${y.toFixed(1)}`;
  };
  const line = columns.map(at).join("L");
  return (
    <svg class="spark" width={width} height={HEIGHT} aria-hidden="true">
      <path class="spark-area" d={`M1 ${HEIGHT - 1}L${line}L${width - 1} ${HEIGHT - 1}Z`} />
      <path class="spark-line" d={`M${line}`} />
    </svg>
  );
}
