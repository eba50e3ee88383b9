import { getBytes, getIfThere } from "../api";
import { Shown, useLoaded } from "../loading";
import { ModelsAndHosts } from "../server/store_models";
import { Queue, Workers } from "../server/store_queue";
import { ResourcesList } from "../server/store_resources";
import { WeightsAtServers } from "../server/store_servers";
import { Waterfall } from "../server/waterfall";
import { type Sample, samples } from "../server/prometheus";

/** Seconds between looks. */
const EVERY = 5;
const SELDOM = 15;

async function read(signal: AbortSignal): Promise<Sample[]> {
  return samples(new TextDecoder().decode(await getBytes("/metrics", signal)));
}

function Living() {
  const { value, failure } = useLoaded("metrics", read, EVERY);
  const metrics = value ?? [];
  return (
    <>
      {failure && <p class="quiet">Its metrics cannot be read: {failure.message}</p>}
      <ModelsAndHosts metrics={metrics} every={EVERY} />
      <WeightsAtServers every={EVERY} />
      <Queue metrics={metrics} every={EVERY} />
      <Workers every={EVERY} />
      <ResourcesList every={SELDOM} />
    </>
  );
}

function Spans({ rollout, isServer }: { rollout: string; isServer: boolean }) {
  const look = (event: SubmitEvent) => {
    event.preventDefault();
    const id = String(new FormData(event.currentTarget as HTMLFormElement).get("rollout")).trim();
    location.hash = `#/store?${new URLSearchParams({ rollout: id })}`;
  };
  return (
    <section>
      <h2>Spans of a rollout</h2>
      <form class="filter" onSubmit={look}>
        <label>
          rollout <input name="rollout" key={rollout} defaultValue={rollout} required />
        </label>
        <button>Show</button>
      </form>
      {rollout && <Waterfall key={rollout} id={rollout} isServer={isServer} />}
    </section>
  );
}

/** What a server holds beside runs: models, the queue, who works it, resources and spans. */
export function Store({ query }: { query: URLSearchParams }) {
  const rollout = query.get("rollout") ?? "";
  const health = useLoaded("health", (signal) => getIfThere<{ status: string } | "none">("/healthz", "none", signal));
  return (
    <main>
      <h1>Store</h1>
      <Shown of={health}>
        {(health) => {
          const isServer = health !== "none";
          const spans = <Spans rollout={rollout} isServer={isServer} />;
          if (!isServer) {
            return (
              <>
                <p>This page reads a store that nobody serves: it has no models, no queue and no workers.</p>
                {spans}
              </>
            );
          }
          return (
            <>
              {rollout && spans}
              <Living />
              {!rollout && spans}
            </>
          );
        }}
      </Shown>
    </main>
  );
}
