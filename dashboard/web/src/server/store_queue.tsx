// How many rollouts are in which status, and who works on them.
import { get } from "../api";
import { duration, moment } from "../format";
import { onChange, useLive } from "../events";
import { Shown } from "../loading";
import { mean, type Sample } from "./prometheus";

const STATUSES = ["queuing", "preparing", "running", "requeuing", "succeeded", "failed", "cancelled"];

interface Page<T> {
  items: T[];
  total: number;
}

interface Worker {
  worker_id: string;
  status: string;
  heartbeat_stats: Record<string, unknown> | null;
  last_heartbeat_time: number | null;
  last_dequeue_time: number | null;
  current_rollout_id: string | null;
  current_attempt_id: string | null;
}

const counted = async (status: string, signal: AbortSignal): Promise<[string, number]> => {
  const { total } = await get<Page<unknown>>(`/v1/agl/rollouts?status_in=${status}&limit=1`, signal);
  return [status, total];
};

export function Queue({ metrics, every }: { metrics: Sample[]; every: number }) {
  const load = (signal: AbortSignal) => Promise.all(STATUSES.map((status) => counted(status, signal)));
  const loaded = useLive("queue", load, { seconds: every, follow: onChange });
  const waited = mean(metrics, "fulgurite_rollout_queue_seconds");
  return (
    <section>
      <h2>Queue</h2>
      <Shown of={loaded}>
        {(counts) => (
          <ul class="counts">
            {counts.map(([status, all]) => (
              <li key={status}>
                <a href={`#/rollouts?status=${status}`}>{status}</a> <b class="number">{all}</b>
              </li>
            ))}
          </ul>
        )}
      </Shown>
      {waited !== null && (
        <p class="quiet">
          A rollout waited {duration(waited)} for its first runner, on average since the server started.
        </p>
      )}
    </section>
  );
}

/** When a worker last said or asked something. */
function lastSeen(worker: Worker): number | null {
  const times = [worker.last_heartbeat_time, worker.last_dequeue_time].filter((time) => time !== null);
  return times.length > 0 ? Math.max(...times) : null;
}

function WorkerRow({ worker }: { worker: Worker }) {
  const seen = lastSeen(worker);
  const ago = seen === null ? null : Math.max(0, Date.now() / 1000 - seen);
  const stats = Object.entries(worker.heartbeat_stats ?? {}).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
  return (
    <tr>
      <td>{worker.worker_id}</td>
      <td>{worker.status}</td>
      <td title={seen === null ? "" : moment(seen)}>{ago === null ? "never" : `${duration(ago)} ago`}</td>
      <td>
        {worker.current_rollout_id ? (
          <a href={`#/rollouts/${encodeURIComponent(worker.current_rollout_id)}`}>
            {worker.current_rollout_id.slice(-12)}
          </a>
        ) : (
          "nothing"
        )}
      </td>
      <td class="text">{stats.join(", ")}</td>
    </tr>
  );
}

export function Workers({ every }: { every: number }) {
  const load = (signal: AbortSignal) => get<Page<Worker>>("/v1/agl/workers", signal);
  const loaded = useLive("workers", load, { seconds: every, follow: onChange });
  return (
    <section>
      <h2>Workers</h2>
      <Shown of={loaded}>
        {({ items }) =>
          items.length === 0 ? (
            <p>
              No worker has asked for work. <code>fulgurite run</code> is one, and Agent-lightning's runners are.
            </p>
          ) : (
            <div class="wide" tabIndex={0} role="region" aria-label="Workers">
              <table class="workers">
                <thead>
                  <tr>
                    <th>worker</th>
                    <th>state</th>
                    <th>last seen</th>
                    <th>holds</th>
                    <th>what it said of its machine</th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((worker) => (
                    <WorkerRow key={worker.worker_id} worker={worker} />
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Shown>
    </section>
  );
}
