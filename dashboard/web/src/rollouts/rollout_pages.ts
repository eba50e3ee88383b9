// Rollouts, a thousand at a time: the newest, kept up to date, and older ones as they are asked for.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, type RolloutRow, type RolloutRows } from "../api";
import { AGAIN, useConnection, useLive } from "../events";
import type { Loaded } from "../loading";

const PAGE = 1000;
/** Rows that are asked for again when something is new. */
const NEWS = 200;
const UNFINISHED_SECONDS = 5;
/** What the server knows of a query; the rest of it is the page's own. */
const FILTERS = ["run_id", "step", "mode", "status", "where", "nobody"];

export interface Newest extends RolloutRows {
  hasOlder: boolean;
  /** How often it began anew, with rows that do not go on from those before. */
  lists: number;
}

/** Rollouts that an expression is held against at most, for one answer. */
const LOOKED_AT = 10_000;

/** Whether there may be older ones than an answer has. */
const goesOn = ({ items, looked_at = 0 }: RolloutRows) => items.length === PAGE || looked_at >= LOOKED_AT;

/** The rows of both, each once and as the newer answer has it, in their order. */
function merged(known: RolloutRow[], newer: RolloutRow[]): RolloutRow[] {
  const rows = new Map(known.map((row) => [row.rollout_id, row]));
  for (const row of newer) rows.set(row.rollout_id, row);
  return [...rows.values()];
}

export function filtersOf(query: URLSearchParams): URLSearchParams {
  return new URLSearchParams([...query].filter(([name, value]) => FILTERS.includes(name) && value !== ""));
}

const rowsOf = (filters: URLSearchParams, more: Record<string, string>, signal?: AbortSignal) =>
  get<RolloutRows>(`/ui/data/rollouts?${new URLSearchParams([...filters, ...Object.entries(more)])}`, signal);

function useNewest(filters: URLSearchParams): Loaded<Newest> {
  const key = filters.toString();
  const known = useRef<{ key: string; newest: Newest } | null>(null);
  const [tick, setTick] = useState(0);
  const load = async (signal: AbortSignal) => {
    const before = known.current?.key === key ? known.current.newest : null;
    // What is meant by where or by its status may be meant no more.
    const isNews = before !== null && !filters.has("where") && !filters.has("status");
    let answer = await rowsOf(filters, { limit: String(isNews ? NEWS : PAGE) }, signal);
    const ids = new Set(before?.items.map((row) => row.rollout_id));
    // Where nothing of it is known, some may be missing between.
    const isJoined = isNews && (answer.items.length < NEWS || answer.items.some((row) => ids.has(row.rollout_id)));
    if (isNews && !isJoined) answer = await rowsOf(filters, { limit: String(PAGE) }, signal);
    const newest: Newest =
      isJoined && answer.items.length > 0
        ? { ...before, ...answer, oldest: before.oldest, items: merged(before.items, answer.items) }
        : { ...answer, hasOlder: goesOn(answer), lists: (before?.lists ?? 0) + (isNews ? 1 : 0) };
    known.current = { key, newest };
    return newest;
  };
  const isLive = useConnection() === "live";
  const loaded = useLive(`rollouts ${key}`, load, {
    seconds: UNFINISHED_SECONDS,
    version: tick,
    follow: (rows, { kind }) => {
      if (kind === "rewound") known.current = null;
      return kind === "rollouts" || kind === "rewound" ? AGAIN : rows;
    },
  });
  // The stream tells what begins, and not what ends.
  const isUnfinished = isLive && Boolean(loaded.value?.items.slice(-NEWS).some((row) => row.end_time === null));
  useEffect(() => {
    if (!isUnfinished) return;
    const timer = setInterval(() => setTick((tick) => tick + 1), UNFINISHED_SECONDS * 1000);
    return () => clearInterval(timer);
  }, [isUnfinished]);
  return loaded;
}

export interface Pages {
  newest: Loaded<Newest>;
  rows: RolloutRow[];
  /** Whether an expression leaves some of them out. */
  isFiltered: boolean;
  hasOlder: boolean;
  isAsking: boolean;
  older: () => void;
}

export function usePages(query: URLSearchParams): Pages {
  const filters = filtersOf(query);
  const newest = useNewest(filters);
  const key = `${newest.value?.lists} ${filters}`;
  const [before, setBefore] = useState<{
    key: string;
    items: RolloutRow[];
    hasOlder: boolean;
    oldest: string | null;
  } | null>(null);
  const [isAsking, setAsking] = useState(false);
  const known = before?.key === key ? before : null;
  const value = newest.value;
  const rows = useMemo(
    () => (known && value ? merged(known.items, value.items) : (value?.items ?? [])),
    [known, value],
  );
  const older = async () => {
    // Of those that were looked at, also where none of them is meant.
    const oldest = known ? known.oldest : (value?.oldest ?? rows[0]?.rollout_id);
    if (!oldest) return;
    setAsking(true);
    try {
      const answer = await rowsOf(filters, { limit: String(PAGE), before: oldest });
      const items = merged(answer.items, known?.items ?? []);
      setBefore({ key, items, hasOlder: goesOn(answer), oldest: answer.oldest ?? null });
    } finally {
      setAsking(false);
    }
  };
  const hasOlder = known ? known.hasOlder : Boolean(value?.hasOlder);
  return { newest, rows, isFiltered: filters.has("where"), hasOlder, isAsking, older: () => void older() };
}
