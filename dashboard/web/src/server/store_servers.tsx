// What each server of the store samples its models from, and which have not got the newest weights.
import { get } from "../api";
import { duration, moment } from "../format";
import { Shown, useLoaded } from "../loading";

interface ServedWeights {
  server_id: string;
  url: string;
  model: string;
  version: number | null;
  state: "serving" | "loading" | "behind" | "refusing";
  message: string | null;
  time: number;
}

interface Publication {
  model: string;
  version: number;
  run_id: string | null;
  step: number | null;
  cause: "update" | "rollback";
  published_time: number;
}

interface Servers {
  served: ServedWeights[];
  published: Publication[];
}

const STATES: Record<ServedWeights["state"], string> = {
  serving: "serving",
  loading: "loading the newest weights",
  behind: "behind: answers with what it had",
  refusing: "behind: takes no calls",
};

/** Seconds without a word while others report, after which a server is missed. */
const SILENCE = 60;

async function read(signal: AbortSignal): Promise<Servers> {
  const [served, published] = await Promise.all([
    get<ServedWeights[]>("/v1/fulgurite/servers", signal),
    get<Publication[]>("/v1/fulgurite/publications", signal),
  ]);
  return { served, published };
}

function ServerRow({ one, published, newest }: { one: ServedWeights; published?: Publication; newest: number }) {
  const silent = newest - one.time > SILENCE;
  const differs = published !== undefined && one.version !== null && one.version !== published.version;
  const failed = silent || one.state === "behind" || one.state === "refusing";
  return (
    <tr>
      <td>{one.url}</td>
      <td>{one.model}</td>
      <td class={`number ${differs ? "failure" : ""}`}>{one.version ?? "–"}</td>
      <td class={failed ? "failure" : ""}>
        {silent ? `not seen for ${duration(newest - one.time)}` : STATES[one.state]}
      </td>
      <td class="text">{one.message ?? ""}</td>
    </tr>
  );
}

function origin({ run_id, step, cause }: Publication): string {
  const made = run_id === null ? "" : step === null ? `run ${run_id}` : `run ${run_id}, step ${step}`;
  return [made, cause === "rollback" ? "rolled back" : ""].filter(Boolean).join(", ");
}

export function WeightsAtServers({ every }: { every: number }) {
  const loaded = useLoaded<Servers>("weights at servers", read, every);
  return (
    <section>
      <h2>Weights at servers</h2>
      <Shown of={loaded}>
        {({ served, published }) => {
          const newest = Math.max(...served.map(({ time }) => time));
          return (
            <>
              {published.map((one) => (
                <p key={one.model}>
                  {one.model}: version {one.version} is published
                  {origin(one) && ` (${origin(one)})`}
                  {one.published_time > 0 && `, ${moment(one.published_time)}`}.
                </p>
              ))}
              {served.length === 0 ? (
                <p>No server has reported what it samples from.</p>
              ) : (
                <div class="wide" tabIndex={0} role="region" aria-label="Weights at servers">
                  <table class="servers">
                    <thead>
                      <tr>
                        <th>server</th>
                        <th>model</th>
                        <th>version</th>
                        <th>state</th>
                        <th>why</th>
                      </tr>
                    </thead>
                    <tbody>
                      {served.map((one) => (
                        <ServerRow
                          key={`${one.server_id} ${one.model}`}
                          one={one}
                          published={published.find(({ model }) => model === one.model)}
                          newest={newest}
                        />
                      ))}
                    </tbody>
                  </table>
                </div>
              )}
            </>
          );
        }}
      </Shown>
    </section>
  );
}
