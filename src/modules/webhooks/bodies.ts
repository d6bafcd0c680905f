// Makes the body of an event as a receiver gets it: ids, and the masks that the container of the webhook shows. Never a value.
import { deliveryIdOf, type StoredEvent } from '../../platform/db/events.ts';
import { noteTampered } from '../../platform/db/signed-rows.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import { openIntact, type SealedPlace, sealText } from '../../platform/keys/sealed-text.ts';
import type { Json } from '../../platform/json/json.ts';
import { containerCovers } from '../access/containers.ts';
import { openToken, shownData } from '../tokens/tokens.ts';
import { createMeter } from '../tokens/expressions/meter.ts';
import type { WebhooksContext } from './context.ts';
import type { ClaimedDelivery } from './rows/deliveries.ts';

/** Size of a body. A mask that would make it larger is left out. */
export const BODY_BYTES_MAX = 16 * 1024;

type About = { tenant_id: string; keys: TenantKeys };

const placeOf = (tenant_id: string, id: string): SealedPlace => ({
  tenant_id,
  record: 'webhook_delivery',
  id,
  field: 'body',
});

export const sealBody = (ctx: WebhooksContext, { tenant_id, keys }: About, id: string, body: string): Buffer =>
  sealText(ctx, keys, placeOf(tenant_id, id), body);

/** The container and the mask of a token, where the webhook is for its container. Nothing of a token that is gone, or does not open. */
const findMask = async (
  ctx: WebhooksContext,
  { tenant_id, keys }: About,
  id: string,
  container: string,
): Promise<{ containers?: string[]; mask?: Json }> => {
  const row = await ctx.tokenRows.findToken({ tenant_id }, id, ctx.now());
  if (!row || !containerCovers(container, row.container)) return {};
  try {
    const { data } = shownData(ctx, row, openToken(ctx, tenant_id, row, keys), 'mask', { meter: createMeter() });
    return { containers: [row.container], ...(data !== undefined && { mask: data }) };
  } catch {
    return { containers: [row.container] };
  }
};

/**
 * The body of an attempt: that of the first one, or a new one.
 * @param container of the webhook. @returns undefined, after an alarm, for a row that no server wrote as it is: its event or its kept
 * body was changed, or is of another webhook.
 */
export const bodyOf = async (
  ctx: WebhooksContext,
  about: About,
  delivery: ClaimedDelivery,
  container: string | null,
): Promise<string | undefined> => {
  const { tenant_id, keys } = about;
  const { id, webhook_id, event: text, mac, count, sealed } = delivery;
  const isOurs = ctx.db.logMacs.macOfEvent(tenant_id, text) === mac;
  const isOwn = isOurs && deliveryIdOf(webhook_id, JSON.parse(text) as StoredEvent) === id;
  const kept = isOwn && sealed ? openIntact(ctx, keys, placeOf(tenant_id, id), sealed) : undefined;
  if (!isOwn || (sealed && kept === undefined)) {
    noteTampered(ctx, { table: 'webhook_deliveries', tenant_id, row_id: id });
    return undefined;
  }
  if (kept !== undefined) return kept;
  const { type, occurred_at, entity_id, facts } = JSON.parse(text) as StoredEvent;
  const data = { ...facts, ...(count !== null && { count }) };
  const isShown = container !== null && (type === 'token.created' || type === 'token.updated');
  const shown = isShown ? await findMask(ctx, about, entity_id, container) : {};
  const make = (more: object): string =>
    JSON.stringify({ id, type, timestamp: occurred_at, data: { ...data, ...more } });
  const body = make(shown);
  return Buffer.byteLength(body) <= BODY_BYTES_MAX ? body : make({});
};
