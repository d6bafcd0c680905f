// What `tokenize-one` has over the bare route before anything of ours is done: rows of the same shape, a token's, its
// security code's and the audit log's, by the server's statement and batches. Nothing is sealed, checked or printed.
import { createTokenRows } from '../src/modules/tokens/rows/batched-rows.ts';
import { type NewToken } from '../src/modules/tokens/rows/token-row.ts';
import { randomBytes } from 'node:crypto';
import { createLogMacs } from '../src/platform/db/log-macs.ts';
import { prepareDigestKey } from '../src/platform/crypto/digest.ts';
import { createAccounts } from '../src/platform/base/accounts.ts';
import { createMetrics } from '../src/platform/metrics/metrics.ts';
import { fastify } from 'fastify';
import { Pool } from 'pg';
import { loadConfig } from '../src/platform/config/config.ts';
import { newTimeOrderedId, newUuid } from '../src/platform/crypto/ids.ts';
import { createStatements } from '../src/platform/db/statements.ts';

const [port, answer, addressText, tenantId = ''] = process.argv.slice(2);
const value = JSON.parse(answer ?? 'null') as unknown;
const { databasePoolMax: max, writeBatches } = loadConfig({});
const pool = new Pool({ ...(JSON.parse(addressText as string) as object), max });
const accounts = createAccounts();
const metrics = createMetrics();
const logMacs = createLogMacs();
logMacs.open(prepareDigestKey('bench', randomBytes(32)));
const { insertTokens } = createTokenRows({
  logMacs,
  accounts,
  metrics,
  tracing: undefined,
  statements: createStatements(pool, max, accounts, metrics),
  batchesMax: writeBatches,
  beforeClose: () => undefined,
});

/** In base64, as long as a sealed card with its mask and its security code are. */
const SEALED = randomBytes(140).toString('base64');
const CVC_SEALED = randomBytes(60).toString('base64');
const FINGERPRINT = randomBytes(32).toString('hex').slice(0, 44);
const HOUR_MS = 3_600_000;

const row = (now: number): NewToken => ({
  id: newUuid(),
  type: 'card',
  sealed: SEALED,
  fingerprint: FINGERPRINT,
  fingerprint_expression: '{{ data.number }}',
  masked: true,
  container: '/pci/high/',
  created_at: new Date(now).toISOString(),
  created_by: tenantId,
  log_id: newTimeOrderedId(now, randomBytes),
  cvc_sealed: CVC_SEALED,
  cvc_expires_at: new Date(now + HOUR_MS).toISOString(),
});

const app = fastify();
app.get('/', async () => 'ready');
app.post('/', async () => {
  await insertTokens({ tenant_id: tenantId }, [row(Date.now())], {
    actor_type: 'application',
    message: 'Token created',
  });
  return value;
});
await app.listen({ host: '127.0.0.1', port: Number(port) });
process.on('SIGTERM', () => void app.close().then(() => process.exit(0)));
