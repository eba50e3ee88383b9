// Where the tokens of two rollouts part.
import { getBytes } from "../api";
import { type Tokens, unpacked } from "../tokens/tokens";

const BEFORE = 24;
const AFTER = 40;

export interface Parting {
  /** The first token at which they differ, counted from 0; none if all are the same. */
  at: number | null;
  tokens: number;
  before: string;
  /** What the one and the other go on with. */
  here: string;
  there: string;
}

export const tokensOf = async (id: string, signal: AbortSignal) =>
  unpacked(await getBytes(`/ui/data/rollouts/${encodeURIComponent(id)}/tokens`, signal));

function text(tokens: Tokens, from: number, to: number): string {
  const texts = [];
  for (let index = Math.max(0, from); index < Math.min(to, tokens.ids.length); index += 1) {
    texts.push(tokens.text(index) || `⟨${tokens.ids[index]}⟩`);
  }
  return texts.join("");
}

export function parting(one: Tokens, other: Tokens): Parting {
  const both = Math.min(one.ids.length, other.ids.length);
  let at = 0;
  while (at < both && one.ids[at] === other.ids[at]) at += 1;
  if (at === one.ids.length && at === other.ids.length) {
    return { at: null, tokens: at, before: text(one, at - BEFORE, at), here: "", there: "" };
  }
  return {
    at,
    tokens: one.ids.length,
    before: text(one, at - BEFORE, at),
    here: text(one, at, at + AFTER),
    there: text(other, at, at + AFTER),
  };
}
