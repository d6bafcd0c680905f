// Searches an answer for the values that its request opened: status, headers, then the body as it comes. Runs last, after the response
// transform (docs/decisions/0125-echo-guard.md).
import type { Account } from '../../platform/base/accounts.ts';
import { EgressFault } from '../../platform/base/egress-fault.ts';
import { AppError } from '../../platform/base/errors.ts';
import { MEMORY_WAIT_MS } from '../../platform/base/times.ts';
import { codingsOf, decodeStream, isDecodable } from '../../platform/egress/body.ts';
import type { Headers } from '../../platform/egress/headers.ts';
import type { ReactorsContext } from '../reactors/context.ts';
import type { Run } from '../runs/run.ts';
import { echoFault, type EchoGuard, type Guarded, searchText } from '../tokens/echo/echo-guard.ts';
import type { EchoPlace } from '../tokens/echo/echo-output.ts';
import { createEchoScanner, type EchoSearch } from '../tokens/echo/echo-scanner.ts';
import { bodyKindOf } from './bodies/body-kind.ts';
import type { Reservations } from './bodies/take-body.ts';
import { withoutByteHeaders } from './message.ts';
import { type HeldBody, joined, takeUpTo } from './held-body.ts';
import type { AnswerWithin } from './request.ts';

/** A body of at most this size is searched to its end before its first byte goes on: an echo in it can be a 502. */
export const HELD_BYTES_MAX = 1024 * 1024;

/**
 * Bytes of what may be the beginning of a value. A value has at most 32 KB, and programs write 12 bytes for a character: who
 * answers with escapes of escapes of escapes is after the memory.
 */
const BEGUN_BYTES_MAX = HELD_BYTES_MAX;

const ECHOES = 'SVC-ECHOES';

type GuardedAnswer = {
  account: Account;
  signal: AbortSignal;
  run: Pick<Run, 'echoed'>;
  guard: EchoGuard;
  guarded: Guarded;
  reservations: Reservations;
};

/** Types whose bytes are no text: a mask would break them. */
const binaryType = /^(?:image\/(?!svg)|audio\/|video\/|font\/|application\/(?:pdf|font|zip|gzip|x-7z))/i;

const typeOf = (headers: Headers): string =>
  headers.find(([name]) => name.toLowerCase() === 'content-type')?.[1].trim() ?? '';

const placeOf = (headers: Headers): EchoPlace => {
  const { kind } = bodyKindOf(headers);
  if (kind === 'json' || kind === 'form') return kind;
  return kind === 'markup' || kind === 'html' ? 'markup' : 'text';
};

/** The request for an answer that can be searched: whole, and without a coding. */
export const askingToSearch = (headers: Headers): Headers => [
  ...headers.filter(([name]) => !['accept-encoding', 'range', 'if-range', 'te'].includes(name.toLowerCase())),
  ['accept-encoding', 'identity'],
];

/**
 * Searches an answer. Its header or trailer SVC-ECHOES has the number of values that were masked.
 * @throws EgressFault ECHO for a value, where it is to be blocked; DECODE for a body that cannot be searched; as `EchoGuard.search`.
 */
export const guardAnswer = async (
  ctx: ReactorsContext,
  answer: AnswerWithin,
  wanted: GuardedAnswer,
): Promise<AnswerWithin> => {
  const { account, guard, reservations } = wanted;
  if (guard.mode === 'off') return answer;
  const stop = (error: unknown): never => {
    if (answer.body && !(answer.body instanceof Uint8Array)) answer.body.destroy();
    throw error;
  };
  try {
    const search = await guard.search(account, reservations);
    if (!search) return { ...answer, headers: [...answer.headers, [ECHOES, '0']] };
    return await searchAnswer(ctx, answer, { ...wanted, search });
  } catch (error) {
    return stop(error);
  }
};

type Searching = GuardedAnswer & { search: EchoSearch };

const searchAnswer = async (ctx: ReactorsContext, answer: AnswerWithin, wanted: Searching): Promise<AnswerWithin> => {
  const { account, guard, search } = wanted;
  const found = createCount(wanted);
  const searchLine = async (text: string, prefix = '', place: EchoPlace = 'text'): Promise<string> => {
    const line = Buffer.from(text, 'latin1');
    const { bytes, echoes } = await ctx.accounts.runInTurns(account, searchText(search, line, { place, prefix }));
    found.add(echoes);
    return bytes.toString('latin1');
  };
  const came = typeOf(answer.headers);
  if (/^multipart\/byteranges/i.test(came) || !isDecodable(answer.headers)) throw new EgressFault('DECODE');
  const isBinary = binaryType.test(came);
  const statusText = await searchLine(answer.statusText);
  const headers: Headers = [];
  for (const [name, value] of answer.headers) {
    const masked = await searchLine(value, `${name}: `, urlHeaders.has(name.toLowerCase()) ? 'form' : 'text');
    // No header is named by a mask.
    if ((await searchLine(name)) === name) headers.push([name, masked]);
  }
  if (found.isBlocked(guard.mode)) throw found.fault();
  const head = { ...answer, statusText, headers };
  const { body } = answer;
  if (body === undefined || answer.bodyBytes === 0) return { ...head, headers: [...headers, [ECHOES, found.text()]] };
  const isCoded = codingsOf(answer.headers).length > 0;
  const mode = isBinary ? 'block' : guard.mode;
  const scanner = createEchoScanner(search, placeOf(answer.headers));
  async function* scanned(): AsyncGenerator<Uint8Array> {
    const take = (echoes: number): void => {
      found.add(echoes);
      if (found.isBlocked(mode)) throw found.fault();
    };
    let before = 0;
    const chunks = body instanceof Uint8Array ? [body] : (body as AsyncIterable<Uint8Array>);
    for await (const chunk of decodeStream(answer.headers, asStream(chunks))) {
      const pieces = await ctx.accounts.runInTurns(account, scanner.push(chunk));
      take(scanner.echoes - before);
      before = scanner.echoes;
      if (scanner.held > BEGUN_BYTES_MAX) throw new EgressFault('DECODE');
      yield* pieces;
    }
    const rest = scanner.end();
    take(scanner.echoes - before);
    yield* rest;
  }
  const decoded = isCoded ? headers.filter(([name]) => name.toLowerCase() !== 'content-encoding') : headers;
  const isHeld =
    !/^text\/event-stream/i.test(came) &&
    (mode === 'block' || isCoded || body instanceof Uint8Array || (answer.bodyBytes ?? Infinity) <= HELD_BYTES_MAX);
  const stream = scanned();
  const { pieces, isWhole } = isHeld ? await hold(ctx, wanted, stream) : { pieces: [], isWhole: false };
  if (isWhole) {
    const isChanged = isCoded || scanner.echoes > 0;
    const bytes = Buffer.concat(pieces);
    const kept = isChanged ? withoutByteHeaders(decoded) : decoded;
    return { ...head, headers: [...kept, [ECHOES, found.text()]], body: bytes, bodyBytes: bytes.byteLength };
  }
  const isSame = mode === 'block' && !isCoded;
  return {
    ...head,
    // A mask would change what they describe, and comes when they have gone.
    headers: isSame ? decoded : withoutByteHeaders(decoded),
    body: joined(pieces, stream),
    bodyBytes: isSame ? answer.bodyBytes : undefined,
    trailers: isSame && answer.bodyBytes !== undefined ? undefined : () => [[ECHOES, found.text()]],
  };
};

const urlHeaders = new Set(['location', 'content-location', 'refresh']);

async function* asStream(chunks: AsyncIterable<Uint8Array> | readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks;
}

/** Values found so far. The first is counted and told of at once. */
const createCount = ({ guard, guarded, run }: Pick<GuardedAnswer, 'guard' | 'guarded' | 'run'>) => {
  let count = 0;
  return {
    add: (echoes: number): void => {
      count += echoes;
      run.echoed(echoes);
      guard.report(guarded, echoes);
    },
    isBlocked: (mode: string): boolean => mode === 'block' && count > 0,
    fault: echoFault,
    text: (): string => String(count),
  };
};

/** Takes what comes up to HELD_BYTES_MAX. @throws EgressFault BUSY without memory for it. */
const hold = (
  ctx: ReactorsContext,
  { account, signal, reservations }: Pick<GuardedAnswer, 'account' | 'signal' | 'reservations'>,
  stream: AsyncGenerator<Uint8Array>,
): Promise<HeldBody> =>
  takeUpTo(stream, HELD_BYTES_MAX, async () => {
    const wait = { waitMs: MEMORY_WAIT_MS, signal };
    const memory = ctx.accounts.reserveInTime(account, 'response_bytes', HELD_BYTES_MAX, wait);
    reservations.push(
      await memory.catch((cause: unknown) => {
        throw cause instanceof AppError ? new EgressFault('BUSY', { cause }) : cause;
      }),
    );
  });
