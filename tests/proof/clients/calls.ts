// Calls every operation through openapi-fetch with the types of openapi-typescript.
// tsc checks this file; test_clients.py runs it. Prints what was sent.
import assert from "node:assert/strict";
import createClient, { type Middleware } from "openapi-fetch";
import type { components, paths } from "./service.js";

type Schemas = components["schemas"];
type TaskStatus = Schemas["TaskStatus"];
type ErrorResponse = Schemas["ErrorResponse"];

const UNKNOWN = "01890000-0000-7000-8000-000000000000";
const sent: [string, string, number][] = [];
const record: Middleware = {
  onResponse({ request, response }) {
    sent.push([request.method, new URL(request.url).pathname, response.status]);
  },
};

function client(token?: string) {
  const headers = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  const made = createClient<paths>({ baseUrl: String(process.env.URL), headers });
  made.use(record);
  return made;
}

// Writes with the cookie of a session must declare JSON, also without a body.
function browser() {
  const headers = { Cookie: `session=${process.env.COOKIE}`, "Content-Type": "application/json" };
  const made = createClient<paths>({ baseUrl: String(process.env.URL), headers });
  made.use(record);
  return made;
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

function tag(response: Response): string {
  return String(response.headers.get("ETag"));
}

// One type of a status, wherever it is: each line is an error for tsc if it is not.
function oneType(task: Schemas["Task"], event: Schemas["TaskUpdatedEvent"]) {
  const status: TaskStatus = task.status;
  const create: Schemas["TaskInput"] = { title: "x", status };
  const change: Schemas["TaskChanges"] = { status: event.data.status };
  const query: NonNullable<paths["/api/tasks"]["get"]["parameters"]["query"]> = { status };
  const back: TaskStatus[] = [create.status ?? "todo", change.status ?? "done", query.status ?? status];
  // What was read can be sent back; null is a value of the fields that can be cleared.
  const same: Schemas["TaskChanges"] = { ...task, dueDate: null };
  // @ts-expect-error no other string is a status
  const wrong: TaskStatus = "later";
  // @ts-expect-error only the title is required
  const empty: Schemas["TaskInput"] = {};
  return [back, same, wrong, empty];
}

async function workspaces(alice: ReturnType<typeof client>) {
  const [workspace] = parsed(await alice.GET("/api/workspaces"));
  assert.ok(workspace);
  const params = { path: { id: workspace.id } };
  const read = await alice.GET("/api/workspaces/{id}", { params });
  assert.equal(typeof parsed(read).timezone, "string");
  const header = { "If-None-Match": tag(read.response) };
  const same = await alice.GET("/api/workspaces/{id}", { params: { ...params, header } });
  assert.equal(same.response.status, 304);
  const body = { timezone: "Europe/Rome" };
  const changed = await alice.PATCH("/api/workspaces/{id}", { params, body });
  assert.equal(parsed(changed).timezone, "Europe/Rome");
  const [owner] = parsed(await alice.GET("/api/workspaces/{id}/members", { params }));
  assert.ok(owner);
  const role: Schemas["Role"] = owner.role;
  assert.equal(role, "owner");
  return owner;
}

async function tasks(alice: ReturnType<typeof client>, member: Schemas["Member"]) {
  const body: Schemas["TaskInput"] = { title: "Parent", assigneeId: member.userId, projectId: "api" };
  const header = { "Idempotency-Key": "once-in-typescript" };
  const created = await alice.POST("/api/tasks", { params: { header }, body });
  const task = parsed(created);
  oneType(task, { id: "", type: "task.updated", timestamp: "", workspaceId: "", data: task });
  const repeated = await alice.POST("/api/tasks", { params: { header }, body });
  assert.deepEqual(parsed(repeated), task);
  const other = { title: "Other" };
  failed(await alice.POST("/api/tasks", { params: { header }, body: other }), 422);
  const child: Schemas["TaskInput"] = { title: "Child", parentId: task.id, status: "done" };
  const subtask = parsed(await alice.POST("/api/tasks", { body: child }));
  assert.equal(typeof subtask.completedAt, "string");

  const first = parsed(await alice.GET("/api/tasks", { params: { query: { limit: 1 } } }));
  assert.deepEqual(first.data, [subtask]);
  const cursor = first.nextCursor;
  assert.ok(cursor !== null);
  const rest = parsed(await alice.GET("/api/tasks", { params: { query: { limit: 1, cursor } } }));
  assert.deepEqual(rest.data, [task]);
  const query = {
    status: task.status,
    priority: task.priority,
    assignee: member.userId,
    projectId: "api",
  };
  assert.deepEqual(parsed(await alice.GET("/api/tasks", { params: { query } })).data, [task]);

  const mine = parsed(await alice.GET("/api/tasks", { params: { query: { assignee: "me" } } }));
  assert.deepEqual(mine.data, [task]);
  const params = { path: { id: task.id } };
  const read = await alice.GET("/api/tasks/{id}", { params });
  const seen = tag(read.response);
  const same = await alice.GET("/api/tasks/{id}", {
    params: { ...params, header: { "If-None-Match": seen } },
  });
  assert.equal(same.response.status, 304);
  failed(await alice.GET("/api/tasks/{id}", { params: { path: { id: UNKNOWN } } }), 404);
  failed(await client("tmw_api_nobody").GET("/api/tasks/{id}", { params }), 401);
  const match = { ...params, header: { "If-Match": seen } };
  const changes: Schemas["TaskChanges"] = { status: "in_progress", assigneeId: null };
  const changed = parsed(await alice.PATCH("/api/tasks/{id}", { params: match, body: changes }));
  assert.deepEqual([changed.status, changed.assigneeId], ["in_progress", null]);
  failed(await alice.PATCH("/api/tasks/{id}", { params: match, body: changes }), 412);
  const back = await alice.PATCH("/api/tasks/{id}", { params, body: changed });
  assert.deepEqual(parsed(back), changed);
  const invalid = await alice.PATCH("/api/tasks/{id}", { params, body: { title: "" } });
  assert.deepEqual(failed(invalid, 400).errors?.map((fault) => fault.field), ["title"]);
  failed(await alice.DELETE("/api/tasks/{id}", { params: match }), 412);
  assert.equal((await alice.DELETE("/api/tasks/{id}", { params })).response.status, 204);
  failed(await alice.DELETE("/api/tasks/{id}", { params }), 404);
}

async function meetings(alice: ReturnType<typeof client>) {
  const created = await alice.POST("/api/meetings", {
    body: {
      title: "Planning",
      startTime: "2036-05-05T09:00:00+02:00",
      endTime: new Date("2036-05-05T08:00:00Z").toISOString(),
      platform: "in_person",
      attendees: ["ada@example.com"],
    },
  });
  const meeting = parsed(created);
  const platform: Schemas["Platform"] | null = meeting.platform;
  assert.deepEqual([platform, meeting.summary], ["in_person", undefined]);
  const params = { path: { id: meeting.id } };
  const completion: Schemas["MeetingChanges"] = { status: "completed", summary: "Done", platform: null };
  const header = { "If-Match": tag(created.response) };
  const completed = await alice.PATCH("/api/meetings/{id}", {
    params: { ...params, header },
    body: completion,
  });
  assert.deepEqual([parsed(completed).status, parsed(completed).platform], ["completed", null]);
  const stale = { ...params, header: { "If-Match": '"1"' } };
  failed(await alice.PATCH("/api/meetings/{id}", { params: stale, body: completion }), 412);
  const read = await alice.GET("/api/meetings/{id}", { params });
  assert.deepEqual(parsed(read), parsed(completed));
  const same = await alice.GET("/api/meetings/{id}", {
    params: { ...params, header: { "If-None-Match": tag(read.response) } },
  });
  assert.equal(same.response.status, 304);
  const query = { upcoming: true, workspaceId: meeting.workspaceId };
  const listed = parsed(await alice.GET("/api/meetings", { params: { query } }));
  assert.ok(listed.data.some((item) => item.id === meeting.id));
}

async function me(alice: ReturnType<typeof client>) {
  const caller = parsed(await alice.GET("/api/me"));
  const role: Schemas["Role"] | undefined = caller.workspace?.role;
  assert.deepEqual([caller.scope, caller.credential, role], ["write", "api", "owner"]);
  assert.ok(caller.limits.minute.remaining > 0);
  assert.equal(caller.limits.day, null);
  const body = { workspaceId: String(caller.workspace?.id) };
  assert.deepEqual(parsed(await alice.PATCH("/api/me", { body })).workspace, caller.workspace);
}

async function tokens(alice: ReturnType<typeof client>) {
  const body: Schemas["TokenInput"] = { name: "Report", scope: "read" };
  const made = parsed(await alice.POST("/api/tokens", { body }));
  const reader = client(String(made.token));
  assert.equal(parsed(await reader.GET("/api/me")).scope, "read");
  failed(await reader.GET("/api/tokens"), 403);
  const [newest] = parsed(await alice.GET("/api/tokens"));
  assert.equal(newest?.id, made.id);
  const params = { path: { id: made.id } };
  assert.equal((await alice.DELETE("/api/tokens/{id}", { params })).response.status, 204);
  failed(await reader.GET("/api/me"), 401);
  assert.equal((await alice.DELETE("/api/session")).response.status, 204);
}

async function webhooks(alice: ReturnType<typeof client>) {
  const body: Schemas["WebhookInput"] = { url: String(process.env.HOOK), events: ["task.created"] };
  const webhook = parsed(await alice.POST("/api/webhooks", { body }));
  assert.match(String(webhook.secret), /^whsec_/);
  const params = { path: { id: webhook.id } };
  assert.equal(parsed(await alice.POST("/api/webhooks/{id}/ping", { params })).status, 200);
  const rotated = parsed(await alice.POST("/api/webhooks/{id}/rotate", { params }));
  assert.notEqual(rotated.secret, webhook.secret);
  parsed(await alice.POST("/api/tasks", { body: { title: "Sent" } }));
  const page = parsed(await alice.GET("/api/webhooks/{id}/deliveries", {
    params: { ...params, query: { state: "delivered" } },
  }));
  const [delivery] = page.data;
  assert.ok(delivery);
  assert.equal(delivery.attempts[0]?.status, 200);
  const one = { path: { id: webhook.id, delivery: delivery.id } };
  const read = await alice.GET("/api/webhooks/{id}/deliveries/{delivery}", { params: one });
  assert.match(parsed(read).body, /"Sent"/);
  const again = await alice.POST("/api/webhooks/{id}/deliveries/{delivery}/redeliver", {
    params: one,
  });
  assert.equal(parsed(again).state, "waiting");
  const seen = await alice.GET("/api/webhooks/{id}", { params });
  const changed = parsed(await alice.PATCH("/api/webhooks/{id}", {
    params: { ...params, header: { "If-Match": tag(seen.response) } },
    body: { enabled: false, events: null },
  }));
  const state: Schemas["WebhookState"] = changed.state;
  assert.deepEqual([state, changed.events], ["disabled", null]);
  assert.deepEqual(parsed(await alice.GET("/api/webhooks")), [changed]);
  assert.equal((await alice.DELETE("/api/webhooks/{id}", { params })).response.status, 204);
}

async function reads(alice: ReturnType<typeof client>) {
  const stats = parsed(await alice.GET("/api/dashboard/stats"));
  assert.equal(stats.suggestions.pending, 1);
  const [mail] = parsed(await alice.GET("/api/mail")).data;
  assert.equal(mail?.from, "ada@example.com");
  const [entry] = parsed(await alice.GET("/api/knowledge", { params: { query: { q: "tea" } } })).data;
  assert.equal(entry?.title, "Tea");
  const [suggestion] = parsed(await alice.GET("/api/ai/suggestions")).data;
  assert.deepEqual([suggestion?.status, suggestion?.taskId], ["pending", null]);
}

async function openDocuments() {
  const anyone = client();
  assert.equal(parsed(await anyone.GET("/")).openapi, "/openapi.json");
  assert.equal(parsed(await anyone.GET("/healthz")).status, "ok");
  assert.equal(parsed(await anyone.GET("/openapi.json"))["openapi"], "3.1.0");
}

async function rateLimit(charlie: ReturnType<typeof client>) {
  parsed(await charlie.GET("/api/tasks"));
  const rejected = await charlie.GET("/api/tasks");
  assert.match(failed(rejected, 429).message, /Rate limit exceeded/);
  assert.ok(Number(rejected.response.headers.get("Retry-After")) > 0);
}

const alice = client(process.env.TOKEN);
await tasks(alice, await workspaces(alice));
await meetings(alice);
await me(alice);
await reads(alice);
await webhooks(alice);
await tokens(browser());
await openDocuments();
await rateLimit(client(process.env.LIMITED_TOKEN));
console.log(JSON.stringify(sent));
