import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, beforeEach, test } from "node:test";
import { createInterface } from "node:readline";
import { Tasks } from "./todo.mjs";

let process, service, tasks;

const control = async (path, body) => {
  const response = await fetch(`${service.controlUrl}/${path}`, {
    method: body ? "POST" : "GET",
    headers: { "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
  });
  assert.ok(response.ok, await response.clone().text());
  return response.json();
};

before(async () => {
  process = spawn("task-service", ["dev", "--json", "--port", "0"], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(createInterface(process.stdout), "line");
  service = JSON.parse(line);
  tasks = new Tasks(service.baseUrl, service.token);
});

after(() => process.kill());

beforeEach(() => control("reset", {}));

test("a task is added once even if the response is lost", async () => {
  await control("faults", { kind: "drop-after-commit", method: "POST" });
  await tasks.add("Write the report");
  const titles = [];
  for await (const task of tasks.all()) titles.push(task.title);
  assert.deepEqual(titles, ["Write the report"]);
  const posts = (await control("events")).data;
  assert.deepEqual(posts.map((post) => JSON.parse(post.body).type), ["task.created"]);
});

test("a stranger sees nothing", async () => {
  const task = await tasks.add("Write the report");
  const stranger = new Tasks(service.baseUrl, service.stranger.token);
  await assert.rejects(stranger.send("GET", `/tasks/${task.id}`), /Task not found/);
});
