// Other rollouts of the same task, each beside the one that is looked at.
import { useState } from "preact/hooks";
import { get, getIfThere, type RolloutRow } from "../api";
import { fixed } from "../format";
import { Shown, useLoaded } from "../loading";

/** Rows that the server tells at most. */
const MOST = 100;

const to = (a: string, b: string) => `#/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`;

/** The first and the last step in which the task was played, if they are two. */
export function before(rows: RolloutRow[]): [RolloutRow, RolloutRow] | null {
  const stepped = rows.filter((row) => row.step !== null).sort((one, other) => (one.step ?? 0) - (other.step ?? 0));
  const [first, last] = [stepped[0], stepped.at(-1)];
  return first && last && first.step !== last.step ? [first, last] : null;
}

/** `rollout` is the one that others are compared with, and `other` the one next to it now. */
export function SameTask({ rollout, other }: { rollout: string; other?: string }) {
  const [isOpen, setOpen] = useState(other === "");
  return (
    <details class="same-task" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Other rollouts of this task</summary>
      {/* They are looked for among all that its run has, which takes a while in a long one. */}
      {isOpen && <Others rollout={rollout} other={other} />}
    </details>
  );
}

/** The newest ones that the server tells; where there may be more, also those of the run's first step. */
async function sameTask(rollout: string, signal: AbortSignal): Promise<RolloutRow[]> {
  const path = `/ui/data/rollouts/${encodeURIComponent(rollout)}/same-task`;
  const rows = await getIfThere<RolloutRow[]>(path, [], signal);
  const [row] = rows;
  if (rows.length < MOST || !row?.run_id) return rows;
  const query = new URLSearchParams({ run_id: row.run_id, step: "0", limit: "1000" });
  const { items } = await get<{ items: RolloutRow[] }>(`/ui/data/rollouts?${query}`, signal);
  const known = new Set([rollout, ...rows.map((row) => row.rollout_id)]);
  return [...rows, ...items.filter((other) => other.input === row.input && !known.has(other.rollout_id))];
}

function Others({ rollout, other }: { rollout: string; other: string | undefined }) {
  const loaded = useLoaded(`same task ${rollout}`, (signal) => sameTask(rollout, signal));
  return (
    <Shown of={loaded}>
      {(rows) =>
        rows.length === 0 ? (
          <p class="quiet">There is no other.</p>
        ) : (
          <>
            <Ends rows={rows} />
            <Rows rows={rows} rollout={rollout} other={other} />
          </>
        )
      }
    </Shown>
  );
}

function Ends({ rows }: { rows: RolloutRow[] }) {
  const ends = before(rows);
  if (!ends) return null;
  const [first, last] = ends;
  return (
    <p>
      The earliest and the latest of these:{" "}
      <a href={to(first.rollout_id, last.rollout_id)}>
        step {first.step} (reward {fixed(first.reward)}) against step {last.step} (reward {fixed(last.reward)})
      </a>
    </p>
  );
}

function Rows({ rows, rollout, other }: { rows: RolloutRow[]; rollout: string; other: string | undefined }) {
  return (
    <>
      {rows.length >= MOST && <p class="quiet">The newest {MOST}, and those of the first step.</p>}
      <div class="scrolled low" tabIndex={0} role="region" aria-label="Other rollouts of this task">
        <table>
          <thead>
            <tr>
              <th>rollout</th>
              <th>step</th>
              <th>mode</th>
              <th>reward</th>
              <th>beside this one</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.rollout_id} aria-current={row.rollout_id === other ? "true" : undefined}>
                <td>
                  <a href={`#/rollouts/${encodeURIComponent(row.rollout_id)}`}>{row.rollout_id.slice(-12)}</a>
                </td>
                <td class="number">{row.step ?? ""}</td>
                <td>{row.mode ?? ""}</td>
                <td class="number">{row.reward === null ? row.status : fixed(row.reward)}</td>
                <td>
                  <a href={to(rollout, row.rollout_id)}>compare</a>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
