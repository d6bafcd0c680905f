// The process between a test and its vault: starts the vault, and removes all of it when the test stops or is killed.
// The end of its standard input is the end of the test, however that came: the system closes the pipe of a killed process.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Asked, Told } from './messages.ts';

/** A vault starts in some seconds. On a busy machine it takes longer. */
const START_MS_MAX = 60_000;
/** A vault stops in 0.1 s, unless a request is under way. Nothing of it is kept, so that it need not be waited for. */
const STOP_MS_MAX = 3_000;
const LOOK_MS = 20;
/** Lines of the vault's output that a failure shows. */
const LINES_SHOWN = 20;

const { server, directory, environment } = JSON.parse(process.argv[2] ?? '') as Asked;

const tell = (told: Told): void => void process.stdout.write(`${JSON.stringify(told)}\n`);

const makeDirectory = (): string => {
  try {
    return mkdtempSync(join(directory, 'strongroom-vault-'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    tell({
      kind: 'failed',
      reason: `No directory for the vault can be made in ${directory} (${code}). Name one that exists and that this user may write to: startVault({ directory })`,
    });
    process.exit(1);
  }
};

const own = makeDirectory();
const dataDir = join(own, 'data');
// Files of the vault's processes too: the vault is killed if it does not stop.
const temporary = join(own, 'tmp');
mkdirSync(temporary);

const lines: string[] = [];
/** The start's own sentence, which is no line of JSON; else the last lines. */
const findReason = (): string => {
  const sentences = lines.filter((line) => !line.startsWith('{'));
  return (sentences.length > 0 ? sentences : lines.slice(-LINES_SHOWN)).join('\n');
};

const vault = spawn(process.execPath, [join(server, 'bin/start.cjs')], {
  // Not the directory of the test, whose .env file would be read.
  cwd: own,
  env: { ...environment, DATA_DIR: dataDir, TMPDIR: temporary },
  stdio: ['ignore', 'pipe', 'pipe'],
});
const ended = new Promise<void>((resolve) => {
  vault.once('close', () => resolve());
  vault.once('error', (error) => {
    lines.push(error.message);
    resolve();
  });
});
const pause = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** A vault that was killed leaves its PostgreSQL running: by an immediate shutdown it ends with all its processes. */
const stopPostgres = async (): Promise<void> => {
  const record = join(dataDir, 'pg/postmaster.pid');
  if (!existsSync(record)) return;
  const pid = Number(readFileSync(record, 'utf8').split('\n')[0]);
  for (const signal of ['SIGQUIT', 'SIGKILL'] as const) {
    if (!pid || !isAlive(pid)) return;
    process.kill(pid, signal);
    for (let waitedMs = 0; waitedMs < STOP_MS_MAX && isAlive(pid); waitedMs += LOOK_MS) await pause(LOOK_MS);
  }
};

let stopping: Promise<void> | undefined;
const stopOnce = async (): Promise<void> => {
  vault.kill('SIGTERM');
  const killing = setTimeout(() => vault.kill('SIGKILL'), STOP_MS_MAX);
  await ended;
  clearTimeout(killing);
  await stopPostgres();
  rmSync(own, { recursive: true, force: true, maxRetries: 20 });
};
const stop = (): Promise<void> => (stopping ??= stopOnce());
const stopAndExit = (): void => void stop().then(() => process.exit(0));

const fail = async (reason: string): Promise<never> => {
  await stop();
  tell({ kind: 'failed', reason });
  process.exit(1);
};

const startTimeout = setTimeout(
  () => void fail(`The vault did not start within ${START_MS_MAX / 1000} s.\n${findReason()}`),
  START_MS_MAX,
);

const readReady = (line: string): void => {
  if (!line.includes('"msg":"listening"')) return;
  clearTimeout(startTimeout);
  const { base_url } = JSON.parse(line) as { base_url: string };
  const found = JSON.parse(readFileSync(join(dataDir, 'dev-credentials.json'), 'utf8')) as Record<string, string>;
  const { api_key: key = '', tenant_id: tenantId = '', application_id: applicationId = '' } = found;
  lines.length = 0;
  isReady = true;
  tell({ kind: 'ready', url: base_url, key, tenantId, applicationId, dataDir });
};

let isReady = false;
for (const stream of [vault.stdout, vault.stderr])
  createInterface({ input: stream }).on('line', (line) => {
    lines.push(line);
    if (lines.length > LINES_SHOWN * 2) lines.shift();
    if (!isReady) readReady(line);
  });

void ended.then(() => {
  clearTimeout(startTimeout);
  if (stopping) return;
  if (isReady) stopAndExit();
  else void fail(`The vault did not start: ${findReason()}`);
});

for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) process.on(signal, stopAndExit);
// The process of the test has ended, so nothing reads this output any more.
process.stdout.on('error', stopAndExit);
process.stdin.on('end', stopAndExit).on('error', stopAndExit).resume();
