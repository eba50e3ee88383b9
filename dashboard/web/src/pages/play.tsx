import { useEffect, useRef, useState } from "preact/hooks";
import { type Model, models } from "../api";
import { Shown, useLoaded } from "../loading";
import { useKeyed } from "../play/key_prompt";
import { AnswerView } from "../play/play_answer";
import { Messages } from "../play/play_messages";
import { AsPair, AsReward, AsTask } from "../play/play_uses";
import { type Answer, ask, type PlayMessage } from "../play/play";

interface Asking {
  names: string[];
  temperature: number;
  most: number;
  messages: PlayMessage[];
}

/** Asks all models that are chosen, and shows each answer as it grows. */
function useAnswers() {
  const { attempt, shown } = useKeyed();
  const [answers, setAnswers] = useState<(Answer | null)[]>([]);
  const [isWaiting, setWaiting] = useState(false);
  const stopped = useRef<AbortController | null>(null);
  const send = ({ names, temperature, most, messages }: Asking) =>
    attempt(async () => {
      const controller = new AbortController();
      stopped.current = controller;
      setAnswers(names.map(() => null));
      setWaiting(true);
      const one = (name: string, at: number) =>
        ask(name, { messages, temperature, most }, controller.signal, (answer) => {
          if (stopped.current === controller)
            setAnswers((known) => known.map((old, index) => (index === at ? answer : old)));
        });
      try {
        await Promise.all(names.map(one));
      } catch (error) {
        controller.abort();
        throw error;
      } finally {
        if (stopped.current === controller) setWaiting(false);
      }
    });
  const stop = () => stopped.current?.abort();
  // Whoever leaves the page does not listen any more.
  useEffect(() => stop, []);
  return { answers, clear: () => setAnswers([]), isWaiting, send, shown, stop };
}

function Chosen({
  served,
  label,
  value,
  choose,
  none,
}: {
  served: Model[];
  label: string;
  value: string;
  choose: (name: string) => void;
  none?: string;
}) {
  return (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {none !== undefined && <option value="">{none}</option>}
        {served.map((model) => (
          <option key={model.name} value={model.name}>
            {model.name}
            {model.weights_version !== null && `, weights ${model.weights_version}`}
            {!model.healthy && " (does not answer)"}
          </option>
        ))}
      </select>
    </label>
  );
}

function Played({ served, first }: { served: Model[]; first: string }) {
  const [left, setLeft] = useState(served.some((model) => model.name === first) ? first : (served[0]?.name ?? ""));
  const [right, setRight] = useState("");
  const [temperature, setTemperature] = useState(1);
  const [most, setMost] = useState(128);
  const [messages, setMessages] = useState<PlayMessage[]>([{ role: "user", content: "" }]);
  const { answers, clear, isWaiting, send, shown, stop } = useAnswers();
  const there = answers.filter((answer) => answer !== null && answer.stop !== "") as Answer[];
  const submitted = (event: SubmitEvent) => {
    event.preventDefault();
    void send({ names: right ? [left, right] : [left], temperature, most, messages });
  };
  const goOn = (answer: Answer) => {
    setMessages([...answer.prompt, { role: "assistant", content: answer.text }, { role: "user", content: "" }]);
    clear();
  };
  return (
    <>
      <form class="play" onSubmit={submitted}>
        <Messages messages={messages} change={setMessages} />
        <div class="filter">
          <Chosen served={served} label="model" value={left} choose={setLeft} />
          <Chosen served={served} label="beside" value={right} choose={setRight} none="no other" />
          <label>
            temperature{" "}
            <input
              name="temperature"
              type="number"
              min={0}
              step="any"
              value={temperature}
              onInput={(event) => setTemperature(event.currentTarget.valueAsNumber || 0)}
            />
          </label>
          <label>
            most tokens{" "}
            <input
              name="most"
              type="number"
              min={1}
              value={most}
              onInput={(event) => setMost(event.currentTarget.valueAsNumber || 1)}
            />
          </label>
          {isWaiting ? (
            // Another element than the one that sends: what becomes a submit button under a click submits.
            <button key="stop" type="button" onClick={stop}>
              Stop
            </button>
          ) : (
            <button key="send" name="send">
              Send
            </button>
          )}
        </div>
      </form>
      {shown}
      <div class="side-by-side" aria-live="polite" aria-busy={isWaiting}>
        {answers.map((answer, index) =>
          answer ? (
            <AnswerView
              key={index}
              answer={answer}
              name={`answer ${index + 1}, of ${answer.model}`}
              goOn={() => goOn(answer)}
            />
          ) : (
            isWaiting && (
              <p class="quiet" key={index}>
                It answers…
              </p>
            )
          ),
        )}
      </div>
      <AsPair answers={there} />
      <h2>Keep it</h2>
      <AsTask messages={messages} />
      <AsReward rollout={there[0]?.rollout ?? ""} />
    </>
  );
}

/** A served model by hand, or two side by side. */
export function Play({ query }: { query: URLSearchParams }) {
  const loaded = useLoaded<Model[]>("play models", models);
  return (
    <main>
      <h1>Play</h1>
      <Shown of={loaded}>
        {(served) =>
          served.length === 0 ? (
            <p>
              No model is served here. <code>fulgurite serve --model NAME=embedded:DIRECTORY</code> serves one.
            </p>
          ) : (
            <Played served={served} first={query.get("model") ?? ""} />
          )
        }
      </Shown>
    </main>
  );
}
