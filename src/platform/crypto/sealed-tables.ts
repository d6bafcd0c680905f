// Which tables have values that are sealed under the data key of their tenant, and what each value is bound to.

export type SealedTable = {
  name: string;
  /** As in the place of its values, see `Binding`. */
  record: string;
  field: string;
  /** Ids are UUIDs, or texts. */
  id: 'uuid' | 'text';
  /** Whether the column `type` is part of the place. */
  isTyped?: true;
};

/** Re-sealed after a rotation. A test compares this list with the columns of the database, and with what the modules seal. */
export const SEALED_TABLES: readonly SealedTable[] = [
  { name: 'tokens', record: 'token', field: 'sealed', id: 'text', isTyped: true },
  { name: 'reactor_formulas', record: 'reactor_formula', field: 'code', id: 'uuid' },
  { name: 'reactors', record: 'reactor', field: 'configuration', id: 'uuid' },
  { name: 'proxies', record: 'proxy', field: 'route', id: 'uuid' },
  { name: 'members', record: 'tenant_member', field: 'person', id: 'uuid' },
  { name: 'sso_providers', record: 'sso_provider', field: 'settings', id: 'uuid' },
  { name: 'invitations', record: 'tenant_invitation', field: 'email', id: 'uuid' },
  { name: 'mail_outbox', record: 'mail', field: 'invitation', id: 'uuid' },
];

/** Sealed values that are not re-sealed, because they expire within a day. An old key is kept until they have. */
export const EXPIRING_TABLES: readonly string[] = ['idempotency_keys', 'sso_sessions'];

/** With the reason: not under a data key. */
export const OTHER_SEALED_TABLES: Readonly<Record<string, string>> = {
  token_cvcs: 'under keys of half a minute',
  passkeys: 'under a key that is derived from the pepper: users belong to no tenant',
};
