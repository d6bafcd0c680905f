// The look-up of a session by the public id of its key, before a caller is known.
import type { Database } from '../../../platform/db/database.ts';
import type { StoredBound } from '../bounds.ts';
import type { FoundApplication } from './api-keys.ts';
import { signedColumns } from '../../../platform/db/signed-rows.ts';

export type FoundSession = {
  tenant_id: string;
  id: string;
  digest: Buffer;
  allowed_origins: string[];
  types: string[];
  container: string | null;
  metadata: Record<string, string> | null;
  bound_to: StoredBound | null;
  /** The card whose security code it collects; null for one that creates tokens. */
  token_id: string | null;
  /** When it ends, or the key that created it. */
  expires_at: Date;
  /** The application as it is now. */
  creator: FoundApplication;
};

/** A session with its tenant, and with the application and the API key that created it. */
const SESSIONS = `SELECT ${signedColumns('tenants', 't')}, ${signedColumns('applications', 'a')},
  ${signedColumns('api_keys', 'k')}, ${signedColumns('collect_sessions', 's')}, t.name AS tenant_name
FROM collect_sessions s JOIN tenants t ON t.id = s.tenant_id
JOIN applications a ON a.tenant_id = s.tenant_id AND a.id = s.created_by
JOIN api_keys k ON k.public_id = s.key_id AND k.tenant_id = s.tenant_id AND k.application_id = s.created_by`;

export const FIND_SESSION = `${SESSIONS} WHERE s.public_id = $1`;
/** A page ends with the first token of its session. */
export const FIND_PAGE_SESSION = `${SESSIONS} WHERE s.page_digest = $1 AND cardinality(s.token_ids) = 0`;
export const FIND_FRAME_SESSION = `${SESSIONS} WHERE s.id = $1::uuid`;

const ofSession = ['tenants', 'applications', 'api_keys', 'collect_sessions'] as const;

/** @param text finds one session by `value`. @returns undefined too where the key that created it has ended. */
export const loadSession = async <Session>(
  { statements, signedRows }: Pick<Database, 'statements' | 'signedRows'>,
  name: string,
  text: string,
  value: unknown,
): Promise<Session | undefined> => {
  const [found] = await signedRows.find(ofSession, () => statements.query(name, text, [value]));
  if (!found) return undefined;
  const { tenants, applications, api_keys, collect_sessions, joined } = found;
  const ends = [collect_sessions.expires_at, api_keys.expires_at ?? collect_sessions.expires_at];
  const expires_at = ends[0] < ends[1] ? ends[0] : ends[1];
  const creator = { ...applications, application_id: applications.id, settings: tenants.settings };
  return { ...collect_sessions, expires_at, creator, tenant_name: joined.tenant_name };
};

export const findSessionBeforeCaller = (
  db: Pick<Database, 'statements' | 'signedRows'>,
  publicId: string,
): Promise<FoundSession | undefined> => loadSession(db, 'find-session', FIND_SESSION, publicId);
