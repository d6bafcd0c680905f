// Runs every command of the README and the guides as a reader would: `npm start` from the checkout, then the sh blocks of a
// page in order in one shell. Compares each output with the json block that follows. Where a page starts a server in another
// terminal, or restarts the vault, the test does so too.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { blocksOf, openShell, pagesWithCommands, settled } from '../support/pages.ts';
import {
  freePort,
  isAlive,
  postgresProcesses,
  root,
  type ServerProcess,
  spawnServer,
  untilReady,
} from '../support/process.ts';

const read = (file: string): string => readFileSync(join(root, file), 'utf8');

let dataDir: string;
let server: ServerProcess;
let echo: ChildProcess | undefined;
const endEcho = async (): Promise<void> => {
  if (!echo) return;
  const ended = once(echo, 'exit');
  echo.kill('SIGTERM');
  await ended;
  echo = undefined;
};
beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'strongroom-readme-'));
  server = await spawnServer(dataDir, {}, ['npm', 'start']);
  await untilReady(server);
});
afterAll(() => {
  server?.child.kill('SIGTERM');
  rmSync(dataDir, { recursive: true, force: true });
});

/** What another terminal is told: variables, and one of our scripts. */
const parseCommand = (line: string): { variables: Record<string, string>; script: string } => {
  const words = line.trim().split(' ');
  const isVariable = (word: string): boolean => /^[A-Z_]+=/.test(word);
  const variables = words.filter(isVariable).map((word) => word.split('=') as [string, string]);
  return { variables: Object.fromEntries(variables), script: words.filter((word) => !isVariable(word)).join(' ') };
};

const startEcho = async (port: string): Promise<ChildProcess> => {
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'], DATA_DIR: dataDir, PORT: port };
  const child = spawn('npm', ['run', 'echo'], { cwd: root, env, stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise<void>((resolve, reject) => {
    child.once('exit', () => reject(new Error('npm run echo ended')));
    child.stdout.on('data', (text) => String(text).includes(`localhost:${port}`) && resolve());
  });
  return child;
};

const restartServer = async (variables: Record<string, string>): Promise<void> => {
  server.child.kill('SIGTERM');
  expect(await server.exited).toBe(0);
  const { port } = new URL(server.base_url);
  server = await spawnServer(dataDir, { PORT: port, ...variables }, ['npm', 'start']);
  await untilReady(server);
};

test('the README and the guides have commands with outputs', () => {
  expect(read('README.md')).toContain('```console\nnpm ci && npm start\n```');
  const withAnswer = pagesWithCommands.map(
    (page) => blocksOf(page).filter(({ answer }) => answer !== undefined).length,
  );
  expect(Math.min(...withAnswer)).toBeGreaterThanOrEqual(1);
});

test.each(pagesWithCommands)('the commands of %s work as written, and print what it shows', async (page) => {
  const echoPort = String(await freePort());
  // The ports and the data directory are this test's own; nothing else of a block is changed.
  const placed = (code: string) =>
    code
      .replaceAll('127.0.0.1:8080', new URL(server.base_url).host)
      .replaceAll('localhost:8443', `localhost:${echoPort}`)
      .replaceAll('./data/', `${dataDir}/`);
  // Profiles of the command line are this test's own, too.
  const own = { DATA_DIR: dataDir, XDG_CONFIG_HOME: join(dataDir, 'config') };
  const shell = openShell({ PATH: process.env['PATH'], HOME: process.env['HOME'], ...own });
  onTestFinished(endEcho);
  for (const { language, code, answer } of blocksOf(page)) {
    const { variables, script } = parseCommand(placed(code));
    if (language === 'sh') {
      const text = await shell.run(placed(code));
      if (answer !== undefined) expect(settled(JSON.parse(text)), code).toEqual(settled(answer));
    } else if (script === 'npm run echo') {
      await endEcho();
      echo = await startEcho(echoPort);
    } else if (script === 'npm start') await restartServer(variables);
  }
  shell.end();
});

test('the pattern for secret scanners matches a key', () => {
  const pattern = /^svc_\(test\|live\).*$/m.exec(read('docs/security.md'))?.[0] as string;
  expect(server.credentials().api_key).toMatch(new RegExp(`^${pattern}$`));
});

test('SIGTERM to npm start drains, exits 0, and Postgres is stopped', async () => {
  const pids = postgresProcesses(dataDir);
  server.child.kill('SIGTERM');
  expect(await server.exited).toBe(0);
  expect(pids.filter(isAlive)).toEqual([]);
  expect(existsSync(join(dataDir, 'pg', 'postmaster.pid'))).toBe(false);
});
