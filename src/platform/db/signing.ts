// Signs rows that authorise in the transaction that writes them. A revocation raises the version and signs all other rows again.
import type { Row } from '../crypto/row-mac.ts';
import { SIGNED_TABLES, type SignedTableName } from '../base/tables.ts';
import { notFound } from '../base/errors.ts';
import { columnsOf, headOf, type HeadTable, type SignedRows, tableOf } from './signed-rows.ts';
import { amongAllTenants } from './named-tenants.ts';
import type { Query } from './statements.ts';

/** Rows that are signed with one statement. */
const SLICE = 1_000;

/** What a transaction has done to the rows of one tenant or user. */
type Held = {
  table: HeadTable;
  id: string;
  version: number;
  isRevoking: boolean;
  /** The version that this transaction has raised it to. */
  signed?: number;
  /** Ids of rows that this transaction has written, by table. */
  written: Map<SignedTableName, Set<string>>;
};

type RowId = string | Uint8Array;

const textOf = (id: RowId): string => (typeof id === 'string' ? id : Buffer.from(id).toString('hex'));

/** A text as the type of the id of a table. */
const cast = (name: SignedTableName, text: string): string => {
  const { idType } = tableOf(name);
  return idType === 'bytea' ? `decode(${text}, 'hex')` : `(${text})::${idType}`;
};

const columnList = (name: SignedTableName): string =>
  columnsOf(name)
    .map((column) =>
      tableOf(name).digested.includes(column) ? `encode(sha256(${column}), 'hex') AS ${column}_digest` : column,
    )
    .join(', ');

const ownerColumn = (name: SignedTableName): string => (tableOf(name).versionOf === 'users' ? 'user_id' : 'tenant_id');

const holdHead = (table: HeadTable): string =>
  `SELECT ${columnList(table)} FROM ${table} WHERE id = $1::uuid FOR UPDATE`;

const findRow = (name: SignedTableName): string =>
  `SELECT ${columnList(name)} FROM ${name} WHERE ${ownerColumn(name)} = $1::uuid AND ${tableOf(name).id} = ${cast(name, '$2')} FOR UPDATE`;

/** Locked, so that what is signed is what was verified. */
const findRows = (name: SignedTableName): string => `SELECT ${columnList(name)} FROM ${name}
WHERE ${ownerColumn(name)} = $1::uuid AND ${tableOf(name).id} IN (
  SELECT ${cast(name, 'w.id')} FROM json_to_recordset($2::json) AS w(id text))
ORDER BY ${tableOf(name).id} FOR NO KEY UPDATE`;

/** In the order of ids. @param isFirst without an id that the slice begins after. */
const findSlice = (name: SignedTableName, isFirst: boolean): string => {
  const { id } = tableOf(name);
  const after = isFirst ? '' : `AND ${id} > ${cast(name, '$2')}`;
  return `SELECT ${columnList(name)} FROM ${name} WHERE ${ownerColumn(name)} = $1::uuid ${after} ORDER BY ${id} LIMIT ${SLICE}`;
};

const signRows = (name: SignedTableName): string => `
UPDATE ${name} AS t SET mac = decode(s.mac, 'hex') FROM json_to_recordset($2::json) AS s(id text, mac text)
WHERE t.${ownerColumn(name)} = $1::uuid AND t.${tableOf(name).id} = ${cast(name, 's.id')}`;

const signHead = (table: HeadTable): string =>
  `UPDATE ${table} SET auth_version = $2::int, mac = decode($3, 'hex') WHERE id = $1::uuid`;

const tablesOf = (head: HeadTable): SignedTableName[] =>
  (Object.keys(SIGNED_TABLES) as SignedTableName[]).filter((name) => tableOf(name).versionOf === head);

export type Signing = ReturnType<typeof createSigning>;

/**
 * What a transaction signs. Each method locks the row of the tenant or user first, so that no two transactions sign its rows at
 * once: call one of them before other rows are locked. The tenant before the user.
 */
export const createSigning = (signedRows: SignedRows, tenant_id: string, query: Query) => {
  const heads = new Map<string, Held>();

  /** Sessions of a user may be in any tenant, and row-level security shows those of the tenant of the transaction. */
  const everywhere = <T>(head: HeadTable, work: () => Promise<T>): Promise<T> =>
    head === 'tenants' ? work() : amongAllTenants({ query }, work);

  const headKey = (table: HeadTable, id: string): string => `${table} ${id}`;

  /** Locks a head. @returns undefined where it is gone, or does not verify. */
  const findHeld = async (table: HeadTable, id: string): Promise<Held | undefined> => {
    const known = heads.get(headKey(table, id));
    if (known) return known;
    const [row] = (await query(`hold-${table}`, holdHead(table), [id])) as Row[];
    if (!row || !signedRows.areIntact([[table, row]])) return undefined;
    return keep(table, id, row['auth_version'] as number, false);
  };

  const keep = (table: HeadTable, id: string, version: number, isRevoking: boolean): Held => {
    const held = { table, id, version, isRevoking, written: new Map() };
    heads.set(headKey(table, id), held);
    return held;
  };

  const getHeld = async (table: HeadTable, id: string): Promise<Held> => {
    const held = await findHeld(table, id);
    if (!held) throw notFound(table === 'tenants' ? 'tenant' : 'user');
    return held;
  };

  const holdOf = (name: SignedTableName, owner: string = tenant_id): Promise<Held> => getHeld(headOf(name), owner);

  const note = ({ written }: Held, name: SignedTableName, id: RowId): void => {
    const ids = written.get(name) ?? new Set();
    written.set(name, ids.add(textOf(id)));
  };

  const isIntactIn = ({ version }: Held, name: SignedTableName, row: Row, isOnce?: boolean): boolean =>
    signedRows.isIntactUnder(name, row, version, isOnce);

  const findWritten = async ({ id }: Held, name: SignedTableName, ids: readonly string[]): Promise<Row[]> =>
    query(`find-written-${name}`, findRows(name), [id, JSON.stringify(ids.map((each) => ({ id: each })))]);

  const signSlice = async (
    { id }: Held,
    name: SignedTableName,
    rows: readonly Row[],
    version: number,
  ): Promise<void> => {
    if (rows.length === 0) return;
    const macs = rows.map((row) => ({
      id: textOf(row[tableOf(name).id] as RowId),
      mac: signedRows.macOf(name, row, version).toString('hex'),
    }));
    await query(`sign-${name}`, signRows(name), [id, JSON.stringify(macs)]);
  };

  /** Signs all rows of a table that verify, and those that this transaction has written. Others stay, and are refused. */
  const signTable = async (held: Held, name: SignedTableName, version: number): Promise<void> => {
    const written = held.written.get(name);
    let after: string | undefined;
    for (;;) {
      const bounds = after === undefined ? [held.id] : [held.id, after];
      const first = after === undefined;
      const rows = (await query(`find-to-sign-${name}-${first}`, findSlice(name, first), bounds)) as Row[];
      const idOf = (row: Row): string => textOf(row[tableOf(name).id] as RowId);
      const valid = rows.filter((row) => written?.has(idOf(row)) || isIntactIn(held, name, row, true));
      await signSlice(held, name, valid, version);
      const last = rows.at(-1);
      if (rows.length < SLICE || !last) return;
      after = idOf(last);
    }
  };

  const signHeld = async (held: Held): Promise<void> => {
    const { table, id, written } = held;
    if (!held.isRevoking && written.size === 0) return;
    const [row] = (await query(`find-head-${table}`, holdHead(table), [id])) as Row[];
    // It was deleted, and with it all that it authorises: put back as it was, it is refused.
    if (!row) {
      held.signed = held.version + 1;
      return;
    }
    if (!held.isRevoking) {
      for (const [name, ids] of written)
        await signSlice(held, name, await findWritten(held, name, [...ids]), held.version);
      return;
    }
    const version = held.version + 1;
    held.signed = version;
    for (const name of tablesOf(table)) await signTable(held, name, version);
    const mac = signedRows.macOf(table, { ...row, auth_version: version }, null).toString('hex');
    await query(`sign-${table}`, signHead(table), [id, version, mac]);
  };

  return {
    /** @returns whether the tenant of the transaction, or a user, exists and verifies. */
    holds: async (table: HeadTable, id: string = tenant_id): Promise<boolean> =>
      (await findHeld(table, id)) !== undefined,

    /** Whether a row that this transaction has locked verifies. @param owner the user of a session. */
    isIntact: async (name: SignedTableName, row: Row, owner?: string): Promise<boolean> =>
      isIntactIn(await holdOf(name, owner), name, row),

    /** Call before the row is added: it will be signed. */
    add: async (name: SignedTableName, id: RowId, owner?: string): Promise<void> =>
      note(await holdOf(name, owner), name, id),

    /** Call after a tenant or user was added: it gets its first version. */
    addHead: (table: HeadTable, id: string): void => void keep(table, id, 0, true),

    /** Call before the row is changed: what it was does not verify any more. @throws notFound where it does not verify now. */
    change: async (name: SignedTableName, id: RowId, owner?: string): Promise<void> => {
      const held = await holdOf(name, owner);
      held.isRevoking = true;
      const isHead = name === 'tenants' || name === 'users';
      if (isHead || held.written.get(name)?.has(textOf(id))) return;
      const find = () => query(`find-signed-${name}`, findRow(name), [held.id, textOf(id)]);
      const [row] = (await everywhere(held.table, find)) as Row[];
      // The change finds no row either.
      if (!row) return;
      if (!isIntactIn(held, name, row)) throw notFound('record');
      note(held, name, id);
    },

    /**
     * Call before rows are written in another form, such as under another key, with what they authorise unchanged. Rows that do
     * not verify are not signed. Nothing where the tenant is gone.
     */
    rewrite: async (name: SignedTableName, ids: readonly RowId[]): Promise<void> => {
      const held = await findHeld('tenants', tenant_id);
      if (!held) return;
      for (const row of await findWritten(held, name, ids.map(textOf)))
        if (isIntactIn(held, name, row)) note(held, name, row[tableOf(name).id] as RowId);
    },

    /** Rows of a tenant or user are deleted: put back, they do not verify. @param id of a user. */
    revoke: async (table: HeadTable, id: string = tenant_id): Promise<void> => {
      (await getHeld(table, id)).isRevoking = true;
    },

    /** Call after the commit: this process refuses what was revoked from then on, whatever the database says. */
    committed: (): void => {
      for (const { table, id, signed } of heads.values())
        if (signed !== undefined) signedRows.remember(table, { id, auth_version: signed });
    },

    /** Signs what was written. Before the commit. The tenant first. */
    write: async (): Promise<void> => {
      for (const held of heads.values()) await everywhere(held.table, () => signHeld(held));
    },
  };
};
