// A unit of work: the caller and origin of one request, and the way to the rows of its tenant.
import type { LoggedToken, RequestOrigin, Usage } from '../../platform/db/audit-record.ts';
import type { NewLog } from '../../platform/db/audit-rows.ts';
import type { TenantDatabase } from '../../platform/db/database.ts';
import {
  type KeptAnswer,
  type PrismaTransaction,
  runPrismaTransaction,
  runTransaction,
  type Transaction,
} from '../../platform/db/transaction.ts';
import type { Json } from '../../platform/json/json.ts';
import type { QuotaState } from '../../platform/http/answers.ts';
import { badRequest } from '../../platform/base/errors.ts';
import type { Platform } from '../../platform/services/platform.ts';
import type { AnswerRecord } from './answer-record.ts';
import type { Caller } from './caller.ts';
import type { RevealReason } from './reveal-reason.ts';

/** Keeps the answer of a request whose idempotency key is claimed. */
export type Keeping = {
  /** Makes the answer to be kept from the result of the operation, for the transaction of the operation. */
  keep(result: unknown): KeptAnswer;
  /** The request had an effect that no transaction rolls back: its answer is kept whatever it is, a failure too. */
  keepAnyAnswer(): void;
};

export type NoteOpened = (id: string, data: Json) => void;

type Services = Pick<Platform, 'db' | 'changes'>;

type Details = {
  /** Undefined for work without a request, such as an operator's command. */
  origin?: RequestOrigin | undefined;
  /** Records the decisions behind the answer, where it is kept for a replay. */
  record?: AnswerRecord | undefined;
  keeping?: Keeping | undefined;
  /** Told what is left of the caller's limits, for the headers of the answer. */
  reportLimit?: ((state: QuotaState) => void) | undefined;
  /** Told what may be a mistake of the request, for a header of the answer. */
  warn?: ((sentence: string) => void) | undefined;
  /** Counts what the request does. */
  usage?: Usage | undefined;
  /** Told of the data of each token that is opened, for the echo guard. Undefined where no answer is searched for it. */
  noteOpened?: NoteOpened | undefined;
  /** Takes tokens whose values were not shown, to be logged together with others of a page. Undefined where each read is logged. */
  gather?: ((tokens: readonly LoggedToken[]) => void) | undefined;
  /** Throws: the caller must prove again who they are before something sensitive. Undefined where they need not. */
  refuseStale?: (() => never) | undefined;
  /** Why a member wants to see values. */
  reason?: RevealReason | undefined;
};

/** Reads as an `Actor` of the log: it has the actor's id and type, the origin and the record. */
export class Work {
  readonly caller: Caller;
  readonly origin: RequestOrigin | undefined;
  readonly record: AnswerRecord | undefined;
  readonly #keeping: Keeping | undefined;
  readonly #reportLimit: Details['reportLimit'];
  readonly #warn: Details['warn'];
  readonly usage: Details['usage'];
  readonly gather: Details['gather'];
  readonly noteOpened: Details['noteOpened'];
  readonly #refuseStale: Details['refuseStale'];
  readonly #reason: Details['reason'];
  readonly #services: Services;
  #db: TenantDatabase | undefined;

  constructor(services: Services, caller: Caller, details: Details = {}) {
    const { origin, record, keeping, reportLimit, warn, usage, gather, noteOpened, refuseStale, reason } = details;
    this.#services = services;
    this.caller = caller;
    this.origin = origin;
    this.record = record;
    this.#keeping = keeping;
    this.#reportLimit = reportLimit;
    this.#warn = warn;
    this.usage = usage;
    this.gather = gather;
    this.noteOpened = noteOpened;
    this.#refuseStale = refuseStale;
    this.#reason = reason;
  }

  get tenant_id(): string {
    return this.caller.tenant_id;
  }

  get actor_id(): string {
    return this.caller.actor_id;
  }

  get actor_type(): Caller['actor_type'] {
    return this.caller.actor_type;
  }

  /** Whether the answer is kept in the transaction of the operation, which must then be one of its own. */
  get keepsAnswer(): boolean {
    return this.#keeping !== undefined;
  }

  /** The rows of the tenant, for statements that stand alone. */
  get db(): TenantDatabase {
    return (this.#db ??= this.#services.db.for(this.caller));
  }

  /** Appends rows of the log. Resolves after commit. @throws unavailable. */
  log(rows: readonly NewLog[]): Promise<void> {
    return this.db.insertLogs(rows);
  }

  /** All of the work or none. What it returns is the result whose answer is kept. @throws as runTransaction. */
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T> {
    return runTransaction(this.db, this.#services.changes, this.#keep, work);
  }

  /** Does the same as `transaction`, for tables that are not hot. */
  prismaTransaction<T>(work: (tx: PrismaTransaction) => Promise<T>): Promise<T> {
    return runPrismaTransaction(this.db, this.#services.changes, this.#keep, work);
  }

  get #keep(): ((result: unknown) => KeptAnswer) | undefined {
    const keeping = this.#keeping;
    return keeping && ((result) => keeping.keep(result));
  }

  keepAnyAnswer(): void {
    this.#keeping?.keepAnyAnswer();
  }

  reportLimit(state: QuotaState): void {
    this.#reportLimit?.(state);
  }

  /** Whether a client reads warnings of this work. */
  get canWarn(): boolean {
    return this.#warn !== undefined;
  }

  /** @param sentence in ASCII, without a value. */
  warn(sentence: string): void {
    this.#warn?.(sentence);
  }

  /**
   * Before what is sensitive by more than the permission of its route.
   * @throws StepUpNeeded where a member's second factor is old.
   */
  needFreshFactor(): void {
    this.#refuseStale?.();
  }

  /**
   * For the row of the log that comes before each value that is shown, so no way to a value passes by it.
   * @throws badRequest where the tenant asks members for a reason and there is none.
   */
  reasonToReveal(): RevealReason | undefined {
    if (this.#reason === undefined && this.caller.needs_reveal_reason)
      throw badRequest('This tenant asks for a reason before a value is shown. Nothing was shown.');
    return this.#reason;
  }

  /** The same work with rights of an operation that does for a caller what it may not do by itself. */
  withRights(rights: Pick<Caller, 'permissions' | 'rules'>): Work {
    return this.#make({ ...this.caller, ...rights }, {});
  }

  /** The same work with other details. */
  with(details: Details): Work {
    return this.#make(this.caller, details);
  }

  #make(caller: Caller, details: Details): Work {
    const { origin, record } = this;
    const own = {
      origin,
      record,
      keeping: this.#keeping,
      reportLimit: this.#reportLimit,
      warn: this.#warn,
      usage: this.usage,
      gather: this.gather,
      noteOpened: this.noteOpened,
      refuseStale: this.#refuseStale,
      reason: this.#reason,
    };
    return new Work(this.#services, caller, { ...own, ...details });
  }

  /** The work of another caller for the same request; its operations keep no answer of their own. */
  as(caller: Caller, origin = this.origin): Work {
    const { record, usage, noteOpened } = this;
    return new Work(this.#services, caller, { origin, record, usage, noteOpened, warn: this.#warn });
  }

  /** Does the same as `as`, for code with the rights of an application. */
  asCodeOf(application: Caller): Work {
    return this.as(application, { ...this.origin, code_application_id: application.actor_id });
  }

  /** Does the same as `as`, but the operations of the other caller keep the answer of this request. */
  actingFor({ caller, origin }: Work): Work {
    const { record, usage, noteOpened } = this;
    return new Work(this.#services, caller, { origin, record, usage, noteOpened, keeping: this.#keeping });
  }

  /** Operations keep what `answerOf` makes of their result, where the request's answer is kept. */
  answering(answerOf: (result: unknown) => unknown): Work {
    const keeping = this.#keeping;
    return keeping ? this.with({ keeping: { ...keeping, keep: (result) => keeping.keep(answerOf(result)) } }) : this;
  }
}

/** The operator's work in one tenant, all of it or none. No answer of it is kept. @throws as runTransaction. */
export const operatorTransaction = <T>(
  { db, changes }: Services,
  tenant_id: string,
  work: (tx: PrismaTransaction) => Promise<T>,
): Promise<T> => runPrismaTransaction(db.for({ tenant_id }), changes, undefined, work);

/**
 * The work of the operator's import: it may create tokens in every container. `createTokens` writes the operator as the
 * actor; the id of this caller is no UUID, so that no row can be written with it by mistake.
 */
export const operatorCreates = (
  services: Services,
  tenant_id: string,
  { allows_absent_paths, warn }: { allows_absent_paths: boolean; warn: (sentence: string) => void },
): Work => {
  const caller: Caller = {
    tenant_id,
    actor_id: 'operator',
    actor_type: 'user',
    permissions: new Set(['token:create']),
    rules: [],
    deduplicate_tokens: false,
    allows_absent_paths,
  };
  return new Work(services, caller, { warn });
};
