// Records of requests that have an idempotency key, as the API shows them. Each reading is logged.
import { type AnswerBasis, basisFor } from '../../access/answer-record.ts';
import { checkReplay } from '../../access/idempotency.ts';
import type { Work } from '../../access/work.ts';
import { AppError, notFound } from '../../../platform/base/errors.ts';
import { countThenList, type Page, type PageRequest, readPage } from '../../../platform/base/pagination.ts';
import { type DateRange, parseIdCursor, timeOfId, toIdRange } from '../../../platform/crypto/ids.ts';
import { FORWARDS_LISTED, logRow } from '../../../platform/db/audit-record.ts';
import type { Headers } from '../../../platform/egress/headers.ts';
import { judgeForwards } from '../../runs/forward-leases.ts';
import {
  countForwards,
  findForward,
  type ForwardFilter,
  type ForwardRow,
  type ListedForward,
  listForwardRows,
} from '../../runs/forward-rows.ts';
import type { ProxyContext } from '../context.ts';
import { DAY_MS } from '../../../platform/base/times.ts';
import type { TenantKeys } from '../../../platform/crypto/keyring.ts';
import { openText, type Sealing, sealText } from '../../../platform/keys/sealed-text.ts';

/** A body as text, or in base64 where it is none. */
export type ShownBody = { text?: string | undefined; base64?: string | undefined };

export type ForwardRecord = {
  id: string;
  tenant_id: string;
  state: string;
  method: string;
  destination_host: string;
  path_digest: string;
  proxy_id?: string | undefined;
  token_ids: string[];
  status?: number | undefined;
  answer: string;
  attempts: number;
  replay_of?: string | undefined;
  actor_id: string;
  actor_type: string;
  trace_id?: string | undefined;
  begun_at: string;
  sent_at?: string | undefined;
  answered_at?: string | undefined;
  request?: ShownRequest | undefined;
  response?: ShownResponse | undefined;
};

type ShownRequest = {
  url?: string | undefined;
  path: string;
  query: string;
  header_names: string[];
  body?: ShownBody | undefined;
  is_body_stored: boolean;
};

type ShownResponse = { status: number; headers: { name: string; value: string }[]; body?: ShownBody | undefined };

type ForwardQuery = Pick<ForwardFilter, 'proxy_id' | 'state'> & DateRange;

export const recordOf = (tenant_id: string, row: ListedForward): ForwardRecord => ({
  id: row.id,
  tenant_id,
  state: row.state,
  method: row.method,
  destination_host: row.destination_host,
  path_digest: row.path_digest,
  proxy_id: row.proxy_id ?? undefined,
  token_ids: row.token_ids,
  status: row.status ?? undefined,
  answer: row.answer,
  attempts: row.attempts,
  replay_of: row.replay_of ?? undefined,
  actor_id: row.actor_id,
  actor_type: row.actor_type,
  trace_id: row.trace_id ?? undefined,
  begun_at: timeOfId(row.id).toISOString(),
  sent_at: row.sent_at?.toISOString(),
  answered_at: row.answered_at?.toISOString(),
});

const bodyOf = (base64: string): ShownBody => {
  const bytes = Buffer.from(base64, 'base64');
  const text = bytes.toString('utf8');
  return Buffer.from(text, 'utf8').equals(bytes) ? { text } : { base64 };
};

/** Values of headers may be credentials of the caller. */
const namesIn = (headers: Headers): string[] => [...new Set(headers.map(([name]) => name))];

const requestOf = ({ request }: Stored): ShownRequest => ({
  url: request.destination_url,
  path: request.path,
  query: request.query,
  header_names: namesIn(request.headers),
  body: request.body === undefined ? undefined : bodyOf(request.body),
  is_body_stored: request.body !== undefined || !request.hasBody,
});

/** Undefined where the reader may not use each token in it, as for a repeated request. @throws too_many_requests; unavailable. */
const responseOf = async (
  ctx: ProxyContext,
  work: Work,
  { status }: ForwardRow,
  { request, response, headers, basis }: Stored,
): Promise<ShownResponse | undefined> => {
  const shown = (all: Headers): ShownResponse['headers'] => all.map(([name, value]) => ({ name, value }));
  if (!basis || status === null) return undefined;
  try {
    await checkReplay(ctx, work, basisFor(basis, { of: request.actor_id, reader: work.actor_id }));
  } catch (error) {
    if (error instanceof AppError && (error.code === 'forbidden' || error.code === 'conflict')) return undefined;
    throw error;
  }
  if (!response) return { status, headers: shown(headers ?? []) };
  return { status: response.status, headers: shown(response.headers), body: bodyOf(response.body) };
};

/** A record, with what is sealed of it. `stored` is undefined when its day is over. @throws notFound; internal; unavailable. */
export const openRecord = async (
  ctx: ProxyContext,
  { db, tenant_id }: Work,
  id: string,
): Promise<{ row: ForwardRow; stored: Stored | undefined }> => {
  await judgeForwards(ctx, tenant_id);
  const row = await findForward(db, id);
  if (!row) throw notFound('forward');
  const { sealed } = row;
  if (!sealed || !isStoredAt(id, ctx.now())) return { row, stored: undefined };
  return { row, stored: openStored(ctx, { tenant_id, keys: await ctx.keyring.tenantKeys(tenant_id) }, { id, sealed }) };
};

/** A page, newest first, without bodies. @throws invalidInput for the interval, and for a malformed cursor; unavailable. */
export const listForwards = async (
  ctx: ProxyContext,
  work: Work,
  input: { filter: ForwardQuery; page: PageRequest },
): Promise<Page<ForwardRecord>> => {
  const { start_date, end_date, ...others } = input.filter;
  const filter = { ...others, ...toIdRange({ start_date, end_date }) };
  const { db, tenant_id } = work;
  await judgeForwards(ctx, tenant_id);
  const { pagination, rows } = await readPage<ListedForward, string>(input.page, {
    page: countThenList(
      () => countForwards(db, filter),
      (offset, limit) => listForwardRows(db, filter, { offset }, limit),
    ),
    cursor: {
      of: ({ id }) => [id],
      parse: parseIdCursor,
      list: (after, limit) => listForwardRows(db, filter, { after }, limit),
    },
  });
  const entity = { entity_type: 'log', entity_ids: [tenant_id], message: FORWARDS_LISTED };
  await work.log([logRow(ctx, work, { operation: 'read', ...entity })]);
  return { pagination, data: rows.map((row) => recordOf(tenant_id, row)) };
};

/**
 * What came back may be as private as a value: a member shows bodies with a fresh second factor, as if to send the request.
 * @throws notFound; StepUpNeeded; too_many_requests; internal for what does not open; unavailable.
 */
export const getForward = async (
  ctx: ProxyContext,
  work: Work,
  { id, withBodies }: { id: string; withBodies: boolean },
): Promise<ForwardRecord> => {
  if (withBodies) work.needFreshFactor();
  const { row, stored } = await openRecord(ctx, work, id);
  await work.log([logRow(ctx, work, { operation: 'read', entity_type: 'forward', entity_ids: [id] })]);
  const record = recordOf(work.tenant_id, row);
  if (!withBodies || !stored) return record;
  return { ...record, request: requestOf(stored), response: await responseOf(ctx, work, row, stored) };
};

// What is sealed of a forwarded request: the request as it came, with expressions in place of values, and the response with the decisions
// behind it.

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
