// Backs up and restores a vault with many tokens through the command line, and prints rates and peak memory. One line of JSON.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { Client } from 'pg';
import { startEmbeddedPostgres } from '../src/platform/dev-postgres/dev-postgres.ts';
import { urlOf } from '../src/platform/dev-postgres/connection.ts';
import { root, spawnServer, untilReady } from '../test/support/process.ts';

const TOKENS = Number(process.env['DRILL_TOKENS'] ?? 100_000);
const TOKENS_IN_REQUEST = 500;
const REQUESTS_AT_ONCE = 4;
const MASTER_KEY = Buffer.alloc(32, 7).toString('base64');
const KILOBYTE = 1024;
const MEGABYTE = 1024 * 1024;

const directory = mkdtempSync(join(tmpdir(), 'strongroom-drill-backup-'));
const postgres = await startEmbeddedPostgres({
  dataDir: directory,
  newPassword: () => 'drill',
  log: () => undefined,
});

const onServer = async (sql: string, database = 'postgres'): Promise<unknown[]> => {
  const client = new Client({ ...postgres.address, database, options: '-c strongroom.tenants=*' });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
};

/** Makes an empty database. */
const newDatabase = async (database: string): Promise<string> => {
  await onServer(`CREATE DATABASE ${database} TEMPLATE template0`);
  return urlOf({ ...postgres.address, database });
};

/** How often the kernel's own peak is read, which a process takes along when it ends. */
const WATCH_EVERY_MS = 20;

/** The peak of resident memory of a process, in KB; 0 once it has ended. */
const readPeak = (pid: number): number => {
  try {
    return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
};

/** Runs a command of the built release. @returns seconds and the peak of its resident memory, in MB. */
const measured = async (url: string, args: string[]): Promise<{ seconds: number; peakMb: number; output: string }> => {
  const startMs = performance.now();
  const child = spawn(process.execPath, [join(root, 'bin/strongroom.cjs'), ...args], {
    cwd: directory,
    env: { PATH: process.env['PATH'], NODE_ENV: 'test', DATABASE_URL: url, MASTER_KEY },
  });
  let output = '';
  let peakKb = 0;
  child.stdout.on('data', (chunk) => (output += chunk));
  child.stderr.on('data', (chunk) => (output += chunk));
  const watch = setInterval(() => {
    peakKb = Math.max(peakKb, readPeak(child.pid as number));
  }, WATCH_EVERY_MS);
  const code = await new Promise((resolve) => child.once('close', resolve));
  clearInterval(watch);
  if (code !== 0) throw new Error(`${args.join(' ')} failed: ${output}`);
  return { seconds: (performance.now() - startMs) / 1000, peakMb: Math.round(peakKb / KILOBYTE), output };
};

try {
  const source = await newDatabase('source');
  const server = await spawnServer(directory, { NODE_ENV: 'test', DATABASE_URL: source, MASTER_KEY });
  await untilReady(server);
  const { api_key } = server.credentials();
  let written = 0;
  const write = async (): Promise<void> => {
    while (written < TOKENS) {
      written += TOKENS_IN_REQUEST;
      const body = Array.from({ length: TOKENS_IN_REQUEST }, () => ({ type: 'token', data: crypto.randomUUID() }));
      const { status } = await fetch(`${server.base_url}/tokenize`, {
        method: 'POST',
        headers: { 'svc-api-key': api_key, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      if (status !== 200) throw new Error(`tokenize answered ${status}`);
    }
  };
  await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, write));

  const identity = await generateX25519Identity();
  const keyFile = join(directory, 'backup.key');
  writeFileSync(keyFile, `${identity}\n`, { mode: 0o600 });
  const file = join(directory, 'vault.age');
  const backup = await measured(source, ['backup', file, '--to', await identityToRecipient(identity)]);
  const verify = await measured(source, ['restore', file, '--identity', keyFile, '--verify']);
  const target = await newDatabase('target');
  const restore = await measured(target, ['restore', file, '--identity', keyFile]);
  const [{ count }] = (await onServer('SELECT count(*)::int AS count FROM tokens', 'target')) as [{ count: number }];
  if (count !== written) throw new Error(`${count} of ${written} tokens came back`);
  server.child.kill();
  await server.exited;
  const rate = ({ seconds, peakMb }: { seconds: number; peakMb: number }) => ({
    seconds: Number(seconds.toFixed(1)),
    tokens_per_second: Math.round(written / seconds),
    peak_mb: peakMb,
  });
  console.log(
    JSON.stringify({
      tokens: written,
      file_mb: Number((statSync(file).size / MEGABYTE).toFixed(1)),
      backup: rate(backup),
      verify: rate(verify),
      restore: rate(restore),
    }),
  );
} finally {
  await postgres.stop();
  rmSync(directory, { recursive: true, force: true });
}
