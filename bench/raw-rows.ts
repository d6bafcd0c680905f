// The limit for tokenize-batch: pg alone, in a process of its own, writing the same rows and log rows by one prepared
// statement, without HTTP and without sealing. Prints rows a second.
import type { NewToken, NewTokenLog } from '../src/modules/tokens/rows/token-row.ts';
import { randomBytes, randomUUID } from 'node:crypto';
import { Pool } from 'pg';
import { INSERT_TOKENS } from '../src/modules/tokens/rows/token-sql.ts';

const [addressText, tenantId, connectionsText, rowsText, secondsText] = process.argv.slice(2);
const connections = Number(connectionsText);
const rowsPerStatement = Number(rowsText);
const pool = new Pool({ ...(JSON.parse(addressText as string) as object), max: connections });

const created_at = new Date().toISOString();
const row = (log_id: string): NewToken => ({
  id: randomUUID(),
  type: 'token',
  sealed: randomBytes(96).toString('base64'),
  fingerprint: randomBytes(32).toString('hex').slice(0, 44),
  fingerprint_expression: '{{ data | stringify }}',
  masked: true,
  container: '/general/high/',
  created_at,
  created_by: tenantId as string,
  log_id,
});

/** What the log row has; the first token of a `log_id` carries it. */
const created: NewTokenLog & { log_mac: string } = {
  actor_type: 'application',
  message: 'Token created',
  log_mac: randomUUID(),
};

const until = Date.now() + Number(secondsText) * 1000;
let rows = 0;
const began = performance.now();
const loop = async (): Promise<void> => {
  while (Date.now() < until) {
    // The tokens of a statement share a row of the log, as those of a request to the server do.
    const log_id = randomUUID();
    const batch = JSON.stringify(
      Array.from({ length: rowsPerStatement }, (_, index) => ({ ...row(log_id), ...(index === 0 && created) })),
    );
    await pool.query({ name: 'insert', text: INSERT_TOKENS, values: [tenantId, batch] });
    rows += rowsPerStatement;
  }
};
await Promise.all(Array.from({ length: connections }, loop));
console.log(rows / ((performance.now() - began) / 1000));
await pool.end();
