// Charts by keyboard: arrows go from one point to the next, + and − zoom, Escape goes back.
import type { MutableRef } from "preact/hooks";
import { useState } from "preact/hooks";
import type uPlot from "uplot";

const HALF = 0.5;

/** Half or twice as much of the places that are shown, around one of them. */
function zoom(plot: uPlot, around: number, factor: number): boolean {
  const places = plot.data[0];
  const [first, last] = [places[0] ?? 0, places.at(-1) ?? 0];
  const [low, high] = [plot.scales.x?.min ?? first, plot.scales.x?.max ?? last];
  const middle = Math.min(high, Math.max(low, around));
  const min = Math.max(first, middle - (middle - low) * factor);
  const max = Math.min(last, middle + (high - middle) * factor);
  if (max > min) plot.setScale("x", { min, max });
  return min > first || max < last;
}

export function useKeys(plot: MutableRef<uPlot | null>, isZoomed: MutableRef<boolean>) {
  const [pointed, point] = useState<number | null>(null);
  const move = (drawn: uPlot, by: number) => {
    const places = drawn.data[0];
    const next = Math.min(places.length - 1, Math.max(0, (pointed ?? (by > 0 ? -1 : places.length)) + by));
    point(next);
    drawn.setCursor({ left: drawn.valToPos(places[next] ?? 0, "x"), top: drawn.over.clientHeight / 2 });
  };
  const pressed = (event: KeyboardEvent) => {
    const drawn = plot.current;
    if (!drawn || event.ctrlKey || event.metaKey || event.altKey) return;
    const place = drawn.data[0][pointed ?? drawn.data[0].length - 1] ?? 0;
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") move(drawn, event.key === "ArrowRight" ? 1 : -1);
    else if (event.key === "+" || event.key === "=") isZoomed.current = zoom(drawn, place, HALF);
    else if (event.key === "-") isZoomed.current = zoom(drawn, place, 1 / HALF);
    else if (event.key === "Escape") {
      isZoomed.current = false;
      point(null);
      drawn.setData(drawn.data, true);
      drawn.setCursor({ left: -10, top: -10 });
    } else return;
    event.preventDefault();
  };
  return { pointed, pressed };
}
