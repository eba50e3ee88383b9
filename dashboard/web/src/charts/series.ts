// Numbers of steps as curves: over what they are drawn, smoothed, stacked, and how sure they are.
import { type Step, updates } from "../api";

export type Point = [number, number];

export interface Curve {
  name: string;
  points: Point[];
  /** A band around it. */
  low?: Point[];
  high?: Point[];
  /** One of several of the same kind, of which none is to be told from the others. */
  isFaint?: boolean;
}

export const HELD_OUT = "test/env/all/reward/total";
export const TRAINING = "env/all/reward/total";

/** What curves are drawn over. */
export const MEASURES = {
  updates: "updates",
  seconds: "seconds",
  tokens: "sampled tokens of training",
  cost: "cost of its tokens",
} as const;
export type Measure = keyof typeof MEASURES;

export function numberOf(step: Step, key: string): number | null {
  const value = step.metrics[key];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** What a million tokens cost. */
export interface Prices {
  currency: string;
  sampled: number;
  prefilled: number;
  trained: number;
}

const SAMPLED = "env/all/total_ac_tokens";

/** What a step took. */
function amountOf(step: Step, by: Measure, prices: Prices): number {
  const of = (key: string) => numberOf(step, key) ?? 0;
  if (by === "seconds") return of("time/total");
  if (by === "tokens") return of(SAMPLED);
  const prompts = prices.prefilled * of("env/all/total_ob_tokens");
  return (prices.sampled * of(SAMPLED) + prompts + prices.trained * of("optim/trained_tokens")) / 1e6;
}

const NO_PRICES: Prices = { currency: "", sampled: 0, prefilled: 0, trained: 0 };

/** Where each step stands: what had gone before what it says was measured. Nowhere, if nobody knows what tokens cost. */
export function places(steps: Step[], by: Measure, prices: Prices | null): number[] {
  if (by === "updates") return steps.map(updates);
  if (by === "cost" && prices === null) return [];
  let sum = 0;
  return steps.map((step) => {
    const before = sum;
    sum += amountOf(step, by, prices ?? NO_PRICES);
    return before;
  });
}

export function points(steps: Step[], key: string, at: number[] = steps.map(updates)): Point[] {
  return steps.flatMap((step, index): Point[] => {
    const value = numberOf(step, key);
    const x = at[index];
    return value === null || x === undefined ? [] : [[x, value]];
  });
}

/** An exponential mean that begins at the first value, and not at 0. */
export function smoothed(curve: Point[], weight: number): Point[] {
  let [sum, share] = [0, 0];
  return curve.map(([x, y]): Point => {
    sum = weight * sum + (1 - weight) * y;
    share = weight * share + (1 - weight);
    return [x, sum / share];
  });
}

/** Each curve upon those before it; nothing counts as 0. */
export function stacked(curves: Curve[]): Curve[] {
  const sums = new Map<number, number>();
  const all = [...new Set(curves.flatMap((curve) => curve.points.map(([x]) => x)))].sort((a, b) => a - b);
  return curves.map((curve) => {
    const known = new Map(curve.points);
    const points = all.map((x): Point => {
      sums.set(x, (sums.get(x) ?? 0) + (known.get(x) ?? 0));
      return [x, sums.get(x) ?? 0];
    });
    return { ...curve, points };
  });
}

/** The 95 % interval of a share of so many (Wilson). */
export function wilson(share: number, of: number): Point {
  const z = 1.96;
  const middle = (share + (z * z) / (2 * of)) / (1 + (z * z) / of);
  const half = (z / (1 + (z * z) / of)) * Math.sqrt((share * (1 - share)) / of + (z * z) / (4 * of * of));
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}

/** Whether a mean over episodes is how many of them had 1, all others 0: only then its interval is a share's. */
export function isShare(steps: Step[], key: string): boolean {
  const prefix = key.startsWith("test/") ? "test/env/all/" : "env/all/";
  const scored = steps.filter((step) => numberOf(step, key) !== null);
  return (
    scored.length > 0 &&
    scored.every((step) => {
      const value = numberOf(step, key) ?? -1;
      const counted = value * (numberOf(step, `${prefix}total_episodes`) ?? NaN);
      return value >= 0 && value <= 1 && Math.abs(counted - Math.round(counted)) < 1e-6;
    })
  );
}

/** A curve with its interval, if it is a share. */
export function withInterval(steps: Step[], key: string, curve: Curve): Curve {
  if (!isShare(steps, key)) return curve;
  const prefix = key.startsWith("test/") ? "test/env/all/" : "env/all/";
  const scored = steps.filter((step) => numberOf(step, key) !== null);
  const ends = scored.map((step) => wilson(numberOf(step, key) ?? 0, numberOf(step, `${prefix}total_episodes`) ?? 1));
  const at = (end: 0 | 1) => curve.points.map(([x], index): Point => [x, ends[index]?.[end] ?? 0]);
  return { ...curve, low: at(0), high: at(1) };
}

/** From the least to the greatest of several curves, where at least two are known. */
export function spread(curves: Point[][]): { low: Point[]; high: Point[] } {
  const values = new Map<number, number[]>();
  for (const [x, y] of curves.flat()) values.set(x, [...(values.get(x) ?? []), y]);
  const several = [...values].filter(([, of]) => of.length > 1).sort(([one], [other]) => one - other);
  return {
    low: several.map(([x, of]): Point => [x, Math.min(...of)]),
    high: several.map(([x, of]): Point => [x, Math.max(...of)]),
  };
}
