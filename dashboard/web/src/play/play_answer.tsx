// An answer, token by token, the more surprising the redder.
import { useState } from "preact/hooks";
import { brief } from "../format";
import { shade } from "../tokens/paint";
import type { Answer, AnswerToken } from "./play";
import { visible } from "../tokens/token_block";

const chance = (logprob: number) => Math.exp(logprob).toFixed(4);

function tokenText({ token, logprob, top_logprobs }: AnswerToken): string {
  const others = (top_logprobs ?? []).filter((other) => other.token !== token);
  const instead = others.map((other) => `${JSON.stringify(other.token)} ${chance(other.logprob)}`).join(", ");
  const facts = [JSON.stringify(token), `logprob ${logprob.toFixed(4)}`, `probability ${chance(logprob)}`];
  return [...facts, ...(instead ? [`instead ${instead}`] : [])].join(" · ");
}

function Tokens({ answer, name }: { answer: Answer; name: string }) {
  const [chosen, choose] = useState<number | null>(null);
  const { tokens } = answer;
  const token = chosen === null ? undefined : tokens[chosen];
  const pressed = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    choose(Math.min(tokens.length - 1, Math.max(0, (chosen ?? -1) + by)));
  };
  const sum = tokens.reduce((sum, one) => sum + one.logprob, 0);
  return (
    <div
      class="tokens"
      tabIndex={0}
      role="region"
      aria-label={`Tokens of ${name}; arrow keys go from one to the next`}
      onKeyDown={pressed}
    >
      <pre>
        {tokens.map((one, index) => (
          <span
            key={index}
            class={`token ${shade(one.logprob)}${index === chosen ? " chosen" : ""}`}
            onMouseOver={() => choose(index)}
          >
            {visible(one.token, index)}
          </span>
        ))}
      </pre>
      <p class="quiet" aria-live="polite">
        {token ? tokenText(token) : `${tokens.length} tokens, logprob ${sum.toFixed(3)} in all`}
      </p>
    </div>
  );
}

/** `name` tells it from the answer beside it, which may be the same model's. */
export function AnswerView({ answer, name, goOn }: { answer: Answer; name: string; goOn: () => void }) {
  return (
    <section class="answer" aria-label={name}>
      <h2>
        {answer.model}{" "}
        <span class="quiet">
          {brief(answer.seconds)}
          {answer.stop ? `, ended by ${answer.stop}` : "…"}
        </span>
      </h2>
      {answer.reasoning && (
        <details class="reasoning">
          <summary>reasoning, {answer.reasoning.length} characters</summary>
          <pre>{answer.reasoning}</pre>
        </details>
      )}
      {answer.tokens.length > 0 ? <Tokens answer={answer} name={name} /> : <pre>{answer.text}</pre>}
      <p>
        <button onClick={goOn} disabled={!answer.stop}>
          Go on with this answer
        </button>{" "}
        {answer.rollout && <a href={`#/rollouts/${encodeURIComponent(answer.rollout)}`}>the call's rollout</a>}
      </p>
    </section>
  );
}
