// Types of a proxy request and its response.
import type { Account } from '../../platform/base/accounts.ts';
import type { Work } from '../access/work.ts';
import type { CodedTexts } from '../tokens/expressions/expansion.ts';
import type { RequestOrigin, Usage } from '../../platform/db/audit-record.ts';
import type { EgressResponse } from '../../platform/egress/client.ts';
import type { Headers } from '../../platform/egress/headers.ts';
import type { ForwardRow } from '../runs/forward-rows.ts';
import type { Run } from '../runs/run.ts';
import type { IncomingBody } from './bodies/take-body.ts';

/** A request to the proxy, as received. */
export type ProxyRequest = IncomingBody & {
  /** Undefined without an API key. */
  work: Work | undefined;
  origin: RequestOrigin | undefined;
  /** Counts a request without an API key for the tenant of its proxy. */
  beginUsage?: (tenant_id: string) => Usage;
  method: string;
  /** The request target, with /proxy. */
  url: string;
  headers: Headers;
  /** Aborted when the client has disconnected. */
  signal: AbortSignal;
  /** Undefined for a request without an idempotency key, and for those of code. */
  retry?: Retry | undefined;
  /** Expressions that a tenant's code marked in its request, and whether the body is one literal. */
  coded?: { texts: CodedTexts; hasLiteralBody: boolean };
};

/** Data of a request with an idempotency key, see forwards/. */
export type Retry = {
  key: string;
  /** Told the id of its record, as soon as there is one. @param isBegun whether an attempt of this request has begun. */
  note(forwardId: string, isBegun: boolean): void;
  /**
   * Set for a request that is sent once more, under another key. `of`: its record, as it was when that was decided.
   * `destination_key`: where the destination may recognise the first one. `pin`: of the only proxy that may get its headers,
   * where a stored proxy gets them.
   */
  replay?: {
    of: Pick<ForwardRow, 'id' | 'state' | 'attempts'>;
    destination_key: string | undefined;
    pin: string | undefined;
  };
};

/** The response to the client. */
export type ProxyAnswer = {
  /** Account whose shares it uses. */
  account: Account;
  status: number;
  statusText: string;
  headers: Headers;
  body: Uint8Array | EgressResponse['body'] | undefined;
  /** The length of a streamed body, if known. */
  bodyBytes: number | undefined;
  /** Sent behind a streamed body; called when it has ended. */
  trailers?: (() => Headers) | undefined;
  /** The destination's status; undefined if no request was sent. */
  destination_status: number | undefined;
  /** Ends when the response was sent. */
  run: Run;
  /** Releases the reserved memory. Call it when the response was sent or the client has disconnected. */
  release(): void;
};

/** Without what holds for the whole request. */
export type AnswerWithin = Omit<ProxyAnswer, 'release' | 'account' | 'run'>;
