import { useEffect, useState } from "preact/hooks";
import { get, type RolloutRow } from "../api";
import { fixed } from "../format";
import { Shown, useLoaded } from "../loading";

interface Rows {
  items: RolloutRow[];
  next: number;
}

const STATUSES = ["queuing", "preparing", "running", "succeeded", "failed", "cancelled", "requeuing"];
const MODES = ["train", "val", "test"];
const ROW_HEIGHT = 34;
const VIEW_ROWS = 24;

type Order = "newest" | "reward" | "reward up";

function sorted(rows: RolloutRow[], order: Order): RolloutRow[] {
  if (order === "newest") return [...rows].reverse();
  const sign = order === "reward" ? -1 : 1;
  return [...rows].sort((one, other) => sign * ((one.reward ?? NaN) - (other.reward ?? NaN)) || 0);
}

/** Where the members of its group are side by side. */
function groupOf(row: RolloutRow): string {
  const query = new URLSearchParams({ run_id: row.run_id ?? "", step: String(row.step), group: String(row.group) });
  if (row.mode) query.set("mode", row.mode);
  return `#/groups?${query}`;
}

/** Of thousands of rows, those that are looked at. */
function Table({ rows }: { rows: RolloutRow[] }) {
  const [top, setTop] = useState(0);
  const first = Math.max(0, Math.floor(top / ROW_HEIGHT) - 8);
  const shown = rows.slice(first, first + VIEW_ROWS + 16);
  return (
    <div
      class="scrolled"
      tabIndex={0}
      role="region"
      aria-label="Rollouts"
      style={{ height: `${Math.min(rows.length + 1, VIEW_ROWS) * ROW_HEIGHT + 2}px` }}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <table aria-rowcount={rows.length}>
        <thead>
          <tr>
            <th>rollout</th>
            <th>status</th>
            <th>mode</th>
            <th>step</th>
            <th>group</th>
            <th>reward</th>
            <th>task</th>
            <th>why it failed</th>
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr style={{ height: `${first * ROW_HEIGHT}px` }} aria-hidden="true" />}
          {shown.map((row) => (
            <tr key={row.rollout_id} style={{ height: `${ROW_HEIGHT}px` }}>
              <td>
                <a href={`#/rollouts/${encodeURIComponent(row.rollout_id)}`}>{row.rollout_id.slice(-12)}</a>
              </td>
              <td>{row.status}</td>
              <td>{row.mode ?? ""}</td>
              <td class="number">{row.step ?? ""}</td>
              <td class="number">{row.group !== null && row.run_id !== null ? <a href={groupOf(row)}>{row.group}</a> : ""}</td>
              <td class="number">{fixed(row.reward)}</td>
              <td class="text">{row.input}</td>
              <td class="text">{row.reason ?? ""}</td>
            </tr>
          ))}
          <tr style={{ height: `${Math.max(0, rows.length - first - shown.length) * ROW_HEIGHT}px` }} aria-hidden="true" />
        </tbody>
      </table>
    </div>
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
  const asked = new URLSearchParams(query);
  asked.set("limit", "1000");
  const loaded = useLoaded(`rollouts ${asked}`, (signal) => get<Rows>(`/ui/data/rollouts?${asked}`, signal), 5);
  useEffect(() => setOrder("newest"), [query.get("run_id")]);
  const choice = (name: string, values: string[]) => (
    <label>
      {name}{" "}
      <select value={query.get(name) ?? ""} onChange={(event) => narrow(name, event.currentTarget.value)}>
        <option value="">any</option>
        {values.map((value) => (
          <option key={value}>{value}</option>
        ))}
      </select>
    </label>
  );
  return (
    <main>
      <h1>Rollouts</h1>
      <form class="filter" onSubmit={(event) => event.preventDefault()}>
        <label>
          run{" "}
          <input value={query.get("run_id") ?? ""} onChange={(event) => narrow("run_id", event.currentTarget.value)} />
        </label>
        <label>
          step{" "}
          <input
            type="number"
            value={query.get("step") ?? ""}
            onChange={(event) => narrow("step", event.currentTarget.value)}
          />
        </label>
        {choice("mode", MODES)}
        {choice("status", STATUSES)}
        <label>
          order{" "}
          <select value={order} onChange={(event) => setOrder(event.currentTarget.value as Order)}>
            <option value="newest">newest first</option>
            <option value="reward">greatest reward first</option>
            <option value="reward up">least reward first</option>
          </select>
        </label>
      </form>
      <Shown of={loaded}>
        {({ items }) =>
          items.length === 0 ? (
            <p>There are no such rollouts.</p>
          ) : (
            <>
              <p class="quiet">
                {items.length} rollouts{items.length === 1000 && ", the newest: narrow them down to see others"}
              </p>
              <Table rows={sorted(items, order)} />
            </>
          )
        }
      </Shown>
    </main>
  );
}
