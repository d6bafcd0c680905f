// Finds the names that actors and entities of log entries have now. Tokens have none, and no address is a name.
import { isUuid } from '../../platform/crypto/ids.ts';
import type { AccessContext } from '../access/context.ts';
import { fullName, openPerson } from '../access/person.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import type { TenantQuery } from '../../platform/db/database.ts';
import { findMembers, findNames, hasNameColumn, type SealedMember } from './name-rows.ts';
import type { LogEntry } from './rows.ts';

type Naming = Pick<AccessContext, 'keyring' | 'environment' | 'randomBytes' | 'log'>;

export type Named = Pick<LogEntry, 'actor_type' | 'actor_id' | 'entity_type' | 'entity_id'>;

export type EntryNames = {
  actorOf(entry: Pick<Named, 'actor_type' | 'actor_id'>): string | undefined;
  entityOf(entry: Pick<Named, 'entity_type' | 'entity_id'>): string | undefined;
};

/** Empty for none, and for one that does not open: that is an alarm, and the log stays readable. */
const nameOfMember = (
  ctx: Naming,
  keys: TenantKeys,
  tenant_id: string,
  { id, sealed }: Pick<SealedMember, 'id' | 'sealed'>,
): string => {
  try {
    return fullName(openPerson(ctx, keys, tenant_id, id, sealed));
  } catch {
    return '';
  }
};

/** Those that have a name. */
const nameMembersOf = async (
  ctx: Naming,
  db: TenantQuery,
  wanted: { users: readonly string[]; members: readonly string[] },
): Promise<{ id: string; user_id: string; name: string }[]> => {
  if (wanted.users.length + wanted.members.length === 0) return [];
  const keys = await ctx.keyring.tenantKeys(db.tenant_id);
  return (await findMembers(db, wanted))
    .map(({ id, user_id, sealed }) => ({ id, user_id, name: nameOfMember(ctx, keys, db.tenant_id, { id, sealed }) }))
    .filter(({ name }) => name !== '');
};

/** Names by the ids of applications and users. */
export const findActorNames = async (
  ctx: Naming,
  db: TenantQuery,
  ids: readonly string[],
): Promise<Map<string, string>> => {
  if (ids.length === 0) return new Map();
  const [applications, members] = await Promise.all([
    findNames(db, 'application', ids),
    nameMembersOf(ctx, db, { users: ids, members: [] }),
  ]);
  return new Map([
    ...applications.map(({ id, name }) => [id, name] as const),
    ...members.map(({ user_id, name }) => [user_id, name] as const),
  ]);
};

/** Names of applications and of members, and of other entities by their kind. A deleted record has none. */
export const findEntryNames = async (ctx: Naming, db: TenantQuery, entries: readonly Named[]): Promise<EntryNames> => {
  const ids = new Map<string, Set<string>>();
  const need = (kind: string, id: string | null): void => {
    if (id !== null && isUuid(id)) ids.set(kind, (ids.get(kind) ?? new Set()).add(id));
  };
  for (const { actor_type, actor_id, entity_type, entity_id } of entries) {
    if (actor_type === 'application' || actor_type === 'user') need(actor_type, actor_id);
    if (entity_type === 'tenant_member' || hasNameColumn(entity_type)) need(entity_type, entity_id);
  }
  const names = new Map<string, string>();
  const nameMembers = async (): Promise<void> => {
    const wanted = { users: [...(ids.get('user') ?? [])], members: [...(ids.get('tenant_member') ?? [])] };
    for (const { id, user_id, name } of await nameMembersOf(ctx, db, wanted)) {
      names.set(`user ${user_id}`, name);
      names.set(`tenant_member ${id}`, name);
    }
  };
  const nameOthers = async (kind: string, of: ReadonlySet<string>): Promise<void> => {
    for (const { id, name } of await findNames(db, kind, [...of])) names.set(`${kind} ${id}`, name);
  };
  await Promise.all([
    nameMembers(),
    ...Array.from(ids, ([kind, of]) => (hasNameColumn(kind) ? nameOthers(kind, of) : undefined)),
  ]);
  return {
    actorOf: ({ actor_type, actor_id }) => names.get(`${actor_type} ${actor_id}`),
    entityOf: ({ entity_type, entity_id }) => names.get(`${entity_type} ${entity_id}`),
  };
};
