// A warm agent for `fulgurite run --warm`: one process that plays many rollouts at once.
//
//     serve(async (task) => {
//       const client = new OpenAI({ baseURL: task.base_url, apiKey: task.api_key });
//       ...
//       return 1.0;
//     });

import { createInterface } from "node:readline";

/** One attempt at a rollout: its input, and where its model is. */
export interface Task {
  /** The rollout's input. */
  task: any;
  rollout_id: string;
  attempt_id: string;
  /** For OpenAI's clients. */
  base_url: string;
  anthropic_base_url: string;
  /** Opens this attempt alone. */
  api_key: string;
  reward_url: string;
  timeout_seconds: number | null;
  /** Aborted once nobody waits for the attempt any more: hand it to what may take long. */
  signal: AbortSignal;
}

/** The reward; the reward with other numbers as its components; the output for the grader; nothing, if it was posted. */
export type Answer = number | string | { reward: number; [component: string]: number } | null | undefined | void;

/**
 * Reads tasks until standard input is closed, each played by `run(task)`, as many at once as the runner hands out.
 *
 * What `run` throws fails its attempt with that reason. What it prints goes to standard error, since standard output belongs to
 * the answers.
 */
export async function serve(run: (task: Task) => Answer | Promise<Answer>): Promise<void> {
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr) as typeof process.stdout.write;
  const playing = new Map<string, AbortController>();

  const play = async (task: Task): Promise<void> => {
    const names = { rollout_id: task.rollout_id, attempt_id: task.attempt_id };
    let line: object;
    try {
      line = { ...names, ...answer(await run(task)) };
    } catch (error) {
      console.error(error);
      line = { ...names, error: error instanceof Error ? `${error.name}: ${error.message}` : String(error) };
    }
    playing.delete(task.attempt_id);
    write(`${JSON.stringify(line)}\n`);
  };

  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    const fields = JSON.parse(line);
    if ("cancel" in fields) {
      playing.get(fields.attempt_id)?.abort();
      continue;
    }
    const controller = new AbortController();
    playing.set(fields.attempt_id, controller);
    void play({ ...fields, signal: controller.signal });
  }
  // Nobody waits for what is left when standard input is closed.
  process.exit(0);
}

function answer(result: Answer): object {
  if (result === null || result === undefined) return {};
  if (typeof result === "string") return { output: result };
  const reward = typeof result === "number" ? { reward: result } : result;
  for (const [name, value] of Object.entries(reward)) {
    // JSON would make null of it.
    if (!Number.isFinite(value)) throw new RangeError(`${name} is ${value}, which is no finite number`);
  }
  return reward;
}
