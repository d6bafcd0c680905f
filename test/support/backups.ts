// A key pair of age and a directory for backups, and the commands that write and restore them.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { Client } from 'pg';
import { afterAll, beforeAll, expect } from 'vitest';
import { KEPT_TABLES } from '../../src/platform/base/tables.ts';
import { createEmptyDatabase, type TestDatabase } from './database.ts';
import { callCommand, type CommandResult } from './command.ts';
import { runCommand } from './process.ts';
import { startServer, TEST_ROOT_KEY, type TestServer } from './server.ts';

export type Ended = CommandResult;

/** Runs a command in a directory, with nothing configured but `environment`. */
export const runToEnd = (args: string[], environment: Record<string, string>, directory: string): Promise<Ended> =>
  runCommand(args, environment, directory).then(
    (output) => ({ code: 0, ...output }),
    (error: Ended) => error,
  );

/** Calls a command in this process. */
export const callToEnd: typeof runToEnd = (argv, env, cwd) => callCommand(argv, { env, cwd });

export type Backups = Awaited<ReturnType<typeof openBackups>>;

/** @param run runs a command: as a process, or in this one (callToEnd). */
export const openBackups = async (run = runToEnd) => {
  const directory = mkdtempSync(join(tmpdir(), 'strongroom-backup-'));
  const fileNamed = (name: string): string => join(directory, name);
  const identity = await generateX25519Identity();
  const recipient = await identityToRecipient(identity);
  const identityFile = fileNamed('backup.key');
  writeFileSync(identityFile, `# public key: ${recipient}\n${identity}\n`, { mode: 0o600 });
  const environmentOf = (url: string): Record<string, string> => ({
    NODE_ENV: 'test',
    DATABASE_URL: url,
    MASTER_KEY: TEST_ROOT_KEY,
    DATA_DIR: fileNamed('none'),
  });
  const cli = (url: string, args: string[], more: Record<string, string> = {}): Promise<Ended> =>
    run(args, { ...environmentOf(url), ...more }, directory);
  return {
    directory,
    fileNamed,
    identity,
    recipient,
    identityFile,
    environmentOf,
    cli,
    backUp: async (url: string, name: string): Promise<string> => {
      const file = fileNamed(name);
      const { code, stderr } = await cli(url, ['backup', file, '--to', recipient]);
      expect([code, stderr]).toEqual([0, expect.stringMatching(/^Counting: .*\n(?:.*\n)*Writing: /)]);
      return file;
    },
    restore: (url: string, file: string, ...more: string[]): Promise<Ended> =>
      cli(url, ['restore', file, '--identity', identityFile, ...more]),
    close: () => rmSync(directory, { recursive: true, force: true }),
  };
};

export const queryOf = async (database: TestDatabase, sql: string, values: unknown[] = []): Promise<any[]> => {
  const client = new Client(database.address);
  await client.connect();
  try {
    return (await client.query(sql, values)).rows;
  } finally {
    await client.end();
  }
};

export const withEmpty = async (work: (database: TestDatabase) => Promise<void>): Promise<void> => {
  const database = await createEmptyDatabase();
  try {
    await work(database);
  } finally {
    await database.drop();
  }
};

/** A refused restore leaves no row of the backup, and may be tried again. */
export const expectNothing = async (database: TestDatabase): Promise<void> => {
  const [{ there }] = await queryOf(database, "SELECT to_regclass('tenants') IS NOT NULL AS there");
  if (!there) return;
  for (const table of KEPT_TABLES)
    expect([table, await queryOf(database, `SELECT count(*)::int AS count FROM ${table}`)]).toEqual([
      table,
      [{ count: 0 }],
    ]);
};

/** Makes a token. @returns its id. */
export const tokenize = async (at: TestServer, data: string, more: object = {}): Promise<string> => {
  const { status, body } = await at.tokenize({ type: 'token', data, ...more });
  expect(status).toBe(200);
  return body.id;
};

/** Makes two thousand tokens, so that a backup is larger than 100 KB. */
export const fill = async (at: TestServer): Promise<void> => {
  for (let index = 0; index < 40; index += 1)
    await at.tokenize(Array.from({ length: 50 }, () => ({ type: 'token', data: crypto.randomUUID() })));
};

/** A server in this process, and a directory for backups of it, for the tests of a file. @param run as of `openBackups`. */
export const shareBackups = (run = runToEnd): { backups: Backups; server: TestServer } => {
  const shared = {} as { backups: Backups; server: TestServer };
  beforeAll(async () => {
    [shared.backups, shared.server] = await Promise.all([openBackups(run), startServer()]);
  });
  afterAll(async () => {
    await shared.server.close();
    shared.backups.close();
  });
  return shared;
};
