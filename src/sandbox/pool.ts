// The executors there are: started behind the best wall that stands, one always ready, each leased to one tenant for life, and
// ended when it has grown, served long or burns for nothing. Knows nothing of what is run in them.
import { type Ending, type Executor, ExecutorStartError, startExecutor } from './executor-process.ts';
import type { Frame } from './frames.ts';
import type { Wall, WallKind } from './sandbox.ts';
import { causeOf, findLandlock, nameOfWall, THREADS_MAX, wallKinds, WallMissing } from './wall.ts';

export type DeathReason = 'deadline' | 'cpu' | 'memory' | 'stuck' | 'busy_after_reply' | 'violation';

export type Lease<Run> = {
  readonly executor: Executor;
  /** Set once; undefined for the spare. */
  tenant_id: string | undefined;
  /** What runs in it, by the ids of its frames. */
  readonly works: Map<number, Run>;
  /** Keys of loaded code, the least lately used first. */
  readonly loaded: Set<string>;
  /** Runs of its life so far. */
  runs: number;
  /** CPU time of the process when it was last at rest, and what its runs may take since then. */
  cpuAtRestMs: number;
  cpuAllowedMs: number;
  /** Since when the system does not tell its memory. */
  hiddenSince: number | undefined;
  readonly baselineMb: number;
  idleSince: number;
  /** A look at it is coming that `rest` asked for. */
  isLookComing: boolean;
  /** Takes nothing more, and ends with its last run. */
  isRetired: boolean;
  /** Why we ended it; undefined where it ended by itself, or had served its time. */
  death: DeathReason | undefined;
};

export type PoolEvent =
  /** No wall stands, and why. */
  { event: 'no_wall'; wall: Wall } | { event: 'started'; wall: Wall } | { event: 'start_failed'; reason: string };

export type PoolOptions<Run> = {
  wallKind: WallKind | 'auto';
  memoryMb: number;
  executorsMax: number;
  executorPath?: string | undefined;
  report(event: PoolEvent): void;
  received(lease: Lease<Run>, frame: Frame): void;
  broken(lease: Lease<Run>, error: Error): void;
  ended(lease: Lease<Run>, ending: Ending): void;
  /** There is an executor more, or room for one: who waits may look again. */
  changed(): void;
};

/** Half of the pool at most: no tenant fills it. */
export const shareOf = (executorsMax: number): number => Math.max(1, Math.floor(executorsMax / 2));
/** Runs in one executor before another is asked for, and before a further one must wait. Waiting for a fetch costs next to nothing. */
const RUNS_TO_SPREAD = 8;
const RUNS_AT_ONCE_MAX = 32;
/** An executor is replaced after so many runs, or when it has grown by so much since its start, between runs. */
const RUNS_OF_A_LIFE = 5000;
const GROWTH_MB_MAX = 100;
/**
 * An executor that takes so much CPU time beyond what its runs may take, as the system counts it, is killed. The executor
 * itself ends a run at its limit; this is for what it does not see, such as threads of V8 and code that broke out.
 */
const CPU_BEYOND_MS = 250;
/** What a run costs beside what it is charged for: contexts made ahead, collectors, compilers. Measured: 1 to 3 ms. */
const RUN_OVERHEAD_MS = 10;
/** The same with an isolate of its own, or code that is new there. */
const ISOLATE_OVERHEAD_MS = 50;
/** The end of a process takes a few milliseconds. */
const HIDDEN_MS_MAX = 1000;
/** What an executor may use between runs. */
const REST_CPU_MS_MAX = 300;
/** Memory and CPU time are looked at so often while something runs. */
const WATCH_MS = 25;
/** And so often between runs, when an honest one does not grow. */
const INSPECT_MS = 100;
/** An executor is killed above so much: its isolate's limit, with Node and a few other isolates beside it. */
const MEMORY_MB_LEAST = 300;
const BESIDE_ISOLATE_MB = 172;
/** An executor whose tenant asks nothing of it goes. */
const IDLE_MS_MAX = 5 * 60_000;
/** CPU time that an executor without a run may use between two looks, for what it makes ahead. */
const IDLE_CPU_MS = 60;
const IDLE_LOOK_MS = 100;
/** Whether it burns on is looked at this much after a rest began, when the answer of its last run is on its way. */
const REST_LOOK_MS = 10;
/** Pause before an executor is started again after one that did not come up. */
const START_PAUSE_MS = 500;

export type Pool<Run> = {
  readonly wall: Wall | undefined;
  readonly leases: ReadonlySet<Lease<Run>>;
  /** Finds the wall that stands, and starts the first executor behind it. @throws ExecutorStartError. */
  start(): Promise<void>;
  /** The executor for a tenant's run, its own for life; undefined where the run must wait. */
  find(tenant_id: string, key: string): Lease<Run> | undefined;
  /** A lease has no run any more. */
  rest(lease: Lease<Run>): void;
  /** A run begins that may take so much CPU time. Before it joins the works. */
  begin(lease: Lease<Run>, cpuMs: number, hasNewIsolate: boolean): void;
  /** After work was given out: keeps one executor ready, and watches those that work. */
  tend(): void;
  end(lease: Lease<Run>, death: DeathReason | undefined): void;
  close(): Promise<void>;
};

export const createPool = <Run>(options: PoolOptions<Run>): Pool<Run> => {
  const { executorsMax, report } = options;
  const leases = new Set<Lease<Run>>();
  const starts = new Set<Promise<void>>();
  let pauseUntil = 0;
  let isClosed = false;
  let wall: Wall | undefined;
  let landlock: number | string = 'not looked for yet';
  let firstStart: Promise<void> | undefined;
  let watcher: NodeJS.Timeout | undefined;

  const open = async (kind: WallKind): Promise<Lease<Run>> => {
    let lease: Lease<Run> | undefined;
    const executor = await startExecutor({
      wallKind: kind,
      landlock,
      executorPath: options.executorPath,
      memoryMb: options.memoryMb,
      received: (frame) => lease && options.received(lease, frame),
      broken: (error) => lease && options.broken(lease, error),
    });
    const opened: Lease<Run> = {
      executor,
      tenant_id: undefined,
      works: new Map(),
      loaded: new Set(),
      runs: 0,
      cpuAtRestMs: 0,
      cpuAllowedMs: 0,
      hiddenSince: undefined,
      baselineMb: executor.size()?.memoryMb ?? 0,
      idleSince: performance.now(),
      isLookComing: false,
      isRetired: false,
      death: undefined,
    };
    lease = opened;
    void executor.ended.then((ending) => {
      leases.delete(opened);
      options.ended(opened, ending);
      options.changed();
    });
    return opened;
  };

  const startFirst = async (): Promise<void> => {
    landlock = await findLandlock();
    const causes: string[] = [];
    for (const kind of options.wallKind === 'auto' ? wallKinds : [options.wallKind]) {
      try {
        leases.add(await open(kind));
        if (isClosed) break;
        wall = { kind, name: nameOfWall(kind, landlock), causes };
        report({ event: kind === 'none' ? 'no_wall' : 'started', wall });
        return;
      } catch (error) {
        if (error instanceof WallMissing) causes.push(error.message);
        else if (error instanceof ExecutorStartError) causes.push(causeOf(kind, error.message));
        else throw error;
      }
    }
    firstStart = undefined;
    throw new ExecutorStartError(isClosed ? 'closed' : causes.join('\n'));
  };

  const startAnother = (): void => {
    if (isClosed || !wall || leases.size + starts.size >= executorsMax || performance.now() < pauseUntil) return;
    const start = open(wall.kind).then(
      (lease) => {
        leases.add(lease);
        if (isClosed) lease.executor.kill();
      },
      (error: Error) => {
        pauseUntil = performance.now() + START_PAUSE_MS;
        setTimeout(options.changed, START_PAUSE_MS + 1).unref();
        report({ event: 'start_failed', reason: error.message });
      },
    );
    starts.add(start);
    void start.finally(() => {
      starts.delete(start);
      options.changed();
    });
  };

  const end = (lease: Lease<Run>, death: DeathReason | undefined): void => {
    lease.isRetired = true;
    lease.death ??= death;
    lease.executor.kill();
  };

  /** In a full pool the executor that has been idle longest gives way. It is never handed on: another takes its place. */
  const makeRoomFor = (tenant_id: string): void => {
    if (starts.size > 0) return;
    if (leases.size < executorsMax) return startAnother();
    const [idle] = [...leases]
      .filter((lease) => lease.works.size === 0 && lease.tenant_id !== tenant_id && !lease.isRetired)
      .toSorted((a, b) => a.idleSince - b.idleSince);
    if (idle) end(idle, undefined);
  };

  const find = (tenant_id: string, key: string): Lease<Run> | undefined => {
    const all = [...leases].filter((lease) => lease.tenant_id === tenant_id);
    const own = all.filter(({ isRetired }) => !isRetired).toSorted((a, b) => a.works.size - b.works.size);
    const easy = own.filter(({ works }) => works.size < RUNS_TO_SPREAD);
    const found = easy.find(({ loaded }) => loaded.has(key)) ?? easy[0];
    if (found) return found;
    // What is retired still stands: it counts until it is gone.
    if (all.length < shareOf(executorsMax)) {
      const spare = [...leases].find((lease) => lease.tenant_id === undefined && !lease.isRetired);
      if (spare) {
        spare.tenant_id = tenant_id;
        return spare;
      }
      makeRoomFor(tenant_id);
    }
    const least = own[0];
    return least && least.works.size < RUNS_AT_ONCE_MAX ? least : undefined;
  };

  const begin = (lease: Lease<Run>, cpuMs: number, hasNewIsolate: boolean): void => {
    lease.runs += 1;
    if (lease.works.size === 0) {
      lease.cpuAtRestMs = lease.executor.cpuMs() ?? 0;
      lease.cpuAllowedMs = 0;
    }
    lease.cpuAllowedMs += cpuMs + (hasNewIsolate ? ISOLATE_OVERHEAD_MS : RUN_OVERHEAD_MS);
  };

  const rest = (lease: Lease<Run>): void => {
    lease.idleSince = performance.now();
    if (lease.isRetired || lease.runs >= RUNS_OF_A_LIFE) return end(lease, undefined);
    // At once: its next run may come at once, and be the one that is too much.
    const memoryMb = lease.executor.size()?.memoryMb ?? 0;
    if (memoryMb > lease.baselineMb + GROWTH_MB_MAX) return end(lease, undefined);
    // Later, and once for all rests until then: an answer waits to be sent while this runs.
    if (lease.isLookComing) return;
    lease.isLookComing = true;
    setTimeout(lookAtRest, REST_LOOK_MS, lease).unref();
  };

  const lookAtRest = (lease: Lease<Run>): void => {
    lease.isLookComing = false;
    if (lease.isRetired || lease.works.size > 0) return;
    const before = lease.executor.cpuMs();
    lease.cpuAtRestMs = before ?? 0;
    lease.cpuAllowedMs = REST_CPU_MS_MAX - CPU_BEYOND_MS;
    const { runs } = lease;
    setTimeout(() => {
      if (lease.isRetired || lease.runs !== runs) return;
      const after = lease.executor.cpuMs();
      if (before === undefined || after === undefined) return;
      if (after - before > IDLE_CPU_MS) end(lease, 'busy_after_reply');
    }, IDLE_LOOK_MS).unref();
  };

  const memoryMbMax = Math.max(MEMORY_MB_LEAST, options.memoryMb + BESIDE_ISOLATE_MB);
  const weigh = (lease: Lease<Run>): void => {
    const size = lease.executor.size();
    if (!size) return;
    if (size.memoryMb > memoryMbMax) end(lease, 'memory');
    if (size.threads > THREADS_MAX) options.broken(lease, new Error('it has more threads than it needs'));
    if (!size.isHidden) lease.hiddenSince = undefined;
    else if (performance.now() - (lease.hiddenSince ??= performance.now()) > HIDDEN_MS_MAX)
      options.broken(lease, new Error('it hides its memory'));
  };

  const clock = (lease: Lease<Run>, death: DeathReason): void => {
    const cpuMs = lease.executor.cpuMs();
    if (cpuMs !== undefined && cpuMs - lease.cpuAtRestMs > lease.cpuAllowedMs + CPU_BEYOND_MS) end(lease, death);
  };

  const look = (): void => {
    for (const lease of leases)
      if (lease.works.size > 0) {
        weigh(lease);
        clock(lease, 'cpu');
      }
  };

  const inspect = (): void => {
    const now = performance.now();
    for (const lease of leases) {
      if (lease.tenant_id === undefined) continue;
      weigh(lease);
      if (lease.works.size === 0 && !lease.isLookComing) clock(lease, 'busy_after_reply');
      // A wall lets none start.
      if (wall?.kind === 'none' && lease.executor.hasChildren())
        options.broken(lease, new Error('it started a process'));
      if (lease.works.size === 0 && now - lease.idleSince > IDLE_MS_MAX) end(lease, undefined);
    }
  };
  const inspections = setInterval(inspect, INSPECT_MS);
  inspections.unref();

  const tend = (): void => {
    if (isClosed) return;
    const isSpareMissing = ![...leases].some(({ tenant_id }) => tenant_id === undefined);
    if (isSpareMissing && starts.size === 0 && firstStart) startAnother();
    const isWatched = [...leases].some(({ works }) => works.size > 0);
    if (isWatched) watcher ??= setInterval(look, WATCH_MS);
    else {
      clearInterval(watcher);
      watcher = undefined;
    }
  };

  return {
    get wall() {
      return wall;
    },
    leases,
    start: () => (firstStart ??= startFirst()),
    find,
    begin,
    rest,
    tend,
    end,
    close: async () => {
      isClosed = true;
      clearInterval(watcher);
      clearInterval(inspections);
      await Promise.all([...starts, firstStart?.catch(() => undefined)]);
      const open = [...leases];
      for (const lease of open) end(lease, undefined);
      await Promise.all(open.map(({ executor }) => executor.ended));
    },
  };
};
