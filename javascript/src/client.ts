import { randomUUID } from "node:crypto";

/** The server will not do what it was asked to; the message is the server's. */
export class RefusedError extends Error {
  override name = "RefusedError";
  constructor(
    readonly url: string,
    readonly status: number,
    message: string,
  ) {
    super(`${url} refused (status ${status}): ${message}`);
  }
}

/** The server was out of reach, or too busy, for longer than the client's patience. */
export class UnreachableError extends Error {
  override name = "UnreachableError";
  constructor(
    readonly url: string,
    patienceMs: number,
    reason: string,
  ) {
    super(`${url} was out of reach for ${patienceMs / 1000} s: ${reason}; does \`fulgurite serve\` run there?`);
  }
}

export interface ClientOptions {
  /** FULGURITE_SERVER's unless it is given. */
  url?: string;
  /** FULGURITE_ADMIN_KEY's unless it is given. */
  adminKey?: string;
  /** How long the server may be out of reach; a minute unless it is given. */
  patienceMs?: number;
}

/** A rollout to be put on the queue. */
export interface NewRollout {
  input: unknown;
  rollout_id?: string;
  mode?: "train" | "val" | "test";
  metadata?: Record<string, unknown>;
}

/** One task given to an agent, however many attempts it takes. Times are seconds since 1970. */
export interface Rollout {
  rollout_id: string;
  input: unknown;
  status: "queuing" | "preparing" | "running" | "failed" | "succeeded" | "cancelled" | "requeuing";
  mode: "train" | "val" | "test" | null;
  start_time: number;
  end_time: number | null;
  metadata: Record<string, unknown> | null;
}

/** A reward as it was recorded. */
export interface Reward {
  attempt_id: string;
  generation_id: string | null;
  giver?: string;
  reward: { value: number; name: string; components: [string, number][] };
}

/** One model call, with its tokens as they were sampled. */
export interface Generation {
  generation_id: string;
  rollout_id: string;
  attempt_id: string;
  parent_id: string | null;
  model: string;
  prompt_tokens: Uint32Array;
  sampled_tokens: Uint32Array;
  /** One for each sampled token. */
  logprobs: Float32Array | null;
  stop_reason: string;
}

type Body = { method?: string; body?: unknown; headers?: Record<string, string> };

/** A Fulgurite server, asked with patience. What it refuses is a RefusedError with its words. */
export class Client {
  readonly url: string;
  readonly #key: string | undefined;
  readonly #patienceMs: number;

  constructor({ url, adminKey, patienceMs = 60_000 }: ClientOptions = {}) {
    this.url = (url ?? process.env["FULGURITE_SERVER"] ?? "http://127.0.0.1:4747").replace(/\/+$/, "");
    this.#key = adminKey ?? process.env["FULGURITE_ADMIN_KEY"];
    this.#patienceMs = patienceMs;
  }

  /** Puts tasks at the end of the queue, and returns their rollouts in order. */
  async enqueue(tasks: NewRollout[]): Promise<Rollout[]> {
    const rollouts = tasks.map((task) => ({ rollout_id: `ro-${randomUUID().replaceAll("-", "")}`, ...task }));
    return this.#ask(["v1", "agl", "queues", "rollouts", "enqueue"], { body: { rollouts } });
  }

  /** Waits until all of these rollouts have ended, or for so long, and returns those that have. */
  async wait(rolloutIds: string[], timeoutMs = Infinity): Promise<Rollout[]> {
    const end = Date.now() + timeoutMs;
    for (;;) {
      const timeout = Math.max(0, Math.min(20, (end - Date.now()) / 1000));
      const body = { rollout_ids: rolloutIds, timeout };
      const ended = await this.#ask<Rollout[]>(["v1", "agl", "waits", "rollouts"], { body });
      if (ended.length >= new Set(rolloutIds).size || Date.now() >= end) return ended;
    }
  }

  /** Rewards a rollout, or the one session of this name. It is given once, however often the request is sent. */
  async reward(rollout: string, value: number, components: Record<string, number> = {}): Promise<Reward> {
    const headers = { "idempotency-key": randomUUID() };
    return this.#ask(["rollout", rollout, "reward"], { body: { value, components }, headers });
  }

  /** The rewards of a rollout's latest attempt, in the order in which they were given. */
  async rewards(rollout: string): Promise<Reward[]> {
    return this.#ask(["v1", "fulgurite", "rollouts", rollout, "attempts", "latest", "rewards"]);
  }

  /** The model calls of a rollout, token by token. */
  async generations(rollout: string): Promise<Generation[]> {
    const found: Generation[] = [];
    for (let offset: number | null = 0; offset !== null; ) {
      const query = new URLSearchParams({ rollout_id: rollout, offset: String(offset) });
      const page: { items: any[]; next_offset: number | null } = await this.#ask(
        ["v1", "fulgurite", "generations"],
        {},
        query,
      );
      found.push(...page.items.map(unpacked));
      offset = page.next_offset;
    }
    return found;
  }

  async #ask<T>(path: string[], { body, headers = {} }: Body = {}, query?: URLSearchParams): Promise<T> {
    const url = [this.url, ...path.map(encodeURIComponent)].join("/") + (query ? `?${query}` : "");
    const began = Date.now();
    for (let pause = 50; ; pause = Math.min(2000, pause * 2)) {
      let reason: string;
      try {
        const response = await fetch(url, {
          ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
          headers: {
            ...(body === undefined ? {} : { "content-type": "application/json" }),
            ...(this.#key === undefined ? {} : { authorization: `Bearer ${this.#key}` }),
            ...headers,
          },
          // Whoever a redirect points to must not get the key.
          redirect: "manual",
          signal: AbortSignal.timeout(120_000),
        });
        const text = await response.text();
        if (response.ok) return JSON.parse(text) as T;
        reason = `it answered ${response.status}: ${message(text)}`;
        const isPassing = response.status >= 500 || [408, 429].includes(response.status);
        if (!isPassing) throw new RefusedError(url, response.status, message(text));
      } catch (error) {
        if (error instanceof RefusedError || error instanceof SyntaxError) throw error;
        const cause = (error as { cause?: { message?: string } }).cause?.message;
        reason = cause ?? (error as Error).message;
      }
      if (Date.now() - began + pause > this.#patienceMs) throw new UnreachableError(url, this.#patienceMs, reason);
      await new Promise((resume) => setTimeout(resume, pause));
    }
  }
}

function message(text: string): string {
  try {
    const { detail, error } = JSON.parse(text);
    const reason = detail ?? error?.message;
    if (reason !== undefined) return typeof reason === "string" ? reason : JSON.stringify(reason);
  } catch {
    // It is no JSON: the beginning of whatever it is.
  }
  return text.slice(0, 500);
}

/** From base64 of little-endian words to numbers. */
function unpacked(generation: any): Generation {
  const bytes = (text: string): ArrayBuffer => Uint8Array.from(Buffer.from(text, "base64")).buffer;
  return {
    ...generation,
    prompt_tokens: new Uint32Array(bytes(generation.prompt_tokens)),
    sampled_tokens: new Uint32Array(bytes(generation.sampled_tokens)),
    logprobs: generation.logprobs === null ? null : new Float32Array(bytes(generation.logprobs)),
  };
}
