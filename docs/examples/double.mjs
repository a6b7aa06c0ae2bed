// Starts the test double of docs/double.md, and controls it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export async function start(...options) {
  const child = spawn("task-service", ["dev", "--json", "--port", "0", ...options], { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface(child.stdout);
  const [line] = await Promise.race([once(lines, "line"), once(lines, "close"), once(child, "error")]);
  if (typeof line !== "string") throw line ?? new Error("task-service did not start; stderr says why");
  const service = JSON.parse(line);

  // control("reset", {}) is POST /reset; control("events") is GET /events.
  async function control(path, body) {
    const headers = { "Content-Type": "application/json" };
    const method = body ? "POST" : "GET";
    const response = await fetch(`${service.controlUrl}/${path}`, { method, headers, body: body && JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
    return response.json();
  }
  return { ...service, control, stop: () => child.kill() };
}
