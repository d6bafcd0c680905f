// Counts and lists records by id and by name: `*` is any run of characters, and case does not count.
// SQL, since Prisma has neither such patterns nor a bound on the bytes of a page.
import { beginsBytewise, boundSealed } from '../../../platform/db/statements.ts';
import type { TenantQuery } from '../../../platform/db/database.ts';
import { COUNTED_MAX, type Counted } from '../../../platform/base/pagination.ts';

/** A name as searches compare it, in a column of its own: comparisons of the database depend on its locale. */
export const searchNameOf = (name: string): string => name.normalize('NFC').toLowerCase();

/** With names as `searchNameOf` returns them, ordered by bytes. */
const SEARCH_NAME = 'search_name';

/** @param add adds a parameter and returns its placeholder. */
export const nameCondition = (name: string, add: (value: string) => string): string => {
  const wanted = searchNameOf(name);
  if (!wanted.includes('*')) return `${SEARCH_NAME} = ${add(wanted)}`;
  const pattern = wanted.replace(/[\\%_]/g, '\\$&').replace(/\*+/g, '%');
  const like = `${SEARCH_NAME} LIKE ${add(pattern)}`;
  const [prefix] = wanted.split('*', 1) as [string];
  return prefix === '' ? like : `(${like} AND ${beginsBytewise(SEARCH_NAME, prefix, add)})`;
};

export type NamedFilter = { ids?: string[] | undefined; name?: string | undefined };

/** Records of one kind with a name. */
export type NamedRecords = {
  /** A table, or a query in its place, with tenant_id, id, search_name and created_at. `$1` is the tenant. */
  from: string;
  /** `sealed` among them, which is null in rows beyond the bound. */
  columns: string;
  /** Which of them there are; left out for all. */
  only?: string;
};

const rowsOf = ({ from, only }: NamedRecords, tenant_id: string, { ids, name }: NamedFilter) => {
  const values: unknown[] = [tenant_id];
  const add = (value: unknown): string => `$${values.push(value)}`;
  const where = ['tenant_id = $1', ...(only === undefined ? [] : [only])];
  if (ids !== undefined) where.push(`id = ANY(${add(ids)}::uuid[])`);
  if (name !== undefined) where.push(nameCondition(name, add));
  return { rows: `FROM ${from} WHERE ${where.join(' AND ')}`, values, add };
};

/** How many there are; with a name, up to COUNTED_MAX. */
export const countNamed = async (
  { query, tenant_id }: TenantQuery,
  records: NamedRecords,
  filter: NamedFilter,
): Promise<Counted> => {
  const { rows, values } = rowsOf(records, tenant_id, filter);
  const most = filter.name === undefined ? '' : `LIMIT ${COUNTED_MAX + 1}`;
  const text = `SELECT count(*) AS count FROM (SELECT ${rows} ${most}) AS matched`;
  const [{ count }] = (await query(undefined, text, values)) as [{ count: string }];
  const counted = Number(count);
  const capped = filter.name !== undefined && counted > COUNTED_MAX;
  return { total: capped ? COUNTED_MAX : counted, capped };
};

/** A page, newest first, then by id. SQL, since Prisma has neither such patterns nor a bound on the bytes of a page. */
export const listNamed = async <Row>(
  { query, tenant_id }: TenantQuery,
  records: NamedRecords,
  filter: NamedFilter,
  offset: number,
  limit: number,
): Promise<Row[]> => {
  const { rows, values, add } = rowsOf(records, tenant_id, filter);
  const { columns } = records;
  const page = `SELECT ${columns} ${rows} ORDER BY created_at DESC, id LIMIT ${add(limit)} OFFSET ${add(offset)}`;
  return (await query(undefined, `${boundSealed(columns, page)} ORDER BY created_at DESC, id`, values)) as Row[];
};
