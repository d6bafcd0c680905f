// What the echo guard costs: large answers that are searched, against the same answers that are not.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { kinds } from './kinds.ts';
import { makeCard, withProxy } from './proxy.ts';
import { median, round } from './turns.ts';

const run = promisify(execFile);
const transfers = fileURLToPath(new URL('transfers.ts', import.meta.url));

const ROUNDS = 5;
const MEGABYTE = 1024 * 1024;
const BODY_BYTES = 32 * MEGABYTE;
const AT_LEAST = 0.6;
/** Memory that `proxy-memory` allows for bodies that are not searched. */
const MEMORY_AT_MOST_MB = 96;
const SAMPLE_MS = 20;

/** Bytes a second with the guard, as a share of those without it, by kind; and what the server's memory grows by. */
export const echo = () =>
  withProxy(async (place) => {
    const { server, headers } = place;
    const card = { number: '5105105105105100', expiration_month: 12, expiration_year: 2040, cvc: '739' };
    const id = await makeCard(place, card);
    let errors = 0;
    const megabytesPerSecond = async (path: string, guard: string): Promise<number> => {
      const { 'content-type': _, ...others } = headers(path);
      const sent = { ...others, 'x-card': `{{ ${id} | json: '$.number' }}`, 'svc-echo-guard': guard };
      const args = [`${server.credentials.base_url}/proxy`, JSON.stringify(sent), 'down', BODY_BYTES, 1].map(String);
      const { stdout } = await run(process.execPath, [transfers, ...args]);
      const done = JSON.parse(stdout) as { seconds: number; errors: number };
      errors += done.errors;
      return BODY_BYTES / MEGABYTE / done.seconds;
    };
    const measured: Record<string, number> = {};
    let least = Infinity;
    let levelMb = 0;
    let peakMb = 0;
    for (const kind of Object.keys(kinds)) {
      const path = `/${kind}/${BODY_BYTES}`;
      for (const guard of ['off', 'mask', 'off', 'mask']) await megabytesPerSecond(path, guard);
      levelMb ||= server.residentMb();
      const look = setInterval(() => (peakMb = Math.max(peakMb, server.residentMb())), SAMPLE_MS);
      const searched: number[] = [];
      const shares: number[] = [];
      for (let turn = 0; turn < ROUNDS; turn += 1) {
        const off = await megabytesPerSecond(path, 'off');
        const mask = await megabytesPerSecond(path, 'mask');
        searched.push(mask);
        shares.push(mask / off);
      }
      clearInterval(look);
      measured[kind] = round(median(shares));
      measured[`${kind}_mb_per_second`] = Math.round(median(searched));
      least = Math.min(least, median(shares));
    }
    const growth = peakMb - levelMb;
    return {
      ratio: round(least),
      at_least: AT_LEAST,
      holds: least >= AT_LEAST && growth <= MEMORY_AT_MOST_MB && errors === 0,
      ...measured,
      growth_mb: round(growth),
      at_most_mb: MEMORY_AT_MOST_MB,
      errors,
    };
  });
