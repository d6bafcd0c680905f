// Members: people who may do everything in their tenant. Lists them and removes them, with every door that they could come
// back by; address and names are sealed in the tenant. Makes none: acceptance.ts does.
import type { Caller } from '../access/caller.ts';
import { logRow, type Operation } from '../audit/record.ts';
import type { Context } from '../context.ts';
import type { TenantKeys } from '../crypto/keyring.ts';
import type { StoredMember } from '../db/members.ts';
import type { Role } from '../db/people.ts';
import { notFound, unprocessable } from '../errors.ts';
import { countThenList, type Page, type PageRequest, readPage } from '../paging.ts';
import { openText, sealText, type SealedPlace, type Sealing } from '../runtime/sealed.ts';

/** interface.md section "Limits". */
export const MEMBERS_PAGE_SIZE_MAX = 50;

/** Who a member is, in the tenant where they said so. */
export type Person = {
  email: string;
  first_name: string;
  /** Empty where they gave none. */
  last_name: string;
};

/** As the wire knows it. What is undefined is left out. */
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

const placeOf = (tenant_id: string, id: string): SealedPlace => ({
  tenant_id,
  record: 'tenant_member',
  id,
  field: 'person',
});

export const sealPerson = (
  ctx: Sealing,
  keys: TenantKeys,
  tenant_id: string,
  member_id: string,
  { email, first_name, last_name }: Person,
): Buffer => sealText(ctx, keys, placeOf(tenant_id, member_id), JSON.stringify({ email, first_name, last_name }));

export const openPerson = (
  ctx: Sealing,
  keys: TenantKeys,
  tenant_id: string,
  member_id: string,
  sealed: Uint8Array,
): Person => JSON.parse(openText(ctx, keys, placeOf(tenant_id, member_id), sealed)) as Person;

const recordOf = (ctx: Context, keys: TenantKeys, tenant_id: string, row: StoredMember): MemberRecord => {
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

const logOf = (ctx: Context, caller: Caller, operation: Operation, entity_ids: string[]) =>
  logRow(ctx, caller, { operation, entity_type: 'tenant_member', entity_ids });

/** A page, newest first. @param input.user_ids only these users; undefined for all. */
export const listMembers = async (
  ctx: Context,
  caller: Caller,
  input: { user_ids: string[] | undefined; page: PageRequest },
): Promise<Page<MemberRecord>> => {
  const { tenant_id } = caller;
  const db = ctx.db.for(caller);
  const { user_ids } = input;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const { pagination, rows } = await readPage(input.page, {
    page: countThenList(
      async () => ({ total: await db.countMembers(user_ids), capped: false }),
      (offset, limit) => db.listMembers(user_ids, offset, limit),
    ),
  });
  const shown = rows.map(({ id }) => id);
  if (shown.length > 0) await db.insertLogs([logOf(ctx, caller, 'read', shown)]);
  return { pagination, data: rows.map((row) => recordOf(ctx, keys, tenant_id, row)) };
};

/**
 * Removes a member: their sessions in this tenant end at once, and so do invitations to their address and those that they
 * made. What else they made stays, applications and their keys among it.
 * @throws notFound; unprocessable for the owner.
 */
export const deleteMember = async (ctx: Context, caller: Caller, id: string): Promise<void> => {
  const logsOf = (invitation_ids: string[]) => [
    logOf(ctx, caller, 'delete', [id]),
    ...(invitation_ids.length === 0
      ? []
      : [logRow(ctx, caller, { operation: 'delete', entity_type: 'tenant_invitation', entity_ids: invitation_ids })]),
  ];
  try {
    const outcome = await ctx.db.for(caller).deleteMember(id, logsOf);
    if (outcome === 'missing') throw notFound('member');
    if (outcome === 'owner') throw unprocessable('The owner of the tenant cannot be deleted.');
  } finally {
    // Before anybody hears of it; other processes hear it from the database. A deed that failed on its way back may have been done.
    ctx.sessions.forget({ member_id: id });
  }
};
