// Answers `fetch` and `https.request` of a tenant's code: what it asks for is checked, sent out by the rules of egress, and
// brought back as JSON can hold it.
import { z } from 'zod';
import type { Context } from '../context.ts';
import { EgressFault } from '../egress/fault.ts';
import { egressFetch } from '../egress/fetch.ts';
import { requestHeaders } from '../egress/headers.ts';
import { type Call, CallFault, RUN_BYTES_MAX } from '../sandbox/sandbox.ts';

const URL_LENGTH_MAX = 8192;
const HEADERS_MAX = 100;
const HEADER_LENGTH_MAX = 16_384;
/** Four characters of base64 hold three bytes. */
const BASE64_LENGTH_MAX = Math.ceil(RUN_BYTES_MAX / 3) * 4;

const fairHeaders = `must have headers that are pairs of texts of at most ${HEADER_LENGTH_MAX} characters`;
const headerPart = z.string(fairHeaders).max(HEADER_LENGTH_MAX, fairHeaders);

/** Each sentence goes on from "The request". Whether a header or a destination is a fair one, egress knows. */
const request = z.object(
  {
    url: z.string('must have a url').max(URL_LENGTH_MAX, `must have a url of at most ${URL_LENGTH_MAX} characters`),
    method: z.string('must have a method').regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}$/, 'must have a valid method'),
    headers: z
      .array(z.tuple([headerPart, headerPart], fairHeaders), fairHeaders)
      .max(HEADERS_MAX, `must have at most ${HEADERS_MAX} headers`),
    body: z
      .string('must have a body that is bytes, or none')
      .max(BASE64_LENGTH_MAX, 'must have a body of at most 5 MB')
      .nullable(),
    redirect: z.enum(['follow', 'manual', 'error'], 'must follow redirects, or leave them, or refuse them'),
  },
  'must be an object',
);

/** As the prelude takes it: `body` in base64. */
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
  /** Each must cover the host. */
  allowLists: readonly (readonly string[])[];
  /** A header that marks what leaves a vault; undefined where there is none. */
  mark: [name: string, value: string] | undefined;
  /** Undefined outside a vault. */
  log: SendLog | undefined;
};

/** The log of what code sends: a row for each host, written before a request leaves for it. */
export type SendLog = {
  sending(host: string): Promise<void>;
  /** The request to the host that was named last did not come to its end. */
  failed(): Promise<void>;
};

/** @throws CallFault with a code of egress, or INVALID_INPUT. */
export const answerFetch = async (
  ctx: Pick<Context, 'egress'>,
  { tenant_id, allowLists, mark, log }: FetchRights,
  { input, signal, sent }: Pick<Call, 'input' | 'signal' | 'sent'>,
): Promise<FetchAnswer> => {
  const parsed = request.safeParse(input);
  if (!parsed.success)
    throw new CallFault('INVALID_INPUT', `The request ${parsed.error.issues[0]?.message ?? 'is not valid'}.`);
  const { body, ...asked } = parsed.data;
  try {
    const answer = await egressFetch(ctx.egress, {
      ...asked,
      // Behind what `Connection` could name, so that code cannot take it off.
      headers: mark ? [...requestHeaders(asked.headers), mark] : asked.headers,
      tenant_id,
      allowLists,
      ...(body !== null && { body: Buffer.from(body, 'base64') }),
      signal,
      bodyBytesMax: RUN_BYTES_MAX,
      beforeSend: log?.sending,
    });
    // Its bytes are here, in one shape or another, until they have left for the executor.
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
