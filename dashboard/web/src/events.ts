// What happens at the server, as one stream that all parts of the page follow.
// Where it fails, they ask again and again.
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure, type RunRow, type Step } from "./api";
import type { Loaded } from "./loading";
import { report } from "./report";

export type Happening =
  | { kind: "run"; run: RunRow }
  | { kind: "step"; run_id: string; step: Step }
  | { kind: "rollouts"; next: number }
  /** Of all runs where none is named. */
  | { kind: "rewound"; run_id: string | null }
  /** Something else was written to the store, or may have been. */
  | { kind: "changed" }
  | { kind: "connection" };

/**
 * `paused` is a page that nobody looks at: a browser opens only six connections to a server, for all of its tabs.
 * `none` is a report, which has no server.
 */
type Connection = "connecting" | "live" | "polling" | "paused" | "none";

const RETRY_SECONDS = 15;
const SILENT_SECONDS = 5;
/** The least time from one question to the same one. */
const GAP_SECONDS = 1;
/** So long the stream is waited for: what is asked once it is open need not be asked again. */
const OPENING_SECONDS = 0.3;

const listeners = new Set<(happening: Happening) => void>();
let connection: Connection = report ? "none" : "connecting";
let source: EventSource | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;

function announce(happening: Happening) {
  for (const listener of [...listeners]) listener(happening);
}

function became(next: Connection) {
  if (connection === next) return;
  connection = next;
  announce({ kind: "connection" });
}

function close() {
  clearTimeout(timer);
  source?.close();
  source = null;
}

function open() {
  close();
  const opened = new EventSource("/ui/data/events");
  source = opened;
  timer = setTimeout(() => became("polling"), SILENT_SECONDS * 1000);
  opened.onopen = () => {
    clearTimeout(timer);
    became("live");
  };
  opened.onerror = () => {
    became("polling");
    clearTimeout(timer);
    // What was refused is not tried again by the browser.
    if (opened.readyState === EventSource.CLOSED) timer = setTimeout(open, RETRY_SECONDS * 1000);
  };
  const on = (name: string, read: (data: any) => Happening) =>
    opened.addEventListener(name, (event) => announce(read(JSON.parse((event as MessageEvent<string>).data))));
  on("run", (run: RunRow) => ({ kind: "run", run }));
  on("step", ({ run_id, step }) => ({ kind: "step", run_id, step }));
  on("rollouts", ({ next }) => ({ kind: "rollouts", next }));
  on("rewound", ({ run_id }) => ({ kind: "rewound", run_id }));
  on("changed", () => ({ kind: "changed" }));
}

function seenOrHidden() {
  if (listeners.size === 0) return;
  if (document.hidden) {
    close();
    became("paused");
  } else if (!source) {
    open();
  }
}

function subscribe(listener: (happening: Happening) => void): () => void {
  if (report) return () => undefined;
  if (listeners.size === 0) {
    document.addEventListener("visibilitychange", seenOrHidden);
    if (!source && !document.hidden) open();
  }
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    // From one page to the next the stream stays open.
    setTimeout(() => {
      if (listeners.size > 0) return;
      document.removeEventListener("visibilitychange", seenOrHidden);
      close();
      connection = "connecting";
    }, 1000);
  };
}

/** How the page learns what is new. */
export function useConnection(): Connection {
  const [known, setKnown] = useState(connection);
  useEffect(() => {
    setKnown(connection);
    return subscribe((happening) => happening.kind === "connection" && setKnown(connection));
  }, []);
  return known;
}

/** What `follow` returns where the server has to be asked. */
export const AGAIN = Symbol("again");

export interface Following<T> {
  /** How often the server is asked while there is no stream; 0 is never. */
  seconds: number;
  /** What is known after something happened; the same value, if that is nothing to it. */
  follow?: (value: T, happening: Happening) => T | typeof AGAIN;
  /** The least seconds from one question to the next; 1 unless told otherwise. */
  gap?: number;
  /** The server is asked again when it changes, and what was known is shown meanwhile. */
  version?: string | number;
}

/** Whether what was told of a run holds no more. */
export const isRewound = (happening: Happening, id: string) =>
  happening.kind === "rewound" && (happening.run_id === id || happening.run_id === null);

/** Asks once, and follows the stream from there. */
export function useLive<T>(key: string, load: (signal: AbortSignal) => Promise<T>, following: Following<T>): Loaded<T> {
  const { seconds, version } = following;
  const [loaded, setLoaded] = useState<Loaded<T> & { key: string }>({ key, value: null, failure: null });
  const latest = useRef({ load, ...following });
  latest.current = { load, ...following };
  const again = useRef<() => void>(() => undefined);
  useEffect(() => {
    const controller = new AbortController();
    let value: T | null = null;
    let waiting: ReturnType<typeof setTimeout> | undefined;
    let isAsking = false;
    let isStale = false;
    let requestedAt = 0;
    const ask = async () => {
      clearTimeout(waiting);
      isAsking = true;
      isStale = false;
      requestedAt = Date.now();
      try {
        value = await latest.current.load(controller.signal);
        if (!controller.signal.aborted) setLoaded({ key, value, failure: null });
      } catch (error) {
        if (controller.signal.aborted) return;
        const failure = error instanceof Failure ? error : new Failure(0, String(error));
        setLoaded({ key, value, failure });
      }
      isAsking = false;
      if (controller.signal.aborted) return;
      if (isStale) soon();
      else if (connection === "polling" && seconds > 0) waiting = setTimeout(ask, seconds * 1000);
    };
    const soon = () => {
      isStale = true;
      if (isAsking) return;
      clearTimeout(waiting);
      waiting = setTimeout(ask, Math.max(0, requestedAt + (latest.current.gap ?? GAP_SECONDS) * 1000 - Date.now()));
    };
    const unsubscribe = subscribe((happening) => {
      if (happening.kind === "connection") {
        if (connection === "live" || connection === "polling") soon();
        return;
      }
      if (value === null) {
        // An answer that is on its way may be older than this.
        if (isAsking) isStale = true;
        return;
      }
      const next = latest.current.follow?.(value, happening) ?? value;
      if (next === AGAIN) soon();
      else if (next !== value) {
        value = next as T;
        if (isAsking) isStale = true;
        setLoaded({ key, value, failure: null });
      }
    });
    again.current = soon;
    if (connection === "connecting") waiting = setTimeout(ask, OPENING_SECONDS * 1000);
    else void ask();
    return () => {
      unsubscribe();
      controller.abort();
      clearTimeout(waiting);
    };
  }, [key, seconds]);
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current) again.current();
    isFirst.current = false;
  }, [version]);
  return loaded.key === key ? loaded : { value: null, failure: null };
}

/** Asks again once something was written to the store. */
export const onChange = <T>(value: T, { kind }: Happening): T | typeof AGAIN =>
  kind === "changed" || kind === "rollouts" ? AGAIN : value;

/** Steps with one that was just recorded. */
export function withStep(steps: Step[], step: Step): Step[] {
  return [...steps.filter((known) => known.step !== step.step), step].sort((one, other) => one.step - other.step);
}
