// Statements on tokens and links that run within a transaction.
import { notFound } from '../../../platform/base/errors.ts';
import { insertLogs, type NewLog } from '../../../platform/db/audit-rows.ts';
import { recordErasures } from '../../../platform/db/erasures.ts';
import type { TenantQuery } from '../../../platform/db/database.ts';
import type { Transaction } from '../../../platform/db/transaction.ts';
import { GROUP_ROWS, type TokenGroups } from './token-groups.ts';
import type { LockedToken } from './token-list.ts';
import { nameOfFingerprint, type NewToken, type StoredToken, type UniqueAmong } from './token-row.ts';
import {
  ADD_TO_SESSION,
  COUNT_DELETED,
  DELETE_ASSOCIATION,
  DELETE_CVC,
  DELETE_CVCS,
  DELETE_TOKEN,
  DELETE_TOKENS,
  FIND_BY_FINGERPRINTS,
  FIND_TAKEN_IDS,
  INSERT_ASSOCIATION,
  INSERT_TOKENS,
  LINK_TOKEN,
  LOCK_FINGERPRINTS,
  LOCK_FOR_DELETE,
  LOCK_TOKEN,
  PUT_CVC,
  UPDATE_TOKEN,
} from './token-sql.ts';

/** The columns of a token after a change. */
export type ChangedColumns = Omit<NewToken, 'id' | 'type' | 'created_at' | 'created_by' | 'log_id'> & {
  modified_at: string;
  modified_by: string;
};

type Link = { parent_id: string; child_id: string; created_at: string; created_by: string };

/**
 * Locks fingerprints, so that no other transaction writes an equal token.
 * @returns the tokens that have one of them, oldest first, by `nameOfFingerprint`.
 */
export const lockFingerprints = async (
  { query, tenant_id }: Transaction,
  { fingerprints, containers }: UniqueAmong,
  now: Date,
): Promise<Map<string, StoredToken[]>> => {
  if (fingerprints.length === 0) return new Map();
  const prints = fingerprints.map(({ fingerprint }) => fingerprint);
  const expressions = fingerprints.map(({ fingerprint_expression }) => fingerprint_expression);
  await query('lock-fingerprints', LOCK_FINGERPRINTS, [tenant_id, prints]);
  const bounds = fingerprints.map(({ bound_to }) => (bound_to ? JSON.stringify(bound_to) : null));
  const values = [tenant_id, prints, expressions, now, containers, bounds];
  const found = (await query('find-fingerprints', FIND_BY_FINGERPRINTS, values)) as StoredToken[];
  return Map.groupBy(found, ({ fingerprint, fingerprint_expression, bound_to }) =>
    nameOfFingerprint({
      fingerprint: fingerprint ?? '',
      fingerprint_expression: fingerprint_expression ?? '',
      bound_to,
    }),
  );
};

/** Those of the ids that tokens have. */
export const findTakenIds = async ({ query, tenant_id }: TenantQuery, ids: string[]): Promise<Set<string>> => {
  const taken = (await query('find-taken-ids', FIND_TAKEN_IDS, [tenant_id, ids])) as { id: string }[];
  return new Set(taken.map(({ id }) => id));
};

/** Writes tokens with their security codes and log rows. @throws conflict for an id in use. */
export const insertGroups = async (tx: Transaction, { texts, logs }: TokenGroups): Promise<void> => {
  for (const text of texts) await tx.query('insert-tokens', INSERT_TOKENS, [tx.tenant_id, text]);
  tx.log(...logs);
};

/** Counts new tokens of a session, and uses up the page that it acts through. @returns whether it may create so many more. */
export const addToSession = async (
  { query, tenant_id }: Transaction,
  { id, page_digest }: { id: string; page_digest?: Buffer },
  token_ids: string[],
  now: Date,
): Promise<boolean> =>
  (await query('add-to-session', ADD_TO_SESSION, [tenant_id, id, token_ids, now, page_digest ?? null])).length > 0;

/** Reads a token and locks it until the transaction ends. @returns undefined for a missing or expired token. */
export const lockToken = async (
  { query, tenant_id }: Transaction,
  id: string,
  now: Date,
): Promise<StoredToken | undefined> =>
  ((await query('lock-token', LOCK_TOKEN, [tenant_id, id, now])) as StoredToken[])[0];

/** Changes a token that `lockToken` returned. @param cvc `replace` writes the security code of the columns. */
export const updateToken = async (
  { query, tenant_id }: Transaction,
  id: string,
  columns: ChangedColumns,
  cvc: 'keep' | 'remove' | 'replace',
): Promise<void> => {
  await query('update-token', UPDATE_TOKEN, [
    tenant_id,
    id,
    columns.sealed,
    columns.fingerprint,
    columns.fingerprint_expression,
    columns.container,
    columns.metadata && JSON.stringify(columns.metadata),
    columns.search_indexes,
    columns.search_digests,
    columns.expires_at,
    columns.masked,
    columns.modified_at,
    columns.modified_by,
    columns.bound_to && JSON.stringify(columns.bound_to),
  ]);
  if (cvc === 'replace') await putCvc({ query, tenant_id }, id, columns);
  else if (cvc === 'remove') await query('delete-cvc', DELETE_CVC, [tenant_id, id]);
};

/** Replaces the security code of a token that `lockToken` returned. */
export const putCvc = async (
  { query, tenant_id }: Pick<Transaction, 'query' | 'tenant_id'>,
  id: string,
  { cvc_sealed, cvc_expires_at }: Pick<NewToken, 'cvc_sealed' | 'cvc_expires_at'>,
): Promise<void> => {
  await query('put-cvc', PUT_CVC, [tenant_id, id, cvc_sealed, cvc_expires_at]);
};

/** Deletes a token and writes its log row. @returns whether the token was in that container. */
export const removeToken = async (
  { query, tenant_id, signLog }: Transaction,
  id: string,
  container: string,
  log: NewLog,
): Promise<boolean> => {
  // Waits for a concurrent change, so that the next statement also sees a security code that the change writes.
  const locked = (await query('lock-for-delete', LOCK_FOR_DELETE, [tenant_id, id])) as {
    id: string;
    container: string;
    created_at: Date;
  }[];
  // Signed only where it will be written: its event would tell of what did not happen.
  if (locked[0]?.container !== container) return false;
  const values = [tenant_id, id, container, signLog({ ...log, event: { containers: [container] } })];
  await query('delete-token', DELETE_TOKEN, values);
  await recordErasures(query, tenant_id, locked);
  return true;
};

/** Deletes tokens that are locked, with a log row each, in groups: no statement and no turn of this thread is long. */
export const removeTokens = async (
  { query, tenant_id, signLog }: Transaction,
  tokens: readonly LockedToken[],
  logOf: (token: LockedToken) => NewLog,
): Promise<void> => {
  for (let from = 0; from < tokens.length; from += GROUP_ROWS) {
    const group = tokens.slice(from, from + GROUP_ROWS);
    const ids = group.map(({ id }) => id);
    await query('delete-tokens', DELETE_TOKENS, [tenant_id, ids]);
    await query('delete-cvcs', DELETE_CVCS, [tenant_id, ids]);
    await query('count-deleted', COUNT_DELETED, [tenant_id, group.map(({ type }) => type)]);
    await recordErasures(query, tenant_id, group);
    const logs = group.map((token) => signLog({ ...logOf(token), event: { containers: [token.container] } }));
    await insertLogs(query, tenant_id, logs);
  }
};

/** Links two tokens. @throws conflict if the link exists; notFound if a token was deleted. */
export const insertLink = async ({ query, tenant_id }: Transaction, link: Link): Promise<void> => {
  const values = [tenant_id, link.parent_id, link.child_id, link.created_at, link.created_by];
  if ((await query('insert-association', INSERT_ASSOCIATION, values)).length === 0) throw notFound('token');
};

/** Links tokens; existing links stay. */
export const putLinks = async (
  { query, tenant_id }: Transaction,
  child_ids: readonly string[],
  { parent_id, created_at, created_by }: Omit<Link, 'child_id'>,
): Promise<void> => {
  for (const child_id of child_ids)
    await query('link-token', LINK_TOKEN, [tenant_id, parent_id, child_id, created_at, created_by]);
};

/** @returns whether the link existed. */
export const removeLink = async (
  { query, tenant_id }: Transaction,
  parent_id: string,
  child_id: string,
): Promise<boolean> =>
  (await query('delete-association', DELETE_ASSOCIATION, [tenant_id, parent_id, child_id])).length > 0;
