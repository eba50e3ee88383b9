// The spans of a rollout as a waterfall: which is part of which, and when each was.
import { Failure, get, type RolloutPage } from "../api";
import { brief } from "../format";
import { Shown, useLoaded } from "../loading";

interface Span {
  attempt_id: string;
  span_id: string;
  parent_id: string | null;
  trace_id: string | null;
  name: string;
  status: { status_code: string; description: string | null };
  attributes: Record<string, unknown>;
  start_time: number | null;
  end_time: number | null;
}

interface Node {
  span: Span;
  inner: Node[];
}

/** Spans that are drawn. */
const MOST = 2000;
const WIDTH = 1000;
/** Characters of an attribute that are shown. */
const SHOWN = 2000;

/** Spans below those that they are part of; what is part of nothing that is here stands for itself. */
function trees(spans: Span[]): Node[] {
  const key = (attempt: string, id: string) => `${attempt} ${id}`;
  const nodes = new Map(spans.map((span) => [key(span.attempt_id, span.span_id), { span, inner: [] } as Node]));
  const roots: Node[] = [];
  for (const node of nodes.values()) {
    const { attempt_id, parent_id, span_id } = node.span;
    const parent = parent_id && parent_id !== span_id ? nodes.get(key(attempt_id, parent_id)) : undefined;
    (parent?.inner ?? roots).push(node);
  }
  const byTime = (one: Node, other: Node) => (one.span.start_time ?? 0) - (other.span.start_time ?? 0);
  for (const list of [roots, ...[...nodes.values()].map((node) => node.inner)]) list.sort(byTime);
  return roots;
}

interface Times {
  from: number;
  to: number;
}

function Bar({ span, times }: { span: Span; times: Times }) {
  if (span.start_time === null) return <span class="quiet">no time told</span>;
  const x = (time: number) => ((time - times.from) / Math.max(1e-9, times.to - times.from)) * WIDTH;
  const end = span.end_time ?? times.to;
  return (
    <svg class="bar" viewBox={`0 0 ${WIDTH} 10`} preserveAspectRatio="none" aria-hidden="true">
      <rect
        class={span.status.status_code === "ERROR" ? "failed" : "span"}
        x={Math.min(WIDTH - 2, x(span.start_time))}
        width={Math.max(2, x(end) - x(span.start_time))}
        y={0}
        height={10}
      />
    </svg>
  );
}

/** Attributes as text, each no longer than one reads. */
function attributes(span: Span): string {
  const shown = Object.entries(span.attributes).map(([name, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return `${name}: ${text.length > SHOWN ? `${text.slice(0, SHOWN)}… (${text.length} characters)` : text}`;
  });
  return [`span ${span.span_id}${span.trace_id ? ` of trace ${span.trace_id}` : ""}`, ...shown].join("\n");
}

function Row({ node, times }: { node: Node; times: Times }) {
  const { span, inner } = node;
  const failed = span.status.status_code === "ERROR";
  const took = span.start_time !== null && span.end_time !== null ? brief(span.end_time - span.start_time) : "";
  return (
    <li>
      <details>
        <summary>
          <span class="span-name">
            {span.name} <span class="quiet">{took}</span>
            {failed && <span class="failure"> failed{span.status.description && `: ${span.status.description}`}</span>}
          </span>
          <Bar span={span} times={times} />
        </summary>
        <pre>{attributes(span)}</pre>
      </details>
      {inner.length > 0 && (
        <ul>
          {inner.map((one) => (
            <Row key={one.span.span_id} node={one} times={times} />
          ))}
        </ul>
      )}
    </li>
  );
}

/** Spans as Agent-lightning's API gives them; a page of a run alone has what the rollout's own page shows. */
async function spansOf(id: string, isServer: boolean, signal: AbortSignal): Promise<Span[]> {
  if (isServer) {
    const { items } = await get<{ items: Span[] }>(`/v1/agl/spans?rollout_id=${encodeURIComponent(id)}`, signal);
    if (items.length > 0) return items;
  }
  const { attempts } = await get<RolloutPage>(`/ui/data/rollouts/${encodeURIComponent(id)}`, signal);
  if (isServer && attempts.length === 0) throw new Failure(404, "No attempt at this rollout was made yet.");
  return attempts.flatMap(({ attempt, events }) =>
    events.flatMap((event, index): Span[] => {
      if (event.kind === "reward") return [];
      const name = event.kind === "call" ? `call of ${event.model ?? "a model"}` : event.name;
      const { span_id = String(index), parent_span_id: parent_id = null } = event;
      const common = { attempt_id: attempt.attempt_id, span_id, parent_id, trace_id: null, name };
      const status = { status_code: "UNSET", description: null };
      const attributes = event.kind === "span" ? (event.attributes as Record<string, unknown>) : {};
      return [{ ...common, status, attributes, start_time: event.start_time, end_time: event.end_time }];
    }),
  );
}

export function Waterfall({ id, isServer }: { id: string; isServer: boolean }) {
  const loaded = useLoaded(`spans ${id} ${isServer}`, (signal) => spansOf(id, isServer, signal));
  return (
    <Shown of={loaded}>
      {(spans) => {
        const shown = spans.slice(0, MOST);
        const starts = shown.flatMap((span) => span.start_time ?? []);
        const ends = shown.flatMap((span) => span.end_time ?? span.start_time ?? []);
        const times = { from: Math.min(...starts), to: Math.max(...ends) };
        if (shown.length === 0) return <p>It has no spans.</p>;
        return (
          <>
            <p>
              {spans.length} {spans.length === 1 ? "span" : "spans"}
              {starts.length > 0 && ` over ${brief(times.to - times.from)}`} of{" "}
              <a href={`#/rollouts/${encodeURIComponent(id)}`}>{id}</a>
              {spans.length > MOST && `; the first ${MOST} are shown`}
            </p>
            {[...new Set(shown.map((span) => span.attempt_id))].map((attempt) => (
              <section key={attempt}>
                <h3>{attempt}</h3>
                <ul class="waterfall">
                  {trees(shown.filter((span) => span.attempt_id === attempt)).map((node) => (
                    <Row key={node.span.span_id} node={node} times={times} />
                  ))}
                </ul>
              </section>
            ))}
          </>
        );
      }}
    </Shown>
  );
}
