// What the page asks of its server. Everything is a GET; who is let in is in a cookie that no script sees.
import { report } from "./report";

export class Failure extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

async function ask(path: string, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { signal: signal ?? null, credentials: "same-origin" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure(0, "The server does not answer.");
  }
  if (!response.ok) throw new Failure(response.status, await reason(response));
  return response;
}

async function reason(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const body = JSON.parse(text);
    const detail = body.detail ?? body.error?.message;
    if (typeof detail === "string") return detail;
  } catch {
    // It says nothing that can be read.
  }
  return `${response.status} ${response.statusText}`;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  if (report) return reported(report.answers, path) as T;
  return (await ask(path, signal)).json();
}

/** What a report holds in place of a server's answer. */
function reported(answers: Record<string, unknown>, path: string): unknown {
  const known = decodeURIComponent(path);
  if (!(known in answers)) throw new Failure(404, `This report does not hold ${known}.`);
  return answers[known];
}

export async function getBytes(path: string, signal?: AbortSignal): Promise<ArrayBuffer> {
  if (report) throw new Failure(404, "A report holds no tokens.");
  return (await ask(path, signal)).arrayBuffer();
}

export async function login(key: string): Promise<void> {
  const body = JSON.stringify({ key });
  const headers = { "content-type": "application/json" };
  const response = await fetch("/v1/fulgurite/login", { method: "POST", body, headers });
  if (!response.ok) throw new Failure(response.status, await reason(response));
}

export interface RunRow {
  run_id: string;
  name: string;
  seed: number;
  start_time: number;
  last_time: number | null;
  steps: number;
  max_steps: number | null;
  held_out_before: number | null;
  held_out_after: number | null;
  /** Absent where the server is older than the page, like the loss. */
  held_out_accuracy?: number | null;
  held_out_loss?: number | null;
  reward: number | null;
  sampled_tokens: number;
  trained_tokens: number;
  seconds: number;
  /** Absent where the server is older than the page. */
  ended?: boolean;
  cost?: { currency: string; total: number } | null;
  objective?: string;
  /** Every scalar of the trainer's and the first model's config, by its dotted key. */
  settings?: Record<string, string | number | boolean>;
}

export interface Step {
  step: number;
  time: number;
  metrics: Record<string, number | unknown>;
  weights_version: number;
}

/** How many updates were made before what a step says was measured. */
export const updates = (step: Step) => (typeof step.metrics.step === "number" ? step.metrics.step : step.step - 1);

export interface LedgerRow {
  cause: string;
  generations: number;
  tokens: number;
}

export interface Finding {
  name: string;
  evidence: string;
  what_to_do: string;
  severity?: string;
  answers?: { task: unknown; answer: string; reward: number | null }[];
}

/** A held-out task, and what was said to it at the first, a middle and the last scoring. */
export interface Changed {
  task: string;
  answers: { step: number; reward: number | null; said: string }[];
}

export interface RolloutRow {
  rollout_id: string;
  run_id: string | null;
  status: string;
  mode: string | null;
  step: number | null;
  group: number | null;
  phase: string | null;
  start_time: number;
  end_time: number | null;
  attempts: number;
  reward: number | null;
  call_rewards: number | null;
  components: Record<string, number>;
  input: string;
  reason: string | null;
  sampled_tokens?: number | null;
}

export interface RolloutRows {
  items: RolloutRow[];
  /** For `after`. */
  next: number;
  /** Rollouts that a filter considered, newest first. */
  looked_at?: number;
  /** For `before`: behind it nothing was looked at. */
  oldest?: string | null;
}

export interface Message {
  role: string;
  text: string;
  tool_calls: [string, string][];
  left_out: number;
  reasoning?: string | null;
}

export type Event =
  | {
      kind: "call";
      generation_id: string | null;
      model: string | null;
      start_time: number | null;
      end_time: number | null;
      messages: Message[];
      shown_before: number;
      answer: Message[];
      stop: unknown;
      span_id?: string;
      parent_span_id?: string | null;
      /** The generation that it continues. */
      parent_id?: string | null;
      branch_reason?: string | null;
      cached_tokens?: number | null;
      prompt_tokens?: number | null;
      sampled_tokens?: number | null;
    }
  | { kind: "reward"; value: number; components: Record<string, number>; giver: string | null; time: number | null }
  | {
      kind: "span";
      name: string;
      start_time: number | null;
      end_time: number | null;
      attributes: object;
      span_id?: string;
      parent_span_id?: string | null;
    };

export interface RolloutPage {
  rollout: {
    rollout_id: string;
    status: string;
    mode: string | null;
    input: unknown;
    metadata: Record<string, unknown> | null;
  };
  attempts: {
    attempt: { attempt_id: string; sequence_id: number; status: string; metadata: Record<string, unknown> | null };
    events: Event[];
  }[];
}

/** A model that is served here. */
export interface Model {
  name: string;
  weights_version: number | null;
  healthy: boolean;
  /** Why it does not answer. */
  failure?: string | null;
  backend?: string | null;
  context_length?: number | null;
  renderer?: string | null;
  /** Whether it says how likely tokens are under its weights, if that is known before it is asked. */
  scores?: boolean;
}

/** What a server of another kind does not have: nothing, instead of a failure. */
export async function getIfThere<T>(path: string, otherwise: T, signal?: AbortSignal): Promise<T> {
  try {
    return await get<T>(path, signal);
  } catch (error) {
    if (error instanceof Failure && (error.status === 404 || error.status === 501)) return otherwise;
    throw error;
  }
}

export const models = (signal?: AbortSignal) => getIfThere<Model[]>("/ui/data/models", [], signal);
