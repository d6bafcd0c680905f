// What is sealed of a forwarded request: the request as it came, with expressions in place of values, and the response with the decisions
// behind it.
import type { AnswerBasis } from '../../access/answer-record.ts';
import { DAY_MS } from '../../../platform/base/times.ts';
import { timeOfId } from '../../../platform/crypto/ids.ts';
import type { TenantKeys } from '../../../platform/crypto/keyring.ts';
import type { Headers } from '../../../platform/egress/headers.ts';
import { openText, type Sealing, sealText } from '../../../platform/keys/sealed-text.ts';

/** A larger body is not stored: neither that of a request, nor that of a response. */
export const STORED_BYTES_MAX = 256 * 1024;

/** How long a request and its response are stored, and its key is taken. */
export const STORED_MS = DAY_MS;

/** Headers that say what the bytes of a body are. */
export const OF_BODY: ReadonlySet<string> = new Set(['content-type', 'content-encoding']);

export type StoredRequest = {
  /** These three are sealed as well as they are columns: a writer of the database does not change what a replay and a reading rest on. */
  method: string;
  actor_id: string;
  proxy_id: string | undefined;
  /** Path and query as spelled, without the proxy key. */
  path: string;
  query: string;
  isBare: boolean;
  /** URL of a request that named its destination, without its own path and query. */
  destination_url?: string | undefined;
  /** Digest of the stored proxy, as a bound pins it. */
  proxy_pin?: string | undefined;
  /** Those that were forwarded. */
  headers: Headers;
  /** What has a literal security code is left out, or spelled ''. Such a request is not sent again from here. */
  hasCode?: true | undefined;
  /** Base64. Undefined for none, and where it is not stored. */
  body?: string | undefined;
  hasBody: boolean;
  /** The idempotency key that the destination gets, where its proxy names a header for it. */
  destination_key: string;
};

export type StoredResponse = {
  /** These four are of the response to the client, which a transform may have changed. */
  status: number;
  statusText: string;
  headers: Headers;
  /** Base64. */
  body: string;
  destination_status: number | undefined;
};

export type Stored = {
  request: StoredRequest;
  /** Undefined where it is not stored, or only its status and headers. */
  response?: StoredResponse | undefined;
  /** Headers of a response whose body is not stored. */
  headers?: Headers | undefined;
  /** The decisions behind the response. */
  basis?: AnswerBasis | undefined;
};

const placeOf = (tenant_id: string, id: string) => ({ tenant_id, record: 'forward', id, field: 'request' });

export const sealStored = (
  ctx: Sealing,
  { tenant_id, keys }: { tenant_id: string; keys: TenantKeys },
  id: string,
  stored: Stored,
): Buffer => sealText(ctx, keys, placeOf(tenant_id, id), JSON.stringify(stored));

/** @throws internal, after an alarm, for what does not open. */
export const openStored = (
  ctx: Sealing,
  { tenant_id, keys }: { tenant_id: string; keys: TenantKeys },
  { id, sealed }: { id: string; sealed: Buffer },
): Stored => JSON.parse(openText(ctx, keys, placeOf(tenant_id, id), sealed)) as Stored;

/** Whether the request of a record may still be opened: what is sealed goes with its key, also where the sweep is late. */
export const isStoredAt = (id: string, now: Date): boolean => now.getTime() < timeOfId(id).getTime() + STORED_MS;

const NAMES = 'cv[cv2]|csc|security[_\\-. ]?code';

/** A name that a security code has in JSON, forms and markup, and a literal of three or four digits as its value. Bounded: no text takes long. */
const literalCode = new RegExp(
  `(?:${NAMES})[\\w\\-.[\\]]{0,64}["']?\\s{0,64}[=:>]{1,2}\\s{0,64}["']?\\d{3,4}(?!\\w)`,
  'i',
);
/** The same in a part of a multipart body. */
const codePart = new RegExp(
  `(?:${NAMES})[^"\\r\\n]{0,64}"[^\\r\\n]{0,200}\\r?\\n(?:[^\\r\\n]{1,200}\\r?\\n){0,4}\\r?\\n\\d{3,4}\\s{0,4}(?:\\r|\\n|$)`,
  'i',
);

const decodeUri = (text: string): string => text.replaceAll(/%[0-7][\da-f]/gi, (each) => decodeURIComponent(each));

/** Whether bytes have a security code that is no expression. Such bytes are not stored: no code outlives its time here. */
export const hasLiteralCode = (bytes: Uint8Array): boolean => {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  // Text in UTF-16 is the same with a zero beside each character.
  const narrow = text.includes('\0') ? text.replaceAll('\0', '') : text;
  // A form may have its digits in percent-encoding.
  return [narrow, decodeUri(narrow)].some((each) => literalCode.test(each) || codePart.test(each));
};

/** The same of a path, a query or a URL. */
export const hasCodeInUri = (text: string): boolean => literalCode.test(decodeUri(text));

/** The same of headers, which may say the name or have it in their value. */
export const hasCodeIn = (headers: Headers): boolean =>
  headers.some(([name, value]) => literalCode.test(`${name}: ${value}`));
