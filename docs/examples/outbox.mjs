// Stores changes of tasks in a file, and sends them in batches when the service can be reached.
//
// Needs Node 20.10 or later. Only one process at a time may use a file.
import { randomBytes, randomUUID } from "node:crypto";
import { appendFileSync, existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

const MAX_ITEMS = 100;
const BATCH = "/api/tasks/batch";

// A UUIDv7, because lists are in the order of ids.
export function newId() {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes[6] = (bytes[6] & 0x0f) | 0x70;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

// Whether a task has the values of a change.
export function shows(task, { id, version, ...values }) {
  // Null removes all metadata.
  const isEmpty = (now) => typeof now === "object" && !Object.keys(now).length;
  const equal = (now, value) =>
    value && typeof value === "object"
      ? Object.entries(value).every(([name, inner]) => equal(now?.[name], inner))
      : (now ?? null) === value || (value === null && isEmpty(now));
  return Object.entries(values).every(
    ([name, value]) => equal(task[name], value) || (name === "dueDate" && task.dueDay === value),
  );
}

export class Outbox {
  // How many changes were ever put. The changes that still wait, oldest first: [kind, item] by number.
  stored = 0;
  waiting = new Map();
  // The batch that may have been sent: its key, and how many of the oldest changes it has.
  #batch = null;
  #limit = MAX_ITEMS;

  constructor(file, { url, token, pause = 60 }) {
    Object.assign(this, { file, url: new URL(url).href.replace(/\/$/, ""), token, pause });
    const lines = existsSync(file) ? readFileSync(file, "utf8").split("\n") : [];
    for (const line of lines) {
      let record;
      try {
        record = JSON.parse(line);
      } catch {
        continue; // The process was killed while it wrote this line, so nobody relies on it.
      }
      this.#apply(record);
    }
    // Begin the file with what is left.
    const { stored, waiting } = this;
    const rest = JSON.stringify({ stored, waiting: [...waiting], batch: this.#batch });
    writeFileSync(`${file}.new`, rest, { flush: true });
    renameSync(`${file}.new`, file);
  }

  // Store a change: "create", "update" or "delete", and the item of a batch. The item has the version
  // that the person saw, unless an earlier change of the same task still waits.
  put(kind, item) {
    this.#write({ put: [kind, item] });
  }

  // Send what waits, oldest first; call send again only after it has returned.
  //
  // After each change, tell(kind, item, task as it is now or null, problem or null) is called, once
  // more if the process is killed meanwhile. If somebody else has changed the task, resolve(kind,
  // item, task as it is now) returns the item to send instead, or null to drop the change with all
  // that follow it. Throws if nothing can be sent now: sign in again, for example.
  async send(tell, resolve = () => null) {
    while (this.waiting.size) {
      if (!this.#batch) this.#write({ batch: { key: randomUUID(), count: this.#count() } });
      const sent = [...this.waiting].slice(0, this.#batch.count);
      const body = { create: [], update: [], delete: [] };
      const places = new Map(
        sent.map(([number, [kind, item]]) => [`${kind}[${body[kind].push(item) - 1}]`, number]),
      );
      const { status, result } = await this.#request("POST", BATCH, body, this.#batch.key);
      const answer = new Answer(this.waiting, tell);
      if (status === 200) {
        const tasks = { create: result.created, update: result.updated, delete: [] };
        for (const [number, [kind]] of sent) answer.happened(number, tasks[kind].shift() ?? null);
        this.#limit = Math.min(MAX_ITEMS, this.#limit * 2);
      } else {
        const refusals = await this.#refusals(places, result.errors ?? []);
        // From here on nothing waits, so that no change is put before this answer is stored.
        for (const refusal of refusals) this.#refused(answer, refusal, resolve);
        if (!refusals.length) this.#halve(answer, sent, status, result);
      }
      this.#write({ drop: [...answer.drop], set: [...answer.set], batch: null });
    }
  }

  // How many of the oldest changes one batch can have: it names each task once.
  #count() {
    const ids = new Set();
    for (const [, item] of this.waiting.values()) {
      if (ids.has(item.id) || ids.size === this.#limit) break;
      ids.add(item.id);
    }
    return ids.size;
  }

  // Return each refused change with what is wrong, and the task as it is now, if there is one.
  async #refusals(places, errors) {
    const refusals = new Map();
    for (const { field, message, current } of errors) {
      const [, place, member] = /^(\w+\[\d+\])\.?(\w*)/.exec(field) ?? [];
      const number = places.get(place);
      if (number === undefined || refusals.has(number)) continue;
      const [kind, { id }] = this.waiting.get(number);
      const exists = member === "version" || (member === "id" && kind === "create");
      const now = current ?? (exists ? await this.#read(id) : null);
      refusals.set(number, { number, member, message, now });
    }
    return [...refusals.values()];
  }

  // Decide what becomes of one refused change. It may have happened in an earlier attempt, whose
  // response was lost, and whose key the service has forgotten.
  #refused(answer, { number, member, message, now }, resolve) {
    const [kind, item] = this.waiting.get(number);
    if (kind === "delete" && !now) {
      answer.happened(number, null);
    } else if (kind === "create" && now) {
      // If somebody has changed it since, what the person did next is a conflict.
      answer.happened(number, now, shows(now, item) ? now.version : 1);
    } else if (kind === "update" && now && shows(now, item)) {
      answer.happened(number, now, item.version + 1);
    } else if (now) {
      const instead = resolve(kind, item, now);
      if (instead) answer.set.set(number, { ...instead, id: item.id, version: now.version });
      else answer.dropAll(number, now, message);
    } else if (kind === "update" && member !== "id" && member !== "version") {
      answer.dropOne(number, message);
    } else {
      answer.dropAll(number, null, message); // There is no such task.
    }
  }

  // The service refused a batch without naming a change: send half of it.
  #halve(answer, [[number], ...more], status, { message }) {
    if (![400, 409, 413].includes(status) || (status === 409 && !more.length)) throw Error(message);
    if (more.length) this.#limit = Math.ceil((more.length + 1) / 2);
    else answer.dropAll(number, null, message);
  }

  async #read(id) {
    const { status, result } = await this.#request("GET", `/api/tasks/${id}`);
    if (status !== 200 && status !== 404) throw Error(result.message);
    return status === 200 ? result : null;
  }

  // Repeat a request until the service answers.
  async #request(method, path, document, key) {
    const headers = { Authorization: `Bearer ${this.token}`, "Content-Type": "application/json" };
    if (key) headers["Idempotency-Key"] = key;
    const body = document && JSON.stringify(document);
    for (; ; await setTimeout(1000 * this.pause)) {
      try {
        const signal = AbortSignal.timeout(60_000);
        const response = await fetch(this.url + path, { method, headers, body, signal });
        const { status } = response;
        const result = await response.json();
        if (status < 500 && status !== 408 && status !== 429) return { status, result };
      } catch {
        // The response was lost, or is not JSON: a proxy answered with its own page, for example.
      }
    }
  }

  #write(record) {
    appendFileSync(this.file, `\n${JSON.stringify(record)}`, { flush: true });
    this.#apply(record);
  }

  #apply({ stored, waiting, put, drop = [], set = [], batch }) {
    if (waiting) Object.assign(this, { stored, waiting: new Map(waiting) });
    if (put) this.waiting.set(++this.stored, put);
    for (const [number, item] of set) this.waiting.get(number)[1] = item;
    for (const number of drop) this.waiting.delete(number);
    if (batch !== undefined) this.#batch = batch;
  }
}

// What becomes of the changes that wait, after one answer of the service.
class Answer {
  drop = new Set();
  set = new Map();

  constructor(waiting, tell) {
    Object.assign(this, { waiting, tell });
  }

  // The change happened and made a version; the next change of the task is a change of this version.
  happened(number, now, version = now?.version) {
    this.#end(number, now, null);
    const [next] = this.#following(number);
    if (next) this.#name(next, version);
  }

  // Drop a change whose values the service refuses; the next change gets its version.
  dropOne(number, problem) {
    const { version } = this.waiting.get(number)[1];
    this.#end(number, null, problem);
    const [next] = this.#following(number);
    if (next && this.waiting.get(next)[1].version === undefined) this.#name(next, version);
  }

  // Drop a change with all that follow it.
  dropAll(number, now, problem) {
    for (const each of [number, ...this.#following(number)]) this.#end(each, now, problem);
  }

  #end(number, now, problem) {
    this.drop.add(number);
    this.tell(...this.waiting.get(number), now, problem);
  }

  #name(number, version) {
    const [kind, item] = this.waiting.get(number);
    if (kind !== "create" && version !== undefined) this.set.set(number, { ...item, version });
  }

  #following(number) {
    const { id } = this.waiting.get(number)[1];
    const others = [...this.waiting].filter(([other, [, item]]) => other > number && item.id === id);
    return others.map(([other]) => other);
  }
}
