// Sends a recorded request once more, as a new request of the caller who asks for it: rights, bounds and limits are those of now.
import type { Work } from '../../access/work.ts';
import { mayAnywhere } from '../../access/rules.ts';
import { conflict, forbidden, notFound } from '../../../platform/base/errors.ts';
import type { DigestKey } from '../../../platform/crypto/digest.ts';
import { FORWARD_REPLAYED, logRow } from '../../../platform/db/audit-record.ts';
import type { Headers } from '../../../platform/egress/headers.ts';
import { findForward, type ForwardRow } from '../../runs/forward-rows.ts';
import type { ProxyContext } from '../context.ts';
import { forward } from '../forward.ts';
import { findKeyOfProxy, pinOfProxy } from '../proxy-finder.ts';
import type { ProxyRequest } from '../request.ts';
import { inProgress, outcomeUnknown } from './attempt.ts';
import { type ForwardRecord, OF_BODY, openRecord, recordOf, type Stored, type StoredRequest } from './records.ts';

export type Replay = {
  id: string;
  /** A stored proxy other than that of the record. */
  proxy_id: string | undefined;
  accept_risk: boolean;
  /** Key of the replay itself: with the same one it is sent once. */
  key: string | undefined;
};

/** Headers that go to another proxy than the first: what the body is, and what may come back. All others may be credentials. */
const OF_ANY_PROXY: ReadonlySet<string> = new Set([...OF_BODY, 'accept']);

/** @throws conflict for a request that is under way, whose outcome is not known, or that is not stored. */
const checkReplayable = (
  { id, state }: ForwardRow,
  stored: Stored | undefined,
  { accept_risk }: Replay,
): StoredRequest => {
  if (state === 'begun' || state === 'sent') throw inProgress(id);
  if (state === 'unknown' && !accept_risk)
    throw outcomeUnknown(id, 'The outcome of the request is not known. With `accept_risk: true` it is sent once more.');
  if (!stored) throw conflict('The request is no longer stored: its day is over.');
  const { request } = stored;
  if (request.hasCode || (request.hasBody && request.body === undefined))
    throw conflict(
      'Not all of the request is stored: it has a security code, or a body of over 256 KB or in a coding that was not read.',
    );
  return request;
};

/** How the destination is named, and whether it is the one that the first request went to. */
type Destination = { header: Headers[number]; isSame: boolean };

/**
 * A caller uses a proxy by its key, which `proxy:read` shows. The one of the record was named by its key then. A proxy that has changed
 * since is another one: who may change proxies must not get the headers of a request.
 * @throws forbidden; notFound.
 */
const findDestination = async (
  ctx: ProxyContext,
  work: Work,
  request: StoredRequest,
  { wanted, digestKey }: { wanted: string | undefined; digestKey: DigestKey },
): Promise<Destination> => {
  const id = wanted ?? request.proxy_id;
  if (id === undefined) return { header: ['SVC-PROXY-URL', request.destination_url ?? ''], isSame: true };
  if (id !== request.proxy_id && !mayAnywhere(work, 'proxy:read')) throw forbidden('proxy:read');
  const key = await findKeyOfProxy(ctx, work.tenant_id, id);
  const proxy = key === undefined ? undefined : await ctx.proxies.findProxyBeforeCaller(key);
  if (key === undefined || !proxy) throw notFound('proxy');
  const isSame = id === request.proxy_id && pinOfProxy(digestKey, proxy) === request.proxy_pin;
  return { header: ['SVC-PROXY-KEY', key], isSame };
};

/** Builds the request as its client sent it. */
const requestOf = (
  { path, query, isBare, headers, body }: StoredRequest,
  { header, isSame }: Destination,
): Pick<ProxyRequest, 'url' | 'headers' | 'body' | 'bodyBytes'> => {
  const search = query === '' && !isBare ? '' : `?${query}`;
  const sent = isSame ? headers : headers.filter(([name]) => OF_ANY_PROXY.has(name.toLowerCase()));
  const bytes = body === undefined ? undefined : Buffer.from(body, 'base64');
  return {
    url: `/proxy${path}${search}`,
    headers: [...sent, header],
    body: bytes && inOnePiece(bytes),
    bodyBytes: bytes?.byteLength,
  };
};

async function* inOnePiece(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/**
 * @returns the record of the new request, whatever became of it; its response is read with the record.
 * @throws notFound; forbidden; conflict; unprocessable for a key of another replay; as `forward` for what was not begun.
 */
export const replayForward = async (ctx: ProxyContext, work: Work, replay: Replay): Promise<ForwardRecord> => {
  const { id, key } = replay;
  if (!mayAnywhere(work, 'token:use')) throw forbidden('token:use');
  const { row, stored } = await openRecord(ctx, work, id);
  const request = checkReplayable(row, stored, replay);
  const { digest: digestKey } = await ctx.keyring.tenantKeys(work.tenant_id);
  const destination = await findDestination(ctx, work, request, { wanted: replay.proxy_id, digestKey });
  const entity = { entity_type: 'forward', entity_ids: [id], message: FORWARD_REPLAYED };
  await work.log([logRow(ctx, work, { operation: 'use', ...entity })]);

  const made: { id?: string; isBegun?: boolean } = {};
  // The destination does an answered request once more. It recognises any other as the first request, by the same key.
  const isFirst = row.state !== 'answered' && destination.isSame;
  const retry = {
    // A space is in no key of a client.
    key: `replay ${id} ${key ?? ctx.newUuid()}`,
    note: (forwardId: string, isBegun: boolean) => void Object.assign(made, { id: forwardId, isBegun }),
    replay: {
      of: row,
      destination_key: isFirst ? request.destination_key : undefined,
      pin: destination.isSame ? request.proxy_pin : undefined,
    },
  };
  const { method } = request;
  // The replay goes on without its client, as with a key. What is not kept of the response is not read.
  const ended = new AbortController();
  const asked = { work, origin: work.origin, method, ...requestOf(request, destination), retry, signal: ended.signal };
  try {
    const answer = await forward(ctx, asked);
    answer.run.answered(answer.status);
    answer.release();
  } catch (error) {
    if (made.isBegun !== true) throw error;
  } finally {
    ended.abort();
  }
  const written = made.id === undefined ? undefined : await findForward(work.db, made.id);
  if (!written) throw notFound('forward');
  return recordOf(work.tenant_id, written);
};
