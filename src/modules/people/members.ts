// Members: people with access to a tenant. Lists and removes them, and changes roles; acceptance.ts adds them.
import { logRow, operator } from '../../platform/db/audit-record.ts';
import { AppError, notFound, StartError, unprocessable } from '../../platform/base/errors.ts';
import { comparedAddress, digestOfAddress, parseAddress } from './address.ts';
import { clearAttemptsOfAccount } from './attempts.ts';
import { forgetDevice } from './devices.ts';
import {
  countMembers,
  findMember,
  findOwnerId,
  listMembers as listMemberRows,
  lockMember,
  type MemberFilter,
  removeMember,
  type StoredMember,
  updateMember,
} from './rows/members.ts';
import { findUserBeforeCaller, listMembershipsBeforeCaller } from './rows/users.ts';
import { type Changing, changingUser, type Visitor } from './second-factor.ts';
import type { AccessContext } from '../access/context.ts';
import { hasDailyLimit } from '../access/limits.ts';
import { openPerson } from '../access/person.ts';
import { resourceOf } from '../access/resource.ts';
import type { Work } from '../access/work.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import type { PrismaTransaction } from '../../platform/db/transaction.ts';
import { removeInvitationsOf } from './rows/invitations.ts';
import { type GivenRole, mayInvite, type Role } from './roles.ts';

// Removes the second factor of a person who lost the device: by the operator, or by an administrator.

/** For the operator. All sessions of the person end, and failures and known places of the account are forgotten. @throws StartError where no user with a device has the address. */
export const resetSecondFactor = async (ctx: Changing, email: string): Promise<void> => {
  const address = parseAddress(email.trim());
  const user = address === undefined ? undefined : await findUserBeforeCaller(ctx.db, digestOfAddress(ctx, address));
  const [membership] = user ? await listMembershipsBeforeCaller(ctx.db, user.id) : [];
  const isReset =
    user &&
    membership &&
    (await changingUser(ctx, { tenant_id: membership.tenant_id, user_id: user.id, actor: operator }, (tx, found) =>
      forgetDevice(ctx, tx, user.id, found),
    ));
  if (address === undefined || !isReset)
    throw new StartError('No account with a second factor has this address: nothing was changed.');
  await clearAttemptsOfAccount(ctx, comparedAddress(address));
};

/**
 * For an administrator, of another member. The device belongs to the user, whom tenants share: one tenant must not weaken the
 * sign-in to another one.
 * @throws notFound; unprocessable for the owner, for oneself, for a member of further tenants, and without a device.
 */
export const resetMemberSecondFactor = async (ctx: Changing, visitor: Visitor, member_id: string): Promise<void> => {
  const { tenant_id, user_id } = visitor.session;
  const member = await findMember(ctx.db.for({ tenant_id }), member_id);
  if (!member) throw notFound('member');
  if (member.user_id === user_id) throw unprocessable('Remove your own second factor under Account.');
  const onlyOperator = () =>
    unprocessable('Only the operator of this vault can reset the second factor of this member.');
  // Verified, so that a row that was changed to another user resets nothing.
  const memberships = await listMembershipsBeforeCaller(ctx.db, member.user_id);
  if (member.role === 'OWNER' || !memberships.some((each) => each.member_id === member_id)) throw onlyOperator();
  const actor = { actor_id: user_id, actor_type: 'user', origin: visitor.origin } as const;
  const isReset = await changingUser(ctx, { tenant_id, user_id: member.user_id, actor }, async (tx, found) => {
    const [first, ...others] = found.members;
    if (first?.tenant_id !== tenant_id || others.length > 0) throw onlyOperator();
    return forgetDevice(ctx, tx, member.user_id, found);
  });
  if (!isReset) throw unprocessable('This member has no second factor.');
};

export const MEMBERS_PAGE_SIZE_MAX = 50;

/** Member as the API shows it. Undefined properties are left out. */
type MemberRecord = {
  id: string;
  tenant_id: string;
  role: Role;
  user: { id: string; email: string; first_name: string; last_name: string | undefined };
  created_by: string | undefined;
  created_at: string;
  modified_by: string | undefined;
  modified_at: string | undefined;
};

const recordOf = (ctx: AccessContext, keys: TenantKeys, tenant_id: string, row: StoredMember): MemberRecord => {
  const { email, first_name, last_name } = openPerson(ctx, keys, tenant_id, row.id, row.sealed);
  return {
    id: row.id,
    tenant_id,
    role: row.role,
    user: { id: row.user_id, email, first_name, last_name: last_name === '' ? undefined : last_name },
    created_by: row.created_by ?? undefined,
    created_at: row.created_at.toISOString(),
    modified_by: row.modified_by ?? undefined,
    modified_at: row.modified_at?.toISOString(),
  };
};

const members = resourceOf<AccessContext, StoredMember, MemberFilter, MemberRecord>({
  entity_type: 'tenant_member',
  noun: 'member',
  find: findMember,
  count: countMembers,
  list: listMemberRows,
  lock: lockMember,
  remove: removeMember,
  show: async (ctx, { tenant_id }, rows) => {
    const keys = await ctx.keyring.tenantKeys(tenant_id);
    return rows.map((row) => recordOf(ctx, keys, tenant_id, row));
  },
  changeOf: (_, id) => ({ subject: 'member', id }),
});

/** Removes the invitations to a member's address and those that the member created, with their log row. */
const removeInvitations = async (
  ctx: AccessContext,
  work: Work,
  tx: PrismaTransaction,
  { address_digest, user_id }: Pick<StoredMember, 'address_digest' | 'user_id'>,
): Promise<void> => {
  const entity_ids = (await removeInvitationsOf(tx, { address_digest, user_id })).map((invitation) => invitation.id);
  if (entity_ids.length > 0)
    tx.log(logRow(ctx, work, { operation: 'delete', entity_type: 'tenant_invitation', entity_ids }));
};

/** A page, newest first. `user_ids`: only these users; undefined for all. */
export const listMembers = members.list;

/** The owner of the tenant. @throws notFound where it has none. */
export const getOwner = async (ctx: AccessContext, work: Work): Promise<MemberRecord> => {
  const id = await findOwnerId(work.db);
  if (id === undefined) throw notFound('owner');
  return members.read(ctx, work, id);
};

/**
 * Gives a member another role, at once and in all processes. A member who may invite no longer loses the invitations that they
 * created: one of them could give the role back.
 * @throws notFound; unprocessable for the owner; forbidden for a caller with a daily limit.
 */
export const changeMember = async (
  ctx: AccessContext,
  work: Work,
  id: string,
  { role }: { role: GivenRole },
): Promise<MemberRecord> => {
  // Members have no limits: the caller would see any number of tokens by a member whose role it changes.
  if (hasDailyLimit(work.caller)) throw new AppError('forbidden', 'A caller with a daily limit cannot change roles.');
  const keys = await ctx.keyring.tenantKeys(work.tenant_id);
  return members.change(ctx, work, id, async (tx, row) => {
    if (row.role === 'OWNER') throw unprocessable('The role of the owner cannot be changed.');
    const changed = { role, modified_at: ctx.now(), modified_by: work.actor_id };
    await updateMember(tx, id, changed);
    if (!mayInvite(role)) await removeInvitations(ctx, work, tx, row);
    return recordOf(ctx, keys, work.tenant_id, { ...row, ...changed });
  });
};

/**
 * Removes a member, with all that could give access back: their sessions in this tenant, invitations to their address, and
 * invitations that they created. Other records that they created stay, such as applications with their keys.
 * @throws notFound; unprocessable for the owner.
 */
export const deleteMember = (ctx: AccessContext, work: Work, id: string): Promise<void> =>
  members.delete(ctx, work, id, async (tx, { role, address_digest, user_id }) => {
    if (role === 'OWNER') throw unprocessable('The owner of the tenant cannot be deleted.');
    await removeInvitations(ctx, work, tx, { address_digest, user_id });
  });
