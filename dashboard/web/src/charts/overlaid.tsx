// Curves of chosen runs in one picture.
import { useState } from "preact/hooks";
import { get, type RunRow, type Step } from "../api";
import { AGAIN, isRewound, useConnection, useLive, withStep } from "../events";
import { Shown, useLoaded } from "../loading";
import { Chart } from "./chart";
import { pathOf, type RunPage } from "./seeds";
import { HELD_OUT, MEASURES, type Measure, numberOf, places, points, type Prices, TRAINING } from "./series";

export const MOST_CHOSEN = 8;

const REWARDS: Record<string, string> = { [HELD_OUT]: "Held-out reward", [TRAINING]: "Training reward" };
const titleOf = (key: string) => REWARDS[key] ?? key;

/** Every number that a step has, the rewards first. */
function keysOf(all: Map<string, Step[]> | null): string[] {
  const steps = [...(all?.values() ?? [])].flat();
  const numbers = steps.flatMap((step) => Object.keys(step.metrics).filter((key) => numberOf(step, key) !== null));
  const known = new Set(numbers);
  known.delete("step");
  const rewards = Object.keys(REWARDS).filter((key) => known.delete(key));
  return [...rewards, ...[...known].sort()];
}

/** The steps of several runs, by their ids. */
function useStepsOf(runs: RunRow[]) {
  const ids = runs.map((run) => run.run_id);
  const isPolling = useConnection() === "polling";
  const load = async (signal: AbortSignal) =>
    new Map(
      await Promise.all(
        ids.map(async (id): Promise<[string, Step[]]> => [id, await get<Step[]>(`${pathOf(id)}/steps`, signal)]),
      ),
    );
  return useLive(`overlaid ${ids.join(" ")}`, load, {
    seconds: 0,
    version: isPolling ? runs.map((run) => run.steps).join(" ") : "",
    follow: (known, happening) => {
      if (ids.some((id) => isRewound(happening, id))) return AGAIN;
      const steps = happening.kind === "step" && known.get(happening.run_id);
      return steps ? new Map(known).set(happening.run_id, withStep(steps, happening.step)) : known;
    },
  });
}

/** What tokens of runs cost, for those that have prices; asked where it is wanted. */
function usePrices(runs: RunRow[], isWanted: boolean) {
  const ids = isWanted ? runs.map((run) => run.run_id) : [];
  return useLoaded(`prices ${ids.join(" ")}`, async (signal) => {
    const pages = await Promise.all(ids.map((id) => get<RunPage>(pathOf(id), signal)));
    return new Map(pages.map(({ config }, index) => [ids[index], (config.prices ?? null) as Prices | null]));
  });
}

export function Overlaid({ runs }: { runs: RunRow[] }) {
  const [chosen, choose] = useState<string | null>(null);
  const [over, setOver] = useState<Measure>("updates");
  const loaded = useStepsOf(runs);
  const keys = keysOf(loaded.value);
  const key = chosen ?? keys[0] ?? HELD_OUT;
  const prices = usePrices(runs, over === "cost").value;
  return (
    <section>
      <form class="filter" aria-label="What is drawn of the chosen runs" onSubmit={(event) => event.preventDefault()}>
        <label>
          curve{" "}
          <select name="curve" value={key} onChange={(event) => choose(event.currentTarget.value)}>
            {keys.map((key) => (
              <option key={key} value={key}>
                {titleOf(key)}
              </option>
            ))}
          </select>
        </label>
        <label>
          over{" "}
          <select name="over" value={over} onChange={(event) => setOver(event.currentTarget.value as Measure)}>
            {Object.entries(MEASURES).map(([measure, title]) => (
              <option key={measure} value={measure}>
                {title}
              </option>
            ))}
          </select>
        </label>
      </form>
      <Shown of={loaded}>
        {(all) => {
          const curves = runs.map((run) => {
            const steps = all.get(run.run_id) ?? [];
            return {
              name: run.run_id,
              points: points(steps, key, places(steps, over, prices?.get(run.run_id) ?? null)),
            };
          });
          const drawn = curves.filter((curve) => curve.points.length > 0);
          if (drawn.length === 0)
            return (
              <p class="quiet">
                None of the chosen runs has such numbers
                {over === "cost" && ": without prices nobody knows what they cost"}.
              </p>
            );
          return <Chart title={`${titleOf(key)} over ${MEASURES[over]}`} over={MEASURES[over]} curves={drawn} />;
        }}
      </Shown>
    </section>
  );
}
