// `npm run setup` writes what docker compose needs, keeps values of an earlier .env, and changes no existing file.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { expect, test as base } from 'vitest';
import { loadConfig } from '../src/platform/config.ts';
import { callCommand, type CommandResult } from './support/command.ts';
import { root } from './support/process.ts';

const compose = readFileSync(join(root, 'docker-compose.yml'), 'utf8');

const test = base.extend<{ directory: string }>({
  // vitest reads from the pattern what a fixture needs: nothing.
  // oxlint-disable-next-line no-empty-pattern
  directory: async ({}, use) => {
    const directory = mkdtempSync(join(tmpdir(), 'strongroom-setup-'));
    await use(directory);
    rmSync(directory, { recursive: true, force: true });
  },
});

/** Runs the command with a mask that would keep the files from the container's user. */
const setup = async (directory: string): Promise<CommandResult> => {
  const [start, mask] = [process.cwd(), process.umask(0o077)];
  process.chdir(directory);
  try {
    return await callCommand(['setup']);
  } finally {
    process.chdir(start);
    process.umask(mask);
  }
};

const filesOf = (directory: string): Record<string, string> =>
  Object.fromEntries(
    ['.env', ...readdirSync(join(directory, 'secrets')).map((name) => `secrets/${name}`)].map((path) => [
      path,
      readFileSync(join(directory, path), 'utf8'),
    ]),
  );

const modeOf = (directory: string, path: string): string => (statSync(join(directory, path)).mode & 0o777).toString(8);

/** The variables and the mounted secrets of a service, as compose makes them. */
const serviceOf = (name: string): { set: Record<string, string>; secrets: string[] } => {
  const block = compose.split(/^ {2}(?=[a-z]+:$)/m).find((each) => each.startsWith(`${name}:\n`)) as string;
  return {
    set: Object.fromEntries(
      [...block.matchAll(/^ {6}([A-Z_]+): '?([^'$\n]*)'?$/gm)].map(([, key, value]) => [key, value]),
    ),
    secrets: /^ {4}secrets: \[(.*)\]$/m.exec(block)?.[1]?.split(', ') ?? [],
  };
};

test('what compose needs and setup writes are the same, and the server takes it', async ({ directory }) => {
  expect((await setup(directory)).code).toBe(0);
  const files = filesOf(directory);
  const named = [...compose.matchAll(/^ {4}file: \.\/(.*)$/gm)].map(([, path]) => path);
  expect(Object.keys(files).toSorted()).toEqual(['.env', ...named].toSorted());
  expect(named.every((path) => modeOf(directory, path as string) === '444')).toBe(true);
  expect([modeOf(directory, 'secrets'), modeOf(directory, '.env')]).toEqual(['700', '600']);
  const { REQUIRE_SIGNED_ROWS, ...passwords } = parseEnv(files['.env'] as string);
  expect(REQUIRE_SIGNED_ROWS).toBe('true');
  expect(new Set(Object.keys(passwords))).toEqual(
    new Set([...compose.matchAll(/\$\{(\w+):\?/g)].map(([, name]) => name)),
  );
  for (const [service, role, password] of [
    ['migrate', 'strongroom_owner', passwords['OWNER_PASSWORD']],
    ['api', 'strongroom_server', passwords['SERVER_PASSWORD']],
  ] as const) {
    const { set, secrets } = serviceOf(service);
    const mounted = Object.entries(set).map(([name, given]) => {
      const value = given.replace(/^\$\{\w+:-(.*)\}$/, '$1');
      const secret = value.replace(/^\/run\/secrets\//, '');
      if (secret === value) return [name, value];
      expect(secrets, `${service} ${name}`).toContain(secret);
      return [name, join(directory, 'secrets', secret)];
    });
    const config = loadConfig({ NODE_ENV: 'production', HOST: '0.0.0.0', ...Object.fromEntries(mounted) });
    expect(config.rootKey?.toString('base64')).toBe(files['secrets/master_key']?.trim());
    expect(config.databaseUrl).toBe(`postgresql://${role}:${password}@db:5432/strongroom`);
    if (service === 'api')
      expect(config).toMatchObject({
        publicUrl: 'http://127.0.0.1:8080',
        mail: { kind: 'smtp', host: 'mail', port: 1025, requireTls: false },
      });
  }
  expect(compose).toMatch(/^ {2}mail:$/m);
});

test('only the database has passwords in its environment, and each service has limits', () => {
  for (const service of ['migrate', 'api', 'mail'])
    expect(
      Object.keys(serviceOf(service).set).filter((name) => /PASSWORD|^MASTER_KEY$|^DATABASE_URL$/.test(name)),
    ).toEqual([]);
  expect(compose.match(/\$\{/g)?.length).toBe(compose.match(/(?:_PASSWORD|REQUIRE_SIGNED_ROWS): '\$\{/g)?.length);
  for (const limit of ['mem_limit', 'pids_limit'])
    expect(compose.match(new RegExp(`^    ${limit}: \\d`, 'gm'))?.length, limit).toBe(4);
});

test('a second run changes nothing, and says so', async ({ directory }) => {
  await setup(directory);
  const before = filesOf(directory);
  const { code, stderr } = await setup(directory);
  expect([code, stderr]).toEqual([1, expect.stringContaining('exist and stay as they are')]);
  expect(filesOf(directory)).toEqual(before);
});

const earlier =
  'MASTER_KEY=AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=\nPOSTGRES_PASSWORD=p\nOWNER_PASSWORD=o/w\nSERVER_PASSWORD=s\n';

test('the secrets of an earlier .env are taken from it', async ({ directory }) => {
  writeFileSync(join(directory, '.env'), earlier);
  expect((await setup(directory)).code).toBe(0);
  expect(filesOf(directory)).toEqual({
    '.env': earlier,
    'secrets/master_key': 'AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=\n',
    'secrets/owner_database_url': 'postgresql://strongroom_owner:o%2Fw@db:5432/strongroom\n',
    'secrets/server_database_url': 'postgresql://strongroom_server:s@db:5432/strongroom\n',
  });
});

test('a missing file comes back from .env; one that is there is not changed', async ({ directory }) => {
  writeFileSync(join(directory, '.env'), earlier);
  mkdirSync(join(directory, 'secrets'));
  writeFileSync(join(directory, 'secrets/master_key'), 'another\n');
  expect((await setup(directory)).code).toBe(0);
  expect(filesOf(directory)).toMatchObject({
    'secrets/master_key': 'another\n',
    'secrets/server_database_url': 'postgresql://strongroom_server:s@db:5432/strongroom\n',
  });
  expect(modeOf(directory, 'secrets')).toBe('700');
});

test('a root key that is gone is not replaced by another', async ({ directory }) => {
  await setup(directory);
  rmSync(join(directory, 'secrets/master_key'));
  const before = filesOf(directory);
  const { code, stderr } = await setup(directory);
  expect([code, stderr]).toEqual([1, expect.stringContaining('secrets/master_key')]);
  expect(filesOf(directory)).toEqual(before);
});

test('passwords that are gone are not replaced by others', async ({ directory }) => {
  await setup(directory);
  rmSync(join(directory, '.env'));
  const { code, stderr } = await setup(directory);
  expect([code, stderr]).toEqual([1, expect.stringContaining('Put .env back')]);
  expect(readdirSync(directory)).toEqual(['secrets']);
});

test("it prints the README's commands word for word", async ({ directory }) => {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const block = /^```console\nnpm ci && npm run setup\n([\s\S]*?)^```$/m.exec(readme)?.[1];
  expect(block).toContain('docker compose up');
  expect((await setup(directory)).stdout).toContain(`\n\n${block}`);
});
