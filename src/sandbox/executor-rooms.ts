// Isolates and contexts, in the executor: each isolate is one code's, contexts are made ahead and serve one run each. Knows
// how code is loaded and nothing of what a run may do.
import { readdirSync, readFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import ivm from 'isolated-vm';
import { takeMainCpuNs } from './executor-clock.ts';

/**
 * What the engine would build into each context, a twentieth of a run's CPU time, and authors do not have: the prelude takes
 * WebAssembly and Atomics away, and the rest is younger than Node 16, whose language they are promised. The names are those of
 * Node 24's engine; on a command line one that another engine does not know would end the process, here it is passed over.
 */
for (const feature of [
  'experimental-wasm-jspi',
  'js-atomics-pause',
  'js-source-phase-imports',
  'js-float16array',
  'js-explicit-resource-management',
])
  setFlagsFromString(`--no-${feature}`);

/** Contexts made ahead for each isolate. */
const CONTEXTS_AHEAD = 2;
/** The author's file, as stacks and syntax errors name it. */
const AUTHOR_FILE = 'formula.js';
/** In front of the author's first line, on the same line: columns of that line are shifted back by its length. */
const WRAPPER = '(function (exports, require, module, __filename, __dirname) { ';
/** How an executor ends when V8 cannot go on: the supervisor knows the number. */
const CATASTROPHE = 70;

const bundles = new URL('../generated/sandbox/', import.meta.url);
const preludeText = readFileSync(new URL('prelude.js', bundles), 'utf8');

/** Texts by name, read while root may read, and before anything foreign runs. */
const textsOf = (folder: string): ReadonlyMap<string, string> =>
  new Map(
    readdirSync(new URL(`${folder}/`, bundles)).map((file) => [
      file.replace(/\.js$/, '').replaceAll('__', '/'),
      readFileSync(new URL(`${folder}/${file}`, bundles), 'utf8'),
    ]),
  );

/** Curated packages. */
export const packageTexts = textsOf('packages');
/** Parts of the prelude that few runs touch. */
export const partTexts = textsOf('parts');

/** What a context asks of the host, and what it gets: the one function that the prelude is given. */
export type Host = (op: unknown, args: unknown[]) => string | number | boolean | undefined;

/** What takes long and is done by other threads: the code waits, and this process's loop does not. */
export type SlowHost = (operation: string, json: string) => Promise<string | undefined>;

/** A context with the prelude booted in it, for one run. */
export type Cell = {
  context: ivm.Context;
  enter: ivm.Reference<(...args: unknown[]) => undefined>;
  /** The author's file as a function, not called yet. */
  author?: ivm.Reference<unknown>;
  /** Whose run it is; without one, nothing is answered. */
  host: Host | undefined;
  slowHost: SlowHost | undefined;
  slowReference: ivm.Reference<SlowHost>;
};

/** An isolate: one code's, with contexts made ahead. What happens in it happens in turn. */
export type Room = {
  isolate: ivm.Isolate;
  prelude: ivm.Script;
  script: ivm.Script | undefined;
  cells: Cell[];
  queue: Promise<unknown>;
  /** The runs in it, which end with it (executor-runs.ts). */
  tenants: Set<{ leave(isCulprit: boolean): void }>;
  /** Gone after its one run. */
  isForOne: boolean;
  isGone: boolean;
  /**
   * Code was stopped in it: what that left in the queue of microtasks would run wherever the isolate is entered next, without
   * a time-out in this thread. No context is made in it any more.
   */
  isSpoilt: boolean;
};

export type Place = { line?: number; column?: number };

/** Where in the author's file: the first frame of a stack, or the end of a syntax error's message. */
export const placeOf = (text: string): Place => {
  const [, line, column] = /formula\.js:(\d{1,7})(?::(\d{1,7}))?/.exec(text) ?? [];
  if (line === undefined) return {};
  return { line: Number(line), ...(column !== undefined && { column: Number(column) }) };
};

export const faultBody = (code: string, more: object = {}): string => JSON.stringify({ code, ...more });

/** The author's code cannot be loaded. `body` is the fault. */
export class AuthorFault extends Error {
  readonly body: string;
  constructor(body: string) {
    super('the code cannot be loaded');
    this.body = body;
  }
}

const preludeOptions = { filename: 'prelude.js' };

/** Machine code of our own prelude, made in this very process and never kept: nobody else's is ever loaded. */
let cachedPrelude: ivm.ExternalCopy<ArrayBuffer> | undefined;

/** A file that does nothing, in the place of an author's. */
const NOTHING = `${WRAPPER}module.exports = () => null;\n})`;

/**
 * Takes the prelude's machine code out of a room where nothing foreign has been, after a run of our own: what every run
 * needs is compiled then, and the engine, asked to compile a text that it knows, gives all that it has of it. The first
 * context of a new isolate takes half as long with it.
 */
const warmPrelude = async (room: Room): Promise<void> => {
  const cell = makeCell(room);
  const script = await room.isolate.compileScript(NOTHING, { filename: AUTHOR_FILE });
  const author = await script.run(cell.context, { reference: true });
  await cell.enter.apply(undefined, ['invoke', author.derefInto(), '{}']);
  const known = await room.isolate.compileScript(preludeText, { ...preludeOptions, produceCachedData: true });
  cachedPrelude = (known as ivm.Script & ivm.CachedDataResult).cachedData;
  for (const handle of [known, author, script, cell.enter, cell.slowReference, cell.context]) handle.release();
};

const makeRoom = async (memoryMb: number): Promise<Room> => {
  const isolate = new ivm.Isolate({
    memoryLimit: memoryMb,
    // The isolate cannot go on, nor be disposed of.
    onCatastrophicError: () => process.exit(CATASTROPHE),
  });
  const options = { ...preludeOptions, ...(cachedPrelude && { cachedData: cachedPrelude }) };
  const room: Room = {
    isolate,
    prelude: await isolate.compileScript(preludeText, options),
    script: undefined,
    cells: [],
    queue: Promise.resolve(),
    tenants: new Set(),
    isForOne: false,
    isGone: false,
    isSpoilt: false,
  };
  if (!cachedPrelude) await warmPrelude(room);
  return room;
};

/** Does work when everything before it in the room has ended, so that the CPU time of each is its own. */
export const inTurn = <T>(room: Room, work: () => Promise<T> | T): Promise<T> => {
  const done = room.queue.then(work);
  room.queue = done.catch(() => undefined);
  return done;
};

/**
 * A context with the prelude booted in it. In the room's turn, and without a hop to another thread for each step: nothing
 * foreign runs yet, and a hop costs as much as the step.
 */
const makeCell = (room: Room): Cell => {
  const context = room.isolate.createContextSync();
  const boot = room.prelude.runSync(context, { reference: true }) as ivm.Reference<(...hosts: unknown[]) => unknown>;
  const slowReference = new ivm.Reference<SlowHost>(async (operation, json) =>
    cell.slowHost?.(String(operation), String(json)),
  );
  const cell: Cell = { context, enter: undefined as never, host: undefined, slowHost: undefined, slowReference };
  const host = new ivm.Callback((op: unknown, ...args: unknown[]) => {
    try {
      return cell.host?.(op, args);
    } catch {
      // Words and paths of this side stay on this side.
      return undefined;
    }
  });
  cell.enter = boot.applySync(undefined, [host, slowReference], { result: { reference: true } }) as Cell['enter'];
  boot.release();
  // Made for no run in particular.
  takeMainCpuNs();
  return cell;
};

/** Gives a cell the author's file as a function, which is not called yet. */
const loadAuthor = (room: Room, cell: Cell): void => {
  if (room.script) cell.author ??= room.script.runSync(cell.context, { reference: true });
};

/** A context for one run, with the author's file in it. In the room's turn. @throws where the isolate is gone. */
export const takeCell = (room: Room): Cell => {
  const cell = room.cells.pop() ?? makeCell(room);
  loadAuthor(room, cell);
  return cell;
};

/** A run's context is never used again; another is made ahead for the next one. */
export const returnCell = (room: Room, cell: Cell): void => {
  cell.host = undefined;
  cell.slowHost = undefined;
  if (room.isForOne) return closeRoom(room);
  inTurn(room, () => {
    if (room.isGone || room.isSpoilt || room.isolate.isDisposed) return;
    cell.author?.release();
    cell.enter.release();
    cell.slowReference.release();
    cell.context.release();
    while (room.cells.length < Math.min(CONTEXTS_AHEAD, room.tenants.size + 1)) {
      const next = makeCell(room);
      loadAuthor(room, next);
      room.cells.push(next);
    }
  }).catch(() => undefined);
};

export const closeRoom = (room: Room): void => {
  room.isGone = true;
  if (!room.isolate.isDisposed) room.isolate.dispose();
};

/** Compiles the author's file alone first, so that no `})(` of it closes the wrapper. @throws AuthorFault for what does not compile. */
const compileAuthor = async (room: Room, code: string): Promise<void> => {
  // A hashbang is a comment only at the very start of a file.
  const source = code.replace(/^\uFEFF/, '').replace(/^#!/, '//');
  try {
    await room.isolate.compileScript(source, { filename: AUTHOR_FILE });
    room.script = await room.isolate.compileScript(`${WRAPPER}${source}\n})`, {
      filename: AUTHOR_FILE,
      columnOffset: -WRAPPER.length,
    });
  } catch (error) {
    if (room.isolate.isDisposed) throw new AuthorFault(faultBody('OUT_OF_MEMORY'));
    const { message } = error as Error;
    const [words = ''] = message.split(' [');
    throw new AuthorFault(faultBody('SYNTAX', { message: words, ...placeOf(message) }));
  }
};

/** One room made ahead, which the next code moves into. */
let spare: { memoryMb: number; room: Promise<Room> } | undefined;

/** Makes a room with a context ahead. @throws where even that does not work. */
export const prepareRoom = async (memoryMb: number): Promise<void> => {
  const room = makeRoom(memoryMb).then((made) => {
    made.cells.push(makeCell(made));
    return made;
  });
  room.catch(() => undefined);
  spare = { memoryMb, room };
  await room;
};

/** A room with code in it, where nothing else has been. @throws AuthorFault. */
export const openRoom = async (code: string, memoryMb: number, isForOne: boolean): Promise<Room> => {
  const ready = spare?.memoryMb === memoryMb ? spare.room : undefined;
  spare = undefined;
  const room = (await ready?.catch(() => undefined)) ?? (await makeRoom(memoryMb));
  room.isForOne = isForOne;
  setImmediate(() => {
    if (!spare) prepareRoom(memoryMb).catch(() => undefined);
  });
  await compileAuthor(room, code);
  return room;
};
