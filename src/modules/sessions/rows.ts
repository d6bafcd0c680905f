// Rows of sessions.
import type { Database, TenantDatabase } from '../../platform/db/database.ts';
import type { PrismaTransaction } from '../../platform/db/transaction.ts';
import type { StoredBound } from '../access/bounds.ts';
import { notFound } from '../../platform/base/errors.ts';
import { FIND_FRAME_SESSION, FIND_PAGE_SESSION, type FoundSession, loadSession } from '../access/rows/find-session.ts';

export type StoredSession = {
  id: string;
  allowed_origins: string[];
  types: string[];
  container: string | null;
  metadata: unknown;
  bound_to: unknown;
  max_tokens: number;
  token_ids: string[];
  return_url: string | null;
  token_id: string | null;
  expires_at: Date;
  created_at: Date;
  created_by: string;
};

export type NewSession = Omit<StoredSession, 'metadata' | 'bound_to' | 'token_ids'> & {
  /** The public id of the API key that creates it. */
  key_id: string;
  metadata: Record<string, string> | undefined;
  bound_to: StoredBound | undefined;
  public_id: string;
  digest: Uint8Array;
  page_digest: Uint8Array | null;
};

/** What a frame's page needs. */
export type FrameSession = {
  id: string;
  /** Public id of its key. */
  public_id: string;
  tenant_id: string;
  allowed_origins: string[];
  types: string[];
  token_id: string | null;
  expires_at: Date;
};

/** A session that acts through a page of the vault. */
export type PageSession = Omit<FoundSession, 'digest'> & { return_url: string; tenant_name: string };

/** Shared: sessions do not wait for each other, and the deletion of the tenant waits for those that begin. */
const HOLD_TENANT = 'SELECT id FROM tenants WHERE id = $1::uuid FOR SHARE';

/** Each look-up finds the key and the application that create the session, so that it ends with them. @throws notFound. */
export const insertSession = async (
  { prisma, query, signedRows, tenant_id }: PrismaTransaction,
  row: NewSession,
): Promise<void> => {
  const { metadata, bound_to, digest, page_digest, ...columns } = row;
  if ((await query('hold-tenant-for-session', HOLD_TENANT, [tenant_id])).length === 0) throw notFound('tenant');
  const data = {
    ...columns,
    tenant_id,
    token_ids: [],
    digest: Uint8Array.from(digest),
    page_digest: page_digest && Uint8Array.from(page_digest),
    ...(metadata && { metadata }),
    ...(bound_to && { bound_to }),
  };
  const mac = signedRows.macOf('collect_sessions', data, null);
  await prisma.collect_sessions.create({ data: { ...data, mac: Uint8Array.from(mac) } });
};

export const findSession = async (
  { prisma, tenant_id }: TenantDatabase,
  id: string,
): Promise<StoredSession | undefined> =>
  (await prisma((client) => client.collect_sessions.findFirst({ where: { tenant_id, id } }))) ?? undefined;

const TAKE_TRY = `
UPDATE collect_sessions SET tries = tries + 1
WHERE tenant_id = $1 AND id = $2 AND expires_at > $3 AND tries < max_tokens RETURNING id`;

/** Counts a request of a session for one card. @returns whether it has a try left. */
export const takeTry = async ({ query, tenant_id }: TenantDatabase, id: string, now: Date): Promise<boolean> =>
  (await query('take-try', TAKE_TRY, [tenant_id, id, now])).length > 0;

/** Finds a session by the id in the address of a frame, before a caller is known. The id is public. */
export const findFrameSessionBeforeCaller = (
  db: Pick<Database, 'statements' | 'signedRows'>,
  id: string,
): Promise<FrameSession | undefined> => loadSession(db, 'find-frame-session', FIND_FRAME_SESSION, id);

/** Finds a session by the digest of the secret in the address of a page, before a caller is known. */
export const findPageSessionBeforeCaller = (
  db: Pick<Database, 'statements' | 'signedRows'>,
  page_digest: Buffer,
): Promise<PageSession | undefined> => loadSession(db, 'find-page-session', FIND_PAGE_SESSION, page_digest);
