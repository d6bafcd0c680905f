// Members: people with access to a tenant. Lists and removes them, and changes roles; acceptance.ts adds them.
import type { AccessContext } from '../access/context.ts';
import { hasDailyLimit } from '../access/limits.ts';
import { openPerson } from '../access/person.ts';
import { resourceOf } from '../access/resource.ts';
import type { Work } from '../access/work.ts';
import { logRow } from '../../platform/db/audit-record.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import type { PrismaTransaction } from '../../platform/db/transaction.ts';
import { AppError, notFound, unprocessable } from '../../platform/base/errors.ts';
import { removeInvitationsOf } from './rows/invitations.ts';
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
import { type GivenRole, mayInvite, type Role } from './roles.ts';

export const MEMBERS_PAGE_SIZE_MAX = 50;

/** As the API shows it. Undefined properties are left out. */
export type MemberRecord = {
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
