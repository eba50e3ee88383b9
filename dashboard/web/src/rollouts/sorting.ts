// Orders of rollouts, and why they failed.
import type { RolloutRow } from "../api";

export const ORDER_TITLES = {
  newest: "newest first",
  oldest: "oldest first",
  reward: "greatest reward first",
  "reward up": "least reward first",
  took: "longest duration first",
  "took up": "shortest duration first",
  tokens: "most sampled tokens first",
  "tokens up": "fewest sampled tokens first",
} as const;
export type Order = keyof typeof ORDER_TITLES;

const CAUSE = 80;

export const durationOf = (row: RolloutRow) => (row.end_time === null ? null : row.end_time - row.start_time);

const VALUES: Record<string, (row: RolloutRow) => number | null> = {
  reward: (row) => row.reward,
  took: durationOf,
  tokens: (row) => row.sampled_tokens ?? null,
};

/** In an order; what has no such number comes last. */
export function sorted(rows: RolloutRow[], order: Order): RolloutRow[] {
  if (order === "oldest") return rows;
  if (order === "newest") return [...rows].reverse();
  const [name = "", up] = order.split(" ");
  const value = VALUES[name] ?? (() => null);
  const known = rows.filter((row) => value(row) !== null);
  const sign = up ? 1 : -1;
  known.sort((one, other) => sign * ((value(one) ?? 0) - (value(other) ?? 0)));
  return [...known, ...rows.filter((row) => value(row) === null)];
}

/** Why a rollout failed, in few words; nothing if it did not. */
export function causeOf(row: RolloutRow): string | null {
  if (row.reason === null) return row.status === "failed" ? "no reason given" : null;
  return (row.reason.split("\n")[0] ?? "").slice(0, CAUSE);
}

export function causes(rows: RolloutRow[]): [cause: string, rollouts: number][] {
  const counts = new Map<string, number>();
  for (const row of rows) {
    const cause = causeOf(row);
    if (cause !== null) counts.set(cause, (counts.get(cause) ?? 0) + 1);
  }
  return [...counts].sort(([, one], [, other]) => other - one);
}
