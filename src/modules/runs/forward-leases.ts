// Keeps the leases of the requests that this process sends, and judges those of processes that died: nothing sent is `failed`, anything
// else is `unknown`. State is in the database, so any process judges.
import { eventOfForward } from '../../platform/db/event-types.ts';
import type { Platform } from '../../platform/services/platform.ts';
import type { Query } from '../../platform/db/statements.ts';
import {
  type EndedForward,
  findTenantsWithDead,
  hasDead,
  judgeDead,
  LEASE_SECONDS,
  renewLeases,
} from './forward-rows.ts';

type LeaseContext = Pick<Platform, 'db' | 'log' | 'now' | 'newLogId'>;

const RENEW_MS = (LEASE_SECONDS * 1_000) / 3;

type Kept = { ids: Map<string, string>; timer: NodeJS.Timeout | undefined };

/** One for each database: the tenant of each request, by its id. */
const keptOf = new WeakMap<LeaseContext['db'], Kept>();

const renew = async ({ db, log }: LeaseContext, { ids }: Kept): Promise<void> => {
  for (const [tenant_id, own] of Map.groupBy(ids, ([, tenant]) => tenant))
    await renewLeases(
      db.for({ tenant_id }),
      own.map(([id]) => id),
    ).catch((error: unknown) => log.warn({ error }, 'the leases of forwarded requests could not be renewed'));
};

/** Renews the lease of a request until it is over. @returns what ends that. */
export const keepLease = (ctx: LeaseContext, tenant_id: string, id: string): (() => void) => {
  const kept = keptOf.get(ctx.db) ?? { ids: new Map<string, string>(), timer: undefined };
  keptOf.set(ctx.db, kept);
  kept.ids.set(id, tenant_id);
  kept.timer ??= setInterval(() => void renew(ctx, kept), RENEW_MS).unref();
  return () => {
    kept.ids.delete(id);
    if (kept.ids.size > 0) return;
    clearInterval(kept.timer);
    kept.timer = undefined;
  };
};

/** Writes the events of requests whose outcome is unknown, in the transaction that says so. */
export const queueUnknown = async (
  { db, now, newLogId }: Pick<LeaseContext, 'db' | 'now' | 'newLogId'>,
  query: Query,
  tenant_id: string,
  ended: readonly EndedForward[],
): Promise<void> => {
  if (!db.events.wants(tenant_id, 'forward.unknown')) return;
  const at = now();
  const unknown = ended.filter(({ state }) => state === 'unknown');
  const events = unknown.map((forward) => eventOfForward(forward, newLogId(at), at));
  await db.events.queue(query, tenant_id, events);
};

/** Judges the requests of a tenant whose processes died. @throws unavailable. */
export const judgeForwards = async (ctx: LeaseContext, tenant_id: string): Promise<void> => {
  const own = ctx.db.for({ tenant_id });
  if (!(await hasDead(own))) return;
  await own.transaction(async (query) => queueUnknown(ctx, query, tenant_id, await judgeDead(query, tenant_id)));
};

/** Tenants that one sweep judges at most. The next one goes on. */
const TENANTS_MAX = 1_000;

/** The same for all tenants, so that events are told without a request. @param mayGoOn called before each tenant. @throws unavailable. */
export const judgeDeadForwards = async (ctx: LeaseContext, mayGoOn: () => Promise<boolean>): Promise<void> => {
  for (const tenant_id of await findTenantsWithDead(ctx.db.statements.query, TENANTS_MAX)) {
    if (!(await mayGoOn())) return;
    await judgeForwards(ctx, tenant_id);
  }
};
