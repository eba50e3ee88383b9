import { useEffect, useMemo, useState } from "preact/hooks";
import type { RolloutRow } from "../api";
import { Shown } from "../loading";
import { LiveMark } from "../runs/live";
import { causeOf, causes, type Order, sorted } from "../rollouts/sorting";
import { Filter, Where } from "../rollouts/rollout_filter";
import { type Newest, type Pages, usePages } from "../rollouts/rollout_pages";
import { RolloutTable } from "../rollouts/rollout_table";
import { Scatter } from "../charts/scatter";

const SHOWN_CAUSES = 12;

/** Why rollouts failed, each to be clicked. */
function Causes({ rows, chosen, choose }: { rows: RolloutRow[]; chosen: string; choose: (cause: string) => void }) {
  const counted = causes(rows);
  if (counted.length === 0 && !chosen) return null;
  const shown = counted.slice(0, SHOWN_CAUSES);
  if (chosen && !shown.some(([cause]) => cause === chosen)) shown.push([chosen, 0]);
  return (
    <section aria-label="Why rollouts failed">
      <ul class="causes">
        <li>Why rollouts failed:</li>
        {shown.map(([cause, rollouts]) => (
          <li key={cause}>
            <button type="button" aria-pressed={cause === chosen} onClick={() => choose(cause === chosen ? "" : cause)}>
              {cause} <b>{rollouts}</b>
            </button>
          </li>
        ))}
      </ul>
      {counted.length > shown.length && <p class="quiet">{counted.length - shown.length} further causes</p>}
    </section>
  );
}

/** How many there are, and whether there are more. */
function Counted({ shown, newest, pages }: { shown: number; newest: Newest; pages: Pages }) {
  const looked = newest.looked_at;
  return (
    <p class="quiet" aria-live="polite">
      {shown} rollout{shown !== 1 && "s"}
      {shown !== pages.rows.length && ` of ${pages.rows.length}`}
      {pages.isFiltered && looked !== undefined && `, among the newest ${looked}`}
      {pages.hasOlder && ", and there may be older ones"}{" "}
      {pages.hasOlder && (
        <button type="button" class="older" disabled={pages.isAsking} onClick={pages.older}>
          {pages.isAsking ? "Asking…" : "older"}
        </button>
      )}
    </p>
  );
}

export function Rollouts({ query }: { query: URLSearchParams }) {
  const [order, setOrder] = useState<Order>("newest");
  const narrow = (name: string, value: string) => {
    const next = new URLSearchParams(query);
    if (value) next.set(name, value);
    else next.delete(name);
    location.hash = `#/rollouts?${next}`;
  };
  useEffect(() => setOrder("newest"), [query.get("run_id")]);
  const pages = usePages(query);
  const { rows, newest } = pages;
  const cause = query.get("cause") ?? "";
  const shown = useMemo(
    () => sorted(cause ? rows.filter((row) => causeOf(row) === cause) : rows, order),
    [rows, cause, order],
  );
  const isWrong = newest.failure?.status === 400 && query.has("where");
  return (
    <main>
      <h1>
        Rollouts <LiveMark />
      </h1>
      <Where query={query} narrow={narrow} failure={isWrong ? (newest.failure?.message ?? null) : null} />
      <Filter
        query={query}
        narrow={narrow}
        order={order}
        setOrder={setOrder}
        hasTokens={rows.some((row) => typeof row.sampled_tokens === "number")}
      />
      {!isWrong && (
        <Shown of={newest}>
          {(value) =>
            rows.length === 0 ? (
              <p>
                There are no such rollouts
                {pages.isFiltered && value.looked_at !== undefined && ` among the newest ${value.looked_at}`}.
              </p>
            ) : (
              <>
                <Counted shown={shown.length} newest={value} pages={pages} />
                <Causes rows={rows} chosen={cause} choose={(cause) => narrow("cause", cause)} />
                <RolloutTable rows={shown} />
                <Scatter rows={shown} />
              </>
            )
          }
        </Shown>
      )}
    </main>
  );
}
