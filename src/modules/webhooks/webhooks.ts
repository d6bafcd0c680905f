// Webhooks: create, read, list, change and delete; another secret, a ping. URL and secrets are sealed.
import { type EventType, PING } from '../../platform/db/event-types.ts';
import { deliveryIdOf, type StoredEvent } from '../../platform/db/events.ts';
import { logRow, WEBHOOK_PINGED } from '../../platform/db/audit-record.ts';
import { EgressFault } from '../../platform/base/egress-fault.ts';
import { AppError, conflict, invalidField, invalidInput, notFound } from '../../platform/base/errors.ts';
import { pageTooLarge, isCutShort } from '../code/formulas.ts';
import { checkGrants, type Grants } from '../access/grants.ts';
import { resourceOf } from '../access/resource.ts';
import { countNamed, type NamedFilter } from '../access/rows/names.ts';
import type { Work } from '../access/work.ts';
import type { WebhooksContext } from './context.ts';
import { type DeliveryRecord, toDeliveryRecord } from './deliveries.ts';
import {
  type Destination,
  findPreviousEnd,
  newSecret,
  openDestination,
  PREVIOUS_SECRET_MS,
  sealDestination,
} from './destination.ts';
import { countWaitingOf, insertDelivery } from './rows/deliveries.ts';
import {
  countWebhookRows,
  deleteWebhookRow,
  findWebhook,
  insertWebhook,
  listWebhookRows,
  lockWebhook,
  type StoredWebhook,
  updateWebhook,
  type WebhookColumns,
  WEBHOOKS,
  type WebhookStatus,
} from './rows/webhooks.ts';

export const WEBHOOK_URL_LENGTH_MAX = 400;

/** Webhooks of a tenant. Each change of the tenant that one asks for writes a row for each that does. */
export const WEBHOOKS_MAX = 20;

/** Pings of a webhook that wait: a person who tries it needs one. */
const PINGS_WAITING_MAX = 5;

/** A webhook in a response. Undefined attributes are left out. */
export type WebhookRecord = {
  id: string;
  tenant_id: string;
  name: string;
  url: string;
  events: string[];
  container: string | undefined;
  status: WebhookStatus;
  failing_since: string | undefined;
  /** Only in the answer to the request that made it. */
  secret?: string;
  /** While the replaced secret signs too. */
  previous_secret_ends_at: string | undefined;
  created_by: string | undefined;
  created_at: string;
  modified_by: string | undefined;
  modified_at: string | undefined;
};

export type WebhookInput = {
  name: string;
  /** Not checked yet. */
  url: string;
  events: (EventType | '*')[];
  container: string | undefined;
};

/** What is left out stays. */
export type WebhookPatch = {
  name?: string | undefined;
  url?: string | undefined;
  events?: (EventType | '*')[] | undefined;
  /** Null: all containers, without masks. */
  container?: string | null | undefined;
  status?: WebhookStatus | undefined;
};

const recordOf = (
  { now }: Pick<WebhooksContext, 'now'>,
  tenant_id: string,
  row: Omit<StoredWebhook, 'sealed'>,
  destination: Destination,
): WebhookRecord => ({
  id: row.id,
  tenant_id,
  name: row.name,
  url: destination.url,
  events: row.events,
  container: row.container ?? undefined,
  status: row.status as WebhookStatus,
  failing_since: row.failing_since?.toISOString(),
  previous_secret_ends_at: findPreviousEnd(destination, now())?.toISOString(),
  created_by: row.created_by ?? undefined,
  created_at: row.created_at.toISOString(),
  modified_by: row.modified_by ?? undefined,
  modified_at: row.modified_at?.toISOString(),
});

/** Checks a URL without a DNS look-up. Its addresses are checked with each delivery. @throws invalidInput. */
const checkUrl = (ctx: WebhooksContext, url: string): void => {
  // The URL parser ignores these characters, so the URL would not be what a person reads.
  if (!/^https:\/\/[^\s\p{Cc}\p{Cs}\\]+$/iu.test(url))
    throw invalidField('url', 'must be an https URL without blanks, control characters and backslashes');
  try {
    const parsed = ctx.egress.check(url);
    if (parsed.username !== '' || parsed.password !== '')
      throw invalidField('url', 'must have no user and no password');
    if (url.includes('#')) throw invalidField('url', 'must not have a fragment');
  } catch (error) {
    if (error instanceof EgressFault) throw invalidInput([{ path: 'url', sentence: error.message, code: 'invalid' }]);
    throw error;
  }
};

/** What a webhook with a container tells its receiver: the masks of its tokens. */
const grantsOf = (container: string | null | undefined): Grants => ({
  permissions: [],
  rules: container ? [{ description: '', priority: 1, container, transform: 'mask', permissions: ['token:read'] }] : [],
});

/** @throws forbidden unless the caller itself may see what the webhook sends, before a change or after it. */
const checkShown = (work: Work, ...containers: (string | null | undefined)[]): void => {
  for (const container of containers) if (container) checkGrants(work, grantsOf(container));
};

const webhooks = resourceOf<WebhooksContext, StoredWebhook, NamedFilter, WebhookRecord>({
  entity_type: 'webhook',
  noun: 'webhook',
  find: findWebhook,
  count: (db, filter) => countNamed(db, WEBHOOKS, filter),
  list: listWebhookRows,
  lock: lockWebhook,
  remove: deleteWebhookRow,
  show: async (ctx, { tenant_id }, rows) => {
    if (rows.some(isCutShort)) throw pageTooLarge('webhooks');
    const keys = await ctx.keyring.tenantKeys(tenant_id);
    return rows.map((row) => recordOf(ctx, tenant_id, row, openDestination(ctx, tenant_id, keys, row.id, row.sealed)));
  },
  changeOf: ({ tenant_id }) => ({ subject: 'webhook', id: tenant_id }),
  limit: { plural: 'webhooks', max: WEBHOOKS_MAX, count: countWebhookRows },
});

/** Reads a webhook. @throws notFound, the same for an unknown and another tenant's id. */
export const getWebhook = webhooks.read;

/** A page, newest first. */
export const listWebhooks = webhooks.list;

/**
 * Creates a webhook. When it is answered, this process writes events for it; the others do as soon as they have the notice.
 * @returns the webhook with its secret. @throws invalidInput; forbidden for a container whose masks the caller may not see.
 */
export const createWebhook = async (
  ctx: WebhooksContext,
  work: Work,
  { name, url, events, container }: WebhookInput,
): Promise<WebhookRecord> => {
  checkUrl(ctx, url);
  checkShown(work, container);
  const { tenant_id } = work;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const id = ctx.newUuid();
  const destination = { url, secret: newSecret(ctx.randomBytes) };
  const columns: WebhookColumns = { name, events, container: container ?? null, status: 'enabled' };
  const row = { id, ...columns, created_at: ctx.now(), created_by: work.actor_id };
  const made = await webhooks.create(ctx, work, id, async (tx) => {
    await insertWebhook(tx, row, sealDestination(ctx, tenant_id, keys, id, destination));
    tx.changed({ subject: 'webhook', id: tenant_id });
    const none = { failing_since: null, modified_at: null, modified_by: null };
    return { ...recordOf(ctx, tenant_id, { ...row, ...none }, destination), secret: destination.secret };
  });
  await ctx.db.events.settled();
  return made;
};

/** @param changed the columns and the URL of the locked webhook after the change. */
const changeWebhookBy = async (
  ctx: WebhooksContext,
  work: Work,
  id: string,
  changed: (stored: StoredWebhook) => Partial<WebhookColumns> & { url?: string | undefined },
): Promise<WebhookRecord> => {
  const { tenant_id } = work;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const modified = { modified_at: ctx.now(), modified_by: work.actor_id };
  const made = await webhooks.change(ctx, work, id, async (tx, stored) => {
    const { url, ...columns } = changed(stored);
    checkShown(work, stored.container, columns.container);
    const kept = openDestination(ctx, tenant_id, keys, id, stored.sealed);
    const destination = { ...kept, url: url ?? kept.url };
    // What was resumed gets its five days again.
    const resumed = columns.status === 'enabled' && stored.status !== 'enabled' ? { failing_since: null } : {};
    const row = { ...columns, ...resumed, ...modified };
    await updateWebhook(tx, id, row, sealDestination(ctx, tenant_id, keys, id, destination));
    return recordOf(ctx, tenant_id, { ...stored, ...row }, destination);
  });
  await ctx.db.events.settled();
  return made;
};

/** Replaces all that a caller sets. Secret and status stay. @throws notFound; as createWebhook. */
export const changeWebhook = (
  ctx: WebhooksContext,
  work: Work,
  id: string,
  { name, url, events, container }: WebhookInput,
): Promise<WebhookRecord> => {
  checkUrl(ctx, url);
  return changeWebhookBy(ctx, work, id, () => ({ name, url, events, container: container ?? null }));
};

/** Changes what the patch names; the rest stays. @throws as changeWebhook. */
export const patchWebhook = async (
  ctx: WebhooksContext,
  work: Work,
  id: string,
  patch: WebhookPatch,
): Promise<WebhookRecord> => {
  if (patch.url !== undefined) checkUrl(ctx, patch.url);
  const named = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined));
  return changeWebhookBy(ctx, work, id, () => named);
};

/** Deletes a webhook. What waits for it is not sent. @throws notFound. */
export const deleteWebhook = webhooks.delete;

/** Makes another secret. The replaced one signs beside it for PREVIOUS_SECRET_MS. @returns the webhook with the new secret. @throws notFound. */
export const rotateSecret = async (ctx: WebhooksContext, work: Work, id: string): Promise<WebhookRecord> => {
  const { tenant_id } = work;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const now = ctx.now();
  const modified = { modified_at: now, modified_by: work.actor_id };
  return webhooks.change(
    ctx,
    work,
    id,
    async (tx, stored) => {
      const { url, secret } = openDestination(ctx, tenant_id, keys, id, stored.sealed);
      const ends_at = new Date(now.getTime() + PREVIOUS_SECRET_MS).toISOString();
      const destination = { url, secret: newSecret(ctx.randomBytes), previous: { secret, ends_at } };
      await updateWebhook(tx, id, modified, sealDestination(ctx, tenant_id, keys, id, destination));
      return {
        ...recordOf(ctx, tenant_id, { ...stored, ...modified }, destination),
        secret: destination.secret,
      };
    },
    'Webhook secret rotated',
  );
};

/** Queues an event that tells nothing, to try a webhook. @throws notFound; conflict for a paused one; too_many_requests. */
export const pingWebhook = (ctx: WebhooksContext, work: Work, id: string): Promise<DeliveryRecord> => {
  const now = ctx.now();
  const { tenant_id } = work;
  const event: StoredEvent = {
    type: PING,
    entity_id: PING,
    source_id: ctx.newLogId(now),
    occurred_at: now.toISOString(),
    facts: { id, actor: { id: work.actor_id, type: work.actor_type } },
  };
  const delivery_id = deliveryIdOf(id, event);
  const text = JSON.stringify(event);
  return work.prismaTransaction(async (tx) => {
    const stored = await lockWebhook(tx, id);
    if (!stored) throw notFound('webhook');
    if (stored.status !== 'enabled') throw conflict('The webhook is paused.');
    const of = { webhook_id: id, entity_id: PING };
    if ((await countWaitingOf(tx, of, PINGS_WAITING_MAX)) >= PINGS_WAITING_MAX)
      throw new AppError('too_many_requests', 'Earlier pings of the webhook wait to be sent.', {
        retryAfterSeconds: 5,
      });
    tx.log(logRow(ctx, work, { operation: 'use', entity_type: 'webhook', entity_ids: [id], message: WEBHOOK_PINGED }));
    const row = { id: delivery_id, ...of, type: PING, event: text, mac: ctx.db.logMacs.macOfEvent(tenant_id, text) };
    return toDeliveryRecord(await insertDelivery(tx, { ...row, due_at: now }));
  });
};
