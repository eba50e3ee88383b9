// Tokens of an attempt as the server sends them: see dashboard/src/tokens.rs for the bytes.

export interface CallTokens {
  generation_id: string;
  model: string;
  first: number;
  continued: number;
  prompt: number;
  sampled: number;
  parent_id: string | null;
  branch_reason: string | null;
  stop_reason: string;
  weights_versions: { version: number; first_token: number }[];
  defect: string | null;
  has_text: boolean;
  /** What became of its sampled tokens, by run. */
  uses?: { run_id?: string | null; step?: number | null; cause: string; tokens: number }[];
  /** Tokens of its whole prompt that were taken from a cache. */
  cached?: number | null;
  teachers?: { teacher: string; run_id?: string }[];
  /** Whether its answer was held to a grammar. */
  grammar?: boolean;
  advantage?: number | null;
}

/** Who made a token. */
export const MESSAGES = 0;
export const SAMPLED = 1;
export const TEMPLATE = 2;

/** What an update made of each token; NaN where it made nothing of it. */
export interface Trained {
  advantages: Float32Array;
  /** Under the weights that the update began with. */
  logprobs: Float32Array;
  /** Of what predicts each token under those weights, in nats, where a host told it. */
  entropies: Float32Array | null;
  fates: Uint8Array;
}

/** What became of a token of a call that was trained. */
export const MASKED = 2;
export const CLIPPED = 3;

export interface Tokens {
  calls: CallTokens[];
  ids: Uint32Array;
  logprobs: Float32Array;
  makers: Uint8Array;
  /** What an update made of the tokens, where that is recorded. */
  trained: Trained | null;
  text(index: number): string;
  /** Bytes of the texts of a part. */
  bytes(from: number, to: number): number;
}

export function unpacked(buffer: ArrayBuffer): Tokens {
  const length = new DataView(buffer).getUint32(0, true);
  const decoder = new TextDecoder();
  const header = JSON.parse(decoder.decode(new Uint8Array(buffer, 4, length)));
  const { calls, tokens, trained: isTrained, entropies: hasEntropies } = header;
  let at = 4 + length;
  const ids = new Uint32Array(buffer, at, tokens);
  at += 4 * tokens;
  const logprobs = new Float32Array(buffer, at, tokens);
  at += 4 * tokens;
  const ends = new Uint32Array(buffer, at, tokens);
  at += 4 * tokens;
  const advantages = new Float32Array(buffer, at, isTrained ? tokens : 0);
  at += advantages.byteLength;
  const updated = new Float32Array(buffer, at, isTrained ? tokens : 0);
  at += updated.byteLength;
  const entropies = new Float32Array(buffer, at, hasEntropies ? tokens : 0);
  at += entropies.byteLength;
  const makers = new Uint8Array(buffer, at, tokens);
  at += tokens;
  const fates = new Uint8Array(buffer, at, isTrained ? tokens : 0);
  at += fates.byteLength;
  const measured = hasEntropies ? entropies : null;
  const trained = isTrained ? { advantages, logprobs: updated, entropies: measured, fates } : null;
  const bytes = new Uint8Array(buffer, at);
  const text = (index: number) => decoder.decode(bytes.subarray(index ? ends[index - 1] : 0, ends[index]));
  const between = (from: number, to: number) => (ends[to - 1] ?? 0) - (from ? (ends[from - 1] ?? 0) : 0);
  return { calls, ids, logprobs, makers, trained, text, bytes: between };
}

/** What a model that is served now says of the same tokens. */
export interface Scores {
  logprobs: Float32Array;
  best: Float32Array;
  bestIds: Uint32Array;
}

export function unpackedScores(buffer: ArrayBuffer): Scores {
  const tokens = Math.floor(buffer.byteLength / 12);
  return {
    logprobs: new Float32Array(buffer, 0, tokens),
    best: new Float32Array(buffer, 4 * tokens, tokens),
    bestIds: new Uint32Array(buffer, 8 * tokens, tokens),
  };
}

/** The call whose tokens a place is among. Calls stand in the order of their tokens. */
export function callAt(calls: CallTokens[], index: number): CallTokens | undefined {
  let [low, high] = [0, calls.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const call = calls[middle];
    if (call && call.first + call.prompt + call.sampled <= index) low = middle + 1;
    else high = middle;
  }
  return calls[low];
}
