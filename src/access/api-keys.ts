// API keys: svc_{test|live}_{public id}_{secret}{checksum}. Looked up by public id, compared by keyed digest in
// constant time, stored never. The checksum refuses typos before any query (decisions.md section 3). Callers are found here,
// by their key, or by an application on whose behalf the server itself calls.
import { createBriefMemory } from '../brief-memory.ts';
import type { Context } from '../context.ts';
import { apiKeyDigest, crc32Base62, equalDigests, memoryDigest, randomBase62 } from '../crypto/digest.ts';
import { Sensitive } from '../crypto/sensitive.ts';
import type { FoundApiKey } from '../db/hot.ts';
import { hostsOf } from './allowed-hosts.ts';
import { accessRuleSchema } from './rules.ts';
import type { Caller } from './caller.ts';
import { isPermission } from './permissions.ts';

/** 16 base62 characters: 95 bits, never reused. */
const PUBLIC_ID_LENGTH = 16;
/** 33 base62 characters: 196 bits; decisions.md asks for at least 190 (ASVS 11.5.1). */
const SECRET_LENGTH = 33;
const CHECKSUM_LENGTH = 6;

const keyPattern = new RegExp(
  `^svc_(test|live)_([0-9A-Za-z]{${PUBLIC_ID_LENGTH}})_([0-9A-Za-z]{${SECRET_LENGTH}})([0-9A-Za-z]{${CHECKSUM_LENGTH}})$`,
);

/** How long a process may answer for a key without asking the database again: a revoked key dies everywhere within it (security.md F24). */
export const CALLER_CACHE_MS = 1_000;
/** Callers remembered per process: a bound, not a tuning; one entry is about 1 KB. */
const CALLER_CACHE_MAX = 10_000;

type KeyParts = { publicId: string; secret: string };

/** A key's parts, or undefined for anything that is not one: wrong shape, wrong environment, wrong checksum. */
export const parseApiKey = (text: string, environment: string): KeyParts | undefined => {
  const match = keyPattern.exec(text);
  if (!match) return undefined;
  const [, keyEnvironment, publicId, secret, checksum] = match as unknown as string[];
  if (keyEnvironment !== environment || publicId === undefined || secret === undefined) return undefined;
  const body = text.slice(0, -CHECKSUM_LENGTH);
  return crc32Base62(body) === checksum ? { publicId, secret } : undefined;
};

export type NewApiKey = { public_id: string; digest: Buffer; key: Sensitive<string> };

/** Draws a key. The caller stores `public_id` and `digest`; `key` is shown once and forgotten. */
export const newApiKey = (ctx: Pick<Context, 'environment' | 'pepper' | 'randomBytes'>): NewApiKey => {
  const publicId = randomBase62(PUBLIC_ID_LENGTH, ctx.randomBytes);
  const body = `svc_${ctx.environment}_${publicId}_${randomBase62(SECRET_LENGTH, ctx.randomBytes)}`;
  return describeApiKey(ctx, body + crc32Base62(body));
};

/** The stored form of a ready-made key. @throws Error without the key in it when it is not one of this environment. */
export const describeApiKey = (ctx: Pick<Context, 'environment' | 'pepper'>, key: string): NewApiKey => {
  const parts = parseApiKey(key, ctx.environment);
  if (!parts) throw new Error(`The API key is not a well-formed svc_${ctx.environment}_ key, or has a typo.`);
  const digest = apiKeyDigest(ctx.pepper, parts.publicId, parts.secret);
  return { public_id: parts.publicId, digest, key: new Sensitive(key) };
};

export type CallerFinder = {
  /** The caller of a key that was found right within the last second; saves the hot path a promise. */
  recallCaller(key: string): Caller | undefined;
  /** The caller a key stands for, or undefined: malformed, unknown and wrong look the same. */
  findCallerBeforeCaller(key: string): Promise<Caller | undefined>;
  /** An application of the caller's tenant as a caller of its own; undefined where it is gone. */
  findCallerOfApplication(caller: Pick<Caller, 'tenant_id'>, application_id: string): Promise<Caller | undefined>;
  /** Forgets callers whose application or tenant has changed: the next request of theirs is looked up anew. */
  forget(match: { actor_id?: string; tenant_id?: string } | 'all'): void;
};

/** Settings of a tenant are text. The plural is the name that older clients know. */
export const deduplicates = (settings: Record<string, string>): boolean =>
  (settings['deduplicate_token'] ?? settings['deduplicate_tokens']) === 'true';

/**
 * Finds callers by key, remembering each for CALLER_CACHE_MS under a digest of the whole key: only a key that was found
 * right is ever remembered. Concurrent look-ups of one key share a query.
 */
export const createCallerFinder = (
  ctx: Pick<Context, 'environment' | 'pepper' | 'db'> & { monotonicMs: () => number },
): CallerFinder => {
  const memory = createBriefMemory<Caller>({
    max: CALLER_CACHE_MAX,
    ttlMs: CALLER_CACHE_MS,
    monotonicMs: ctx.monotonicMs,
  });

  const callerOf = (row: Omit<FoundApiKey, 'digest'>): Caller => ({
    tenant_id: row.tenant_id,
    actor_id: row.application_id,
    actor_type: 'application',
    permissions: new Set(row.permissions.filter(isPermission)),
    rules: accessRuleSchema
      .array()
      .parse(row.rules)
      .toSorted((one, other) => one.priority - other.priority),
    deduplicate_tokens: deduplicates(row.settings),
    allowed_hosts: hostsOf(row.allowed_hosts),
  });

  const loadByKey = async (key: string): Promise<Caller | undefined> => {
    const parts = parseApiKey(key, ctx.environment);
    const row = parts && (await ctx.db.findApiKeyBeforeCaller(parts.publicId));
    if (!row || !equalDigests(apiKeyDigest(ctx.pepper, parts.publicId, parts.secret), row.digest)) return undefined;
    return callerOf(row);
  };

  const loadApplication = async (tenant_id: string, application_id: string): Promise<Caller | undefined> => {
    const db = ctx.db.for({ tenant_id });
    const [application, tenant] = await Promise.all([db.findApplication(application_id), db.findTenant()]);
    if (!application || !tenant) return undefined;
    const { permissions, rules, allowed_hosts } = application;
    return callerOf({
      tenant_id,
      application_id,
      permissions,
      rules,
      allowed_hosts,
      settings: tenant.settings as Record<string, string>,
    });
  };

  return {
    recallCaller: (key) => memory.recall(memoryDigest(key)),

    findCallerBeforeCaller: (key) => memory.find(memoryDigest(key), () => loadByKey(key)),

    // With a blank, no key's digest is such a name.
    findCallerOfApplication: ({ tenant_id }, application_id) =>
      memory.find(`application ${tenant_id} ${application_id}`, () => loadApplication(tenant_id, application_id)),

    forget: (match) =>
      memory.forget(
        ({ actor_id, tenant_id }) => match === 'all' || actor_id === match.actor_id || tenant_id === match.tenant_id,
      ),
  };
};
