// A key for what changes something, asked for once a server has refused a request for want of one.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { holdKey, wantsKey } from "./writing";

export interface Keyed {
  /** Does something, and again once a key is given if one was missing. */
  attempt: (does: () => Promise<void>) => Promise<void>;
  /** The failure in words, and where the key is entered. */
  shown: ComponentChildren;
}

export function useKeyed(): Keyed {
  const [failure, setFailure] = useState("");
  const [waiting, setWaiting] = useState<(() => Promise<void>) | null>(null);
  const attempt = async (does: () => Promise<void>) => {
    setFailure("");
    setWaiting(null);
    try {
      await does();
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") return;
      if (wantsKey(error)) setWaiting(() => does);
      setFailure(error instanceof Error ? error.message : String(error));
    }
  };
  const entered = (event: SubmitEvent) => {
    event.preventDefault();
    holdKey(String(new FormData(event.currentTarget as HTMLFormElement).get("key")));
    if (waiting) void attempt(waiting);
  };
  const shown = (
    <>
      {failure && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
      {waiting && (
        <form class="filter key" onSubmit={entered}>
          <label>
            A key that may change something <input name="key" type="password" autocomplete="off" required />
          </label>
          <button>Go on</button>
          <span class="quiet">It is held in this page's memory alone, until it is closed.</span>
        </form>
      )}
    </>
  );
  return { attempt, shown };
}
