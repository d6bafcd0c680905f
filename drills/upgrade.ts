// An upgrade without a stop: the server of an earlier commit and the current one serve one database at the same time. Each
// reads, changes and deletes what the other wrote. Usage: npm run drill:upgrade -- COMMIT
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cardOf } from '../bench/filled.ts';
import { type Credentials, databaseOf, stopChild, untilReady } from '../bench/servers.ts';
import { freePort } from '../test/support/process.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const WORKERS = 4;
const ROUNDS = 50;

const say = (text: string): void => void process.stderr.write(`${text}\n`);

/** Starts the server of a directory. @returns its base URL, and how to stop it. */
const start = async (directory: string, environment: Record<string, string>) => {
  const port = await freePort();
  const child = spawn(process.execPath, ['--disable-sigusr1', 'bin/start.cjs'], {
    cwd: directory,
    env: { PATH: process.env['PATH'], PORT: String(port), LOG_FORMAT: 'json', LOG_LEVEL: 'warn', ...environment },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  await untilReady(`http://127.0.0.1:${port}/healthz`, child);
  return { base_url: `http://127.0.0.1:${port}`, stop: () => stopChild(child) };
};

const asking =
  (api_key: string) =>
  async (base_url: string, method: string, path: string, json?: unknown, wanted = 200): Promise<any> => {
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const response = await fetch(`${base_url}${path}`, {
      method,
      headers: { 'svc-api-key': api_key, ...(json !== undefined && { 'content-type': type }) },
      ...(json !== undefined && { body: JSON.stringify(json) }),
    });
    const text = await response.text();
    if (response.status !== wanted)
      throw new Error(`${method} ${path}: ${response.status} in place of ${wanted}\n${text}`);
    return text === '' ? undefined : JSON.parse(text);
  };

/** What one client does with a card, from one server to the other. */
const oneRound = async (ask: ReturnType<typeof asking>, number: number, here: string, there: string) => {
  const made = await ask(here, 'POST', '/tokens', { ...cardOf(number), deduplicate_token: true }, 201);
  const path = `/tokens/${made.id}`;
  const same = await ask(there, 'POST', '/tokens', { ...cardOf(number), deduplicate_token: true }, 201);
  if (same.id !== made.id) throw new Error('two tokens were made of one value');
  await ask(there, 'PATCH', path, { metadata: { round: String(number) } });
  const read = await ask(here, 'GET', path);
  if (read.metadata?.round !== String(number)) throw new Error('a change was lost');
  const [detokenized] = await ask(there, 'POST', '/detokenize', [`{{ ${made.id} }}`]);
  if (JSON.stringify(detokenized) !== JSON.stringify(read.data)) throw new Error('the servers show two values');
  const { data: found } = await ask(here, 'POST', '/tokens/search', { query: `metadata.round:${number}` });
  if (found[0]?.id !== made.id) throw new Error('a search does not find the token');
  const { data: entries } = await ask(there, 'GET', `/logs?entity_id=${made.id}`);
  if (entries.length < 4) throw new Error(`the log has ${entries.length} entries`);
  if (number % 5 === 0) {
    await ask(there, 'DELETE', path, undefined, 204);
    await ask(here, 'GET', path, undefined, 404);
  }
};

const [commit] = process.argv.slice(2);
if (commit === undefined) throw new Error('Name the commit of the earlier version: npm run drill:upgrade -- COMMIT');
const directory = mkdtempSync(join(tmpdir(), 'strongroom-upgrade-'));
const earlier = join(directory, 'earlier');
const dataDir = join(directory, 'data');
const stops: (() => Promise<void>)[] = [];
try {
  say(`checks ${commit} out and installs it`);
  execFileSync('git', ['worktree', 'add', '--detach', earlier, commit], { cwd: root, stdio: 'inherit' });
  execFileSync('npm', ['ci'], { cwd: earlier, stdio: 'inherit' });
  const before = await start(earlier, { DATA_DIR: dataDir });
  stops.push(before.stop);
  const credentials = JSON.parse(readFileSync(join(dataDir, 'dev-credentials.json'), 'utf8')) as Credentials;
  const ask = asking(credentials.api_key);
  await ask(
    before.base_url,
    'POST',
    '/tokenize',
    Array.from({ length: 1_000 }, (_, index) => cardOf(index)),
  );
  const address = await databaseOf(dataDir);
  const { host, port, user, password, database } = address;
  say('starts the current version on the same database');
  const now = await start(root, {
    DATABASE_URL: `postgresql://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`,
    MASTER_KEY: readFileSync(join(dataDir, 'master.key'), 'utf8').trim(),
    DATA_DIR: join(directory, 'other'),
  });
  stops.unshift(now.stop);
  let next = 10_000;
  const work = async (worker: number): Promise<void> => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const isForward = (worker + round) % 2 === 0;
      const [here, there] = isForward ? [before.base_url, now.base_url] : [now.base_url, before.base_url];
      await oneRound(ask, (next += 1), here, there);
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, (_, worker) => work(worker)));
  say(`${WORKERS * ROUNDS} rounds between the two versions: nothing was lost, no value was stored twice`);
} finally {
  for (const stop of stops) await stop();
  execFileSync('git', ['worktree', 'remove', '--force', earlier], { cwd: root, stdio: 'inherit' });
  rmSync(directory, { recursive: true, force: true });
}
