import { get, type Finding, type LedgerRow, type Step, updates } from "../api";
import { count, moment } from "../format";
import { Shown, useLoaded } from "../loading";
import { Chart } from "../parts/chart";

/** What is drawn first, and under which name. */
const DRAWN: [string, string][] = [
  ["test/env/all/reward/total", "Held-out reward"],
  ["env/all/reward/total", "Training reward"],
  ["test/nll", "Validation loss"],
  ["optim/loss:sum", "Loss"],
  ["optim/entropy", "Entropy of sampled tokens"],
  ["optim/kl_sample_train_v2", "KL of sampler and trainer"],
  ["optim/gradient_norm_per_token", "Gradient norm by token"],
  ["env/all/by_group/frac_mixed", "Groups whose rewards differ"],
  ["env/all/ac_tokens_per_turn", "Sampled tokens by call"],
  ["time/total", "Seconds an update"],
];

/** Named rewards of held-out tasks, beside the reward itself. */
function named(steps: Step[]): string[] {
  const keys = new Set(steps.flatMap((step) => Object.keys(step.metrics)));
  const other = ["reward/total", "total_episodes", "failed_episodes"];
  const prefix = "test/env/all/";
  return [...keys].filter((key) => key.startsWith(prefix) && !other.includes(key.slice(prefix.length))).sort();
}

function points(steps: Step[], key: string): [number, number][] {
  return steps.flatMap((step): [number, number][] => {
    const value = step.metrics[key];
    return typeof value === "number" && Number.isFinite(value) ? [[updates(step), value]] : [];
  });
}

function Ledger({ rows }: { rows: LedgerRow[] }) {
  const all = rows.reduce((sum, row) => sum + row.tokens, 0);
  if (all === 0) return null;
  return (
    <section>
      <h2>Where {count(all)} sampled tokens went</h2>
      <ul class="ledger">
        {rows.map((row) => (
          <li key={row.cause}>
            <span>{row.cause}</span>
            <meter min={0} max={all} value={row.tokens} aria-label={row.cause} />
            <span class="number">
              {count(row.tokens)} ({((100 * row.tokens) / all).toFixed(1)} %)
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

export function Run({ id }: { id: string }) {
  const path = `/v1/fulgurite/runs/${encodeURIComponent(id)}`;
  const run = useLoaded(`run ${id}`, (signal) => get<{ name: string; seed: number; start_time: number }>(path, signal));
  const steps = useLoaded(`steps ${id}`, (signal) => get<Step[]>(`${path}/steps`, signal), 2);
  const findings = useLoaded(`findings ${id}`, (signal) => get<Finding[]>(`${path}/findings`, signal), 10);
  const ledger = useLoaded(`ledger ${id}`, (signal) => get<LedgerRow[]>(`${path}/ledger`, signal), 5);
  return (
    <main>
      <h1>{id}</h1>
      <Shown of={run}>
        {({ name, seed, start_time }) => (
          <p>
            {name}, seed {seed}, begun {moment(start_time)}:{" "}
            <a href={`#/rollouts?run_id=${encodeURIComponent(id)}`}>its rollouts</a>
          </p>
        )}
      </Shown>
      {findings.value?.map((finding) => (
        <p class="finding" key={finding.name}>
          <b>{finding.name}</b>: {finding.evidence}. What to do: {finding.what_to_do}
        </p>
      ))}
      <Shown of={steps}>
        {(steps) =>
          steps.length === 0 ? (
            run.value && <p>No update is recorded yet.</p>
          ) : (
            <div class="charts">
              {[...DRAWN, ...named(steps).map((key): [string, string] => [key, `Held-out ${key.slice(13)}`])].map(([key, title]) => {
                const drawn = points(steps, key);
                return drawn.length > 0 && <Chart key={key} title={title} curves={[{ name: title, points: drawn }]} />;
              })}
            </div>
          )
        }
      </Shown>
      {ledger.value && <Ledger rows={ledger.value} />}
    </main>
  );
}
