// An agent that is written with Anthropic's own package and knows nothing of any proxy. It prints what it saw as JSON.
// usage: anthropic_agent.mjs whole|streamed. NODE_MODULES says where the package is.
import assert from "node:assert";
import { createRequire } from "node:module";

const { Anthropic } = createRequire(`${process.env.NODE_MODULES}/`)("@anthropic-ai/sdk");

const client = new Anthropic({ maxRetries: 0 });
const streamed = process.argv[2] === "streamed";
const request = {
  model: "tiny",
  max_tokens: 2000,
  system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }],
  thinking: { type: "enabled", budget_tokens: 1024 },
  stop_sequences: ["HALT"],
  tools: [
    {
      name: "weather",
      description: "Tells the weather.",
      input_schema: { type: "object", properties: { city: { type: "string" } } },
    },
  ],
};
const replies = [];

async function ask(messages) {
  const message = streamed
    ? await client.messages.stream({ ...request, messages }).finalMessage()
    : await client.messages.create({ ...request, messages });
  const known = ["type", "thinking", "text", "name", "input"];
  const seen = (block) => Object.fromEntries(known.filter((key) => key in block).map((key) => [key, block[key]]));
  assert(message.content.every((block) => block.type !== "thinking" || block.signature));
  replies.push([message.stop_reason, message.stop_sequence, message.usage.output_tokens, message.content.map(seen)]);
  return message;
}

// As Python's json.dumps spells one level of an object.
const dumps = (object) =>
  `{${Object.entries(object)
    .map(([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`)
    .join(", ")}}`;

async function work(task) {
  const messages = [{ role: "user", content: task }];
  for (;;) {
    const message = await ask(messages);
    messages.push({ role: "assistant", content: message.content });
    if (message.stop_reason !== "tool_use") return;
    const calls = message.content.filter((block) => block.type === "tool_use");
    const result = ({ id, name, input }) => ({
      type: "tool_result",
      tool_use_id: id,
      content: `${name} ${dumps(input)}`,
    });
    messages.push({ role: "user", content: calls.map(result) });
  }
}

async function failure(messages) {
  try {
    await ask(messages);
  } catch (error) {
    return error.error.error;
  }
}

await work("Rain in Paris?");
const question = [{ role: "user", content: "Well?" }];
for (let calls = 0; calls < 4; calls++) await ask(question);
const models = [];
for await (const model of client.models.list()) models.push(model.id);
const { model, system, tools } = request;
const { input_tokens: counted } = await client.messages.countTokens({ model, system, tools, messages: question });
const too_long = await failure([{ role: "user", content: "17 ".repeat(4096) }]);
const broken = await failure(question);
console.log(JSON.stringify({ replies, models, counted, too_long, broken }));
