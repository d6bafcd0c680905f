// The README's own commands, run as a newcomer would: `npm start` from the checkout, then every sh block in order in one
// shell, each answer compared with the json block that follows it.
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { withConfigurationTable } from '../src/cli/configuration.ts';
import { isAlive, postgresProcesses, root, type ServerProcess, spawnServer, untilReady } from './support/process.ts';

const readme = readFileSync(join(root, 'README.md'), 'utf8');
const END = '--- end of block ---';

let dataDir: string;
let server: ServerProcess;
beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'strongroom-readme-'));
  server = await spawnServer(dataDir, {}, ['npm', 'start']);
  await untilReady(server);
});
afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

type Block = { code: string; answer: unknown };

const blocks: Block[] = [...readme.matchAll(/```sh\n([\s\S]*?)```(?:\s*```json\n([\s\S]*?)```)?/g)].map(
  ([, code = '', answer]) => ({
    code,
    answer: answer === undefined ? undefined : JSON.parse(answer),
  }),
);

test('its commands work as written, and answer what it shows', async () => {
  // The port and the data directory are this test's own; nothing else of a block is changed.
  const placed = ({ code }: Block) =>
    code.replaceAll('127.0.0.1:8080', new URL(server.base_url).host).replaceAll('./data/', `${dataDir}/`);
  const first = blocks.findIndex(({ code }) => code.includes('export SVC_API_KEY'));
  expect(first).toBeGreaterThanOrEqual(0);
  // The demonstration at the top needs the key that the quick start exports.
  const ordered = [...blocks.slice(first), ...blocks.slice(0, first)];
  expect(ordered.filter(({ answer }) => answer !== undefined).length).toBeGreaterThanOrEqual(3);
  const script = ordered.map((block) => `${placed(block)}\necho; echo '${END}'`).join('\n');
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: root,
    env: { ...process.env, DATA_DIR: dataDir },
  });
  const answers = stdout.split(END).map((text) => text.trim());
  for (const [index, { code, answer }] of ordered.entries())
    if (answer !== undefined) expect(JSON.parse(answers[index] as string), code).toEqual(answer);
    else if (code.includes('/tokenize') && !code.includes('export CARD'))
      expect(answers[index]).toMatch(/[0-9a-f-]{36}/);
});

test('its table of variables is that of the schema', () => {
  expect(withConfigurationTable(readme)).toBe(readme);
});

test('its links and those of the documents lead somewhere', () => {
  for (const file of ['README.md', 'SECURITY.md', 'STYLE.md', 'CHANGELOG.md', 'docs/code-map.md'])
    for (const [, target = ''] of readFileSync(join(root, file), 'utf8').matchAll(/\]\((?!https?:|#|mailto:)([^)#]+)/g))
      expect(existsSync(join(root, dirname(file), target)), `${file}: ${target}`).toBe(true);
});

test('the code map names every file of src that is there, and none that is not', () => {
  const map = readFileSync(join(root, 'docs/code-map.md'), 'utf8');
  for (const [, path = ''] of map.matchAll(/`(src\/[\w./-]+)`/g)) expect(existsSync(join(root, path)), path).toBe(true);
});

test('SIGTERM to npm start drains, exits 0, and Postgres is stopped', async () => {
  const pids = postgresProcesses(dataDir);
  server.child.kill('SIGTERM');
  expect(await server.exited).toBe(0);
  expect(pids.filter(isAlive)).toEqual([]);
});
