// Creates V8 isolates and contexts in the executor: one isolate for each code, one context for each run, created ahead.
import ivm from 'isolated-vm';
import { readFileSync, readdirSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';

let taken = process.threadCpuUsage();

/** @returns nanoseconds of CPU time that this thread has used since the last call. */
export const takeMainCpuNs = (): bigint => {
  const now = process.threadCpuUsage();
  const micros = now.user + now.system - taken.user - taken.system;
  taken = now;
  return BigInt(Math.round(micros)) * 1000n;
};

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

const bundles = new URL('../../../generated/sandbox/', import.meta.url);
const preludeText = readFileSync(new URL('prelude.js', bundles), 'utf8');

/** Texts by name, read before the executor gives up root and before a tenant's code runs. */
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

/** The one function that the prelude gets: an operation of the host, and its answer. */
export type Host = (op: unknown, args: unknown[]) => string | number | boolean | undefined;

/** Operations that take long run in other threads: the code waits, and the event loop of this process does not. */
export type SlowHost = (operation: string, json: string) => Promise<string | undefined>;

/** A V8 context with the prelude loaded, for one run. */
export type RunContext = {
  context: ivm.Context;
  enter: ivm.Reference<(...args: unknown[]) => undefined>;
  /** The author's file as a function, not called yet. */
  author?: ivm.Reference<unknown>;
  /** Answers the run that has the context; undefined before and after. */
  host: Host | undefined;
  slowHost: SlowHost | undefined;
  slowReference: ivm.Reference<SlowHost>;
};

/** An isolate with one code in it and contexts created ahead. Work in it is done in turn. */
export type IsolateSlot = {
  isolate: ivm.Isolate;
  prelude: ivm.Script;
  script: ivm.Script | undefined;
  spareContexts: RunContext[];
  queue: Promise<unknown>;
  /** The runs in it, which end with it (runs.ts). */
  activeRuns: Set<{ leave(isCulprit: boolean): void }>;
  /** Disposed of after one run. */
  isForOne: boolean;
  isGone: boolean;
  /**
   * Code was stopped in it: what that left in the queue of microtasks would run wherever the isolate is entered next, without
   * a time-out in this thread. No context is made in it any more.
   */
  isTainted: boolean;
};

export type SourcePosition = { line?: number; column?: number };

/** The position in the author's file: from the first frame of a stack, or the end of a syntax error's message. */
export const positionOf = (text: string): SourcePosition => {
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

/** Machine code of the prelude, compiled in this process and never stored: no other machine code is ever loaded. */
let cachedPrelude: ivm.ExternalCopy<ArrayBuffer> | undefined;

/** A file that does nothing, in the place of an author's. */
const NOTHING = `${WRAPPER}module.exports = () => null;\n})`;

/**
 * Takes the prelude's machine code out of a slot in which no tenant's code has run, after a run of our own, which compiles
 * what every run needs. The first context of a new isolate takes half as long with it.
 */
const warmPrelude = async (slot: IsolateSlot): Promise<void> => {
  const runContext = makeRunContext(slot);
  const script = await slot.isolate.compileScript(NOTHING, { filename: AUTHOR_FILE });
  const author = await script.run(runContext.context, { reference: true });
  await runContext.enter.apply(undefined, ['invoke', author.derefInto(), '{}']);
  const known = await slot.isolate.compileScript(preludeText, { ...preludeOptions, produceCachedData: true });
  cachedPrelude = (known as ivm.Script & ivm.CachedDataResult).cachedData;
  for (const handle of [known, author, script, runContext.enter, runContext.slowReference, runContext.context])
    handle.release();
};

const makeSlot = async (memoryMb: number): Promise<IsolateSlot> => {
  const isolate = new ivm.Isolate({
    memoryLimit: memoryMb,
    // The isolate cannot go on, nor be disposed of.
    onCatastrophicError: () => process.exit(CATASTROPHE),
  });
  const options = { ...preludeOptions, ...(cachedPrelude && { cachedData: cachedPrelude }) };
  const slot: IsolateSlot = {
    isolate,
    prelude: await isolate.compileScript(preludeText, options),
    script: undefined,
    spareContexts: [],
    queue: Promise.resolve(),
    activeRuns: new Set(),
    isForOne: false,
    isGone: false,
    isTainted: false,
  };
  if (!cachedPrelude) await warmPrelude(slot);
  return slot;
};

/** Runs work when all earlier work in the slot has ended, so that CPU time can be charged to one run. */
export const inTurn = <T>(slot: IsolateSlot, work: () => Promise<T> | T): Promise<T> => {
  const done = slot.queue.then(work);
  slot.queue = done.catch(() => undefined);
  return done;
};

/**
 * A context with the prelude booted in it. In the slot's turn, and without a hop to another thread for each step: no tenant's
 * code runs yet, and a hop costs as much as the step.
 */
const makeRunContext = (slot: IsolateSlot): RunContext => {
  const context = slot.isolate.createContextSync();
  const boot = slot.prelude.runSync(context, { reference: true }) as ivm.Reference<(...hosts: unknown[]) => unknown>;
  const slowReference = new ivm.Reference<SlowHost>(async (operation, json) =>
    runContext.slowHost?.(String(operation), String(json)),
  );
  const runContext: RunContext = {
    context,
    enter: undefined as never,
    host: undefined,
    slowHost: undefined,
    slowReference,
  };
  const host = new ivm.Callback((op: unknown, ...args: unknown[]) => {
    try {
      return runContext.host?.(op, args);
    } catch {
      // Messages and paths of the executor stay in the executor.
      return undefined;
    }
  });
  runContext.enter = boot.applySync(undefined, [host, slowReference], {
    result: { reference: true },
  }) as RunContext['enter'];
  boot.release();
  // The time belongs to no run.
  takeMainCpuNs();
  return runContext;
};

/** Gives a runContext the author's file as a function, which is not called yet. */
const loadAuthor = (slot: IsolateSlot, runContext: RunContext): void => {
  if (slot.script) runContext.author ??= slot.script.runSync(runContext.context, { reference: true });
};

/** A context for one run, with the author's file in it. In the slot's turn. @throws where the isolate is gone. */
export const takeRunContext = (slot: IsolateSlot): RunContext => {
  const runContext = slot.spareContexts.pop() ?? makeRunContext(slot);
  loadAuthor(slot, runContext);
  return runContext;
};

/** A run's context is never used again; another is made ahead for the next one. */
export const returnRunContext = (slot: IsolateSlot, runContext: RunContext): void => {
  runContext.host = undefined;
  runContext.slowHost = undefined;
  if (slot.isForOne) return closeSlot(slot);
  inTurn(slot, () => {
    if (slot.isGone || slot.isTainted || slot.isolate.isDisposed) return;
    runContext.author?.release();
    runContext.enter.release();
    runContext.slowReference.release();
    runContext.context.release();
    while (slot.spareContexts.length < Math.min(CONTEXTS_AHEAD, slot.activeRuns.size + 1)) {
      const next = makeRunContext(slot);
      loadAuthor(slot, next);
      slot.spareContexts.push(next);
    }
  }).catch(() => undefined);
};

export const closeSlot = (slot: IsolateSlot): void => {
  slot.isGone = true;
  if (!slot.isolate.isDisposed) slot.isolate.dispose();
};

/** Compiles the author's file alone first, so that no `})(` of it closes the wrapper. @throws AuthorFault for what does not compile. */
const compileAuthor = async (slot: IsolateSlot, code: string): Promise<void> => {
  // A hashbang is a comment only at the very start of a file.
  const source = code.replace(/^\uFEFF/, '').replace(/^#!/, '//');
  try {
    await slot.isolate.compileScript(source, { filename: AUTHOR_FILE });
    slot.script = await slot.isolate.compileScript(`${WRAPPER}${source}\n})`, {
      filename: AUTHOR_FILE,
      columnOffset: -WRAPPER.length,
    });
  } catch (error) {
    if (slot.isolate.isDisposed) throw new AuthorFault(faultBody('OUT_OF_MEMORY'));
    const { message } = error as Error;
    const [sentence = ''] = message.split(' [');
    throw new AuthorFault(faultBody('SYNTAX', { message: sentence, ...positionOf(message) }));
  }
};

/** One slot created ahead, for the next code. */
let spare: { memoryMb: number; slot: Promise<IsolateSlot> } | undefined;

/** Makes a slot with a context ahead. @throws where even that does not work. */
export const prepareSlot = async (memoryMb: number): Promise<void> => {
  const slot = makeSlot(memoryMb).then((made) => {
    made.spareContexts.push(makeRunContext(made));
    return made;
  });
  slot.catch(() => undefined);
  spare = { memoryMb, slot };
  await slot;
};

/** A slot with a code in it, in which no other code has run. @throws AuthorFault. */
export const openSlot = async (code: string, memoryMb: number, isForOne: boolean): Promise<IsolateSlot> => {
  const ready = spare?.memoryMb === memoryMb ? spare.slot : undefined;
  spare = undefined;
  const slot = (await ready?.catch(() => undefined)) ?? (await makeSlot(memoryMb));
  slot.isForOne = isForOne;
  setImmediate(() => {
    if (!spare) prepareSlot(memoryMb).catch(() => undefined);
  });
  await compileAuthor(slot, code);
  return slot;
};
