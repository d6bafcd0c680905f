// The papers, held to the truth: the README's commands are run as a newcomer would run them, `npm start` from the checkout
// and then every sh block in order in one shell, each answer compared with the json block that follows it. Where it has a
// server started in another terminal, or again, so does the test.
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { withConfigurationTable } from '../src/cli/configuration.ts';
import { findTokenType } from '../src/vault/token-types.ts';
import {
  freePort,
  isAlive,
  postgresProcesses,
  root,
  type ServerProcess,
  spawnServer,
  untilReady,
} from './support/process.ts';

const read = (file: string): string => readFileSync(join(root, file), 'utf8');
const readme = read('README.md');
const papers = [
  ...readdirSync(root).filter((file) => file.endsWith('.md')),
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => join('docs', file)),
];

let dataDir: string;
let server: ServerProcess;
let echo: ChildProcess | undefined;
beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'strongroom-readme-'));
  server = await spawnServer(dataDir, {}, ['npm', 'start']);
  await untilReady(server);
});
afterAll(() => {
  server?.child.kill('SIGTERM');
  echo?.kill('SIGTERM');
  rmSync(dataDir, { recursive: true, force: true });
});

/** A block of commands, in the reader's shell or for another terminal, and the answer that it promises if json follows. */
type Block = { language: 'sh' | 'console'; code: string; answer: unknown };

const fences = [...readme.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language, body = '']) => ({
  language,
  body,
}));
const blocks: Block[] = fences.flatMap(({ language, body }, index) => {
  const next = fences[index + 1];
  if (language !== 'sh' && language !== 'console') return [];
  return [{ language, code: body, answer: next?.language === 'json' ? JSON.parse(next.body) : undefined }];
});

/** What differs from run to run, by its form. */
const varying = {
  uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  time: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
  fingerprint: /^[1-9A-HJ-NP-Za-km-z]{40,44}$/,
};

/** An answer with what varies numbered in the order of its appearance: equal ids stay equal. Keys in order. */
const settled = (answer: unknown): unknown => {
  const seen = new Map<string, string>();
  const settle = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(settle);
    if (typeof value === 'object' && value !== null)
      return Object.fromEntries(
        Object.entries(value)
          .sort(([one], [other]) => (one < other ? -1 : 1))
          .map(([key, item]) => [key, settle(item)]),
      );
    const form = Object.entries(varying).find(([, pattern]) => typeof value === 'string' && pattern.test(value))?.[0];
    if (form === undefined) return value;
    const known = seen.get(value as string) ?? `${form} ${seen.size + 1}`;
    seen.set(value as string, known);
    return known;
  };
  return settle(answer);
};

type Shell = { run(code: string): Promise<string>; end(): void };

/** A shell that stays open between commands, as a reader's does, and ends with the first that fails. */
const openShell = (env: NodeJS.ProcessEnv): Shell => {
  const END = '--- end of block ---';
  const shell = spawn('bash', ['-euo', 'pipefail'], { cwd: root, env });
  let output = '';
  let words = '';
  let look = (): void => {};
  shell.stdout.on('data', (chunk) => {
    output += chunk;
    look();
  });
  shell.stderr.on('data', (chunk) => (words += chunk));
  return {
    run: (code) =>
      new Promise((resolve, reject) => {
        shell.once('close', () => reject(new Error(`${code}\n${words}`)));
        look = () => {
          if (!output.includes(END)) return;
          const [answer = '', rest = ''] = output.split(`${END}\n`);
          output = rest;
          shell.removeAllListeners('close');
          resolve(answer.trim());
        };
        shell.stdin.write(`${code}\necho; echo '${END}'\n`);
      }),
    end: () => shell.stdin.end(),
  };
};

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

test('its commands work as they are written, in order, and answer what it shows', async () => {
  expect(readme).toContain('```console\nnpm ci && npm start\n```');
  expect(blocks.filter(({ answer }) => answer !== undefined).length).toBeGreaterThanOrEqual(5);
  const echoPort = String(await freePort());
  // The ports and the data directory are this test's own; nothing else of a block is changed.
  const placed = (code: string) =>
    code
      .replaceAll('127.0.0.1:8080', new URL(server.base_url).host)
      .replaceAll('localhost:8443', `localhost:${echoPort}`)
      .replaceAll('./data/', `${dataDir}/`);
  const shell = openShell({ PATH: process.env['PATH'], HOME: process.env['HOME'], DATA_DIR: dataDir });
  for (const { language, code, answer } of blocks) {
    const { variables, script } = parseCommand(placed(code));
    if (language === 'sh') {
      const text = await shell.run(placed(code));
      if (answer !== undefined) expect(settled(JSON.parse(text)), code).toEqual(settled(answer));
    } else if (script === 'npm run echo') echo = await startEcho(echoPort);
    else if (script === 'npm start') await restartServer(variables);
  }
  shell.end();
}, 120_000);

test('the table of variables is that of the schema', () => {
  expect(withConfigurationTable(readme)).toBe(readme);
});

test('the values that it offers for tests pass the checks', () => {
  const valuesOf = (heading: string) => {
    const table = readme.slice(readme.indexOf(heading)).split('\n\n')[0] as string;
    return [...table.matchAll(/^\| `(\d+)`/gm)].map(([, value]) => value as string);
  };
  const cards = valuesOf('| `card`, `card_number` |');
  const banks = valuesOf('| `bank`, `us_bank_routing_number` |');
  expect([cards.length, banks.length].every((count) => count >= 3)).toBe(true);
  for (const card of cards) expect(findTokenType('card_number')?.data.safeParse(card).success, card).toBe(true);
  for (const bank of banks)
    expect(findTokenType('us_bank_routing_number')?.data.safeParse(bank).success, bank).toBe(true);
});

test('the pattern it gives to secret scanners matches a key', () => {
  const pattern = /^svc_\(test\|live\).*$/m.exec(readme)?.[0] as string;
  expect(server.credentials().api_key).toMatch(new RegExp(`^${pattern}$`));
});

/** As GitHub makes an anchor of a heading. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');

test('every relative link of the papers leads to a file and a heading that are there', () => {
  const broken: string[] = [];
  for (const file of papers)
    for (const [, target = ''] of read(file).matchAll(/\]\((?![a-z]+:)([^)\s]+)\)/g)) {
      const [path = '', anchor] = target.split('#');
      const to = path === '' ? file : join(dirname(file), path);
      const headings = () => [...read(to).matchAll(/^#+ (.*)$/gm)].map(([, heading]) => anchorOf(heading as string));
      if (!existsSync(join(root, to)) || (anchor !== undefined && !headings().includes(anchor)))
        broken.push(`${file}: ${target}`);
    }
  expect(broken).toEqual([]);
});

test('the code map names every file of src, and none that is not there', () => {
  const map = read('docs/code-map.md');
  const missing = [...map.matchAll(/`((?:src|test|bench|prisma|bin)\/[\w./-]+)`/g)]
    .map(([, path]) => path as string)
    .filter((path) => !existsSync(join(root, path)));
  const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !file.endsWith('.test.ts') && !file.startsWith('generated/'),
  );
  const unnamed = files.filter((file) => !map.includes(`src/${file}\``) && !map.includes(`\`${basename(file)}\``));
  expect({ missing, unnamed }).toEqual({ missing: [], unnamed: [] });
});

test('SIGTERM to npm start drains, exits 0, and Postgres is stopped', async () => {
  const pids = postgresProcesses(dataDir);
  server.child.kill('SIGTERM');
  expect(await server.exited).toBe(0);
  expect(pids.filter(isAlive)).toEqual([]);
  expect(existsSync(join(dataDir, 'pg', 'postmaster.pid'))).toBe(false);
});
