// Rows of the Merkle trees over the audit log: their state, blocks of leaf hashes, and checkpoints.
import { isSignedNote, type LogPublicKey, type LogSigningKey, signNote } from '../crypto/signed-note.ts';
import { LOG_LINE, type LogRowLine } from './log-partitions.ts';
import type { Query } from './statements.ts';

// The mark of an archive: that rows of a range of ids are in a file with this digest, signed by the key of the log.

/** Rows of all tenants from `from_id` on and below `to_id`. Null is no bound. */
export type ArchiveMark = {
  from_id: string | null;
  to_id: string;
  rows: number;
  /** Digest of the lines of the archive. */
  sha256: string;
};

const NAME = 'strongroom/log-archive';

const textOf = ({ from_id, to_id, rows, sha256 }: ArchiveMark): string =>
  `${NAME}\n${from_id ?? 'all'}\n${to_id}\n${rows}\n${sha256}\n`;

export const signMark = (key: LogSigningKey, mark: ArchiveMark): string => signNote(key, NAME, textOf(mark));

export const isSignedMark = (mark: ArchiveMark, note: string, keys: readonly LogPublicKey[]): boolean =>
  isSignedNote(note, NAME, textOf(mark), keys);

/** Whether both are of the same rows. */
export const isSameMark = (one: ArchiveMark, other: ArchiveMark): boolean => textOf(one) === textOf(other);

/** Leaves of a block: a write of a few rows replaces 12 KB at most. */
export const BLOCK_LEAVES = 256;

export type LeafBlock = { number: number; last_id: string; frontier: Buffer; ids: Buffer; hashes: Buffer };

export type StoredTree = { size: number; root: Buffer; last_id: string; signed_size: number };

/** A tree with its last block and its newest checkpoint; null where they are missing. */
export type FoundTree = StoredTree & {
  block: LeafBlock | null;
  checkpoint: { size: number; note: string } | null;
};

const TREE = 't.size::float8 AS size, t.root, t.last_id, t.signed_size::float8 AS signed_size';
const BLOCK = 'b.number::float8 AS number, b.last_id, b.frontier, b.ids, b.hashes';

const FIND_TREE = `
SELECT ${TREE}, b.number::float8 AS number, b.last_id AS block_last_id, b.frontier, b.ids, b.hashes,
  c.size::float8 AS checkpoint_size, c.note
FROM log_trees t
LEFT JOIN log_leaves b ON b.tenant_id = t.tenant_id AND b.number = (t.size - 1) / ${BLOCK_LEAVES}
LEFT JOIN LATERAL (
  SELECT size, note FROM log_checkpoints WHERE tenant_id = t.tenant_id ORDER BY size DESC LIMIT 1
) AS c ON true
WHERE t.tenant_id = $1`;

const FIND_BLOCKS = `SELECT ${BLOCK} FROM log_leaves b WHERE tenant_id = $1 AND number >= $2 ORDER BY number LIMIT $3`;

/** Reads by the primary key of the log. */
const READ_ROWS = `
SELECT id, ${LOG_LINE} FROM audit_log AS l
WHERE tenant_id = $1 AND id > $2::uuid AND id <= $3::uuid ORDER BY id LIMIT $4`;

/** Reads the index on ids alone. */
const FIND_WRITERS =
  'SELECT DISTINCT tenant_id FROM audit_log WHERE id > $1::uuid AND id <= $2::uuid ORDER BY tenant_id';
/** Reads the primary key: one look into each partition, also for tenants that are deleted by now. */
const FIND_NEXT_TENANT = 'SELECT tenant_id FROM audit_log WHERE tenant_id > $1::uuid ORDER BY tenant_id LIMIT 1';

/** The last checkpoint of a month may be there already. Nothing is written where another process has moved the tree since it was read. */
const WRITE = `
WITH moved AS (
  INSERT INTO log_trees AS t (tenant_id, size, root, last_id, signed_size) VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (tenant_id) DO UPDATE SET size = excluded.size, root = excluded.root, last_id = excluded.last_id,
    signed_size = excluded.signed_size
  WHERE t.size = $6 AND t.root = $7
  RETURNING t.tenant_id
), leaves AS (
  INSERT INTO log_leaves AS l (tenant_id, number, last_id, frontier, ids, hashes)
  SELECT m.tenant_id, b.* FROM moved m, unnest($8::bigint[], $9::uuid[], $10::bytea[], $11::bytea[], $12::bytea[]) AS b
  ON CONFLICT (tenant_id, number) DO UPDATE SET last_id = excluded.last_id, ids = excluded.ids, hashes = excluded.hashes
), signed AS (
  INSERT INTO log_checkpoints (tenant_id, size, id, note, created_at, ends_month)
  SELECT m.tenant_id, c.* FROM moved m, unnest($13::bigint[], $14::uuid[], $15::text[], $16::timestamptz[], $17::boolean[]) AS c
  ON CONFLICT (tenant_id, size) DO UPDATE SET ends_month = log_checkpoints.ends_month OR excluded.ends_month
)
SELECT tenant_id FROM moved`;

export type NewCheckpoint = { size: number; id: string; note: string; created_at: Date; ends_month: boolean };

const FIND_CHECKPOINTS = `
SELECT size::float8 AS size, note FROM log_checkpoints WHERE tenant_id = $1 AND size > $2 ORDER BY size LIMIT $3`;

const FIND_EXPORTED = `
SELECT tenant_id, id, note FROM log_checkpoints WHERE id > $1::uuid AND id <= $2::uuid ORDER BY id LIMIT $3`;

const COUNT_AHEAD =
  'SELECT count(*)::float8 AS count FROM (SELECT 1 FROM audit_log WHERE id > $1::uuid LIMIT $2) AS ahead';

/** All but the last of each hour or day. Checkpoints that end a month stay until its archive is written. */
const THIN = (unit: 'hour' | 'day') => `
DELETE FROM log_checkpoints USING (
  SELECT tenant_id, size, row_number() OVER (PARTITION BY tenant_id, date_trunc('${unit}', created_at) ORDER BY size DESC) AS place
  FROM log_checkpoints WHERE created_at >= $1 AND created_at < $2 AND NOT ends_month
) AS old
WHERE log_checkpoints.tenant_id = old.tenant_id AND log_checkpoints.size = old.size AND old.place > 1`;

const FIND_FIRST_BLOCK = `
SELECT number::float8 AS number FROM log_leaves WHERE tenant_id = $1 AND last_id >= $2::uuid ORDER BY number LIMIT 1`;

/** A tenant has a row from its creation on. A time that is not of the past hides no tenant. */
const FIND_UNLOGGED = `
SELECT id FROM tenants AS t WHERE id > $1::uuid AND NOT created_at BETWEEN $2 AND $3
  AND NOT EXISTS (SELECT FROM log_trees WHERE tenant_id = t.id AND signed_size > 0) ORDER BY id LIMIT 1`;

const HAS_TENANT = 'SELECT 1 FROM tenants WHERE id = $1';

const FIND_NEXT_TREE = 'SELECT tenant_id FROM log_trees WHERE tenant_id > $1::uuid ORDER BY tenant_id LIMIT 1';

const FIND_ARCHIVES =
  'SELECT name, from_id, to_id, rows::float8 AS rows, sha256, note FROM log_archives ORDER BY to_id';

const ADD_ARCHIVE = `
INSERT INTO log_archives (name, from_id, to_id, archived_at, rows, sha256, note) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (name) DO UPDATE SET from_id = excluded.from_id, to_id = excluded.to_id, archived_at = excluded.archived_at,
  rows = excluded.rows, sha256 = excluded.sha256, note = excluded.note`;

/** What the tree needs no more once all rows below an id are archived: it goes on from its last block. */
const DROP_BLOCKS = `
DELETE FROM log_leaves USING log_trees t
WHERE log_leaves.tenant_id = t.tenant_id AND log_leaves.last_id < $1::uuid AND log_leaves.number < (t.size - 1) / ${BLOCK_LEAVES}`;
const DROP_CHECKPOINTS = `
DELETE FROM log_checkpoints USING log_trees t
WHERE log_checkpoints.tenant_id = t.tenant_id AND log_checkpoints.created_at < $1 AND log_checkpoints.size < t.signed_size
  AND log_checkpoints.size <= coalesce((SELECT min(l.number) FROM log_leaves l WHERE l.tenant_id = t.tenant_id), 0) * ${BLOCK_LEAVES}`;
/** The trees of deleted tenants end with their last rows. */
const DROP_TREES = ['log_leaves', 'log_checkpoints', 'log_trees'].map(
  (table) => `
DELETE FROM ${table} WHERE tenant_id IN (
  SELECT tenant_id FROM log_trees WHERE last_id < $1::uuid AND NOT EXISTS (SELECT FROM tenants WHERE id = log_trees.tenant_id))`,
);

/** @throws unavailable. */
export const findTree = async (query: Query, tenant_id: string): Promise<FoundTree | undefined> => {
  const [row] = await query('find-log-tree', FIND_TREE, [tenant_id]);
  if (!row) return undefined;
  const { size, root, last_id, signed_size, number, block_last_id, frontier, ids, hashes, checkpoint_size, note } = row;
  return {
    size,
    root,
    last_id,
    signed_size,
    block: number === null ? null : { number, last_id: block_last_id, frontier, ids, hashes },
    checkpoint: note === null ? null : { size: checkpoint_size, note },
  };
};

/** Blocks of a tenant from a number on. @throws unavailable. */
export const findBlocks = async (query: Query, tenant_id: string, from: number, most: number): Promise<LeafBlock[]> =>
  (await query('find-log-leaves', FIND_BLOCKS, [tenant_id, from, most])) as LeafBlock[];

/** Rows of a tenant above an id, up to another. Without a name: PostgreSQL plans for the partitions. @throws unavailable. */
export const readRowsOf = async (
  query: Query,
  tenant_id: string,
  from: string,
  to: string,
  most: number,
): Promise<LogRowLine[]> => (await query(undefined, READ_ROWS, [tenant_id, from, to, most])) as LogRowLine[];

/** The tenants that have rows above an id, up to another. @throws unavailable. */
export const findWriters = async (query: Query, from: string, to: string): Promise<string[]> =>
  (await query(undefined, FIND_WRITERS, [from, to])).map(({ tenant_id }) => tenant_id);

/** The next tenant that has rows, in the order of ids. @throws unavailable. */
export const findLogTenantAfter = async (query: Query, tenant_id: string): Promise<string | undefined> =>
  (await query(undefined, FIND_NEXT_TENANT, [tenant_id]))[0]?.tenant_id;

/** The rows above an id, counted up to a limit. @throws unavailable. */
export const countAhead = async (query: Query, from: string, most: number): Promise<number> =>
  (await query(undefined, COUNT_AHEAD, [from, most]))[0].count;

/**
 * Writes the blocks that have changed, checkpoints, and the new state of a tree, together.
 * @param from the state that was read. @returns false where another process has moved the tree since. @throws unavailable.
 */
export const writeTree = async (
  query: Query,
  tenant_id: string,
  from: { size: number; root: Buffer },
  to: StoredTree,
  blocks: readonly LeafBlock[],
  checkpoints: readonly NewCheckpoint[],
): Promise<boolean> => {
  const column = <Row, Value>(rows: readonly Row[], value: (row: Row) => Value): Value[] => rows.map(value);
  const rows = await query('write-log-tree', WRITE, [
    tenant_id,
    to.size,
    to.root,
    to.last_id,
    to.signed_size,
    from.size,
    from.root,
    column(blocks, ({ number }) => number),
    column(blocks, ({ last_id }) => last_id),
    column(blocks, ({ frontier }) => frontier),
    column(blocks, ({ ids }) => ids),
    column(blocks, ({ hashes }) => hashes),
    column(checkpoints, ({ size }) => size),
    column(checkpoints, ({ id }) => id),
    column(checkpoints, ({ note }) => note),
    column(checkpoints, ({ created_at }) => created_at),
    column(checkpoints, ({ ends_month }) => ends_month),
  ]);
  return rows.length > 0;
};

/** Checkpoints of a tenant above a size, the smallest first. @throws unavailable. */
export const findCheckpoints = async (
  query: Query,
  tenant_id: string,
  above: number,
  most: number,
): Promise<{ size: number; note: string }[]> =>
  query('find-log-checkpoints', FIND_CHECKPOINTS, [tenant_id, above, most]);

/** Checkpoints of all tenants above an id, up to another, in the order of time. @throws unavailable. */
export const findNewCheckpoints = async (
  query: Query,
  above: string,
  to: string,
  most: number,
): Promise<{ tenant_id: string; id: string; note: string }[]> =>
  query('find-new-log-checkpoints', FIND_EXPORTED, [above, to, most]);

/** Keeps one checkpoint of each hour, or day, of a tenant between two times. @throws unavailable. */
export const thinCheckpoints = async (query: Query, unit: 'hour' | 'day', from: Date, to: Date): Promise<void> => {
  await query(undefined, THIN(unit), [from, to]);
};

/** The first block of a tenant with leaves from an id on. @throws unavailable. */
export const findFirstBlock = async (query: Query, tenant_id: string, from_id: string): Promise<number | undefined> =>
  (await query('find-first-log-leaves', FIND_FIRST_BLOCK, [tenant_id, from_id]))[0]?.number;

/**
 * The next tenant above an id that has no signed log, in the order of ids. @param from, to times of tenants that are too new for one.
 * @throws unavailable.
 */
export const findUnloggedAfter = async (
  query: Query,
  tenant_id: string,
  { from, to }: { from: Date; to: Date },
): Promise<string | undefined> => (await query('find-unlogged-tenant', FIND_UNLOGGED, [tenant_id, from, to]))[0]?.id;

/** @throws unavailable. */
export const hasTenant = async (query: Query, tenant_id: string): Promise<boolean> =>
  (await query('has-tenant', HAS_TENANT, [tenant_id])).length > 0;

/** The next tenant that has a tree, in the order of ids. @throws unavailable. */
export const findTreeAfter = async (query: Query, tenant_id: string): Promise<string | undefined> =>
  (await query('find-log-tree-after', FIND_NEXT_TREE, [tenant_id]))[0]?.tenant_id;

/** Rows that were moved into an archive, as the database says. `note` is its signature. */
export type ArchivedMonth = ArchiveMark & { name: string; note: string };

/** Whether the key of the log signed it. Nothing else excuses a missing row. */
export const isSignedMonth = ({ note, ...mark }: ArchivedMonth, keys: readonly LogPublicKey[]): boolean =>
  isSignedMark(mark, note, keys);

/** @throws unavailable. */
export const findArchivedMonths = async (query: Query): Promise<ArchivedMonth[]> =>
  (await query(undefined, FIND_ARCHIVES, [])) as ArchivedMonth[];

/** A partition may be archived again, with rows that came late: each archive has a mark of its own. */
export const addArchivedMonth = async (
  query: Query,
  partition: string,
  { from_id, to_id, rows, sha256 }: ArchiveMark,
  note: string,
  now: Date,
): Promise<void> => {
  const name = `${partition}/${sha256.slice(0, 12)}`;
  await query(undefined, ADD_ARCHIVE, [name, from_id, to_id, now, rows, sha256, note]);
};

/** Deletes what trees need no more when all rows below an id are in archives. @param before the time of the id. */
export const dropArchivedLeaves = async (query: Query, below_id: string, before: Date): Promise<void> => {
  await query(undefined, DROP_BLOCKS, [below_id]);
  await query(undefined, DROP_CHECKPOINTS, [before]);
  for (const text of DROP_TREES) await query(undefined, text, [below_id]);
};
