// Packs the npm package, runs it by npx from the tarball in an empty directory, and stores and reads a value. Needs the registry.
// Usage: npm run drill:package
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { untilReady } from '../bench/servers.ts';
import { freePort } from '../test/support/process.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const say = (text: string): void => void process.stderr.write(`${text}\n`);

/** npm's cache of installed packages is this drill's own; Node is the system's. */
const directory = mkdtempSync(join(tmpdir(), 'strongroom-npx-'));
const environment = {
  HOME: process.env['HOME'],
  PATH: (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((path) => !path.includes('node_modules'))
    .join(delimiter),
  npm_config_cache: join(directory, 'cache'),
  npm_config_audit: 'false',
  ...(process.env['npm_config_registry'] && { npm_config_registry: process.env['npm_config_registry'] }),
};

try {
  execFileSync('npm', ['pack', '--silent', '--pack-destination', directory], { cwd: root, stdio: 'inherit' });
  const tarball = `./${readdirSync(directory).find((name) => name.endsWith('.tgz'))}`;
  say(`packed ${tarball}`);
  const began = performance.now();
  const run = { cwd: directory, env: environment };
  say(execFileSync('npx', ['--yes', tarball, 'version'], { ...run, encoding: 'utf8' }));
  say(`installed by npx in ${Math.round((performance.now() - began) / 1000)} s`);
  const port = await freePort();
  const child = spawn('npx', ['--yes', tarball, 'start'], {
    cwd: directory,
    env: { ...environment, PORT: String(port) },
    stdio: ['ignore', 'ignore', 'inherit'],
    detached: true,
  });
  const base_url = `http://127.0.0.1:${port}`;
  try {
    await untilReady(`${base_url}/readyz`, child);
    const { api_key } = JSON.parse(readFileSync(join(directory, 'data/dev-credentials.json'), 'utf8')) as {
      api_key: string;
    };
    const headers = { 'svc-api-key': api_key, 'content-type': 'application/json' };
    const body = JSON.stringify({ type: 'card', data: { number: '4242424242424242' } });
    const made: any = await (await fetch(`${base_url}/tokens`, { method: 'POST', headers, body })).json();
    const read: any = await (await fetch(`${base_url}/tokens/${made.id}`, { headers })).json();
    if (read.data?.number !== 'XXXXXXXXXXXX4242') throw new Error('the card was not stored and read');
    say('the server of the tarball stored a card and read it');
  } finally {
    // npx, its shell and the server are one group, as in a terminal.
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGTERM');
    await new Promise((resolve) => setTimeout(resolve, 8_000));
  }
} finally {
  rmSync(directory, { recursive: true, force: true });
}
