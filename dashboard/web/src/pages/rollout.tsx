import { useMemo, useRef, useState } from "preact/hooks";
import { get, getBytes, type RolloutPage } from "../api";
import { duration } from "../format";
import { onChange, useLive } from "../events";
import { Shown, useLoaded } from "../loading";
import { Conversations } from "../rollouts/conversation";
import { SameTask } from "../rollouts/same_task";
import { Timeline } from "../rollouts/timeline";
import { TokenView } from "../tokens/token_view";
import { tree } from "../rollouts/threads";
import { type Tokens as UnpackedTokens, unpacked } from "../tokens/tokens";

type Attempted = RolloutPage["attempts"][0];

const OVER = ["succeeded", "failed", "cancelled"];
/** Seconds after which a rollout that goes on is asked for again, and one that is over: a reward may still come. */
const OFTEN = 3;
const SELDOM = 30;

function Tokens({ id, of }: { id: string; of: Attempted }) {
  const attempt = of.attempt.attempt_id;
  const path = `/ui/data/rollouts/${encodeURIComponent(id)}/tokens?attempt_id=${encodeURIComponent(attempt)}`;
  const loaded = useLoaded(path, async (signal) => withCached(unpacked(await getBytes(path, signal)), of));
  return <Shown of={loaded}>{(tokens) => <TokenView id={id} attempt={attempt} tokens={tokens} />}</Shown>;
}

/** Tokens with how many of each prompt came from a cache, which a call's span may tell where its record does not. */
function withCached(tokens: UnpackedTokens, of: Attempted): UnpackedTokens {
  const cached = new Map(
    of.events.flatMap((event) => (event.kind === "call" ? [[event.generation_id, event.cached_tokens]] : [])),
  );
  for (const call of tokens.calls) call.cached ??= cached.get(call.generation_id) ?? null;
  return tokens;
}

/** Notes of an attempt that say why it ended as it did. */
function Notes({ attempt }: { attempt: Attempted["attempt"] }) {
  const notes = attempt.metadata ?? {};
  const reasons = [
    ["", notes.reason],
    ["failed by ", notes.fault],
    ["a limit refused it a call: ", notes.fulgurite_stop],
    ["a model host failed it: ", notes.fulgurite_host_error],
  ].filter(([, value]) => typeof value === "string");
  return (
    <>
      {reasons.map(([before, value]) => (
        <p class="failure" key={before as string}>
          {before as string}
          {String(value).replaceAll("_", before === "" ? "_" : " ")}
        </p>
      ))}
    </>
  );
}

function Conversed({ events }: { events: Attempted["events"] }) {
  const place = useRef<HTMLDivElement>(null);
  const { items, threads } = useMemo(() => tree(events), [events]);
  const go = (at: number) => {
    const element = place.current?.querySelector<HTMLElement>(`[data-event="${at}"]`);
    if (element instanceof HTMLDetailsElement) element.open = true;
    element?.scrollIntoView({ block: "start" });
    element?.focus();
  };
  if (events.length === 0) return <p class="quiet">Nothing was recorded of it.</p>;
  return (
    <div ref={place}>
      <Timeline events={events} threads={threads} go={go} />
      <Conversations items={items} threads={threads} />
    </div>
  );
}

function AttemptView({ id, of, all, asTokens }: { id: string; of: Attempted; all: number; asTokens: boolean }) {
  const { attempt, events } = of;
  const times = events.flatMap((event) => ("start_time" in event ? [event.start_time, event.end_time] : []));
  const known = times.filter((time) => time !== null);
  return (
    <section>
      <h2>
        Attempt {attempt.sequence_id}
        {all > 1 && ` of ${all}`}: {attempt.status}
        {known.length > 1 && <span class="quiet"> {duration(Math.max(...known) - Math.min(...known))}</span>}
      </h2>
      <Notes attempt={attempt} />
      {asTokens ? <Tokens id={id} of={of} /> : <Conversed events={events} />}
    </section>
  );
}

function Summary({ rollout, attempts }: RolloutPage) {
  const run = rollout.metadata?.run_id;
  const failed = attempts.filter(
    ({ attempt }) => !["succeeded", "running", "preparing"].includes(attempt.status),
  ).length;
  return (
    <p>
      {rollout.status}
      {rollout.mode && `, ${rollout.mode}`}
      {typeof rollout.metadata?.step === "number" && `, step ${rollout.metadata.step}`}
      {typeof run === "string" && (
        <>
          , of <a href={`#/runs/${encodeURIComponent(run)}`}>{run}</a>
        </>
      )}
      {attempts.length > 1 && `, ${attempts.length} attempts of which ${failed} failed`}
      {" · "}
      <a href={`#/store?rollout=${encodeURIComponent(rollout.rollout_id)}`}>its spans as a waterfall</a>
      {" · "}
      <a href={`#/compare?conversation=${encodeURIComponent(rollout.rollout_id)}`}>
        its conversation under two renderers
      </a>
    </p>
  );
}

export function Rollout({ id, query }: { id: string; query: URLSearchParams }) {
  const path = `/ui/data/rollouts/${encodeURIComponent(id)}`;
  const [isOver, setOver] = useState(false);
  const load = async (signal: AbortSignal) => {
    const page = await get<RolloutPage>(path, signal);
    setOver(OVER.includes(page.rollout.status));
    return page;
  };
  const often = isOver ? SELDOM : OFTEN;
  const loaded = useLive(path, load, { seconds: often, gap: isOver ? SELDOM : 1, follow: onChange });
  const [asTokens, setAsTokens] = useState(query.get("as") === "tokens");
  return (
    <main>
      <h1>Rollout {id}</h1>
      <Shown of={loaded}>
        {({ rollout, attempts }) => (
          <>
            <Summary rollout={rollout} attempts={attempts} />
            <h2>Task</h2>
            <pre>{typeof rollout.input === "string" ? rollout.input : JSON.stringify(rollout.input, null, 2)}</pre>
            <SameTask rollout={id} />
            <div class="choice" role="group" aria-label="How it is shown">
              <button aria-pressed={!asTokens} onClick={() => setAsTokens(false)}>
                Messages
              </button>
              <button aria-pressed={asTokens} onClick={() => setAsTokens(true)}>
                Tokens
              </button>
            </div>
            {attempts.map((of) => (
              <AttemptView key={of.attempt.attempt_id} id={id} of={of} all={attempts.length} asTokens={asTokens} />
            ))}
          </>
        )}
      </Shown>
    </main>
  );
}
