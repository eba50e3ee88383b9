// What is known of a token or a call, in words.
import { advantageAt, driftAt, entropyAt, gain, isCached, isForced, leftOut, verdict, versionAt } from "./paint";
import { callAt, type CallTokens, SAMPLED, type Scores, TEMPLATE, type Tokens } from "./tokens";
import { causeWords, seamWords } from "../words_for";

/** The weights that a rollout is looked at under. */
export interface Under {
  model: string;
  scores: Scores;
}

/** Why a call begins where it does. */
export function seam(call: CallTokens): string {
  const reason = call.branch_reason && call.branch_reason !== "first_turn" ? seamWords(call.branch_reason) : null;
  const cached = call.cached ? `; ${call.cached} of ${call.continued + call.prompt} prompt tokens from the cache` : "";
  if (call.parent_id) return `goes on after ${call.continued} tokens${reason ? `: ${reason}` : ""}${cached}`;
  return (reason ? `begins anew: ${reason}` : "begins a conversation") + cached;
}

/** What became of a call's sampled tokens, run by run. */
export function fates(call: CallTokens): string[] {
  const uses = (call.uses ?? []).map((use) => {
    const step = typeof use.step === "number" ? `step ${use.step}` : "";
    const where = [step, use.run_id].filter(Boolean).join(" of ");
    return use.cause === "trained"
      ? `trained${where && ` in ${where}`}`
      : `not trained${where && ` in ${where}`}: ${causeWords(use.cause)}`;
  });
  return uses.length === 0 && call.defect ? [`not trained: ${causeWords(call.defect)}`] : uses;
}

const probability = (logprob: number) => `logprob ${logprob.toFixed(4)} · probability ${Math.exp(logprob).toFixed(4)}`;

/** The text of a token, wherever one stands that is known. */
export function textOf(tokens: Tokens, id: number): string {
  const index = tokens.ids.indexOf(id);
  const text = index < 0 ? "" : tokens.text(index);
  return text === "" ? `⟨${id}⟩` : JSON.stringify(text);
}

function underWords(tokens: Tokens, { model, scores }: Under, index: number): string[] {
  const logprob = scores.logprobs[index] ?? NaN;
  if (Number.isNaN(logprob)) return [];
  const difference = gain(tokens, scores, index);
  const by = Number.isNaN(difference) ? "" : ` (${difference >= 0 ? "+" : ""}${difference.toFixed(4)})`;
  const best = scores.best[index] ?? NaN;
  const id = scores.bestIds[index] ?? 0;
  const other =
    Number.isNaN(best) || id === tokens.ids[index]
      ? ""
      : `, likeliest there ${textOf(tokens, id)} (${Math.exp(best).toFixed(4)})`;
  return [`under ${model}: ${probability(logprob)}${by}${other}`];
}

/** What an update made of a token. */
function trainedWords(tokens: Tokens, index: number): string[] {
  const [advantage, drift, cause] = [advantageAt(tokens, index), driftAt(tokens, index), leftOut(tokens, index)];
  const entropy = entropyAt(tokens, index);
  return [
    ...(cause ? [causeWords(cause)] : []),
    ...(Number.isNaN(advantage) ? [] : [`advantage ${advantage.toFixed(4)}`]),
    ...(Number.isNaN(drift) ? [] : [`ratio ${Math.exp(drift).toFixed(4)} when it was trained`]),
    ...(Number.isNaN(entropy) ? [] : [`entropy ${entropy.toFixed(4)} nats`]),
  ];
}

export function tokenFacts(tokens: Tokens, index: number, under: Under | null): string {
  const call = callAt(tokens.calls, index);
  const logprob = tokens.logprobs[index] ?? NaN;
  const facts = [`id ${tokens.ids[index]}`, JSON.stringify(tokens.text(index))];
  if (tokens.makers[index] === SAMPLED) {
    facts.push("sampled", Number.isNaN(logprob) ? "no logprob recorded" : probability(logprob));
    const version = call && versionAt(call, index);
    if (version !== undefined) facts.push(`weights ${version}`);
    if (call && isForced(tokens, call, index)) facts.push("forced by a grammar");
    if (call)
      facts.push(
        ...(call.uses?.length
          ? [verdict(call) === "trained" ? "trained" : `not trained: ${causeWords(verdict(call))}`]
          : []),
      );
    facts.push(...trainedWords(tokens, index));
  } else {
    facts.push(tokens.makers[index] === TEMPLATE ? "of the prompt: the chat template" : "of the prompt");
    if (call && isCached(call, index)) facts.push("from the cache");
  }
  return [...facts, ...(under ? underWords(tokens, under, index) : [])].join(" · ");
}
