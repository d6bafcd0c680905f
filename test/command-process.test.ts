// The command line as a process: its arguments, exit code, streams and end. What its commands do is tested by calls in process.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import { usage } from '../src/cli/command-table.ts';
import { variablesHelp } from '../src/cli/variable-help.ts';
import { root, sourceEnvironment } from './support/process.ts';

const NOWHERE = 'postgresql://u:p@127.0.0.1:9/d';

/** Starts a command. `ended` resolves with its exit code, or the signal that ended it, and its output. */
const start = (words: string[], env: Record<string, string> = {}) => {
  const child = spawn(process.execPath, [join(root, 'src/cli/main.ts'), ...words], {
    env: { ...sourceEnvironment, DATA_DIR: '/nowhere', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  const ended = once(child, 'close').then(([code, signal]) => ({
    end: (code ?? signal) as number | string,
    ...output,
  }));
  return { child, ended };
};
const run = (words: string[], env?: Record<string, string>) => start(words, env).ended;

/** Runs a module before the command does. */
const importing = (code: string) => ({ NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}` });

const firstHelp = `${usage(false)}\n${await variablesHelp(false)}\n`;

describe.concurrent('a command', () => {
  test.for<[words: string, end: number, stdout: string, stderr: string]>([
    ['', 0, firstHelp, ''],
    ['--help', 0, firstHelp, ''],
    ['--version', 0, 'strongroom 0.2.0\n', ''],
    ['tenants create', 1, '', 'The option --name is needed.'],
    ['tenants list --fly', 1, '', 'There is no option --fly'],
    ['import --format csv', 2, '', 'import needs FILE.'],
    ['export --fly', 2, '', 'There is no option --fly'],
    ['tenants list', 1, '', 'There is no vault in /nowhere'],
  ])('"%s" exits with %s', async ([words, end, stdout, stderr], { expect }) => {
    const ended = await run(words.split(' ').filter(Boolean));
    expect(ended).toEqual({ end, stdout, stderr: expect.stringContaining(stderr) });
  });

  test('prints its text to the end', async ({ expect }) => {
    const { end, stdout, stderr } = await run(['db', 'roles', '--print-sql']);
    expect([end, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/\n$/);
  });

  test('that fails has passed on all its output', async ({ expect }) => {
    const { end, stdout, stderr } = await run(['doctor', '--json'], { DATABASE_URL: NOWHERE });
    expect([end, stderr, JSON.parse(stdout)]).toEqual([1, '', expect.objectContaining({ ok: false })]);
  });

  test.for([['--help'], ['doctor']])(
    '%s ends where the reader of its output is gone, and says so',
    async (words, { expect }) => {
      const { child, ended } = start(words, { DATABASE_URL: NOWHERE });
      child.stdout.destroy();
      expect(await ended).toEqual({ end: 1, stdout: '', stderr: '' });
    },
  );

  test('doctor ends where the sandbox does not start', async ({ expect }) => {
    const wall = JSON.stringify(pathToFileURL(join(root, 'src/platform/sandbox/host/wall.ts')));
    const env = importing(`import{WRAPPER_ENVIRONMENT}from${wall};WRAPPER_ENVIRONMENT.PATH='/nowhere'`);
    const { end, stdout } = await run(['doctor'], { ...env, DATABASE_URL: NOWHERE, SANDBOX_JAIL: 'bwrap' });
    expect([end, stdout]).toEqual([1, expect.stringMatching(/^✘ sandbox: .*SANDBOX_JAIL=auto/m)]);
  });

  test('that waits for a database ends by SIGINT', async ({ expect }) => {
    const silent = createServer((socket) => socket.on('error', () => undefined)).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const connected = once(silent, 'connection');
    const { child, ended } = start(['tenants', 'list'], { DATABASE_URL: `postgresql://u:p@127.0.0.1:${port}/d` });
    const [socket] = await connected;
    child.kill('SIGINT');
    expect((await ended).end).toBe('SIGINT');
    socket.destroy();
    silent.close();
  });
});

test('help and misuse are answered at once: no package is loaded for them', async () => {
  const hooks = importing(
    `import{registerHooks}from'node:module';registerHooks({load(url,context,next){if(url.includes('/node_modules/'))process.stdout.write(url);return(next(url,context))}})`,
  );
  for (const words of ['--help', '--version', 'tenants', 'tenants list --help', 'tenants list --email x', 'keys fly'])
    expect((await run(words.split(' '), hooks)).stdout, words).not.toContain('/node_modules/');
  expect((await run(['tenants', 'list'], hooks)).stdout).toContain('/node_modules/');
});
