// Rows of the audit log as a server writes them, at any time.
import { INSERT_LOGS, type NewLog } from '../../src/platform/db/audit-rows.ts';
import type { SharedServer } from './server.ts';

export const logRowAt = ({ ctx }: Pick<SharedServer, 'ctx'>, at: Date, entity = 'a'): NewLog => ({
  id: ctx.newLogId(at),
  actor_id: null,
  actor_type: null,
  entity_type: 'token',
  entity_ids: [entity],
  operation: 'read',
  message: 'Token retrieved',
  created_at: at.toISOString(),
  disclosure: 'none',
  outcome: 'success',
});

export const insertLogRows = ({ ctx, sql }: Pick<SharedServer, 'ctx' | 'sql'>, tenant_id: string, rows: NewLog[]) =>
  sql(INSERT_LOGS, [tenant_id, `[${rows.map((row) => ctx.db.logMacs.sign(tenant_id, row)).join()}]`]);

/** A tenant that has no row in the log yet. */
export const bareTenant = async ({ ctx, sql }: Pick<SharedServer, 'ctx' | 'sql'>): Promise<string> => {
  const id = ctx.newUuid();
  await sql(
    `INSERT INTO tenants SELECT (jsonb_populate_record(t, jsonb_build_object('id', $1::text, 'created_at', now() - interval '1 day'))).*
    FROM tenants t LIMIT 1`,
    [id],
  );
  return id;
};
