// Turns one operation of the API into a method: path, query and body from its arguments, and lists that go on by themselves.
import { randomUUID } from 'node:crypto';
import { type Operation, type OperationName, type Operations, operations } from './generated/api.ts';
import { StrongroomError } from './errors.ts';
import { writeJson } from './json.ts';
import type { Request, Transport } from './transport.ts';

export type CallOptions = {
  /** Aborts the call, also while it waits to be sent again. The call then fails with the reason of the signal. */
  signal?: AbortSignal;
  /** For one attempt, in ms. */
  timeout?: number;
  /**
   * Idempotency key of POST, PUT and PATCH. Default: one of the call's own, the same for each attempt. A call of a later process
   * needs yours.
   */
  idempotencyKey?: string;
  /** Names the request in the log of the vault. */
  traceId?: string;
};

type Partially = CallOptions & {
  /** Does the items that are right. The answer has `errors` for the others. */
  partial: true;
};

type Page = { data: unknown[]; pagination: { next?: string; page_number?: number; total_pages?: number } };

/** The first page, as a promise; and all records, page after page: `for await (const token of vault.tokens.list())`. */
export type List<Answer, Item> = Promise<Answer> & AsyncIterable<Item>;

type Arguments<Name extends OperationName> = [...Operations[Name]['path'], ...Operations[Name]['input']];

type Answer<Name extends OperationName> = Operations[Name] extends { item: infer Item }
  ? List<Operations[Name]['answer'], Item>
  : Promise<Operations[Name]['answer']>;

export type Method<Name extends OperationName> = Operations[Name] extends { partial: infer Result }
  ? {
      (...args: [...Arguments<Name>, options: Partially]): Promise<Result>;
      (...args: [...Arguments<Name>, options?: CallOptions]): Answer<Name>;
    }
  : (...args: [...Arguments<Name>, options?: CallOptions]) => Answer<Name>;

const OPTIONS = new Set(['signal', 'timeout', 'idempotencyKey', 'traceId', 'partial']);

/** @throws TypeError for an id that would lead to another path: nothing, or dots. */
const writePath = (operation: Operation, ids: unknown[]): string => {
  let at = 0;
  return operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const id = ids[at];
    at += 1;
    const text = typeof id === 'number' ? String(id) : id;
    if (typeof text !== 'string' || /^\.{0,2}$/.test(text) || !text.isWellFormed())
      throw new TypeError(`${operation.method} ${operation.path}: ${name} must be an id.`);
    return encodeURIComponent(text);
  });
};

const writeQuery = (operation: string, query: object): string => {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item === undefined || item === null) continue;
      if (typeof item === 'object' && !(item instanceof Date))
        throw new TypeError(`${operation}: the parameter ${name} must be a text, a number or a list of these.`);
      search.append(name, item instanceof Date ? item.toISOString() : String(item));
    }
  return search.size === 0 ? '' : `?${search}`;
};

/** What `fetch` would refuse with the value in its message. */
export const checkHeader = (name: string, text: string | undefined): void => {
  if (text !== undefined && !/^[!-~](?:[ -~]*[!-~])?$/.test(text))
    throw new TypeError(`${name} must have printable ASCII characters only.`);
};

const headersOf = (operation: Operation, options: CallOptions & { partial?: boolean }): Record<string, string> => ({
  accept: 'application/json',
  ...(operation.input === 'body' && { 'content-type': 'application/json' }),
  ...(operation.takesKey && { 'svc-idempotency-key': options.idempotencyKey ?? randomUUID() }),
  ...(options.traceId !== undefined && { 'svc-trace-id': options.traceId }),
  ...(options.partial && { 'svc-partial': 'true' }),
});

const writeRequest = (operation: Operation, ids: unknown[], input: unknown, options: CallOptions): Request => {
  const name = `${operation.method} ${operation.path}`;
  checkHeader('idempotencyKey', options.idempotencyKey);
  checkHeader('traceId', options.traceId);
  const query = operation.input === 'query' && input ? writeQuery(name, input) : '';
  const hasBody = operation.input === 'body' && input !== undefined;
  return {
    operation: name,
    method: operation.method,
    path: writePath(operation, ids) + query,
    headers: headersOf(operation, options),
    body: hasBody ? writeJson(name, input, operation.readsExpressions === true) : undefined,
    isRepeatable: operation.isRepeatable === true,
    signal: options.signal,
    timeoutMs: options.timeout,
  };
};

/** @throws StrongroomError where the server repeats a cursor: the list would not end. */
const iterate = async function* (
  operation: Operation,
  first: Promise<Page>,
  input: object,
  fetchPage: (input: object) => Promise<Page>,
): AsyncGenerator {
  let page = await first;
  for (let before: string | undefined; ;) {
    yield* page.data;
    const { next, page_number: number = 1, total_pages: pages = 1 } = page.pagination;
    if (next === undefined && number >= pages) return;
    if (next !== undefined && next === before) {
      const detail = 'the server repeats a cursor';
      throw new StrongroomError({
        operation: `${operation.method} ${operation.path}`,
        code: 'unexpected_answer',
        detail,
      });
    }
    before = next;
    page = await fetchPage(
      next === undefined ? { ...input, page: number + 1 } : { ...input, page: undefined, start: next },
    );
  }
};

export const createMethod = (transport: Transport, name: OperationName) => {
  const operation = operations[name];
  const pathLength = operation.path.match(/\{/g)?.length ?? 0;
  const inputAt = operation.input ? pathLength : -1;
  const optionsAt = pathLength + (operation.input ? 1 : 0);
  return (...args: unknown[]): unknown => {
    const options = (args[optionsAt] ?? {}) as CallOptions;
    const ids = args.slice(0, pathLength);
    const send = async (input: unknown): Promise<unknown> => {
      const unknown = Object.keys(options).find((option) => !OPTIONS.has(option));
      if (unknown !== undefined || args.length > optionsAt + 1)
        throw new TypeError(
          `${operation.method} ${operation.path}: ${unknown ?? 'a further argument'} is not known here.`,
        );
      return transport.send(writeRequest(operation, ids, input, options));
    };
    const input = inputAt === -1 ? undefined : args[inputAt];
    const answer = send(input);
    if (!operation.isList) return answer;
    const fetchPage = (next: object): Promise<Page> => send(next) as Promise<Page>;
    return Object.assign(answer, {
      [Symbol.asyncIterator]: () => iterate(operation, answer as Promise<Page>, (input ?? {}) as object, fetchPage),
    });
  };
};
