// The package against the real server over real sockets: FULGURITE_PROGRAM and FULGURITE_MODEL name the two.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";

import { Client, RefusedError, UnreachableError } from "../dist/index.js";

const program = process.env.FULGURITE_PROGRAM;
const directory = mkdtempSync(join(tmpdir(), "fulgurite-"));
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("FULGURITE_")));
let server;
let client;

const AGENT = `
import { serve } from ${JSON.stringify(resolve(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "../dist/index.js"))};

serve(async (task) => {
  console.log("this is no answer");
  if (task.task === "broken") throw new TypeError("out of sand");
  if (task.task === "endless") return { reward: Infinity };
  const response = await fetch(task.base_url + "/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer " + task.api_key },
    body: JSON.stringify({ model: "tiny", messages: [{ role: "user", content: "Say " + task.task }], max_tokens: 3 }),
    signal: task.signal,
  });
  if (!response.ok) throw new Error(await response.text());
  return { reward: 0.5, exact: 1 };
});
`;

before(async () => {
  const ready = join(directory, "ready.json");
  const words = [
    "serve",
    "--listen",
    "127.0.0.1:0",
    "--store",
    `sqlite://${directory}/store.db`,
    "--ready-file",
    ready,
  ];
  words.push("--model", `tiny=embedded:${process.env.FULGURITE_MODEL}`);
  server = spawn(program, words, { cwd: directory, env: environment, stdio: ["ignore", "ignore", "inherit"] });
  while (!existsSync(ready)) {
    assert.equal(server.exitCode, null, "the server ended before it answered");
    await new Promise((resume) => setTimeout(resume, 10));
  }
  client = new Client({ url: JSON.parse(readFileSync(ready, "utf8")).url });
});

after(() => {
  server.kill("SIGKILL");
  rmSync(directory, { recursive: true });
});

test("a warm agent plays tasks, and what it did comes back token by token", async () => {
  const queued = await client.enqueue([{ input: "17" }, { input: "broken" }, { input: "endless" }]);
  const ids = queued.map((rollout) => rollout.rollout_id);
  assert.deepEqual(await client.wait(ids, 0), []);
  const script = join(directory, "agent.mjs");
  writeFileSync(script, AGENT);
  const words = ["run", "--server", client.url, "--until-idle", "--warm", "--", process.execPath, script];
  const ran = spawnSync(program, words, { env: environment, encoding: "utf8" });
  assert.equal(ran.status, 0, ran.stderr);

  const ended = new Map((await client.wait(ids)).map((rollout) => [rollout.rollout_id, rollout.status]));
  assert.deepEqual(
    ids.map((id) => ended.get(id)),
    ["succeeded", "failed", "failed"],
  );
  const [given] = await client.rewards(ids[0]);
  assert.deepEqual(given.reward, { value: 0.5, name: "primary", components: [["exact", 1]] });
  const [call] = await client.generations(ids[0]);
  assert.equal(call.logprobs.length, call.sampled_tokens.length);
  assert.ok(call.prompt_tokens.length > 0 && call.logprobs.every((logprob) => logprob <= 0));
});

test("a session is rewarded by its name", async () => {
  const body = { model: "tiny", messages: [{ role: "user", content: "Say 17." }], max_tokens: 3 };
  const headers = { "content-type": "application/json", "x-session-id": "visit/7" };
  const url = `${client.url}/v1/chat/completions`;
  assert.equal((await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })).status, 200);
  assert.equal((await client.reward("visit/7", 1, { polite: 0.5 })).reward.value, 1);
});

test("what the server refuses is said in its words", async () => {
  await assert.rejects(client.reward("ro-nobody", 1), (error) => {
    assert.ok(error instanceof RefusedError);
    assert.equal(error.status, 404);
    assert.match(error.message, /ro-nobody/);
    return true;
  });
});

test("patience has an end that names the server", async () => {
  const nobody = new Client({ url: "http://127.0.0.1:1/", patienceMs: 0 });
  await assert.rejects(
    nobody.rewards("ro-1"),
    (error) => error instanceof UnreachableError && /127\.0\.0\.1:1/.test(error.message),
  );
});
