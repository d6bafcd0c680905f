// Compiles a parsed search query into a database condition, with keyed digests in place of values.
// No statement holds a searched value.
import { metadataDigest, searchDigest, shownDigest } from '../../platform/crypto/digest.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import type { TokenCondition } from '../access/token-condition.ts';
import type { SearchNode } from './search-query.ts';

/** Whether a term asks for a value of a token: its answer tells whether a guess is right. */
const isAboutValue = (node: SearchNode): boolean =>
  node.kind === 'data' || (node.kind === 'term' && node.field === 'fingerprint');

/** How many values a query asks for, wherever they stand in it. */
export const countValues = (node: SearchNode): number => {
  switch (node.kind) {
    case 'and':
    case 'or':
      return node.nodes.reduce((sum, child) => sum + countValues(child), 0);
    case 'not':
      return countValues(node.node);
    default:
      return isAboutValue(node) ? 1 : 0;
  }
};

/** The tokens about which a caller may ask more than about others. */
export type Seen = {
  /** Those whose value the caller may see. */
  value: TokenCondition | 'everything';
  /** Those whose mask the caller may see, or more. */
  mask: TokenCondition | 'everything';
};

/**
 * @param seen terms about values, and about what masks show, match only these: otherwise a caller could find out a hidden value by
 * searching for one guess after another.
 */
export const conditionOf = (node: SearchNode, keys: Pick<TenantKeys, 'digest'>, seen: Seen): TokenCondition => {
  switch (node.kind) {
    case 'and':
    case 'or':
      return { kind: node.kind, nodes: node.nodes.map((child) => conditionOf(child, keys, seen)) };
    case 'not':
      return { kind: 'not', node: conditionOf(node.node, keys, seen) };
    default: {
      const match = matchOf(node, keys);
      const where = isAboutValue(node) ? seen.value : node.kind === 'shown' ? seen.mask : 'everything';
      return where === 'everything' ? match : { kind: 'and', nodes: [match, where] };
    }
  }
};

type SearchTerm = Exclude<SearchNode, { kind: 'and' | 'or' | 'not' }>;

const matchOf = (node: SearchTerm, keys: Pick<TenantKeys, 'digest'>): TokenCondition => {
  switch (node.kind) {
    case 'term':
      return { kind: 'in', column: node.field, values: [node.value] };
    case 'data':
      return { kind: 'digest', digest: searchDigest(keys.digest, node.value) };
    case 'shown':
      return { kind: 'digest', digest: shownDigest(keys.digest, node.part, node.value) };
    case 'metadata':
      return { kind: 'digest', digest: metadataDigest(keys.digest, node.key, node.value) };
    case 'container':
      return node.below
        ? { kind: 'starts_with', column: 'container', prefix: node.path }
        : { kind: 'in', column: 'container', values: [node.path] };
    case 'range':
      return { kind: 'range', column: node.field, from: node.from, to: node.to };
  }
};
