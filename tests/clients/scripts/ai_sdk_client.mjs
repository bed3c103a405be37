// The AI SDK over both of its providers: text, streams, objects, tools. Arguments as for openai_client.py.

import assert from "node:assert";
import { generateObject, generateText, stepCountIs, streamObject, streamText, tool } from "ai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createOpenAI } from "@ai-sdk/openai";
import { z } from "zod";

const TEXT = "héllo wörld 🌍";
const [url, callingUrl] = process.argv.slice(2);
const settings = { prompt: "go", temperature: 0, maxOutputTokens: 200, maxRetries: 0 };
const schema = z.object({ why: z.string(), score: z.number().int() });
const inputSchema = z.object({ city: z.string(), days: z.number().int() });
const lookUp = tool({
  description: "Look up the weather.",
  inputSchema,
  execute: async ({ city, days }) => `${city}: sunny for ${days} days`,
});

const providers = [
  (base) =>
    createOpenAICompatible({
      name: "sgrt",
      baseURL: `${base}/v1`,
      includeUsage: true,
      supportsStructuredOutputs: true,
    })("stub"),
  (base) => createOpenAI({ baseURL: `${base}/v1`, apiKey: "none" })("stub"), // responses
  (base) => createOpenAI({ baseURL: `${base}/v1`, apiKey: "none" }).chat("stub"),
];

for (const model of providers) {
  const whole = await generateText({ model: model(url), ...settings });
  assert.strictEqual(whole.text, TEXT);
  assert.strictEqual(whole.finishReason, "stop");
  assert.ok(whole.usage.inputTokens > 0);

  const streamed = streamText({ model: model(url), ...settings });
  const pieces = [];
  for await (const piece of streamed.textStream) pieces.push(piece);
  assert.strictEqual(pieces.join(""), TEXT);
  assert.strictEqual(await streamed.finishReason, "stop");
  assert.strictEqual((await streamed.usage).outputTokens, whole.usage.outputTokens);

  const made = await generateObject({ model: model(url), schema, ...settings });
  assert.ok(Number.isInteger(made.object.score));
  const making = streamObject({ model: model(url), schema, ...settings });
  for await (const part of making.partialObjectStream) assert.ok(typeof part === "object");
  assert.ok(Number.isInteger((await making.object).score));

  for (const toolChoice of ["auto", "required", { type: "tool", toolName: "look_up" }]) {
    const called = await generateText({ model: model(callingUrl), tools: { look_up: lookUp }, toolChoice, ...settings });
    assert.strictEqual(called.toolResults[0].output, "Bern: sunny for 3 days");
  }
  const calling = streamText({
    model: model(callingUrl),
    tools: { look_up: lookUp },
    stopWhen: stepCountIs(2), // the results go back, and it calls again
    ...settings,
  });
  const kinds = [];
  for await (const part of calling.fullStream) {
    assert.notStrictEqual(part.type, "error", JSON.stringify(part));
    kinds.push(part.type);
  }
  assert.strictEqual(kinds.filter((kind) => kind === "tool-result").length, 2);
  assert.ok(kinds.includes("tool-input-delta"));

  const refused = generateText({ ...settings, model: model(url), prompt: "a ".repeat(9000) });
  await assert.rejects(refused, (error) => error.message.includes("context"));
}
