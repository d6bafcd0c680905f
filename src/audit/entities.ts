// The kinds of entities that the log tells of, with the names a person reads (interface.md "Entity type").
import { tokenTypeNames } from '../vault/token-types.ts';

const otherEntities = [
  'application',
  'log',
  'proxy',
  'reactor',
  'reactor_formula',
  'tenant',
  'tenant_invitation',
  'tenant_member',
] as const;

export type EntityType = { display_name: string; value: string };

/** Names that are not their value in title case. */
const displayNames: Record<string, string> = {
  us_bank_account_number: 'US Bank Account Number',
  us_bank_routing_number: 'US Bank Routing Number',
};

const displayNameOf = (value: string): string =>
  displayNames[value] ??
  value
    .split('_')
    .map((word) => `${word[0]?.toUpperCase()}${word.slice(1)}`)
    .join(' ');

/** Every value that a log's `entity_type` can have, in alphabetical order. */
export const entityTypes: readonly EntityType[] = [...tokenTypeNames, ...otherEntities]
  .toSorted()
  .map((value) => ({ display_name: displayNameOf(value), value }));
