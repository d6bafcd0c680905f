// Accepts an invitation before a caller is known: the person becomes a member, as a new or an existing user.
import { INVITATION_ACCEPTED, logRow, type Operation, type RequestOrigin } from '../../platform/db/audit-record.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import { type PrismaTransaction, runPrismaTransaction } from '../../platform/db/transaction.ts';
import { chosenPasswordProblem } from './chosen-password.ts';
import type { PeopleContext } from './context.ts';
import { digestOfSecret, openEmail } from './invitations.ts';
import { type Person, sealPerson } from '../access/person.ts';
import {
  endLinkBeforeCaller,
  findInvitationBeforeCaller as findRowBeforeCaller,
  type LinkedInvitation,
  removeInvitationsOf,
  takeLink,
} from './rows/invitations.ts';
import { findMemberOfUser, insertMember, setTenantOwner, updateMember } from './rows/members.ts';
import { hasOwner, lockTenant } from './rows/people.ts';
import type { Role } from './roles.ts';
import { insertUser, lockUser, type StoredUser } from './rows/users.ts';
import { findTenantKeys, type ProvenMember } from './sessions.ts';

/** An invitation that can be accepted. */
export type OpenInvitation = {
  tenant_id: string;
  invitation_id: string;
  tenant_name: string;
  email: string;
  role: Role;
  /** Whether the address has a password already, which the form asks for then. */
  isKnownUser: boolean;
};

type AcceptanceInput = Omit<Person, 'email'> & { password: string };

export type AcceptanceResult =
  | { kind: 'accepted'; member: ProvenMember }
  /** The link is unknown, expired, superseded, deleted or used: the response does not say which. */
  | { kind: 'dead' }
  | { kind: 'wrong_password' }
  /** Another invitation made a user of the address at the same time: the form must ask for that password. */
  | { kind: 'user_came_meanwhile' };

/** A user who is removed during the first attempt is created by the second. */
const ATTEMPTS_MAX = 2;

type Found = { row: LinkedInvitation; digest: Buffer; keys: TenantKeys; email: string };

const findOpen = async (ctx: PeopleContext, secret: string): Promise<Found | undefined> => {
  const digest = digestOfSecret(ctx, secret);
  const row = digest && (await findRowBeforeCaller(ctx.db, digest));
  if (!row) return undefined;
  if (row.expires_at <= ctx.now()) {
    await endLinkBeforeCaller(ctx.db, digest);
    return undefined;
  }
  const keys = await findTenantKeys(ctx, row.tenant_id);
  return keys && { row, digest, keys, email: openEmail(ctx, keys, row.tenant_id, row.id, row.sealed) };
};

/** The invitation of a link; undefined for one that does not work. */
export const findInvitationBeforeCaller = async (
  ctx: PeopleContext,
  secret: string,
): Promise<OpenInvitation | undefined> => {
  const found = await findOpen(ctx, secret);
  if (!found) return undefined;
  const { tenant_id, id, tenant_name, role, user_id } = found.row;
  return { tenant_id, invitation_id: id, tenant_name, email: found.email, role, isKnownUser: user_id !== null };
};

/** The rule that the password of a new user breaks, as a sentence. */
export const newPasswordProblem = (
  { email, tenant_name }: Pick<OpenInvitation, 'email' | 'tenant_name'>,
  { first_name, last_name, password }: AcceptanceInput,
): Promise<string | undefined> =>
  chosenPasswordProblem(password, { email, names: [first_name, last_name], tenant_names: [tenant_name] });

/** `isNew`: to be created; otherwise the user whose password was verified. */
type AcceptingUser = StoredUser & { isNew: boolean };

/** @returns undefined for a wrong password. */
const userOf = async (
  ctx: PeopleContext,
  { row, email }: Found,
  input: AcceptanceInput,
): Promise<AcceptingUser | undefined> => {
  const { user_id, password_hash, tenant_name } = row;
  const { password } = input;
  if (user_id === null || password_hash === null) {
    // The page has checked a password that is chosen. This one is an existing user's who was removed since.
    if ((await newPasswordProblem({ email, tenant_name }, input)) !== undefined) return undefined;
    return { id: ctx.newUuid(), password_hash: await ctx.passwords.hash(password), isNew: true };
  }
  const isRight = await ctx.passwords.verify(password, password_hash);
  return isRight ? { id: user_id, password_hash, isNew: false } : undefined;
};

/** What is written of the member. */
type Joining = { row: LinkedInvitation; user: AcceptingUser; id: string; sealed: Uint8Array; now: Date };

/** @param isOwner whether the user becomes the owner. @returns undefined for an operation where nothing changed. */
const putMember = async (
  tx: PrismaTransaction,
  { row: { address_digest, role: invitedAs }, user, id, sealed, now }: Joining,
  isOwner: boolean,
): Promise<{ member_id: string; operation: Operation | undefined }> => {
  const user_id = user.id;
  if (isOwner) await setTenantOwner(tx, user_id);
  const member_id = (await findMemberOfUser(tx, user_id))?.id;
  if (member_id === undefined) {
    // An invitation for an owner where there is one already makes an administrator.
    const role: Role = isOwner ? 'OWNER' : invitedAs === 'OWNER' ? 'ADMIN' : invitedAs;
    await insertMember(tx, { id, user_id, role, address_digest, sealed, created_at: now, created_by: user_id });
    return { member_id: id, operation: 'create' };
  }
  if (!isOwner) return { member_id, operation: undefined };
  await updateMember(tx, member_id, { role: 'OWNER', modified_at: now, modified_by: user_id });
  tx.changed({ subject: 'member', id: member_id });
  return { member_id, operation: 'update' };
};

/** Accepts in one transaction. @returns the id of the member, or why there is none: the link is dead, or the user has changed. */
const join = (
  ctx: PeopleContext,
  digest: Buffer,
  joining: Joining,
  origin: RequestOrigin,
): Promise<{ member_id: string } | 'dead' | 'user_changed'> => {
  const { row, user, now } = joining;
  const { id: invitation_id, address_digest } = row;
  const actor = { actor_id: user.id, actor_type: 'user', origin } as const;
  const logOf = (operation: Operation, entity_type: string, entity_ids: string[], message?: string) =>
    logRow(ctx, actor, { operation, entity_type, entity_ids, message });
  return runPrismaTransaction(ctx.db.for(row), ctx.changes, undefined, async (tx) => {
    if (!(await lockTenant(tx)) || !(await takeLink(tx, invitation_id, digest, now))) return 'dead';
    const { id, password_hash } = user;
    const isUser = user.isNew
      ? await insertUser(tx, { id, password_hash, address_digest, created_at: now })
      : (await lockUser(tx, id))?.password_hash === password_hash;
    if (!isUser) return 'user_changed';
    const removed = await removeInvitationsOf(tx, { address_digest });
    // Any of them may ask for it, whichever link is used: the operator has chosen the address.
    const isAskedToOwn = removed.some(({ role, expires_at }) => role === 'OWNER' && expires_at > now);
    const { member_id, operation } = await putMember(tx, joining, isAskedToOwn && !(await hasOwner(tx)));
    if (operation) tx.log(logOf(operation, 'tenant_member', [member_id]));
    tx.log(logOf('delete', 'tenant_invitation', [invitation_id], INVITATION_ACCEPTED));
    const others = removed.flatMap((each) => (each.id === invitation_id ? [] : [each.id]));
    if (others.length > 0) tx.log(logOf('delete', 'tenant_invitation', others));
    return { member_id };
  });
};

/**
 * Accepts an invitation once: of concurrent requests with one link, one is accepted. Ends all invitations of the tenant to the
 * address. An existing member stays as they are, except that an invitation for the owner makes them the owner if there is none.
 * @param input the password is the existing one where the address has a user.
 * @throws unavailable where too many passwords are being hashed.
 */
export const acceptInvitation = async (
  ctx: PeopleContext,
  secret: string,
  input: AcceptanceInput,
  origin: RequestOrigin = {},
): Promise<AcceptanceResult> => {
  const { first_name, last_name } = input;
  for (let attemptsLeft = ATTEMPTS_MAX; attemptsLeft > 0; attemptsLeft -= 1) {
    const found = await findOpen(ctx, secret);
    if (!found) return { kind: 'dead' };
    const { row, digest, keys, email } = found;
    const { tenant_id } = row;
    const user = await userOf(ctx, found, input);
    if (!user) return { kind: 'wrong_password' };
    const id = ctx.newUuid();
    const sealed = sealPerson(ctx, keys, tenant_id, id, { email, first_name, last_name });
    const joined = await join(ctx, digest, { row, user, id, sealed, now: ctx.now() }, origin);
    if (joined === 'dead') return { kind: 'dead' };
    if (joined !== 'user_changed') {
      const { id: user_id, password_hash } = user;
      return { kind: 'accepted', member: { tenant_id, member_id: joined.member_id, user_id, password_hash } };
    }
    if (user.isNew) break;
  }
  return { kind: 'user_came_meanwhile' };
};
