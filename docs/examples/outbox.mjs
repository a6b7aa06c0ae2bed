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

// The values of the task as the person saw it, with the change, for a PATCH of the task as it is now.
function withChange(seen, item, now) {
  const values = { ...seen, ...item };
  if (seen?.dueDay && !("dueDate" in item)) values.dueDate = seen.dueDay;
  if (seen?.metadata && item.metadata !== null) {
    const none = Object.fromEntries(Object.keys(now.metadata).map((name) => [name, null]));
    values.metadata = { ...none, ...seen.metadata, ...item.metadata };
  }
  return values;
}

export class Outbox {
  // How many changes were ever put. The changes that still wait, oldest first, by number: [kind, item,
  // task as the person saw it, item to send instead].
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
  // that the person saw, unless an earlier change of the same task still waits. Also give the task as
  // the person saw it, with the changes that still waited then: resolve gets it, and without it, two
  // devices of one person that make the same change are not told apart.
  put(kind, item, seen) {
    this.#write({ put: [kind, item, seen] });
  }

  // Send what waits, oldest first; call send again only after it has returned.
  //
  // After each change, tell(kind, item, task as it is now or null, problem or null) is called, once
  // more if the process is killed meanwhile. If somebody else has changed the task, resolve(kind,
  // item, task as it is now, task as the person saw it) returns the item to send instead, or null to
  // drop the change with all that follow it. It is called for each change that the person made on an
  // older version: again for the next one, which was not made on what it returned for this one.
  // Throws if nothing can be sent now: sign in again, for example.
  async send(tell, resolve = () => null) {
    while (this.waiting.size) {
      if (!this.#batch) this.#write({ batch: { key: randomUUID(), count: this.#count() } });
      const sent = [...this.waiting].slice(0, this.#batch.count);
      const body = { create: [], update: [], delete: [] };
      const places = new Map(
        sent.map(([number, [kind, item, , instead]]) => [
          `${kind}[${body[kind].push(instead ?? item) - 1}]`,
          number,
        ]),
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
      const { drop, set, instead } = answer;
      this.#write({ drop: [...drop], set: [...set], instead: [...instead], batch: null });
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

  // Return each refused change with what is wrong, the task as it is now, if there is one, and what
  // an earlier attempt did.
  async #refusals(places, errors) {
    const refusals = new Map();
    for (const { field, message, current } of errors) {
      const [, place, member] = /^(\w+\[\d+\])\.?(\w*)/.exec(field) ?? [];
      const number = places.get(place);
      if (number === undefined || refusals.has(number)) continue;
      const [kind, item, seen, instead] = this.waiting.get(number);
      const exists = member === "version" || (member === "id" && kind === "create");
      const now = current ?? (exists ? await this.#ask("GET", `/api/tasks/${item.id}`) : null);
      const earlier = await this.#earlier(kind, instead ?? item, now, seen);
      refusals.set(number, { number, member, message, now, ...earlier });
    }
    return [...refusals.values()];
  }

  // Find out whether a refused change happened in an earlier attempt, whose response was lost, and
  // whose key the service has forgotten; and whether the task has not been changed since then.
  async #earlier(kind, item, now, seen) {
    if (kind === "delete" || !now) return { happened: kind === "delete" && !now };
    const created = kind === "create";
    if (!created && !(await this.#is(now, item))) return { happened: false };
    const me = (await this.#ask("GET", "/api/me")).user.id;
    if (created && now.createdBy !== me) return { happened: false };
    // Somebody else, or the person's other device, may have made this change with another one.
    const first = created ? now.updatedAt === now.createdAt : now.version === item.version + 1;
    const mine = first && now.updatedBy === me;
    return { happened: true, unchanged: mine && (await this.#is(now, withChange(seen, item, now))) };
  }

  // Ask the service whether the task has these values already: a PATCH would then change nothing.
  async #is(now, values) {
    const after = await this.#ask("PATCH", `/api/tasks/${now.id}?dryRun=true`, values);
    return after?.version === now.version;
  }

  // Decide what becomes of one refused change.
  #refused(answer, { number, member, message, now, happened, unchanged }, resolve) {
    const [kind, item, seen] = this.waiting.get(number);
    if (happened) {
      // If somebody has changed the task since, what the person did next is a conflict.
      answer.happened(number, now, unchanged ? now.version : (item.version ?? 1));
    } else if (now && kind !== "create") {
      const instead = resolve(kind, item, now, seen);
      if (instead) answer.instead.set(number, { ...instead, id: item.id, version: now.version });
      else answer.dropAll(number, now, message);
    } else if (kind === "update" && member !== "id" && member !== "version") {
      answer.dropOne(number, message);
    } else {
      answer.dropAll(number, now, message); // There is no such task, or it is somebody else's.
    }
  }

  // The service refused a batch without naming a change: send half of it.
  #halve(answer, [[number], ...more], status, { message }) {
    if (![400, 409, 413].includes(status) || (status === 409 && !more.length)) throw Error(message);
    if (more.length) this.#limit = Math.ceil((more.length + 1) / 2);
    else answer.dropAll(number, null, message);
  }

  // Return the response, or null if the service refuses the request.
  async #ask(method, path, document) {
    const { status, result } = await this.#request(method, path, document);
    if (![200, 400, 404, 409].includes(status)) throw Error(result.message);
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

  #apply({ stored, waiting, put, drop = [], set = [], instead = [], batch }) {
    if (waiting) Object.assign(this, { stored, waiting: new Map(waiting) });
    if (put) this.waiting.set(++this.stored, put);
    for (const [number, item] of set) this.waiting.get(number)[1] = item;
    for (const [number, item] of instead) this.waiting.get(number)[3] = item;
    for (const number of drop) this.waiting.delete(number);
    if (batch !== undefined) this.#batch = batch;
  }
}

// What becomes of the changes that wait, after one answer of the service.
class Answer {
  drop = new Set();
  set = new Map();
  instead = new Map();

  constructor(waiting, tell) {
    Object.assign(this, { waiting, tell });
  }

  // The change happened and made a version; the next change of the task is a change of this version.
  // But if another item was sent instead, the person has not seen what it was merged with: the next
  // change stays one of the version that the person saw, and so is a conflict, too.
  happened(number, now, version = now?.version) {
    const [, item, , instead] = this.waiting.get(number);
    this.#end(number, now, null);
    const [next] = this.#following(number);
    if (next) this.#name(next, instead ? item.version : version);
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
    const [kind, item] = this.waiting.get(number);
    this.tell(kind, item, now, problem);
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
