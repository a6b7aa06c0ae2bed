// The app of one device: it changes tasks as a person does, and synchronises when it is told to.
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";
import { Outbox, fileStorage } from "./outbox.mjs";

const { URL: url, TOKEN: token } = process.env;
const storage = fileStorage("outbox.jsonl");
const outbox = new Outbox(storage, { url, token: () => token, pause: 0.02 });
await outbox.load();
const print = (line) => console.log(JSON.stringify(line));

// Node's fetch sometimes waits for a connection that is already closed. The outbox then tries again
// after a minute, which is too long here.
const request = fetch;
globalThis.fetch = (path, options) =>
  request(path, { ...options, signal: AbortSignal.timeout(5000) });

// The tasks as the service returned them last, by id.
let copy = existsSync("copy.json") ? JSON.parse(readFileSync("copy.json", "utf8")) : {};

function keepCopy() {
  writeFileSync("copy.json.new", JSON.stringify(copy));
  renameSync("copy.json.new", "copy.json");
}

// The changes of a task that wait.
const waiting = (id) => [...outbox.waiting.values()].filter(([, item]) => item.id === id);

// The task as the person sees it: with the changes that wait.
function view(id) {
  const change = (task, [kind, item]) => (kind === "delete" ? null : { ...task, ...item });
  return waiting(id).reduce(change, copy[id] ?? null);
}

async function put({ number, kind, id, append, ...values }) {
  const seen = view(id);
  // On this device, there is no such task, or there is one already.
  if (!seen === (kind !== "create")) return print({ put: number, seen: null });
  const item = { id, ...values };
  if (append) item.description = (seen?.description ?? "") + append;
  if (kind !== "create") item.version = copy[id]?.version;
  await outbox.put(kind, item, seen ?? {});
  print({ put: number, seen: seen ?? {} });
}

// Somebody else's title wins, and both texts stay.
function resolve(kind, item, now, seen) {
  const beaten = item.title && ![seen.title, item.title].includes(now.title);
  print({ asked: kind, item, now });
  if (kind === "delete" || beaten) return null;
  if (!item.description) return item;
  const added = item.description.slice(seen.description.length);
  // An earlier attempt may have added it.
  const has = now.description.includes(added);
  return { ...item, description: has ? now.description : now.description + added };
}

function tell(kind, item, now, problem) {
  if (now) copy[item.id] = now;
  else delete copy[item.id];
  keepCopy();
  print({ told: kind, item, problem });
}

async function get(path) {
  for (; ; await setTimeout(20)) {
    const headers = { Authorization: `Bearer ${token}` };
    const answer = await fetch(url + path, { headers }).catch(() => null);
    const result = await answer?.json().catch(() => null);
    if (result && answer.status === 200) return result;
  }
}

async function list() {
  const tasks = {};
  for (let cursor = ""; cursor !== null; ) {
    const page = await get(`/api/tasks?limit=200${cursor && `&cursor=${cursor}`}`);
    for (const task of page.data) tasks[task.id] = task;
    cursor = page.nextCursor;
  }
  return tasks;
}

async function synchronise() {
  await outbox.send(tell, resolve);
  copy = await list();
  keepCopy();
  print({ synchronised: outbox.waiting.size, copy });
}

let busy = null;
print({ started: true });
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  if (command.number) await put(command);
  else busy ??= synchronise().finally(() => (busy = null));
}
