// Starts the Task, Meeting and Workspace service as a test double, and controls it over HTTP.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants, readFileSync, statSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { createInterface } from "node:readline";

const { version } = JSON.parse(readFileSync(new URL("package.json", import.meta.url), "utf8"));

// The double inherits only these variables, because all others, such as PORT and PYTHONPATH, belong to the project
// under test. The second line is for a command with uvx.
const PASSED = ["HOME", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "TMPDIR", "USER", "XDG_CACHE_HOME"];
const PASSED_TO_UVX = /^(UV_.*|XDG_.*|SSL_CERT_.*|https?_proxy|all_proxy|no_proxy)$/i;

// Return whether a path names a file that may be executed. A folder, such as a clone of the service, is no program.
function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

// Return the program that runs the double, and its first arguments.
function find(command) {
  // A shell splits the command into words, unless the command is the path of a program, which may contain spaces.
  if (command) return isProgram(command) ? [resolve(command)] : ["sh", "-c", `exec ${command} "$@"`, "sh"];
  const onPath = (process.env.PATH ?? "").split(delimiter);
  const program = (name, ...folders) => folders.map((folder) => resolve(folder, name)).find(isProgram);
  const service = program("task-service", join(".venv", "bin"), ...onPath);
  if (service) return [service];
  // Nothing is downloaded unless the project says so: whoever owns these names on an index runs code on this machine.
  const uvx = `uvx --from task-meeting-workspace-service==${version} --with task-service-double==${version} task-service`;
  throw new Error(
    "there is no task-service: install task-service-double with pip in .venv, or name the command with" +
      ` start({ command }) or TASK_SERVICE_COMMAND. With uv, the command '${uvx}' downloads it from your package index`,
  );
}

export async function start({ command = process.env.TASK_SERVICE_COMMAND, database, environment } = {}) {
  const [program, ...words] = find(command);
  const passed = Object.entries(process.env).filter(([name]) => PASSED.includes(name) || PASSED_TO_UVX.test(name));
  const options = ["dev", "--json", "--port", "0", ...(database ? ["--database", database] : [])];
  const child = spawn(program, [...words, ...options], {
    env: { ...Object.fromEntries(passed), ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const streams = [child, child.stdout, child.stderr];
  const ended = new Promise((end) => {
    child.once("error", (error) => end(error.message)).once("close", (status) => end(`it ended with status ${status}`));
  });
  let service, log = "";
  child.stderr.setEncoding("utf8");
  child.stderr.on("data", (text) => (service ? process.stderr.write(text) : (log += text)));

  async function close() {
    for (const stream of streams) stream.ref();
    child.kill();
    // The double also ends when nobody reads its stdout, in case another program has started it.
    child.stdout.destroy();
    await ended;
  }

  const line = once(createInterface(child.stdout), "line").then(([line]) => line);
  const first = await Promise.race([line, ended]);
  if (!first.startsWith("{")) {
    await close();
    throw new Error(`${command ?? [program, ...words].join(" ")} did not start the double: ${log.trim() || first}`);
  }
  service = JSON.parse(first);
  // A test that forgets close() may end; the end of its process ends the double.
  for (const stream of streams) stream.unref();

  async function control(path, body) {
    const headers = { "Content-Type": "application/json" };
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const request = body === undefined ? {} : { method: "POST", headers, body: text };
    const response = await fetch(`${service.controlUrl}/${path}`, request);
    const content = await response.json();
    if (!response.ok) throw new Error(`${path}: ${content.message}`);
    return content;
  }

  const { baseUrl: url, ...others } = service;
  return {
    ...others,
    url,
    control,
    close,
    load: async (...objects) => (await control("load", objects.map((object) => JSON.stringify(object)).join("\n"))).ids,
    reset: async (name) => void (await control("reset", { name })),
    snapshot: async (name) => void (await control("snapshot", { name })),
    fault: async (kind, options) => void (await control("faults", { kind, ...options })),
    clock: async (now) => new Date((await control("clock", now && { now })).now),
  };
}
