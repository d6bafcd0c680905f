// One request with an idempotency key: finds what the key stands for, and records each step before it is taken, so that no crash leaves a
// record that says less than what happened (docs/decisions/0131-retriable-forwards.md).
import { type AnswerBasis, createAnswerRecord } from '../../access/answer-record.ts';
import { answerGone, checkReplay, holderOf } from '../../access/idempotency.ts';
import type { Work } from '../../access/work.ts';
import { conflict, failure, unavailable } from '../../../platform/base/errors.ts';
import { type DigestKey, forwardDigest, idempotencyDigest, sha256OfBytes } from '../../../platform/crypto/digest.ts';
import type { TenantKeys } from '../../../platform/crypto/keyring.ts';
import { type LogRow, maskHost } from '../../../platform/db/audit-record.ts';
import type { Query } from '../../../platform/db/statements.ts';
import type { Headers } from '../../../platform/egress/headers.ts';
import type { Run } from '../../runs/run.ts';
import type { ProxyContext } from '../context.ts';
import { pinOfProxy, type ProxyForUse } from '../proxy-finder.ts';
import type { AnswerWithin, Retry } from '../request.ts';
import { type Base, spell, type SpelledUrl, type Target } from '../target.ts';
import { judgeForwards, keepLease, queueUnknown } from '../../runs/forward-leases.ts';
import {
  beginAgain,
  findByKey,
  findReplay,
  type ForwardRow,
  insertForward,
  lockReplayed,
  noteAnswered,
  noteFailed,
  noteSending,
} from '../../runs/forward-rows.ts';
import {
  hasCodeIn,
  hasCodeInUri,
  hasLiteralCode,
  OF_BODY,
  openStored,
  sealStored,
  type Stored,
  STORED_BYTES_MAX,
  STORED_MS,
  type StoredRequest,
  type StoredResponse,
} from './records.ts';

// What happened to the destination of a forwarded request. What must know it, such as the record of a request that may be repeated,
// asks here and nowhere else.

/**
 * How far a request got. `nothing`: no byte of it has left the vault. `sent`: some may have, so the destination may have acted.
 * `answered`: the head of its response has come.
 */
type Reached = 'nothing' | 'sent' | 'answered';

/** One attempt to send a request. */
export class Delivery {
  #reached: Reached = 'nothing';
  #status: number | undefined;
  readonly #beforeSending: (() => Promise<void>) | undefined;

  /** @param beforeSending must resolve before the first byte leaves. Where it rejects, nothing is sent. Undefined costs nothing. */
  constructor(beforeSending?: () => Promise<void>) {
    this.#beforeSending = beforeSending;
  }

  get reached(): Reached {
    return this.#reached;
  }

  /** The status of the destination; undefined until it has answered. */
  get status(): number | undefined {
    return this.#status;
  }

  /** The next step sends, or runs code that may. @returns what to wait for before that. */
  sending = (): Promise<void> | undefined => {
    if (this.#reached !== 'nothing') return undefined;
    if (!this.#beforeSending) {
      this.#reached = 'sent';
      return undefined;
    }
    return this.#beforeSending().then(() => {
      this.#reached = 'sent';
    });
  };

  /** Code that could have sent something has sent nothing. */
  notSent(): void {
    if (this.#reached === 'sent') this.#reached = 'nothing';
  }

  answered(status: number): void {
    this.#reached = 'answered';
    this.#status = status;
  }
}

/** What is known of the request when its body was read. */
type Asked = {
  work: Work;
  run: Run;
  retry: Retry;
  proxy: ProxyForUse | undefined;
  method: string;
  target: Target;
  base: Base;
  sentTo: SpelledUrl;
  headers: Headers;
  body: Uint8Array | undefined;
  /** The body without its coding. Undefined where that cannot be decoded, and for none. */
  readable: Uint8Array | undefined;
};

const RETRY_AFTER_SECONDS = 1;

export const inProgress = (forwardId?: string, sentence = 'A request with this idempotency key is under way.') =>
  failure('idempotency_in_progress', sentence, {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
    forwardId,
  });

export const outcomeUnknown = (forwardId: string, sentence = 'The outcome of the first request is not known.') =>
  failure('outcome_unknown', sentence, { forwardId });

const answerNotKept = ({ id, status }: ForwardRow) =>
  failure(
    'answer_not_kept',
    `The destination answered the first request with ${status ?? 0}, and the response was not kept.`,
    {
      forwardId: id,
    },
  );

const WAS_REPLAYED =
  'Nothing of the first request was sent, and then it was replayed: the record of that has the outcome.';

/** A replay with the headers of the first request found its proxy before. @throws conflict where that has changed since. */
const checkPin = (key: DigestKey, { proxy, retry: { replay } }: Asked): void => {
  if (replay?.pin === undefined || (proxy && pinOfProxy(key, proxy) === replay.pin)) return;
  throw conflict('The proxy of the request is being changed. Nothing was sent: try again.');
};

/** What a repetition must have in common with the first request. */
const contentOf = (key: DigestKey, { method, proxy, target, sentTo, headers, body, retry }: Asked): string =>
  forwardDigest(key, 'content', [
    retry.replay?.of.id ?? '',
    method,
    ...(proxy ? [proxy.id, target.path, target.query] : ['', spell(sentTo), '']),
    ...headers
      .filter(([name]) => OF_BODY.has(name.toLowerCase()))
      .flatMap(([name, value]) => [name.toLowerCase(), value]),
    body ? sha256OfBytes(body) : '',
  ]);

/**
 * Digest of what the destination recognises a repetition by: the header of the key, and who the destination is. If either has
 * changed, a repetition would be a new request to it.
 */
const repeatOf = (key: DigestKey, { proxy, sentTo }: Pick<Asked, 'proxy' | 'sentTo'>): string | null => {
  if (proxy?.idempotency_header === undefined) return null;
  const { idempotency_header, client_certificate } = proxy;
  const certificate = client_certificate?.certificate ?? '';
  return forwardDigest(key, 'repeat', [idempotency_header, spell(sentTo), pinOfProxy(key, proxy), certificate]);
};

const requestOf = (
  key: DigestKey,
  keyId: string,
  { work, method, target, proxy, base, headers, body, readable, retry }: Asked,
): StoredRequest => {
  const url = proxy ? undefined : spell({ url: base.url, target: base.url.pathname + base.search });
  const isUrlStored = ![target.path, target.query, url ?? ''].some(hasCodeInUri);
  const stored = headers.filter((header) => !hasCodeIn([header]));
  const isShort = [body, readable].every((each) => each && each.byteLength <= STORED_BYTES_MAX);
  const isStored = isShort && readable && !hasLiteralCode(readable);
  return {
    method,
    actor_id: work.actor_id,
    proxy_id: proxy?.id,
    path: isUrlStored ? target.path : '',
    query: isUrlStored ? target.query : '',
    isBare: target.isBare,
    destination_url: isUrlStored ? url : url && '',
    hasCode: isUrlStored && stored.length === headers.length ? undefined : true,
    proxy_pin: proxy && pinOfProxy(key, proxy),
    headers: stored,
    body: isStored && body ? Buffer.from(body).toString('base64') : undefined,
    hasBody: body !== undefined,
    destination_key: retry.replay?.destination_key ?? forwardDigest(key, 'key', [keyId]),
  };
};

const answerOf = ({ response }: Stored): AnswerWithin | undefined => {
  if (!response) return undefined;
  const body = Buffer.from(response.body, 'base64');
  return {
    status: response.status,
    statusText: response.statusText,
    headers: [...response.headers, ['SVC-IDEMPOTENT-REPLAYED', 'true']],
    body,
    bodyBytes: body.byteLength,
    destination_status: response.destination_status,
  };
};

/** A request that may be sent. */
export type ForwardAttempt = {
  readonly id: string;
  /** Those of the first attempt, which the destination knows. */
  readonly headers: Headers;
  readonly delivery: Delivery;
  /** A repetition that the destination recognises is the same use of its tokens. */
  readonly isCounted: boolean;
  /** With what the destination recognises a repetition, if its proxy says how. */
  readonly destinationHeader: [name: string, value: string] | undefined;
  /** Writes the log rows of the beginning, with the record. @throws conflict where another request has the key; as `Run.begin`. */
  begin(rows: readonly LogRow[], tokenIds: Iterable<string>, count?: (query: Query) => Promise<void>): Promise<void>;
  /** The destination answered. @param response undefined where it is not kept. */
  answered(response: StoredResponse | undefined, headers: Headers): Promise<void>;
  /** The attempt is over without a response of the destination, or with one that could not be used. */
  failed(): Promise<void>;
  release(): void;
};

/** What the key stands for: the response to return, or an attempt. */
export type OpenedForward = { answer: AnswerWithin } | { attempt: ForwardAttempt };

/**
 * Finds what the key of a request stands for.
 * @throws unprocessable where it stands for another request; conflict while it is under way, where its outcome is unknown, and where its
 * response is not kept or not shown; forbidden; unavailable.
 */
export const openForward = async (ctx: ProxyContext, asked: Asked): Promise<OpenedForward> => {
  const { work, retry } = asked;
  const { tenant_id } = work;
  const { keys, release } = await ctx.keyring.holdTenantKeys(tenant_id);
  try {
    // A space is in no key of a client: other routes have their own claims.
    const keyId = idempotencyDigest(keys.digest, holderOf(work), `forward ${retry.key}`);
    const content = contentOf(keys.digest, asked);
    checkPin(keys.digest, asked);
    const seen = await findByKey(work.db, keyId, ctx.now());
    if (seen?.isDead) await judgeForwards(ctx, tenant_id);
    const found = seen?.isDead ? await findByKey(work.db, keyId, ctx.now()) : seen;
    if (!found) return { attempt: attemptOf(ctx, asked, { keys, keyId, content, release, first: undefined }) };
    const { forward } = found;
    if (forward) retry.note(forward.id, false);
    if (found.route !== content)
      throw failure('idempotency_key_reused', 'The idempotency key was used for another request.', {
        forwardId: forward?.id,
      });
    if (!forward?.sealed) throw answerGone();
    const stored = openStored(ctx, { tenant_id, keys }, { id: forward.id, sealed: forward.sealed });
    if (mayBeginAgain(forward, stored, repeatOf(keys.digest, asked)))
      return { attempt: attemptOf(ctx, asked, { keys, keyId, content, release, first: { forward, stored } }) };
    const answer = await findAnswer(ctx, work, forward, stored);
    release();
    return { answer };
  } catch (error) {
    release();
    throw error;
  }
};

/**
 * A request that failed has left nothing, if no replay has taken its place. One whose outcome is unknown is sent again only where its
 * destination recognises it.
 */
const mayBeginAgain = ({ state, repeat_digest }: ForwardRow, { request }: Stored, repeat: string | null): boolean =>
  state === 'failed' || (state === 'unknown' && repeat !== null && repeat === repeat_digest && !request.hasCode);

/** The kept response. @throws conflict; forbidden; too_many_requests; unavailable. */
const findAnswer = async (
  ctx: ProxyContext,
  work: Work,
  forward: ForwardRow,
  stored: Stored,
): Promise<AnswerWithin> => {
  if (forward.state === 'begun' || forward.state === 'sent') throw inProgress(forward.id);
  if (forward.state !== 'answered') throw outcomeUnknown(forward.id);
  const answer = answerOf(stored);
  if (!answer || !stored.basis) throw answerNotKept(forward);
  await checkReplay(ctx, work, stored.basis);
  return answer;
};

type Opening = {
  keys: TenantKeys;
  keyId: string;
  content: string;
  release: () => void;
  /** What the key stands for already. */
  first: { forward: ForwardRow; stored: Stored } | undefined;
};

const attemptOf = (
  ctx: ProxyContext,
  asked: Asked,
  { keys, keyId, content, release, first }: Opening,
): ForwardAttempt => {
  const { work, run, proxy, retry, sentTo } = asked;
  const { tenant_id, db } = work;
  const now = ctx.now();
  const id = first?.forward.id ?? ctx.newLogId(now);
  const attempts = (first?.forward.attempts ?? 0) + 1;
  const wasSent = first?.forward.sent_at != null;
  // No earlier attempt reached the destination: this one is the first, and has its own headers.
  const request = first && wasSent ? first.stored.request : requestOf(keys.digest, keyId, asked);
  const where = {
    destination_host: maskHost(sentTo.url.host),
    path_digest: forwardDigest(keys.digest, 'path', [spell(sentTo)]),
    repeat_digest: repeatOf(keys.digest, asked),
  };
  const seal = (stored: Stored): Buffer => sealStored(ctx, { tenant_id, keys }, id, stored);
  let stopRenewing: (() => void) | undefined;
  let isOver = false;

  const write = async (query: Query, token_ids: string[]): Promise<void> => {
    if (retry.replay && !(await lockReplayed(query, tenant_id, retry.replay.of))) throw inProgress(retry.replay.of.id);
    const { actor_id, actor_type, origin } = work;
    const about = { actor_id, actor_type, proxy_id: proxy?.id ?? null, replay_of: retry.replay?.of.id ?? null };
    const row = { id, ...about, ...where, method: asked.method, token_ids, trace_id: origin?.trace_id ?? null };
    const claim = { id: keyId, route: content, expires_at: new Date(now.getTime() + STORED_MS) };
    const isWritten = first
      ? await beginAgain(query, tenant_id, first.forward, { ...where, sealed: wasSent ? null : seal({ request }) })
      : await insertForward(query, tenant_id, { ...row, sealed: seal({ request }) }, claim, now);
    if (!isWritten) throw inProgress(first?.forward.id);
    // The replay locked this row before it was written, or waits for it.
    const replayed = first && !wasSent ? await findReplay(query, tenant_id, id) : undefined;
    if (replayed !== undefined) throw outcomeUnknown(replayed, WAS_REPLAYED);
  };

  const delivery = new Delivery(async () => {
    if (!(await noteSending(db, { id, attempts }))) throw unavailable();
  });

  /** The client hears what happened, even where that cannot be recorded: the lease ends, and the record says `unknown`. */
  const recorded = async (writing: Promise<void>): Promise<void> => {
    await writing.catch((error: unknown) =>
      ctx.log.error({ error, tenant_id, forward_id: id }, 'the end of a forwarded request could not be written'),
    );
  };

  const end = (): boolean => {
    if (isOver || !stopRenewing) return false;
    isOver = true;
    stopRenewing();
    return true;
  };

  const answered: ForwardAttempt['answered'] = async (response, headers) => {
    if (!end()) return;
    const { basis } = work.record as { basis: AnswerBasis };
    const stored: Stored = response ? { request, response, basis } : { request, headers, basis };
    const status = delivery.status ?? 0;
    const answer = response ? 'kept' : 'not_kept';
    await recorded(noteAnswered(db, { id, attempts }, { status, answer, sealed: seal(stored) }));
  };

  return {
    id,
    headers: wasSent ? request.headers : asked.headers,
    delivery,
    isCounted: wasSent,
    destinationHeader:
      proxy?.idempotency_header === undefined ? undefined : [proxy.idempotency_header, request.destination_key],
    begin: async (rows, tokenIds, count) => {
      await run.begin(rows, async (query) => {
        await count?.(query);
        await write(query, [...tokenIds]);
      });
      stopRenewing = keepLease(ctx, tenant_id, id);
      retry.note(id, true);
    },
    answered,
    failed: async () => {
      if (delivery.reached === 'answered') return answered(undefined, []);
      if (!end()) return;
      const isSent = wasSent || delivery.reached === 'sent';
      const writing = db.transaction(async (query) =>
        queueUnknown(ctx, query, tenant_id, await noteFailed(query, tenant_id, { id, attempts }, isSent)),
      );
      await recorded(writing);
    },
    release,
  };
};

/** Records the decisions behind a response that may be kept. */
export const recordingFor = (retry: Retry | undefined) => (retry ? { record: createAnswerRecord() } : {});
