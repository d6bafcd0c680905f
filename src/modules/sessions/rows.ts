// Rows of sessions.
import type { Database, TenantDatabase } from '../../platform/db/database.ts';
import type { PrismaTransaction } from '../../platform/db/transaction.ts';
import type { FoundSession } from '../access/rows/find-session.ts';

export type StoredSession = {
  id: string;
  allowed_origins: string[];
  types: string[];
  container: string | null;
  metadata: unknown;
  max_tokens: number;
  token_ids: string[];
  return_url: string | null;
  expires_at: Date;
  created_at: Date;
  created_by: string;
};

export type NewSession = Omit<StoredSession, 'metadata' | 'token_ids'> & {
  metadata: Record<string, string> | undefined;
  public_id: string;
  digest: Uint8Array;
  page_digest: Uint8Array | null;
};

/** What a frame's page needs. */
export type FrameSession = {
  id: string;
  tenant_id: string;
  allowed_origins: string[];
  types: string[];
  expires_at: Date;
};

/** A session that acts through a page of the vault. */
export type PageSession = Omit<FoundSession, 'digest'> & { return_url: string; tenant_name: string };

export const insertSession = async ({ prisma, tenant_id }: PrismaTransaction, row: NewSession): Promise<void> => {
  const { metadata, digest, page_digest, ...columns } = row;
  await prisma.collect_sessions.create({
    data: {
      ...columns,
      tenant_id,
      token_ids: [],
      digest: Uint8Array.from(digest),
      page_digest: page_digest && Uint8Array.from(page_digest),
      ...(metadata && { metadata }),
    },
  });
};

export const findSession = async (
  { prisma, tenant_id }: TenantDatabase,
  id: string,
): Promise<StoredSession | undefined> =>
  (await prisma((client) => client.collect_sessions.findFirst({ where: { tenant_id, id } }))) ?? undefined;

/** By the id in the address of a frame, before a caller is known. The id is public. */
export const findFrameSessionBeforeCaller = async (
  db: Pick<Database, 'statements'>,
  id: string,
): Promise<FrameSession | undefined> =>
  (await db.statements.query('find-frame-session', FIND_FRAME_SESSION, [id]))[0] as FrameSession | undefined;

/** By the digest of the secret in the address of a page, before a caller is known. */
export const findPageSessionBeforeCaller = async (
  db: Pick<Database, 'statements'>,
  page_digest: Buffer,
): Promise<PageSession | undefined> =>
  (await db.statements.query('find-page-session', FIND_PAGE_SESSION, [page_digest]))[0] as PageSession | undefined;

const FIND_PAGE_SESSION = `
SELECT s.tenant_id, s.id, s.allowed_origins, s.types, s.container, s.metadata, s.expires_at, s.created_by, s.return_url,
  t.name AS tenant_name
FROM collect_sessions s JOIN tenants t ON t.id = s.tenant_id
WHERE s.page_digest = $1`;

const FIND_FRAME_SESSION =
  'SELECT id, tenant_id, allowed_origins, types, expires_at FROM collect_sessions WHERE id = $1::uuid';
