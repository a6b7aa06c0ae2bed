// The package starts the double, controls it, and leaves nothing behind. In the working directory, or on PATH, there is
// a task-service.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { start } from "task-service-double";

const folder = mkdtempSync(join(tmpdir(), "double of "));
after(() => rmSync(folder, { recursive: true }));
const PATH = `${resolve(".venv", "bin")}${delimiter}${process.env.PATH}`;
// Import the package by its path, because the programs below run elsewhere.
const packaged = JSON.stringify(import.meta.resolve("task-service-double"));

// Run a program in a new process that imports the package, and return the process.
function run(text, cwd, variables) {
  const program = `import { start } from ${packaged}; ${text}`;
  return spawn(process.execPath, ["--input-type=module", "-e", program], {
    cwd,
    env: { PATH, HOME: process.env.HOME, ...variables },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

async function until(condition) {
  const deadline = Date.now() + 30_000;
  while (!condition()) {
    assert.ok(Date.now() < deadline, "30 seconds have passed");
    await setTimeout(20);
  }
}

function runs(pid) {
  try {
    // A zombie has ended: a container may have nobody who reaps it.
    if (/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, "utf8"))) return false;
  } catch {
    // This process has ended, or the system has no /proc.
  }
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

function get(service, path) {
  return fetch(service.url + path, { headers: { Authorization: `Bearer ${service.token}` } });
}

test("a test controls the service", async () => {
  const service = await start();
  try {
    const ids = await service.load({ type: "task", title: "Write\nthe report" }, { type: "task", title: "Read it" });
    await service.control("load", '{"type": "task", "title": "One"}\n{"type": "task", "title": "Two"}\n');
    assert.deepEqual(
      (await (await get(service, "/tasks")).json()).data.map((task) => task.title).sort(),
      ["One", "Read it", "Two", "Write\nthe report"],
    );
    assert.equal((await (await get(service, `/tasks/${ids[1]}`)).json()).title, "Read it");
    await service.reset();
    assert.deepEqual((await (await get(service, "/tasks")).json()).data, []);
    await service.fault("503", { path: "/api/tasks", seconds: 7 });
    const refused = await get(service, "/tasks");
    assert.deepEqual([refused.status, refused.headers.get("Retry-After")], [503, "7"]);
    await service.fault("503", { rate: 1, seed: 7 });
    assert.deepEqual([(await get(service, "/tasks")).status, (await get(service, "/tasks")).status], [503, 503]);
    assert.deepEqual((await service.control("faults")).data.map(({ rate, seed }) => [rate, seed]), [[1, 7]]);
    await service.reset();
    await service.load({ type: "task", title: "Kept" });
    await service.snapshot("kept");
    await service.reset();
    assert.deepEqual((await (await get(service, "/tasks")).json()).data, []);
    await service.reset("kept");
    assert.deepEqual((await (await get(service, "/tasks")).json()).data.map((task) => task.title), ["Kept"]);
    await assert.rejects(service.reset("lost"), /^Error: reset: name: there is no snapshot 'lost'; there are: kept$/);
    const later = new Date((await service.clock()).getTime() + 86_400_000);
    assert.ok((await service.clock(later)) >= later);
    assert.ok((await service.clock()) >= later);
    await assert.rejects(service.fault("fire"), /^Error: faults: kind: must be one of/);
  } finally {
    await service.close();
  }
  assert.ok(!runs(service.pid));
  await service.close();
});

for (const [end, program] of [
  ["sigkill", "setInterval(() => {}, 1000);"],
  ["the end of a program that forgets close()", ""],
]) {
  test(`${end} ends the double, and variables and packages of the project do not disturb it`, async () => {
    const project = join(folder, end);
    mkdirSync(join(project, "service"), { recursive: true });
    writeFileSync(join(project, "service", "__init__.py"), "raise ImportError('of the project')");
    const text = `const service = await start(); console.log(service.pid, (await fetch(service.url + "/tasks")).status); ${program}`;
    const child = run(text, project, { PYTHONPATH: ".", PORT: "theirs", PGHOST: "theirs", MAX_BODY: "theirs" });
    child.stderr.pipe(process.stderr);
    const [line] = await Promise.race([once(createInterface(child.stdout), "line"), once(child, "close")]);
    const [pid, status] = String(line).split(" ");
    assert.equal(status, "401");
    if (end === "sigkill") child.kill("SIGKILL");
    await once(child, "exit");
    await until(() => !runs(pid));
  });
}

// Write a program that prints to stderr who it is and its arguments, and ends.
function fake(name, ...path) {
  const program = join(folder, ...path);
  mkdirSync(dirname(program), { recursive: true });
  writeFileSync(program, `#!/bin/sh\necho "${name}:" "$@" >&2\nexit 3\n`);
  chmodSync(program, 0o755);
  return program;
}

// Return the message of the error with which start() fails.
async function failure(cwd, options = {}, variables = {}) {
  const text = `await start(${JSON.stringify(options)}).catch((error) => console.log(error.message))`;
  const child = run(text, cwd, { PATH: "/usr/bin:/bin", ...variables });
  let printed = "";
  child.stdout.on("data", (data) => (printed += data));
  child.stderr.on("data", (data) => (printed += data));
  await once(child, "close");
  return printed.trim();
}

test("start() finds the command in the option, the variable, .venv and PATH, in this order", async () => {
  const told = fake("option", "my tools", "task-service");
  fake("venv", "project", ".venv", "bin", "task-service");
  fake("path", "bin", "task-service");
  const [project, PATH] = [join(folder, "project"), `${join(folder, "bin")}${delimiter}/usr/bin${delimiter}/bin`];
  const variables = { TASK_SERVICE_COMMAND: "sh -c 'echo variable: $* >&2' sh", PATH };
  assert.match(await failure(project, { command: told }, variables), /option: dev --json --port 0$/);
  assert.match(await failure(project, {}, variables), /variable: dev --json --port 0$/);
  assert.match(await failure(project, {}, { PATH }), /venv: dev --json --port 0$/);
  assert.match(await failure(folder, { database: "postgresql://db" }, { PATH }), /path: .* --database postgresql:\/\/db$/);
});

test("start() downloads nothing by itself, even with uvx on PATH: the error names the command that does", async () => {
  fake("uvx", "uv", "uvx");
  const PATH = `${join(folder, "uv")}${delimiter}/usr/bin${delimiter}/bin`;
  const told = await failure(folder, {}, { PATH });
  assert.match(told, /^there is no task-service: /);
  const [, command] = told.match(/With uv, the command '(uvx [^']+)' downloads it from your package index$/);
  assert.match(
    await failure(folder, {}, { PATH, TASK_SERVICE_COMMAND: command }),
    /uvx: --from task-meeting-workspace-service==([\d.]+) --with task-service-double==\1 task-service dev --json --port 0$/,
  );
});

test("a folder or a text file with the name of the program is not taken for it", async () => {
  const clone = join(folder, "with a clone");
  mkdirSync(join(clone, "task-service"), { recursive: true });
  mkdirSync(join(clone, ".venv", "bin", "task-service"), { recursive: true });
  const other = join(folder, "other");
  mkdirSync(other);
  writeFileSync(join(other, "task-service"), "a text");
  fake("program", "programs", "task-service");
  const PATH = ["", other, join(folder, "programs"), "/usr/bin", "/bin"].join(delimiter);
  assert.match(await failure(clone, {}, { PATH }), /program: dev --json --port 0$/);
  for (const [options, variables] of [
    [{ command: "task-service" }, {}],
    [{}, { TASK_SERVICE_COMMAND: "task-service" }],
  ]) {
    const withoutEmpty = PATH.slice(delimiter.length);
    assert.match(await failure(clone, options, { PATH: withoutEmpty, ...variables }), /program: dev --json --port 0$/);
  }
});

test("without a command that starts the double, the error says what to do", async () => {
  const PATH = "/usr/bin:/bin";
  assert.match(await failure(folder, {}, { PATH }), /^there is no task-service: install task-service-double with pip in .venv/);
  assert.match(await failure(folder, { command: "/nowhere/of" }, { PATH }), /\/nowhere\/of.* did not start the double: /);
  assert.match(await failure(folder, { command: "echo hello; false" }, { PATH }), /did not start the double: hello/);
  assert.match(await failure(folder, { command: "false" }, { PATH }), /did not start the double: it ended with status 1$/);
});
