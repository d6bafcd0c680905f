// Records what happens to one run of code, or to one proxied request, and writes its end. Nothing waits for that: where it cannot be
// written, the run becomes `unknown`.
import { MINUTE_MS } from '../../platform/base/times.ts';
import { type Actor, failedRows, type LogRow, maskHost } from '../../platform/db/audit-record.ts';
import { insertLogs } from '../../platform/db/audit-rows.ts';
import type { Query } from '../../platform/db/statements.ts';
import { type NewRun, type RunKind, runKinds, runOutcomes } from '../../platform/db/run-rows.ts';
import { EgressFault } from '../../platform/base/egress-fault.ts';
import { AppError } from '../../platform/base/errors.ts';
import type { Platform } from '../../platform/services/platform.ts';
import { CallFault, type Outcome, type RunFault } from '../../platform/sandbox/protocol/sandbox.ts';
import {
  type Ending,
  endingOfError,
  endingOfFault,
  isFailure,
  isOfDestination,
  nameOfError,
  nameOfFault,
  outcomeOf,
} from './outcome.ts';

export type RunsContext = Pick<Platform, 'db' | 'log' | 'metrics' | 'now' | 'newLogId' | 'monotonicMs'>;

export type RunAbout = {
  tenant_id: string;
  kind: RunKind;
  /** Undefined for a request that names its destination. */
  resource_id?: string | undefined;
  version?: string | undefined;
};

/** A line beyond is no line of code that the vault takes. */
const LINE_MAX = 1_000_000;

/** The end of a sentence, which a message in parentheses lacks. */
const FULL_STOP = /\.$/;

/** Refused requests of a tenant that one process records in a minute: a client in a loop does not fill the table. */
export const REFUSED_RUNS_PER_MINUTE_MAX = 60;

type Minute = { minute: number; counts: Map<string, number> };

const minutes = new WeakMap<RunsContext['db'], Minute>();

const mayWriteRefused = ({ db, monotonicMs }: RunsContext, tenant_id: string): boolean => {
  const minute = Math.floor(monotonicMs() / MINUTE_MS);
  const known = minutes.get(db);
  const counts = known?.minute === minute ? known.counts : new Map<string, number>();
  const count = (counts.get(tenant_id) ?? 0) + 1;
  minutes.set(db, { minute, counts: counts.set(tenant_id, count) });
  return count <= REFUSED_RUNS_PER_MINUTE_MAX;
};

/** There from the start: an alert compares with what was before. */
export const countNoRuns = ({ metrics }: Pick<RunsContext, 'metrics'>): void => {
  for (const kind of runKinds)
    for (const outcome of runOutcomes) metrics.count('strongroom_runs_total', { kind, outcome }, 0);
};

export class Run {
  readonly #ctx: RunsContext;
  readonly #about: RunAbout;
  readonly #actor: Actor;
  readonly #id: string;
  readonly #beganMs: number;
  /** The log rows of its beginning, once they are written. */
  #rows: readonly LogRow[] = [];
  #ending: Ending | undefined;
  #error: string | null = null;
  #line: number | null = null;
  #cpuMs: number | null = null;
  #host: string | null = null;
  #destinationStatus: number | null = null;
  readonly #failedCalls: string[] = [];
  #echoes = 0;
  #isFailureLogged = false;
  #isEnded = false;

  constructor(ctx: RunsContext, actor: Actor, about: RunAbout) {
    this.#ctx = ctx;
    this.#actor = actor;
    this.#about = about;
    this.#id = ctx.newLogId(ctx.now());
    this.#beganMs = ctx.monotonicMs();
  }

  /** It is a dry run: nothing runs, and no end is recorded. */
  leave(): void {
    this.#isEnded = true;
  }

  /**
   * Writes the log rows of its beginning, of which one begins the run in the same statement. Resolves after commit.
   * @param count runs in the transaction of the rows: what it throws leaves nothing written. @throws unavailable.
   */
  begin = async (rows: readonly LogRow[], count?: (query: Query) => Promise<void>): Promise<void> => {
    const [first, ...others] = rows;
    if (!first) return;
    const { db } = this.#ctx;
    const run = this.#record({ what: 'died' }, null, rows);
    const begun = db.logMacs.signBegun(this.#about.tenant_id, { run, log_ids: rows.map(({ id }) => id) });
    const logs = [{ ...first, run: begun }, ...others];
    const own = db.for(this.#about);
    await (count
      ? own.transaction(async (query) => {
          await count(query);
          await insertLogs(
            query,
            own.tenant_id,
            logs.map((row) => db.logMacs.sign(own.tenant_id, row)),
          );
        })
      : own.insertLogs(logs));
    this.#rows = rows;
  };

  /** A request is being sent to a destination. */
  sending(host: string): void {
    this.#host = maskHost(host);
    this.#destinationStatus = null;
  }

  destinationAnswered(status: number): void {
    this.#destinationStatus = status;
  }

  /** The echo guard found so many values in the response. */
  echoed(count: number): void {
    this.#echoes += count;
  }

  /** A call of its code failed. The code may catch that. */
  callFailed(fault: CallFault): void {
    if (isOfDestination(fault)) this.#failedCalls.push(fault.message.replace(FULL_STOP, ''));
  }

  ran({ cpuMs }: Pick<Outcome, 'cpuMs'>): void {
    this.#cpuMs = Math.round(cpuMs * 10) / 10;
  }

  /** @param status of the response that is made of the fault. */
  codeFailed(fault: RunFault, status: number): void {
    this.#ending = endingOfFault(fault, status, this.#failedCalls);
    this.#error = nameOfFault(fault);
    const line = 'line' in fault ? fault.line : undefined;
    this.#line = line !== undefined && Number.isInteger(line) && line > 0 && line < LINE_MAX ? line : null;
  }

  /** What the caller sent is at fault, whatever the code made of it. */
  refused(): void {
    this.#ending = { what: 'refused' };
  }

  /** Ends as the run of one of its transforms. */
  follow(run: Run): void {
    this.#ending = run.#ending;
    this.#error = run.#error;
    this.#line = run.#line;
  }

  /** Writes the second rows of the log: what was to be done with the values was not. */
  async logFailure(): Promise<void> {
    if (this.#isFailureLogged || this.#rows.length === 0) return;
    await this.#ctx.db.for(this.#about).insertLogs(failedRows(this.#ctx, this.#rows));
    this.#isFailureLogged = true;
  }

  /** The body of the response could not be sent to its end: by the destination, or else because the caller left. */
  brokenOff(status: number, error: unknown): void {
    const isOfDestination = error instanceof EgressFault;
    this.#end(isOfDestination ? endingOfError(error) : { what: 'left' }, status, isOfDestination ? error.code : null);
  }

  /** Ends with a response to the caller. */
  answered(status: number | undefined): void {
    const answer = this.#destinationStatus;
    const isForwarded = this.#about.kind === 'proxy' && answer !== null;
    this.#end(
      this.#ending ?? (isForwarded ? { what: 'destination', status: answer } : { what: 'returned' }),
      status ?? null,
    );
  }

  /** @param error before it was made the error of the response. */
  failed(error: unknown, answered: unknown = error): void {
    const ending = this.#ending ?? endingOfError(error);
    const hasStatus = answered instanceof AppError || answered instanceof CallFault;
    const status = ending.what === 'left' ? undefined : hasStatus ? answered.status : 500;
    this.#end(ending, status ?? null, nameOfError(error));
  }

  /** Ends with what the work returns or throws. */
  async through<T>(statusOf: (made: T) => number | undefined, work: () => Promise<T>): Promise<T> {
    try {
      const made = await work();
      this.answered(statusOf(made));
      return made;
    } catch (error) {
      this.failed(error);
      throw error;
    }
  }

  #end(ending: Ending, status: number | null, error: string | null = null): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#ending = ending;
    this.#error ??= error;
    const ended = this.#record(ending, status);
    this.#ctx.metrics.count('strongroom_runs_total', { kind: ended.kind, outcome: ended.outcome });
    this.#countUsage(ended);
    // What was refused before it began is bounded, as the rows of refusals in the log are.
    if (this.#rows.length === 0 && ended.outcome === 'refused' && !mayWriteRefused(this.#ctx, this.#about.tenant_id))
      return;
    const write = async (): Promise<void> => {
      // The log first: of a run without an end, the sweep writes the rows that are missing.
      if (isFailure(ended.outcome)) await this.logFailure();
      await this.#ctx.db.for(this.#about).insertRuns([ended], this.#ctx.now());
    };
    // The response goes first.
    this.#ctx.db.later(() =>
      write().catch((cause: unknown) => this.#ctx.log.warn({ error: cause }, 'the end of a run could not be written')),
    );
  }

  #countUsage({ outcome, token_ids, duration_ms }: NewRun): void {
    const { usage } = this.#actor;
    if (outcome === 'success') return;
    usage?.count(isFailure(outcome) ? 'failed' : 'refused', token_ids ?? []);
    // There is no response whose end would be heard.
    if (outcome === 'cancelled') usage?.finish(duration_ms ?? 0);
  }

  #record(ending: Ending, status: number | null, rows = this.#rows): NewRun {
    const { kind, resource_id, version } = this.#about;
    const outcome = outcomeOf(ending);
    const token_ids = rows.flatMap(({ disclosure, entity_ids }) => (disclosure === 'used' ? entity_ids : []));
    const isOver = ending.what !== 'died';
    return {
      id: this.#id,
      kind,
      resource_id: resource_id ?? null,
      version: version ?? null,
      actor_id: this.#actor.actor_id,
      actor_type: this.#actor.actor_type,
      outcome,
      status,
      duration_ms: isOver ? Math.round(this.#ctx.monotonicMs() - this.#beganMs) : null,
      cpu_ms: this.#cpuMs,
      error: outcome === 'success' ? null : this.#error,
      line: this.#line,
      destination_host: this.#host,
      destination_status: this.#destinationStatus,
      trace_id: this.#actor.origin?.trace_id ?? null,
      token_ids: token_ids.length > 0 ? token_ids : null,
      echoes: this.#echoes > 0 ? this.#echoes : null,
    };
  }
}
