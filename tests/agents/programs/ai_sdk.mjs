// An agent on the AI SDK that adds with a tool. usage: ai_sdk.mjs BASE_URL...
//
// Asks two questions of one conversation, streamed, of a server each: by Chat Completions, by Responses, and by Messages.
// NODE_MODULES says where its packages are.

import { createRequire } from "node:module";

const packaged = createRequire(process.env.NODE_MODULES + "/");
const { createAnthropic } = packaged("@ai-sdk/anthropic");
const { createOpenAI } = packaged("@ai-sdk/openai");
const { createOpenAICompatible } = packaged("@ai-sdk/openai-compatible");
const { stepCountIs, streamText, tool } = packaged("ai");
const { z } = packaged("zod");

const [chat, responses, messages] = process.argv.slice(2);
const models = [
    createOpenAICompatible({ name: "fulgurite", baseURL: chat, apiKey: "none" })("tiny"),
    createOpenAI({ baseURL: responses, apiKey: "none" })("tiny"),
    createAnthropic({ baseURL: messages, apiKey: "none" })("tiny"),
];
const add = tool({
    description: "Adds.",
    inputSchema: z.object({ a: z.number(), b: z.number() }),
    execute: async ({ a, b }) => String(a + b),
});

for (const model of models) {
    const history = [];
    for (const question of ["17 + 4?", "Sure?"]) {
        history.push({ role: "user", content: question });
        const result = streamText({ model, tools: { add }, stopWhen: stepCountIs(4), messages: history });
        const answer = await result.text;
        if (answer.trim() !== "Yes.") throw new Error(`it said ${JSON.stringify(answer)}`);
        history.push(...(await result.response).messages);
    }
}
