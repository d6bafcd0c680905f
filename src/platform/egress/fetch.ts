// Implements `fetch` of tenants' code on top of egress requests: follows redirects, checks each destination again, and
// decodes the body in memory.
import { type Account, type Accounts, FREE_BYTES, type Reservation } from '../base/accounts.ts';
import { AppError } from '../base/errors.ts';
import { countLayers, DECODABLE_CODINGS, decodeBody, readBody } from './body.ts';
import type { AllowLists } from './destination.ts';
import type { Egress, EgressResponse } from './client.ts';
import { EgressFault } from '../base/egress-fault.ts';
import type { Headers } from './headers.ts';
import { type EgressTimeouts, MEMORY_WAIT_MS } from '../base/times.ts';

/** The fetch standard allows 20. Each redirect may need another DNS look-up and connection. */
const REDIRECTS_MAX = 5;

const redirectStatuses = new Set([301, 302, 303, 307, 308]);

/** https://fetch.spec.whatwg.org/#request-body-header-name */
const bodyHeaders = new Set(['content-encoding', 'content-language', 'content-location', 'content-type']);

/**
 * Headers that a redirect may carry to another origin. All others may be credentials under any name, such as `x-api-key`,
 * which the code sent to the first destination only. `cdn-loop` is the server's mark against loops (RFC 8586).
 */
const crossesOrigins = (name: string): boolean =>
  name.startsWith('accept') || ['content-type', 'user-agent', 'cdn-loop'].includes(name);

/** The body may hold card data, which the code sent to the first destination only. */
const BODY_STAYS =
  'The destination redirected the request to another origin, and its body is not sent there: use `redirect: "manual"`, or ask that origin itself.';

const defaultHeaders: Headers = [
  ['accept', '*/*'],
  ['accept-encoding', DECODABLE_CODINGS],
  // Some APIs refuse requests without a user agent.
  ['user-agent', 'strongroom'],
];

export type EgressFetch = {
  tenant_id: string;
  /** Account whose shares are used; the tenant's if absent. */
  account?: Account | undefined;
  url: string;
  method: string;
  headers: Headers;
  body?: Uint8Array | undefined;
  redirect: 'follow' | 'manual' | 'error';
  /** Limits the body both as sent and as decoded. */
  bodyBytesMax: number;
  signal?: AbortSignal | undefined;
  allowLists?: AllowLists | undefined;
  timeouts?: Partial<EgressTimeouts> | undefined;
  /** How long a large response waits for memory; MEMORY_WAIT_MS if absent. */
  memoryWaitMs?: number | undefined;
  /** Awaited before each request to a host, also for each redirect. */
  beforeSend?: ((host: string) => Promise<void>) | undefined;
};

export type EgressAnswer = {
  status: number;
  statusText: string;
  headers: Headers;
  body: Buffer;
  url: string;
  redirected: boolean;
  /** Frees the reserved memory. Call it when the body is no longer needed. A second call does nothing. */
  release(): void;
};

type FetchContext = { egress: Egress; accounts: Accounts };

/** Maps a refusal by an account to BUSY, with the refusal as cause. */
const busyOf = (error: unknown): unknown =>
  error instanceof AppError ? new EgressFault('BUSY', { cause: error }) : error;

/** @throws EgressFault. */
export const egressFetch = async (ctx: FetchContext, asked: EgressFetch): Promise<EgressAnswer> => {
  const bytes = asked.body?.byteLength ?? 0;
  let reservation: Reservation | undefined;
  try {
    if (bytes > FREE_BYTES)
      reservation = ctx.accounts.reserve(asked.account ?? asked.tenant_id, 'request_bytes', bytes);
  } catch (error) {
    throw busyOf(error);
  }
  try {
    return await fetchAlong(ctx, asked);
  } finally {
    reservation?.release();
  }
};

const fetchAlong = async (ctx: FetchContext, asked: EgressFetch): Promise<EgressAnswer> => {
  const { egress } = ctx;
  const timeouts = { ...egress.timeouts, ...asked.timeouts };
  const endMs = performance.now() + timeouts.wholeMs;
  let { url, method, body } = asked;
  let headers = withDefaults(asked.headers);
  for (let redirects = 0; ; redirects += 1) {
    const { tenant_id, account, signal, allowLists } = asked;
    await asked.beforeSend?.(egress.check(url, allowLists).host);
    const wholeMs = Math.max(0, endMs - performance.now());
    const answer = await egress.request({
      tenant_id,
      account,
      url,
      method,
      headers,
      body,
      signal,
      allowLists,
      timeouts: { ...timeouts, wholeMs },
    });
    const location = redirectStatuses.has(answer.status) ? findHeader(answer.headers, 'location') : undefined;
    if (location === undefined || asked.redirect === 'manual') {
      const memoryWaitMs = Math.min(asked.memoryWaitMs ?? MEMORY_WAIT_MS, Math.max(0, endMs - performance.now()));
      return {
        status: answer.status,
        statusText: answer.statusText,
        headers: answer.headers,
        url: withoutFragment(egress.check(url, allowLists)),
        redirected: redirects > 0,
        ...(await takeWhole(ctx, { ...asked, account: account ?? tenant_id, memoryWaitMs }, answer)),
      };
    }
    answer.body.destroy();
    if (asked.redirect === 'error') throw new EgressFault('REDIRECT_REFUSED');
    if (redirects === REDIRECTS_MAX) throw new EgressFault('TOO_MANY_REDIRECTS');
    const from = egress.check(url, allowLists);
    const to = parseLocation(location, from);
    if (changesToGet(answer.status, method)) {
      method = 'GET';
      body = undefined;
      headers = headers.filter(([name]) => !bodyHeaders.has(name.toLowerCase()));
    }
    if (to.origin !== from.origin) {
      if (body !== undefined) throw new EgressFault('REDIRECT_REFUSED', { sentence: BODY_STAYS });
      headers = headers.filter(([name]) => crossesOrigins(name.toLowerCase()));
    }
    url = to.href;
  }
};

/**
 * Reads and decodes a body. `coded` is the body as it came, if `keepsCoded`. Reserves memory once, for the most it may need; a small body needs no reservation.
 * @throws EgressFault BODY_TOO_LARGE, DECODE, BUSY; the error of the connection. The body is destroyed then.
 */
export const takeWhole = async (
  { accounts }: Pick<FetchContext, 'accounts'>,
  {
    account,
    signal,
    bodyBytesMax,
    memoryWaitMs: waitMs = MEMORY_WAIT_MS,
    keepsCoded = false,
  }: { account: Account; keepsCoded?: boolean } & Pick<EgressFetch, 'signal' | 'bodyBytesMax' | 'memoryWaitMs'>,
  answer: EgressResponse,
): Promise<Pick<EgressAnswer, 'body' | 'release'> & { coded: Buffer | undefined }> => {
  const { headers } = answer;
  let reservation: Reservation | undefined;
  const reserve = async (bytes: number): Promise<void> => {
    try {
      reservation = await accounts.reserveInTime(account, 'response_bytes', bytes, { waitMs, signal });
    } catch (error) {
      throw signal?.aborted ? new EgressFault('ABORTED') : busyOf(error);
    }
  };
  try {
    const decodedBytesMax = countLayers(headers) * bodyBytesMax;
    const sent = await readBody(answer, bodyBytesMax, (bytes) => reserve(bytes + decodedBytesMax));
    let body = reservation === undefined ? await decodeIfSmall(headers, sent, bodyBytesMax) : undefined;
    if (body === undefined) {
      if (reservation === undefined) await reserve(decodedBytesMax);
      body = await decodeBody(headers, sent, bodyBytesMax);
    }
    const coded = keepsCoded ? sent : undefined;
    reservation?.shrinkTo(body.byteLength + (coded === undefined || coded === body ? 0 : coded.byteLength));
    return { body, coded, release: () => reservation?.release() };
  } catch (error) {
    answer.body.destroy();
    reservation?.release();
    throw error;
  }
};

/** Decodes without a reservation. Returns undefined if the result exceeds FREE_BYTES. */
const decodeIfSmall = async (headers: Headers, sent: Buffer, bytesMax: number): Promise<Buffer | undefined> => {
  const isBounded = bytesMax <= FREE_BYTES;
  try {
    return await decodeBody(headers, sent, isBounded ? bytesMax : FREE_BYTES);
  } catch (error) {
    if (!isBounded && error instanceof EgressFault && error.code === 'BODY_TOO_LARGE') return undefined;
    throw error;
  }
};

const withDefaults = (headers: Headers): Headers => [
  ...headers,
  ...defaultHeaders.filter(([name]) => findHeader(headers, name) === undefined),
];

const findHeader = (headers: Headers, name: string): string | undefined =>
  headers.find(([each]) => each.toLowerCase() === name)?.[1];

/** Some redirects change the method to GET: https://fetch.spec.whatwg.org/#http-redirect-fetch. */
const changesToGet = (status: number, method: string): boolean =>
  status === 303 ? method !== 'GET' && method !== 'HEAD' : (status === 301 || status === 302) && method === 'POST';

/** The target of a redirect. The next request checks whether it is allowed. @throws EgressFault DESTINATION_REFUSED. */
const parseLocation = (location: string, from: URL): URL => {
  // Headers are Latin-1 text here, but destinations send UTF-8.
  const url = URL.parse(Buffer.from(location, 'latin1').toString('utf8'), from.href);
  if (url === null) throw new EgressFault('DESTINATION_REFUSED');
  return url;
};

const withoutFragment = (url: URL): string => {
  url.hash = '';
  return url.href;
};
