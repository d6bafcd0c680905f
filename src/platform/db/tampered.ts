// Reports a row that a writer of the database has changed: counts it, and logs an alarm without a value.
import type { VerifiedTableName } from '../base/tables.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../metrics/metrics.ts';

type TamperedRow = { table: VerifiedTableName; tenant_id: string | undefined; row_id: string };

export const countTampered = ({ metrics }: { metrics: Metrics }, table: TamperedRow['table']): void =>
  metrics.count('strongroom_tampered_rows_total', { table });

/** Called where a row that fails its check is refused. */
export const noteTampered = (ctx: { log: Log; metrics: Metrics }, row: TamperedRow): void => {
  countTampered(ctx, row.table);
  ctx.log.error({ alarm: 'tampered', ...row }, 'a row was changed in the database, and is refused');
};
