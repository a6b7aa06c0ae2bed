export interface Workspace {
  id: string;
  name: string;
  slug: string;
  plan: string;
}

/** A user of the initial state, with an API token and the value of the cookie `session`. */
export interface User {
  id: string;
  name: string;
  email: string;
  role: string;
  workspace: Workspace;
  token: string;
  cookie: string;
}

export type FaultKind =
  | "500"
  | "503"
  | "429"
  | "drop"
  | "drop-after-commit"
  | "truncated"
  | "garbled"
  | "slow"
  | "latency";

/** Which requests meet a fault: the page docs/testing.md of the service describes each kind. */
export interface FaultOptions {
  times?: number;
  skip?: number;
  /** From 0 to 1: the share of the requests that meet the fault. */
  rate?: number;
  /** Repeats the choices of an earlier run; `control("faults")` names the seed of each fault. */
  seed?: number;
  seconds?: number;
  /** Up to this many seconds are added to `seconds`. */
  jitter?: number;
  method?: string;
  /** The whole path without the query; `*` matches any text. */
  path?: string;
}

/** The running double. It ends with `close()`, or when this process ends, even by SIGKILL. */
export interface Service {
  /** Where your client sends requests: `http://127.0.0.1:…/api`. */
  url: string;
  /** The API token of the owner, as in `user`. */
  token: string;
  cookie: string;
  workspace: Workspace;
  /** The owner of the workspace. */
  user: User;
  member: User;
  /** The owner of another workspace, who must see nothing of this one. */
  stranger: User;
  webhook: { id: string; url: string; secret: string };
  controlUrl: string;
  databaseUrl: string;
  pid: number;
  version: string;
  /** Loads objects such as `{ type: "task", title: "Write" }`, and returns their ids. */
  load(...objects: object[]): Promise<string[]>;
  /** Restores the initial state, or the snapshot of this name. Ids and tokens stay the same. */
  reset(name?: string): Promise<void>;
  /** Keeps the state for `reset(name)`. Without a name, every reset without a name restores it. */
  snapshot(name?: string): Promise<void>;
  /** Lets the next matching requests meet a fault. */
  fault(kind: FaultKind, options?: FaultOptions): Promise<void>;
  /** Returns the time of the service. With an argument, sets the clock first; it continues from there. */
  clock(now?: Date | string): Promise<Date>;
  /** Sends a request to the control URL: POST with a body, GET without one. A text is sent as it is. */
  control<Content = any>(path: string, body?: object | string): Promise<Content>;
  /** Ends the double, and waits until nothing of it is left. */
  close(): Promise<void>;
}

export interface StartOptions {
  /** The command that runs `task-service`: a path, or words as in a shell. */
  command?: string;
  /** The URL of a PostgreSQL server to use instead of the embedded one. */
  database?: string;
  /** Settings of the service. */
  environment?: Record<string, string>;
}

/**
 * Starts the double. Without `command` or the variable TASK_SERVICE_COMMAND, looks for `task-service` in `.venv/bin` of
 * the working directory and on PATH. Without a command, the error names the one that downloads the double with `uvx`.
 */
export function start(options?: StartOptions): Promise<Service>;
