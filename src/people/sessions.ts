// Sessions of members: what the secret in a browser's cookie stands for, and for how long. Found by digest, remembered for a
// moment, ended at once where the member, the tenant or the session goes. Knows no cookie and no page.
import { deduplicates } from '../access/api-keys.ts';
import type { Caller, RequestOrigin } from '../access/caller.ts';
import { type Permission, permissions } from '../access/permissions.ts';
import type { AccessRule } from '../access/rules.ts';
import { logRow } from '../audit/record.ts';
import { createBriefMemory } from '../brief-memory.ts';
import type { Context } from '../context.ts';
import { csrfToken, equalDigests, memoryDigest, randomBase62, sessionDigest } from '../crypto/digest.ts';
import { TenantKeysGone } from '../crypto/keyring.ts';
import type { Role } from '../db/people.ts';
import type { NewSession, SessionGround, StoredMembership, StoredSession } from '../db/sessions.ts';
import { notFound } from '../errors.ts';
import type { Sealing } from '../runtime/sealed.ts';
import { openPerson } from './members.ts';

/** 43 base62 characters: 256 bits. */
const SECRET_LENGTH = 43;
const secretPattern = new RegExp(`^[0-9A-Za-z]{${SECRET_LENGTH}}$`);

/** A session ends after so long however much it is used: a working day (OWASP ASVS 7.3.2). */
const ABSOLUTE_MS = 12 * 60 * 60_000;
/** A page more often than this is no news: a write for each would cost more than it tells. */
const SEEN_EVERY_MS = 60_000;
/** How long a process answers for a session without asking again, where no notice reaches it. */
const KNOWN_MS = 1_000;
/** Sessions remembered per process: a bound, not a tuning. */
const KNOWN_MAX = 1_000;
/** Of one member at once, on all devices; one more ends the oldest. */
const SESSIONS_MAX = 20;

/** Without a rule a plain permission shows the value of a token that has no mask; pages never show one unasked. */
const ruleOf = (transform: 'mask' | 'reveal'): AccessRule => ({
  description: '',
  priority: 1,
  container: '/',
  transform,
  permissions: ['token:read', 'token:search'],
});

const everything: ReadonlySet<Permission> = new Set(permissions);
const masking = [ruleOf('mask')];
const unmasking = [ruleOf('reveal')];

/** Whose a session is. */
export type MemberIdentity = { tenant_id: string; member_id: string; user_id: string };

/** A member whose password was right, with its stored form: a session begins only while it is that one. */
export type ProvenMember = MemberIdentity & { password_hash: string };

export type Session = MemberIdentity & {
  tenant_name: string;
  role: Role;
  email: string;
  first_name: string;
  last_name: string;
  /** Where the user is a member, by name; this one among them. */
  tenants: { tenant_id: string; name: string }[];
  /** What each form of the session brings along. */
  csrf: string;
  /** Reads tokens masked; see `revealing`. */
  caller: Caller;
};

/** Whether a form is one of the session's own. */
export const isCsrfToken = ({ csrf }: Pick<Session, 'csrf'>, text: string): boolean =>
  equalDigests(Buffer.from(text), Buffer.from(csrf));

/** The same caller for a deliberate act: reading a token shows its value. */
export const revealing = (caller: Caller): Caller => ({ ...caller, rules: unmasking });

export type SessionFinder = {
  /** The session of a secret; undefined for one that is none, was ended, or is over. Being found keeps it from idling. */
  find(secret: string): Promise<Session | undefined>;
  /** Sessions of a member, or of all of a tenant's, are looked up anew. */
  forget(match: { member_id?: string; tenant_id?: string } | 'all'): void;
};

type Known = { session: Session; digest: Buffer; seenMs: number; expiresMs: number };

type Finding = Pick<Context, 'config' | 'db' | 'keyring' | 'pepper' | 'now'> & Sealing;

export const createSessionFinder = (ctx: Finding & { monotonicMs: () => number }): SessionFinder => {
  const memory = createBriefMemory<Known>({ max: KNOWN_MAX, ttlMs: KNOWN_MS, monotonicMs: ctx.monotonicMs });
  return {
    async find(secret) {
      if (!secretPattern.test(secret)) return undefined;
      const known = await memory.find(memoryDigest(secret), () => loadSession(ctx, secret));
      if (!known) return undefined;
      const nowMs = ctx.now().getTime();
      if (nowMs >= known.expiresMs || nowMs >= known.seenMs + ctx.config.sessionIdleMs) return undefined;
      if (nowMs >= known.seenMs + SEEN_EVERY_MS) {
        // First here, so that pages that load together write once.
        known.seenMs = nowMs;
        await ctx.db.markSessionSeen(known.digest, new Date(nowMs));
      }
      return known.session;
    },
    forget: (match) =>
      memory.forget(
        ({ session: { member_id, tenant_id } }) =>
          match === 'all' || member_id === match.member_id || tenant_id === match.tenant_id,
      ),
  };
};

const loadSession = async (ctx: Finding, secret: string): Promise<Known | undefined> => {
  const digest = sessionDigest(ctx.pepper, secret);
  const row = await ctx.db.findSessionBeforeCaller(digest);
  if (!row) return undefined;
  const [keys, tenants] = await Promise.all([
    ctx.keyring.tenantKeys(row.tenant_id).catch((error: unknown) => {
      // The tenant was deleted a moment ago.
      if (error instanceof TenantKeysGone) return undefined;
      throw error;
    }),
    ctx.db.listMembershipsBeforeCaller(row.user_id),
  ]);
  if (!keys) return undefined;
  const { email, first_name, last_name } = openPerson(ctx, keys, row.tenant_id, row.member_id, row.sealed);
  const { tenant_id, tenant_name, member_id, user_id, role } = row;
  const session: Session = {
    tenant_id,
    tenant_name,
    member_id,
    user_id,
    role,
    email,
    first_name,
    last_name,
    tenants,
    csrf: csrfToken(ctx.pepper, secret),
    caller: callerOf(row),
  };
  return { session, digest, seenMs: row.seen_at.getTime(), expiresMs: row.expires_at.getTime() };
};

/** A role is its member's full access (decisions.md section 7): OWNER and ADMIN may do the same, but that an OWNER stays. */
const callerOf = ({ tenant_id, user_id, settings }: StoredSession): Caller => ({
  tenant_id,
  actor_id: user_id,
  actor_type: 'user',
  permissions: everything,
  rules: masking,
  findsAnyValue: true,
  deduplicate_tokens: deduplicates(settings as Record<string, string>),
});

type Starting = Pick<Context, 'db' | 'pepper' | 'now' | 'newLogId' | 'randomBytes'>;

const memberLog = (
  ctx: Pick<Context, 'now' | 'newLogId'>,
  { member_id, user_id }: Pick<MemberIdentity, 'member_id' | 'user_id'>,
  message: 'Tenant member signed in' | 'Tenant member signed out',
  origin: RequestOrigin,
) =>
  logRow(
    ctx,
    { actor_id: user_id, actor_type: 'user', origin },
    { operation: 'use', entity_type: 'tenant_member', entity_ids: [member_id], message },
  );

/** A session that is to be added, under a secret that nobody had before. */
export const drawSession = (
  ctx: Pick<Context, 'pepper' | 'now' | 'randomBytes'>,
  { tenant_id, member_id, user_id }: MemberIdentity,
): { secret: string; session: NewSession } => {
  const secret = randomBase62(SECRET_LENGTH, ctx.randomBytes);
  const created_at = ctx.now();
  const session = {
    digest: sessionDigest(ctx.pepper, secret),
    tenant_id,
    member_id,
    user_id,
    created_at,
    expires_at: new Date(created_at.getTime() + ABSOLUTE_MS),
  };
  return { secret, session };
};

const begin = async (
  ctx: Starting,
  member: MemberIdentity,
  ground: SessionGround,
  origin: RequestOrigin,
): Promise<string> => {
  const { secret, session } = drawSession(ctx, member);
  const log = memberLog(ctx, member, 'Tenant member signed in', origin);
  if (!(await ctx.db.addSession(session, ground, SESSIONS_MAX, log))) throw notFound('member');
  return secret;
};

/**
 * Begins a session.
 * @param origin of the request, for the log.
 * @returns its secret, for the cookie and nothing else.
 * @throws notFound where the member is gone, or has another password by now.
 */
export const startSession = (ctx: Starting, member: ProvenMember, origin: RequestOrigin = {}): Promise<string> =>
  begin(ctx, member, { password_hash: member.password_hash }, origin);

/** Ends a session in every process. A secret that is none, or was ended, changes nothing. */
export const endSession = async (
  ctx: Pick<Context, 'db' | 'pepper' | 'now' | 'newLogId' | 'sessions'>,
  secret: string,
  origin: RequestOrigin = {},
): Promise<void> => {
  if (!secretPattern.test(secret)) return;
  let ended: string | undefined;
  try {
    await ctx.db.deleteSession(sessionDigest(ctx.pepper, secret), (of) => {
      ended = of.member_id;
      return memberLog(ctx, of, 'Tenant member signed out', origin);
    });
  } finally {
    // Whatever came of it: a deed that failed on its way back may have been done.
    ctx.sessions.forget(ended === undefined ? 'all' : { member_id: ended });
  }
};

/** The tenants that a user may act in, by name. */
export const listMemberships = (ctx: Pick<Context, 'db'>, user_id: string): Promise<StoredMembership[]> =>
  ctx.db.listMembershipsBeforeCaller(user_id);

/**
 * Ends a session, and begins one of the same user in another tenant.
 * @returns the new secret. @throws notFound where the user is no member of it, or the session has ended meanwhile.
 */
export const switchTenant = async (
  ctx: Starting & Pick<Context, 'sessions'>,
  { session, secret }: { session: Session; secret: string },
  tenant_id: string,
  origin: RequestOrigin,
): Promise<string> => {
  const { user_id } = session;
  const target = (await listMemberships(ctx, user_id)).find((membership) => membership.tenant_id === tenant_id);
  if (!target) throw notFound('tenant');
  const instead_of = sessionDigest(ctx.pepper, secret);
  const next = await begin(ctx, { tenant_id, member_id: target.member_id, user_id }, { instead_of }, origin);
  await endSession(ctx, secret, origin);
  return next;
};
