// What the vault does about webhooks by itself: pauses those that fail or hold too much, and tells of API keys that end soon.
import { logRow, vaultItself, WEBHOOK_PAUSED } from '../../platform/db/audit-record.ts';
import type { NewEvent } from '../../platform/db/event-types.ts';
import { firstIdAt } from '../../platform/crypto/ids.ts';
import { type PrismaTransaction, runPrismaTransaction } from '../../platform/db/transaction.ts';
import { addMail } from '../../platform/mail/mail-outbox.ts';
import { openPerson } from '../access/person.ts';
import { digestOfAddress } from '../people/address.ts';
import { findMember, findOwnerId } from '../people/rows/members.ts';
import { newMail } from '../people/send-mails.ts';
import type { WebhooksContext } from './context.ts';
import type { WaitingDeliveries } from './rows/deliveries.ts';
import { type ExpiringKey, findExpiringKeys, lockWebhook, updateWebhook } from './rows/webhooks.ts';

const DAY_MS = 24 * 3_600_000;

/** A webhook whose deliveries all fail for so long is paused. */
export const FAILING_MS_MAX = 5 * DAY_MS;

/** Deliveries of a tenant that wait, some 100 MB. Beyond, the webhook with the most of them is paused: nothing is dropped in silence. */
export const WAITING_OF_TENANT_MAX = 100_000;

/** The mail that tells of it is tried for so long. */
const MAIL_TTL_MS = DAY_MS;

/** Tells the owner by mail; a tenant without an owner, and a vault without mail, have the console. */
const mailOwner = async (ctx: WebhooksContext, tx: PrismaTransaction, webhook: { id: string; name: string }) => {
  const { tenant_id } = tx;
  const db = ctx.db.for({ tenant_id });
  const owner = ctx.mailer && (await findOwnerId(db));
  const member = owner && (await findMember(db, owner));
  if (!member) return;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const { email } = openPerson(ctx, keys, tenant_id, member.id, member.sealed);
  const now = ctx.now();
  const mail = newMail(ctx, keys, {
    kind: 'webhook_paused',
    tenant_id,
    invitation_id: webhook.id,
    address_digest: digestOfAddress(ctx, email),
    email,
    secret: webhook.name,
    expires_at: new Date(now.getTime() + MAIL_TTL_MS),
  });
  await addMail(tx, mail, now);
};

/** Pauses a webhook, tells its owner, and logs it. @returns false where it is paused or gone. */
const pauseWebhook = (ctx: WebhooksContext, tenant_id: string, id: string): Promise<boolean> =>
  runPrismaTransaction(ctx.db.for({ tenant_id }), ctx.changes, undefined, async (tx) => {
    const webhook = await lockWebhook(tx, id);
    if (webhook?.status !== 'enabled') return false;
    await updateWebhook(tx, id, { status: 'paused' });
    tx.log(
      logRow(ctx, vaultItself, {
        operation: 'update',
        entity_type: 'webhook',
        entity_ids: [id],
        message: WEBHOOK_PAUSED,
      }),
    );
    tx.changed({ subject: 'webhook', id: tenant_id });
    await mailOwner(ctx, tx, webhook);
    return true;
  });

export const pauseFailing = async (ctx: WebhooksContext, tenant_id: string, id: string, since: Date): Promise<void> => {
  if (ctx.now().getTime() - since.getTime() > FAILING_MS_MAX) await pauseWebhook(ctx, tenant_id, id);
};

/** Pauses the webhook with the most waiting deliveries of each tenant that has too many. */
export const pauseOverfull = async (ctx: WebhooksContext, counted: readonly WaitingDeliveries[]): Promise<void> => {
  for (const [tenant_id, own] of Map.groupBy(counted, (each) => each.tenant_id)) {
    if (own.reduce((sum, { count }) => sum + count, 0) <= WAITING_OF_TENANT_MAX) continue;
    // One at a time: the next count tells whether that was enough.
    for (const { webhook_id } of own.toSorted((one, other) => other.count - one.count))
      if (await pauseWebhook(ctx, tenant_id, webhook_id)) break;
  }
};

/** When an `application_key.expiring` is told before the end of a key. */
const EXPIRING_MS = [7 * DAY_MS, DAY_MS] as const;

/** The source is the moment of the notice: it is told once, whichever process sees it, however often. */
const expiringEvent = ({ public_id, application_id, expires_at }: ExpiringKey, now: Date): NewEvent => {
  const leftMs = expires_at.getTime() - now.getTime();
  const beforeMs = EXPIRING_MS.findLast((ms) => leftMs <= ms) as number;
  return {
    source_id: firstIdAt(expires_at.getTime() - beforeMs),
    type: 'application_key.expiring',
    entity_id: public_id,
    occurred_at: now.toISOString(),
    due_at: now.toISOString(),
    is_token: false,
    facts: { id: public_id, application_id, expires_at: expires_at.toISOString(), actor: { id: null, type: 'system' } },
  };
};

export const queueExpiringKeys = async (ctx: WebhooksContext): Promise<void> => {
  const tenants = ctx.db.events.tenantsWanting('application_key.expiring');
  if (tenants.length === 0) return;
  const now = ctx.now();
  const found = await findExpiringKeys(ctx.db, tenants, now, new Date(now.getTime() + EXPIRING_MS[0]));
  for (const [tenant_id, keys] of Map.groupBy(found, (key) => key.tenant_id)) {
    const events = keys.map((key) => expiringEvent(key, now));
    await ctx.db.for({ tenant_id }).transaction((query) => ctx.db.events.queue(query, tenant_id, events));
  }
};
