// The types and limits of the sandbox for the rest of the server: jobs, outcomes, and calls of running code.
// `host/supervisor.ts` implements it.

import type { Account } from '../../base/accounts.ts';

/** The limits of a run. All come from the configuration. */
export type RunLimits = {
  /** From the moment the job is sent to an executor. */
  wallMs: number;
  /** CPU time of the code, over all its slices. */
  cpuMs: number;
  memoryMb: number;
  outputBytesMax: number;
};

/** Memory at which an executor is killed: the limit of its isolate, plus Node and a few other isolates. */
const EXECUTOR_MB_LEAST = 300;
const BESIDE_ISOLATE_MB = 172;

/** @param memoryMb the limit of an isolate. */
export const executorMbMax = (memoryMb: number): number => Math.max(EXECUTOR_MB_LEAST, memoryMb + BESIDE_ISOLATE_MB);

/** Two executors at their limit: with less, two tenants could not run code at the same time. */
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
  /** Parsed from untrusted JSON: validate every property. */
  input: unknown;
  /** Aborted when the run is over: the call must stop. */
  signal: AbortSignal;
  /** When the time of the run is over, by `performance.now()`. */
  endsAtMs: number;
  /** Resolves when the result was sent to the executor or the run has ended. Until then the result takes memory in the server. */
  sent: Promise<void>;
};

/** A failed call, with a message that the tenant's code may see. Any other error reaches the code without its message. */
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
  /** Identifies code and configuration of a tenant: equal only if both are equal. */
  key: string;
  /** JSON text of `{args, configuration, has_svc, lost_body}`: what the code's function gets. */
  input: string;
  /** Handles a call of the code. Returns a JSON value. @throws CallFault. */
  answerCall: (call: Call) => Promise<unknown>;
  /** Reserves memory for the result before it is parsed. @throws too_many_requests; unavailable. */
  reserveBytes?: ((bytes: number) => void) | undefined;
  /** Aborted when the client has disconnected: the run ends. */
  signal?: AbortSignal | undefined;
  /** When the time of the run that waits for this one is over, by `performance.now()`. Its calls end before. */
  endsAtMs?: number;
};

/** An SDK error that the code threw, with limited size. Its texts come from the tenant's code. */
export type ThrownSdkError = { class: string; status: number; detail: string; errors: Record<string, string[]> };

/** A CustomHttpResponseError that the code threw. */
export type ThrownResponse = { status: number; headers: Record<string, string>; body?: unknown };

export type RunFault =
  /** Any error of code except the SDK's, or a result that is not JSON. `line` and `column` are of the author's file. */
  | {
      code: 'THROWN';
      message: string;
      name?: string | undefined;
      line?: number | undefined;
      column?: number | undefined;
    }
  | { code: 'SDK_ERROR'; error: ThrownSdkError; line?: number | undefined; column?: number | undefined }
  | { code: 'RESPONSE'; response: ThrownResponse }
  /** The code does not compile. */
  | { code: 'SYNTAX'; message: string; line?: number | undefined; column?: number | undefined }
  | { code: 'NO_FUNCTION' }
  | { code: 'TIMEOUT_WALL' | 'TIMEOUT_CPU' | 'OUT_OF_MEMORY' | 'OUTPUT_TOO_LARGE' | 'EXECUTOR_DIED' }
  /** The signal of the job was aborted. */
  | { code: 'CANCELLED' }
  /** Not run: executors have no isolation by the system, and the configuration requires it. */
  | { code: 'NO_WALL' }
  /** Not run, or no memory for the result. `tenant`: the tenant has reached its limit; `all`: the server is full. */
  | { code: 'BUSY'; over: 'tenant' | 'all'; retryAfterSeconds: number };

export type LogLine = { level: 'debug' | 'log' | 'info' | 'warn' | 'error'; text: string };

export type RunReport = {
  /** Console output, clipped, card-like digits masked. */
  logs: LogLine[];
  wallMs: number;
  cpuMs: number;
  /** Whether it made a call: the call may have had an effect even if the run failed. */
  hasCalled: boolean;
};

export type Outcome = RunReport &
  /** `bytes`: of the JSON of the value. */
  ({ ok: true; value: unknown; bytes: number } | { ok: false; fault: RunFault });

/** Isolation of executors: bubblewrap with Landlock and seccomp, these two alone, or only a process. */
export type WallKind = 'bwrap' | 'landlock' | 'none';

/** The isolation in use: its layers, for operators, and why there are no more. */
export type Wall = { kind: WallKind; name: string; causes: readonly string[] };

/** Why there is no isolation, as one sentence. */
export const whyNoWall = ({ causes }: Pick<Wall, 'causes'>): string =>
  causes.length === 0 ? 'SANDBOX_JAIL=none asks for none' : causes.join('; ');

export type Sandbox = {
  /** Checks that code compiles and exports a function. Runs its top level without input. @throws as `run`. */
  check(tenant_id: string, code: string): Promise<RunFault | undefined>;
  /** Runs code. @throws too_many_requests or unavailable if the account or the server has too many runs. */
  run(job: Job): Promise<Outcome>;
  /** Undefined until the first executor has started. */
  readonly wall: Wall | undefined;
  /** Refuses new runs, ends those under way. */
  close(): Promise<void>;
};
