// The pool of executors: starts them with the best isolation, keeps spares ready, gives each to one owner for life, and ends
// idle ones when memory is needed.
import { availableParallelism } from 'node:os';
import { createWatch, type DeathReason, isSameOwner, type Lease, newLease, type Owner } from './lease.ts';
import { ExecutorStartError, startExecutor } from './executor-process.ts';
import { type Pace, unpaid } from './paced-reads.ts';
import { createSpawner, type Ending } from './spawner.ts';
import { encodeFrame, type Frame, frameKinds } from '../protocol/frames.ts';
import type { Wall, WallKind } from '../protocol/sandbox.ts';
import { causeOf, findLandlock, nameOfWall, wallKinds, WallMissing } from './wall.ts';

// Decides by memory which executors may start, which may run code, and which idle ones must end. Fair between tenants.

/** Private memory of an executor that has just started. Measured: 20 to 25 MB. */
const START_MB = 30;
/**
 * An executor whose runs used no CPU time for so long waits for a fetch or a timer. Only its measured memory counts, so that
 * waiting runs do not block other tenants.
 */
const WAITING_AFTER_MS = 200;
/** A tenant has this share of the memory at most. */
const TENANT_SHARE = 0.5;
/** Further executors of tenants leave the rest free: a tenant without one finds memory for its first. */
const FURTHER_SHARE = 0.75;
/** An executor counts as burning above this share of a core. Many that burn leave each other little of one. */
const BURNING_SHARE = 0.1;
/** While so many executors burn, a tenant with one of them gets no further one. */
const BURNING_MAX = availableParallelism() + 1;

type RoomOptions<Run> = {
  leases: ReadonlySet<Lease<Run>>;
  /** Executors that are being started. */
  starting: () => number;
  totalMb: number;
  /** Memory of a run, which an executor that runs code may come to use. */
  runMb: number;
};

type Room<Run> = {
  /** Whether an executor may begin to run code. */
  mayRun(lease: Lease<Run>): boolean;
  /** Whether the owner, which has executors or none, may have one more. */
  mayHaveMore(owner: Owner, hasNone: boolean): boolean;
  /** Whether the memory for so many starts is free. */
  fits(starts: number): boolean;
  /** Idle executors to end, so that so many may start. */
  toEnd(starts: number): Lease<Run>[];
  /** Further executors to take back when their runs are over, since no idle one is left. */
  toRetire(count: number): Lease<Run>[];
  /** The idle executor of a tenant that another application of the tenant may replace. */
  toReplace(owner: Owner): Lease<Run> | undefined;
  /** The executor to end where all together have grown beyond the total. */
  largestBeyond(): Lease<Run> | undefined;
};

const createRoom = <Run>({ leases, starting, totalMb, runMb }: RoomOptions<Run>): Room<Run> => {
  const isActive = ({ runs, activeAt }: Lease<Run>): boolean =>
    runs.size > 0 && performance.now() - activeAt < WAITING_AFTER_MS;
  const costOf = (lease: Lease<Run>): number => lease.memoryMb + (isActive(lease) ? runMb : 0);
  const sumOf = (some: Iterable<Lease<Run>>): number => {
    let sum = 0;
    for (const lease of some) sum += costOf(lease);
    return sum;
  };
  const usedMb = (): number => sumOf(leases) + starting() * START_MB;
  /** Memory of one more executor, and of a run in it. */
  const startMb = START_MB + runMb;
  const tenantMb = Math.max(totalMb * TENANT_SHARE, 2 * startMb);
  const of = (tenant_id: string): Lease<Run>[] => [...leases].filter(({ owner }) => owner?.tenant_id === tenant_id);
  const isBurning = ({ coreShare }: Lease<Run>): boolean => coreShare >= BURNING_SHARE;
  const isEnding = ({ isRetired, death, runs }: Lease<Run>): boolean =>
    isRetired && (death !== undefined || runs.size === 0);
  const isIdle = ({ owner, runs, isRetired }: Lease<Run>): boolean =>
    owner !== undefined && runs.size === 0 && !isRetired;
  const countByTenant = (): Map<string | undefined, number> => {
    const counts = new Map<string | undefined, number>();
    for (const { owner } of leases) if (owner) counts.set(owner.tenant_id, (counts.get(owner.tenant_id) ?? 0) + 1);
    return counts;
  };

  return {
    mayRun: (lease) =>
      isActive(lease) ||
      usedMb() + runMb <= totalMb ||
      ![...leases].some((other) => other !== lease && isActive(other)),
    mayHaveMore: ({ tenant_id }, hasNone) => {
      const own = of(tenant_id);
      // Executors that are ending count until they are gone.
      if (own.length === 0) return true;
      const hasBurning = own.some(isBurning);
      if (!hasNone && hasBurning && [...leases].filter(isBurning).length >= BURNING_MAX) return false;
      return sumOf(own) + startMb <= tenantMb && usedMb() + runMb <= totalMb * FURTHER_SHARE;
    },
    fits: (starts) => leases.size + starting() < 2 || usedMb() + starts * startMb <= totalMb,
    toEnd: (starts) => {
      const counts = countByTenant();
      const isFurther = ({ owner }: Lease<Run>): boolean => (counts.get(owner?.tenant_id) ?? 0) > 1;
      const candidates = [...leases]
        .filter(isIdle)
        .toSorted((a, b) => Number(isFurther(b)) - Number(isFurther(a)) || a.idleSince - b.idleSince);
      let missingMb = usedMb() + starts * startMb - totalMb;
      // What is ending already.
      for (const lease of leases) if (isEnding(lease)) missingMb -= lease.memoryMb;
      return candidates.filter((lease) => {
        if (missingMb <= 0) return false;
        missingMb -= lease.memoryMb;
        return true;
      });
    },
    toRetire: (count) => {
      const counts = countByTenant();
      const retired = [...leases].filter(({ isRetired }) => isRetired).length;
      const busy = [...leases].filter(({ owner, isRetired, runs }) => owner && !isRetired && runs.size > 0);
      return busy
        .filter(({ owner }) => {
          const own = counts.get(owner?.tenant_id) ?? 0;
          counts.set(owner?.tenant_id, own - 1);
          return own > 1;
        })
        .slice(0, Math.max(0, count - retired));
    },
    toReplace: (owner) => {
      const own = of(owner.tenant_id);
      // One at a time.
      if (own.some(isEnding)) return undefined;
      return own.filter(isIdle).toSorted((a, b) => a.idleSince - b.idleSince)[0];
    },
    largestBeyond: () => {
      let sum = 0;
      let largest: Lease<Run> | undefined;
      for (const lease of leases) {
        if (isEnding(lease)) continue;
        sum += lease.memoryMb;
        if (lease.memoryMb > (largest?.memoryMb ?? 0)) largest = lease;
      }
      return sum > totalMb ? largest : undefined;
    },
  };
};

export type PoolEvent =
  /** No isolation is available, with the reasons. */
  { event: 'no_wall'; wall: Wall } | { event: 'started'; wall: Wall } | { event: 'start_failed'; reason: string };

export type PoolOptions<Run> = {
  wallKind: WallKind | 'auto';
  /** Memory of an isolate. */
  memoryMb: number;
  /** Memory of all executors together. */
  memoryTotalMb: number;
  executorPath?: string | undefined;
  report(event: PoolEvent): void;
  /** Who pays for what an executor sends. */
  paceOf?(lease: Lease<Run>): Pace;
  received(lease: Lease<Run>, frame: Frame): void;
  broken(lease: Lease<Run>, error: Error): void;
  ended(lease: Lease<Run>, ending: Ending): void;
  /** An executor may be free for a waiting run. */
  changed(): void;
};

/**
 * An owner gets a further executor where each that it has got so many runs and used this share of a core in the last 200 ms.
 * Runs that wait use none. Executors that get less than this share have no core free for a further one.
 */
const RUNS_TO_SPREAD = 8;
const BUSY_SHARE = 0.5;
/** The most runs of an executor: they share the memory of an isolate, and end with their process. A waiting run takes 0.3 MB. */
const RUNS_AT_ONCE_MAX = 32;
/** Parsed input takes up to ten times its bytes. The inputs of all runs of an executor must fit in one isolate. */
const BYTES_OF_INPUT = 10;
/** Executors ready for new owners. One is enough until the first code has run. */
const SPARES = 2;
/** A start uses an eighth of a second of CPU time, so more at once would not be ready sooner. */
const STARTS_AT_ONCE = Math.max(2, availableParallelism());
/** Pause after a failed start. */
const START_PAUSE_MS = 500;

/** `key`: of the code. `isAlone`: without other runs in the executor. */
export type Need = { key: string; inputBytes: number; isAlone: boolean };

export type Pool<Run> = {
  readonly wall: Wall | undefined;
  readonly leases: ReadonlySet<Lease<Run>>;
  /** Finds the best isolation that works, and starts the first executor. @throws ExecutorStartError. */
  start(): Promise<void>;
  /** Finds an executor of the owner for a run; undefined if the run must wait. */
  find(owner: Owner, need: Need): Lease<Run> | undefined;
  /** Call before a run joins the lease. @param cpuMs CPU time that the run may use. */
  begin(lease: Lease<Run>, cpuMs: number, hasNewIsolate: boolean): void;
  /** Call when a lease has no runs left. */
  rest(lease: Lease<Run>): void;
  /** Call after `find`: starts missing executors, and ends idle ones to make space. */
  tend(): void;
  end(lease: Lease<Run>, death: DeathReason | undefined): void;
  close(): Promise<void>;
};

export const createPool = <Run>(options: PoolOptions<Run>): Pool<Run> => {
  const { report, memoryMb } = options;
  const leases = new Set<Lease<Run>>();
  const spawner = createSpawner();
  /** Starts under way. `hurry`: a run waits for it. */
  const starts = new Map<Promise<void>, { hurry(): void }>();
  const inputBytesMax = (memoryMb * 1024 * 1024) / BYTES_OF_INPUT;
  let pauseUntil = 0;
  let isClosed = false;
  let wall: Wall | undefined;
  let landlock: number | string = 'not looked for yet';
  let firstStart: Promise<void> | undefined;
  /** Since the last `tend`: tenants without an executor that need one, and owners that need a further one. */
  const needFirst = new Set<string>();
  let needsFurther = false;
  /** Since the last `tend`: a run found no executor at all. */
  let isWaiting = false;

  const open = async (kind: WallKind, isSpare = false, spawned?: (hurry: () => void) => void): Promise<Lease<Run>> => {
    let lease: Lease<Run> | undefined;
    let pace = unpaid;
    const executor = await startExecutor({
      spawner,
      wallKind: kind,
      landlock,
      executorPath: options.executorPath,
      memoryMb,
      isSpare,
      spawned,
      pace: {
        begin: () => pace.begin(),
        charge: (usedMs) => pace.charge(usedMs),
        restMs: () => pace.restMs(),
      },
      leaving: () => lease && (lease.isRetired = true),
      received: (frame) => lease && options.received(lease, frame),
      broken: (error) => lease && options.broken(lease, error),
    });
    const opened = newLease<Run>(executor);
    lease = opened;
    pace = options.paceOf?.(opened) ?? unpaid;
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

  const startAnother = (isSpare: boolean): void => {
    if (!wall) return;
    const start = { hurry: (): void => undefined };
    const opening = open(wall.kind, isSpare, (hurry) => (start.hurry = hurry)).then(
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
    starts.set(opening, start);
    void opening.finally(() => {
      starts.delete(opening);
      options.changed();
    });
  };

  const end = (lease: Lease<Run>, death: DeathReason | undefined): void => {
    lease.isRetired = true;
    lease.death ??= death;
    lease.executor.kill();
  };

  const room = createRoom<Run>({
    leases,
    starting: () => starts.size,
    totalMb: options.memoryTotalMb,
    runMb: memoryMb,
  });

  const watch = createWatch<Run>({
    leases,
    memoryMb,
    mayHaveChildren: () => wall?.kind === 'none',
    end,
    unload: (lease) => {
      for (const key of lease.loaded) lease.executor.send(encodeFrame(frameKinds.UNLOAD, 0, { key }));
      lease.loaded.clear();
    },
    broken: options.broken,
    inspected: () => {
      const largest = room.largestBeyond();
      if (largest) end(largest, largest.runs.size > 0 ? 'pressure' : undefined);
      // Executors whose runs now wait need less memory.
      options.changed();
    },
  });

  const spares = (): Lease<Run>[] => [...leases].filter(({ owner, isRetired }) => !owner && !isRetired);

  /** A spare for an owner whose executors are busy, or that has none. */
  const takeSpare = (owner: Owner, hasNone: boolean): Lease<Run> | undefined => {
    if (!room.mayHaveMore(owner, hasNone)) {
      const replaced = hasNone && room.toReplace(owner);
      if (replaced) end(replaced, undefined);
      return undefined;
    }
    const [spare] = spares();
    const own = [...leases].filter((lease) => lease.owner?.tenant_id === owner.tenant_id);
    if (spare && room.mayRun(spare)) {
      const taken = new Set(own.filter(({ runs }) => runs.size > 0).map(({ rank }) => rank));
      while (taken.has(spare.rank)) spare.rank += 1;
      spare.executor.setRank(spare.rank);
      spare.owner = owner;
      return spare;
    }
    if (own.length > 0) needsFurther = true;
    else needFirst.add(owner.tenant_id);
    return undefined;
  };

  const find = (owner: Owner, { key, inputBytes, isAlone }: Need): Lease<Run> | undefined => {
    const all = [...leases].filter((lease) => lease.owner && isSameOwner(lease.owner, owner));
    const mayJoin = ({ runs, isForOne, inputBytes: bytes }: Lease<Run>): boolean =>
      !isAlone && !isForOne && runs.size < RUNS_AT_ONCE_MAX && bytes + inputBytes <= inputBytesMax;
    const fitting = all
      .filter((lease) => !lease.isRetired && (lease.runs.size === 0 || mayJoin(lease)))
      .toSorted((a, b) => a.runs.size - b.runs.size);
    const easy = fitting.filter(({ runs, coreShare }) => runs.size < RUNS_TO_SPREAD || coreShare < BUSY_SHARE);
    const easiest = easy.find(({ loaded }) => loaded.has(key)) ?? easy[0];
    if (easiest && room.mayRun(easiest)) return easiest;
    const spare = easiest ? undefined : takeSpare(owner, all.length === 0);
    if (spare) return spare;
    const least = fitting[0];
    if (least && room.mayRun(least)) return least;
    isWaiting = true;
    // There is an executor but no memory for a run: other idle executors must end.
    if (least) {
      least.idleSince = performance.now();
      needFirst.add(owner.tenant_id);
    }
    return undefined;
  };

  const tend = (): void => {
    watch.adjust();
    if (isClosed || !wall) return;
    const firsts = needFirst.size;
    // Each time: the process may have set its lowest priority meanwhile.
    if (isWaiting) for (const start of starts.values()) start.hurry();
    const isUsed = [...leases].some(({ owner }) => owner);
    const wanted = firsts + (needsFurther ? 1 : 0) + (isUsed ? SPARES : 1) - spares().length - starts.size;
    needFirst.clear();
    needsFurther = false;
    const isSpare = !isWaiting;
    isWaiting = false;
    if (firsts > 0 && !room.fits(firsts)) {
      for (const lease of room.toEnd(firsts)) end(lease, undefined);
      if (!room.fits(firsts)) for (const lease of room.toRetire(firsts)) lease.isRetired = true;
    }
    if (performance.now() < pauseUntil) return;
    const most = Math.min(wanted, STARTS_AT_ONCE - starts.size);
    for (let count = 0; count < most && room.fits(1); count += 1) startAnother(isSpare);
  };

  return {
    get wall() {
      return wall;
    },
    leases,
    start: () => (firstStart ??= startFirst()),
    find,
    begin: watch.begin,
    rest: watch.rest,
    tend,
    end,
    close: async () => {
      isClosed = true;
      watch.stop();
      for (const start of starts.values()) start.hurry();
      await Promise.all([...starts.keys(), firstStart?.catch(() => undefined)]);
      const open = [...leases];
      for (const lease of open) end(lease, undefined);
      await Promise.all(open.map(({ executor }) => executor.ended));
      await spawner.close();
    },
  };
};
