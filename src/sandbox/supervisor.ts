// Runs foreign code in executors: admits no more than fits, gives each run its executor, answers the code's calls, and ends with
// a kill whatever does not end by itself. What comes from an executor is an enemy's word; its tenant is never read from it.
import { createBreaker } from './breaker.ts';
import type { Ending } from './executor-process.ts';
import { encodeFrame, type Frame, FRAME_BODY_BYTES_MAX, frameKinds, ProtocolError } from './frames.ts';
import { callHead, doneHead, type FaultHead, parseBody, parseFault, parseHead } from './heads.ts';
import { maskLines } from './log-lines.ts';
import { createPool, type DeathReason, type Lease, type PoolEvent, shareOf } from './pool.ts';
import {
  CallFault,
  FETCHES_MAX,
  SERVICE_CALLS_MAX,
  type Job,
  type Outcome,
  type RunFault,
  type RunLimits,
  type Sandbox,
  type WallKind,
} from './sandbox.ts';

export type SandboxOptions = {
  limits: RunLimits;
  /** `isolate`: a fresh isolate for each run, about five times the CPU time. */
  isolation: 'context' | 'isolate';
  /** `auto`: the best wall that this machine can build. */
  wallKind: WallKind | 'auto';
  /** Whether code runs where no wall stands. */
  allowWeak: boolean;
  executorsMax: number;
  executorPath?: string;
  /** Told of what an operator should see. Never of values. */
  report: (event: SandboxEvent) => void;
};

export type SandboxEvent =
  | PoolEvent
  | { event: 'killed'; tenant_id: string; reason: DeathReason | 'died' }
  /** The executor broke the protocol: it may have been taken over. */
  | { event: 'violation'; tenant_id: string; reason: string };

/** The sandbox as its owner has it: others run code in it. */
export type SandboxOwner = Sandbox & {
  /** Finds the wall that stands, and starts the first executor behind it. @throws ExecutorStartError. */
  start(): Promise<void>;
  /** The executors there are. */
  executors(): { pid: number; tenant_id: string | undefined; runs: number }[];
};

/** The executor's own wall timer comes first; this is for the one that does not (security.md rule 8). */
const KILL_AFTER_MS = 250;
/** Runs of a tenant, under way and waiting; and of all. */
const TENANT_RUNS_MAX = 128;
const ALL_RUNS_MAX = 512;
/** A run that waits this long for an executor is better told to come again. */
const WAIT_MS_MAX = 5000;
/** Codes with an isolate each, in one executor. */
const CODES_MAX = 8;
/** Whether code compiles, and what it exports, is known at once; what takes longer is no formula. */
const CHECK_WALL_MS = 2000;
const CHECK_CPU_MS = 1000;
/** Of what a call sends: a request's headers, or a body to be tokenized. */
const CALL_VALUES_MAX = 25_000;
/** Calls of one run that an honest executor lets through. */
const CALLS_MAX = FETCHES_MAX + SERVICE_CALLS_MAX;
const RETRY_AFTER_SECONDS = 1;

/** The exit code by which an executor says that V8 could not go on; and the signals by which V8 ends a process itself. */
const CATASTROPHE = 70;
const memorySignals = new Set<Ending['signal']>(['SIGTRAP', 'SIGABRT', 'SIGILL', 'SIGSEGV']);
/** A wrapper passes a signal on as 128 plus its number. */
const memoryCodes = new Set<Ending['code']>([CATASTROPHE, 128 + 4, 128 + 5, 128 + 6, 128 + 11]);

const isMemoryEnding = (lease: Lease<Work>, { code, signal }: Ending): boolean =>
  lease.death === 'memory' || (!lease.death && (memorySignals.has(signal) || memoryCodes.has(code)));

type Result = FaultHead | { value: unknown };

/** A result that is the run's last word. */
type FinalResult = RunFault | { value: unknown };

/** A run from its admission to its end. */
type Work = {
  readonly id: number;
  readonly job: Job;
  readonly isCheck: boolean;
  /** Times that it was begun in an executor that then died. */
  deaths: number;
  /** Numbers of its calls so far, answered or not. */
  readonly calls: Set<number>;
  /** Tells calls under way that the run is over; made with the first of them, for most runs make none. */
  aborter: AbortController | undefined;
  startedAt: number;
  /** Of its place in the queue, then of its run. */
  timer: NodeJS.Timeout | undefined;
  settle(outcome: Outcome): void;
};

const none = { logs: [], wallMs: 0, cpuMs: 0, hasCalled: false };

const busy = (over: 'tenant' | 'all', retryAfterSeconds = RETRY_AFTER_SECONDS): RunFault => ({
  code: 'BUSY',
  over,
  retryAfterSeconds,
});

const nameOf = ({ tenant_id, key }: Job): string => `${tenant_id} ${key}`;

/** What a call is told whose answer fits into no frame. */
const TOO_LARGE = JSON.stringify({ code: 'BODY_TOO_LARGE', message: 'The answer is larger than code may get.' });

const faultOf = (error: unknown) =>
  error instanceof CallFault
    ? { code: error.code, message: error.message, status: error.status }
    : { code: 'INTERNAL', message: 'The call failed.' };

const invalid = (problem: string) => ({ code: 'INVALID_INPUT', message: `What is sent ${problem}.` });

const finish = (work: Work, result: FinalResult, logs: Outcome['logs'] = [], cpuMs = 0): void => {
  clearTimeout(work.timer);
  work.aborter?.abort();
  const wallMs = work.startedAt === 0 ? 0 : performance.now() - work.startedAt;
  const report = { logs: maskLines(logs), wallMs, cpuMs, hasCalled: work.calls.size > 0 };
  work.settle(
    'code' in result ? { ok: false, fault: result, ...report } : { ok: true, value: result.value, ...report },
  );
};

export const createSandbox = (options: SandboxOptions): SandboxOwner => {
  const { limits, executorsMax, report } = options;
  const breaker = createBreaker();
  const waiting: Work[] = [];
  const tenantRuns = new Map<string, number>();
  const drained: (() => void)[] = [];
  let runsOfAll = 0;
  let nextId = 1;
  let isDraining = false;

  const pool = createPool<Work>({
    ...options,
    memoryMb: limits.memoryMb,
    received: (lease, frame) => receive(lease, frame),
    broken: (lease, { message }) => violate(lease, message),
    ended: (lease, ending) => bury(lease, ending),
    changed: () => place(),
  });

  const violate = (lease: Lease<Work>, reason: string): void => {
    report({ event: 'violation', tenant_id: lease.tenant_id ?? '', reason });
    pool.end(lease, 'violation');
  };

  /** An executor is gone: what was in it ends, or is tried once more. */
  const bury = (lease: Lease<Work>, ending: Ending): void => {
    const isMemory = isMemoryEnding(lease, ending);
    const isCpu = lease.death === 'cpu';
    const works = [...lease.works.values()];
    lease.works.clear();
    if (works.length > 0 && lease.death !== 'violation')
      report({
        event: 'killed',
        tenant_id: lease.tenant_id ?? '',
        reason: lease.death ?? (isMemory ? 'memory' : 'died'),
      });
    for (const work of works) {
      // Alone in it, it is what ended it, and what filled it. Of several nobody knows.
      if (works.length === 1) breaker.countDeath(nameOf(work.job));
      const isToBlame = works.length === 1 || work.deaths > 0;
      if (isMemory && isToBlame) finish(work, { code: 'OUT_OF_MEMORY' });
      else if (isCpu && isToBlame) finish(work, { code: 'TIMEOUT_CPU' });
      else if (lease.death === 'violation') finish(work, { code: 'EXECUTOR_DIED' });
      else retry(work);
    }
  };

  /** Once more, unless it called out: then somebody outside may know of it. */
  const retry = (work: Work): void => {
    if (work.deaths > 0 || work.calls.size > 0) return finish(work, { code: 'EXECUTOR_DIED' });
    if (isDraining) return finish(work, busy('all'));
    work.deaths += 1;
    work.startedAt = 0;
    enqueue(work);
  };

  const enqueue = (work: Work): void => {
    clearTimeout(work.timer);
    waiting.push(work);
    work.timer = setTimeout(() => {
      waiting.splice(waiting.indexOf(work), 1);
      const { tenant_id } = work.job;
      const own = [...pool.leases].filter((lease) => lease.tenant_id === tenant_id).length;
      finish(work, busy(own >= shareOf(executorsMax) ? 'tenant' : 'all'));
    }, WAIT_MS_MAX);
  };

  /** Gives waiting runs their executors, in the order they came; of a tenant that must wait, the others are passed over. */
  const place = (): void => {
    const passedOver = new Set<string>();
    for (let index = 0; index < waiting.length;) {
      const work = waiting[index] as Work;
      const { tenant_id, key } = work.job;
      const lease = passedOver.has(tenant_id) ? undefined : pool.find(tenant_id, key);
      if (lease) {
        waiting.splice(index, 1);
        assign(lease, work);
      } else {
        passedOver.add(tenant_id);
        index += 1;
      }
    }
    pool.tend();
  };

  const cpuLimitOf = ({ isCheck }: Work): number => (isCheck ? Math.min(limits.cpuMs, CHECK_CPU_MS) : limits.cpuMs);

  const assign = (lease: Lease<Work>, work: Work): void => {
    const { job, id } = work;
    clearTimeout(work.timer);
    const wallMs = work.isCheck ? Math.min(limits.wallMs, CHECK_WALL_MS) : limits.wallMs;
    const cpuMs = cpuLimitOf(work);
    const hasNewIsolate = work.isCheck || options.isolation === 'isolate' || !lease.loaded.has(job.key);
    pool.begin(lease, cpuMs, hasNewIsolate);
    lease.works.set(id, work);
    work.startedAt = performance.now();
    work.timer = setTimeout(() => overdue(lease, work), wallMs + KILL_AFTER_MS);
    const head = {
      limits: {
        wall_ms: wallMs,
        cpu_ms: cpuMs,
        memory_mb: limits.memoryMb,
        output_bytes_max: limits.outputBytesMax,
      },
      key: job.key,
      isolation: options.isolation,
    };
    if (work.isCheck) return lease.executor.send(encodeFrame(frameKinds.CHECK, id, head, job.code));
    if (!lease.loaded.delete(job.key)) load(lease, job);
    lease.loaded.add(job.key);
    lease.executor.send(encodeFrame(frameKinds.INVOKE, id, head, job.input));
  };

  const load = ({ executor, loaded, works }: Lease<Work>, { key, code }: Job): void => {
    if (loaded.size >= CODES_MAX) {
      const used = new Set([...works.values()].map(({ job }) => job.key));
      const least = [...loaded].find((other) => !used.has(other));
      if (least !== undefined) {
        loaded.delete(least);
        executor.send(encodeFrame(frameKinds.UNLOAD, 0, { key: least }));
      }
    }
    executor.send(encodeFrame(frameKinds.LOAD, 0, { key, memory_mb: limits.memoryMb }, code));
  };

  const overdue = (lease: Lease<Work>, work: Work): void => {
    lease.works.delete(work.id);
    breaker.countDeath(nameOf(work.job));
    finish(work, { code: 'TIMEOUT_WALL' });
    pool.end(lease, 'deadline');
  };

  const receive = (lease: Lease<Work>, frame: Frame): void => {
    // Ended already: what it still says is not heard.
    if (lease.death) return;
    try {
      const work = lease.works.get(frame.id);
      if (!work) throw new ProtocolError('a frame is about no run of this executor');
      if (frame.kind === frameKinds.DONE) done(lease, work, frame);
      else if (frame.kind === frameKinds.CALL) call(lease, work, frame);
      else throw new ProtocolError('a frame is of no kind that an executor sends');
    } catch (error) {
      violate(lease, error instanceof ProtocolError ? error.message : 'a frame could not be read');
    }
  };

  const done = (lease: Lease<Work>, work: Work, { head, body }: Frame): void => {
    const { ok, cpu_ms, is_stuck, logs } = parseHead(doneHead, head);
    const result = ok ? readResult(work, body) : parseFault(body);
    lease.works.delete(work.id);
    const fault = 'code' in result ? result.code : undefined;
    const isTimeout = fault?.startsWith('TIMEOUT') ?? false;
    // What it left of its limit is nobody else's. After a time-out its last slice may still be going on.
    if (!isTimeout) lease.cpuAllowedMs -= Math.max(0, cpuLimitOf(work) - cpu_ms);
    // After these its isolate is not what it was: nothing new comes here.
    if (isTimeout || fault === 'OUT_OF_MEMORY' || fault === 'ROOM_GONE') lease.isRetired = true;
    if (fault === undefined) breaker.forget(nameOf(work.job));
    if ('code' in result && result.code === 'ROOM_GONE') retry(work);
    else finish(work, result, logs, cpu_ms);
    if (is_stuck) {
      breaker.countDeath(nameOf(work.job));
      pool.end(lease, 'stuck');
    } else if (lease.works.size === 0) pool.rest(lease);
    place();
  };

  const readResult = (work: Work, body: string): Result => {
    if (work.isCheck) return { value: undefined };
    if (Buffer.byteLength(body) > limits.outputBytesMax) return { code: 'OUTPUT_TOO_LARGE' };
    const told = parseBody(body);
    return 'value' in told ? told : { code: 'THROWN', message: `The result ${told.problem}.` };
  };

  const call = (lease: Lease<Work>, work: Work, { head, body }: Frame): void => {
    const { call: callId, kind } = parseHead(callHead, head);
    if (work.calls.has(callId)) throw new ProtocolError('a call has the number of another');
    work.calls.add(callId);
    if (work.calls.size > CALLS_MAX) throw new ProtocolError('a run makes more calls than it may');
    const told = parseBody(body, CALL_VALUES_MAX);
    const { signal } = (work.aborter ??= new AbortController());
    const settle = (ok: boolean, json: string): void => {
      // After the end nobody waits for it.
      if (lease.works.get(work.id) !== work) return;
      if (Buffer.byteLength(json) > FRAME_BODY_BYTES_MAX) return settle(false, TOO_LARGE);
      lease.executor.send(encodeFrame(frameKinds.SETTLE, work.id, { call: callId, ok }, json));
    };
    const { promise: sent, resolve: markSent } = Promise.withResolvers<void>();
    const answer = async (): Promise<[boolean, () => string]> => {
      if ('problem' in told) return [false, () => JSON.stringify(invalid(told.problem))];
      try {
        const value = await work.job.answerCall({ kind, input: told.value, signal, sent });
        return [true, () => JSON.stringify(value) ?? 'null'];
      } catch (error) {
        return [false, () => JSON.stringify(faultOf(error))];
      }
    };
    void answer()
      .then(async ([ok, text]) => {
        // Text is made when there is room for it, one answer after another.
        await lease.executor.hasRoom();
        if (lease.works.get(work.id) === work) settle(ok, text());
      })
      // A value that cannot be written out, such as one nested 100,000 deep, is a call that failed.
      .catch((error: unknown) => settle(false, JSON.stringify(faultOf(error))))
      .finally(markSent);
  };

  const refusalOf = (job: Job): RunFault | undefined => {
    if (isDraining || runsOfAll >= ALL_RUNS_MAX) return busy('all');
    if ((tenantRuns.get(job.tenant_id) ?? 0) >= TENANT_RUNS_MAX) return busy('tenant');
    const waitMs = breaker.waitMs(nameOf(job));
    return waitMs > 0 ? busy('tenant', Math.ceil(waitMs / 1000)) : undefined;
  };

  const newWork = (job: Job, isCheck: boolean, settle: Work['settle']): Work => {
    const id = nextId;
    // A frame's id has 32 bits.
    nextId = nextId >= 0xffff_ffff ? 1 : nextId + 1;
    const calls = new Set<number>();
    return { id, job, isCheck, deaths: 0, calls, aborter: undefined, startedAt: 0, timer: undefined, settle };
  };

  const submit = async (job: Job, isCheck: boolean): Promise<Outcome> => {
    const refusal = refusalOf(job);
    if (refusal) return { ok: false, fault: refusal, ...none };
    const { tenant_id } = job;
    tenantRuns.set(tenant_id, (tenantRuns.get(tenant_id) ?? 0) + 1);
    runsOfAll += 1;
    try {
      await pool.start();
      if (pool.wall?.kind === 'none' && !options.allowWeak) return { ok: false, fault: { code: 'NO_WALL' }, ...none };
      return await new Promise<Outcome>((settle) => {
        enqueue(newWork(job, isCheck, settle));
        place();
      });
    } finally {
      runsOfAll -= 1;
      const left = (tenantRuns.get(tenant_id) ?? 1) - 1;
      if (left > 0) tenantRuns.set(tenant_id, left);
      else tenantRuns.delete(tenant_id);
      if (runsOfAll === 0) for (const resolve of drained.splice(0)) resolve();
    }
  };

  /** Whoever still waits is told to come again; runs under way go on. */
  const drain = (): Promise<void> => {
    isDraining = true;
    for (const work of waiting.splice(0)) finish(work, busy('all'));
    return runsOfAll === 0 ? Promise.resolve() : new Promise((resolve) => drained.push(resolve));
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
      [...pool.leases].map(({ executor, tenant_id, works }) => ({ pid: executor.pid, tenant_id, runs: works.size })),
    run: (job) => submit(job, false),
    check: async (tenant_id, code) => {
      const answerCall = () => Promise.reject(new CallFault('NOT_ALLOWED', 'Code that is checked calls nothing.'));
      // All checks of a tenant have one name: whoever saves code that ends its executors waits before saving more.
      const outcome = await submit({ tenant_id, code, key: 'check', input: '', answerCall }, true);
      return outcome.ok ? undefined : outcome.fault;
    },
    drain,
    close: async () => {
      const ended = drain();
      await pool.close();
      await ended;
    },
  };
};
