// The look-up of a session by the public id of its key, before a caller is known.
import type { Query } from '../../../platform/db/statements.ts';

export type FoundSession = {
  tenant_id: string;
  id: string;
  digest: Buffer;
  allowed_origins: string[];
  types: string[];
  container: string | null;
  metadata: Record<string, string> | null;
  expires_at: Date;
  created_by: string;
};

export const FIND_SESSION = `SELECT s.tenant_id, s.id, s.digest, s.allowed_origins, s.types, s.container, s.metadata,
  s.expires_at, s.created_by
FROM collect_sessions s JOIN tenants t ON t.id = s.tenant_id
WHERE s.public_id = $1`;

export const findSessionBeforeCaller = async (query: Query, publicId: string): Promise<FoundSession | undefined> =>
  (await query('find-session', FIND_SESSION, [publicId]))[0] as FoundSession | undefined;
