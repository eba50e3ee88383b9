// Thousands of rollouts as a table, of which only those are drawn that are looked at.
import { useState } from "preact/hooks";
import type { RolloutRow } from "../api";
import { count, duration, fixed } from "../format";
import { durationOf } from "./sorting";

const ROW_HEIGHT = 34;
const VIEW_ROWS = 24;
const COLUMNS = ["rollout", "status", "mode", "step", "group", "reward", "took", "sampled", "task", "why it failed"];

/** Where the members of its group are side by side. */
function groupOf(row: RolloutRow): string {
  const query = new URLSearchParams({ run_id: row.run_id ?? "", step: String(row.step), group: String(row.group) });
  if (row.mode) query.set("mode", row.mode);
  return `#/groups?${query}`;
}

function Row({ row, place, hasTokens }: { row: RolloutRow; place: number; hasTokens: boolean }) {
  const took = durationOf(row);
  return (
    <tr aria-rowindex={place + 1} style={{ height: `${ROW_HEIGHT}px` }}>
      <td>
        <a href={`#/rollouts/${encodeURIComponent(row.rollout_id)}`}>{row.rollout_id.slice(-12)}</a>
      </td>
      <td>{row.status}</td>
      <td>{row.mode ?? ""}</td>
      <td class="number">{row.step ?? ""}</td>
      <td class="number">{row.group !== null && row.run_id !== null ? <a href={groupOf(row)}>{row.group}</a> : ""}</td>
      <td class="number">{fixed(row.reward)}</td>
      <td class="number">{took === null ? "" : duration(took)}</td>
      {hasTokens && <td class="number">{typeof row.sampled_tokens === "number" ? count(row.sampled_tokens) : ""}</td>}
      <td class="text">{row.input}</td>
      <td class="text">{row.reason ?? ""}</td>
    </tr>
  );
}

export function RolloutTable({ rows }: { rows: RolloutRow[] }) {
  const [top, setTop] = useState(0);
  const most = Math.max(0, rows.length - VIEW_ROWS);
  const first = Math.max(0, Math.min(most, Math.floor(top / ROW_HEIGHT)) - 8);
  const shown = rows.slice(first, first + VIEW_ROWS + 16);
  const hasTokens = rows.some((row) => typeof row.sampled_tokens === "number");
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
          <tr>{COLUMNS.map((name) => (name !== "sampled" || hasTokens) && <th key={name}>{name}</th>)}</tr>
        </thead>
        <tbody>
          {first > 0 && <tr style={{ height: `${first * ROW_HEIGHT}px` }} aria-hidden="true" />}
          {shown.map((row, index) => (
            <Row key={row.rollout_id} row={row} place={first + index} hasTokens={hasTokens} />
          ))}
          <tr
            style={{ height: `${Math.max(0, rows.length - first - shown.length) * ROW_HEIGHT}px` }}
            aria-hidden="true"
          />
        </tbody>
      </table>
    </div>
  );
}
