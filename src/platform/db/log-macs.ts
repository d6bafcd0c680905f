// MACs of rows of the audit log: a writer of the database cannot make one. The Merkle trees take no row without. Statements that
// insert rows take only what `sign` and `macOf` make, so no path can forget the MAC.
import type { DigestKey } from '../crypto/digest.ts';
import { type LogMac, logMacUnder } from '../crypto/log-mac.ts';
import { type OpenLine, openLine } from './leaf.ts';
import type { NewLog, SignedLog } from './audit-rows.ts';
import { type BegunRun, signBegunRun, type SignedBegunRun } from './run-rows.ts';

/** PostgreSQL writes UUIDs in lower case. */
const lower = (id: string | null | undefined): string | undefined => id?.toLowerCase();

/**
 * The row as `openLine` has it once it is written, so all that its leaf covers: names in order, and none without a value. A column
 * that is missing here makes each row that has it one that no tree takes.
 */
const textOf = (tenant_id: string, row: NewLog): string =>
  JSON.stringify({
    actor_id: lower(row.actor_id),
    actor_type: row.actor_type ?? undefined,
    application_id: lower(row.application_id),
    code_application_id: lower(row.code_application_id),
    created_at: row.created_at,
    destination_host: row.destination_host ?? undefined,
    disclosure: row.disclosure,
    entity_ids: row.entity_ids.length > 1 ? row.entity_ids.toSorted() : row.entity_ids,
    entity_type: row.entity_type,
    id: lower(row.id),
    ip: row.ip ?? undefined,
    is_list: row.is_list ?? false,
    message: row.message,
    operation: row.operation,
    otel_trace_id: row.otel_trace_id ?? undefined,
    outcome: row.outcome,
    proxy_id: lower(row.proxy_id),
    reactor_id: lower(row.reactor_id),
    reason: row.reason ?? undefined,
    tenant_id: lower(tenant_id),
    trace_id: row.trace_id ?? undefined,
  });

export type LogMacs = ReturnType<typeof createLogMacs>;

export const createLogMacs = () => {
  let macOfText = (_text: string): LogMac => {
    throw new TypeError('the key of the log MACs is not open yet');
  };

  const macOfRun = (text: string): LogMac => macOfText(`run ${text}`);

  const macOf = (tenant_id: string, row: NewLog): LogMac => macOfText(textOf(tenant_id, row));

  return {
    open: (pepper: DigestKey): void => {
      macOfText = logMacUnder(pepper);
    },

    macOf,

    sign: (tenant_id: string, row: NewLog): SignedLog =>
      JSON.stringify({ ...row, mac: macOf(tenant_id, row) }) as SignedLog,

    /** MAC of an event. No row of the log, and no run, has this text. */
    macOfEvent: (tenant_id: string, event: string): LogMac => macOfText(`event ${tenant_id} ${event}`),

    /** MAC of a run. No row of the log has this text. */
    macOfRun,

    signBegun: (tenant_id: string, begun: BegunRun): SignedBegunRun => signBegunRun(macOfRun, tenant_id, begun),

    /** Whether a server wrote the row. @param line the row as LOG_LINE has it. */
    isIntact(line: string | OpenLine): boolean {
      const { mac, macText } = typeof line === 'string' ? openLine(line) : line;
      return macText !== undefined && mac === macOfText(macText);
    },
  };
};
