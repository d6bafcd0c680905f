// What ends a transaction that makes, changes or removes a record: its row of the log, and the answer where that is kept.
import type { NewLog } from './hot.ts';
import { keepAnswer, type KeptAnswer } from './idempotency.ts';
import type { Query } from './statements.ts';
import { INSERT_LOGS } from './token-sql.ts';

export const writeLog = async (query: Query, tenant_id: string, log: NewLog): Promise<void> => {
  await query('insert-logs', INSERT_LOGS, [tenant_id, JSON.stringify([log])]);
};

export const finish = async <T>(
  query: Query,
  tenant_id: string,
  { log, answer, result }: { log: NewLog; answer: KeptAnswer | undefined; result: T },
): Promise<T> => {
  await writeLog(query, tenant_id, log);
  if (answer) await keepAnswer(query, tenant_id, answer);
  return result;
};
