// Fills a vault before it is measured: cards with live security codes in ten tenants, and rows of the log. Benches on empty
// tables do not see a statement that reads a whole table.
import { Client } from 'pg';
import { databaseOf, type RunningServer } from './servers.ts';
import { headersOf } from './turns.ts';

export const CARDS = 100_000;
const TENANTS = 10;
/** The first tenant has this share of the cards. */
const FIRST_TENANT_SHARE = 0.5;
const LOG_ROWS = 300_000;
const CARDS_PER_REQUEST = 100;
const REQUESTS_AT_ONCE = 4;

/** Sixteen digits with a valid check digit, different for each number below ten billion. */
export const cardNumber = (index: number): string => {
  const digits = `42424${String(index).padStart(10, '0')}`;
  let sum = 0;
  for (let place = 0; place < digits.length; place += 1) {
    const digit = Number(digits[digits.length - 1 - place]);
    const doubled = place % 2 === 0 ? digit * 2 : digit;
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return `${digits}${(10 - (sum % 10)) % 10}`;
};

export const cardOf = (index: number, more: object = { cvc: '123' }) => ({
  type: 'card',
  data: { number: cardNumber(index), expiration_month: 12, expiration_year: 2030, ...more },
});

/** Entries of the log in the past, spread over the tenants and their tokens as the tokens are. */
const INSERT_LOGS = `
INSERT INTO audit_log (tenant_id, id, actor_id, actor_type, entity_type, entity_ids, operation, message, created_at, disclosure, mac)
SELECT t.tenant_id,
  (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' ||
    substr(md5(n::text), 4, 15))::uuid,
  t.created_by, 'application', t.type, ARRAY[t.id], 'read', 'Token retrieved', at, 'masked', gen_random_uuid()
FROM (
  SELECT n, now() - n * interval '1 second' AS at, 1 + n % (SELECT count(*) FROM tokens) AS number
  FROM generate_series(1, $1::int) AS n
) AS rows
JOIN (SELECT *, row_number() OVER () AS number FROM tokens) AS t USING (number)`;

/** Fills the log in proportion to the tokens that are there. */
export const insertLogs = async (client: Client, count: number): Promise<void> => {
  await client.query(INSERT_LOGS, [count]);
};

const post = async (url: string, api_key: string, body: unknown): Promise<any> => {
  const response = await fetch(url, { method: 'POST', headers: headersOf(api_key), body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return response.json();
};

/** Ids of cards of the first tenant, with their numbers known by `cardOf`. */
export type FilledVault = { ids: string[]; reveal_key: string; other_keys: string[] };

/** @param share of the usual numbers: 1 fills 100,000 cards. */
export const fillVault = async (server: RunningServer, share = 1): Promise<FilledVault> => {
  const { base_url, api_key, tenant_id } = server.credentials;
  const other_keys: string[] = [];
  for (let tenant = 1; tenant < TENANTS; tenant += 1) {
    const made = server.command(['tenants', 'create', '--name', `Tenant ${tenant}`, '--json']);
    other_keys.push((made as { api_key: string }).api_key);
  }
  const rules = [
    { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read', 'token:search', 'token:use'] },
  ];
  const reveal = server.command(['keys', 'create', '--tenant', tenant_id, '--rules', JSON.stringify(rules), '--json']);
  const ids: string[] = [];
  const first = Math.round(CARDS * share * FIRST_TENANT_SHARE);
  let next = 0;
  const fill = async (): Promise<void> => {
    while (next < CARDS * share) {
      const from = next;
      next += CARDS_PER_REQUEST;
      const cards = Array.from({ length: CARDS_PER_REQUEST }, (_, index) => cardOf(from + index));
      const key = from < first ? api_key : (other_keys[from % other_keys.length] as string);
      const made = (await post(`${base_url}/tokenize`, key, cards)) as { id: string }[];
      if (from < first) ids.push(...made.map(({ id }) => id));
    }
  };
  await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, fill));
  const client = new Client(await databaseOf(server.dataDir));
  await client.connect();
  await insertLogs(client, Math.round(LOG_ROWS * share));
  await client.query('ANALYZE');
  await client.end();
  return { ids, reveal_key: (reveal as { api_key: string }).api_key, other_keys };
};
