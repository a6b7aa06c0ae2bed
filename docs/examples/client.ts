// A client with the types of openapi-typescript adds a task and lists all pages.
import createClient from "openapi-fetch";
import type { components, paths } from "./service.js";

const headers = { Authorization: `Bearer ${process.env.TOKEN}` };
const client = createClient<paths>({ baseUrl: process.env.URL ?? "", headers });

// Without error: a response that is not in the document, as from a proxy.
function fail(response: Response, error?: components["schemas"]["ErrorResponse"]): never {
  console.error(`${response.status}: ${error?.message} (${error?.requestId})`);
  process.exit(1);
}

const header = { "Idempotency-Key": crypto.randomUUID() };
const created = await client.POST("/api/tasks", { params: { header }, body: { title: "Call Ada" } });
if (!created.data) fail(created.response, created.error);
for (let cursor: string | null | undefined; cursor !== null; ) {
  const query = { status: ["todo" as const], ...(cursor && { cursor }) };
  const { data: page, error, response } = await client.GET("/api/tasks", { params: { query } });
  if (!page) fail(response, error);
  for (const task of page.data) console.log(task.id, task.title);
  cursor = page.nextCursor;
}
