// Sends one request over one connection and streams the response. A slow reader applies backpressure to the destination.
// Deadlines are the caller's.
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { Account, Accounts } from '../base/accounts.ts';
import { findOperation, mark } from '../base/event-loop.ts';
import { createPieceQueue } from '../base/piece-queue.ts';
import { ChunkJoiner } from '../base/small-chunks.ts';
import type { Connection } from './connections.ts';
import { afterSending, EgressFault, faultOf } from '../base/egress-fault.ts';
import type { Headers } from './headers.ts';

export type RequestBody = Uint8Array | AsyncIterable<Uint8Array>;

export type Question = {
  path: string;
  method: string;
  headers: Headers;
  body: RequestBody | undefined;
  bodyBytes: number | undefined;
};

export type AnswerHead = { status: number; statusText: string; headers: Headers };

/** Has one reader, which reads it to its end or destroys it. */
export type AnswerBody = AsyncIterable<Uint8Array> & {
  /** Returns the whole rest of the body if it has arrived, and counts as reading to the end. Otherwise undefined. */
  takeAll(): Uint8Array[] | undefined;
  destroy(): void;
};

export type Exchange = {
  /** @throws EgressFault. */
  head: Promise<AnswerHead>;
  body: AnswerBody;
  /** Aborts the exchange. Does nothing after its end. */
  fail(error: unknown): void;
};

/** Who pays for the chunks of the response. */
type Payer = { accounts: Accounts; account: Account };

/**
 * @param onEnd called once. `isWhole`: the response was read to its end, so the connection can be reused. Otherwise it was
 * aborted or broke off.
 */
export const startExchange = (
  { client, heads }: Pick<Connection, 'client' | 'heads'>,
  question: Question,
  { accounts, account }: Payer,
  onEnd: (isWhole: boolean) => void,
): Exchange => {
  const head = Promise.withResolvers<AnswerHead>();
  const operation = findOperation();
  let controller: Dispatcher.DispatchController | undefined;
  let isFull = false;
  let isInDebt = false;
  let isEnded = false;

  /** The destination sends while the queue has space and the account owes nothing. */
  const flow = (): void => {
    if (isFull || isInDebt) controller?.pause();
    else controller?.resume();
  };
  const setFull = (value: boolean): void => {
    isFull = value;
    flow();
  };
  const setInDebt = (value: boolean): void => {
    isInDebt = value;
    flow();
  };
  const queue = createPieceQueue({ pause: () => setFull(true), resume: () => setFull(false) });
  const joiner = new ChunkJoiner(accounts, {
    account: () => account,
    take: (piece) => {
      mark(operation);
      operation?.addBytes(piece.byteLength);
      if (!isEnded) queue.push(piece);
    },
    pause: () => setInDebt(true),
    resume: () => setInDebt(false),
    refuse: () => fail(new EgressFault('TOO_MANY_CHUNKS')),
  });

  const end = (isWhole: boolean): void => {
    if (isEnded) return;
    isEnded = true;
    onEnd(isWhole);
  };

  const fail = (error: unknown): void => {
    if (isEnded) return;
    joiner.flush();
    const fault = afterSending(faultOf(error));
    head.reject(fault);
    queue.fail(fault);
    end(false);
  };

  /** The reader gets pieces that arrived before a fault before the fault. */
  const next = async (): Promise<IteratorResult<Uint8Array, undefined>> => {
    const read = await queue.next();
    if (read.done) end(true);
    return read;
  };

  const takeAll = (): Uint8Array[] | undefined => {
    const all = queue.takeAll();
    if (all) end(true);
    return all;
  };

  const destroy = (): void => {
    fail(new EgressFault('ABORTED'));
    queue.clear();
  };

  const leave = async (): Promise<IteratorResult<Uint8Array, undefined>> => {
    destroy();
    return { done: true, value: undefined };
  };

  const handler: Dispatcher.DispatchHandler = {
    onRequestStart: (given) => {
      controller = given;
    },
    onResponseStart: (given, status, _, statusText = '') => {
      mark(operation);
      // Informational responses were dropped before.
      head.resolve({ status, statusText, headers: pairsOf(given.rawHeaders as Buffer[]) });
    },
    onResponseData: (_, piece) => {
      mark(operation);
      joiner.push(piece);
    },
    onResponseEnd: () => {
      mark(operation);
      joiner.flush();
      queue.end();
    },
    onResponseError: (_, error) => fail(error),
  };

  heads.expect();
  client.dispatch(
    {
      path: question.path,
      method: question.method as Dispatcher.HttpMethod,
      headers: flatHeaders(question),
      // undici accepts any async iterable, but its types do not.
      body: (isStreamed(question.body) ? guarded(question.body, () => isEnded) : question.body) as
        | Uint8Array
        | Readable
        | null,
    },
    handler,
  );

  return {
    head: head.promise,
    body: { destroy, takeAll, [Symbol.asyncIterator]: () => ({ next, return: leave }) },
    fail,
  };
};

const isStreamed = (body: RequestBody | undefined): body is AsyncIterable<Uint8Array> =>
  body !== undefined && !(body instanceof Uint8Array);

/** Marks an error of the request body as ABORTED: its sender failed, not the destination. Stops when the exchange is over. */
async function* guarded(body: AsyncIterable<Uint8Array>, isOver: () => boolean): AsyncGenerator<Uint8Array> {
  try {
    for await (const piece of body) {
      if (isOver()) return;
      yield piece;
    }
  } catch (cause) {
    throw new EgressFault('ABORTED', { cause });
  }
}

/** undici takes a flat list: name, value, name, value. */
const flatHeaders = ({ headers, body, bodyBytes }: Question): string[] => {
  const flat: string[] = [];
  for (const [name, value] of headers) flat.push(name, value);
  if (isStreamed(body) && bodyBytes !== undefined) flat.push('content-length', String(bodyBytes));
  return flat;
};

/** Header bytes as Latin-1 text: one character for each byte. */
const pairsOf = (raw: Buffer[]): Headers => {
  const pairs: Headers = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    pairs.push([(raw[at] as Buffer).toString('latin1'), (raw[at + 1] as Buffer).toString('latin1')]);
  }
  return pairs;
};
