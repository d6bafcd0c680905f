// Which tables have values that are sealed under the data key of their tenant, and what each value is bound to.

import type { BoundColumns } from './seal.ts';

export type SealedTable = {
  name: string;
  /** As in the place of its values, see `Binding`. */
  record: string;
  field: string;
  /** Ids are UUIDs, or texts. */
  id: 'uuid' | 'text';
  /** Whether the column `type` is part of the place. */
  isTyped?: true;
  /** Columns to which values are bound, beside their place. */
  bound?: readonly BoundColumn[];
};

/**
 * The columns of a token that decide who reads it, how long, and which value equals it. Whether it has a mask is in the sealed value.
 * A changed column makes the value unreadable, see docs/decisions/0074-tokens-and-their-rows.md.
 */
const TOKEN_COLUMNS = ['container', 'expires_at', 'fingerprint', 'fingerprint_expression'] as const;

type BoundColumn = (typeof TOKEN_COLUMNS)[number];

/** As the database has them, or as they are to be written. */
type BoundToken = { readonly [Column in BoundColumn]: string | Date | null | undefined };

export type BoundRow = Partial<BoundToken>;

/** For `Binding.row`. */
export const boundColumns = (row: BoundRow, columns: readonly BoundColumn[]): BoundColumns => {
  const bound: Partial<Record<BoundColumn, string | Date | null | undefined>> = {};
  for (const column of columns) bound[column] = row[column];
  return bound;
};

export const boundOfToken = (row: BoundToken): BoundColumns => boundColumns(row, TOKEN_COLUMNS);

/** Re-sealed after a rotation. A test compares this list with the columns of the database, and with what the modules seal. */
export const SEALED_TABLES: readonly SealedTable[] = [
  { name: 'tokens', record: 'token', field: 'sealed', id: 'text', isTyped: true, bound: TOKEN_COLUMNS },
  { name: 'reactor_formulas', record: 'reactor_formula', field: 'code', id: 'uuid' },
  { name: 'reactors', record: 'reactor', field: 'configuration', id: 'uuid' },
  { name: 'proxies', record: 'proxy', field: 'route', id: 'uuid' },
  { name: 'code_versions', record: 'code_version', field: 'code', id: 'uuid' },
  { name: 'code_drafts', record: 'code_draft', field: 'code', id: 'uuid' },
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
