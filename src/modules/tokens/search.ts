// Compiles a parsed search query into a database condition, with keyed digests in place of values.
// No statement holds a searched value.
import { metadataDigest, searchDigest } from '../../platform/crypto/digest.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import type { TokenCondition } from '../access/token-condition.ts';
import type { SearchNode } from './search-query.ts';

/**
 * @param shown the tokens whose value the caller may see. Terms about values match only these: otherwise a caller could
 * find out a hidden value by searching for one guess after another.
 */
export const conditionOf = (
  node: SearchNode,
  keys: Pick<TenantKeys, 'digest'>,
  shown: TokenCondition | 'everything',
): TokenCondition => {
  const whereShown = (match: TokenCondition): TokenCondition =>
    shown === 'everything' ? match : { kind: 'and', nodes: [match, shown] };
  switch (node.kind) {
    case 'and':
    case 'or':
      return { kind: node.kind, nodes: node.nodes.map((child) => conditionOf(child, keys, shown)) };
    case 'not':
      return { kind: 'not', node: conditionOf(node.node, keys, shown) };
    case 'term': {
      const match: TokenCondition = { kind: 'in', column: node.field, values: [node.value] };
      return node.field === 'fingerprint' ? whereShown(match) : match;
    }
    case 'data':
      return whereShown({ kind: 'digest', digest: searchDigest(keys.digest, node.value) });
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
