// Reads the names of records by their ids.
import type { TenantQuery } from '../../platform/db/database.ts';

/** Tables of kinds of entities whose name is a column. */
const tables: Readonly<Record<string, string>> = {
  application: 'applications',
  reactor: 'reactors',
  reactor_formula: 'reactor_formulas',
  proxy: 'proxies',
};

export const hasNameColumn = (entity_type: string): boolean => Object.hasOwn(tables, entity_type);

export type NamedRow = { id: string; name: string };

export const findNames = async (
  { query, tenant_id }: TenantQuery,
  entity_type: string,
  ids: readonly string[],
): Promise<NamedRow[]> =>
  (await query(
    `find-names-${entity_type}`,
    `SELECT id, name FROM ${tables[entity_type]} WHERE tenant_id = $1 AND id = ANY ($2::uuid[])`,
    [tenant_id, ids],
  )) as NamedRow[];

/** The newest records of a kind, with their names. */
export const listNames = async (
  { query, tenant_id }: TenantQuery,
  entity_type: string,
  most: number,
): Promise<NamedRow[]> =>
  (await query(
    `list-names-${entity_type}`,
    `SELECT id, name FROM ${tables[entity_type]} WHERE tenant_id = $1 ORDER BY created_at DESC, id LIMIT $2`,
    [tenant_id, most],
  )) as NamedRow[];

export type SealedMember = { id: string; user_id: string; sealed: Buffer };

/** Members by the ids of their users, or by their own. */
export const findMembers = async (
  { query, tenant_id }: TenantQuery,
  { users, members }: { users: readonly string[]; members: readonly string[] },
): Promise<SealedMember[]> =>
  (await query(
    'find-names-member',
    `SELECT id, user_id, sealed FROM members WHERE tenant_id = $1 AND user_id = ANY ($2::uuid[])
UNION SELECT id, user_id, sealed FROM members WHERE tenant_id = $1 AND id = ANY ($3::uuid[])`,
    [tenant_id, users, members],
  )) as SealedMember[];
