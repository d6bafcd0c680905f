// Backup, restore, erasures, keys and proofs of a distributed vault on several workers, by the commands of the operator.
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import type { RunningServer } from '../../bench/servers.ts';
import { headersOf } from '../../bench/turns.ts';
import { DISTRIBUTED_TABLES } from '../../src/platform/base/tables.ts';
import { makeCluster, makeDatabase, type Node, runOn } from './cluster.ts';
import { type Commands, say } from './commands.ts';
import { startWriters, WRITERS_START_MS } from './writers.ts';

/** Security codes are in no backup. */
const COPIED = DISTRIBUTED_TABLES.filter((table) => table !== 'token_cvcs');

const countsOf = async (url: string): Promise<string> => {
  const columns = COPIED.map((table) => `(SELECT count(*)::int FROM ${table}) AS ${table}`);
  return JSON.stringify((await runOn(url, `SELECT ${columns.join(', ')}`))[0]);
};

/** A new key pair of age, whose secret key is in a file. */
const makeKey = async (directory: string, name: string): Promise<{ keyFile: string; recipient: string }> => {
  const identity = await generateX25519Identity();
  const keyFile = join(directory, name);
  writeFileSync(keyFile, `${identity}\n`, { mode: 0o600 });
  return { keyFile, recipient: await identityToRecipient(identity) };
};

/** The vault comes back to one PostgreSQL, to Citus before it is distributed, and after. The server is stopped. */
export const backUpAndRestore = async (
  { must }: Commands,
  directory: string,
  url: string,
  coordinator: Node,
  workers: Node[],
): Promise<void> => {
  const { keyFile, recipient } = await makeKey(directory, 'backup.key');
  const file = join(directory, 'vault.age');
  must(url, ['backup', file, '--to', recipient]);
  const restore = ['restore', file, '--identity', keyFile];
  must(url, [...restore, '--verify']);
  const counts = await countsOf(url);
  const expectCopy = async (copy: string, where: string): Promise<void> => {
    must(copy, ['doctor']);
    const found = await countsOf(copy);
    if (found !== counts) throw new Error(`${where} has ${found}, and the vault ${counts}`);
  };

  await makeDatabase(coordinator, 'copy_plain', false);
  const plain = coordinator.url('copy_plain');
  must(plain, restore);
  await expectCopy(plain, 'one PostgreSQL');

  await makeCluster(coordinator, workers, 'copy_then_distributed');
  const later = coordinator.url('copy_then_distributed');
  must(later, restore);
  must(later, ['db', 'distribute']);
  await expectCopy(later, 'a vault that was distributed after the restore');

  await makeCluster(coordinator, workers, 'copy_into_distributed');
  const into = coordinator.url('copy_into_distributed');
  must(into, ['migrate']);
  must(into, ['db', 'distribute']);
  must(into, restore);
  await expectCopy(into, 'a vault that was distributed before the restore');
  say(`a backup was restored three times: ${counts}`);
};

/** A backup while clients write: it verifies, and has each token that was acknowledged before it began. */
export const backUpUnderLoad = async (
  { must, start }: Commands,
  directory: string,
  url: string,
  coordinator: Node,
  server: RunningServer,
): Promise<void> => {
  const { keyFile, recipient } = await makeKey(directory, 'backup-under-load.key');
  const file = join(directory, 'under-load.age');
  const writers = startWriters(server);
  await pause(WRITERS_START_MS);
  const before = [...writers.acknowledged];
  const child = start(url, ['backup', file, '--to', recipient]);
  const [stderr] = await Promise.all([text(child.stderr as Readable), once(child, 'close')]);
  const after = writers.acknowledged.length;
  await writers.stop();
  if (child.exitCode !== 0) throw new Error(`a backup under load failed: ${stderr}`);
  if (after === before.length) throw new Error('nothing was written during the backup');
  const restore = ['restore', file, '--identity', keyFile];
  must(url, [...restore, '--verify']);
  await makeDatabase(coordinator, 'copy_under_load', false);
  const copy = coordinator.url('copy_under_load');
  must(copy, restore);
  must(copy, ['doctor']);
  const [found] = await runOn(copy, `SELECT count(*)::int AS count FROM tokens WHERE id IN ('${before.join("','")}')`);
  if (found?.['count'] !== before.length)
    throw new Error(`the backup has ${found?.['count']} of ${before.length} tokens that were acknowledged before it`);
  say(`a backup beside ${after - before.length} writes has all ${before.length} tokens of before, and was restored`);
};

/** Erasures since a backup, new data keys, and the proofs of the log, beside a server. */
export const operate = async (
  { must }: Commands,
  directory: string,
  url: string,
  server: RunningServer,
): Promise<void> => {
  const { base_url, api_key, tenant_id } = server.credentials;
  const ask = async (method: string, path: string, body?: unknown) => {
    const init = { method, headers: headersOf(api_key), ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
    return fetch(base_url + path, init);
  };
  const made = (await (await ask('POST', '/tokens', { data: 'gone' })).json()) as { id: string };
  await ask('DELETE', `/tokens/${made.id}`);
  const list = join(directory, 'erasures');
  must(url, ['erasures', 'export', list]);
  must(url, ['erasures', 'replay', list]);
  must(url, ['keys', 'rotate-root']);
  must(url, ['keys', 'rotate-tenant', '--tenant', tenant_id]);
  const archive = join(directory, 'archive');
  mkdirSync(archive);
  must(url, ['logs', 'archive', archive]);
  must(url, ['logs', 'verify', '--database']);
  say('erasures, keys, archives and proofs work by their commands');
};
