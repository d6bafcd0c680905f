// Deliveries of a webhook as the API shows them: lists them, and sends one again.
import { DELIVERY_REPLAYED, logRow } from '../../platform/db/audit-record.ts';
import { timeOfId } from '../../platform/crypto/ids.ts';
import { conflict, notFound } from '../../platform/base/errors.ts';
import { countThenList, type Page, type PageRequest, readPage } from '../../platform/base/pagination.ts';
import type { Work } from '../access/work.ts';
import type { WebhooksContext } from './context.ts';
import {
  countDeliveries,
  type DeliveryState,
  listDeliveryRows,
  lockDelivery,
  replayRow,
  type StoredDelivery,
} from './rows/deliveries.ts';
import { findWebhook, lockWebhook } from './rows/webhooks.ts';

/** A delivery in a response. Undefined attributes are left out. */
export type DeliveryRecord = {
  /** Id that every attempt has, as the header `webhook-id` and in the body. */
  id: string;
  webhook_id: string;
  type: string;
  state: DeliveryState;
  attempts: number;
  /** When the change was, or its minute for events that count. */
  created_at: string;
  attempted_at: string | undefined;
  next_attempt_at: string | undefined;
  /** Status of the last response. */
  response_status: number | undefined;
  /** Error of the last attempt, if it failed. */
  error: string | undefined;
};

export const toDeliveryRecord = (row: StoredDelivery): DeliveryRecord => ({
  id: row.id,
  webhook_id: row.webhook_id,
  type: row.type,
  state: row.state,
  attempts: row.attempts,
  created_at: timeOfId(row.id).toISOString(),
  attempted_at: row.attempted_at?.toISOString(),
  next_attempt_at: row.state === 'waiting' ? row.due_at.toISOString() : undefined,
  response_status: row.status ?? undefined,
  error: row.error ?? undefined,
});

/** A page, newest first. @throws notFound. */
export const listDeliveries = async (
  ctx: WebhooksContext,
  work: Work,
  { id, state, page }: { id: string; state: DeliveryState | undefined; page: PageRequest },
): Promise<Page<DeliveryRecord>> => {
  if (!(await findWebhook(work.db, id))) throw notFound('webhook');
  const filter = { webhook_id: id, state };
  const { pagination, rows } = await readPage(page, {
    page: countThenList(
      () => countDeliveries(work.db, filter),
      (offset, limit) => listDeliveryRows(work.db, filter, offset, limit),
    ),
  });
  await work.log([logRow(ctx, work, { operation: 'read', entity_type: 'webhook', entity_ids: [id] })]);
  return { pagination, data: rows.map(toDeliveryRecord) };
};

/** Sends a delivery again under its id, with the same body. @throws notFound; conflict for one that waits, and for a paused webhook. */
export const replayDelivery = (
  ctx: WebhooksContext,
  work: Work,
  { id, delivery_id }: { id: string; delivery_id: string },
): Promise<DeliveryRecord> =>
  work.prismaTransaction(async (tx) => {
    const webhook = await lockWebhook(tx, id);
    if (!webhook) throw notFound('webhook');
    const delivery = await lockDelivery(tx, { webhook_id: id, id: delivery_id });
    if (!delivery) throw notFound('delivery');
    if (webhook.status !== 'enabled') throw conflict('The webhook is paused.');
    if (delivery.state === 'waiting') throw conflict('The delivery waits to be sent.');
    const entity = { entity_type: 'webhook', entity_ids: [id], message: DELIVERY_REPLAYED };
    tx.log(logRow(ctx, work, { operation: 'use', ...entity }));
    return toDeliveryRecord(await replayRow(tx, delivery_id, ctx.now()));
  });
