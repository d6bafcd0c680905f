// One request over a connection that is its own meanwhile, and the answer piece by piece as it comes: whoever reads slowly
// makes the destination wait. Knows no deadline and no other request.
import type { Readable } from 'node:stream';
import type { Client, Dispatcher } from 'undici';
import { createPieceQueue } from '../piece-queue.ts';
import { EgressFault, faultOf } from './fault.ts';
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

/** Read by one reader, to its end or destroyed. */
export type AnswerBody = AsyncIterable<Uint8Array> & {
  /** The pieces, where all of them have come: that is reading to the end. Else undefined, and nothing is read. */
  takeAll(): Uint8Array[] | undefined;
  destroy(): void;
};

export type Exchange = {
  /** @throws EgressFault. */
  head: Promise<AnswerHead>;
  body: AnswerBody;
  /** Ends it now; later it does nothing. */
  fail(error: unknown): void;
};

/**
 * @param onEnd once: `isWhole` when the answer was read to its end, and the connection may serve another; else it was given
 * up or broke off.
 */
export const startExchange = (client: Client, question: Question, onEnd: (isWhole: boolean) => void): Exchange => {
  const head = Promise.withResolvers<AnswerHead>();
  let controller: Dispatcher.DispatchController | undefined;
  const queue = createPieceQueue({ pause: () => controller?.pause(), resume: () => controller?.resume() });
  let isEnded = false;

  const end = (isWhole: boolean): void => {
    if (isEnded) return;
    isEnded = true;
    onEnd(isWhole);
  };

  const fail = (error: unknown): void => {
    if (isEnded) return;
    const fault = faultOf(error);
    head.reject(fault);
    queue.fail(fault);
    end(false);
  };

  /** Pieces that came before a fault are read before it. */
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
    queue.clear();
    fail(new EgressFault('ABORTED'));
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
      // What comes before the answer is not for whoever asked.
      if (status >= 200) head.resolve({ status, statusText, headers: pairsOf(given.rawHeaders as Buffer[]) });
    },
    onResponseData: (_, piece) => queue.push(piece),
    onResponseEnd: queue.end,
    onResponseError: (_, error) => fail(error),
  };

  client.dispatch(
    {
      path: question.path,
      method: question.method as Dispatcher.HttpMethod,
      headers: flatHeaders(question),
      // undici takes any async iterable; its types say less.
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

/** A body that breaks off is its sender's doing, and no fault of the destination. Nothing is asked for in vain. */
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

/** undici takes names and values in turn. */
const flatHeaders = ({ headers, body, bodyBytes }: Question): string[] => {
  const flat: string[] = [];
  for (const [name, value] of headers) flat.push(name, value);
  if (isStreamed(body) && bodyBytes !== undefined) flat.push('content-length', String(bodyBytes));
  return flat;
};

/** A header is bytes: each is a character here. */
const pairsOf = (raw: Buffer[]): Headers => {
  const pairs: Headers = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    pairs.push([(raw[at] as Buffer).toString('latin1'), (raw[at + 1] as Buffer).toString('latin1')]);
  }
  return pairs;
};
