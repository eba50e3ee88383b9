// What is chosen about a view of tokens: the colour, other weights, which tokens, and where n and p go.
import type { Model } from "../api";
import { greatest, type Sought } from "./jumps";
import { type Colour, gain, type Paint } from "./paint";
import type { Tokens } from "./tokens";
import { visible } from "./token_block";
import type { Under } from "./token_words";

/** Differences that are listed. */
const LISTED = 12;

interface Tools {
  choices: [Colour, string][];
  colour: Colour;
  setColour: (colour: Colour) => void;
  onlySampled: boolean;
  setOnlySampled: (only: boolean) => void;
  served: Model[];
  model: string;
  setUnder: (model: string) => void;
  /** What n and p can go to. */
  seekable: [Sought, string][];
  kind: Sought;
  setKind: (kind: Sought) => void;
  go: (by: 1 | -1) => void;
}

/** What may be looked for, where the colours say that it is known. */
export function kinds(choices: [Colour, string][]): [Sought, string][] {
  const has = (colour: Colour) => choices.some(([choice]) => choice === colour);
  const all: [Sought, string, boolean][] = [
    ["surprising", "surprising tokens", true],
    ["untrained", "untrained answers", has("verdict")],
    ["differing", "differences of weights", has("under")],
    ["compared", "differences of the two sides", has("compared")],
  ];
  return all.flatMap(([kind, words, is]): [Sought, string][] => (is ? [[kind, words]] : []));
}

export function TokenTools({
  choices,
  colour,
  setColour,
  onlySampled,
  setOnlySampled,
  served,
  model,
  setUnder,
  seekable,
  kind,
  setKind,
  go,
}: Tools) {
  const scoring = served.filter((one) => one.scores !== false);
  return (
    <div class="filter" role="group" aria-label="How tokens are shown">
      <label>
        colour{" "}
        <select value={colour} onChange={(event) => setColour(event.currentTarget.value as Colour)}>
          {choices.map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
      </label>
      {scoring.length > 0 && (
        <label>
          under the weights of{" "}
          <select value={model} onChange={(event) => setUnder(event.currentTarget.value)}>
            <option value="">those that sampled it</option>
            {scoring.map((one) => (
              <option key={one.name} value={one.name}>
                {one.name}
                {one.weights_version !== null && `, version ${one.weights_version}`}
              </option>
            ))}
          </select>
        </label>
      )}
      <label>
        <input
          type="checkbox"
          checked={onlySampled}
          onChange={(event) => setOnlySampled(event.currentTarget.checked)}
        />{" "}
        only sampled
      </label>
      <label>
        n and p go to{" "}
        <select value={kind} onChange={(event) => setKind(event.currentTarget.value as Sought)}>
          {seekable.map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
      </label>
      <span class="choice-inline">
        <button onClick={() => go(-1)}>previous (p)</button> <button onClick={() => go(1)}>next (n)</button>
      </span>
    </div>
  );
}

export function Legend({ paint }: { paint: Paint }) {
  if (paint.legend.length === 0) return null;
  return (
    <ul class="legend" aria-label="Colours">
      {paint.legend.map(({ name, words }) => (
        <li key={`${name} ${words}`}>
          <span class={`swatch ${name}`} /> {words}
        </li>
      ))}
    </ul>
  );
}

/** How the weights of a served model differ over the sampled tokens, and where most. */
export function Differences({ tokens, under, go }: { tokens: Tokens; under: Under; go: (index: number) => void }) {
  let [sum, all, likelier] = [0, 0, 0];
  for (let index = 0; index < tokens.ids.length; index += 1) {
    const difference = gain(tokens, under.scores, index);
    if (Number.isNaN(difference)) continue;
    [sum, all, likelier] = [sum + difference, all + 1, likelier + (difference > 0 ? 1 : 0)];
  }
  if (all === 0)
    return <p class="quiet">{under.model} knows none of the sampled tokens, or none has a logprob on record.</p>;
  return (
    <details class="differences">
      <summary>
        Under {under.model} a sampled token's logprob is {sum >= 0 ? "+" : ""}
        {(sum / all).toFixed(4)} of what was recorded, on average; {likelier} of {all} are likelier
      </summary>
      <p class="quiet">Where the two differ most:</p>
      <ol>
        {greatest(tokens, under.scores, LISTED).map(({ index, difference }) => (
          <li key={index}>
            <button onClick={() => go(index)}>
              token {index}: {visible(tokens.text(index), tokens.ids[index] ?? 0).trim() || "space"}{" "}
              {difference >= 0 ? "+" : ""}
              {difference.toFixed(3)}
            </button>
          </li>
        ))}
      </ol>
    </details>
  );
}
