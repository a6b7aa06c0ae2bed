import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { start } from "task-service-double";
import { Tasks } from "./todo.mjs";

let service, tasks;

before(async () => {
  service = await start();
  tasks = new Tasks(service.url, service.token);
});

after(() => service.close());

beforeEach(() => service.reset());

test("a task is added once even if the response is lost", async () => {
  await service.fault("drop-after-commit", { method: "POST" });
  await tasks.add("Write the report");
  const titles = [];
  for await (const task of tasks.all()) titles.push(task.title);
  assert.deepEqual(titles, ["Write the report"]);
  const posts = (await service.control("events")).data;
  assert.deepEqual(posts.map((post) => JSON.parse(post.body).type), ["task.created"]);
});

test("a stranger sees nothing", async () => {
  const task = await tasks.add("Write the report");
  const stranger = new Tasks(service.url, service.stranger.token);
  await assert.rejects(stranger.send("GET", `/tasks/${task.id}`), /Task not found/);
});
