// Runs that differ from a run by their seed alone.
import { get, type RunRow, type Step } from "../api";
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

export async function otherSeeds(id: string, own: RunPage, signal: AbortSignal): Promise<Seeds["others"]> {
  const runs = await get<RunRow[]>("/ui/data/runs", signal);
  const candidates = runs
    .filter((run) => run.run_id !== id && run.name === own.name && run.seed !== own.seed)
    .slice(0, MOST);
  const found = await Promise.all(
    candidates.map(async ({ run_id, seed }) => {
      const page = await get<RunPage>(pathOf(run_id), signal);
      if (recipe(page) !== recipe(own)) return [];
      return [{ name: `seed ${seed}`, steps: await get<Step[]>(`${pathOf(run_id)}/steps`, signal) }];
    }),
  );
  return found.flat();
}
