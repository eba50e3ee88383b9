// What the colour of a token says: for each choice, the class of every token and a legend.
import { callAt, type CallTokens, CLIPPED, MASKED, SAMPLED, type Scores, TEMPLATE, type Tokens } from "./tokens";
import { causeWords } from "../words_for";

export type Colour =
  | "logprob"
  | "maker"
  | "version"
  | "advantage"
  | "ratio"
  | "entropy"
  | "verdict"
  | "under"
  | "compared";

export interface Paint {
  /** The class of a token. */
  of(index: number): string;
  legend: { name: string; words: string }[];
}

/** What the colours are made from, beside the tokens. */
export interface Known {
  scores: Scores | null;
  /** Which tokens another rollout does not have. */
  differs: Uint8Array | null;
}

/** A difference in logprob that has the darkest colour. */
const GREATEST = 3;
/** A ratio of e, or of 1 / e, has it where trainer and sampler are compared. */
const GREATEST_DRIFT = 1;
/** An entropy, in nats, that has the darkest colour: as undecided as between twenty equally likely tokens. */
const GREATEST_ENTROPY = 3;
const KINDS = 8;

/** From sure to surprising, in tenths. */
export const shade = (logprob: number) => (Number.isNaN(logprob) ? "p0" : tenth(-logprob, 6));

const tenth = (value: number, greatest: number) => `p${Math.min(9, Math.floor(Math.min(1, value / greatest) * 10))}`;

/** From the least to the greatest value around nought, in eleven. */
function diverging(value: number, greatest: number): string {
  const part = Math.max(-1, Math.min(1, greatest > 0 ? value / greatest : 0));
  return `d${Math.round((part + 1) * 5)}`;
}

/** What became of a call's sampled tokens. */
export function verdict(call: CallTokens): string {
  const trained = call.uses?.find((use) => use.cause === "trained");
  return (trained ?? call.uses?.at(-1))?.cause ?? call.defect ?? "other";
}

/** Which choices have something to show. */
export function colours(tokens: Tokens, known: Known): [Colour, string][] {
  const some = (is: (call: CallTokens) => boolean) => tokens.calls.some(is);
  const choices: [Colour, string, boolean][] = [
    ["compared", "what differs", known.differs !== null],
    ["logprob", "logprob", true],
    ["maker", "who made it", true],
    ["version", "weights version", some((call) => call.weights_versions.length > 0)],
    ["advantage", "advantage", tokens.trained !== null || some((call) => typeof call.advantage === "number")],
    ["ratio", "ratio of trainer and sampler", tokens.trained !== null],
    ["entropy", "entropy", !!tokens.trained?.entropies],
    ["verdict", "trained or not", some((call) => (call.uses?.length ?? 0) > 0 || call.defect !== null)],
    ["under", "difference under other weights", known.scores !== null],
  ];
  return choices.flatMap(([colour, words, has]): [Colour, string][] => (has ? [[colour, words]] : []));
}

export function versionAt(call: CallTokens, index: number): number | undefined {
  const place = index - call.first - call.prompt;
  return call.weights_versions.findLast((from) => from.first_token <= place)?.version;
}

/** Whether a grammar left nothing else: the logprob is that of the distribution that it leaves. */
export const isForced = (tokens: Tokens, call: CallTokens, index: number) =>
  !!call.grammar && tokens.makers[index] === SAMPLED && (tokens.logprobs[index] ?? NaN) > -1e-6;

export const isCached = (call: CallTokens, index: number) =>
  index < call.first + call.prompt && call.continued + index - call.first < (call.cached ?? 0);

/** Sampled tokens by something that their call says; all others as they are. */
function byCall(tokens: Tokens, name: (call: CallTokens, index: number) => string): Paint["of"] {
  return (index) => {
    const call = callAt(tokens.calls, index);
    return tokens.makers[index] === SAMPLED && call ? name(call, index) : "";
  };
}

function logprob(tokens: Tokens): Paint {
  const legend = [0, 1, 2, 3, 5].map((nats) => ({
    name: shade(-nats),
    words: `${nats === 5 ? "below " : ""}${Math.exp(-nats).toPrecision(2)}`,
  }));
  const of = (index: number) => (tokens.makers[index] === SAMPLED ? shade(tokens.logprobs[index] ?? NaN) : "");
  return { of, legend };
}

function maker(tokens: Tokens): Paint {
  const of = (index: number) => {
    const call = callAt(tokens.calls, index);
    const forced = call && isForced(tokens, call, index) ? " forced" : "";
    return `m${tokens.makers[index]}${call && isCached(call, index) ? " cached" : ""}${forced}`;
  };
  const tells = tokens.makers.includes(TEMPLATE);
  const legend = [
    { name: "m0", words: tells ? "messages: user, tools, system" : "the prompt" },
    { name: "m1", words: "sampled" },
    ...(tells ? [{ name: "m2", words: "the chat template" }] : []),
  ];
  if (tokens.calls.some((call) => call.grammar)) legend.push({ name: "m1 forced", words: "forced by a grammar" });
  if (tokens.calls.some((call) => call.cached)) legend.push({ name: "m0 cached", words: "from the prompt cache" });
  return { of, legend };
}

function versions(tokens: Tokens): Paint {
  const all = [...new Set(tokens.calls.flatMap((call) => call.weights_versions.map((from) => from.version)))].sort(
    (a, b) => a - b,
  );
  const name = (version: number | undefined) => (version === undefined ? "" : `k${all.indexOf(version) % KINDS}`);
  const legend = all.slice(0, 24).map((version) => ({ name: name(version), words: `weights ${version}` }));
  return { of: byCall(tokens, (call, index) => name(versionAt(call, index))), legend };
}

/** The advantage of a sampled token, of a call where it is not known of each; NaN where nobody knows. */
export function advantageAt(tokens: Tokens, index: number): number {
  if (tokens.makers[index] !== SAMPLED) return NaN;
  return tokens.trained?.advantages[index] ?? callAt(tokens.calls, index)?.advantage ?? NaN;
}

function advantages(tokens: Tokens): Paint {
  let most = 0;
  for (let index = 0; index < tokens.ids.length; index += 1) {
    const size = Math.abs(advantageAt(tokens, index));
    if (size > most) most = size;
  }
  const legend = [-1, 0, 1].map((sign) => ({ name: diverging(sign, 1), words: (sign * most).toFixed(3) }));
  const of = (index: number) => {
    const advantage = advantageAt(tokens, index);
    return Number.isNaN(advantage) ? "" : diverging(advantage, most);
  };
  return { of, legend };
}

/** The logarithm of a token's probability when it was trained over that when it was sampled; NaN where nobody knows. */
export const driftAt = (tokens: Tokens, index: number) =>
  tokens.makers[index] === SAMPLED ? (tokens.trained?.logprobs[index] ?? NaN) - (tokens.logprobs[index] ?? NaN) : NaN;

function ratios(tokens: Tokens): Paint {
  const of = (index: number) => {
    const drift = driftAt(tokens, index);
    return Number.isNaN(drift) ? "" : diverging(drift, GREATEST_DRIFT);
  };
  const legend = [-1, -0.5, 0, 0.5, 1].map((part) => ({
    name: diverging(part, 1),
    words: `${Math.abs(part) === 1 ? (part < 0 ? "below " : "above ") : ""}${Math.exp(part * GREATEST_DRIFT).toPrecision(2)}`,
  }));
  return { of, legend };
}

/** The entropy of what predicts a sampled token when it was trained, in nats; NaN where nobody knows. */
export const entropyAt = (tokens: Tokens, index: number) =>
  tokens.makers[index] === SAMPLED ? (tokens.trained?.entropies?.[index] ?? NaN) : NaN;

function entropies(tokens: Tokens): Paint {
  const of = (index: number) => {
    const entropy = entropyAt(tokens, index);
    return Number.isNaN(entropy) ? "" : tenth(entropy, GREATEST_ENTROPY);
  };
  const legend = [0, 0.5, 1, 2, GREATEST_ENTROPY].map((nats) => ({
    name: tenth(nats, GREATEST_ENTROPY),
    words: `${nats === GREATEST_ENTROPY ? "above " : ""}${nats} nats`,
  }));
  return { of, legend };
}

/** What an update left out of a call that it trained, in a word of the ledger's kind. */
export const leftOut = (tokens: Tokens, index: number) =>
  ({ [MASKED]: "masked", [CLIPPED]: "clipped" })[tokens.trained?.fates[index] ?? 0] ?? null;

/** What became of a sampled token. */
const fate = (tokens: Tokens, call: CallTokens, index: number) => leftOut(tokens, index) ?? verdict(call);

function verdicts(tokens: Tokens): Paint {
  const ofTokens = [MASKED, CLIPPED].flatMap((kind) => {
    const index = tokens.trained?.fates.indexOf(kind) ?? -1;
    return index < 0 ? [] : [leftOut(tokens, index) ?? ""];
  });
  const causes = [...new Set([...tokens.calls.filter((call) => call.sampled > 0).map(verdict), ...ofTokens])];
  const untrained = causes.filter((cause) => cause !== "trained");
  const name = (cause: string) =>
    cause === "trained" ? "trained" : `k${1 + (untrained.indexOf(cause) % (KINDS - 1))}`;
  const of = byCall(tokens, (call, index) => name(fate(tokens, call, index)));
  return { of, legend: causes.map((cause) => ({ name: name(cause), words: causeWords(cause) })) };
}

/** How much likelier a token is under the weights of a model that is served now; NaN where nobody knows. */
export const gain = (tokens: Tokens, scores: Scores, index: number) =>
  tokens.makers[index] === SAMPLED ? (scores.logprobs[index] ?? NaN) - (tokens.logprobs[index] ?? NaN) : NaN;

function under(tokens: Tokens, scores: Scores): Paint {
  const of = (index: number) => {
    const difference = gain(tokens, scores, index);
    return Number.isNaN(difference) ? "" : diverging(difference, GREATEST);
  };
  const legend = [-GREATEST, -1, 0, 1, GREATEST].map((nats) => ({
    name: diverging(nats, GREATEST),
    words: nats === 0 ? "0" : `${nats > 0 ? "+" : ""}${nats} nats, ${nats > 0 ? "likelier" : "less likely"} there`,
  }));
  return { of, legend };
}

function compared(differs: Uint8Array): Paint {
  return {
    of: (index) => (differs[index] ? "differs" : ""),
    legend: [{ name: "differs", words: "not on the other side" }],
  };
}

export function painted(colour: Colour, tokens: Tokens, known: Known): Paint {
  if (colour === "maker") return maker(tokens);
  if (colour === "version") return versions(tokens);
  if (colour === "advantage") return advantages(tokens);
  if (colour === "ratio") return ratios(tokens);
  if (colour === "entropy") return entropies(tokens);
  if (colour === "verdict") return verdicts(tokens);
  if (colour === "under" && known.scores) return under(tokens, known.scores);
  if (colour === "compared" && known.differs) return compared(known.differs);
  return logprob(tokens);
}
