// Curves over the updates of one or several runs, or over what these took.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useKeys } from "./chart_keys";
import { type Curve, type Point, smoothed, stacked } from "./series";

export const COLOURS = ["#b86e00", "#2b6cb0", "#2f855a", "#9b2c5e", "#6b46c1", "#4a5568", "#0f766e", "#c2410c"];
const HEIGHT = 200;

/** A line as it is drawn; `reported` are its values in the legend. */
interface Line {
  series: uPlot.Series;
  points: Point[];
  reported?: Point[];
}

interface Drawing {
  lines: Line[];
  bands: uPlot.Band[];
}

export interface ChartProps {
  title: string;
  curves: Curve[];
  /** What they are drawn over. */
  over?: string;
  note?: string;
  isLog?: boolean;
  isStacked?: boolean;
  /** From 0, as it was measured, to almost 1. */
  smoothing?: number;
}

const colour = (index: number) => COLOURS[index % COLOURS.length] ?? "#000";

/** The lines of curves: the raw ones faint, with the smoothed ones upon them, and the ends of bands. */
function lines({ curves, smoothing = 0 }: ChartProps): Drawing {
  const drawing: Drawing = { lines: [], bands: [] };
  const add = (points: Point[], series: uPlot.Series) => drawing.lines.push({ points, series });
  curves.forEach((curve, index) => {
    const stroke = colour(index);
    if (curve.low && curve.high) {
      const at = drawing.lines.length + 1;
      drawing.bands.push({ series: [at + 1, at], fill: `${stroke}2e` });
      for (const points of [curve.low, curve.high]) {
        add(points, {
          label: `${curve.name} band`,
          class: "unlisted",
          stroke: `${stroke}55`,
          width: 1,
          points: { show: false },
        });
      }
    }
    if (curve.isFaint) {
      add(curve.points, {
        label: curve.name,
        class: "unlisted",
        stroke: `${stroke}66`,
        width: 1,
        points: { show: false },
      });
      return;
    }
    const isSmoothed = smoothing > 0 && curve.points.length > 2;
    if (isSmoothed) {
      add(curve.points, {
        label: `${curve.name} raw`,
        class: "unlisted",
        stroke: `${stroke}44`,
        width: 1,
        points: { show: false },
      });
    }
    const points = isSmoothed ? smoothed(curve.points, smoothing) : curve.points;
    add(points, { label: curve.name, stroke, width: 2, points: { show: points.length < 40, size: 5, fill: stroke } });
  });
  return drawing;
}

/** Areas upon each other; the highest is drawn first. */
function areas({ curves }: ChartProps): Drawing {
  const sums = stacked(curves);
  const drawn = sums.map((sum, index): Line => {
    const series = { label: sum.name, stroke: colour(index), fill: colour(index), width: 1, points: { show: false } };
    return { points: sum.points, reported: curves[index]?.points ?? [], series };
  });
  return { lines: drawn.reverse(), bands: [] };
}

/** All lines over all places that one of them has. */
function aligned(drawn: Line[], isLog: boolean): { data: uPlot.AlignedData; reported: (number | null)[][] } {
  const places = [...new Set(drawn.flatMap((line) => line.points.map(([x]) => x)))].sort((a, b) => a - b);
  const column = (points: Point[]) => {
    const known = new Map(points);
    return places.map((x) => {
      const value = known.get(x);
      return value === undefined || (isLog && value <= 0) ? null : value;
    });
  };
  return {
    data: [places, ...drawn.map((line) => column(line.points))],
    reported: drawn.map((line) => column(line.reported ?? line.points)),
  };
}

/** A scale around values, which may all be the same. */
function around(_plot: uPlot, least: number | null, most: number | null): uPlot.Range.MinMax {
  const [low, high] = [least ?? 0, most ?? 1];
  const margin = high > low ? (high - low) * 0.08 : Math.abs(high) * 0.1 || 1;
  return [low - margin, high + margin];
}

// Ticks of a logarithm begin at a multiple of a power of ten: from elsewhere uPlot counts on without an end.
const aroundLog = (_plot: uPlot, least: number | null, most: number | null): uPlot.Range.MinMax =>
  least === most
    ? uPlot.rangeLog((least ?? 1) / 2, (most ?? 1) * 2, 10, false)
    : uPlot.rangeLog(least ?? 0.1, most ?? 1, 10, false);
const aroundShares = (_plot: uPlot, _least: number | null, most: number | null): uPlot.Range.MinMax => [0, most || 1];

/** A logarithm says something where most values have one. */
function isLogged({ curves, isLog, isStacked }: ChartProps): boolean {
  const values = curves.flatMap((curve) => curve.points.map(([, y]) => y));
  return (
    Boolean(isLog && !isStacked) &&
    values.length > 0 &&
    values.filter((y) => y > 0).length * 2 > values.length &&
    !values.some((y) => y < 0)
  );
}

const short = (value: number | null | undefined) =>
  value === null || value === undefined ? "–" : value.toPrecision(4);

export function Chart(props: ChartProps) {
  const { title, curves, over = "updates", note, isStacked = false } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const reported = useRef<(number | null)[][]>([]);
  const isZoomed = useRef(false);
  const range = useRef<{ min: number; max: number; over: string } | null>(null);
  const isLog = isLogged(props);
  const { lines: drawn, bands } = isStacked ? areas(props) : lines(props);
  const listed = drawn.filter((line) => line.series.class !== "unlisted").length;
  const labels = drawn.map(({ series }) => `${series.label} ${series.points?.show}`);
  // A picture with other lines is another picture; the same lines with more points are not.
  const shape = [...labels, bands.length, isLog, over].join("\n");
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const style = getComputedStyle(element);
    const axis = { stroke: style.color, grid: { stroke: style.borderTopColor, width: 1 }, ticks: { show: false } };
    const { data, reported: values } = aligned(drawn, isLog);
    reported.current = values;
    const options: uPlot.Options = {
      width: element.clientWidth,
      height: HEIGHT,
      scales: {
        x: { time: false },
        y: isLog ? { distr: 3, range: aroundLog } : { range: isStacked ? aroundShares : around },
      },
      axes: [
        axis,
        {
          ...axis,
          size: 60,
          values: (_plot, splits) => splits.map((value) => (value === null ? "" : String(+value.toPrecision(3)))),
        },
      ],
      legend: { show: listed > 1 },
      cursor: { drag: { x: true, y: false } },
      bands,
      hooks: {
        setSelect: [
          (plot) => {
            if (plot.select.width > 0) isZoomed.current = true;
          },
        ],
        setScale: [
          ({ scales }, key) => {
            if (key === "x") element.dataset.range = `${scales.x?.min} ${scales.x?.max}`;
          },
        ],
      },
      series: [
        { label: over },
        ...drawn.map((line, index) => ({
          ...line.series,
          spanGaps: true,
          value: (_plot: uPlot, _value: number | null, _series: number, at: number | null) =>
            short(at === null ? null : reported.current[index]?.[at]),
        })),
      ],
    };
    plot.current = new uPlot(options, data, element);
    // Another picture of the same goes on where the one before was zoomed to.
    isZoomed.current = range.current?.over === over;
    if (isZoomed.current && range.current) plot.current.setScale("x", range.current);
    const back = () => (isZoomed.current = false);
    element.addEventListener("dblclick", back, true);
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      element.removeEventListener("dblclick", back, true);
      const { min, max } = plot.current?.scales.x ?? {};
      range.current = isZoomed.current && min !== undefined && max !== undefined ? { min, max, over } : null;
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => {
    const { data, reported: values } = aligned(drawn, isLog);
    reported.current = values;
    // What is looked at closely stays where it is while further steps come.
    plot.current?.setData(data, !isZoomed.current);
    if (isZoomed.current) plot.current?.redraw(true, true);
  }, [curves, props.smoothing]);
  const last = listed === 1 ? curves.find((curve) => !curve.isFaint)?.points.at(-1)?.[1] : undefined;
  const ends = curves
    .filter((curve) => !curve.isFaint)
    .map((curve) => `${curve.name} ${short(curve.points.at(-1)?.[1])}`);
  const { pointed, pressed } = useKeys(plot, isZoomed);
  const pointedAt = () => {
    const values = drawn.flatMap(({ series }, index) =>
      series.class === "unlisted" ? [] : [`${series.label} ${short(reported.current[index]?.[pointed ?? 0])}`],
    );
    return `${over} ${short(plot.current?.data[0][pointed ?? 0])}: ${values.join(", ")}`;
  };
  return (
    <figure class="chart" data-points={Math.max(0, ...curves.map((curve) => curve.points.length))}>
      <figcaption>
        {title} {last !== undefined && <b>{short(last)}</b>}
        {isLog && " (logarithmic)"}
        {note && <span> {note}</span>}
        <span class="pointed" aria-live="polite">
          {pointed !== null && ` · ${pointedAt()}`}
        </span>
      </figcaption>
      <div
        ref={place}
        role="img"
        tabIndex={0}
        onKeyDown={pressed}
        aria-label={`${title} over ${over}: now ${ends.slice(0, 12).join(", ")}. Arrow keys read it, + and − zoom, Escape goes back.`}
      />
    </figure>
  );
}
