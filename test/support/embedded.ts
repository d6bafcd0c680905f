// A directory for an embedded PostgreSQL, and what runs in it.
import { mkdtemp, readdir, readFile, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { test as base } from 'vitest';
import { randomBase62 } from '../../src/platform/crypto/digest.ts';
import { randomBytesFromKernel } from '../../src/platform/crypto/random.ts';
import type { DatabaseAddress } from '../../src/platform/dev-postgres/connection.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/platform/dev-postgres/dev-postgres.ts';
import { seeingAllTenants } from './database.ts';
import { killIfAlive } from './process.ts';

export const newPassword = () => randomBase62(32, randomBytesFromKernel);

export type Place = {
  dataDir: string;
  /** What the starts told. */
  events: string[];
  start(dataDir?: string): Promise<EmbeddedPostgres>;
};

/** Each test has a directory of its own, so that they can run beside each other. */
export const it = base.extend<Place>({
  // vitest reads from the pattern what a fixture needs: nothing.
  // oxlint-disable-next-line no-empty-pattern
  dataDir: async ({}, use) => {
    const scratch = await mkdtemp(join(tmpdir(), 'strongroom-embedded-'));
    const dataDir = join(scratch, 'data');
    await use(dataDir);
    for (const pid of await processesOf(dataDir)) killIfAlive(pid);
    await rm(scratch, { recursive: true, force: true, maxRetries: 20 });
  },
  // oxlint-disable-next-line no-empty-pattern
  events: async ({}, use) => {
    await use([]);
  },
  start: async ({ dataDir, events }, use) => {
    await use((at = dataDir) =>
      startEmbeddedPostgres({ dataDir: at, newPassword, log: (event) => void events.push(event) }),
    );
  },
});

/** What an application does, as the text of a program: it starts the server, says so, and stays. */
export const programThatStarts = (dataDir: string, afterwards = 'setInterval(() => undefined, 1_000);') => `
  const { startEmbeddedPostgres } = await import('./src/platform/dev-postgres/dev-postgres.ts');
  const postgres = await startEmbeddedPostgres({
    dataDir: ${JSON.stringify(dataDir)},
    newPassword: () => ${JSON.stringify(newPassword())},
    log: () => undefined,
  });
  console.log('ready');
  ${afterwards}`;

export const postmasterPid = async (dataDir: string) =>
  Number((await readFile(join(dataDir, 'pg/postmaster.pid'), 'utf8')).split('\n')[0]);

/** Every process that works in a cluster below the directory: the server and its children. */
export const processesOf = async (dataDir: string): Promise<number[]> => {
  const pids = (await readdir('/proc')).map(Number).filter((pid) => pid > 0);
  const found = await Promise.all(
    pids.map(async (pid) => {
      const directory = await readlink(`/proc/${pid}/cwd`).catch(() => '');
      return directory.startsWith(join(dataDir, '/')) ? [pid] : [];
    }),
  );
  return found.flat();
};

export const query = async (address: DatabaseAddress, sql: string): Promise<unknown[]> => {
  const client = new Client({ ...address, ...seeingAllTenants });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end().catch(() => undefined);
  }
};
