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
}

export interface Tokens {
  calls: CallTokens[];
  ids: Uint32Array;
  logprobs: Float32Array;
  makers: Uint8Array;
  text(index: number): string;
}

export function unpacked(buffer: ArrayBuffer): Tokens {
  const length = new DataView(buffer).getUint32(0, true);
  const decoder = new TextDecoder();
  const { calls, tokens } = JSON.parse(decoder.decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  const ids = new Uint32Array(buffer, at, tokens);
  at += 4 * tokens;
  const logprobs = new Float32Array(buffer, at, tokens);
  at += 4 * tokens;
  const ends = new Uint32Array(buffer, at, tokens);
  at += 4 * tokens;
  const makers = new Uint8Array(buffer, at, tokens);
  at += tokens;
  const bytes = new Uint8Array(buffer, at);
  const text = (index: number) => decoder.decode(bytes.subarray(index ? ends[index - 1] : 0, ends[index]));
  return { calls, ids, logprobs, makers, text };
}
