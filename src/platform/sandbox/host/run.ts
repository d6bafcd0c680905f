// The state of a run in the server, from admission to outcome: its place in the queue, its calls and its result.
import type { Accounts } from '../../base/accounts.ts';
import { coreClock } from '../../base/core-time.ts';
import {
  callHead,
  type FaultHead,
  faultOfBody,
  maskLines,
  parseBodyInSlices,
  PARSED_AT_ONCE,
  type ParsedBody,
  parseHead,
} from './heads.ts';
import { runAtOnce, type Slices, stringifyInSlices } from '../../json/slices.ts';
import type { Lease, Owner } from './lease.ts';
import type { Pool } from './pool.ts';
import { encodeFrame, type Frame, FRAME_BODY_BYTES_MAX, frameKinds, ProtocolError } from '../protocol/frames.ts';
import {
  CallFault,
  FETCHES_MAX,
  type Job,
  type Outcome,
  type RunFault,
  SERVICE_CALLS_MAX,
} from '../protocol/sandbox.ts';
import { AppError } from '../../base/errors.ts';
import type { Operation } from '../../base/event-loop.ts';
import { RUN_WAIT_MS } from '../../base/times.ts';

// Handles calls of running code: checks size and number, parses the arguments, and sends the result back.

/** Calls of one run. A correct executor enforces the same limit. */
const CALLS_MAX = FETCHES_MAX + SERVICE_CALLS_MAX;
/** JSON values in the arguments of a call: headers of a request, or a body to tokenize. */
const CALL_VALUES_MAX = 25_000;
/** Bytes beside the body of a service call: names, an id. */
const BESIDE_BODY_BYTES = 1024;

/** The result of a call whose real result does not fit into a frame. */
const TOO_LARGE = JSON.stringify({ code: 'BODY_TOO_LARGE', message: 'The answer is larger than code may get.' });

const textOfFault = (error: unknown): string =>
  JSON.stringify(
    error instanceof CallFault
      ? { code: error.code, message: error.message, status: error.status }
      : { code: 'INTERNAL', message: 'The call failed.' },
  );

/** A refusal of the parser's turns: the sentence is public. */
const toFault = ({ code, message, status }: AppError): CallFault => new CallFault(code.toUpperCase(), message, status);

type CallOptions = {
  accounts: Pick<Accounts, 'runInTurns' | 'finishInTurns'>;
  /** Bytes of the body of a service call, as of a request to the API. */
  callBytesMax: number;
  violate(lease: Lease<Run>, reason: string): void;
  stop(run: Run, fault: RunFault): void;
};

export const createCalls = ({ accounts, callBytesMax, violate, stop }: CallOptions) => {
  /** Parses what is sent: at once, or in slices if it is large. @throws CallFault; ProtocolError; CpuSpent; too_many_requests. */
  const parse = (run: Run, kind: string, body: Buffer): ParsedBody | Promise<ParsedBody> => {
    const isApi = kind !== 'fetch' && kind !== 'svc:proxy';
    if (isApi && body.length > callBytesMax + BESIDE_BODY_BYTES)
      throw new CallFault('PAYLOAD_TOO_LARGE', `What is sent must be at most ${callBytesMax} bytes.`, 413);
    const slices = charged(run, parseBodyInSlices(body, CALL_VALUES_MAX));
    return body.length <= PARSED_AT_ONCE ? runAtOnce(slices) : accounts.runInTurns(accountOf(run.job), slices);
  };

  const lastOf = new WeakMap<Lease<Run>['executor'], Promise<void>>();
  /** Results for one executor are written one after another: each may be megabytes. */
  const afterOthers = (lease: Lease<Run>, work: () => Promise<void>): Promise<void> => {
    const done = (lastOf.get(lease.executor) ?? Promise.resolve()).then(work);
    lastOf.set(
      lease.executor,
      done.catch(() => undefined),
    );
    return done;
  };

  /** @throws ProtocolError. */
  return (lease: Lease<Run>, run: Run, { head, body }: Frame): void => {
    const { call: callId, kind } = parseHead(callHead, head);
    if (run.calls.has(callId)) throw new ProtocolError('a call has the number of another');
    run.calls.add(callId);
    if (run.calls.size > CALLS_MAX) throw new ProtocolError('a run makes more calls than it may');
    const { signal } = (run.aborter ??= new AbortController());
    const settle = (ok: boolean, json: string): void => {
      // The run has ended: its code does not wait for the answer.
      if (lease.runs.get(run.id) !== run) return;
      if (Buffer.byteLength(json) > FRAME_BODY_BYTES_MAX) return settle(false, TOO_LARGE);
      lease.executor.send(encodeFrame(frameKinds.SETTLE, run.id, { call: callId, ok }, json));
    };
    const { promise: sent, resolve: markSent } = Promise.withResolvers<void>();
    const answer = async (): Promise<[boolean, () => string | Promise<string>]> => {
      try {
        const parsing = parse(run, kind, body);
        const parsed = parsing instanceof Promise ? await parsing : parsing;
        if ('problem' in parsed) throw new CallFault('INVALID_INPUT', `What is sent ${parsed.problem}.`);
        const value = await run.job.answerCall({ kind, input: parsed.value, signal, sent, endsAtMs: run.endsAtMs });
        return [true, () => accounts.finishInTurns(accountOf(run.job), stringifyInSlices(value))];
      } catch (error) {
        if (error instanceof ProtocolError) violate(lease, error.message);
        if (error instanceof CpuSpent) stop(run, { code: 'TIMEOUT_CPU' });
        if (error instanceof AppError) return [false, () => textOfFault(toFault(error))];
        return [false, () => textOfFault(error)];
      }
    };
    void answer()
      .then(([ok, text]) =>
        afterOthers(lease, async () => {
          // When the executor has read enough of the earlier ones.
          await lease.executor.hasRoom();
          if (lease.runs.get(run.id) === run) settle(ok, await text());
        }),
      )
      // A value that cannot be serialised, such as one nested 100,000 deep, fails the call.
      .catch((error: unknown) => settle(false, textOfFault(error)))
      .finally(markSent);
  };
};

// Parses what runs return or throw. Large results are parsed in slices, and their memory is reserved first.

type ResultOptions = {
  accounts: Pick<Accounts, 'runInTurns'>;
  outputBytesMax: number;
};

const resultOf = (ok: boolean, bytes: number, parsed: ParsedBody): Result => {
  if (!ok) return faultOfBody(parsed);
  return 'value' in parsed
    ? { value: parsed.value, bytes }
    : { code: 'THROWN', message: `The result ${parsed.problem}.` };
};

export const createResults = ({ accounts, outputBytesMax }: ResultOptions) => ({
  /** For small bodies. @throws ProtocolError. */
  parse: (run: Run, ok: boolean, body: Buffer): Result => {
    if (run.isCheck && ok) return { value: undefined, bytes: 0 };
    try {
      return resultOf(ok, body.length, runAtOnce(charged(run, parseBodyInSlices(body))));
    } catch (error) {
      if (error instanceof CpuSpent) return { code: 'TIMEOUT_CPU' };
      throw error;
    }
  },
  /** The run has left its executor, which goes on with others. @throws ProtocolError. */
  parseInTurns: async (run: Run, ok: boolean, body: Buffer): Promise<Result> => {
    const bytes = body.length;
    if (ok && bytes > outputBytesMax) return { code: 'OUTPUT_TOO_LARGE' };
    try {
      run.job.reserveBytes?.(bytes);
      return resultOf(ok, bytes, await accounts.runInTurns(accountOf(run.job), charged(run, parseBodyInSlices(body))));
    } catch (error) {
      if (error instanceof CpuSpent) return { code: 'TIMEOUT_CPU' };
      if (error instanceof AppError && error.code === 'payload_too_large') return { code: 'TIMEOUT_CPU' };
      if (error instanceof AppError) return busy(error.code === 'too_many_requests' ? 'tenant' : 'all');
      throw error;
    }
  },
});

/** `bytes`: of the JSON of the value. */
export type Result = FaultHead | RunFault | { value: unknown; bytes: number };

export type Run = {
  readonly id: number;
  readonly job: Job;
  readonly isCheck: boolean;
  /** The request that started it. */
  readonly operation: Operation | undefined;
  readonly cpuMsMax: number;
  readonly inputBytes: number;
  /** How often its executor or isolate has ended under it. */
  deaths: number;
  /** It may have ended one: no other run is beside it. */
  isAlone: boolean;
  /** Numbers of its calls so far, finished or not. */
  readonly calls: Set<number>;
  /** Aborts running calls when the run is over. Created with the first call, because most runs make none. */
  aborter: AbortController | undefined;
  /** CPU time that the server used to parse its frames. */
  serverMs: number;
  startedAt: number;
  /** When its time is over. */
  endsAtMs: number;
  /** The timeout in the queue, then the time limit of the run. */
  timer: NodeJS.Timeout | undefined;
  /** The outcome is known. A cancelled run may still be in its executor. */
  isOver: boolean;
  settle(outcome: Outcome): void;
};

export const noReport = { logs: [], wallMs: 0, cpuMs: 0, hasCalled: false };

const RETRY_AFTER_SECONDS = 1;

export const busy = (over: 'tenant' | 'all', retryAfterSeconds = RETRY_AFTER_SECONDS): RunFault => ({
  code: 'BUSY',
  over,
  retryAfterSeconds,
});

/** Names the code of a run, for the breaker. */
export const nameOf = ({ tenant_id, key }: Job): string => `${tenant_id} ${key}`;

/** The account whose limits a run counts for. */
export const accountOf = ({ tenant_id, account = tenant_id }: Job): string => account;

/** Does nothing for a run that is over. */
export const finish = (run: Run, made: Result, logs: Outcome['logs'] = [], cpuMs = 0): void => {
  if (run.isOver) return;
  run.isOver = true;
  run.aborter?.abort();
  const usedMs = cpuMs + run.serverMs;
  const result: RunFault | { value: unknown; bytes: number } =
    'code' in made && made.code === 'ISOLATE_GONE'
      ? { code: 'EXECUTOR_DIED' }
      : !('code' in made) && usedMs > run.cpuMsMax
        ? { code: 'TIMEOUT_CPU' }
        : made;
  const wallMs = run.startedAt === 0 ? 0 : performance.now() - run.startedAt;
  const report = { logs: maskLines(logs), wallMs, cpuMs: usedMs, hasCalled: run.calls.size > 0 };
  run.settle('code' in result ? { ok: false, fault: result, ...report } : { ok: true, ...result, ...report });
};

/** The run has used up its CPU time, including the time that the server parses for it. */
export class CpuSpent extends Error {
  override readonly name = 'CpuSpent';
}

/** Does work for a run and counts its time as CPU time of the run. @throws CpuSpent; what the work throws. */
export function* charged<T>(run: Run, slices: Slices<T>): Slices<T> {
  for (;;) {
    const began = performance.now();
    const waitedMs = coreClock.lastWaitedMs(began);
    const step = slices.next();
    run.serverMs += coreClock.usedSince(began, waitedMs, performance.now());
    if (run.serverMs > run.cpuMsMax) throw new CpuSpent();
    if (step.done) return step.value;
    yield;
  }
}

// Queues runs that wait for an executor, one queue for each owner. Tenants with the fewest executors are served first.

/** Runs that must be alone have a line of their own: the others do not wait behind them. */
type Line = { owner: Owner; runs: Run[] };

export type RunQueue = {
  add(run: Run): void;
  remove(run: Run): void;
  place(assign: (lease: Lease<Run>, run: Run) => void): void;
  /** Refuses waiting runs. @param isMeant all if absent. */
  refuse(fault: RunFault, isMeant?: (run: Run) => boolean): void;
  /** How many runs wait. */
  length(): number;
};

const keyOf = ({ job: { tenant_id, application_id = '' }, isAlone }: Run): string =>
  `${tenant_id} ${application_id} ${isAlone}`;

export const createQueue = (pool: Pick<Pool<Run>, 'find' | 'leases'>): RunQueue => {
  const lines = new Map<string, Line>();

  const executorsOf = (): Map<string | undefined, number> => {
    const counts = new Map<string | undefined, number>();
    for (const { owner } of pool.leases) if (owner) counts.set(owner.tenant_id, (counts.get(owner.tenant_id) ?? 0) + 1);
    return counts;
  };

  const remove = (run: Run): void => {
    const key = keyOf(run);
    const runs = lines.get(key)?.runs;
    const index = runs?.indexOf(run) ?? -1;
    // The timer of a run in an executor is its time limit: it holds for a run that is cancelled too.
    if (!runs || index < 0) return;
    clearTimeout(run.timer);
    runs.splice(index, 1);
    if (runs.length === 0) lines.delete(key);
  };

  return {
    add: (run) => {
      clearTimeout(run.timer);
      const { tenant_id, application_id } = run.job;
      const key = keyOf(run);
      const line = lines.get(key) ?? { owner: { tenant_id, application_id }, runs: [] };
      lines.set(key, line);
      line.runs.push(run);
      // A run that waits too long gets a response that asks the client to retry.
      run.timer = setTimeout(() => {
        remove(run);
        // The tenant's own runs fill its executors, or other tenants fill the memory.
        finish(run, busy(executorsOf().has(tenant_id) ? 'tenant' : 'all'));
      }, RUN_WAIT_MS);
    },
    remove,
    length: () => {
      let count = 0;
      for (const { runs } of lines.values()) count += runs.length;
      return count;
    },
    place: (assign) => {
      if (lines.size === 0) return;
      const counts = executorsOf();
      const countOf = ({ owner }: Line): number => counts.get(owner.tenant_id) ?? 0;
      for (const line of [...lines.values()].toSorted((a, b) => countOf(a) - countOf(b)))
        for (let run = line.runs[0]; run; run = line.runs[0]) {
          const { job, inputBytes, isAlone } = run;
          const lease = pool.find(line.owner, { key: job.key, inputBytes, isAlone });
          if (!lease) break;
          remove(run);
          assign(lease, run);
        }
    },
    refuse: (fault, isMeant = () => true) => {
      for (const run of [...lines.values()].flatMap(({ runs }) => runs.filter(isMeant))) {
        remove(run);
        finish(run, fault);
      }
    },
  };
};
