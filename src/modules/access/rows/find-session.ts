// The look-up of a session by the public id of its key, before a caller is known.
import type { Database } from '../../../platform/db/database.ts';
import { signedColumns } from '../../../platform/db/signed-rows.ts';

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

/** A session with its tenant and the application that created it: `creator` is null for a member. */
const SESSIONS = `SELECT ${signedColumns('tenants', 't')}, ${signedColumns('applications', 'a')},
  ${signedColumns('collect_sessions', 's')}, t.name AS tenant_name
FROM collect_sessions s JOIN tenants t ON t.id = s.tenant_id
LEFT JOIN applications a ON a.tenant_id = s.tenant_id AND a.id = s.created_by`;

export const FIND_SESSION = `${SESSIONS} WHERE s.public_id = $1`;
export const FIND_PAGE_SESSION = `${SESSIONS} WHERE s.page_digest = $1`;
export const FIND_FRAME_SESSION = `${SESSIONS} WHERE s.id = $1::uuid`;

const ofSession = ['tenants', 'applications', 'collect_sessions'] as const;

/** @param text finds one session by `value`. */
export const loadSession = async <Session>(
  { statements, signedRows }: Pick<Database, 'statements' | 'signedRows'>,
  name: string,
  text: string,
  value: unknown,
): Promise<Session | undefined> => {
  const [found] = await signedRows.find(ofSession, () => statements.query(name, text, [value]));
  return found && { ...found.collect_sessions, tenant_name: found.joined.tenant_name };
};

export const findSessionBeforeCaller = (
  db: Pick<Database, 'statements' | 'signedRows'>,
  publicId: string,
): Promise<FoundSession | undefined> => loadSession(db, 'find-session', FIND_SESSION, publicId);
