import { get, type RolloutRow, type RolloutRows } from "../api";
import { AGAIN, useLive } from "../events";
import { fixed } from "../format";
import { Shown } from "../loading";
import { LiveMark } from "../runs/live";
import { type Member, Members } from "../rollouts/members";

const earnedBy = (row: RolloutRow) => (row.reward === null ? null : row.reward + (row.call_rewards ?? 0));

/** As the trainer divides: by the sample's standard deviation and a little. */
const FLOOR = 1e-6;

/** The best first, with their advantages over the group's mean. */
function measured(rows: RolloutRow[]): { members: Member[]; mean: number; deviation: number } {
  const rewards = rows.flatMap((row) => earnedBy(row) ?? []);
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  const squares = rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0);
  const deviation = rewards.length > 1 ? Math.sqrt(squares / (rewards.length - 1)) : 0;
  const members = rows.map((row) => {
    const earned = earnedBy(row);
    const advantage = earned === null ? null : earned - mean;
    return { row, earned, advantage, normalized: advantage === null ? null : advantage / (deviation + FLOOR) };
  });
  members.sort((one, other) => (other.earned ?? -Infinity) - (one.earned ?? -Infinity));
  return { members, mean, deviation };
}

function MemberTable({ members }: { members: Member[] }) {
  const names = [...new Set(members.flatMap(({ row }) => Object.keys(row.components)))];
  const best = members[0]?.row;
  return (
    <div class="wide" tabIndex={0} role="region" aria-label="Members">
      <table>
        <thead>
          <tr>
            <th>rollout</th>
            <th>reward</th>
            <th>above the mean</th>
            <th>in standard deviations</th>
            {names.map((name) => (
              <th key={name}>{name}</th>
            ))}
            <th>beside the best</th>
          </tr>
        </thead>
        <tbody>
          {members.map(({ row, earned, advantage, normalized }) => (
            <tr key={row.rollout_id}>
              <td>
                <a href={`#/rollouts/${encodeURIComponent(row.rollout_id)}`}>{row.rollout_id.slice(-12)}</a>
              </td>
              <td class="number">{earned === null ? row.status : fixed(earned)}</td>
              <td class="number">{advantage === null ? "" : fixed(advantage)}</td>
              <td class="number">{normalized === null ? "" : fixed(normalized)}</td>
              {names.map((name) => (
                <td class="number" key={name}>
                  {fixed(row.components[name])}
                </td>
              ))}
              <td>
                {best && row !== best && <a href={`#/compare?a=${best.rollout_id}&b=${row.rollout_id}`}>compare</a>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The members of a group: one task, played several times by the same weights. */
export function Group({ query }: { query: URLSearchParams }) {
  const parameters = new URLSearchParams({ limit: "1000" });
  for (const name of ["run_id", "step", "mode"]) {
    const value = query.get(name);
    if (value) parameters.set(name, value);
  }
  const group = Number(query.get("group"));
  const load = async (signal: AbortSignal) => {
    const { items } = await get<RolloutRows>(`/ui/data/rollouts?${parameters}`, signal);
    return items.filter((row) => row.group === group);
  };
  const loaded = useLive(`group ${query}`, load, {
    seconds: 5,
    follow: (rows, { kind }) =>
      (kind === "rollouts" || kind === "changed") && rows.some((row) => row.end_time === null) ? AGAIN : rows,
  });
  return (
    <main>
      <h1>
        Group {group} of step {query.get("step")} <LiveMark />
      </h1>
      <p>
        <a href={`#/runs/${encodeURIComponent(query.get("run_id") ?? "")}`}>{query.get("run_id")}</a>
      </p>
      <Shown of={loaded}>
        {(rows) => {
          const { members, mean, deviation } = measured(rows);
          const best = members[0]?.row;
          const byCall = rows.some((row) => row.call_rewards !== null);
          const rewards = members.flatMap(({ earned }) => earned ?? []);
          if (!best) return <p>There is no such group.</p>;
          return (
            <>
              <h2>Task</h2>
              <pre>{best.input}</pre>
              <p>
                {rows.length} members, mean reward {fixed(mean)}, standard deviation {fixed(deviation)}
                {byCall && ", what single calls earned included"}
                {new Set(rewards).size < 2 &&
                  rewards.length > 1 &&
                  !byCall &&
                  ": all earned the same, so that nothing is learnt"}
              </p>
              <MemberTable members={members} />
              <Members members={members} />
            </>
          );
        }}
      </Shown>
    </main>
  );
}
