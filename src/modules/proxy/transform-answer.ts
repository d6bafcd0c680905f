// Runs the response transform of a stored proxy over a whole, decoded response.
import type { ProxyContext } from './context.ts';
import type { EgressResponse } from '../../platform/egress/client.ts';
import { decodableOf, isDecodable } from '../../platform/egress/body.ts';
import { EgressFault } from '../../platform/base/egress-fault.ts';
import { takeWhole } from '../../platform/egress/fetch.ts';
import type { Headers } from '../../platform/egress/headers.ts';
import { mayCodeSend } from '../../platform/http/code-headers.ts';
import type { AppError } from '../../platform/base/errors.ts';
import { CodeResponse } from '../code/code-errors.ts';
import { RUN_BYTES_MAX } from '../../platform/sandbox/protocol/sandbox.ts';
import { readAnswer } from './bodies/answer-text.ts';
import type { Reservations } from './bodies/coded-body.ts';
import { staleDigests } from './digests.ts';
import { badAnswer } from './faults.ts';
import type { ProxyForUse } from './proxy-finder.ts';
import type { AnswerWithin } from './request.ts';
import { type About, transform, type TransformRights } from './transform.ts';

export const answerOfCode = (
  { status, headers, body }: CodeResponse,
  destination_status: number | undefined,
): AnswerWithin => ({
  status,
  statusText: '',
  headers: Object.entries(headers),
  body: body === undefined ? undefined : Buffer.from(body),
  bodyBytes: undefined,
  destination_status,
});

/** Code reads decoded responses: of the codings that the client accepts, those are requested that the server decodes. */
export const requestingDecodable = (headers: Headers): Headers =>
  headers.map(([name, value]) => [name, name.toLowerCase() === 'accept-encoding' ? decodableOf(value) : value]);

/** Repeats only a well-formed label of the Encoding Standard, because the destination chooses the text. */
const undecodable = (charset: string): AppError =>
  badAnswer(
    `The body of the destination's answer cannot be decoded from ${/^[\w.:()+-]{1,40}$/.test(charset) ? `"${charset}"` : 'the charset that it declares'}.`,
  );

/** @returns the response of the destination where the code left its body, otherwise one without a content coding. */
export const transformAnswer = async (
  ctx: ProxyContext,
  proxy: ProxyForUse,
  answer: EgressResponse,
  about: About,
  { hasValues, ...rights }: TransformRights & { hasValues: boolean },
  reservations: Reservations,
): Promise<AnswerWithin> => {
  const { account = proxy.tenant_id, signal } = rights;
  const { status, statusText } = answer;
  if (!isDecodable(answer.headers)) {
    answer.body.destroy();
    throw new EgressFault('DECODE');
  }
  const wanted = { account, signal, bodyBytesMax: RUN_BYTES_MAX, keepsCoded: true };
  const { body, coded, release } = await takeWhole(ctx, wanted, answer);
  reservations.push({ release });
  const headers = answer.headers.filter(([name]) => name.toLowerCase() !== 'content-encoding');
  const original = { headers: answer.headers, body: coded };
  const { message: came, unread } = await ctx.accounts.runInTurns(
    account,
    readAnswer({ headers, body, hasValues, coded: original }),
  );
  if (unread !== undefined) throw undecodable(unread);
  const made = await transform(ctx, proxy, 'response', came, { ...about, status }, rights);
  if (made instanceof CodeResponse) return answerOfCode(made, status);
  // Headers of the destination pass, as without a transform. Browsers get no cookie: the route drops it.
  const sent = new Set(['set-cookie', ...answer.headers.map(([name]) => name.toLowerCase())]);
  const allowed = made.headers.filter(([name]) => mayCodeSend(name) || sent.has(name.toLowerCase()));
  const stale = new Set(made.body === coded ? [] : staleDigests(answer.headers, allowed));
  return {
    status,
    statusText,
    headers: allowed.filter((line) => !stale.has(line)),
    body: made.body,
    bodyBytes: undefined,
    destination_status: status,
  };
};
