// Opens the stored Merkle tree of a tenant for appending, once it is clear that it continues what was signed before.
import { LEAST_ID, uuidOf } from '../crypto/ids.ts';
import type { LogSigning } from '../crypto/log-signing.ts';
import { append, copyOf, emptyFrontier, type Frontier, frontierLength, HASH_BYTES, rootOf } from '../crypto/merkle.ts';
import { openCheckpoint } from '../crypto/signed-note.ts';
import { BLOCK_LEAVES, findBlocks, findFirstBlock, type FoundTree, type LeafBlock } from '../db/log-trees.ts';
import type { Query } from '../db/statements.ts';

const ID_BYTES = 16;
/** Blocks that are read at once: about 50 KB. */
const BLOCKS_AT_ONCE = 4;

/** What a tree was when it was last known to be right. */
export type KnownTree = { size: number; root: Buffer };

/** The stored tree is not one that this vault has made. The reason is for the operator, and holds no value. */
export class TreeTampered extends Error {
  override readonly name = 'TreeTampered';
}

const EMPTY_TREE: KnownTree = { size: 0, root: rootOf(emptyFrontier()) };

export const idBytes = (id: string): Buffer => Buffer.from(id.replaceAll('-', ''), 'hex');

/** A tree of a tenant while leaves are appended. */
export type OpenTree = {
  /** The state in the database. */
  stored: KnownTree;
  signed_size: number;
  last_id: string | undefined;
  frontier: Frontier;
  /** The block that the next leaf goes into, unless it is full. */
  block: { number: number; frontier: Buffer; ids: Buffer[]; hashes: Buffer[] } | undefined;
};

const splitHashes = (bytes: Buffer, length: number): Buffer[] =>
  Array.from({ length: bytes.length / length }, (_, at) => bytes.subarray(at * length, (at + 1) * length));

/** The frontier before a block. @throws TreeTampered where its parts have other lengths. */
export const frontierOf = (block: LeafBlock): Frontier => {
  const size = block.number * BLOCK_LEAVES;
  const count = block.ids.length / ID_BYTES;
  const isWhole =
    Number.isInteger(count) &&
    count > 0 &&
    count <= BLOCK_LEAVES &&
    block.hashes.length === count * HASH_BYTES &&
    block.frontier.length === frontierLength(size) * HASH_BYTES;
  if (!isWhole) throw new TreeTampered('a block of leaf hashes has another length');
  return { size, hashes: splitHashes(block.frontier, HASH_BYTES) };
};

export const hashesOf = ({ hashes }: LeafBlock): Buffer[] => splitHashes(hashes, HASH_BYTES);

/** The ids of a block as text. */
export const idsOf = ({ ids }: LeafBlock): string[] =>
  splitHashes(ids, ID_BYTES).map((bytes) => uuidOf(bytes.toString('hex')));

/** Only a tree of the same size can contradict a known one. */
const isConsistent = (tree: Frontier, known: KnownTree): boolean =>
  tree.size !== known.size || rootOf(tree).equals(known.root);

/**
 * Checks that a larger tree begins with a known one: from the leaves between them follow both roots.
 * @throws TreeTampered; unavailable.
 */
const checkPrefix = async (query: Query, tenant_id: string, known: KnownTree, stored: KnownTree): Promise<void> => {
  let tree: Frontier | undefined;
  for (let number = Math.floor(known.size / BLOCK_LEAVES); (tree?.size ?? 0) < stored.size;) {
    const blocks = await findBlocks(query, tenant_id, number, BLOCKS_AT_ONCE);
    if (blocks[0]?.number !== number) throw new TreeTampered('leaf hashes are missing');
    for (const block of blocks) {
      const before = frontierOf(block);
      tree ??= before;
      if (before.size !== tree.size || !rootOf(before).equals(rootOf(tree)))
        throw new TreeTampered('leaf hashes do not follow each other');
      for (const hash of hashesOf(block)) {
        if (!isConsistent(tree, known)) throw new TreeTampered('the tree does not begin with the one that was signed');
        if (tree.size === stored.size) break;
        append(tree, hash);
      }
    }
    number += blocks.length;
  }
  if (!tree || !isConsistent(tree, known) || !rootOf(tree).equals(stored.root))
    throw new TreeTampered('the tree does not begin with the one that was signed');
};

/** Whether the leaves that follow a known tree are gone, as those of archived months are. @throws unavailable. */
const isDropped = async (query: Query, tenant_id: string, known: KnownTree): Promise<boolean> => {
  const first = await findFirstBlock(query, tenant_id, LEAST_ID);
  return first !== undefined && first > Math.floor(known.size / BLOCK_LEAVES);
};

/** The newest checkpoint of a stored tree. @throws TreeTampered where it is missing or not signed by a known key. */
const signedTree = (tenant_id: string, found: FoundTree, { publicKeys }: LogSigning): KnownTree => {
  if (found.signed_size === 0 && !found.checkpoint) return EMPTY_TREE;
  const signed = found.checkpoint && openCheckpoint(found.checkpoint.note, publicKeys);
  if (!signed) throw new TreeTampered('the newest checkpoint is missing, or no known key has signed it');
  if (signed.tenant_id !== tenant_id || signed.size !== found.checkpoint?.size || signed.size !== found.signed_size)
    throw new TreeTampered('the newest checkpoint is of another tree');
  return signed;
};

/**
 * @param known what this process last knew of the tree; undefined after a start: then its newest checkpoint counts.
 * @param latest an id that no row is above yet.
 * @throws TreeTampered where the stored tree is smaller, another one, or damaged; unavailable.
 */
export const openTree = async (
  query: Query,
  tenant_id: string,
  found: FoundTree | undefined,
  remembered: KnownTree | undefined,
  signing: LogSigning,
  latest: string,
): Promise<OpenTree> => {
  if (!found) {
    if (remembered) throw new TreeTampered('the tree is gone');
    return { stored: EMPTY_TREE, signed_size: 0, last_id: undefined, frontier: emptyFrontier(), block: undefined };
  }
  const { size, root, last_id, block } = found;
  const signed = signedTree(tenant_id, found, signing);
  const known = remembered ? [signed, remembered] : [signed];
  if (known.some((each) => size < each.size)) throw new TreeTampered('the tree is smaller than it was');
  if (!block) throw new TreeTampered('leaf hashes are missing');
  const frontier = frontierOf(block);
  const before = copyOf(frontier);
  for (const hash of hashesOf(block)) append(frontier, hash);
  if (frontier.size !== size || !rootOf(frontier).equals(root))
    throw new TreeTampered('the root does not follow from the leaf hashes');
  if (idsOf(block).at(-1) !== last_id || block.last_id !== last_id)
    throw new TreeTampered('the last row is not that of the last leaf');
  // No row would follow it: the log would grow, and nothing more would be signed.
  if (last_id > latest) throw new TreeTampered('the last row is one of the future');
  for (const each of known) {
    if (!isConsistent(frontier, each)) throw new TreeTampered('the tree is not the one that was signed');
    if (size === each.size || each.size === 0) continue;
    // A process that comes back after months remembers leaves that were archived since. The newest checkpoint counts then.
    if (each.size < signed.size && (await isDropped(query, tenant_id, each))) continue;
    await checkPrefix(query, tenant_id, each, { size, root });
  }
  const isFull = block.ids.length === BLOCK_LEAVES * ID_BYTES;
  return {
    stored: { size, root },
    signed_size: found.signed_size,
    last_id,
    frontier,
    block: isFull
      ? undefined
      : {
          number: block.number,
          frontier: Buffer.concat(before.hashes),
          ids: splitHashes(block.ids, ID_BYTES),
          hashes: hashesOf(block),
        },
  };
};
