// Reads the rights of this process's database role, and whether its connection is encrypted, for the `doctor` command.
import type { Query } from './statements.ts';

export type ServerRole = {
  name: string;
  is_superuser: boolean;
  /** Row-level security does not hold for it, nor for a superuser. */
  bypasses_rls: boolean;
  /** The owner of the audit log can grant itself the rights that migrations revoked: to change and delete rows. Null: no log yet. */
  owns_log: boolean | null;
  is_encrypted: boolean;
};

const SERVER_ROLE = `SELECT current_user AS name, r.rolsuper AS is_superuser, r.rolbypassrls AS bypasses_rls,
  (SELECT pg_has_role(current_user, relowner, 'MEMBER') FROM pg_class WHERE oid = to_regclass('audit_log')) AS owns_log,
  coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS is_encrypted
  FROM pg_roles r WHERE r.rolname = current_user`;

/** @throws unavailable. */
export const findServerRole = async (query: Query): Promise<ServerRole> =>
  ((await query('server-role', SERVER_ROLE, [])) as ServerRole[])[0] as ServerRole;
