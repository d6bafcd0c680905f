// Deletes again from a restored vault what an erasure list names, in the transaction of the restore.
import type { Client } from 'pg';

/** How many records of a kind were in the backup and are deleted again, and how many erasures the list has. `tenants` has their ids. */
export type Replayed = { listed: number; deleted: Record<ErasureKind, number>; tenants: string[] };

const KINDS = ['tenant', 'application', 'api_key', 'proxy', 'webhook', 'member', 'invitation', 'token'] as const;

export type ErasureKind = (typeof KINDS)[number];

/** The vault remembers them as before, for the next restore. */
const ADD_LISTED = 'INSERT INTO erasures SELECT * FROM listed_erasures ON CONFLICT DO NOTHING';

/** Each record that was made when the list says: a later one with the same id is another. */
const erased = (kind: ErasureKind, table: string, id: string): string => `
DELETE FROM ${table} t USING listed_erasures e
WHERE e.kind = '${kind}' AND t.${kind === 'tenant' ? 'id' : 'tenant_id'} = e.tenant_id AND t.${id} = e.id AND t.created_at = e.made_at`;

/** What goes with records of these kinds, as the modules delete them. */
const DELETIONS: Readonly<Record<ErasureKind, string>> = {
  tenant: `
WITH gone AS (${erased('tenant', 'tenants', 'id::text')} RETURNING t.id
), keys AS (DELETE FROM tenant_keys USING gone WHERE tenant_id = gone.id
), applications AS (DELETE FROM applications USING gone WHERE tenant_id = gone.id
), api_keys AS (DELETE FROM api_keys USING gone WHERE tenant_id = gone.id
), proxy_keys AS (DELETE FROM proxy_keys USING gone WHERE tenant_id = gone.id
), secrets AS (DELETE FROM invitation_secrets USING gone WHERE tenant_id = gone.id
), memberships AS (DELETE FROM memberships USING gone WHERE tenant_id = gone.id
), marks AS (INSERT INTO deleted_tenants (id, deleted_at) SELECT id, now() FROM gone ON CONFLICT DO NOTHING
)
SELECT id FROM gone`,
  application: `
WITH gone AS (${erased('application', 'applications', 'id::text')} RETURNING t.tenant_id, t.id
), keys AS (DELETE FROM api_keys k USING gone WHERE k.tenant_id = gone.tenant_id AND k.application_id = gone.id
)
SELECT id FROM gone`,
  api_key: `${erased('api_key', 'api_keys', 'public_id')} RETURNING t.public_id`,
  proxy: `
WITH gone AS (${erased('proxy', 'proxies', 'id::text')} RETURNING t.tenant_id, t.id
), keys AS (DELETE FROM proxy_keys k USING gone WHERE k.tenant_id = gone.tenant_id AND k.proxy_id = gone.id
)
SELECT id FROM gone`,
  webhook: `${erased('webhook', 'webhooks', 'id::text')} RETURNING t.id`,
  member: `
WITH gone AS (${erased('member', 'members', 'id::text')} RETURNING t.tenant_id, t.id
), memberships AS (DELETE FROM memberships m USING gone WHERE m.tenant_id = gone.tenant_id AND m.member_id = gone.id
)
SELECT id FROM gone`,
  invitation: `
WITH gone AS (${erased('invitation', 'invitations', 'id::text')} RETURNING t.tenant_id, t.id
), secrets AS (DELETE FROM invitation_secrets s USING gone WHERE s.tenant_id = gone.tenant_id AND s.invitation_id = gone.id
)
SELECT id FROM gone`,
  token: `
WITH gone AS (${erased('token', 'tokens', 'id')} RETURNING t.tenant_id, t.id, t.type
), counts AS (
  INSERT INTO token_counts (tenant_id, id, type, change)
  SELECT tenant_id, gen_random_uuid(), type, -count(*) FROM gone GROUP BY tenant_id, type
)
SELECT id FROM gone`,
};

/** Users that are members of no tenant any more. */
const DELETE_USERS = 'DELETE FROM users u WHERE NOT EXISTS (SELECT FROM memberships m WHERE m.user_id = u.id)';

/** Replays the rows of the temporary table listed_erasures. */
export const replayErasures = async (session: Client): Promise<Replayed> => {
  await session.query('ANALYZE listed_erasures');
  const deleted = {} as Record<ErasureKind, number>;
  let tenants: string[] = [];
  for (const kind of KINDS) {
    const gone = await session.query<{ id: string }>(DELETIONS[kind]);
    deleted[kind] = gone.rowCount ?? 0;
    if (kind === 'tenant') tenants = gone.rows.map(({ id }) => id);
  }
  await session.query(DELETE_USERS);
  await session.query(ADD_LISTED);
  const { rows } = await session.query<{ count: number }>('SELECT count(*)::int AS count FROM listed_erasures');
  return { listed: (rows[0] as { count: number }).count, deleted, tenants };
};
