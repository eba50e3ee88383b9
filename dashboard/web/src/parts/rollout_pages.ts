// Rollouts, a thousand at a time: the newest, kept up to date, and older ones as they are asked for.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type RolloutRow, type RolloutRows } from "../api";
import { AGAIN, useConnection, useLive } from "../events";
import type { Loaded } from "../loading";

const PAGE = 1000;
/** Rows that are asked for again when something is new. */
const NEWS = 200;
const UNFINISHED_SECONDS = 5;
/** What the server knows of a query; the rest of it is the page's own. */
const ASKED = ["run_id", "step", "mode", "status", "where", "nobody"];

export interface Newest extends RolloutRows {
  /** Whether the server may have older ones that can be asked for. */
  hasOlder: boolean;
  /** No row that was sent stands below this place. */
  low: number;
}

/** The rows of both, each once and as the newer answer has it, in their order. */
function merged(known: RolloutRow[], newer: RolloutRow[]): RolloutRow[] {
  const rows = new Map(known.map((row) => [row.rollout_id, row]));
  for (const row of newer) rows.set(row.rollout_id, row);
  return [...rows.values()];
}

export function askedOf(query: URLSearchParams): URLSearchParams {
  return new URLSearchParams([...query].filter(([name, value]) => ASKED.includes(name) && value !== ""));
}

const rowsOf = (asked: URLSearchParams, more: Record<string, string>, signal?: AbortSignal) =>
  get<RolloutRows>(`/ui/data/rollouts?${new URLSearchParams([...asked, ...Object.entries(more)])}`, signal);

function useNewest(asked: URLSearchParams): Loaded<Newest> {
  const key = asked.toString();
  const known = useRef<{ key: string; newest: Newest } | null>(null);
  const [tick, setTick] = useState(0);
  const load = async (signal: AbortSignal) => {
    const before = known.current?.key === key ? known.current.newest : null;
    const isNews = before !== null && !asked.has("where") && !asked.has("nobody");
    let answer = await rowsOf(asked, { limit: String(isNews ? NEWS : PAGE) }, signal);
    const ids = new Set(before?.items.map((row) => row.rollout_id));
    // Where nothing of it is known, some may be missing between.
    const isJoined = isNews && (answer.items.length < NEWS || answer.items.some((row) => ids.has(row.rollout_id)));
    if (isNews && !isJoined) answer = await rowsOf(asked, { limit: String(PAGE) }, signal);
    const newest: Newest =
      isJoined && answer.items.length > 0
        ? { ...before, ...answer, items: merged(before.items, answer.items) }
        : {
            ...answer,
            hasOlder: answer.items.length === PAGE && answer.looked_at === undefined,
            low: answer.next - answer.items.length + 1,
          };
    known.current = { key, newest };
    return newest;
  };
  const isLive = useConnection() === "live";
  const loaded = useLive(`rollouts ${key}`, load, {
    seconds: UNFINISHED_SECONDS,
    version: tick,
    follow: (rows, { kind }) => (kind === "rollouts" || kind === "rewound" ? AGAIN : rows),
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

/** The next older rows below a place: in windows of places, which grow where a filter leaves little of them. */
async function olderRows(asked: URLSearchParams, known: Set<string>, low: number): Promise<{ items: RolloutRow[]; low: number }> {
  let [top, width] = [low, PAGE];
  while (top > 0) {
    const bottom = Math.max(0, top - width);
    const found: RolloutRow[] = [];
    for (let after = bottom; after < top - 1; ) {
      const { items, next } = await rowsOf(asked, { after: String(after), limit: String(PAGE) });
      found.push(...items.filter((row) => !known.has(row.rollout_id)));
      if (items.length < PAGE || next <= after) break;
      after = next;
    }
    if (found.length > 0) return { items: merged([], found), low: bottom };
    [top, width] = [bottom, width * 4];
  }
  return { items: [], low: 0 };
}

export interface Pages {
  newest: Loaded<Newest>;
  rows: RolloutRow[];
  hasOlder: boolean;
  isAsking: boolean;
  older: () => void;
}

export function usePages(query: URLSearchParams): Pages {
  const asked = askedOf(query);
  const key = asked.toString();
  const newest = useNewest(asked);
  const [before, setBefore] = useState<{ key: string; items: RolloutRow[]; low: number } | null>(null);
  const [isAsking, setAsking] = useState(false);
  const known = before?.key === key ? before : null;
  const value = newest.value;
  const rows = known && value ? merged(known.items, value.items) : (value?.items ?? []);
  const low = known?.low ?? value?.low ?? 0;
  const older = async () => {
    setAsking(true);
    try {
      const ids = new Set(rows.map((row) => row.rollout_id));
      const { items, low: next } = await olderRows(asked, ids, low);
      setBefore({ key, items: [...items, ...(known?.items ?? [])], low: next });
    } finally {
      setAsking(false);
    }
  };
  return { newest, rows, hasOlder: Boolean(value?.hasOlder) && low > 0, isAsking, older: () => void older() };
}
