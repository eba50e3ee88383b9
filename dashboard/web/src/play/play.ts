// What one does with a served model by hand: asks it, and keeps what came of it.
import { post, sent, streamed } from "./writing";

export type Role = "system" | "user" | "assistant";

export interface PlayMessage {
  role: Role;
  content: string;
}

export interface Wish {
  messages: PlayMessage[];
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
  prompt: PlayMessage[];
}

/** A piece of an answer. */
interface Piece {
  choices: {
    delta?: { content?: string | null; reasoning_content?: string | null };
    logprobs?: { content?: AnswerToken[] | null } | null;
    finish_reason?: string | null;
  }[];
}

/** Alternatives that are asked for at each token. */
const ALTERNATIVES = 3;

/** Asks a model, and tells how its answer grows; whoever stops it keeps what was there. */
export async function ask(
  model: string,
  wish: Wish,
  signal: AbortSignal,
  grew: (answer: Answer) => void,
): Promise<void> {
  const { messages, temperature, most } = wish;
  const began = performance.now();
  const sampling = { temperature, max_tokens: most, logprobs: true, top_logprobs: ALTERNATIVES };
  const response = await sent("/v1/chat/completions", { model, messages, stream: true, ...sampling }, signal);
  const rollout = response.headers.get("x-fulgurite-rollout-id");
  let answer: Answer = {
    model,
    text: "",
    reasoning: null,
    tokens: [],
    stop: "",
    seconds: 0,
    rollout,
    prompt: messages,
  };
  const update = (more: Partial<Answer>) => {
    answer = { ...answer, ...more, seconds: (performance.now() - began) / 1000 };
    grew(answer);
  };
  update({});
  try {
    for await (const { choices } of streamed<Piece>(response)) {
      const [choice] = choices;
      if (!choice) continue;
      const reasoning = choice.delta?.reasoning_content;
      update({
        text: answer.text + (choice.delta?.content ?? ""),
        reasoning: reasoning ? (answer.reasoning ?? "") + reasoning : answer.reasoning,
        tokens: [...answer.tokens, ...(choice.logprobs?.content ?? [])],
        stop: choice.finish_reason ?? answer.stop,
      });
    }
    if (!answer.stop) update({ stop: "a lost connection" });
  } catch (error) {
    update({ stop: signal.aborted ? "interruption" : "an error" });
    if (!signal.aborted) throw error;
  }
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
