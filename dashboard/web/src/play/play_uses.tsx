// What a conversation by hand becomes: a task, a comparison, a reward.
import { useState } from "preact/hooks";
import { type Answer, download, enqueue, pair, reward, type PlayMessage } from "./play";
import { useKeyed } from "./key_prompt";

/** A task as a text is that text; what is JSON in braces or brackets is that value. */
function taskOf(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export function AsTask({ messages }: { messages: PlayMessage[] }) {
  const { attempt, shown } = useKeyed();
  const [made, setMade] = useState("");
  const question = messages.findLast((message) => message.role === "user")?.content ?? "";
  const submitted = (event: SubmitEvent) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement);
    void attempt(async () => setMade(await enqueue(taskOf(String(given.get("task"))), String(given.get("mode")))));
  };
  return (
    <section>
      <h3>A task for the queue</h3>
      <form class="filter" onSubmit={submitted}>
        <label class="broad">
          task <textarea name="task" rows={2} key={question} defaultValue={question} required />
        </label>
        <label>
          mode{" "}
          <select name="mode">
            <option value="">none</option>
            <option>train</option>
            <option>val</option>
            <option>test</option>
          </select>
        </label>
        <button>Put it on the queue</button>
      </form>
      {shown}
      {made && (
        <p role="status">
          It waits for a worker as <a href={`#/rollouts/${encodeURIComponent(made)}`}>{made}</a>.
        </p>
      )}
    </section>
  );
}

export function AsPair({ answers }: { answers: Answer[] }) {
  const [one, other] = answers;
  if (!one || !other) return null;
  const keep = (chosen: Answer, rejected: Answer) => download("pair.jsonl", pair(chosen, rejected));
  return (
    <section>
      <h3>A comparison</h3>
      {one.text === other.text ? (
        <p class="quiet">Both answers are the same, so that there is nothing to compare.</p>
      ) : (
        <p class="choice">
          <button onClick={() => keep(one, other)}>The left one is better</button>
          <button onClick={() => keep(other, one)}>The right one is better</button>
        </p>
      )}
      <p class="quiet">
        Downloads a line of JSON with prompt, chosen and rejected, as <code>{"source = { comparisons = FILE }"}</code>{" "}
        reads it.
      </p>
    </section>
  );
}

export function AsReward({ rollout }: { rollout: string }) {
  const { attempt, shown } = useKeyed();
  const [given, setGiven] = useState("");
  const submitted = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const [id, value] = [String(form.get("rollout")).trim(), Number(form.get("value"))];
    void attempt(async () => {
      await reward(id, value);
      setGiven(id);
    });
  };
  return (
    <section>
      <h3>A reward for a rollout</h3>
      <form class="filter" onSubmit={submitted}>
        <label>
          rollout <input name="rollout" key={rollout} defaultValue={rollout} required />
        </label>
        <label>
          reward <input name="value" type="number" step="any" defaultValue="1" required />
        </label>
        <button>Give it</button>
      </form>
      {shown}
      {given && (
        <p role="status">
          It is given to <a href={`#/rollouts/${encodeURIComponent(given)}`}>{given}</a>.
        </p>
      )}
    </section>
  );
}
