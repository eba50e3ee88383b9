// The models that are served, and the hosts that they are at.
import { type Model, models } from "../api";
import { brief, count } from "../format";
import { Shown, useLoaded } from "../loading";
import { mean, type Sample, total } from "./prometheus";

const seconds = (value: number | null) => (value === null ? "–" : brief(value));
const whole = (value: number | null) => (value === null ? "–" : count(value));

function ModelRow({ model, metrics }: { model: Model; metrics: Sample[] }) {
  const labels = { model: model.name };
  return (
    <tr>
      <td>{model.name}</td>
      <td>
        {[model.backend, model.renderer, model.context_length && `context ${model.context_length}`]
          .filter(Boolean)
          .join(", ")}
      </td>
      <td class={model.healthy ? "" : "failure"}>{model.healthy ? "healthy" : (model.failure ?? "does not answer")}</td>
      <td class="number">{model.weights_version ?? "–"}</td>
      <td class="number">{whole(total(metrics, "fulgurite_calls_in_flight", labels))}</td>
      <td class="number">{whole(total(metrics, "fulgurite_calls_total", labels))}</td>
      <td class="number">{whole(total(metrics, "fulgurite_prompt_tokens_total", labels))}</td>
      <td class="number">{whole(total(metrics, "fulgurite_sampled_tokens_total", labels))}</td>
    </tr>
  );
}

/** Hosts by what their metrics say: the state of a host is the one whose gauge is 1. */
function hosts(metrics: Sample[]): { model: string; host: string; state: string }[] {
  const states = metrics.filter((one) => one.name === "fulgurite_backend_circuit" && one.value === 1);
  return states.map(({ labels }) => ({
    model: labels.model ?? "",
    host: labels.host ?? "",
    state: labels.state ?? "",
  }));
}

const STATES: Record<string, string> = {
  closed: "well",
  open: "left alone after failures",
  probing: "one request is out to see",
};

function Hosts({ metrics }: { metrics: Sample[] }) {
  const rows = hosts(metrics);
  const engine = mean(metrics, "fulgurite_engine_queue_seconds");
  return (
    <>
      {engine !== null && (
        <p class="quiet">
          The embedded engine: a request waits {brief(engine)} for its place in the batch, on average.
        </p>
      )}
      {rows.length > 0 && (
        <div class="wide" tabIndex={0} role="region" aria-label="Hosts">
          <table>
            <thead>
              <tr>
                <th>host</th>
                <th>model</th>
                <th>state</th>
                <th>in flight</th>
                <th>mean wait for a place</th>
                <th>requests</th>
              </tr>
            </thead>
            <tbody>
              {rows.map(({ model, host, state }) => (
                <tr key={`${model} ${host}`}>
                  <td>{host}</td>
                  <td>{model}</td>
                  <td class={state === "closed" ? "" : "failure"}>{STATES[state] ?? state}</td>
                  <td class="number">
                    {whole(total(metrics, "fulgurite_backend_requests_in_flight", { model, host }))}
                  </td>
                  <td class="number">{seconds(mean(metrics, "fulgurite_backend_queue_seconds", { model, host }))}</td>
                  <td class="number">{whole(total(metrics, "fulgurite_backend_requests_total", { model, host }))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

export function ModelsAndHosts({ metrics, every }: { metrics: Sample[]; every: number }) {
  const loaded = useLoaded<Model[]>("store models", models, every);
  return (
    <section>
      <h2>Models and hosts</h2>
      <Shown of={loaded}>
        {(served) =>
          served.length === 0 ? (
            <p>No model is served here.</p>
          ) : (
            <div class="wide" tabIndex={0} role="region" aria-label="Models">
              <table class="models">
                <thead>
                  <tr>
                    <th>model</th>
                    <th>what it is</th>
                    <th>state</th>
                    <th>weights</th>
                    <th>in flight</th>
                    <th>calls</th>
                    <th>prompt tokens</th>
                    <th>sampled tokens</th>
                  </tr>
                </thead>
                <tbody>
                  {served.map((model) => (
                    <ModelRow key={model.name} model={model} metrics={metrics} />
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Shown>
      <Hosts metrics={metrics} />
    </section>
  );
}
