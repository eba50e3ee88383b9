import { useState } from "preact/hooks";
import { type Finding, get, type RunRow } from "../api";
import { AGAIN, useLive } from "../events";
import { count, duration, fixed, moment } from "../format";
import { Shown } from "../loading";
import { LiveMark } from "../runs/live";
import { MOST_CHOSEN, Overlaid } from "../charts/overlaid";
import { Parallel } from "../charts/parallel";
import { pathOf } from "../charts/seeds";

/** So many of the newest are drawn unless others are chosen, and are looked at for alarms. */
const NEWEST = 6;

function useRuns() {
  return useLive("runs", (signal) => get<RunRow[]>("/ui/data/runs", signal), {
    seconds: 3,
    follow: (rows, happening) => {
      if (happening.kind === "rewound") return AGAIN;
      if (happening.kind !== "run") return rows;
      const { run } = happening;
      const others = rows.filter((row) => row.run_id !== run.run_id);
      return [...others, run].sort((one, other) => other.start_time - one.start_time);
    },
  });
}

/** How many alarms a run has; asked again when the run has changed. */
function AlarmCount({ run }: { run: RunRow }) {
  const load = (signal: AbortSignal) => get<Finding[]>(`${pathOf(run.run_id)}/findings`, signal);
  const { value } = useLive(`findings ${run.run_id}`, load, { seconds: 0, version: `${run.steps} ${run.ended}` });
  if (value === null) return <span class="quiet">…</span>;
  if (value.length === 0) return <>none</>;
  return <b class="untrained">{value.map((finding) => finding.name.replaceAll("_", " ")).join(", ")}</b>;
}

interface RowProps {
  run: RunRow;
  isChosen: boolean;
  canChoose: boolean;
  isNew: boolean;
  choose: (isChosen: boolean) => void;
}

function Row({ run, isChosen, canChoose, isNew, choose }: RowProps) {
  return (
    <tr>
      <td>
        <input
          type="checkbox"
          aria-label={`draw ${run.run_id}`}
          checked={isChosen}
          disabled={!isChosen && !canChoose}
          onChange={(event) => choose(event.currentTarget.checked)}
        />
      </td>
      <td>
        <a href={`#/runs/${encodeURIComponent(run.run_id)}`}>{run.run_id}</a>
      </td>
      <td>{run.ended === undefined ? "" : run.ended ? "ended" : "not ended"}</td>
      <td class="number updates">
        {run.steps}
        {run.max_steps !== null && ` of ${run.max_steps}`}
      </td>
      <td class="number">
        {fixed(run.held_out_before)} → <b>{fixed(run.held_out_after)}</b>
      </td>
      <td>{isNew && <AlarmCount run={run} />}</td>
      <td class="number">{fixed(run.reward)}</td>
      <td class="number">{count(run.sampled_tokens)}</td>
      <td class="number">{count(run.trained_tokens)}</td>
      <td class="number">{run.cost ? `${run.cost.total.toFixed(2)} ${run.cost.currency}` : ""}</td>
      <td class="number">{duration(run.seconds)}</td>
      <td>{moment(run.start_time)}</td>
    </tr>
  );
}

const COLUMNS = [
  "draw",
  "run",
  "state",
  "updates",
  "held-out, before → now",
  "alarms",
  "training",
  "sampled",
  "trained",
  "cost",
  "took",
  "begun",
];

function Listed({ runs }: { runs: RunRow[] }) {
  const [picked, pick] = useState<string[] | null>(null);
  const chosen = picked ?? runs.slice(0, NEWEST).map((run) => run.run_id);
  const choose = (id: string, isChosen: boolean) =>
    pick(isChosen ? [...chosen, id] : chosen.filter((other) => other !== id));
  const drawn = runs.filter((run) => chosen.includes(run.run_id));
  return (
    <>
      {drawn.length > 0 ? (
        <Overlaid runs={drawn} />
      ) : (
        <p class="quiet">Choose up to {MOST_CHOSEN} runs to draw their curves.</p>
      )}
      <div class="wide" tabIndex={0} role="region" aria-label="Runs">
        <table class="runs">
          <thead>
            <tr>
              {COLUMNS.map((name) => (
                <th key={name}>{name}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {runs.map((run, index) => (
              <Row
                key={run.run_id}
                run={run}
                isChosen={chosen.includes(run.run_id)}
                canChoose={chosen.length < MOST_CHOSEN}
                isNew={index < NEWEST}
                choose={(isChosen) => choose(run.run_id, isChosen)}
              />
            ))}
          </tbody>
        </table>
      </div>
      <Parallel rows={runs} />
    </>
  );
}

export function Runs() {
  return (
    <main>
      <h1>
        Runs <LiveMark />
      </h1>
      <Shown of={useRuns()}>
        {(runs) =>
          runs.length === 0 ? (
            <p>
              There is no run in this store yet. <code>fulgurite train CONFIG</code> makes one; what agents call without
              one is among the <a href="#/rollouts">rollouts</a>.
            </p>
          ) : (
            <Listed runs={runs} />
          )
        }
      </Shown>
    </main>
  );
}
