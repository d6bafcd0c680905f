// Who is calling, once that is known: everything the rules need to decide, and nothing that could identify a secret.
import type { AnswerRecord } from './answer-record.ts';
import type { KeptAnswer } from '../db/idempotency.ts';
import type { AccessRule } from './rules.ts';
import type { Permission } from './permissions.ts';

/** Where a request came from and what acts in it, by the names of the log's columns: part of every row it writes. */
export type RequestOrigin = {
  readonly trace_id?: string | undefined;
  readonly ip?: string | undefined;
  /** The reactor whose code acts, or for which tokens are opened. */
  readonly reactor_id?: string | undefined;
  /** The stored proxy likewise. */
  readonly proxy_id?: string | undefined;
};

export type Caller = {
  readonly tenant_id: string;
  readonly actor_id: string;
  readonly actor_type: 'application' | 'user';
  readonly permissions: ReadonlySet<Permission>;
  /** By priority, 1 first. */
  readonly rules: readonly AccessRule[];
  /** A member sees values masked until it asks for one. Its searches find any value: it may ask for each. */
  readonly findsAnyValue?: boolean;
  /** The tenant's setting: equal values share a token unless a request says otherwise. */
  readonly deduplicate_tokens: boolean;
  /** Undefined for work without a request, such as a command of the operator's. */
  readonly origin?: RequestOrigin | undefined;
  /** The hosts that it may send to through the proxy; undefined for any. */
  readonly allowed_hosts?: readonly string[] | undefined;
  /**
   * Where the request has an idempotency key: the answer of its deed, ready to be written in the transaction of the deed
   * (access/idempotency.ts). Undefined for every other request.
   */
  readonly keep?: (result: unknown) => KeptAnswer;
  /** Where the request has an idempotency key: notes what its answer rests on. */
  readonly record?: AnswerRecord;
  /**
   * Called once something was done that no transaction undoes: the request's answer is kept then, a failure too, for a
   * repeated request would do it again.
   */
  readonly keepAnyAnswer?: () => void;
};
