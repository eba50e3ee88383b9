// Settings in which runs differ, as axes beside each other.
import type { RunRow } from "../api";

export type Setting = string | number | boolean | undefined;

export interface Axis {
  key: string;
  values: Setting[];
  /** Where a value stands, from 0 at the bottom to 1; nothing where it is not known. */
  at: (value: Setting) => number | null;
  /** What is written beside it. */
  ticks: [place: number, label: string][];
}

/** What a run reached. */
interface Score {
  title: string;
  of: (run: RunRow) => number | null | undefined;
  isLoss?: boolean;
}

/** The first that some run has is drawn. */
const SCORES: Score[] = [
  { title: "held-out after", of: (run) => run.held_out_after },
  { title: "held-out accuracy", of: (run) => run.held_out_accuracy },
  { title: "held-out loss", of: (run) => run.held_out_loss, isLoss: true },
  { title: "training reward", of: (run) => run.reward },
];

/** More than these nobody can read. */
const MOST = 12;
const TEXTS = 8;

export const short = (value: Setting) =>
  typeof value === "number" ? String(+value.toPrecision(4)) : value === undefined ? "–" : String(value);

function ofNumbers(key: string, values: Setting[], known: number[]): Axis {
  const [low, high] = [Math.min(...known), Math.max(...known)];
  // Step sizes and the like are tried in powers.
  const scale = low > 0 && high / low >= 20 ? Math.log : (value: number) => value;
  const at = (value: Setting) =>
    typeof value !== "number" ? null : high === low ? 0.5 : (scale(value) - scale(low)) / (scale(high) - scale(low));
  const ticks =
    high === low
      ? [[0.5, short(low)] as [number, string]]
      : [low, high].map((end): [number, string] => [at(end) ?? 0, short(end)]);
  return { key, values, at, ticks };
}

function ofTexts(key: string, values: Setting[]): Axis {
  const kinds = [...new Set(values.filter((value) => value !== undefined).map(String))].sort();
  const at = (value: Setting) =>
    value === undefined ? null : kinds.length < 2 ? 0.5 : kinds.indexOf(String(value)) / (kinds.length - 1);
  return { key, values, at, ticks: kinds.slice(0, TEXTS).map((kind) => [at(kind) ?? 0, kind]) };
}

function axis(key: string, values: Setting[]): Axis {
  const known = values.filter((value) => value !== undefined);
  const isNumbers = known.every((value) => typeof value === "number");
  return isNumbers && known.length > 0 ? ofNumbers(key, values, known as number[]) : ofTexts(key, values);
}

/** A run with what it reached, and how good that is beside the others. */
export interface ScoredRun {
  row: RunRow;
  score: number;
  merit: number;
}

export interface Axes {
  runs: ScoredRun[];
  axes: Axis[];
  leftOut: number;
}

function scored(rows: RunRow[]): { title: string; runs: ScoredRun[] } {
  const has = (score: Score) => rows.some((row) => typeof score.of(row) === "number");
  const { title, of, isLoss } = SCORES.find(has) ?? { title: "", of: () => null };
  const runs = rows.flatMap((row): ScoredRun[] => {
    const score = of(row);
    return row.settings && typeof score === "number" ? [{ row, score, merit: isLoss ? -score : score }] : [];
  });
  return { title, runs };
}

/** The axes of runs that have settings and were scored, the score last; none where they do not differ. */
export function axesOf(rows: RunRow[]): Axes {
  const { title, runs } = scored(rows);
  const keys = [...new Set(runs.flatMap(({ row }) => Object.keys(row.settings ?? {})))].sort();
  const values = (key: string) => runs.map(({ row }): Setting => row.settings?.[key]);
  const differing = keys.filter((key) => new Set(values(key)).size > 1);
  if (runs.length < 2 || differing.length === 0) return { runs, axes: [], leftOut: 0 };
  const axes = differing.slice(0, MOST).map((key) => axis(key, values(key)));
  const reached = axis(
    title,
    runs.map(({ score }) => score),
  );
  return { runs, axes: [...axes, reached], leftOut: Math.max(0, differing.length - MOST) };
}
