// Stores changes of tasks, and sends them in batches when the service can be reached.
//
// Runs in browsers and in Node 20.16 or later. outbox.d.mts has the types.
const MAX_ITEMS = 100;
const BATCH = "/api/tasks/batch";

// A UUIDv7, because lists are in the order of ids.
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const now = Date.now();
  const view = new DataView(bytes.buffer);
  view.setUint16(0, now / 2 ** 32);
  view.setUint32(2, now % 2 ** 32);
  bytes[6] = (bytes[6] & 0x0f) | 0x70;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

// A storage keeps a list of records, which are values of JSON. load() returns all records, oldest
// first. save(record) adds a record; save(record, count) puts it in place of that many of the oldest
// records. Both may return promises. If several programs share a storage, it also has lock(work,
// signal), which runs the work of one program at a time.

// Stores the records in a file. Only one process at a time may use it.
export function fileStorage(path) {
  const fs = process.getBuiltinModule("node:fs");
  const lines = (records) => records.map((record) => `\n${JSON.stringify(record)}`).join("");

  function load() {
    const written = fs.existsSync(path) ? fs.readFileSync(path, "utf8").split("\n") : [];
    return written.flatMap((line) => {
      try {
        return [JSON.parse(line)];
      } catch {
        return []; // The process was killed while it wrote this line, so nobody relies on it.
      }
    });
  }

  function save(record, count) {
    if (!count) return fs.appendFileSync(path, lines([record]), { flush: true });
    const left = lines([record, ...load().slice(count)]);
    fs.writeFileSync(`${path}.new`, left, { flush: true });
    fs.renameSync(`${path}.new`, path);
  }

  return { load, save };
}

// Stores the records in the browser. All tabs of the origin may use the same name, on https or
// localhost, because elsewhere browsers have no locks. The lock of a tab ends when the tab is closed.
// Choose another name for each user, so that nobody sends what somebody else has changed.
export function indexedDbStorage(name) {
  const database = new Promise((done, failed) => {
    const opening = indexedDB.open(name);
    opening.onupgradeneeded = () =>
      opening.result.createObjectStore("records", { autoIncrement: true });
    opening.onsuccess = () => done(opening.result);
    opening.onerror = () => failed(opening.error);
  });

  async function transact(mode, act) {
    const transaction = (await database).transaction("records", mode, { durability: "strict" });
    const request = act(transaction.objectStore("records"));
    return new Promise((done, failed) => {
      transaction.oncomplete = () => done(request.result);
      transaction.onabort = () => failed(transaction.error);
    });
  }

  return {
    load: () => transact("readonly", (records) => records.getAll()),
    save: (record, count) =>
      transact("readwrite", (records) => {
        if (!count) return records.add(record);
        const keys = records.getAllKeys(null, count);
        keys.onsuccess = () => {
          const last = keys.result.at(-1);
          records.delete(IDBKeyRange.upperBound(last));
          // Another tab may have added records meanwhile; this record stays before them.
          records.put(record, last);
        };
        return keys;
      }),
    lock: (work, signal) => navigator.locks.request(`outbox ${name}`, { signal }, work),
  };
}

// Return a function that begins each work once the work before it has ended.
function inTurn() {
  let last = Promise.resolve();
  return (work) => {
    const done = last.then(work);
    last = done.catch(() => {});
    return done;
  };
}

function pause(seconds, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, 1000 * seconds);
    signal.onabort = () => {
      clearTimeout(timer);
      done();
    };
  });
}

// The item of a change as the service gets it. If the person's own changes, and no other, have made
// newer versions of the version that the person saw, the item has the newest of them.
function itemToSend([kind, item, , instead], made) {
  if (instead || kind === "create" || item.version === undefined) return instead ?? item;
  const versions = made.get(item.id) ?? [];
  // The person saw no version if the task was not created yet; its first version is 1.
  const version = versions.includes(item.version) ? versions.at(-1) : item.version || 1;
  return { ...item, version };
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
  // task as the person saw it, item to send instead]. Both are as load() or a later put left them.
  stored = 0;
  waiting = new Map();
  // By the id of a task, versions that the person's own changes have made one after the other, after
  // the version that the first of them was made on. The version 0 stands for a task not yet created.
  #made = new Map();
  // The batch that may have been sent: its key, and how many of the oldest changes it has.
  #batch = null;
  #limit = MAX_ITEMS;
  // How many records were read, and whether versions were added that they lack.
  #records = 0;
  #completed = false;
  // Only one work at a time reads the storage, and then changes it.
  #alone = inTurn();
  #stopping = new AbortController();
  #sending = Promise.resolve();

  // token() returns the token for one attempt, or a promise of it. A failed attempt is repeated after
  // "pause" seconds.
  constructor(storage, { url, token, pause = 60 }) {
    Object.assign(this, { storage, url: new URL(url).href.replace(/\/$/, ""), token, pause });
    this.lock = storage.lock?.bind(storage) ?? inTurn();
  }

  // Read what is stored: once before the first put, and again to see what other tabs have put and
  // sent.
  load() {
    return this.#alone(() => this.#read());
  }

  // Store a change: "create", "update" or "delete", and the item of a batch. The item has the version
  // that the person saw; none if the task is not created yet. Also give the task as the person saw
  // it, with the changes that still waited then: resolve gets it, and without it, two devices of one
  // person that make the same change are not told apart.
  async put(kind, item, seen = null) {
    const change = [kind, item, seen];
    if (kind !== "create") {
      // What the person saw has the changes that wait, so it is no newer than they are.
      const last = [...this.waiting.values()].findLast(([, earlier]) => earlier.id === item.id);
      const version = last?.[0] === "create" ? 0 : (last?.[1].version ?? item.version ?? 0);
      change[1] = { ...item, version };
    }
    await this.#alone(async () => {
      await this.storage.save({ put: change });
      this.#apply({ put: change });
    });
  }

  // Send what waits, oldest first, until nothing waits. A send begins once the one before it has
  // ended, even that of another tab.
  //
  // After each change, tell(kind, item, task as it is now or null, problem or null) is called, once
  // more if the process is killed meanwhile. If somebody else has changed the task, resolve(kind,
  // item, task as it is now, task as the person saw it) returns the item to send instead, or null to
  // drop the change with all that follow it. It is called for each change that the person made on an
  // older version: again for the next one, which was not made on what it returned for this one.
  // Throws if nothing can be sent now: sign in again, for example.
  async send(tell, resolve = () => null) {
    const { signal } = this.#stopping;
    const sent = this.lock(() => this.#sendAll(tell, resolve, signal), signal);
    this.#sending = Promise.allSettled([this.#sending, sent]);
    try {
      await sent;
    } catch (problem) {
      if (problem !== signal.reason) throw problem;
    }
  }

  // End each send, and return once nothing is being sent. What waits stays stored for another send.
  async stop() {
    this.#stopping.abort();
    this.#stopping = new AbortController();
    await this.#sending;
  }

  async #sendAll(tell, resolve, signal) {
    while (!signal.aborted) {
      const sent = await this.#alone(() => this.#begin());
      if (!sent.length) return;
      const body = { create: [], update: [], delete: [] };
      const places = new Map(
        sent.map(([number, change]) => {
          const items = body[change[0]];
          return [`${change[0]}[${items.push(itemToSend(change, this.#made)) - 1}]`, number];
        }),
      );
      const { status, result } = await this.#request(signal, "POST", BATCH, body, this.#batch.key);
      const done = status === 200;
      const refusals = done ? [] : await this.#refusals(signal, places, result.errors ?? []);
      await this.#alone(async () => {
        await this.#read();
        // Until the answer is applied, nothing is awaited, so the app never sees a part of it.
        const answer = new Answer(this.waiting, this.#made, tell);
        if (done) {
          const tasks = { create: result.created, update: result.updated, delete: [] };
          for (const [number, [kind]] of sent) answer.happened(number, tasks[kind].shift() ?? null);
          this.#limit = Math.min(MAX_ITEMS, this.#limit * 2);
        } else {
          for (const refusal of refusals) this.#refused(answer, refusal, resolve);
          if (!refusals.length) this.#halve(answer, sent, status, result);
        }
        const { drop, instead, made } = answer;
        const record = { drop: [...drop], instead: [...instead], made: [...made], batch: null };
        this.#apply(record);
        await this.storage.save(record);
      });
    }
  }

  // Return the changes of the next batch; store its key first.
  async #begin() {
    await this.#read();
    if (this.#completed || this.#records > 2 * this.waiting.size + MAX_ITEMS) {
      await this.storage.save(this.#summary(), this.#records);
    }
    if (this.waiting.size && !this.#batch) {
      const record = { batch: { key: newId(), count: this.#count() } };
      await this.storage.save(record);
      this.#apply(record);
    }
    return [...this.waiting].slice(0, this.#batch?.count ?? 0);
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
  async #refusals(signal, places, errors) {
    const refusals = new Map();
    for (const { field, message, current } of errors) {
      const [, place, member] = /^(\w+\[\d+\])\.?(\w*)/.exec(field) ?? [];
      const number = places.get(place);
      if (number === undefined || refusals.has(number)) continue;
      const [kind, , seen] = this.waiting.get(number);
      const item = itemToSend(this.waiting.get(number), this.#made);
      const exists = member === "version" || (member === "id" && kind === "create");
      const path = `/api/tasks/${item.id}`;
      const now = current ?? (exists ? await this.#ask(signal, "GET", path) : null);
      const earlier = await this.#earlier(signal, kind, item, now, seen);
      refusals.set(number, { number, member, message, now, ...earlier });
    }
    return [...refusals.values()];
  }

  // Find out whether a refused change happened in an earlier attempt, whose response was lost, and
  // whose key the service has forgotten; and whether the task has not been changed since then.
  async #earlier(signal, kind, item, now, seen) {
    if (kind === "delete" || !now) return { happened: kind === "delete" && !now };
    const created = kind === "create";
    if (!created && !(await this.#is(signal, now, item))) return { happened: false };
    const me = (await this.#ask(signal, "GET", "/api/me")).user.id;
    if (created && now.createdBy !== me) return { happened: false };
    // Somebody else, or the person's other device, may have made this change with another one.
    const first = created ? now.updatedAt === now.createdAt : now.version === item.version + 1;
    const mine = first && now.updatedBy === me;
    const values = withChange(seen, item, now);
    return { happened: true, unchanged: mine && (await this.#is(signal, now, values)) };
  }

  // Ask the service whether the task has these values already: a PATCH would then change nothing.
  async #is(signal, now, values) {
    const path = `/api/tasks/${now.id}?dryRun=true`;
    const after = await this.#ask(signal, "PATCH", path, values);
    return after?.version === now.version;
  }

  // Decide what becomes of one refused change.
  #refused(answer, { number, member, message, now, happened, unchanged }, resolve) {
    const [kind, item, seen] = this.waiting.get(number);
    if (happened) {
      // If somebody has changed the task since, what the person did next is a conflict.
      answer.happened(number, now, unchanged);
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
  async #ask(signal, method, path, document) {
    const { status, result } = await this.#request(signal, method, path, document);
    if (![200, 400, 404, 409].includes(status)) throw Error(result.message);
    return status === 200 ? result : null;
  }

  // Repeat a request until the service answers.
  async #request(signal, method, path, document, key) {
    const body = document && JSON.stringify(document);
    for (;;) {
      const headers = { "Content-Type": "application/json" };
      headers.Authorization = `Bearer ${await this.token()}`;
      if (key) headers["Idempotency-Key"] = key;
      signal.throwIfAborted();
      const attempt = new AbortController();
      const timer = setTimeout(() => attempt.abort(), 60_000);
      signal.onabort = () => attempt.abort();
      try {
        const options = { method, headers, body, signal: attempt.signal };
        const response = await fetch(this.url + path, options);
        const { status } = response;
        const result = await response.json();
        if (status < 500 && status !== 408 && status !== 429) return { status, result };
      } catch {
        // The response was lost, or is not JSON: a proxy answered with its own page, for example.
      } finally {
        clearTimeout(timer);
      }
      signal.throwIfAborted();
      await pause(this.pause, signal);
    }
  }

  async #read() {
    const records = await this.storage.load();
    this.#records = records.length;
    this.#apply({ stored: 0, waiting: [], batch: null });
    for (const record of records) this.#apply(record);
    // Earlier versions of this program stored no version if an earlier change of the task waited.
    this.#completed = false;
    const versions = new Map();
    for (const [kind, item] of this.waiting.values()) {
      if (kind !== "create" && item.version === undefined && versions.has(item.id)) {
        item.version = versions.get(item.id);
        this.#completed = true;
      }
      versions.set(item.id, kind === "create" ? 0 : (item.version ?? 0));
    }
  }

  // A record that stands for all that were read.
  #summary() {
    const waiting = new Set([...this.waiting.values()].map(([, item]) => item.id));
    const oldest = this.#made.size - 1000;
    const made = [...this.#made].filter(([id], place) => place >= oldest || waiting.has(id));
    return { stored: this.stored, waiting: [...this.waiting], made, batch: this.#batch };
  }

  #apply({ stored, waiting, put, drop = [], set = [], instead = [], made = [], batch }) {
    if (waiting) {
      Object.assign(this, { stored, waiting: new Map(waiting) });
      this.#made = new Map();
    }
    if (put) this.waiting.set(++this.stored, put);
    for (const [number, item] of set) this.waiting.get(number)[1] = item;
    for (const [number, item] of instead) this.waiting.get(number)[3] = item;
    for (const number of drop) this.waiting.delete(number);
    for (const [id, versions] of made) {
      this.#made.delete(id); // The newest come last.
      this.#made.set(id, versions);
    }
    if (batch !== undefined) this.#batch = batch;
  }
}

// What becomes of the changes that wait, after one answer of the service.
class Answer {
  drop = new Set();
  instead = new Map();
  made = new Map();

  constructor(waiting, versions, tell) {
    Object.assign(this, { waiting, versions, tell });
  }

  // The change happened. If the task has not been changed since then, what the person did next is a
  // change of the version that this one made. But if another item was sent instead, the person has
  // not seen what it was merged with: what follows stays a change of the version that the person
  // saw, and so is a conflict, too.
  happened(number, now, unchanged = true) {
    const change = this.waiting.get(number);
    const [kind, item, , instead] = change;
    if (now && unchanged && !instead) {
      const from = kind === "create" ? 0 : itemToSend(change, this.versions).version;
      const earlier = this.versions.get(item.id) ?? [];
      const made = earlier.at(-1) === from ? earlier : [from];
      this.made.set(item.id, [...made, now.version]);
    }
    this.#end(number, now, null);
  }

  // Drop a change whose values the service refuses.
  dropOne(number, problem) {
    this.#end(number, null, problem);
  }

  // Drop a change with all that follow it.
  dropAll(number, now, problem) {
    const { id } = this.waiting.get(number)[1];
    for (const [other, [, item]] of [...this.waiting]) {
      if (other >= number && item.id === id) this.#end(other, now, problem);
    }
  }

  #end(number, now, problem) {
    this.drop.add(number);
    const [kind, item] = this.waiting.get(number);
    this.tell(kind, item, now, problem);
  }
}
