// The entity types of audit log entries, with their display names.

/** Token types as the API names them. A test compares the list with the types that exist. */
export const tokenEntities = [
  'token',
  'card',
  'bank',
  'card_number',
  'us_bank_account_number',
  'us_bank_routing_number',
  'social_security_number',
  'employer_id_number',
] as const;

const otherEntities = [
  'application',
  'log',
  'proxy',
  'reactor',
  'reactor_formula',
  'session',
  'tenant',
  'tenant_invitation',
  'tenant_member',
] as const;

export type EntityType = { display_name: string; value: string };

/** Display names that are not the value in title case. */
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

/** All values of `entity_type`, in alphabetical order. */
export const entityTypes: readonly EntityType[] = [...tokenEntities, ...otherEntities]
  .toSorted()
  .map((value) => ({ display_name: displayNameOf(value), value }));
