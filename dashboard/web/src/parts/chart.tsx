// Curves over the updates of one or several runs.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Curve {
  name: string;
  points: [number, number][];
}

const COLOURS = ["#b86e00", "#2b6cb0", "#2f855a", "#9b2c5e", "#6b46c1", "#4a5568"];

/** All curves over all places that one of them has. */
function aligned(curves: Curve[]): uPlot.AlignedData {
  const places = [...new Set(curves.flatMap((curve) => curve.points.map(([x]) => x)))].sort((a, b) => a - b);
  const columns = curves.map((curve) => {
    const known = new Map(curve.points);
    return places.map((x) => known.get(x) ?? null);
  });
  return [places, ...columns];
}

/** A scale around values, which may all be the same. */
function around(_plot: uPlot, least: number | null, most: number | null): uPlot.Range.MinMax {
  const [low, high] = [least ?? 0, most ?? 1];
  const margin = high > low ? (high - low) * 0.08 : Math.abs(high) * 0.1 || 1;
  return [low - margin, high + margin];
}

export function Chart({ title, curves }: { title: string; curves: Curve[] }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const names = curves.map((curve) => curve.name).join("\n");
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const style = getComputedStyle(element);
    const axis = { stroke: style.color, grid: { stroke: style.borderTopColor, width: 1 }, ticks: { show: false } };
    const options: uPlot.Options = {
      width: element.clientWidth,
      height: 200,
      scales: { x: { time: false }, y: { range: around } },
      axes: [axis, { ...axis, size: 56 }],
      legend: { show: curves.length > 1 },
      cursor: { drag: { x: true, y: false } },
      series: [
        { label: "update" },
        ...curves.map((curve, index) => ({
          label: curve.name,
          stroke: COLOURS[index % COLOURS.length] ?? "#000",
          width: 2,
          spanGaps: true,
          points: { show: curve.points.length < 40 },
        })),
      ],
    };
    plot.current = new uPlot(options, aligned(curves), element);
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: 200 }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [names]);
  useEffect(() => plot.current?.setData(aligned(curves)), [curves]);
  const last = curves.length === 1 ? curves[0]?.points.at(-1)?.[1] : undefined;
  return (
    <figure class="chart">
      <figcaption>
        {title} {last !== undefined && <b>{last.toPrecision(4)}</b>}
      </figcaption>
      <div ref={place} role="img" aria-label={`${title}${last === undefined ? "" : `, now ${last.toPrecision(4)}`}`} />
    </figure>
  );
}
