// Keeps the response to a request with an idempotency key, before its first byte goes to the client. What is stored holds no value that the
// request opened: a response that the echo guard would change is stored without its body.
import type { Account } from '../../../platform/base/accounts.ts';
import { codingsOf, decodeBody, isDecodable } from '../../../platform/egress/body.ts';
import type { Headers } from '../../../platform/egress/headers.ts';
import type { EchoGuard } from '../../tokens/echo/echo-guard.ts';
import type { Reservations } from '../bodies/take-body.ts';
import type { ProxyContext } from '../context.ts';
import { guardAnswer } from '../guard-answer.ts';
import { joined, piecesOf, takeUpTo } from '../held-body.ts';
import type { AnswerWithin } from '../request.ts';
import type { ForwardAttempt } from './attempt.ts';
import { hasCodeIn, hasLiteralCode, STORED_BYTES_MAX } from './records.ts';

type Keeping = {
  account: Account;
  tenant_id: string;
  guard: EchoGuard;
  reservations: Reservations;
};

/** The destination has acted: what is stored of its response is searched also where other long work is refused. */
export const unrefused = <Ctx extends Pick<ProxyContext, 'accounts'>>(ctx: Ctx): Ctx => ({
  ...ctx,
  accounts: { ...ctx.accounts, runInTurns: ctx.accounts.finishInTurns },
});

const isStream = (headers: Headers): boolean =>
  headers.some(([name, value]) => name.toLowerCase() === 'content-type' && /^\s*text\/event-stream/i.test(value));

/** Whether the guard lets a response pass as it is, and its headers have no security code. */
const isClean = async (ctx: ProxyContext, answer: AnswerWithin, keeping: Keeping): Promise<boolean> => {
  const { account, guard, reservations, tenant_id } = keeping;
  if (hasCodeIn(answer.headers)) return false;
  const search = guard.searchStored(account, reservations);
  // Nothing is told of what is found: the response itself goes on as its proxy wants it.
  const asked = {
    mode: 'block' as const,
    tighten: () => undefined,
    noteOpened: () => undefined,
    report: () => undefined,
  };
  const silent: EchoGuard = { ...asked, search: () => search, searchStored: () => search };
  const run = { echoed: () => undefined };
  const guarded = { tenant_id, record: 'proxy' as const, record_id: undefined };
  const signal = new AbortController().signal;
  try {
    await guardAnswer(unrefused(ctx), answer, { account, signal, run, guard: silent, guarded, reservations });
    return true;
  } catch {
    return false;
  }
};

/**
 * Whether a body has no security code. One in a coding is decoded for that; what cannot be decoded, and what is longer
 * than a response that is kept, is searched no further.
 */
const hasNoCode = async (
  ctx: ProxyContext,
  headers: Headers,
  body: Buffer,
  { account, reservations }: Keeping,
): Promise<boolean> => {
  if (codingsOf(headers).length === 0) return !hasLiteralCode(body);
  if (!isDecodable(headers)) return false;
  reservations.push(ctx.accounts.hold(account, 'response_bytes', STORED_BYTES_MAX));
  const decoded = await decodeBody(headers, body, STORED_BYTES_MAX).catch(() => undefined);
  return decoded !== undefined && !hasLiteralCode(decoded);
};

/**
 * Records the response, and keeps it where it may be kept. Its body is read first: a larger one, and a stream, go on as they come.
 * @returns what the client gets. @throws what the body throws.
 */
export const keepAnswer = async (
  ctx: ProxyContext,
  attempt: ForwardAttempt,
  answer: AnswerWithin,
  keeping: Keeping,
): Promise<AnswerWithin> => {
  const { headers, status, statusText, destination_status } = answer;
  // Code answered in place of the destination.
  if (attempt.delivery.reached !== 'answered') {
    await attempt.failed();
    return answer;
  }
  const cleanHeaders = async (): Promise<Headers> =>
    (await isClean(ctx, { ...answer, body: undefined, bodyBytes: 0 }, keeping)) ? headers : [];
  const isLong = (answer.bodyBytes ?? 0) > STORED_BYTES_MAX || isStream(headers);
  const held = Math.min(answer.bodyBytes ?? STORED_BYTES_MAX, STORED_BYTES_MAX);
  const isFull = ctx.accounts.findRefusal(keeping.account, 'response_bytes', held) !== undefined;
  if (isLong || isFull) {
    await attempt.answered(undefined, await cleanHeaders());
    return answer;
  }
  const stream = piecesOf(answer.body);
  const { pieces, isWhole } = await takeUpTo(stream, STORED_BYTES_MAX, () => {
    keeping.reservations.push(ctx.accounts.hold(keeping.account, 'response_bytes', held));
  });
  if (!isWhole) {
    await attempt.answered(undefined, await cleanHeaders());
    return { ...answer, body: joined(pieces, stream) };
  }
  const body = Buffer.concat(pieces);
  const trailers = answer.trailers?.() ?? [];
  const whole = {
    ...answer,
    headers: [...headers, ...trailers],
    body,
    bodyBytes: body.byteLength,
    trailers: undefined,
  };
  if (!(await hasNoCode(ctx, headers, body, keeping)) || !(await isClean(ctx, whole, keeping))) {
    await attempt.answered(undefined, await cleanHeaders());
    return whole;
  }
  const response = { status, statusText, headers: whole.headers, body: body.toString('base64'), destination_status };
  await attempt.answered(response, []);
  return whole;
};
