// Searching by name: `*` is any run of characters, everything else stands for itself, and case does not count. Names are
// kept a second time as they are compared, in byte order, so that an index serves whole names and beginnings of names.
// Lists of what is found by id and by name are counted here.
import type { Query } from './statements.ts';
import { COUNTED_MAX } from './token-list.ts';

/** A name as searches compare it. Ours, not the database's: its idea of case depends on its locale. */
export const searchNameOf = (name: string): string => name.normalize('NFC').toLowerCase();

/** Which rows a search for a name finds. @param add puts a value among the parameters and says how the text names it. */
export const nameCondition = (name: string, add: (value: string) => string): string => {
  const wanted = searchNameOf(name);
  if (!wanted.includes('*')) return `search_name = ${add(wanted)}`;
  const pattern = wanted.replace(/[\\%_]/g, '\\$&').replace(/\*+/g, '%');
  return `search_name LIKE ${add(pattern)}`;
};

export type NamedFilter = { ids?: string[] | undefined; name?: string | undefined };

/** The rows of a tenant that a filter leaves. @param alias what the text calls their table. */
export const namedRows = (alias: string, tenant_id: string, { ids, name }: NamedFilter) => {
  const values: unknown[] = [tenant_id];
  const add = (value: unknown): string => `$${values.push(value)}`;
  const where = [`${alias}.tenant_id = $1`];
  if (ids !== undefined) where.push(`${alias}.id = ANY(${add(ids)}::uuid[])`);
  if (name !== undefined) where.push(`${alias}.${nameCondition(name, add)}`);
  return { where: where.join(' AND '), values, add };
};

/** How many there are; with a name, up to COUNTED_MAX. */
export const countNamed = async (
  query: Query,
  table: 'reactors' | 'proxies',
  tenant_id: string,
  filter: NamedFilter,
): Promise<{ total: number; capped: boolean }> => {
  const { where, values } = namedRows('r', tenant_id, filter);
  const most = filter.name === undefined ? '' : `LIMIT ${COUNTED_MAX + 1}`;
  const text = `SELECT count(*) AS count FROM (SELECT FROM ${table} r WHERE ${where} ${most}) AS matched`;
  const [{ count }] = (await query(undefined, text, values)) as [{ count: string }];
  const counted = Number(count);
  const capped = filter.name !== undefined && counted > COUNTED_MAX;
  return { total: capped ? COUNTED_MAX : counted, capped };
};
