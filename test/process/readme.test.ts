// Runs every command and program of the README, the guides and the clients as a reader would: `npm start` from the checkout, then the
// blocks of a page in order in one shell. Compares each output with the json block that follows. Where a page starts a server in another
// terminal, or restarts the vault, the test does so too.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type Block, blocksOf, openShell, pagesWithCommands, settled } from '../support/pages.ts';
import { findProgram, isInstalled } from '../support/programs.ts';
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

const python = isInstalled('python3-httpx') ? findProgram('python3-httpx') : undefined;

/** What the shell is given: a program goes to the interpreter of its language. Undefined where that is not installed. */
const commandOf = (language: Block['language'], code: string): string | undefined => {
  if (language === 'sh') return code;
  if (language === 'python' && python === undefined) return undefined;
  const interpreter =
    language === 'js' ? `'${process.execPath}' --input-type=module` : `PYTHONPATH=sdk/python '${python}'`;
  return `${interpreter} <<'END_OF_PROGRAM'\n${code}END_OF_PROGRAM`;
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
  const credentials = { SVC_API_KEY: server.credentials().api_key, SVC_URL: server.base_url };
  // Pages of packages have programs alone, and say which variables they read.
  const isOfPackage = !/^(?:README|docs)/.test(page);
  const shell = openShell({
    PATH: process.env['PATH'],
    HOME: process.env['HOME'],
    DATA_DIR: dataDir,
    // Profiles of the command line are this test's own, too.
    XDG_CONFIG_HOME: join(dataDir, 'config'),
    ...(isOfPackage && credentials),
  });
  onTestFinished(endEcho);
  for (const { language, code, answer } of blocksOf(page)) {
    const { variables, script } = parseCommand(placed(code));
    if (language !== 'console') {
      const command = commandOf(language, placed(code));
      if (command === undefined) continue;
      const text = await shell.run(command);
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
