// The client of a vault: `new Strongroom({ apiKey, baseUrl })` with a method for each operation, and a fetch through the proxy.
import { createMethod, type Method } from './calls.ts';
import { type Clock, systemClock } from './pacing.ts';
import { proxyFetch, type ProxyInit } from './proxy.ts';
import { resources } from './resources.ts';
import { type AnswerInfo, Transport } from './transport.ts';

export type * from './generated/api.ts';
export type { CallOptions, List } from './calls.ts';
export { type Faults, StrongroomError } from './errors.ts';
export { data, type Expression, expression, type FilterArgument, record, ref } from './expressions.ts';
export type { AnswerInfo, Clock, ProxyInit };

export type StrongroomOptions = {
  /** Key of an application: `svc_live_...`. A variable of the environment may be undefined: that is a TypeError. */
  apiKey: string | undefined;
  /** Such as `https://vault.example.com`. */
  baseUrl: string | undefined;
  /** In place of the `fetch` of Node, such as one with an agent of its own. */
  fetch?: typeof globalThis.fetch;
  /** For one attempt, in ms. Default: 30,000. */
  timeout?: number;
  /** How often a call is repeated at most, besides those that a 429 with `Retry-After` asks for. Default: 3. 0: never. */
  retries?: number;
  /** How long a call waits at most between its attempts, in ms in all. Default: 120,000. */
  maxWait?: number;
  /** Is told of each answer of the vault. */
  onAnswer?: (info: AnswerInfo) => void;
  /** For tests: the time. */
  clock?: Clock;
};

type Resources = {
  readonly [Resource in keyof typeof resources]: {
    readonly [Name in keyof (typeof resources)[Resource]]: (typeof resources)[Resource][Name] extends infer Operation
      ? Method<Operation & Parameters<typeof createMethod>[1]>
      : never;
  };
};

const OPTIONS = new Set(['apiKey', 'baseUrl', 'fetch', 'timeout', 'retries', 'maxWait', 'onAnswer', 'clock']);
const RETRIES = 3;
const TIMEOUT_MS = 30_000;
/** A 429 for a minute passes, and so does a restart of the vault. */
const WAIT_MS_MAX = 120_000;

const readNumber = (name: string, value: number | undefined, otherwise: number): number => {
  if (value === undefined) return otherwise;
  if (typeof value !== 'number' || !(value >= 0) || value > 2 ** 31 - 1)
    throw new TypeError(`Strongroom: ${name} must be a number from 0.`);
  return value;
};

const given = (name: string, text: string | undefined): string => {
  if (text === undefined || text === '')
    throw new TypeError(`Strongroom: ${name} is not given. Is its variable of the environment set?`);
  return text;
};

const readBaseUrl = (text: string): string => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== '' || url.search !== '' || url.hash !== '')
    throw new TypeError('Strongroom: baseUrl must be an http or https URL, such as https://vault.example.com.');
  return url.origin + url.pathname.replace(/\/+$/, '');
};

/** Methods of this interface are made from `resources`. */
// oxlint-disable-next-line typescript/no-unsafe-declaration-merging
export interface Strongroom extends Resources {}

export class Strongroom {
  readonly proxy: {
    /** A `fetch` whose URL, headers and body may hold expressions. Without `idempotencyKey` it is sent once. */
    fetch(url: string | URL, init?: ProxyInit): Promise<Response>;
  };

  /** @throws TypeError for an option that is missing, wrong or unknown. Its message never has the key. */
  constructor(options: StrongroomOptions) {
    const { onAnswer, fetch = globalThis.fetch, clock = systemClock } = options;
    const unknown = Object.keys(options).find((option) => !OPTIONS.has(option));
    if (unknown !== undefined) throw new TypeError(`Strongroom has no option ${unknown}.`);
    const apiKey = given('apiKey', options.apiKey);
    const baseUrl = given('baseUrl', options.baseUrl);
    if (typeof apiKey !== 'string' || !/^[!-~]+$/.test(apiKey))
      throw new TypeError('Strongroom: apiKey must be an API key, without blanks and line ends.');
    const transport = new Transport({
      apiKey,
      baseUrl: readBaseUrl(baseUrl),
      fetch,
      clock,
      onAnswer,
      timeoutMs: readNumber('timeout', options.timeout, TIMEOUT_MS),
      retries: readNumber('retries', options.retries, RETRIES),
      waitMsMax: readNumber('maxWait', options.maxWait, WAIT_MS_MAX),
    });
    this.proxy = { fetch: (url, init) => proxyFetch(transport, url, init) };
    for (const [name, methods] of Object.entries(resources))
      Object.assign(this, {
        [name]: Object.fromEntries(
          Object.entries(methods).map(([method, operation]) => [method, createMethod(transport, operation)]),
        ),
      });
  }
}
