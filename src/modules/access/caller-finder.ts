// Finds the caller of an API key, of a session's key or of an application, with a cache that changes invalidate.
import { type KeyParts, parseApiKey } from './api-keys.ts';
import { storedRuleSchema } from './access-rule.ts';
import type { KeyUses } from './key-uses.ts';
import { delegatedPaymentsOf } from './delegated-payments.ts';
import { echoModeOf } from './echo-mode.ts';
import { effectiveLimits, namedLimits } from './limits.ts';
import { findApplicationAsCaller } from './rows/applications.ts';
import { createCache } from '../../platform/base/cache.ts';
import type { Platform } from '../../platform/services/platform.ts';
import { apiKeyDigest, equalDigests, memoryDigest } from '../../platform/crypto/digest.ts';
import { findApiKeyBeforeCaller, type FoundApiKey, type FoundApplication } from './rows/api-keys.ts';
import { findSessionBeforeCaller, type FoundSession } from './rows/find-session.ts';
import { hostsOf } from '../../platform/egress/allowed-hosts.ts';
import type { Caller } from './caller.ts';
import { CREATES_PER_MINUTE } from './public-access.ts';
import { isPermission, type Permission, publicPermissions } from './permissions.ts';
import { byPriority } from './rule-walk.ts';
import { holdsAnywhere } from './rules.ts';

/** How long a process accepts a key without asking the database again: a revoked key ends everywhere within it. */
export const CALLER_CACHE_MS = 1_000;
/** Callers cached per process. An entry takes about 1 KB. */
const CALLER_CACHE_MAX = 10_000;

export type CallerFinder = {
  /** The cached caller of a key; saves the hot path a promise. */
  recallCaller(key: string): Caller | undefined;
  /** The caller of a key. Undefined for a malformed, an unknown, a wrong and an expired key, so that they look the same. */
  findCallerBeforeCaller(key: string): Promise<Caller | undefined>;
  /** A session that was found, with the rights that its creator has now. @param page through which it acts, if by one. */
  callerOfSession(row: Omit<FoundSession, 'digest'>, page?: { page_digest: Buffer }): Caller;
  /** The application that created a session, as it is now. */
  creatorOf(row: Pick<FoundSession, 'creator'>): Caller;
  /** An application as a caller, from its row. */
  callerOf(row: FoundApplication): Caller;
  /** An application of the caller's tenant as a caller; undefined where it is gone. */
  findCallerOfApplication(caller: Pick<Caller, 'tenant_id'>, application_id: string): Promise<Caller | undefined>;
};

/** Rights of an application that a session uses: one permission, as long as the application may create sessions. */
const rightsOfSession = (creator: Caller, permission: Permission): Pick<Caller, 'permissions' | 'rules'> => {
  if (!holdsAnywhere(creator, 'session:create')) return { permissions: new Set(), rules: [] };
  return {
    permissions: new Set(creator.permissions.has(permission) ? [permission] : []),
    rules: creator.rules
      .filter((rule) => rule.permissions.includes(permission))
      .map((rule) => ({ ...rule, permissions: [permission] })),
  };
};

/** A session as a caller: it creates tokens, or replaces the security code of one card, and does nothing else. @param creator as it is now. */
const sessionOf = (row: Omit<FoundSession, 'digest'>, creator: Caller, page?: { page_digest: Buffer }): Caller => ({
  tenant_id: row.tenant_id,
  actor_id: row.id,
  actor_type: 'session',
  ...rightsOfSession(creator, row.token_id === null ? 'token:create' : 'token:update'),
  // The answer to a public caller must not depend on what is stored.
  deduplicate_tokens: false,
  allows_absent_paths: creator.allows_absent_paths ?? false,
  // All sessions of an application have its rate together (request-rates.ts): they are no way around it.
  limits: creator.limits?.rate_limit && { rate_limit: creator.limits.rate_limit },
  publicAccess: {
    origins: row.allowed_origins,
    types: row.types,
    container: row.container ?? undefined,
    metadata: row.metadata ?? undefined,
    bound_to: row.bound_to ?? undefined,
    creates_per_minute: CREATES_PER_MINUTE,
    session: {
      id: row.id,
      expires_at: row.expires_at,
      created_by: creator.actor_id,
      token_id: row.token_id ?? undefined,
      ...page,
    },
  },
});

/** A public application as a caller. It holds no more than a public one may, whatever its row says. */
const asPublic = (
  caller: Caller,
  row: Pick<FoundApiKey, 'allowed_origins' | 'container' | 'creates_per_minute'>,
): Caller => ({
  ...caller,
  permissions: new Set(publicPermissions.filter((permission) => caller.permissions.has(permission))),
  rules: [],
  deduplicate_tokens: false,
  publicAccess: {
    origins: row.allowed_origins,
    container: row.container ?? undefined,
    creates_per_minute: row.creates_per_minute ?? CREATES_PER_MINUTE,
  },
});

/** Settings of a tenant are texts. Clients of the earlier API use the plural. */
export const deduplicates = (settings: Record<string, string>): boolean =>
  (settings['deduplicate_token'] ?? settings['deduplicate_tokens']) === 'true';

export const allowsAbsentPaths = (settings: Record<string, string>): boolean => settings['absent_paths'] === 'null';

/**
 * Finds callers by key. Each is cached for CALLER_CACHE_MS under a digest of the whole key, so that only valid keys are cached.
 * The digest of the secret is compared in constant time. Each load counts as a use of the key: within the time of the cache the
 * last use is exact enough, and cached requests pay nothing.
 */
export const createCallerFinder = (
  ctx: Pick<Platform, 'config' | 'environment' | 'pepper' | 'db' | 'changes' | 'monotonicMs' | 'now'> & {
    keyUses: KeyUses;
  },
): CallerFinder => {
  const cache = createCache<Caller>({
    max: CALLER_CACHE_MAX,
    ttlMs: CALLER_CACHE_MS,
    monotonicMs: ctx.monotonicMs,
    changes: ctx.changes,
    // A session has the rights of the application that created it, and ends with its key.
    isStale: ({ actor_id, tenant_id, publicAccess }, { subject, id }) =>
      (subject === 'application' && (actor_id === id || publicAccess?.session?.created_by === id)) ||
      (subject === 'tenant' && tenant_id === id),
  });

  const callerOf = (row: FoundApplication): Caller =>
    row.type === 'public' ? asPublic(privateCallerOf(row), row) : privateCallerOf(row);

  const privateCallerOf = (row: FoundApplication): Caller => ({
    tenant_id: row.tenant_id,
    actor_id: row.application_id,
    actor_type: 'application',
    permissions: new Set(row.permissions.filter(isPermission)),
    rules: byPriority(storedRuleSchema.array().parse(row.rules)),
    deduplicate_tokens: deduplicates(row.settings),
    allows_absent_paths: allowsAbsentPaths(row.settings),
    echo_guard: echoModeOf(row.echo_guard),
    tenant_echo_guard: echoModeOf(row.settings['echo_guard']),
    delegated_payments: delegatedPaymentsOf(row.settings),
    allowed_hosts: hostsOf(row.allowed_hosts),
    limits: effectiveLimits(ctx, namedLimits(row)),
  });

  const isExpired = ({ key }: Caller): boolean => key?.expires_at != null && key.expires_at <= ctx.now();

  const unlessExpired = (caller: Caller | undefined): Caller | undefined =>
    caller === undefined || isExpired(caller) ? undefined : caller;

  const loadByKey = async (key: string): Promise<Caller | undefined> => {
    const parts = parseApiKey(key, ctx.environment);
    if (parts?.isOfSession) return loadBySessionKey(parts);
    const row = parts && (await findApiKeyBeforeCaller(ctx.db, parts.publicId));
    if (!row || !equalDigests(apiKeyDigest(ctx.pepper, parts.publicId, parts.secret), row.digest)) return undefined;
    const { expires_at, allowed_addresses } = row;
    const caller = { ...callerOf(row), key: { public_id: parts.publicId, expires_at, allowed_addresses } };
    if (isExpired(caller)) return undefined;
    ctx.keyUses.note({ tenant_id: row.tenant_id, public_id: parts.publicId });
    return caller;
  };

  const callerOfSession: CallerFinder['callerOfSession'] = (row, page) => sessionOf(row, callerOf(row.creator), page);

  const loadBySessionKey = async ({ publicId, secret }: KeyParts): Promise<Caller | undefined> => {
    const row = await findSessionBeforeCaller(ctx.db, publicId);
    if (!row || !equalDigests(apiKeyDigest(ctx.pepper, publicId, secret), row.digest)) return undefined;
    return callerOfSession(row);
  };

  const loadApplication = async (tenant_id: string, application_id: string): Promise<Caller | undefined> => {
    const found = await findApplicationAsCaller(ctx.db.for({ tenant_id }), application_id);
    return found && callerOf(found);
  };

  return {
    recallCaller: (key) => unlessExpired(cache.recall(memoryDigest(key))),

    findCallerBeforeCaller: async (key) => unlessExpired(await cache.find(memoryDigest(key), () => loadByKey(key))),

    callerOfSession,

    creatorOf: ({ creator }) => callerOf(creator),

    callerOf,

    // No digest of a key has a blank.
    findCallerOfApplication: ({ tenant_id }, application_id) =>
      cache.find(`application ${tenant_id} ${application_id}`, () => loadApplication(tenant_id, application_id)),
  };
};
