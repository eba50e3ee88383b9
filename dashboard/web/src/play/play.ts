// What one does with a served model by hand: asks it, and keeps what came of it.
import type { Answered } from "./writing";
import { post } from "./writing";

export type Role = "system" | "user" | "assistant";

export interface Said {
  role: Role;
  content: string;
}

export interface Wish {
  messages: Said[];
  temperature: number;
  most: number;
}

export interface AnswerToken {
  token: string;
  logprob: number;
  top_logprobs: { token: string; logprob: number }[];
}

export interface Answer {
  model: string;
  text: string;
  reasoning: string | null;
  tokens: AnswerToken[];
  stop: string;
  seconds: number;
  /** The rollout that the call was recorded as. */
  rollout: string | null;
  prompt: Said[];
}

interface Completion {
  choices: {
    message: { content: string | null; reasoning_content?: string | null };
    logprobs?: { content?: AnswerToken[] | null } | null;
    finish_reason: string | null;
  }[];
}

/** Alternatives that are asked for at each token. */
const ALTERNATIVES = 3;

async function completed(model: string, wish: Wish, more: object, signal: AbortSignal): Promise<Answered<Completion>> {
  const { messages, temperature, most } = wish;
  const body = { model, messages, temperature, max_tokens: most, logprobs: true, ...more };
  return await post<Completion>("/v1/chat/completions", body, signal);
}

export async function ask(model: string, wish: Wish, signal: AbortSignal): Promise<Answer> {
  const began = performance.now();
  const { value, headers } = await completed(model, wish, { top_logprobs: ALTERNATIVES }, signal);
  const choice = value.choices[0];
  return {
    model,
    text: choice?.message.content ?? "",
    reasoning: choice?.message.reasoning_content ?? null,
    tokens: choice?.logprobs?.content ?? [],
    stop: choice?.finish_reason ?? "",
    seconds: (performance.now() - began) / 1000,
    rollout: headers.get("x-fulgurite-rollout-id"),
    prompt: wish.messages,
  };
}

export async function enqueue(input: unknown, mode: string): Promise<string> {
  const rollouts = [{ input, ...(mode && { mode }) }];
  const { value } = await post<{ rollout_id: string }[]>("/v1/agl/queues/rollouts/enqueue", { rollouts });
  return value[0]?.rollout_id ?? "";
}

export async function reward(rollout: string, value: number): Promise<void> {
  await post(`/rollout/${encodeURIComponent(rollout)}/reward`, { value });
}

/** One comparison as a line of a file that preference objectives read. */
export function pair(chosen: Answer, rejected: Answer): string {
  const [only] = chosen.prompt;
  const prompt = chosen.prompt.length === 1 && only?.role === "user" ? only.content : chosen.prompt;
  return `${JSON.stringify({ prompt, chosen: chosen.text, rejected: rejected.text })}\n`;
}

/** Has the browser keep a text as a file. */
export function download(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = `data:application/jsonl;charset=utf-8,${encodeURIComponent(text)}`;
  link.download = name;
  link.click();
}
