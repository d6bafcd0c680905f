// Callers that create and read cards through a load balancer, and record what was acknowledged and which errors they got.
import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';

/** Between two requests of a caller: the drill shares the machine with three databases. */
const PAUSE_MS = 15;
/** What `Retry-After: 1` asks for is longer. Callers that repeat sooner see more of the outage. */
const RETRY_MS = 100;
const VALUES_IN_LIST = 10;

export type Token = { id: string; cvc: string | undefined; sentMs: number; acknowledgedMs: number };

export type Load = {
  acknowledged: Token[];
  /** How often each error was received, by its text. */
  errors: Map<string, number>;
  /** The longest time that a caller waited for an error, in ms. */
  longestErrorMs(): number;
  /** Cards whose code was missing when they were read right after their creation. */
  withoutCode: Token[];
  read(token: Token): Promise<{ status: number; cvc: string | undefined }>;
  stop(): Promise<void>;
};

/** The one error that callers may get. */
export const RETRY_LATER = '503 with Retry-After';

/** @param keys of an application that creates, and of one that reads values in the clear. */
export const startLoad = (url: string, keys: { creator: string; reader: string }): Load => {
  const acknowledged: Token[] = [];
  const withoutCode: Token[] = [];
  const errors = new Map<string, number>();
  let longestErrorMs = 0;
  let isStopped = false;

  /** @returns the body of a success, or undefined after an error, which is recorded. */
  const send = async (method: string, path: string, key: string, json?: unknown): Promise<any> => {
    const sentMs = performance.now();
    const fail = async (text: string): Promise<undefined> => {
      errors.set(text, (errors.get(text) ?? 0) + 1);
      longestErrorMs = Math.max(longestErrorMs, performance.now() - sentMs);
      await pause(RETRY_MS);
    };
    try {
      const response = await fetch(url + path, {
        method,
        headers: { 'svc-api-key': key, ...(json === undefined ? {} : { 'content-type': 'application/json' }) },
        ...(json === undefined ? {} : { body: JSON.stringify(json) }),
      });
      const text = await response.text();
      if (response.ok) return JSON.parse(text);
      return fail(response.headers.has('retry-after') ? `${response.status} with Retry-After` : `${response.status}`);
    } catch (error) {
      const { message, cause } = error as Error;
      return fail(`${message}: ${(cause as { code?: string } | undefined)?.code}`);
    }
  };

  const createCard = async (): Promise<Token | undefined> => {
    const sentMs = performance.now();
    const cvc = String(randomInt(100, 1000));
    const body = await send('POST', '/tokens', keys.creator, {
      type: 'card',
      data: { number: '4242424242424242', cvc },
    });
    if (!body) return undefined;
    const token = { id: body.id as string, cvc, sentMs, acknowledgedMs: performance.now() };
    acknowledged.push(token);
    return token;
  };
  const createList = async (): Promise<void> => {
    const sentMs = performance.now();
    const body = await send(
      'POST',
      '/tokenize',
      keys.creator,
      Array.from({ length: VALUES_IN_LIST }, () => ({ type: 'token', data: 'x' })),
    );
    const acknowledgedMs = performance.now();
    for (const { id } of (body ?? []) as { id: string }[])
      acknowledged.push({ id, cvc: undefined, sentMs, acknowledgedMs });
  };
  const createAndRead = async (): Promise<void> => {
    const token = await createCard();
    const body = token && (await send('GET', `/tokens/${token.id}`, keys.reader));
    if (token && body && body.data.cvc !== token.cvc) withoutCode.push(token);
  };

  const call = async (work: () => Promise<unknown>): Promise<void> => {
    while (!isStopped) {
      await work();
      await pause(PAUSE_MS);
    }
  };
  const calls = [createList, createAndRead, createCard, createCard, createCard, createCard].map(call);

  return {
    acknowledged,
    errors,
    withoutCode,
    longestErrorMs: () => longestErrorMs,
    read: async ({ id }) => {
      const response = await fetch(`${url}/tokens/${id}`, { headers: { 'svc-api-key': keys.reader } });
      const body = response.ok ? ((await response.json()) as { data: { cvc?: string } }) : undefined;
      return { status: response.status, cvc: body?.data.cvc };
    },
    stop: async () => {
      isStopped = true;
      await Promise.all(calls);
    },
  };
};
