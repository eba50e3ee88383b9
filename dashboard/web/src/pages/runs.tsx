import { get, type RunRow, type Step, updates } from "../api";
import { count, duration, fixed, moment } from "../format";
import { Shown, useLoaded } from "../loading";
import { Chart } from "../parts/chart";

const HELD_OUT = "test/env/all/reward/total";

/** The held-out curves of several runs in one picture. */
function Overlaid({ runs }: { runs: RunRow[] }) {
  const key = runs.map((run) => `${run.run_id}:${run.steps}`).join(" ");
  const loaded = useLoaded(key, (signal) =>
    Promise.all(runs.map((run) => get<Step[]>(`/v1/fulgurite/runs/${encodeURIComponent(run.run_id)}/steps`, signal))),
  );
  return (
    <Shown of={loaded}>
      {(all) => {
        const curves = all.map((steps, index) => ({
          name: runs[index]?.run_id ?? "",
          points: steps.flatMap((step): [number, number][] => {
            const value = step.metrics[HELD_OUT];
            return typeof value === "number" ? [[updates(step), value]] : [];
          }),
        }));
        const drawn = curves.filter((curve) => curve.points.length > 1);
        return drawn.length > 0 ? <Chart title="Held-out reward over updates" curves={drawn} /> : null;
      }}
    </Shown>
  );
}

export function Runs() {
  const loaded = useLoaded("runs", (signal) => get<RunRow[]>("/ui/data/runs", signal), 3);
  return (
    <main>
      <h1>Runs</h1>
      <Shown of={loaded}>
        {(runs) =>
          runs.length === 0 ? (
            <p>
              There is no run in this store yet. <code>fulgurite train CONFIG</code> makes one; what agents call without
              one is among the <a href="#/rollouts">rollouts</a>.
            </p>
          ) : (
            <>
              <Overlaid runs={runs.slice(0, 6)} />
              <div class="wide">
                <table>
                  <thead>
                    <tr>
                      <th>run</th>
                      <th>updates</th>
                      <th>held-out, before → now</th>
                      <th>training reward</th>
                      <th>sampled tokens</th>
                      <th>trained</th>
                      <th>took</th>
                      <th>begun</th>
                    </tr>
                  </thead>
                  <tbody>
                    {runs.map((run) => (
                      <tr key={run.run_id}>
                        <td>
                          <a href={`#/runs/${encodeURIComponent(run.run_id)}`}>{run.run_id}</a>
                        </td>
                        <td class="number">
                          {run.steps}
                          {run.max_steps !== null && ` of ${run.max_steps}`}
                        </td>
                        <td class="number">
                          {fixed(run.held_out_before)} → <b>{fixed(run.held_out_after)}</b>
                        </td>
                        <td class="number">{fixed(run.reward)}</td>
                        <td class="number">{count(run.sampled_tokens)}</td>
                        <td class="number">{count(run.trained_tokens)}</td>
                        <td class="number">{duration(run.seconds)}</td>
                        <td>{moment(run.start_time)}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            </>
          )
        }
      </Shown>
    </main>
  );
}
