// A tool-calling agent on OpenAI's own client for Node.
//
// usage: openai_responses.mjs BASE_URL...
//
// Has one conversation through Responses in each way, of one server each: whole, and as a stream that the client adds
// up; going on from the items of all responses, or from the previous response by its id. Prints what each way said as a
// JSON list. NODE_MODULES says where the client is.
import assert from "node:assert";
import { createRequire } from "node:module";

const { OpenAI } = createRequire(`${process.env.NODE_MODULES}/`)("openai");

const REQUEST = {
  model: "tiny",
  instructions: "Add with the tool.",
  tools: [
    {
      type: "function",
      name: "add",
      description: "Adds.",
      parameters: {
        type: "object",
        properties: { a: { type: "integer" }, b: { type: "integer" } },
        required: ["a", "b"],
      },
      strict: false,
    },
  ],
};

const created = (client, fields) => client.responses.create({ ...REQUEST, ...fields });

async function streamed(client, fields) {
  const stream = client.responses.stream({ ...REQUEST, ...fields });
  let text = "";
  for await (const event of stream) {
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  const response = await stream.finalResponse();
  assert.equal(text, response.output_text);
  return response;
}

async function talk(baseURL, ask, goesOn) {
  const client = new OpenAI({ baseURL });
  const conversation = [{ role: "user", content: "17 + 4, and 1 + 2 and 3 + 4 then?" }];
  const texts = [];
  for (let fields = { input: conversation }; ; ) {
    const response = await ask(client, fields);
    assert.equal(response.status, "completed");
    assert.equal(response.output[0].content[0].type, "reasoning_text");
    texts.push(response.output_text);
    const results = response.output
      .filter((item) => item.type === "function_call")
      .map((call) => {
        const { a, b } = JSON.parse(call.arguments);
        return { type: "function_call_output", call_id: call.call_id, output: String(a + b) };
      });
    if (results.length === 0) return texts;
    if (goesOn === "items") {
      conversation.push(...response.output, ...results);
    } else {
      fields = { input: results, previous_response_id: response.id };
    }
  }
}

const ways = [created, streamed].flatMap((ask) => ["items", "previous"].map((goesOn) => [ask, goesOn]));
const all = [];
for (const [index, way] of ways.entries()) all.push(await talk(process.argv[2 + index], ...way));
console.log(JSON.stringify(all));
