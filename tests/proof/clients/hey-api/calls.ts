// Calls the service through the client that hey-api's openapi-ts generates, with its fetch client.
// tsc checks this file; test_generators.py runs it.
import assert from "node:assert/strict";
import { client } from "./service/client.gen.js";
import { createTask, deleteTask, getTask, listTasks, updateTask } from "./service/sdk.gen.js";

client.setConfig({ baseUrl: process.env.URL ?? "", auth: process.env.TOKEN ?? "" });
const throwOnError = true;

const headers = { "Idempotency-Key": "once-in-hey-api" };
const body = { title: "Call Ada", dueDate: "2036-05-02T15:00:00Z" };
const { data: created } = await createTask({ body, headers, throwOnError });
const { data: page } = await listTasks({ query: { assignee: "none", limit: 1 }, throwOnError });
assert.equal(page.data[0]?.id, created.id);

const path = { id: created.id };
const { data: task, response } = await getTask({ path, throwOnError });
const tag = { "If-Match": String(response.headers.get("ETag")) };
// The task as it was read, with its read-only fields, and one change.
const { data: changed } = await updateTask({
  path,
  headers: tag,
  body: { ...task, status: "done" },
  throwOnError,
});
assert.equal(changed.version, task.version + 1);
const { error } = await updateTask({ path, headers: tag, body: { status: "todo" } });
assert.equal(error?.status, 412);
assert.equal((await deleteTask({ path, throwOnError })).response.status, 204);
console.log(created.title, created.dueDate, changed.status);
