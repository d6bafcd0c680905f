// Answers `fetch` and `https.request` of running code: validates the request, sends it through egress, returns JSON.
import { z } from 'zod';
import type { CodeContext } from './context.ts';
import type { Account } from '../../platform/base/accounts.ts';
import { EgressFault } from '../../platform/base/egress-fault.ts';
import { egressFetch } from '../../platform/egress/fetch.ts';
import { requestHeaders } from '../../platform/egress/headers.ts';
import { type Call, CallFault, RUN_BYTES_MAX } from '../../platform/sandbox/protocol/sandbox.ts';
import { fetchMs } from '../../platform/base/times.ts';
import { megabytes } from '../../platform/base/size-text.ts';

const URL_LENGTH_MAX = 8192;
const HEADERS_MAX = 100;
const HEADER_LENGTH_MAX = 16_384;
/** Four characters of base64 hold three bytes. */
const BASE64_LENGTH_MAX = Math.ceil(RUN_BYTES_MAX / 3) * 4;

const headersError = `must have headers that are pairs of texts of at most ${HEADER_LENGTH_MAX} characters`;
const headerPart = z.string(headersError).max(HEADER_LENGTH_MAX, headersError);

/** Each message continues "The request". Egress validates headers and destination. */
const request = z.object(
  {
    url: z.string('must have a url').max(URL_LENGTH_MAX, `must have a url of at most ${URL_LENGTH_MAX} characters`),
    method: z.string('must have a method').regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}$/, 'must have a valid method'),
    headers: z
      .array(z.tuple([headerPart, headerPart], headersError), headersError)
      .max(HEADERS_MAX, `must have at most ${HEADERS_MAX} headers`),
    body: z
      .string('must have a body that is bytes, or none')
      .max(BASE64_LENGTH_MAX, `must have a body of at most ${megabytes(RUN_BYTES_MAX)}`)
      .nullable(),
    redirect: z.enum(['follow', 'manual', 'error'], 'must follow redirects, or leave them, or refuse them'),
  },
  'must be an object',
);

/** As code in the sandbox takes it: `body` in base64. */
export type FetchAnswer = {
  status: number;
  status_text: string;
  headers: [name: string, value: string][];
  body: string;
  url: string;
  redirected: boolean;
};

export type FetchRights = {
  tenant_id: string;
  /** Whose shares are used; the tenant's if absent. */
  account?: Account | undefined;
  /** The host must be in each of them. */
  allowLists: readonly (readonly string[])[];
  /** The header that marks requests of this vault, to detect loops; undefined for none. */
  mark: [name: string, value: string] | undefined;
  /** Undefined outside a vault. */
  log: SendLog | undefined;
};

/** Writes a log row for each host before a request is sent to it. */
export type SendLog = {
  sending(host: string): Promise<void>;
  /** The request to the last host failed. */
  failed(): Promise<void>;
};

/** @throws CallFault with a code of egress, or INVALID_INPUT. */
export const answerFetch = async (
  ctx: Pick<CodeContext, 'egress' | 'accounts'>,
  { tenant_id, account, allowLists, mark, log }: FetchRights,
  { input, signal, sent, endsAtMs }: Pick<Call, 'input' | 'signal' | 'sent' | 'endsAtMs'>,
): Promise<FetchAnswer> => {
  const parsed = request.safeParse(input);
  if (!parsed.success)
    throw new CallFault('INVALID_INPUT', `The request ${parsed.error.issues[0]?.message ?? 'is not valid'}.`);
  const { body, ...asked } = parsed.data;
  const timeMs = fetchMs(endsAtMs - performance.now());
  try {
    const answer = await egressFetch(ctx, {
      ...asked,
      // Added after headers that `Connection` names were removed, so that code cannot remove it.
      headers: mark ? [...requestHeaders(asked.headers), mark] : asked.headers,
      tenant_id,
      account,
      allowLists,
      ...(body !== null && { body: Buffer.from(body, 'base64') }),
      signal,
      bodyBytesMax: RUN_BYTES_MAX,
      timeouts: { firstByteMs: timeMs, wholeMs: timeMs },
      beforeSend: log?.sending,
    });
    // The bytes count as held in memory until they were sent to the executor.
    void sent.then(() => answer.release());
    return {
      status: answer.status,
      status_text: answer.statusText,
      headers: answer.headers,
      body: answer.body.toString('base64'),
      url: answer.url,
      redirected: answer.redirected,
    };
  } catch (error) {
    await log?.failed();
    if (error instanceof EgressFault) throw new CallFault(error.code, error.message);
    throw error;
  }
};
