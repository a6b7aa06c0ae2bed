import { randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";

export class Tasks {
  constructor(baseUrl, token) {
    Object.assign(this, { baseUrl, token });
  }

  add(title) {
    return this.send("POST", "/tasks", { title }, { "Idempotency-Key": randomUUID() });
  }

  async *all() {
    for (let cursor = ""; cursor !== null; ) {
      const page = await this.send("GET", `/tasks?limit=200${cursor && `&cursor=${cursor}`}`);
      yield* page.data;
      cursor = page.nextCursor;
    }
  }

  async send(method, path, document, headers = {}) {
    headers = { Authorization: `Bearer ${this.token}`, "Content-Type": "application/json", ...headers };
    const request = { method, headers, body: document && JSON.stringify(document) };
    for (let attempt = 1; ; attempt++) {
      const response = await fetch(this.baseUrl + path, request).catch((error) => error);
      if (response.ok) return response.json();
      const passes = response instanceof Error || [429, 503].includes(response.status);
      if (!passes || attempt === 5) throw response.status ? Error((await response.json()).message) : response;
      // The response of a proxy may have a date as Retry-After, or nothing.
      const seconds = Number(response.headers?.get("Retry-After")) || attempt - 1;
      await setTimeout(1000 * seconds);
    }
  }
}
