// Other rollouts of the same task, each beside the one that is looked at.
import { getIfThere, type RolloutRow } from "../api";
import { fixed } from "../format";
import { useLoaded } from "../loading";

const to = (a: string, b: string) => `#/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`;

/** The first and the last step in which the task was played, if they are two. */
export function before(rows: RolloutRow[]): [RolloutRow, RolloutRow] | null {
  const stepped = rows.filter((row) => row.step !== null).sort((one, other) => (one.step ?? 0) - (other.step ?? 0));
  const [first, last] = [stepped[0], stepped.at(-1)];
  return first && last && first.step !== last.step ? [first, last] : null;
}

/** `beside` is the rollout that others are compared with, and `self` its row if it is known. */
export function SameTask({ beside, other }: { beside: string; other?: string }) {
  const path = `/ui/data/rollouts/${encodeURIComponent(beside)}/same-task`;
  const { value: rows } = useLoaded(path, (signal) => getIfThere<RolloutRow[]>(path, [], signal));
  if (!rows || rows.length === 0) return null;
  const ends = before(rows);
  return (
    <details class="same-task" open={other === ""}>
      <summary>
        {rows.length === 100 ? "The newest 100" : rows.length} other rollouts of this task in its run
      </summary>
      {ends && (
        <p>
          The task before and after:{" "}
          <a href={to(ends[0].rollout_id, ends[1].rollout_id)}>
            step {ends[0].step} (reward {fixed(ends[0].reward)}) against step {ends[1].step} (reward {fixed(ends[1].reward)})
          </a>
        </p>
      )}
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
                  <a href={to(beside, row.rollout_id)}>compare</a>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
