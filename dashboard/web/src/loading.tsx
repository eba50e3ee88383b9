// Data that is asked for, again and again where it changes.
import { useEffect, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { Failure } from "./api";

export interface Loaded<T> {
  value: T | null;
  failure: Failure | null;
}

/** Asks when `key` changes, and every so many seconds. What was there stays while the server does not answer. */
export function useLoaded<T>(key: string, load: (signal: AbortSignal) => Promise<T>, seconds = 0): Loaded<T> {
  const [loaded, setLoaded] = useState<Loaded<T> & { key: string }>({ key, value: null, failure: null });
  useEffect(() => {
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const again = async () => {
      try {
        const value = await load(controller.signal);
        if (!controller.signal.aborted) setLoaded({ key, value, failure: null });
      } catch (error) {
        if (controller.signal.aborted) return;
        const failure = error instanceof Failure ? error : new Failure(0, String(error));
        setLoaded((known) => ({ key, value: known.key === key ? known.value : null, failure }));
      }
      if (seconds > 0 && !controller.signal.aborted) timer = setTimeout(again, seconds * 1000);
    };
    void again();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [key, seconds]);
  return loaded.key === key ? loaded : { value: null, failure: null };
}

/** Says what is wrong, or that it is waited for. */
export function Shown<T>({ of, children }: { of: Loaded<T>; children: (value: T) => ComponentChildren }) {
  const stale = of.failure && of.value !== null;
  return (
    <>
      {of.failure && (
        <p class="failure" role="alert">
          {of.failure.message}
          {stale && " What is shown is what was known before."}
        </p>
      )}
      {of.value !== null ? children(of.value) : !of.failure && <p class="quiet">Loading…</p>}
    </>
  );
}
