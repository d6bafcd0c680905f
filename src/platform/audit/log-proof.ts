// Reads the tree of a tenant from the database, with its rows and checkpoints, in the order of leaves.
import type { LogRowLine } from '../db/log-partitions.ts';
import { LEAST_ID, uuidOf } from '../crypto/ids.ts';
import { append, collectProof, copyOf, type Frontier, rootOfProof } from '../crypto/merkle.ts';
import { type LogPublicKey, openCheckpoint } from '../crypto/signed-note.ts';
import {
  type ArchivedMonth,
  BLOCK_LEAVES,
  findBlocks,
  findCheckpoints,
  findFirstBlock,
  findTree,
  readRowsOf,
} from '../db/log-trees.ts';
import type { Query } from '../db/statements.ts';
import { leafOfLine } from '../db/leaf.ts';
import type { ProofEvent } from './log-verifier.ts';
import { frontierOf, hashesOf, idsOf, TreeTampered } from './tree-state.ts';

const BLOCKS_AT_ONCE = 16;
const ROWS_AT_ONCE = 1_000;
const CHECKPOINTS_AT_ONCE = 500;

type Leaf = { position: number; id: string; leaf: Buffer; before: Frontier };

/** Leaves of blocks from a number on, each with the frontier before its block. @throws TreeTampered; unavailable. */
const readLeaves = async function* (query: Query, tenant_id: string, number: number): AsyncGenerator<Leaf> {
  for (;;) {
    const blocks = await findBlocks(query, tenant_id, number, BLOCKS_AT_ONCE);
    for (const block of blocks) {
      const before = frontierOf(block);
      const ids = idsOf(block);
      for (const [at, leaf] of hashesOf(block).entries())
        yield { position: before.size + at, id: ids[at] as string, leaf, before };
    }
    const last = blocks.at(-1);
    if (!last || blocks.length < BLOCKS_AT_ONCE) return;
    number = last.number + 1;
  }
};

/** Rows of a tenant above an id, up to another. @throws unavailable. */
export const readRows = async function* (
  query: Query,
  tenant_id: string,
  from: string,
  to: string,
): AsyncGenerator<LogRowLine> {
  for (;;) {
    const rows = await readRowsOf(query, tenant_id, from, to, ROWS_AT_ONCE);
    yield* rows;
    from = rows.at(-1)?.id ?? to;
    if (rows.length < ROWS_AT_ONCE) return;
  }
};

const readCheckpoints = async function* (query: Query, tenant_id: string, above: number) {
  for (;;) {
    const found = await findCheckpoints(query, tenant_id, above, CHECKPOINTS_AT_ONCE);
    yield* found;
    if (found.length < CHECKPOINTS_AT_ONCE) return;
    above = found.at(-1)?.size ?? above;
  }
};

/** The next of a generator, which waits until it is taken. */
const createPeek = async <T>(generator: AsyncGenerator<T>) => {
  let next = await generator.next();
  return {
    value: (): T | undefined => (next.done === true ? undefined : next.value),
    skip: async (): Promise<void> => void (next = await generator.next()),
  };
};

const isIn = (id: string, { from_id, to_id }: ArchivedMonth): boolean =>
  id < to_id && (from_id === null || id >= from_id);

/**
 * The tree of a tenant with its rows, up to its newest checkpoint. Nothing for a tenant without a checkpoint.
 * @throws TreeTampered where it cannot be read; unavailable.
 */
export const readTreeWithRows = async function* (
  query: Query,
  tenant_id: string,
  archives: readonly ArchivedMonth[],
): AsyncGenerator<ProofEvent> {
  const tree = await findTree(query, tenant_id);
  if (!tree?.checkpoint) {
    for await (const { id, line } of readRows(query, tenant_id, LEAST_ID, tree?.last_id ?? LEAST_ID))
      yield { kind: 'row', tenant_id, id, line };
    return;
  }
  const number = (await findFirstBlock(query, tenant_id, LEAST_ID)) ?? 0;
  const [first] = await findBlocks(query, tenant_id, number, 1);
  const before: Frontier = first ? frontierOf(first) : { size: 0, hashes: [] };
  yield { kind: 'tree', tenant_id, from: before.size, frontier: before.hashes, newest: tree.checkpoint.note };
  const checkpoints = await createPeek(readCheckpoints(query, tenant_id, before.size));
  const rows = await createPeek(readRows(query, tenant_id, LEAST_ID, tree.last_id));
  for await (const { position, id, leaf } of readLeaves(query, tenant_id, number)) {
    if (position >= tree.checkpoint.size) break;
    for (let row = rows.value(); row && row.id < id; row = rows.value()) {
      yield { kind: 'row', tenant_id, ...row };
      await rows.skip();
    }
    const row = rows.value();
    const line = row?.id === id ? row.line : undefined;
    if (line !== undefined) await rows.skip();
    yield { kind: 'leaf', position, id, leaf, line, isArchived: archives.some((month) => isIn(id, month)) };
    yield* checkpointsUpTo(checkpoints, position + 1);
  }
};

/** The checkpoints of leaves that were read, in the order of leaves. */
const checkpointsUpTo = async function* (
  checkpoints: Awaited<ReturnType<typeof createPeek<{ size: number; note: string }>>>,
  size: number,
): AsyncGenerator<ProofEvent> {
  for (let next = checkpoints.value(); next && next.size <= size; next = checkpoints.value()) {
    yield { kind: 'checkpoint', note: next.note };
    await checkpoints.skip();
  }
};

/**
 * The leaves of a tenant for the rows of a month, without the rows: an archive has them. Nothing for a tenant without leaves there.
 * @throws TreeTampered where it cannot be read; unavailable.
 */
export const readMonthOfTree = async function* (
  query: Query,
  tenant_id: string,
  { from_id, to_id }: { from_id: string | null; to_id: string },
): AsyncGenerator<ProofEvent> {
  const from = from_id ?? LEAST_ID;
  const number = await findFirstBlock(query, tenant_id, from);
  if (number === undefined) return;
  let tree: Frontier | undefined;
  let checkpoints: Awaited<ReturnType<typeof createPeek<{ size: number; note: string }>>> | undefined;
  for await (const { position, id, leaf, before } of readLeaves(query, tenant_id, number)) {
    if (id >= to_id) return;
    tree ??= copyOf(before);
    if (id >= from && !checkpoints) {
      yield { kind: 'tree', tenant_id, from: position, frontier: [...tree.hashes], newest: undefined };
      checkpoints = await createPeek(readCheckpoints(query, tenant_id, position));
    }
    if (checkpoints) {
      yield { kind: 'leaf', position, id, leaf, line: undefined, isArchived: false };
      yield* checkpointsUpTo(checkpoints, position + 1);
    } else append(tree, leaf);
  }
};

/** A proof that a row is in the log of a tenant, as C2SP tlog-proof. */
export type RowProof = { line: string; index: number; hashes: Buffer[]; checkpoint: string };

/** @returns undefined where no signed leaf is that of the row, or the row is gone. @throws TreeTampered; unavailable. */
export const proveRow = async (
  query: Query,
  tenant_id: string,
  id: string,
  keys: readonly LogPublicKey[],
): Promise<RowProof | undefined> => {
  const tree = await findTree(query, tenant_id);
  const signed = tree?.checkpoint && openCheckpoint(tree.checkpoint.note, keys);
  if (!signed) return undefined;
  const [row] = await readRowsOf(query, tenant_id, previousId(id), id, 1);
  const number = await findFirstBlock(query, tenant_id, id);
  const [block] = number === undefined ? [] : await findBlocks(query, tenant_id, number, 1);
  const at = block ? idsOf(block).indexOf(id) : -1;
  if (!row || !block || at === -1) return undefined;
  const index = block.number * BLOCK_LEAVES + at;
  if (index >= signed.size) return undefined;
  const proof = collectProof(index, signed.size);
  let isFirst = true;
  for await (const { position, leaf, before } of readLeaves(query, tenant_id, 0)) {
    if (position >= signed.size) break;
    if (isFirst) for (const part of partsOf(before)) proof.add(part.from, part.hash, part.level);
    isFirst = false;
    proof.add(position, leaf);
  }
  const hashes = proof.end();
  if (!rootOfProof(index, signed.size, leafOfLine(row.line), hashes)?.equals(signed.root))
    throw new TreeTampered('the row, its leaf hash or others are not those that were signed');
  return { line: row.line, index, hashes, checkpoint: tree?.checkpoint?.note ?? '' };
};

/** The complete subtrees of a frontier, with where they start. */
const partsOf = ({ size, hashes }: Frontier): { from: number; level: number; hash: Buffer }[] => {
  let from = 0;
  let level = Math.floor(Math.log2(Math.max(1, size)));
  return hashes.map((hash) => {
    while (2 ** level > size - from) level -= 1;
    const part = { from, level, hash };
    from += 2 ** level;
    level -= 1;
    return part;
  });
};

/** The id before an id. */
const previousId = (id: string): string => {
  const number = BigInt(`0x${id.replaceAll('-', '')}`);
  return uuidOf((number === 0n ? 0n : number - 1n).toString(16).padStart(32, '0'));
};
