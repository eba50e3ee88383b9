import { type Changed, type Finding, get, type LedgerRow, type RunRow, type Step } from "../api";
import { AGAIN, isRewound, useLive, withStep } from "../events";
import { fixed, moment } from "../format";
import { Shown, useLoaded } from "../loading";
import { Alarms } from "../runs/alarms";
import { report } from "../report";
import { Ledger } from "../runs/ledger";
import { LiveMark } from "../runs/live";
import { Summary } from "../runs/report_summary";
import { RunCharts } from "../charts/run_charts";
import { otherSeeds, pathOf, type RunPage } from "../charts/seeds";
import { numberOf } from "../charts/series";
import { WhatChanged } from "../runs/what_changed";

/** What is asked again after every step of the run. */
function useOfRun<T>(id: string, what: string, seconds: number) {
  return useLive(`${what} ${id}`, (signal) => get<T>(`${pathOf(id)}/${what}`, signal), {
    seconds,
    follow: (known, happening) =>
      isRewound(happening, id) || (happening.kind === "step" && happening.run_id === id) ? AGAIN : known,
  });
}

function useSteps(id: string) {
  return useLive(`steps ${id}`, (signal) => get<Step[]>(`${pathOf(id)}/steps`, signal), {
    seconds: 2,
    follow: (steps, happening) => {
      if (happening.kind === "step" && happening.run_id === id) return withStep(steps, happening.step);
      return isRewound(happening, id) ? AGAIN : steps;
    },
  });
}

/** How far it has come. */
function useRow(id: string) {
  const load = async (signal: AbortSignal) => {
    const rows = await get<RunRow[]>(`/ui/data/runs?run_id=${encodeURIComponent(id)}`, signal);
    return rows.find((row) => row.run_id === id) ?? null;
  };
  return useLive(`row ${id}`, load, {
    seconds: 5,
    follow: (row, happening) => (happening.kind === "run" && happening.run.run_id === id ? happening.run : row),
  });
}

function Progress({ row }: { row: RunRow }) {
  const state = row.ended === undefined ? "" : row.ended ? "ended after " : "not ended, ";
  return (
    <>
      , {state}
      <span class="updates">{row.steps}</span>
      {row.max_steps !== null && ` of ${row.max_steps}`} updates
      {row.cost && `, ${row.cost.total.toFixed(2)} ${row.cost.currency}`}
    </>
  );
}

/** What the final tasks earned, which are scored once. */
function Final({ steps }: { steps: Step[] }) {
  const last = steps.findLast((step) => numberOf(step, "final/env/all/reward/total") !== null);
  if (!last) return null;
  const episodes = numberOf(last, "final/env/all/total_episodes");
  return (
    <p>
      Final tasks: <b>{fixed(numberOf(last, "final/env/all/reward/total"))}</b>
      {episodes !== null && ` in ${episodes} episodes`}
    </p>
  );
}

export function Run({ id }: { id: string }) {
  const run = useLoaded(`run ${id}`, (signal) => get<RunPage>(pathOf(id), signal));
  const own = run.value;
  const summary = report?.summaries[id];
  const steps = useSteps(id);
  const row = useRow(id);
  const findings = useOfRun<Finding[]>(id, "findings", 10);
  const ledger = useOfRun<LedgerRow[]>(id, "ledger", 5);
  const changed = useOfRun<Changed[]>(id, "changed", 0);
  const seeds = useLoaded(`seeds ${id} ${own !== null}`, async (signal) => (own ? otherSeeds(id, own, signal) : []));
  return (
    <main>
      <h1>
        {id} <LiveMark />
      </h1>
      <Shown of={run}>
        {({ name, seed, start_time }) => (
          <p>
            {name}, seed {seed}, begun {moment(start_time)}
            {row.value && <Progress row={row.value} />}
            {!report && (
              <>
                : <a href={`#/rollouts?run_id=${encodeURIComponent(id)}`}>its rollouts</a>
              </>
            )}
          </p>
        )}
      </Shown>
      {findings.value && <Alarms findings={findings.value} />}
      <Shown of={steps}>
        {(steps) =>
          steps.length === 0 ? (
            own && <p>No update is recorded yet.</p>
          ) : (
            <>
              <Final steps={steps} />
              <RunCharts steps={steps} seeds={seeds.value ?? []} />
            </>
          )
        }
      </Shown>
      {ledger.value && <Ledger rows={ledger.value} />}
      {changed.value && <WhatChanged tasks={changed.value} />}
      {summary && <Summary summary={summary} config={own?.config} />}
    </main>
  );
}
