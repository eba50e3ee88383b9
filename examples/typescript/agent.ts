// An agent that asks a model to say that it is a number, with OpenAI's own package, in one process for all rollouts.
import OpenAI from "openai";
import { serve, type Task } from "../../javascript/src/agent.js";

async function run({ task: number, base_url: baseURL, api_key: apiKey, signal }: Task): Promise<string> {
  const client = new OpenAI({ baseURL, apiKey });
  const content = `Let's play a game. Say you are ${number}.`;
  const body = { model: "hello", messages: [{ role: "user" as const, content }], max_completion_tokens: 32 };
  const choice = (await client.chat.completions.create(body, { signal })).choices[0];
  // The grader reads what the agent returns, and gives nothing for an answer that was cut off.
  const cut = choice?.finish_reason === "stop" ? "" : `[finish_reason: ${choice?.finish_reason}]\n`;
  return `${choice?.message.content}\n${cut}`;
}

await serve(run);
