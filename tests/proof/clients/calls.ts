// Six operations through openapi-fetch with the types of openapi-typescript.
// tsc checks this file; test_clients.py runs it.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./service.js";

type Schemas = components["schemas"];
type TaskStatus = Schemas["TaskStatus"];
type ErrorResponse = Schemas["ErrorResponse"];

function client(token?: string, id?: string) {
  const workspace = id === undefined ? {} : { "Workspace-Id": id };
  const headers = token === undefined ? {} : { Authorization: `Bearer ${token}`, ...workspace };
  return createClient<paths>({ baseUrl: String(process.env.URL), headers });
}

function parsed<T>(result: { data?: T; error?: ErrorResponse; response: Response }): T {
  assert.ok(result.data !== undefined, JSON.stringify(result.error));
  return result.data;
}

function failed(result: { error?: ErrorResponse; response: Response }, status: number) {
  assert.equal(result.response.status, status);
  assert.ok(result.error);
  assert.equal(result.error.status, status);
  assert.equal(result.error.requestId, result.response.headers.get("X-Request-Id"));
  return result.error;
}

// The status of a task has the same type everywhere. If it had not, these lines would not compile.
function oneType(task: Schemas["Task"], page: Schemas["EventPage"]) {
  const status: TaskStatus = task.status;
  const create: Schemas["TaskInput"] = { title: "x", status };
  const [event] = page.data;
  const change: Schemas["TaskChanges"] = {};
  // The type of an event determines the type of its data. An event type of a later release matches no case.
  if (event?.type === "task.updated" && event.changed.includes("status")) change.status = event.data.status;
  if (event?.type === "meeting.completed") create.title = event.data.startTime;
  const query: NonNullable<paths["/api/tasks"]["get"]["parameters"]["query"]> = { status: [status] };
  const back: TaskStatus[] = [create.status ?? "todo", change.status ?? "done", query.status?.[0] ?? status];
  // A client can send back what it has read. Fields that can be cleared accept null.
  const same: Schemas["TaskChanges"] = { ...task, dueDate: null };
  // @ts-expect-error no other string is a status
  const wrong: TaskStatus = "later";
  // @ts-expect-error only the title is required
  const empty: Schemas["TaskInput"] = {};
  return [back, same, wrong, empty] as const;
}

async function tasks(alice: ReturnType<typeof client>, caller: Schemas["Me"]) {
  const body: Schemas["TaskInput"] = { title: "Parent", assigneeId: caller.user.id };
  const header = { "Idempotency-Key": "once-in-typescript" };
  const created = await alice.POST("/api/tasks", { params: { header }, body });
  const task = parsed(created);
  const repeated = await alice.POST("/api/tasks", { params: { header }, body });
  assert.deepEqual(parsed(repeated), task);
  const metadata = { ticket: "42" };
  const child: Schemas["TaskInput"] = { title: "Child", parentId: task.id, status: "done", metadata };
  failed(await alice.POST("/api/tasks", { params: { header }, body: child }), 422);
  const subtask = parsed(await alice.POST("/api/tasks", { body: child }));
  assert.equal(typeof subtask.completedAt, "string");

  const first = parsed(await alice.GET("/api/tasks", { params: { query: { limit: 1 } } }));
  assert.deepEqual(first.data, [subtask]);
  const cursor = first.nextCursor;
  assert.ok(cursor !== null);
  const after = parsed(await alice.GET("/api/events")).nextCursor;
  const rest = parsed(await alice.GET("/api/tasks", { params: { query: { limit: 1, cursor } } }));
  assert.deepEqual(rest.data, [task]);
  const query = { status: [task.status, "in_progress" as const], assignee: caller.user.id };
  assert.deepEqual(parsed(await alice.GET("/api/tasks", { params: { query } })).data, [task]);
  const filed = { params: { query: { metadata } } };
  assert.deepEqual(parsed(await alice.GET("/api/tasks", filed)).data, [subtask]);
  const params = { path: { taskId: task.id } };
  const read = await alice.GET("/api/tasks/{taskId}", { params });
  const seen = String(read.response.headers.get("ETag"));
  const same = await alice.GET("/api/tasks/{taskId}", {
    params: { ...params, header: { "If-None-Match": seen } },
  });
  assert.equal(same.response.status, 304);
  failed(await client("tmw_api_nobody").GET("/api/tasks/{taskId}", { params }), 401);
  const match = { ...params, header: { "If-Match": seen } };
  const changes: Schemas["TaskChanges"] = { status: "in_progress", assigneeId: null };
  const changed = parsed(await alice.PATCH("/api/tasks/{taskId}", { params: match, body: changes }));
  assert.deepEqual([changed.status, changed.assigneeId], ["in_progress", null]);
  const events = parsed(await alice.GET("/api/events", { params: { query: { after } } }));
  assert.equal(oneType(task, events)[0][1], "in_progress");
  const stale = failed(await alice.PATCH("/api/tasks/{taskId}", { params: match, body: changes }), 412);
  const current = stale.current as Schemas["Task"];
  assert.deepEqual(current, changed);
  const back = await alice.PATCH("/api/tasks/{taskId}", { params, body: changed });
  assert.deepEqual(parsed(back), changed);
  const invalid = await alice.PATCH("/api/tasks/{taskId}", { params, body: { title: "" } });
  assert.deepEqual(failed(invalid, 400).errors?.map((fault) => fault.field), ["title"]);
  assert.equal((await alice.DELETE("/api/tasks/{taskId}", { params })).response.status, 204);
  failed(await alice.DELETE("/api/tasks/{taskId}", { params }), 404);
}

async function me(alice: ReturnType<typeof client>) {
  const caller = parsed(await alice.GET("/api/me"));
  const role: Schemas["Role"] | undefined = caller.workspace?.role;
  assert.deepEqual([caller.scope, caller.credential, role], ["write", "api", "owner"]);
  assert.ok(caller.limits.minute.remaining > 0);
  assert.equal(caller.limits.day, null);
  return caller;
}

const caller = await me(client(process.env.TOKEN));
failed(await client(process.env.TOKEN, caller.user.id).GET("/api/tasks"), 404);
await tasks(client(process.env.TOKEN, caller.workspace?.id), caller);
