// One conversation of a rollout, as two renderers write it.
import { useMemo } from "preact/hooks";
import { get, getBytes } from "../api";
import { Shown, useLoaded } from "../loading";
import { SideBySide } from "../tokens/side_by_side";
import { unpacked } from "../tokens/tokens";

interface RenderableCall {
  generation_id: string;
  model: string;
  /** What rendered it when it was made. */
  renderer: string;
  tokenizer: string;
}

/** Calls of the latest attempt, and the renderers that each tokenizer has the tokens for, if the server has it. */
interface Renderable {
  calls: RenderableCall[];
  renderers: Record<string, string[]>;
}

const at = (id: string) => `/ui/data/rollouts/${encodeURIComponent(id)}`;

/** The page of a rollout's conversation: `call`, `left` and `right` of its address say what is chosen. */
export function Renderings({ id, query }: { id: string; query: URLSearchParams }) {
  const path = `${at(id)}/renderers`;
  const loaded = useLoaded(path, (signal) => get<Renderable>(path, signal));
  return (
    <main>
      <h1>One conversation under two renderers</h1>
      <p>
        What the model of a call is given, in rollout <a href={`#/rollouts/${encodeURIComponent(id)}`}>{id}</a>: the
        messages and tools of the call, written anew by either renderer.
      </p>
      <Shown of={loaded}>{(found) => <Chosen id={id} found={found} query={query} />}</Shown>
    </main>
  );
}

function Chosen({ id, found, query }: { id: string; found: Renderable; query: URLSearchParams }) {
  const wished = query.get("call");
  const call = wished ? found.calls.find((one) => one.generation_id === wished) : found.calls.at(-1);
  if (!call)
    return (
      <p class="failure" role="alert">
        {wished
          ? `The latest attempt has no call ${wished}.`
          : "No model call of this rollout is recorded, and so no messages to render."}
      </p>
    );
  const names = found.renderers[call.tokenizer] ?? [];
  const usual = names.includes(call.renderer) ? call.renderer : (names[0] ?? "");
  const [left, right] = [query.get("left") ?? usual, query.get("right") ?? ""];
  const choose = (key: string, value: string) => {
    const chosen = new URLSearchParams({ conversation: id, call: call.generation_id, left, right, [key]: value });
    location.hash = `#/compare?${chosen}`;
  };
  return (
    <>
      <Form calls={found.calls} {...{ call, names, left, right, choose }} />
      {names.length === 0 ? (
        <p class="failure" role="alert">
          This server has no tokenizer of the model {call.model}: <code>fulgurite serve</code> has those of the models
          that it samples, <code>fulgurite dashboard STORE --model DIRECTORY</code> those that it is given.
        </p>
      ) : right === "" ? (
        <p class="quiet">Choose a second renderer. The call was rendered by {call.renderer}.</p>
      ) : (
        <Rendered id={id} call={call.generation_id} left={left} right={right} />
      )}
    </>
  );
}

interface FormProps {
  calls: RenderableCall[];
  call: RenderableCall;
  /** Renderers that its tokenizer has the tokens for. */
  names: string[];
  left: string;
  right: string;
  choose: (key: string, value: string) => void;
}

function Form({ calls, call, names, left, right, choose }: FormProps) {
  return (
    <div class="filter" role="group" aria-label="What is rendered, and how">
      {calls.length > 1 && (
        <label>
          call{" "}
          <select value={call.generation_id} onChange={(event) => choose("call", event.currentTarget.value)}>
            {calls.map((one, index) => (
              <option key={one.generation_id} value={one.generation_id}>
                {index + 1}, of {one.model}
              </option>
            ))}
          </select>
        </label>
      )}
      {[
        { key: "left", words: "renderer A", value: left },
        { key: "right", words: "renderer B", value: right },
      ].map(({ key, words, value }) => (
        <label key={key}>
          {words}{" "}
          <select
            value={value}
            disabled={names.length === 0}
            onChange={(event) => choose(key, event.currentTarget.value)}
          >
            {/* What an address names may be none of them, and is refused by name then. */}
            {!names.includes(value) && <option value={value}>{value || "choose one"}</option>}
            {names.map((name) => (
              <option key={name} value={name}>
                {name}
                {name === call.renderer && " (as it was called)"}
              </option>
            ))}
          </select>
        </label>
      ))}
    </div>
  );
}

function Rendered({ id, call, left, right }: { id: string; call: string; left: string; right: string }) {
  const load = async (renderer: string, signal: AbortSignal) => {
    const chosen = new URLSearchParams({ renderer, generation_id: call });
    return unpacked(await getBytes(`${at(id)}/rendering?${chosen}`, signal));
  };
  const key = JSON.stringify([id, call, left, right]);
  const loaded = useLoaded(key, (signal) => Promise.all([load(left, signal), load(right, signal)]));
  const sides = useMemo(
    () => loaded.value?.map((tokens, index) => sideOf(index, index === 0 ? left : right, tokens)),
    [loaded.value],
  );
  return (
    <Shown of={loaded}>
      {() => sides?.[0] && sides[1] && <SideBySide key={key} one={sides[0]} other={sides[1]} kind="Renderer" />}
    </Shown>
  );
}

const sideOf = (index: number, name: string, tokens: ReturnType<typeof unpacked>) => ({
  id: `${name}, ${"AB"[index]}`,
  title: `${name} (${tokens.ids.length} tokens)`,
  tokens,
});
