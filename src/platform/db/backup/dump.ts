// The format of a dump: a manifest as one line of JSON, a line with its seal, then the rows of each table as COPY writes them.
// Reads rows in one snapshot, twice: first for the counts and digests of the manifest, then to write them.
import type { Client } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { z } from 'zod';
import { createSha256 } from '../../crypto/digest.ts';
import { StartError } from '../../base/errors.ts';
import { findColumns, findMigrations, findOrders, quoted } from './session.ts';
import { MIGRATE } from '../../base/program.ts';

/** Raised when an earlier release could not read a dump. */
export const DUMP_FORMAT = 1;

const name = z.string().regex(/^[a-z_][a-z0-9_]*$/);
const whole = z.number().int().nonnegative();

export const manifestSchema = z.strictObject({
  strongroom: z.enum(['backup', 'erasures']),
  format: z.literal(DUMP_FORMAT),
  /** The version of the release that wrote it. */
  product: z.string(),
  /** `live` or `test`: sealed values are bound to it. */
  environment: z.string(),
  root_key_id: z.string(),
  /** The time of the snapshot, by the clock of the database. */
  made_at: z.iso.datetime(),
  migrations: z.array(z.string()),
  /** `bytes` and `sha256` of the rows as COPY writes them. */
  tables: z.array(z.strictObject({ name, columns: z.array(name), rows: whole, bytes: whole, sha256: z.string() })),
});

export type Manifest = z.infer<typeof manifestSchema>;
export type DumpedTable = Manifest['tables'][number];

/** Called with the bytes that were read so far. */
export type Progress = (phase: 'counting' | 'writing' | 'restoring', bytes: number, ofBytes?: number) => void;

/** What a dump says of itself beside its rows. */
export type DumpLabel = Pick<Manifest, 'strongroom' | 'product' | 'environment' | 'root_key_id'>;

/** The ORDER BY columns of distributed tables, by table. */
type Orders = ReadonlyMap<string, string>;

type Read = { rows: number; bytes: number; sha256: string };

const readTable = async function* (
  session: Client,
  { name: table, columns }: Pick<DumpedTable, 'name' | 'columns'>,
  orders: Orders,
): AsyncGenerator<Buffer, Read> {
  const digest = createSha256();
  let bytes = 0;
  // A partitioned table can be copied by a query only.
  const order = orders.has(table) ? ` ORDER BY ${orders.get(table)}` : '';
  const rows = session.query(
    copyTo(`COPY (SELECT ${columns.map(quoted).join(', ')} FROM ${quoted(table)}${order}) TO STDOUT`),
  );
  for await (const chunk of rows as AsyncIterable<Buffer>) {
    digest.update(chunk);
    bytes += chunk.length;
    yield chunk;
  }
  return { rows: rows.rowCount, bytes, sha256: digest.hex() };
};

const measure = async (
  session: Client,
  table: Pick<DumpedTable, 'name' | 'columns'>,
  orders: Orders,
  note: (bytes: number) => void,
): Promise<Read> => {
  const reading = readTable(session, table, orders);
  for (;;) {
    const { done, value } = await reading.next();
    if (done) return value;
    note(value.length);
  }
};

/**
 * Dumps tables as of one moment, in a read-only transaction.
 * @param write takes the content whole before it resolves.
 * @param seal what proves that a holder of the root key made the manifest, in base64.
 * @throws StartError if a table is missing.
 */
export const dumpTables = async (
  session: Client,
  tables: readonly string[],
  label: DumpLabel,
  seal: (manifest: string) => Promise<string>,
  write: (content: AsyncIterable<Buffer>) => Promise<void>,
  progress: Progress,
): Promise<Manifest> => {
  await session.query('BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY');
  const { rows: clock } = await session.query<{ now: Date }>('SELECT now() AS now');
  const columns = await findColumns(session, tables);
  const orders = await findOrders(session);
  const missing = tables.filter((table) => !columns.has(table));
  if (missing.length > 0)
    throw new StartError(
      `The database lacks tables of this release (${missing.join(', ')}). Apply the migrations: ${MIGRATE}`,
    );
  const manifest: Manifest = {
    ...label,
    format: DUMP_FORMAT,
    made_at: (clock[0] as { now: Date }).now.toISOString(),
    migrations: (await findMigrations(session)) ?? [],
    tables: [],
  };
  let measured = 0;
  for (const table of tables) {
    const plan = { name: table, columns: columns.get(table) ?? [] };
    const read = await measure(session, plan, orders, (bytes) => progress('counting', (measured += bytes)));
    manifest.tables.push({ ...plan, ...read });
  }
  await write(contentOf(session, manifest, orders, seal, progress));
  await session.query('COMMIT');
  return manifest;
};

const contentOf = async function* (
  session: Client,
  manifest: Manifest,
  orders: Orders,
  seal: (manifest: string) => Promise<string>,
  progress: Progress,
): AsyncGenerator<Buffer> {
  const head = JSON.stringify(manifest);
  yield Buffer.from(`${head}\n${await seal(head)}\n`);
  const total = manifest.tables.reduce((sum, { bytes }) => sum + bytes, 0);
  let written = 0;
  for (const table of manifest.tables) {
    const reading = readTable(session, table, orders);
    for (;;) {
      const { done, value } = await reading.next();
      if (!done) {
        yield value;
        progress('writing', (written += value.length), total);
        continue;
      }
      // A snapshot does not change; this would be a fault of the storage or of this code, and no backup.
      if (value.sha256 !== table.sha256 || value.rows !== table.rows)
        throw new StartError(`The table ${table.name} was read twice, and its rows differ. There is no backup.`);
      break;
    }
  }
};
