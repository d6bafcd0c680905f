// Verifies rows that authorise when they are loaded: a row that another writer of the database made or changed is refused.
import { SIGNED_TABLES, type SignedTable, type SignedTableName, type VerifiedTableName } from '../base/tables.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { createRowMacs, type Row, type RowMacs } from '../crypto/row-mac.ts';
import type { DigestKey } from '../crypto/digest.ts';

// Reports a row that a writer of the database has changed: counts it, and logs an alarm without a value.

type TamperedRow = { table: VerifiedTableName; tenant_id: string | undefined; row_id: string };

export const countTampered = ({ metrics }: { metrics: Metrics }, table: TamperedRow['table']): void =>
  metrics.count('strongroom_tampered_rows_total', { table });

/** Called where a row that fails its check is refused. */
export const noteTampered = (ctx: { log: Log; metrics: Metrics }, row: TamperedRow): void => {
  countTampered(ctx, row.table);
  ctx.log.error({ alarm: 'tampered', ...row }, 'a row was changed in the database, and is refused');
};

/** A table whose row has the version of others. */
export type HeadTable = 'tenants' | 'users';

/** Heads whose highest version a process remembers. An entry takes about 100 bytes. */
const SEEN_MAX = 100_000;

/** Between the table and the column in the name of a result column. */
const SEPARATOR = '__';

export const tableOf = (name: SignedTableName): SignedTable => SIGNED_TABLES[name];

/** The table of the version that rows of a table are signed again with. */
export const headOf = (name: SignedTableName): HeadTable => {
  const { versionOf } = tableOf(name);
  return name === 'users' || versionOf === 'users' ? 'users' : 'tenants';
};

export const columnsOf = (name: SignedTableName): readonly string[] => [...tableOf(name).bound, 'mac'];

/** The bound columns of a table with its MAC, for a query that `splitRow` takes apart. */
export const signedColumns = (name: SignedTableName, alias: string): string =>
  columnsOf(name)
    .map((column) => `${alias}.${column} AS ${name}${SEPARATOR}${column}`)
    .join(', ');

/** The rows of a join by their tables, and the joined row itself. The caller names the types of the columns, as with a query. */
// oxlint-disable-next-line typescript/no-explicit-any -- see above
export type Found<Name extends SignedTableName> = { [Each in Name]: any } & { joined: any };

/** A table of an outer join without a row is left out. */
const splitRow = <Name extends SignedTableName>(joined: Row, names: readonly Name[]): Found<Name> => {
  const found: Record<string, unknown> = { joined };
  for (const name of names) {
    if (joined[`${name}${SEPARATOR}${tableOf(name).id}`] == null) continue;
    found[name] = Object.fromEntries(columnsOf(name).map((column) => [column, joined[`${name}${SEPARATOR}${column}`]]));
  }
  return found as Found<Name>;
};

/** Rows of one snapshot of the database, each after the row that has its version. */
export type Parts = readonly (readonly [SignedTableName, Row | undefined])[];

export type SignedRows = ReturnType<typeof createSignedRows>;

type Fault = { name: SignedTableName; row: Row };

export const createSignedRows = (metrics: Metrics) => {
  let macs: RowMacs | undefined;
  let log: Log | undefined;
  const seen = new Map<string, number>();

  const key = (name: SignedTableName, id: string): string => `${name} ${id}`;

  const getMacs = (): RowMacs => {
    if (!macs) throw new TypeError('the key of the row MACs is not open yet');
    return macs;
  };

  const remember = (name: HeadTable, row: Row): void => {
    const at = key(name, row['id'] as string);
    const highest = Math.max(seen.get(at) ?? 0, row['auth_version'] as number);
    seen.delete(at);
    seen.set(at, highest);
    if (seen.size > SEEN_MAX) seen.delete(seen.keys().next().value as string);
  };

  const isBehind = (name: SignedTableName, row: Row): boolean =>
    (row['auth_version'] as number) < (seen.get(key(name, row['id'] as string)) ?? 0);

  const isHead = (name: SignedTableName): name is HeadTable => name === 'tenants' || name === 'users';

  /** The first row that does not verify. */
  const findFault = (parts: Parts): Fault | undefined => {
    const rows = new Map<SignedTableName, Row | undefined>(parts);
    for (const [name, row] of parts) {
      if (!row) continue;
      const { versionOf: from } = tableOf(name);
      const version = from === null ? null : (rows.get(from)?.['auth_version'] as number);
      if (!getMacs().isIntact(name, row, version) || (isHead(name) && isBehind(name, row))) return { name, row };
    }
    for (const [name, row] of parts) if (row && isHead(name)) remember(name, row);
    return undefined;
  };

  /** Rows that were reported when others were signed again, which happens with each revocation. */
  const reported = new Set<string>();

  /** @returns whether a row has not been reported as it is. */
  const isNews = ({ name, row }: Fault): boolean => {
    const { mac } = row;
    const at = `${key(name, String(row[tableOf(name).id]))} ${mac instanceof Uint8Array ? Buffer.from(mac).toString('hex') : ''}`;
    if (reported.has(at)) return false;
    if (reported.size >= SEEN_MAX) reported.clear();
    reported.add(at);
    return true;
  };

  const alarm = ({ name, row }: Fault): void => {
    const id = row[tableOf(name).id];
    const row_id = id instanceof Uint8Array ? Buffer.from(id).toString('hex') : String(id);
    if (log) noteTampered({ log, metrics }, { tenant_id: row['tenant_id'] as string | undefined, table: name, row_id });
  };

  /** Whether all rows verify. Those that do not are counted and logged. */
  const areIntact = (parts: Parts): boolean => {
    const fault = findFault(parts);
    if (fault) alarm(fault);
    return fault === undefined;
  };

  return {
    open: (services: { pepper: DigestKey; log: Log }): void => {
      ({ log } = services);
      macs = createRowMacs(services.pepper);
    },

    remember,

    /** Takes any version that it finds from now on: the database has another history, in which versions may be lower. */
    forget: (): void => seen.clear(),

    macOf: (name: SignedTableName, row: Row, version: number | null): Buffer => getMacs().macOf(name, row, version),

    areIntact,

    /**
     * Does what `areIntact` does, for a row whose version is known.
     * @param isOnce for rows that nothing asked for: a row that does not verify is reported once by a process.
     */
    isIntactUnder: (name: SignedTableName, row: Row, version: number, isOnce = false): boolean => {
      if (getMacs().isIntact(name, row, version)) return true;
      if (!isOnce || isNews({ name, row })) alarm({ name, row });
      return false;
    },

    /**
     * Runs a query that has the columns of `signedColumns` for each of the tables, and verifies what it finds. Of two look-ups
     * under way, the later one may have seen a higher version first: the query runs once more where a row does not verify.
     * @param names in an order in which each table comes after the one that has its version.
     * @param onRefused gets the table of each row that does not verify. Where it is that of a head, the database may have another history.
     * @returns the rows that verify.
     */
    find: async <Name extends SignedTableName>(
      names: readonly Name[],
      query: () => Promise<Row[]>,
      onRefused?: (name: SignedTableName) => void,
    ): Promise<Found<Name>[]> => {
      const run = async () => (await query()).map((joined) => splitRow(joined, names));
      const partsOf = (found: Found<Name>): Parts => names.map((name) => [name, found[name]]);
      const found = await run();
      if (found.every((each) => findFault(partsOf(each)) === undefined)) return found;
      return (await run()).filter((each) => {
        const fault = findFault(partsOf(each));
        if (!fault) return true;
        alarm(fault);
        onRefused?.(fault.name);
        return false;
      });
    },
  };
};
