// Finds the member whose account at the provider signs in: by its subject, at first by the address, or as a new member.
import {
  type Actor,
  INVITATION_ACCEPTED,
  logRow,
  type RequestOrigin,
  SSO_ACCOUNT_BOUND,
} from '../../../platform/db/audit-record.ts';
import { randomBase62, ssoDigest } from '../../../platform/crypto/digest.ts';
import { type PrismaTransaction, runPrismaTransaction } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/base/errors.ts';
import { digestOfAddress, newAddressProblem, parseGivenAddress } from '../address.ts';
import type { PeopleContext } from '../context.ts';
import { PEOPLE_MAX } from '../invitations.ts';
import { type Person, sealPerson } from '../../access/person.ts';
import type { Role } from '../roles.ts';
import { removeInvitationsOf } from '../rows/invitations.ts';
import { findMemberOfUser, insertMember } from '../rows/members.ts';
import { countPeople, lockTenant } from '../rows/people.ts';
import { findIdentity, findMemberOfAddress, putIdentity } from '../rows/sso.ts';
import { insertUser } from '../rows/users.ts';
import type { MemberIdentity } from '../sessions.ts';
import { isDomainOf } from './domains.ts';
import type { Claims } from './provider-client.ts';
import type { SsoSettings } from './provider.ts';

/** Why an account at a provider is not let in. */
export type IdentityRefusal =
  /** No address, or one that the provider has not verified. */
  | 'email'
  /** A new member would have an address beyond ASCII before its @. */
  | 'address'
  /** The operator has not bound the domain of the address to this tenant. */
  | 'domain'
  /** The member of the address has another account at the provider. */
  | 'other_person'
  /** The address has a password, and is a member of other tenants alone. */
  | 'known_address'
  /** The tenant has no role for new members. */
  | 'not_invited'
  | 'full'
  | 'tampered';

type Found =
  | { kind: 'member'; member: MemberIdentity; subject: Buffer }
  | { kind: IdentityRefusal; member_id?: string };

/** Length of a name, as in the page of an invitation. */
const NAME_LENGTH_MAX = 100;

/** Nothing signs in with it: it makes a user whose password no one knows. */
const UNKNOWN_PASSWORD_LENGTH = 43;

/**
 * Digest of an account: issuer and subject together never mean another one. The tenant is part of it: equal accounts in two tenants
 * look unrelated.
 */
export const digestOfSubject = (
  { pepper }: Pick<PeopleContext, 'pepper'>,
  tenant_id: string,
  issuer: string,
  sub: string,
): Buffer => ssoDigest(pepper, 'subject', tenant_id, issuer, sub);

/** A name as members have it. */
const nameOf = (text: string | undefined): string =>
  Array.from((text ?? '').replaceAll(/\p{C}/gu, '').trim())
    .slice(0, NAME_LENGTH_MAX)
    .join('')
    .trim();

const personOf = (email: string, { first_name, last_name, name }: Claims): Person => ({
  email,
  first_name: nameOf(first_name) || nameOf(name) || nameOf(email.slice(0, email.lastIndexOf('@'))),
  last_name: nameOf(first_name) === '' ? '' : nameOf(last_name),
});

type Signing = { tenant_id: string; settings: SsoSettings; claims: Claims; origin: RequestOrigin };

type New = { member_id: string; user_id: string; password_hash: string; sealed: Buffer };

/** Rolls the transaction back: a member was not added. An AppError, since the database turns others into failures of its own. */
class NotAdded extends AppError {
  readonly kind: IdentityRefusal;

  constructor(kind: IdentityRefusal) {
    super('forbidden', 'The member was not added.');
    this.kind = kind;
  }
}

/**
 * Ends the invitations to an address, except those for an owner: an attacker who controls the provider must not become one.
 * @returns the role of the newest one that has not expired.
 */
const acceptInvitations = async (
  ctx: PeopleContext,
  tx: PrismaTransaction,
  { address_digest, actor }: { address_digest: Buffer; actor: Actor },
): Promise<Role | undefined> => {
  const found = await removeInvitationsOf(tx, { address_digest, hasOwnersKept: true });
  const now = ctx.now();
  const open = found.filter(({ expires_at }) => expires_at > now);
  const [newest] = open.toSorted((one, next) => next.expires_at.getTime() - one.expires_at.getTime());
  for (const { id } of found)
    tx.log(
      logRow(ctx, actor, {
        operation: 'delete',
        entity_type: 'tenant_invitation',
        entity_ids: [id],
        ...(id === newest?.id && { message: INVITATION_ACCEPTED }),
      }),
    );
  return newest?.role as Role | undefined;
};

/** Adds a member whom the provider has sent, with the role of an invitation or of the settings. @throws NotAdded. */
const addMember = async (
  ctx: PeopleContext,
  tx: PrismaTransaction,
  { settings, address_digest, made, actor }: { settings: SsoSettings; address_digest: Buffer; made: New; actor: Actor },
): Promise<void> => {
  const { member_id, user_id, password_hash, sealed } = made;
  const created_at = ctx.now();
  if (!(await insertUser(tx, { id: user_id, password_hash, address_digest, created_at })))
    throw new NotAdded('known_address');
  const role = (await acceptInvitations(ctx, tx, { address_digest, actor })) ?? settings.default_role;
  if (role === null) throw new NotAdded('not_invited');
  if ((await countPeople(tx)) >= PEOPLE_MAX) throw new NotAdded('full');
  await insertMember(tx, { id: member_id, user_id, role, address_digest, sealed, created_at, created_by: user_id });
  tx.log(logRow(ctx, actor, { operation: 'create', entity_type: 'tenant_member', entity_ids: [member_id] }));
};

/** What becomes a new member; computed before the transaction, since hashing takes a while. */
const makeNew = async (ctx: PeopleContext, tenant_id: string, person: Person): Promise<New> => {
  const [member_id, user_id] = [ctx.newUuid(), ctx.newUuid()];
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  return {
    member_id,
    user_id,
    password_hash: await ctx.passwords.hash(randomBase62(UNKNOWN_PASSWORD_LENGTH, ctx.randomBytes)),
    sealed: sealPerson(ctx, keys, tenant_id, member_id, person),
  };
};

/**
 * The member of an account. A subject that is known counts, whatever its address is today; an address counts the first time only. Every
 * time the address must be verified, and of a domain of the tenant.
 * @returns `new` where a member must be added, and none was prepared.
 */
const findOrAdd = (
  ctx: PeopleContext,
  { tenant_id, settings, claims, origin }: Signing,
  { email, made }: { email: string; made: New | undefined },
): Promise<Found | 'new'> => {
  const subject = digestOfSubject(ctx, tenant_id, settings.issuer, claims.sub);
  const address_digest = digestOfAddress(ctx, email);
  return runPrismaTransaction(ctx.db.for({ tenant_id }), ctx.changes, undefined, async (tx) => {
    if (!(await lockTenant(tx))) return { kind: 'not_invited' };
    const known = await findIdentity(tx, subject);
    if (known) {
      const { member_id, user_id, isGenuine } = known;
      if (!isGenuine) return { kind: 'tampered', member_id };
      return { kind: 'member', member: { tenant_id, member_id, user_id }, subject };
    }
    const existing = await findMemberOfAddress(tx, address_digest);
    // A writer of the database could give the address of their account to another member.
    if (existing && (await findMemberOfUser(tx, existing.user_id))?.id !== existing.member_id)
      return { kind: 'tampered', member_id: existing.member_id };
    if (existing?.is_bound) return { kind: 'other_person', member_id: existing.member_id };
    const who = existing ?? made;
    if (!who) return 'new';
    const { member_id, user_id } = who;
    const actor: Actor = { actor_id: user_id, actor_type: 'user', origin };
    if (!existing && made) await addMember(ctx, tx, { settings, address_digest, made, actor });
    await putIdentity(tx, { digest: subject, member_id, created_at: ctx.now() });
    const about = { entity_type: 'tenant_member', entity_ids: [member_id], message: SSO_ACCOUNT_BOUND };
    tx.log(logRow(ctx, actor, { operation: 'update', ...about }));
    return { kind: 'member', member: { tenant_id, member_id, user_id }, subject };
  });
};

/** @throws unavailable where too many passwords are being hashed. */
export const findMemberOfAccount = async (ctx: PeopleContext, signing: Signing): Promise<Found> => {
  const { tenant_id, claims } = signing;
  const email = claims.isEmailVerified && claims.email !== undefined ? parseGivenAddress(claims.email) : undefined;
  if (email === undefined) return { kind: 'email' };
  if (!(await isDomainOf(ctx, tenant_id, email))) return { kind: 'domain' };
  const found = await findOrAdd(ctx, signing, { email, made: undefined });
  if (found !== 'new') return found;
  if (newAddressProblem(email) !== undefined) return { kind: 'address' };
  const made = await makeNew(ctx, tenant_id, personOf(email, claims));
  try {
    return (await findOrAdd(ctx, signing, { email, made })) as Found;
  } catch (error) {
    if (error instanceof NotAdded) return { kind: error.kind };
    throw error;
  }
};
