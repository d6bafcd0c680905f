// A request or an answer as code sees it: headers by their names, a body as what it says. What code may do with it is
// decided elsewhere.
import type { Headers } from '../egress/headers.ts';
import type { Json } from '../vault/json.ts';
import { bodyKindOf, type Charset } from './body-kind.ts';

/** What passes: a body is undefined where there is none. */
export type Message = {
  headers: Headers;
  body: Uint8Array | undefined;
  /** Whether values of tokens were put in, or into the request that it answers. */
  hasValues?: boolean;
};

/** RFC 9110 section 5.3, and RFC 6265 sections 3 and 5.4 for the two that a comma would break. */
export const namedHeaders = (headers: Headers): Record<string, string | string[]> => {
  const named = Object.create(null) as Record<string, string | string[]>;
  for (const [name, value] of headers) {
    const key = name.toLowerCase();
    const before = named[key];
    if (key === 'set-cookie') named[key] = [...((before as string[] | undefined) ?? []), value];
    else named[key] = before === undefined ? value : `${before as string}${key === 'cookie' ? '; ' : ', '}${value}`;
  }
  return named;
};

export const charsetOf = (headers: Headers): Charset => {
  const kind = bodyKindOf(headers);
  return 'charset' in kind ? kind.charset : 'utf8';
};

export const isJson = (headers: Headers): boolean => bodyKindOf(headers).kind === 'json';

/** The body as text; undefined where there is none. */
export const textOf = ({ headers, body }: Message): string | undefined =>
  body === undefined || body.byteLength === 0
    ? undefined
    : Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString(charsetOf(headers));

/** JSON as what it says, everything else as text, nothing as null. */
export const valueOf = (message: Message): Json => {
  const text = textOf(message);
  if (text === undefined) return null;
  if (!isJson(message.headers)) return text;
  try {
    // A byte order mark is no JSON, and is there all the same (RFC 8259 section 8.1).
    return JSON.parse(text.startsWith('\ufeff') ? text.slice(1) : text) as Json;
  } catch {
    return text;
  }
};
