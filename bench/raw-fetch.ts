// The limit for detokenize-100: pg alone, in a process of its own, fetching the same rows by the same prepared statement,
// without HTTP, opening nothing and logging nothing. Prints fetches a second.
import { Pool } from 'pg';
import { FIND_TOKENS } from '../src/modules/tokens/rows/token-sql.ts';

const [addressText, tenantId, idsText, connectionsText, secondsText] = process.argv.slice(2);
const connections = Number(connectionsText);
const ids = JSON.parse(idsText as string) as string[];
const pool = new Pool({ ...(JSON.parse(addressText as string) as object), max: connections });

const until = Date.now() + Number(secondsText) * 1000;
let fetches = 0;
const began = performance.now();
const loop = async (): Promise<void> => {
  while (Date.now() < until) {
    const { rowCount } = await pool.query({ name: 'find', text: FIND_TOKENS, values: [tenantId, ids] });
    if (rowCount !== ids.length) throw new Error('a row is missing');
    fetches += 1;
  }
};
await Promise.all(Array.from({ length: connections }, loop));
console.log(fetches / ((performance.now() - began) / 1000));
await pool.end();
