/** A UUIDv7. */
export function newId(): string;

/** A list of records, which are values of JSON. */
export interface OutboxStorage {
  /** Return all records, oldest first. */
  load(): unknown[] | Promise<unknown[]>;
  /** Add a record; with a count, put it in place of that many of the oldest records. */
  save(record: unknown, count?: number): void | Promise<unknown>;
  /** Run the work of one program at a time, if several share the storage. */
  lock?<Result>(work: () => Promise<Result>, signal: AbortSignal): Promise<Result>;
}

/** For Node: one process at a time may use the file. */
export function fileStorage(path: string): OutboxStorage;

/** For browsers, on https or localhost: all tabs of the origin may use the same name. */
export function indexedDbStorage(name: string): OutboxStorage;

export type Kind = "create" | "update" | "delete";

/** An item of `create`, `update` or `delete` in POST /api/tasks/batch. */
export interface Item {
  id: string;
  version?: number | undefined;
  [field: string]: unknown;
}

/** A task as the service returns it; a generated client has a type with all fields. */
export interface AnyTask {
  id: string;
  version: number;
  [field: string]: unknown;
}

export interface Options {
  /** The service, without `/api`. */
  url: string;
  /** Called for each attempt, so that an attempt after a pause has a new token. */
  token: () => string | Promise<string>;
  /** Seconds from a failed attempt to the next one; 60 by default. */
  pause?: number;
}

export class Outbox<Task extends { id: string; version: number } = AnyTask> {
  constructor(storage: OutboxStorage, options: Options);

  /** How many changes were ever put. */
  readonly stored: number;

  /** The changes that still wait, oldest first, by number. */
  readonly waiting: ReadonlyMap<number, readonly [Kind, Item, Partial<Task> | null, Item?]>;

  /** Read what is stored, once before the first put; again to see what other tabs have done. */
  load(): Promise<void>;

  /** Return once the change is stored. The item has the version that the person saw. */
  put(kind: Kind, item: Item, seen?: Partial<Task> | null): Promise<void>;

  /**
   * Send what waits, oldest first, until nothing waits or `stop` is called.
   *
   * `tell` learns what became of each change: the task as it is now, if there is one, and the
   * problem, if there was one. `resolve` merges a change with what somebody else has written: it
   * returns the item to send instead, or null to drop the change with all that follow it.
   */
  send(
    tell: (kind: Kind, item: Item, now: Task | null, problem: string | null) => void,
    resolve?: (kind: Kind, item: Item, now: Task, seen: Partial<Task> | null) => object | null,
  ): Promise<void>;

  /** Return once nothing is being sent. What waits stays stored. */
  stop(): Promise<void>;
}
