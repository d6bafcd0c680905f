// What the rest of the house knows of the sandbox: jobs in, outcomes out, and the calls that running code makes back.
// Nothing here runs anything; supervisor.ts does.

import type { Account } from '../../accounts.ts';

/** The limits of a run. All come from the configuration. */
export type RunLimits = {
  /** From the moment the job is sent to an executor. */
  wallMs: number;
  /** CPU time of the code, over all its slices. */
  cpuMs: number;
  memoryMb: number;
  outputBytesMax: number;
};

/** An executor is killed above so much: the limit of its isolate, with Node and a few other isolates beside it. */
const EXECUTOR_MB_LEAST = 300;
const BESIDE_ISOLATE_MB = 172;

/** @param memoryMb the limit of an isolate. */
export const executorMbMax = (memoryMb: number): number => Math.max(EXECUTOR_MB_LEAST, memoryMb + BESIDE_ISOLATE_MB);

/** Two executors that use all they may: with less, two tenants could not run code at the same time. */
export const memoryTotalMbLeast = (memoryMb: number): number => 2 * executorMbMax(memoryMb);

/** Bytes of JSON into a run, out of it, and in one body of its calls. */
export const RUN_BYTES_MAX = 5 * 1024 * 1024;
/**
 * Calls of one run. The executor counts, so that the code gets an error; the server counts again, since an executor may have
 * been taken over.
 */
export const FETCHES_MAX = 50;
export const SERVICE_CALLS_MAX = 200;

/** A call that running code makes: `fetch`, or `svc:` with the name of a method. */
export type Call = {
  kind: string;
  /** Parsed from hostile JSON: check every property. */
  input: unknown;
  /** Aborted when the run is over, however it ended: what is still under way must stop. */
  signal: AbortSignal;
  /** Resolved when the answer has left for the executor, or the run has ended: until then the answer takes memory in the server. */
  sent: Promise<void>;
};

/** A call that failed, in words that the tenant's code may see. Anything else that is thrown becomes an error without words. */
export class CallFault extends Error {
  override readonly name = 'CallFault';
  readonly code: string;
  readonly status: number | undefined;
  constructor(code: string, message: string, status?: number) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

export type Job = {
  tenant_id: string;
  /**
   * The application that the code acts as. An executor runs the code of one application of one tenant, or a tenant's code
   * without one: code that breaks out of V8 gets no rights of another application.
   */
  application_id: string | undefined;
  /** The account that the run is counted on; the tenant's if absent. */
  account?: Account | undefined;
  code: string;
  /** Names the code and its configuration: equal for the same of both, of one tenant, and for nothing else. */
  key: string;
  /** JSON text of `{args, configuration, has_svc}`: what the code's function gets. */
  input: string;
  /** Answers the code's calls: a value that JSON can hold. @throws CallFault. */
  answerCall: (call: Call) => Promise<unknown>;
  /** Reserves memory for the result before it is parsed. @throws too_many_requests; unavailable. */
  reserveBytes?: ((bytes: number) => void) | undefined;
  /** Aborted when nobody waits for the result any more: the run ends. */
  signal?: AbortSignal | undefined;
};

/** An SDK error that the code threw, as it crossed: bounded and of this shape, its words the tenant's own. */
export type ThrownSdkError = { class: string; status: number; detail: string; errors: Record<string, string[]> };

/** A CustomHttpResponseError that the code threw. */
export type ThrownResponse = { status: number; headers: Record<string, string>; body?: unknown };

export type RunFault =
  /** Anything that code throws but the SDK's errors; also a result that is no JSON. `line` and `column` are of the author's file. */
  | {
      code: 'THROWN';
      message: string;
      name?: string | undefined;
      line?: number | undefined;
      column?: number | undefined;
    }
  | { code: 'SDK_ERROR'; error: ThrownSdkError; line?: number | undefined; column?: number | undefined }
  | { code: 'RESPONSE'; response: ThrownResponse }
  /** It does not compile. */
  | { code: 'SYNTAX'; message: string; line?: number | undefined; column?: number | undefined }
  | { code: 'NO_FUNCTION' }
  | { code: 'TIMEOUT_WALL' | 'TIMEOUT_CPU' | 'OUT_OF_MEMORY' | 'OUTPUT_TOO_LARGE' | 'EXECUTOR_DIED' }
  /** The signal of the job was aborted. */
  | { code: 'CANCELLED' }
  /** Not run at all: no wall stands around executors, and the server may not do without. */
  | { code: 'NO_WALL' }
  /** Not run, or its result had no room. `tenant`: this tenant has its share; `all`: the server is full. */
  | { code: 'BUSY'; over: 'tenant' | 'all'; retryAfterSeconds: number };

export type LogLine = { level: 'debug' | 'log' | 'info' | 'warn' | 'error'; text: string };

export type RunReport = {
  /** Console output, clipped, card-like digits masked. */
  logs: LogLine[];
  wallMs: number;
  cpuMs: number;
  /** Whether it called out: something may have been done then, whatever came of the run. */
  hasCalled: boolean;
};

export type Outcome = RunReport &
  /** `bytes`: of the JSON of the value. */
  ({ ok: true; value: unknown; bytes: number } | { ok: false; fault: RunFault });

/** How executors are walled in: by bubblewrap with Landlock and seccomp in it, by these two alone, or by their process alone. */
export type WallKind = 'bwrap' | 'landlock' | 'none';

/** The wall that stands: its layers, as an operator reads them, and why there are no more. */
export type Wall = { kind: WallKind; name: string; causes: readonly string[] };

/** Why there is no wall, in words of one sentence. */
export const whyNoWall = ({ causes }: Pick<Wall, 'causes'>): string =>
  causes.length === 0 ? 'SANDBOX_JAIL=none asks for none' : causes.join('; ');

export type Sandbox = {
  /** Does the code compile, and does it export a function? Runs its top level on nothing. @throws as `run`. */
  check(tenant_id: string, code: string): Promise<RunFault | undefined>;
  /** @throws too_many_requests and unavailable, where the account has as many runs as it may. */
  run(job: Job): Promise<Outcome>;
  /** Undefined until the first executor has started. */
  readonly wall: Wall | undefined;
  /** Takes no new run from now on. @returns when the last one has ended. */
  drain(): Promise<void>;
  close(): Promise<void>;
};
