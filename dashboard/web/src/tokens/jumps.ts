// Where the keys n and p go among tokens.
import { gain, verdict } from "./paint";
import { callAt, SAMPLED, type Scores, type Tokens } from "./tokens";

export type Sought = "surprising" | "untrained" | "differing" | "compared";

/** A probability of a tenth. */
const SURPRISING = Math.log(0.1);
/** A difference of logprobs that is worth a look. */
const DIFFERING = 1;

function isSought(
  sought: Sought,
  tokens: Tokens,
  index: number,
  scores: Scores | null,
  differs: Uint8Array | null,
): boolean {
  if (sought === "compared") return !!differs?.[index] && !(index > 0 && differs[index - 1]);
  if (tokens.makers[index] !== SAMPLED) return false;
  if (sought === "surprising") return (tokens.logprobs[index] ?? 0) < SURPRISING;
  if (sought === "differing") return scores !== null && Math.abs(gain(tokens, scores, index)) > DIFFERING;
  const call = callAt(tokens.calls, index);
  // The first token of a call whose tokens were not trained.
  return !!call && index === call.first + call.prompt && verdict(call) !== "trained";
}

/** The next place of a kind, or the one before; none if there is none. */
export function sought(
  kind: Sought,
  tokens: Tokens,
  from: number | null,
  by: 1 | -1,
  scores: Scores | null,
  differs: Uint8Array | null,
): number | null {
  const start = from ?? (by > 0 ? -1 : tokens.ids.length);
  for (let index = start + by; index >= 0 && index < tokens.ids.length; index += by) {
    if (isSought(kind, tokens, index, scores, differs)) return index;
  }
  return null;
}

/** The sampled tokens whose logprobs differ most under other weights, greatest first. */
export function greatest(tokens: Tokens, scores: Scores, most: number): { index: number; difference: number }[] {
  const found: { index: number; difference: number }[] = [];
  for (let index = 0; index < tokens.ids.length; index += 1) {
    const difference = gain(tokens, scores, index);
    if (Number.isNaN(difference)) continue;
    const last = found.at(-1);
    if (found.length === most && last && Math.abs(difference) <= Math.abs(last.difference)) continue;
    found.push({ index, difference });
    found.sort((one, other) => Math.abs(other.difference) - Math.abs(one.difference));
    found.length = Math.min(found.length, most);
  }
  return found;
}
