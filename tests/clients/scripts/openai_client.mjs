// The official JavaScript library: text, streams, tools, responses, errors. Arguments as for openai_client.py.

import assert from "node:assert";
import OpenAI from "openai";

const TEXT = "héllo wörld 🌍";
const [url, callingUrl] = process.argv.slice(2);
const messages = [{ role: "user", content: "go" }];
const parameters = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city", "days"],
  additionalProperties: false,
};
const tools = [{ type: "function", function: { name: "look_up", parameters, strict: true } }];

function clientOf(base) {
  return new OpenAI({ baseURL: `${base}/v1`, apiKey: "none", maxRetries: 0 });
}

const client = clientOf(url);
const calling = clientOf(callingUrl);

const whole = await client.chat.completions.create({ model: "stub", messages, temperature: 0 });
assert.strictEqual(whole.choices[0].message.content, TEXT);

const stream = client.chat.completions.stream({ model: "stub", messages, temperature: 0 });
assert.strictEqual(await stream.finalContent(), TEXT);

const schema = {
  type: "object",
  properties: { score: { type: "integer" } },
  required: ["score"],
  additionalProperties: false,
};
const shaped = await client.chat.completions.create({
  model: "stub",
  messages,
  temperature: 0,
  max_tokens: 60,
  response_format: { type: "json_schema", json_schema: { name: "r", strict: true, schema } },
});
assert.ok(Number.isFinite(JSON.parse(shaped.choices[0].message.content).score));

const called = calling.chat.completions.stream({ model: "stub", messages, tools, temperature: 0, max_tokens: 200 });
const message = await called.finalMessage();
assert.strictEqual(JSON.parse(message.tool_calls[0].function.arguments).city, "Bern");
assert.strictEqual((await called.finalChatCompletion()).choices[0].finish_reason, "tool_calls");

const response = await client.responses.create({ model: "stub", input: "go", temperature: 0 });
assert.strictEqual(response.output_text, TEXT);
const pieces = [];
for await (const event of await client.responses.create({ model: "stub", input: "go", temperature: 0, stream: true })) {
  if (event.type === "response.output_text.delta") pieces.push(event.delta);
}
assert.strictEqual(pieces.join(""), TEXT);

await assert.rejects(client.chat.completions.create({ model: "nope", messages }), (error) => {
  return error instanceof OpenAI.NotFoundError && error.message.includes("nope");
});
