import { get, type RolloutRow } from "../api";
import { fixed } from "../format";
import { Shown, useLoaded } from "../loading";

/** The members of a group: one task, played several times by the same weights. */
export function Group({ query }: { query: URLSearchParams }) {
  const asked = new URLSearchParams({ limit: "1000" });
  for (const name of ["run_id", "step", "mode"]) {
    const value = query.get(name);
    if (value) asked.set(name, value);
  }
  const group = Number(query.get("group"));
  const loaded = useLoaded(`group ${query}`, async (signal) => {
    const { items } = await get<{ items: RolloutRow[] }>(`/ui/data/rollouts?${asked}`, signal);
    return items.filter((row) => row.group === group);
  });
  return (
    <main>
      <h1>
        Group {group} of step {query.get("step")}
      </h1>
      <p>
        <a href={`#/runs/${encodeURIComponent(query.get("run_id") ?? "")}`}>{query.get("run_id")}</a>
      </p>
      <Shown of={loaded}>
        {(rows) => {
          const earned = (row: RolloutRow) => (row.reward === null ? null : row.reward + (row.call_rewards ?? 0));
          const rewards = rows.flatMap((row) => earned(row) ?? []);
          const byCall = rows.some((row) => row.call_rewards !== null);
          const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
          const sorted = [...rows].sort((one, other) => (earned(other) ?? -Infinity) - (earned(one) ?? -Infinity));
          const best = sorted[0];
          const names = [...new Set(rows.flatMap((row) => Object.keys(row.components)))];
          if (!best) return <p>There is no such group.</p>;
          return (
            <>
              <h2>Task</h2>
              <pre>{best.input}</pre>
              <p>
                {rows.length} members, mean reward {fixed(mean)}
                {byCall && ", what single calls earned included"}
                {new Set(rewards).size < 2 && rewards.length > 1 && !byCall && ": all earned the same, so that nothing is learnt"}
              </p>
              <div class="wide" tabIndex={0} role="region" aria-label="Members">
                <table>
                  <thead>
                    <tr>
                      <th>rollout</th>
                      <th>reward</th>
                      <th>above the mean</th>
                      {names.map((name) => (
                        <th key={name}>{name}</th>
                      ))}
                      <th>beside the best</th>
                    </tr>
                  </thead>
                  <tbody>
                    {sorted.map((row) => (
                      <tr key={row.rollout_id}>
                        <td>
                          <a href={`#/rollouts/${encodeURIComponent(row.rollout_id)}`}>{row.rollout_id.slice(-12)}</a>
                        </td>
                        <td class="number">{row.reward === null ? row.status : fixed(earned(row))}</td>
                        <td class="number">{row.reward === null ? "" : fixed((earned(row) ?? 0) - mean)}</td>
                        {names.map((name) => (
                          <td class="number" key={name}>
                            {fixed(row.components[name])}
                          </td>
                        ))}
                        <td>
                          {row !== best && <a href={`#/compare?a=${best.rollout_id}&b=${row.rollout_id}`}>compare</a>}
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            </>
          );
        }}
      </Shown>
    </main>
  );
}
