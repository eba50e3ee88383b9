// Runs that differ from a run by their seed alone.
import { get, type RunRow, type Step } from "../api";
import { useLoaded } from "../loading";
import type { Seeds } from "./run_groups";

const MOST = 8;
/** What says where a run is and who is told of it, and not how it learns. */
const NOT_OF_LEARNING = ["run_id", "instance", "config_directory", "server", "store", "telemetry", "trackers"];

export interface RunPage {
  name: string;
  seed: number;
  start_time: number;
  config: Record<string, unknown>;
}

export const pathOf = (id: string) => `/v1/fulgurite/runs/${encodeURIComponent(id)}`;

/** A config as a text, without its seed. */
function recipe({ config }: RunPage): string {
  const kept = Object.entries(config).filter(([key]) => !NOT_OF_LEARNING.includes(key));
  const { seed: _, ...run } = (config.run ?? {}) as Record<string, unknown>;
  return JSON.stringify({ ...Object.fromEntries(kept), run });
}

export interface OtherSeed {
  run_id: string;
  seed: number;
}

export async function otherSeeds(id: string, own: RunPage, signal: AbortSignal): Promise<OtherSeed[]> {
  const runs = await get<RunRow[]>("/ui/data/runs", signal);
  const isCandidate = (run: RunRow) => run.run_id !== id && run.name === own.name && run.seed !== own.seed;
  const candidates = runs.filter(isCandidate).slice(0, MOST);
  const isSame = async (run: RunRow) => recipe(await get<RunPage>(pathOf(run.run_id), signal)) === recipe(own);
  const found = await Promise.all(candidates.map(async (run) => ((await isSame(run)) ? [run] : [])));
  return found.flat();
}

/** Their steps, once they are to be shown. */
export function useSeedSteps(seeds: OtherSeed[], isWanted: boolean): Seeds["others"] {
  const wanted = isWanted ? seeds : [];
  const key = `seeds ${wanted.map(({ run_id }) => run_id).join(" ")}`;
  const loaded = useLoaded(key, (signal) =>
    Promise.all(
      wanted.map(async ({ run_id, seed }) => {
        const steps = await get<Step[]>(`${pathOf(run_id)}/steps`, signal);
        return { name: `seed ${seed}`, steps };
      }),
    ),
  );
  return loaded.value ?? [];
}
