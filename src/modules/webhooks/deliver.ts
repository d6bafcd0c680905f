// Delivers events in the background: in order for each entity, fairly between webhooks and tenants, at least once. Any number of
// processes may deliver.
import { setTimeout as pause } from 'node:timers/promises';
import { EgressFault } from '../../platform/base/egress-fault.ts';
import { runPeriodically } from '../../platform/base/periodic.ts';
import { createCache } from '../../platform/base/cache.ts';
import type { TenantDatabase } from '../../platform/db/database.ts';
import { bodyOf, sealBody } from './bodies.ts';
import type { WebhooksContext } from './context.ts';
import { openDestination, signedHeaders } from './destination.ts';
import { queueExpiringKeys, pauseFailing, pauseOverfull } from './notices.ts';
import {
  claimDeliveries,
  type ClaimedDelivery,
  countWaiting,
  type DueWebhook,
  findDueWebhooks,
  finishDelivery,
  wakeNext,
} from './rows/deliveries.ts';
import { findWebhookForDelivery, noteFailure, noteSuccess, type WebhookForDelivery } from './rows/webhooks.ts';

/** How long a receiver has, from the connection to the head of its response. */
export const ATTEMPT_MS = 15_000;
/** Longer than an attempt with its statements: a delivery whose lease ends was claimed by a process that died. */
const LEASE_MS = 45_000;
/** Waits after each failed attempt. After the last one the delivery is dead. */
export const RETRY_MS = [5_000, 5 * 60_000, 30 * 60_000, 2 * 3_600_000, 5 * 3_600_000, 10 * 3_600_000];
/** How often a process looks for due deliveries, where any tenant has a webhook. Its own events are sent at once. */
const LOOK_MS = 500;
/** Attempts of one webhook at once: a receiver that never answers holds so many. */
const WEBHOOK_AT_ONCE = 8;
/** Attempts of one tenant at once. */
const TENANT_AT_ONCE = 24;
/** Attempts of a process. A tenant with none under way may start one more, so that slow receivers of others do not hold it up. */
const PROCESS_AT_ONCE = 192;
/** Even so: each holds a connection and up to 16 KB. */
const PROCESS_AT_ONCE_MOST = 1_024;
/** A response that is short is read, so that its connection can be used again. Others are closed. */
const RESPONSE_BYTES_MAX = 4_096;
/** How long the server waits for attempts under way when it stops. */
const STOP_MS = 5_000;
/** A process may use a webhook that another one changed so long, if the notice of the change was lost. */
const USABLE_MS = 1_000;
const USABLES_MAX = 1_000;
/** How often keys that end soon are looked for, and deliveries are counted. */
const NOTICES_MS = 30_000;

type Attempt = { status: number | null; error: string | null };

/** How a delivery ends whose row, or whose webhook, was changed in the database: nothing is sent, and no later attempt could be. */
const TAMPERED: Attempt = { status: null, error: 'TAMPERED' };

const USER_AGENT = 'Strongroom-Webhooks';

/** Sends a body. Redirects are not followed, as nothing follows them in egress. @returns undefined as error for a 2xx. */
const attempt = async (
  ctx: WebhooksContext,
  tenant_id: string,
  { url, headers, body }: { url: string; headers: [string, string][]; body: string },
  { signal, attemptMs }: { signal: AbortSignal; attemptMs: number },
): Promise<Attempt> => {
  try {
    const bytes = Buffer.from(body);
    const response = await ctx.egress.request({
      tenant_id,
      url,
      method: 'POST',
      headers: [
        ['content-type', 'application/json'],
        ['content-length', String(bytes.byteLength)],
        ['user-agent', USER_AGENT],
        ...headers,
      ],
      body: bytes,
      bodyBytes: bytes.byteLength,
      signal,
      timeouts: { connectMs: attemptMs, firstByteMs: attemptMs, wholeMs: attemptMs },
    });
    const { status, bodyBytes } = response;
    // What a receiver says beside its status is not needed. An answer of any length costs nothing.
    if (bodyBytes === undefined || bodyBytes > RESPONSE_BYTES_MAX || response.body.takeAll() === undefined)
      response.body.destroy();
    return { status, error: status >= 200 && status < 300 ? null : 'STATUS' };
  } catch (error) {
    return { status: null, error: error instanceof EgressFault ? error.code : 'INTERNAL' };
  }
};

/** What a process has under way, by webhook and by tenant. */
const createCounts = () => {
  const counts = new Map<string, number>();
  const add = (name: string, by: number): void => {
    const count = (counts.get(name) ?? 0) + by;
    if (count > 0) counts.set(name, count);
    else counts.delete(name);
  };
  return { add, get: (name: string): number => counts.get(name) ?? 0 };
};

/** @param options.attemptMs how long a receiver has. Tests have no 15 s. */
export const createDelivering = (ctx: WebhooksContext, { attemptMs } = { attemptMs: ATTEMPT_MS }) => {
  const counts = createCounts();
  const closing = new AbortController();
  const underWay = new Set<Promise<void>>();
  const cache = createCache<{ tenant_id: string; webhook: WebhookForDelivery | 'tampered' }>({
    max: USABLES_MAX,
    ttlMs: USABLE_MS,
    monotonicMs: ctx.monotonicMs,
    changes: ctx.changes,
    isStale: ({ tenant_id }, { subject, id }) => subject === 'webhook' && id === tenant_id,
  });

  const findWebhook = async (db: TenantDatabase, id: string) => {
    const found = await cache.find(`${db.tenant_id} ${id}`, async () => {
      const webhook = await findWebhookForDelivery(db, id);
      return webhook && { webhook, tenant_id: db.tenant_id };
    });
    return found?.webhook;
  };

  const finish = async (
    db: TenantDatabase,
    webhook: Pick<WebhookForDelivery, 'id' | 'failing_since'>,
    delivery: ClaimedDelivery,
    result: Attempt,
    sealed: Uint8Array | null,
  ): Promise<void> => {
    const now = ctx.now();
    const { status, error } = result;
    const retryMs = result === TAMPERED ? undefined : RETRY_MS[delivery.attempts - 1];
    const isDone = error === null || retryMs === undefined;
    const state = error === null ? 'delivered' : isDone ? 'dead' : 'waiting';
    const due_at = new Date(now.getTime() + (isDone ? 0 : retryMs));
    ctx.metrics.count('strongroom_webhook_deliveries_total', {
      outcome: error === null ? 'delivered' : isDone ? 'dead' : 'failed',
    });
    if (!(await finishDelivery(db, delivery, { state, due_at, status, error, sealed }))) return;
    if (isDone && (await wakeNext(db, delivery, now))) soon();
    if (error === null) {
      if (webhook.failing_since) await noteSuccess(db, webhook.id);
      return;
    }
    if (result === TAMPERED) return;
    const failingSince = await noteFailure(db, webhook.id, now);
    if (failingSince) await pauseFailing(ctx, db.tenant_id, webhook.id, failingSince);
  };

  const send = async (db: TenantDatabase, delivery: ClaimedDelivery): Promise<void> => {
    const { tenant_id } = db;
    const webhook = await findWebhook(db, delivery.webhook_id);
    if (webhook === 'tampered')
      return finish(db, { id: delivery.webhook_id, failing_since: null }, delivery, TAMPERED, delivery.sealed);
    // It was paused or deleted meanwhile: the lease ends, and nothing claims it.
    if (webhook?.status !== 'enabled') return;
    const keys = await ctx.keyring.tenantKeys(tenant_id);
    const destination = openDestination(ctx, tenant_id, keys, webhook.id, webhook.sealed);
    const body = await bodyOf(ctx, { tenant_id, keys }, delivery, webhook.container);
    if (body === undefined) return finish(db, webhook, delivery, TAMPERED, delivery.sealed);
    const headers = signedHeaders(destination, delivery.id, body, ctx.now());
    const result = await attempt(
      ctx,
      tenant_id,
      { url: destination.url, headers, body },
      {
        signal: closing.signal,
        attemptMs,
      },
    );
    // Another process sends it after the lease.
    if (closing.signal.aborted && result.error === 'ABORTED') return;
    await finish(
      db,
      webhook,
      delivery,
      result,
      delivery.sealed ?? sealBody(ctx, { tenant_id, keys }, delivery.id, body),
    );
  };

  const start = (db: TenantDatabase, delivery: ClaimedDelivery): void => {
    const names = [db.tenant_id, `${db.tenant_id} ${delivery.webhook_id}`, 'process'];
    for (const name of names) counts.add(name, 1);
    const done = send(db, delivery)
      .catch((error: unknown) => {
        const { tenant_id } = db;
        ctx.log.warn(
          { error, tenant_id, delivery_id: delivery.id },
          'a delivery could not be tried; it is tried again',
        );
      })
      .finally(() => {
        for (const name of names) counts.add(name, -1);
        underWay.delete(done);
        // Half of them free, so that one claim takes several.
        if (counts.get(names[1] as string) <= WEBHOOK_AT_ONCE / 2) soon();
      });
    underWay.add(done);
  };

  const slotsOf = ({ tenant_id, webhook_id }: DueWebhook): number => {
    const process = counts.get('process');
    const ofTenant = counts.get(tenant_id);
    const left = Math.max(PROCESS_AT_ONCE - process, ofTenant === 0 && process < PROCESS_AT_ONCE_MOST ? 1 : 0);
    const own = Math.min(WEBHOOK_AT_ONCE - counts.get(`${tenant_id} ${webhook_id}`), TENANT_AT_ONCE - ofTenant);
    return Math.max(0, Math.min(own, left));
  };

  /** Claims and starts what is due, the tenants with the fewest under way first. @throws unavailable. */
  const look = async (): Promise<void> => {
    if (closing.signal.aborted || !ctx.db.events.areWanted()) return;
    const due = await findDueWebhooks(ctx.db, ctx.now());
    const ordered = due.toSorted((one, other) => counts.get(one.tenant_id) - counts.get(other.tenant_id));
    await Promise.all(
      ordered.map(async (webhook) => {
        const limit = slotsOf(webhook);
        if (limit === 0 || closing.signal.aborted) return;
        const name = `${webhook.tenant_id} ${webhook.webhook_id}`;
        // Held while the claim runs: claims of one look run at once.
        const held = [webhook.tenant_id, name, 'process'];
        for (const each of held) counts.add(each, limit);
        try {
          const db = ctx.db.for(webhook);
          const options = { now: ctx.now(), leaseMs: LEASE_MS, limit };
          const { claimed, isMore } = await claimDeliveries(db, webhook.webhook_id, options);
          for (const each of held) counts.add(each, -limit);
          for (const delivery of claimed) start(db, delivery);
          if (isMore && claimed.length < limit) soon();
        } catch (error) {
          for (const each of held) counts.add(each, -limit);
          ctx.log.warn(
            { error, tenant_id: webhook.tenant_id },
            'due deliveries could not be claimed; it is tried again',
          );
        }
      }),
    );
  };

  let isSoon = false;
  let looking: Promise<void> | undefined;
  /** Looks now, or once more after the look that runs. */
  const soon = (): void => {
    if (looking) return void (isSoon = true);
    isSoon = false;
    looking = look()
      .catch((error: unknown) => ctx.log.warn({ error }, 'due deliveries could not be read'))
      .finally(() => {
        looking = undefined;
        if (isSoon && !closing.signal.aborted) soon();
      });
  };

  return {
    soon,
    /** Resolves when nothing that is due waits for this process, and nothing is under way. For tests. */
    settle: async (): Promise<void> => {
      soon();
      while (looking || underWay.size > 0) {
        await looking;
        await Promise.all(underWay);
      }
    },
    stop: async (): Promise<void> => {
      const all = Promise.all([looking, ...underWay]);
      await Promise.race([all, pause(STOP_MS, undefined, { ref: false })]);
      closing.abort();
      await all;
    },
  };
};

export type Delivering = ReturnType<typeof createDelivering>;

/** Sends until stopped. @returns stop, which waits for attempts under way. */
export const startDelivering = (ctx: WebhooksContext): (() => Promise<void>) => {
  for (const outcome of ['delivered', 'failed', 'dead'])
    ctx.metrics.count('strongroom_webhook_deliveries_total', { outcome }, 0);
  let waiting: number | undefined;
  ctx.metrics.read('strongroom_webhook_deliveries_waiting', () => (waiting === undefined ? [] : [[{}, waiting]]));
  const delivering = createDelivering(ctx);
  ctx.db.events.onQueued(delivering.soon);
  const looks = runPeriodically(LOOK_MS, async () => delivering.soon());
  const notices = runPeriodically(NOTICES_MS, async () => {
    try {
      if (!ctx.db.events.areWanted()) return void (waiting = 0);
      const counted = await countWaiting(ctx.db);
      waiting = counted.reduce((sum, { count }) => sum + count, 0);
      await pauseOverfull(ctx, counted);
      await queueExpiringKeys(ctx);
    } catch (error) {
      ctx.log.warn({ error }, 'deliveries could not be counted');
    }
  });
  return async () => {
    await Promise.all([looks.stop(), notices.stop()]);
    await delivering.stop();
  };
};
