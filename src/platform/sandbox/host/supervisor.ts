// Runs code of tenants in executor processes: admission, placement, results, retries, and the end of executors.
// Validates messages of executors as untrusted input; the owner of a run is never read from them.
import type { Account, Accounts } from '../../base/accounts.ts';
import { findOperation, mark, type Operation, within } from '../../base/event-loop.ts';
import { encodeFrame, type Frame, frameKinds, ProtocolError } from '../protocol/frames.ts';
import { doneHead, PARSED_AT_ONCE, parseHead } from './heads.ts';
import type { DeathReason, Lease } from './lease.ts';
import type { Pace } from './paced-reads.ts';
import { createPool, type PoolEvent } from './pool.ts';
import {
  accountOf,
  busy,
  createCalls,
  createQueue,
  createResults,
  finish,
  nameOf,
  noReport,
  type Result,
  type Run,
} from './run.ts';
import type { Ending } from './spawner.ts';
import { RUN_KILL_MS, RUN_STARTS_MAX } from '../../base/times.ts';
import {
  CallFault,
  type Job,
  type Outcome,
  type RunFault,
  type RunLimits,
  type Sandbox,
  type WallKind,
} from '../protocol/sandbox.ts';

// A circuit breaker: code that kills its executor repeatedly must wait before its next run, longer each time.
// Saves resources and is no security boundary: each process counts separately.

/** So many crashes in a row have no effect. */
const DEATHS_FREE = 2;
const WAIT_MS = 500;
const WAIT_MS_MAX = 30_000;
/** Names kept in memory; the oldest are evicted. */
const NAMES_MAX = 1000;

type Breaker = {
  countDeath(name: string): void;
  /** Resets the count after a run that ended well. */
  forget(name: string): void;
  /** How long code of this name must wait; 0 if it may run. */
  waitMs(name: string): number;
};

const createBreaker = (): Breaker => {
  const names = new Map<string, { deaths: number; until: number }>();
  return {
    countDeath: (name) => {
      const deaths = (names.get(name)?.deaths ?? 0) + 1;
      const over = deaths - DEATHS_FREE - 1;
      const until = over < 0 ? 0 : performance.now() + Math.min(WAIT_MS * 2 ** over, WAIT_MS_MAX);
      names.delete(name);
      names.set(name, { deaths, until });
      if (names.size > NAMES_MAX) names.delete(names.keys().next().value as string);
    },
    forget: (name) => void names.delete(name),
    waitMs: (name) => Math.max(0, (names.get(name)?.until ?? 0) - performance.now()),
  };
};

export type SandboxOptions = {
  limits: RunLimits;
  /** `isolate`: a fresh isolate for each run, about five times the CPU time. */
  isolation: 'context' | 'isolate';
  /** `auto`: the best isolation that works on this machine. */
  wallKind: WallKind | 'auto';
  /** Whether code may run without isolation by the system. */
  allowWeak: boolean;
  /** Memory of all executors together. */
  memoryTotalMb: number;
  /** Bytes of the body of a service call. */
  callBytesMax: number;
  accounts: Pick<Accounts, 'reserve' | 'runInTurns' | 'finishInTurns' | 'chargeHeavy' | 'restMs'>;
  executorPath?: string;
  /** Receives events for the operator, which never hold a value. */
  report: (event: SandboxEvent) => void;
};

export type SandboxEvent =
  | PoolEvent
  | { event: 'killed'; tenant_id: string; reason: DeathReason | 'died' }
  /** The executor broke the protocol: it may have been taken over. */
  | { event: 'violation'; tenant_id: string; reason: string };

/** The sandbox with the functions of its owner, who starts and closes it. */
export type SandboxOwner = Sandbox & {
  /** Finds the best isolation that works, and starts the first executor. @throws ExecutorStartError. */
  start(): Promise<void>;
  /** The executors there are. */
  executors(): {
    pid: number;
    tenant_id: string | undefined;
    application_id: string | undefined;
    runs: number;
    /** Private memory, as it was measured last. */
    memoryMb: number;
  }[];
  /** Runs that wait for an executor. */
  waiting(): number;
};

/** Codes with an isolate each, in one executor. */
const CODES_MAX = 8;
/** Loading a formula takes less; code that takes longer is refused. The wall time is five times as long, for a busy machine. */
const CHECK_WALL_MS = 5000;
const CHECK_CPU_MS = 1000;

/** The exit code of an executor after a fatal error of V8, and the signals by which V8 ends a process. */
const CATASTROPHE = 70;
const memorySignals = new Set<Ending['signal']>(['SIGTRAP', 'SIGABRT', 'SIGILL', 'SIGSEGV']);
/** A wrapper passes a signal on as 128 plus its number. */
const memoryCodes = new Set<Ending['code']>([CATASTROPHE, 128 + 4, 128 + 5, 128 + 6, 128 + 11]);

const isMemoryEnding = (lease: Lease<Run>, { code, signal }: Ending): boolean =>
  lease.death === 'memory' || (!lease.death && (memorySignals.has(signal) || memoryCodes.has(code)));

/** The first run with the account of the tenant; the first of all if there is none. */
const findPayer = ({ runs }: Lease<Run>): Run | undefined => {
  let first: Run | undefined;
  for (const run of runs.values()) {
    if (accountOf(run.job) === run.job.tenant_id) return run;
    first ??= run;
  }
  return first;
};

/** The breaker is open for the code. */
const tooManyDeaths = (waitMs: number): RunFault => busy('tenant', Math.ceil(waitMs / 1000));

export const createSandbox = (options: SandboxOptions): SandboxOwner => {
  const { limits, accounts, report } = options;
  const breaker = createBreaker();
  const closers: (() => void)[] = [];
  let runsOfAll = 0;
  let nextId = 1;
  let isClosing = false;

  const pool = createPool<Run>({
    ...options,
    memoryMb: limits.memoryMb,
    paceOf: (lease) => paceOf(lease),
    received: (lease, frame) => receive(lease, frame),
    broken: (lease, { message }) => violate(lease, message),
    ended: (lease, ending) => onExecutorExit(lease, ending),
    changed: () => place(),
  });
  const queue = createQueue(pool);

  /**
   * The account of the tenant pays for what an executor sends, if one of its runs has it. An open proxy runs its code for anonymous
   * clients and for the tenant in one executor: an anonymous run must not pay for the tenant, nor slow it by its debts.
   */
  const paceOf = (lease: Lease<Run>): Pace => {
    // Chosen before each read: the run may have left its executor when what was read is charged.
    let account: Account | undefined;
    // Apart from the request that has the run: it has no more time where executors send much.
    let operation: Operation | undefined;
    let reading: Operation | undefined;
    return {
      begin: () => {
        const payer = findPayer(lease);
        account = payer ? accountOf(payer.job) : lease.owner?.tenant_id;
        if (operation !== payer?.operation) {
          operation = payer?.operation;
          reading = operation?.fork(0);
        }
        mark(reading);
      },
      charge: (usedMs) => {
        if (account !== undefined) accounts.chargeHeavy(account, usedMs);
      },
      restMs: () => {
        const now = performance.now();
        // A run whose time is over has RUN_KILL_MS to say so.
        if (account === undefined || [...lease.runs.values()].some(({ endsAtMs }) => endsAtMs <= now)) return 0;
        return accounts.restMs(account);
      },
    };
  };

  const results = createResults({ accounts, outputBytesMax: limits.outputBytesMax });

  const violate = (lease: Lease<Run>, reason: string): void => {
    report({ event: 'violation', tenant_id: lease.owner?.tenant_id ?? '', reason });
    pool.end(lease, 'violation');
  };

  /** An executor is gone: its runs end, or are tried once more. */
  const onExecutorExit = (lease: Lease<Run>, ending: Ending): void => {
    const isMemory = isMemoryEnding(lease, ending);
    const isCpu = lease.death === 'cpu';
    // The one to blame of several runs is unknown: each is tried again alone.
    const isToBlame = lease.runs.size === 1;
    const isSuspect = isMemory || isCpu || lease.death === undefined;
    for (const { timer } of lease.runs.values()) clearTimeout(timer);
    const runs = [...lease.runs.values()].filter(({ isOver }) => !isOver);
    lease.runs.clear();
    if (runs.length > 0 && lease.death !== 'violation')
      report({
        event: 'killed',
        tenant_id: lease.owner?.tenant_id ?? '',
        reason: lease.death ?? (isMemory ? 'memory' : 'died'),
      });
    for (const run of runs) {
      if (isToBlame) countDeath(run);
      if (isMemory && isToBlame) finish(run, { code: 'OUT_OF_MEMORY' });
      else if (isCpu && isToBlame) finish(run, { code: 'TIMEOUT_CPU' });
      else if (lease.death === 'violation') finish(run, { code: 'EXECUTOR_DIED' });
      else retry(run, isSuspect);
    }
  };

  /** The run ended its executor or isolate. Too many such runs of a code open the breaker, also for those that wait. */
  const countDeath = ({ job }: Run): void => {
    const name = nameOf(job);
    breaker.countDeath(name);
    const waitMs = breaker.waitMs(name);
    if (waitMs > 0) queue.refuse(tooManyDeaths(waitMs), (run) => nameOf(run.job) === name);
  };

  /**
   * Tries a run again, unless it made a call: a destination may know of it then. The last try is alone: what ends that one
   * is the run itself.
   * @param isSuspect whether it may have ended its executor. Otherwise another run is known to have done so.
   */
  const retry = (run: Run, isSuspect: boolean): void => {
    if (run.isAlone || run.calls.size > 0) return finish(run, { code: 'EXECUTOR_DIED' });
    if (isClosing) return finish(run, busy('all'));
    run.deaths += 1;
    run.isAlone = isSuspect || run.deaths + 1 === RUN_STARTS_MAX;
    run.startedAt = 0;
    queue.add(run);
  };

  /** Gives waiting runs their executors. */
  const place = (): void => {
    queue.place(assign);
    pool.tend();
  };

  const assign = (lease: Lease<Run>, run: Run): void => {
    const { job, id, cpuMsMax } = run;
    const wallMs = run.isCheck ? Math.min(limits.wallMs, CHECK_WALL_MS) : limits.wallMs;
    const hasNewIsolate = run.isCheck || options.isolation === 'isolate' || !lease.loaded.has(job.key);
    pool.begin(lease, cpuMsMax, hasNewIsolate);
    lease.runs.set(id, run);
    lease.isForOne = run.isAlone;
    lease.inputBytes += run.inputBytes;
    run.startedAt = performance.now();
    run.endsAtMs = Math.min(run.startedAt + wallMs, job.endsAtMs ?? Infinity);
    // The timer of the executor fires first. This one is for an executor that ignores its own.
    run.timer = setTimeout(() => overdue(lease, run), wallMs + RUN_KILL_MS);
    const head = {
      limits: {
        wall_ms: wallMs,
        cpu_ms: cpuMsMax,
        memory_mb: limits.memoryMb,
        output_bytes_max: limits.outputBytesMax,
      },
      key: job.key,
      isolation: options.isolation,
    };
    if (run.isCheck) return lease.executor.send(encodeFrame(frameKinds.CHECK, id, head, job.code));
    if (!lease.loaded.delete(job.key)) load(lease, job);
    lease.loaded.add(job.key);
    lease.executor.send(encodeFrame(frameKinds.INVOKE, id, head, job.input));
  };

  const load = ({ executor, loaded, runs }: Lease<Run>, { key, code }: Job): void => {
    if (loaded.size >= CODES_MAX) {
      const used = new Set([...runs.values()].map(({ job }) => job.key));
      const least = [...loaded].find((other) => !used.has(other));
      if (least !== undefined) {
        loaded.delete(least);
        executor.send(encodeFrame(frameKinds.UNLOAD, 0, { key: least }));
      }
    }
    executor.send(encodeFrame(frameKinds.LOAD, 0, { key, memory_mb: limits.memoryMb }, code));
  };

  const leave = (lease: Lease<Run>, run: Run): void => {
    if (lease.runs.delete(run.id)) lease.inputBytes -= run.inputBytes;
    clearTimeout(run.timer);
  };

  const overdue = (lease: Lease<Run>, run: Run): void => {
    leave(lease, run);
    countDeath(run);
    finish(run, { code: 'TIMEOUT_WALL' });
    pool.end(lease, 'deadline');
  };

  /** Ends a run whose client has gone or whose CPU time is used up. It stays in the executor until it has ended there. */
  const stop = (run: Run, fault: RunFault): void => {
    if (run.isOver) return;
    queue.remove(run);
    finish(run, fault);
    const lease = [...pool.leases].find(({ runs }) => runs.get(run.id) === run);
    lease?.executor.send(encodeFrame(frameKinds.CANCEL, run.id, {}));
  };

  const call = createCalls({ accounts, callBytesMax: options.callBytesMax, violate, stop });

  const receive = (lease: Lease<Run>, frame: Frame): void => {
    // The executor is being ended: its further messages do not count.
    if (lease.death) return;
    try {
      const run = lease.runs.get(frame.id);
      if (!run) throw new ProtocolError('a frame names no run of this executor');
      // A run may make many calls: each has the time of a request.
      const operation = run.operation?.fork(frame.body.length);
      if (frame.kind === frameKinds.DONE) within(operation, () => done(lease, run, frame));
      else if (frame.kind === frameKinds.CALL) within(operation, () => call(lease, run, frame));
      else throw new ProtocolError('a frame has a kind that executors do not send');
    } catch (error) {
      violate(lease, error instanceof ProtocolError ? error.message : 'a frame could not be read');
    }
  };

  const done = (lease: Lease<Run>, run: Run, { head, body }: Frame): void => {
    const { ok, cpu_ms, is_stuck, logs } = parseHead(doneHead, head);
    const isLarge = body.length > PARSED_AT_ONCE;
    const result = isLarge ? undefined : results.parse(run, ok, body);
    leave(lease, run);
    const fault = result && 'code' in result ? result.code : undefined;
    const isTimeout = fault?.startsWith('TIMEOUT') ?? false;
    // A run's unused CPU time is not left to other runs. After a timeout its last slice may still be running.
    if (!isTimeout) lease.cpuAllowedMs -= Math.max(0, run.cpuMsMax - cpu_ms);
    // After these the isolate may be damaged: the executor gets no new runs.
    if (isTimeout || fault === 'OUT_OF_MEMORY' || fault === 'ISOLATE_GONE') lease.isRetired = true;
    if (fault === 'OUT_OF_MEMORY') countDeath(run);
    if (ok) breaker.forget(nameOf(run.job));
    const conclude = (made: Result): void => {
      if ('code' in made && made.code === 'ISOLATE_GONE' && !run.isOver) retry(run, false);
      else finish(run, made, logs, cpu_ms);
    };
    if (result) conclude(result);
    else if (!run.isOver)
      void results.parseInTurns(run, ok, body).then(conclude, (error: Error) => {
        countDeath(run);
        violate(lease, error.message);
        finish(run, { code: 'EXECUTOR_DIED' });
      });
    if (is_stuck) {
      countDeath(run);
      pool.end(lease, 'stuck');
    } else if (lease.runs.size === 0) pool.rest(lease);
    place();
  };

  const refusalOf = (job: Job): RunFault | undefined => {
    if (isClosing) return busy('all');
    if (job.signal?.aborted) return { code: 'CANCELLED' };
    const waitMs = breaker.waitMs(nameOf(job));
    return waitMs > 0 ? tooManyDeaths(waitMs) : undefined;
  };

  const newRun = (job: Job, isCheck: boolean, settle: Run['settle']): Run => {
    const id = nextId;
    // A frame's id has 32 bits.
    nextId = nextId >= 0xffff_ffff ? 1 : nextId + 1;
    return {
      id,
      job,
      isCheck,
      operation: findOperation(),
      cpuMsMax: isCheck ? Math.min(limits.cpuMs, CHECK_CPU_MS) : limits.cpuMs,
      inputBytes: job.input.length,
      deaths: 0,
      isAlone: false,
      calls: new Set(),
      aborter: undefined,
      serverMs: 0,
      startedAt: 0,
      endsAtMs: 0,
      timer: undefined,
      isOver: false,
      settle,
    };
  };

  const submit = async (job: Job, isCheck: boolean): Promise<Outcome> => {
    const refusal = refusalOf(job);
    if (refusal) return { ok: false, fault: refusal, ...noReport };
    const admission = accounts.reserve(accountOf(job), 'runs', 1);
    runsOfAll += 1;
    let cancel: (() => void) | undefined;
    try {
      await pool.start();
      if (pool.wall?.kind === 'none' && !options.allowWeak)
        return { ok: false, fault: { code: 'NO_WALL' }, ...noReport };
      return await new Promise<Outcome>((settle) => {
        const run = newRun(job, isCheck, settle);
        cancel = () => stop(run, { code: 'CANCELLED' });
        job.signal?.addEventListener('abort', cancel);
        queue.add(run);
        place();
      });
    } finally {
      if (cancel) job.signal?.removeEventListener('abort', cancel);
      admission.release();
      runsOfAll -= 1;
      if (runsOfAll === 0) for (const resolve of closers.splice(0)) resolve();
    }
  };

  return {
    get wall() {
      return pool.wall;
    },
    start: async () => {
      await pool.start();
      pool.tend();
    },
    executors: () =>
      [...pool.leases].map(({ executor, owner, runs, memoryMb }) => ({
        pid: executor.pid,
        tenant_id: owner?.tenant_id,
        application_id: owner?.application_id,
        runs: runs.size,
        memoryMb,
      })),
    waiting: queue.length,
    run: (job) => submit(job, false),
    check: async (tenant_id, code) => {
      const answerCall = () => Promise.reject(new CallFault('NOT_ALLOWED', 'Code that is checked calls nothing.'));
      // All checks of a tenant have one key: a tenant that saves code which ends its executors must wait before it saves more.
      const job = { tenant_id, application_id: undefined, code, key: 'check', input: '', answerCall };
      const outcome = await submit(job, true);
      return outcome.ok ? undefined : outcome.fault;
    },
    close: async () => {
      isClosing = true;
      queue.refuse(busy('all'));
      await pool.close();
      if (runsOfAll > 0) await new Promise<void>((resolve) => closers.push(resolve));
    },
  };
};
