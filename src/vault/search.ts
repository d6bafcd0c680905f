// From a parsed search to the condition that the database is asked: values become keyed digests on the way, so that no
// query holds one. Pure but for the tenant's digest key.
import { metadataDigest, searchDigest } from '../crypto/digest.ts';
import type { TenantKeys } from '../crypto/keyring.ts';
import type { TokenCondition } from '../db/token-list.ts';
import type { SearchNode } from './search-query.ts';

export const conditionOf = (node: SearchNode, keys: Pick<TenantKeys, 'digest'>): TokenCondition => {
  switch (node.kind) {
    case 'and':
    case 'or':
      return { kind: node.kind, nodes: node.nodes.map((child) => conditionOf(child, keys)) };
    case 'not':
      return { kind: 'not', node: conditionOf(node.node, keys) };
    case 'term':
      return { kind: 'in', column: node.field, values: [node.value] };
    case 'data':
      return { kind: 'digest', digest: searchDigest(keys.digest, node.value) };
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
