// Rewards of rollouts over how long they were, as points that can be clicked.
import { useEffect, useRef, useState } from "preact/hooks";
import type { RolloutRow } from "../api";
import { count, duration, fixed } from "../format";
import { COLOURS } from "./chart";
import { durationOf } from "../rollouts/sorting";

const HEIGHT = 220;
const MARGIN = { left: 56, right: 12, top: 10, bottom: 24 };
/** Pixels from the pointer within which a point is meant. */
const NEAR = 12;
const MODES = ["train", "val", "test"];

type Length = "took" | "tokens";

interface Place {
  x: number;
  y: number;
  row: RolloutRow;
}

const lengthOf = (row: RolloutRow, length: Length) =>
  length === "took" ? durationOf(row) : (row.sampled_tokens ?? null);
const withUnit = (value: number, length: Length) => (length === "took" ? duration(value) : `${count(value)} tokens`);

const described = (row: RolloutRow, length: Length) =>
  `${row.rollout_id.slice(-12)}: reward ${fixed(row.reward)}, ${withUnit(lengthOf(row, length) ?? 0, length)}, ${row.input}`;

interface Picture {
  places: Place[];
  ends: { x: [number, number]; y: [number, number] };
}

function laidOut(rows: RolloutRow[], length: Length, width: number): Picture | null {
  const known = rows.flatMap((row) => {
    const of = lengthOf(row, length);
    return of === null || row.reward === null ? [] : [{ of, reward: row.reward, row }];
  });
  if (known.length === 0) return null;
  const ends = (values: number[]): [number, number] =>
    values.reduce(
      ([low, high], value): [number, number] => [Math.min(low, value), Math.max(high, value)],
      [Infinity, -Infinity],
    );
  const [xs, ys] = [ends(known.map(({ of }) => of)), ends(known.map(({ reward }) => reward))];
  const share = (value: number, [low, high]: [number, number]) => (high > low ? (value - low) / (high - low) : 0.5);
  const places = known.map(({ of, reward, row }) => ({
    x: MARGIN.left + share(of, xs) * (width - MARGIN.left - MARGIN.right),
    y: HEIGHT - MARGIN.bottom - share(reward, ys) * (HEIGHT - MARGIN.top - MARGIN.bottom),
    row,
  }));
  return { places, ends: { x: xs, y: ys } };
}

function draw(canvas: HTMLCanvasElement, { places, ends }: Picture, length: Length) {
  const context = canvas.getContext("2d");
  if (!context) return;
  const width = canvas.clientWidth;
  const ratio = devicePixelRatio || 1;
  [canvas.width, canvas.height] = [width * ratio, HEIGHT * ratio];
  context.scale(ratio, ratio);
  const style = getComputedStyle(canvas);
  context.strokeStyle = style.color;
  context.globalAlpha = 0.3;
  context.strokeRect(
    MARGIN.left - 6,
    MARGIN.top - 6,
    width - MARGIN.left - MARGIN.right + 12,
    HEIGHT - MARGIN.top - MARGIN.bottom + 12,
  );
  context.globalAlpha = 1;
  context.fillStyle = style.color;
  context.font = `12px ${style.fontFamily}`;
  context.fillText(withUnit(ends.x[0], length), MARGIN.left - 6, HEIGHT - 4);
  context.textAlign = "right";
  context.fillText(withUnit(ends.x[1], length), width - MARGIN.right, HEIGHT - 4);
  context.fillText(fixed(ends.y[1], 2), MARGIN.left - 12, MARGIN.top + 8);
  context.fillText(fixed(ends.y[0], 2), MARGIN.left - 12, HEIGHT - MARGIN.bottom);
  context.globalAlpha = places.length > 2000 ? 0.35 : 0.6;
  for (const { x, y, row } of places) {
    context.fillStyle = COLOURS[Math.max(0, MODES.indexOf(row.mode ?? ""))] ?? "";
    context.beginPath();
    context.arc(x, y, 3, 0, 2 * Math.PI);
    context.fill();
  }
}

function nearest(places: Place[], x: number, y: number): RolloutRow | null {
  let best: Place | null = null;
  const distance = (place: Place) => Math.hypot(place.x - x, place.y - y);
  for (const place of places) if (!best || distance(place) < distance(best)) best = place;
  return best && distance(best) <= NEAR ? best.row : null;
}

export function Scatter({ rows }: { rows: RolloutRow[] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const picture = useRef<Picture | null>(null);
  const hasTokens = rows.some((row) => typeof row.sampled_tokens === "number");
  const [wanted, setLength] = useState<Length>("took");
  const [pointed, point] = useState<RolloutRow | null>(null);
  const length = hasTokens ? wanted : "took";
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const drawn = () => {
      picture.current = laidOut(rows, length, element.clientWidth);
      if (picture.current) draw(element, picture.current, length);
    };
    drawn();
    const resized = new ResizeObserver(drawn);
    resized.observe(element);
    return () => resized.disconnect();
  }, [rows, length]);
  const rewarded = rows.filter((row) => row.reward !== null && lengthOf(row, length) !== null).length;
  if (rewarded < 2) return null;
  const at = (event: MouseEvent) => nearest(picture.current?.places ?? [], event.offsetX, event.offsetY);
  return (
    <figure class="chart scatter">
      <figcaption>
        Reward over{" "}
        {hasTokens ? (
          <select
            name="length"
            aria-label="length of a rollout"
            value={length}
            onChange={(event) => setLength(event.currentTarget.value as Length)}
          >
            <option value="took">duration</option>
            <option value="tokens">sampled tokens</option>
          </select>
        ) : (
          "duration"
        )}
        :{" "}
        {MODES.map((mode, index) => (
          <span key={mode}>
            <i class="swatch" style={{ background: COLOURS[index] ?? "" }} /> {mode}{" "}
          </span>
        ))}
      </figcaption>
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Rewards of ${rewarded} rollouts over how long they were; the table has the same`}
        onMouseMove={(event) => point(at(event))}
        onClick={(event) => {
          const row = at(event);
          if (row) location.hash = `#/rollouts/${encodeURIComponent(row.rollout_id)}`;
        }}
      />
      <p class="quiet">{pointed ? described(pointed, length) : "Click a point to open its rollout."}</p>
    </figure>
  );
}
