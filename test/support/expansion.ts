// Finds and expands expressions of forwarded requests with given tokens, for unit tests.
import * as fc from 'fast-check';
import { expect } from 'vitest';
import type { Headers } from '../../src/platform/egress/headers.ts';
import { AppError } from '../../src/platform/base/errors.ts';
import { bodyKindOf } from '../../src/modules/proxy/bodies/body-kind.ts';
import { findExpressions } from '../../src/modules/proxy/bodies/expressions.ts';
import { createExpansion } from '../../src/modules/tokens/expressions/expansion.ts';
import type { Json } from '../../src/platform/json/json.ts';

export type Sent = {
  path?: string;
  query?: string;
  headers?: Headers;
  type?: string | undefined;
  body?: string | Buffer;
};

/** What each token's data is. */
export type Tokens = Record<string, Json>;

export const find = ({ path = '', query = '', headers = [], type, body }: Sent) => {
  const all: Headers = type === undefined ? headers : [['content-type', type], ...headers];
  const bytes = Buffer.from(body ?? '');
  return findExpressions({ path, query, headers: all, body: { kind: bodyKindOf(all), bytes } });
};

export const send = (sent: Sent, tokens: Tokens) => {
  const found = find(sent);
  const resolve = (id: string) => (Object.hasOwn(tokens, id) ? { data: tokens[id] as Json } : undefined);
  return found.expand(createExpansion(resolve, { hmac: () => '' }, found.references));
};

export const sendBody = (type: string | undefined, body: string | Buffer, tokens: Tokens): string =>
  String(send({ type, body }, tokens).body);

export const refusalOf = (action: () => unknown): AppError => {
  try {
    action();
  } catch (error) {
    expect(error).toBeInstanceOf(AppError);
    return error as AppError;
  }
  throw new Error('nothing was refused');
};

export const problemsOf = (action: () => unknown): Record<string, string[]> => ({ ...refusalOf(action).errors });

/** Characters that mean something somewhere, and any others. */
export const awkward = fc
  .array(
    fc.oneof(
      fc.constantFrom('"', "'", '\\', '{{', '}}', '{{ t }}', '<', '>', '&', '&amp;', ']]>', ']]', '-->', '--', '<!--'),
      fc.constantFrom('%', '%7B', '+', '&', '=', '/', '..', '.', '#', '?', '?>', ' ', '\t', '\n', '\r', '\r\n', ';'),
      fc.constantFrom('\r\n--b', '--b--', '\\u007b', '\0', '\u0085', '\u2028', 'é', '€', '😀', '\ufeff', '\x7f', '$&'),
      fc.string({ unit: 'binary', maxLength: 3 }),
    ),
    { maxLength: 12 },
  )
  .map((pieces) => pieces.join(''));

export const FORM = 'application/x-www-form-urlencoded';
export const PARTS = 'multipart/form-data; boundary=b';

/** A body of parts with the boundary `b`, each as its header lines and its content. */
export const parts = (...each: [headers: string, content: string][]): string => {
  const framed = each.map(([headers, content]) => `--b\r\n${headers}${headers && '\r\n'}\r\n${content}\r\n`);
  return `${framed.join('')}--b--\r\n`;
};
