// Sessions of members: found by the secret in a browser's cookie, cached, and ended in every process at once.
import { allowsAbsentPaths, deduplicates } from '../access/caller-finder.ts';
import { type Config, docsUrlOf } from '../../platform/config/config.ts';
import type { Caller } from '../access/caller.ts';
import type { AccessContext } from '../access/context.ts';
import { asksForReason } from '../access/reveal-reason.ts';
import { requiresSecondFactor } from '../access/tenants.ts';
import { logRow, type RequestOrigin } from '../../platform/db/audit-record.ts';
import { createCache } from '../../platform/base/cache.ts';
import { csrfToken, equalDigests, memoryDigest, randomBase62, sessionDigest } from '../../platform/crypto/digest.ts';
import { type TenantKeys, TenantKeysGone } from '../../platform/crypto/keyring.ts';
import type { Sealing } from '../../platform/keys/sealed-text.ts';
import { runPrismaTransaction } from '../../platform/db/transaction.ts';
import { AppError, notFound } from '../../platform/base/errors.ts';
import type { Platform } from '../../platform/services/platform.ts';
import { openPerson } from '../access/person.ts';
import { mayReveal, revealingRules, rightsOfRole, type Role } from './roles.ts';
import { lockTenant } from './rows/people.ts';
import {
  carriedOver,
  deleteOldestSessions,
  deleteSession,
  findSessionBeforeCaller,
  findSessionMemberBeforeCaller,
  insertSession,
  lockMemberForSession,
  markSessionSeen,
  type NewSession,
  type SessionBasis,
  type StoredSession,
} from './rows/sessions.ts';
import { deleteSessionState, insertSessionState } from './rows/sso.ts';
import { listMembershipsBeforeCaller } from './rows/users.ts';
import { findTenantWithoutPasswords } from './sso/provider.ts';
import { findState, sealState, SSO_SECRET_PREFIX, type SsoState } from './sso/session-state.ts';

/** 43 base62 characters: 256 bits. */
const SECRET_LENGTH = 43;
const secretPattern = new RegExp(`^(?:${SSO_SECRET_PREFIX.replace('.', '[.]')})?[0-9A-Za-z]{${SECRET_LENGTH}}$`);

/** A session ends after this time, however much it is used: a working day (OWASP ASVS 7.3.2). */
const ABSOLUTE_MS = 12 * 60 * 60_000;
/** When a session was seen last is written no more often than this. */
const SEEN_EVERY_MS = 60_000;
/** How long a process caches a session where no notice ends it. */
const CACHE_TTL_MS = 1_000;
/** Sessions cached per process. */
const CACHE_MAX = 1_000;

/** The member of a session. */
export type MemberIdentity = { tenant_id: string; member_id: string; user_id: string };

/** A member whose password was right, with its hash: a session begins only while the user has this hash. */
export type ProvenMember = MemberIdentity & { password_hash: string };

export type Session = MemberIdentity & {
  /** Mode of the server, which every page shows. */
  mode: Config['mode'];
  /** The API reference and the guides, where the console can link to them. */
  docsUrl: string | undefined;
  guidesUrl: string | undefined;
  tenant_name: string;
  role: Role;
  email: string;
  first_name: string;
  last_name: string;
  /** The tenants of the user, by name; this one among them. */
  tenants: { tenant_id: string; name: string }[];
  /** When the second factor was given last. */
  second_factor_at: Date | null;
  hasDevice: boolean;
  /** State of a session that began by single sign-on: it is of this tenant alone. Undefined if a password began it. */
  sso: SsoState | undefined;
  /**
   * Whether it may add devices. They count in all tenants of the user: a session that the provider of one tenant began may only where
   * there is no other.
   */
  mayAddDevices: boolean;
  /** What the member must do before anything else: give a code, or add a device, which the tenant requires. */
  pending: 'code' | 'device' | undefined;
  /** A token against request forgery, in each form of the session. */
  csrf: string;
  /** Reads tokens masked. See `revealing`. */
  caller: Caller;
};

/** Whether a form has the token of the session. */
export const isCsrfToken = ({ csrf }: Pick<Session, 'csrf'>, text: string): boolean =>
  equalDigests(Buffer.from(text), Buffer.from(csrf));

/** The same caller, who reads the value of a token after asking for it. A role without values sees no more than before. */
export const revealing = ({ role, caller }: Pick<Session, 'role' | 'caller'>): Caller =>
  mayReveal(role) ? { ...caller, rules: revealingRules } : caller;

export type SessionFinder = {
  /** The session of a secret; undefined for one that is unknown, ended or expired. Each call counts as use of the session. */
  find(secret: string): Promise<Session | undefined>;
};

type Cached = { session: Session; digest: Buffer; seenMs: number; expiresMs: number };

type Finding = Pick<Platform, 'config' | 'db' | 'keyring' | 'pepper' | 'now'> & Sealing;

export const createSessionFinder = (ctx: Finding & Pick<Platform, 'changes' | 'monotonicMs'>): SessionFinder => {
  const cache = createCache<Cached>({
    max: CACHE_MAX,
    ttlMs: CACHE_TTL_MS,
    monotonicMs: ctx.monotonicMs,
    changes: ctx.changes,
    isStale: ({ session: { member_id, tenant_id } }, { subject, id }) =>
      (subject === 'member' && member_id === id) || (subject === 'tenant' && tenant_id === id),
  });
  return {
    async find(secret) {
      if (!secretPattern.test(secret)) return undefined;
      const cached = await cache.find(memoryDigest(secret), () => loadSession(ctx, secret));
      if (!cached) return undefined;
      const nowMs = ctx.now().getTime();
      if (nowMs >= cached.expiresMs || nowMs >= cached.seenMs + ctx.config.sessionIdleMs) return undefined;
      if (nowMs >= cached.seenMs + SEEN_EVERY_MS) {
        // Before the write, so that concurrent requests write once.
        cached.seenMs = nowMs;
        await markSessionSeen(ctx.db, cached.digest, new Date(nowMs));
      }
      return cached.session;
    },
  };
};

/** The keys of a tenant; undefined where it was deleted a moment ago. */
export const findTenantKeys = (
  { keyring }: Pick<Platform, 'keyring'>,
  tenant_id: string,
): Promise<TenantKeys | undefined> =>
  keyring.tenantKeys(tenant_id).catch((error: unknown) => {
    if (error instanceof TenantKeysGone) return undefined;
    throw error;
  });

const loadSession = async (ctx: Finding, secret: string): Promise<Cached | undefined> => {
  const digest = sessionDigest(ctx.pepper, secret);
  const row = await findSessionBeforeCaller(ctx.db, digest);
  if (!row) return undefined;
  const [keys, tenants] = await Promise.all([
    findTenantKeys(ctx, row.tenant_id),
    listMembershipsBeforeCaller(ctx.db, row.user_id),
  ]);
  if (!keys) return undefined;
  const isSso = secret.startsWith(SSO_SECRET_PREFIX);
  const sso = isSso ? await findState(ctx, keys, { tenant_id: row.tenant_id, digest }) : undefined;
  if (isSso && !sso) return undefined;
  const { email, first_name, last_name } = openPerson(ctx, keys, row.tenant_id, row.member_id, row.sealed);
  const { tenant_id, tenant_name, member_id, user_id, role, second_factor_at } = row;
  const hasDevice = row.second_factor_since !== null;
  const session: Session = {
    mode: ctx.config.mode,
    docsUrl: docsUrlOf(ctx.config),
    guidesUrl: docsUrlOf(ctx.config, '/guides'),
    tenant_id,
    tenant_name,
    member_id,
    user_id,
    role,
    email,
    first_name,
    last_name,
    // The provider of one tenant says nothing to others, not even which they are.
    tenants: sso ? tenants.filter((each) => each.tenant_id === tenant_id) : tenants,
    second_factor_at,
    hasDevice,
    sso,
    mayAddDevices: !sso || tenants.length === 1,
    pending: sso?.isFactor ? undefined : pendingOf(ctx, row, hasDevice),
    csrf: csrfToken(ctx.pepper, secret),
    caller: callerOf(row),
  };
  return { session, digest, seenMs: row.seen_at.getTime(), expiresMs: row.expires_at.getTime() };
};

const pendingOf = (
  { config }: Pick<Finding, 'config'>,
  { second_factor_at, settings }: StoredSession,
  hasDevice: boolean,
): Session['pending'] => {
  if (hasDevice) return second_factor_at ? undefined : 'code';
  return requiresSecondFactor({ config }, settings) ? 'device' : undefined;
};

const callerOf = ({ tenant_id, user_id, role, settings }: StoredSession): Caller => ({
  tenant_id,
  actor_id: user_id,
  actor_type: 'user',
  ...rightsOfRole(role),
  // A search finds the values that the member may reveal one by one.
  findsAnyValue: mayReveal(role),
  deduplicate_tokens: deduplicates(settings as Record<string, string>),
  allows_absent_paths: allowsAbsentPaths(settings as Record<string, string>),
  needs_reveal_reason: asksForReason(settings as Record<string, string>),
});

type Starting = Pick<AccessContext, 'changes' | 'db' | 'metrics' | 'pepper' | 'now' | 'newLogId' | 'randomBytes'>;

const memberLog = (
  ctx: Pick<AccessContext, 'now' | 'newLogId'>,
  { member_id, user_id }: Pick<MemberIdentity, 'member_id' | 'user_id'>,
  message: 'Tenant member signed in' | 'Tenant member signed out',
  origin: RequestOrigin,
) =>
  logRow(
    ctx,
    { actor_id: user_id, actor_type: 'user', origin },
    { operation: 'use', entity_type: 'tenant_member', entity_ids: [member_id], message },
  );

/** A session that is not written yet, with its random secret. */
export const createSession = (
  ctx: Pick<AccessContext, 'pepper' | 'now' | 'randomBytes'>,
  { tenant_id, member_id, user_id }: MemberIdentity,
  second_factor_at: Date | null = null,
  prefix = '',
): { secret: string; session: NewSession } => {
  const secret = prefix + randomBase62(SECRET_LENGTH, ctx.randomBytes);
  const created_at = ctx.now();
  const session = {
    digest: sessionDigest(ctx.pepper, secret),
    tenant_id,
    member_id,
    user_id,
    created_at,
    expires_at: new Date(created_at.getTime() + ABSOLUTE_MS),
    second_factor_at,
  };
  return { secret, session };
};

const begin = async (
  ctx: Starting,
  member: MemberIdentity,
  basis: SessionBasis,
  origin: RequestOrigin,
): Promise<string> => {
  const { secret, session } = createSession(ctx, member);
  await runPrismaTransaction(ctx.db.for(member), ctx.changes, undefined, async (tx) => {
    const isMember = await lockMemberForSession(tx, session);
    const carried = isMember ? await carriedOver(tx, session, basis) : undefined;
    if (!carried) throw notFound('member');
    const { expires_at, second_factor_at } = carried;
    await insertSession(tx, { ...session, expires_at, second_factor_at });
    await deleteOldestSessions(tx, member);
    tx.log(memberLog(ctx, member, 'Tenant member signed in', origin));
  });
  return secret;
};

/**
 * Begins a session.
 * @returns its secret, for the cookie only.
 * @throws notFound where the member was removed or the password has changed.
 */
export const startSession = (ctx: Starting, member: ProvenMember, origin: RequestOrigin = {}): Promise<string> =>
  begin(ctx, member, { password_hash: member.password_hash }, origin);

/**
 * Begins a session of a member whom the provider of the tenant has proven.
 * @returns its secret, for the cookie only. @throws notFound where the member was removed.
 */
export const startSsoSession = async (
  ctx: Starting & Sealing & Pick<AccessContext, 'keyring'>,
  member: MemberIdentity,
  state: SsoState,
  origin: RequestOrigin,
): Promise<string> => {
  const { tenant_id } = member;
  const { secret, session } = createSession(ctx, member, null, SSO_SECRET_PREFIX);
  const { digest, expires_at } = session;
  const sealed = sealState(ctx, await ctx.keyring.tenantKeys(tenant_id), { tenant_id, digest }, state);
  await runPrismaTransaction(ctx.db.for(member), ctx.changes, undefined, async (tx) => {
    // The tenant before the user, as everywhere.
    if (!(await lockTenant(tx)) || !(await lockMemberForSession(tx, session))) throw notFound('member');
    await insertSession(tx, session);
    await insertSessionState(tx, { digest, sealed, expires_at });
    await deleteOldestSessions(tx, member);
    tx.log(memberLog(ctx, member, 'Tenant member signed in', origin));
  });
  return secret;
};

/** Ends a session in every process. An unknown secret changes nothing. */
export const endSession = async (
  ctx: Pick<AccessContext, 'db' | 'pepper' | 'now' | 'newLogId' | 'changes'>,
  secret: string,
  origin: RequestOrigin = {},
): Promise<void> => {
  if (!secretPattern.test(secret)) return;
  const digest = sessionDigest(ctx.pepper, secret);
  const member = await findSessionMemberBeforeCaller(ctx.db, digest);
  if (!member) return;
  await runPrismaTransaction(ctx.db.for(member), ctx.changes, undefined, async (tx) => {
    tx.changed({ subject: 'member', id: member.member_id });
    if (secret.startsWith(SSO_SECRET_PREFIX)) await deleteSessionState(tx, digest);
    if (await deleteSession(tx, { user_id: member.user_id, digest }))
      tx.log(memberLog(ctx, member, 'Tenant member signed out', origin));
  });
};

const ONLY_SSO =
  'This tenant asks its members to sign in by single sign-on: sign out, and choose it on the page to sign in.';

/**
 * Ends a session, and begins one of the same user in another tenant.
 * @returns the new secret. @throws notFound where the user is not a member of it, the session has ended, or began by single
 * sign-on; forbidden where the tenant accepts no passwords.
 */
export const switchTenant = async (
  ctx: Starting & Sealing & Pick<AccessContext, 'keyring'>,
  { session: { user_id, email, sso }, secret }: { session: Session; secret: string },
  tenant_id: string,
  origin: RequestOrigin,
): Promise<string> => {
  // The provider of one tenant must not open another one.
  if (sso) throw notFound('tenant');
  if ((await findTenantWithoutPasswords(ctx, email)) === tenant_id) throw new AppError('forbidden', ONLY_SSO);
  const memberships = await listMembershipsBeforeCaller(ctx.db, user_id);
  const target = memberships.find((membership) => membership.tenant_id === tenant_id);
  if (!target) throw notFound('tenant');
  const instead_of = sessionDigest(ctx.pepper, secret);
  const next = await begin(ctx, { tenant_id, member_id: target.member_id, user_id }, { instead_of }, origin);
  await endSession(ctx, secret, origin);
  return next;
};
