import { useState } from "preact/hooks";
import { get, getBytes, type Event, type Message, type RolloutPage } from "../api";
import { duration, fixed } from "../format";
import { Shown, useLoaded } from "../loading";
import { TokenView } from "../parts/token_view";
import { unpacked } from "../tokens";

function Said({ message }: { message: Message }) {
  return (
    <div class={`message ${message.role === "assistant" ? "sampled" : ""}`}>
      <span class="role">{message.role}</span>
      <pre>{message.text}</pre>
      {message.left_out > 0 && <p class="quiet">{message.left_out} more characters are not shown.</p>}
      {message.tool_calls.map(([name, words], index) => (
        <pre class="tool" key={index}>
          {name}({words})
        </pre>
      ))}
    </div>
  );
}

function Happened({ event }: { event: Event }) {
  if (event.kind === "reward") {
    return (
      <div class="reward">
        <b>reward {fixed(event.value)}</b> by {event.giver ?? "nobody who is known"}
        {Object.entries(event.components).map(([name, value]) => (
          <span key={name}>
            {" "}
            · {name} {fixed(value)}
          </span>
        ))}
      </div>
    );
  }
  if (event.kind === "span") {
    return (
      <details class="span">
        <summary>{event.name}</summary>
        <pre>{JSON.stringify(event.attributes, null, 2)}</pre>
      </details>
    );
  }
  const took = event.start_time !== null && event.end_time !== null ? duration(event.end_time - event.start_time) : "";
  return (
    <section class="call">
      <h3>
        {event.model ?? "a model"} <span class="quiet">{took}</span>
      </h3>
      {event.shown_before > 0 && <p class="quiet">{event.shown_before} messages as before</p>}
      {event.messages.map((message, index) => (
        <Said key={index} message={message} />
      ))}
      {event.answer.map((message, index) => (
        <Said key={`answer ${index}`} message={message} />
      ))}
    </section>
  );
}

function Tokens({ id, attempt }: { id: string; attempt: string }) {
  const path = `/ui/data/rollouts/${encodeURIComponent(id)}/tokens?attempt_id=${encodeURIComponent(attempt)}`;
  const loaded = useLoaded(path, async (signal) => unpacked(await getBytes(path, signal)));
  return <Shown of={loaded}>{(tokens) => <TokenView of={attempt} tokens={tokens} />}</Shown>;
}

export function Rollout({ id }: { id: string }) {
  const path = `/ui/data/rollouts/${encodeURIComponent(id)}`;
  const loaded = useLoaded(path, (signal) => get<RolloutPage>(path, signal), 5);
  const [asTokens, setAsTokens] = useState(false);
  return (
    <main>
      <h1>Rollout {id}</h1>
      <Shown of={loaded}>
        {({ rollout, attempts }) => (
          <>
            <p>
              {rollout.status}
              {rollout.mode && `, ${rollout.mode}`}
              {typeof rollout.metadata?.run_id === "string" && (
                <>
                  , of <a href={`#/runs/${encodeURIComponent(rollout.metadata.run_id)}`}>{rollout.metadata.run_id}</a>
                </>
              )}
            </p>
            <h2>Task</h2>
            <pre>{typeof rollout.input === "string" ? rollout.input : JSON.stringify(rollout.input, null, 2)}</pre>
            <div class="choice" role="group" aria-label="How it is shown">
              <button aria-pressed={!asTokens} onClick={() => setAsTokens(false)}>
                Messages
              </button>
              <button aria-pressed={asTokens} onClick={() => setAsTokens(true)}>
                Tokens
              </button>
            </div>
            {attempts.map(({ attempt, events }) => (
              <section key={attempt.attempt_id}>
                <h2>
                  Attempt {attempt.sequence_id}: {attempt.status}
                </h2>
                {typeof attempt.metadata?.reason === "string" && <p class="failure">{attempt.metadata.reason}</p>}
                {asTokens ? (
                  <Tokens id={id} attempt={attempt.attempt_id} />
                ) : (
                  events.map((event, index) => <Happened key={index} event={event} />)
                )}
              </section>
            ))}
          </>
        )}
      </Shown>
    </main>
  );
}
