// `npm run setup` writes what docker compose needs, and changes no existing file. The compose
// files have what the documents promise; `npm run drill:docker` runs them.
import { execFileSync } from 'node:child_process';
import { chownSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { expect, test as base } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../src/platform/config/config.ts';
import { callCommand, type CommandResult } from './support/command.ts';
import { root } from './support/process.ts';

type Service = {
  image: string;
  build?: { context: string; target?: string; args: Record<string, string> };
  pull_policy?: string;
  profiles?: string[];
  environment?: Record<string, string | number>;
  entrypoint?: string[];
  secrets?: string[];
  volumes?: string[];
  ports?: string[];
  depends_on?: Record<string, { condition: string }>;
  [limit: string]: unknown;
};
type Compose = {
  name: string;
  services: Record<string, Service>;
  secrets?: Record<string, { file: string }>;
  volumes: Record<string, null>;
};

const PRODUCTION = 'deploy/compose/docker-compose.yml';
const LOCAL = 'docker-compose.yml';
const composeFiles = [LOCAL, PRODUCTION];
const readCompose = (file: string): Compose => parse(readFileSync(join(root, file), 'utf8'));
const production = readCompose(PRODUCTION);
const local = readCompose(LOCAL);

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

/** A value of a compose file as compose makes it where no variable is set. */
const interpolated = (value: unknown): string => String(value).replaceAll(/\$\{\w+:-([^}]*)\}/g, '$1');

test('what compose needs and setup writes are the same, and the server takes it', async ({ directory }) => {
  expect((await setup(directory)).code).toBe(0);
  const files = filesOf(directory);
  const named = Object.values(production.secrets ?? {}).map(({ file }) => file.replace('./', ''));
  expect(Object.keys(files).toSorted()).toEqual(['.env', ...named].toSorted());
  expect(named.every((path) => modeOf(directory, path) === '444')).toBe(true);
  expect([modeOf(directory, 'secrets'), modeOf(directory, '.env')]).toEqual(['700', '600']);
  expect(parseEnv(files['.env'] as string)).toEqual({});
  const passwordOf = (role: string) => files[`secrets/${role}_password`]?.trim();
  expect(new Set(['postgres', 'owner', 'server'].map(passwordOf)).size).toBe(3);
  for (const [name, role] of [
    ['migrate', 'owner'],
    ['api', 'server'],
  ] as const) {
    const { environment = {}, secrets = [] } = production.services[name] as Service;
    const mounted = Object.entries(environment).map(([variable, given]) => {
      const [, secret] = /^\/run\/secrets\/(.*)$/.exec(String(given)) ?? [];
      if (secret === undefined) return [variable, interpolated(given)];
      expect(secrets, `${name} ${variable}`).toContain(secret);
      return [variable, join(directory, 'secrets', secret)];
    });
    const config = loadConfig({ NODE_ENV: 'production', HOST: '0.0.0.0', ...Object.fromEntries(mounted) });
    expect(config.rootKey?.toString('base64')).toBe(files['secrets/master_key']?.trim());
    expect(config.databaseUrl).toBe(`postgresql://strongroom_${role}:${passwordOf(role)}@db:5432/strongroom`);
    if (name === 'api')
      expect(config).toMatchObject({
        publicUrl: 'http://127.0.0.1:8080',
        mail: { kind: 'smtp', host: 'mail', port: 1025, requireTls: false },
      });
  }
});

test('in production no service has a secret in its environment, and each sees its own only', () => {
  const secretsOf = Object.fromEntries(
    Object.entries(production.services).map(([name, { secrets = [] }]) => [name, secrets]),
  );
  expect(secretsOf).toEqual({
    db: ['postgres_password', 'owner_password', 'server_password'],
    migrate: ['owner_database_url', 'master_key'],
    api: ['server_database_url', 'master_key'],
    mail: [],
    setup: [],
  });
  for (const [name, { environment = {} }] of Object.entries(production.services))
    for (const [variable, value] of Object.entries(environment))
      if (/PASSWORD|MASTER_KEY|DATABASE_URL/.test(variable))
        expect([variable.endsWith('_FILE'), String(value)], name).toEqual([
          true,
          expect.stringMatching(/^\/run\/secrets\//),
        ]);
});

test.for(composeFiles)('%s: limits, rotated logs, ports of this machine, one build', (file) => {
  const { services } = readCompose(file);
  for (const [name, service] of Object.entries(services)) {
    expect(service, name).toMatchObject({
      mem_limit: expect.stringMatching(/^\d+[mg]$/),
      pids_limit: expect.any(Number),
      cap_drop: ['ALL'],
      security_opt: ['no-new-privileges:true'],
      logging: { driver: 'local' },
    });
    for (const port of service.ports ?? []) expect(port, name).toMatch(/^127\.0\.0\.1:\$\{\w+:-\d+\}:\d+$/);
    // Paths of the host are relative to the compose file, and exist in a clone.
    for (const volume of service.volumes ?? []) {
      const [from = ''] = volume.split(':');
      if (from.startsWith('.')) expect(statSync(resolve(root, dirname(file), from)), volume).toBeDefined();
      else expect(readCompose(file).volumes, volume).toHaveProperty(from);
    }
  }
  const ours = Object.entries(services).filter(([, { image }]) => image.includes('STRONGROOM_IMAGE'));
  expect(new Set(ours.map(([, { image }]) => image)).size).toBe(1);
  // A second build of one image would leave the first one without a name.
  expect(ours.filter(([, { build, profiles }]) => build && !profiles)).toHaveLength(1);
  for (const [name, { build, pull_policy }] of ours)
    expect([name, Boolean(build) || pull_policy]).not.toContain(undefined);
  for (const [, { build }] of ours) if (build) expect(resolve(root, dirname(file), build.context)).toBe(resolve(root));
});

test('the two compose files have projects of their own, and only one is production', () => {
  expect([local.name, production.name]).toEqual(['strongroom-dev', 'strongroom']);
  expect([local.services['api']?.build?.target, production.services['migrate']?.build?.target]).toEqual([
    'dev',
    undefined,
  ]);
  // Everything of local testing waits for the check.
  for (const name of ['db', 'api'])
    expect(local.services[name]?.depends_on?.['check'], name).toEqual({ condition: 'service_completed_successfully' });
});

/** Runs the check of docker-compose.yml in a directory. @returns its exit code and what it said. */
const check = (directory: string): [number, string] => {
  const script = join(root, (local.services['check'] as Service).entrypoint?.at(-1) as string);
  try {
    return [0, execFileSync('sh', [script], { cwd: directory, encoding: 'utf8', stdio: 'pipe' })];
  } catch (error) {
    const { status, stderr } = error as { status: number; stderr: string };
    return [status, stderr];
  }
};

/** Of a vault in production mode of an earlier release, whose compose file was in the root. */
const earlier =
  'MASTER_KEY=AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=\nPOSTGRES_PASSWORD=p\nOWNER_PASSWORD=o/w\nSERVER_PASSWORD=s\n';

test('local testing starts in an empty directory, and not where setup has written', async ({ directory }) => {
  expect(check(directory)).toEqual([0, '']);
  writeFileSync(join(directory, '.env'), 'STRONGROOM_PORT=8090\n');
  expect(check(directory)).toEqual([0, '']);
  rmSync(join(directory, '.env'));
  await setup(directory);
  const refused = (what: string) => [1, expect.stringMatching(`This directory has ${what} .*deploy/compose/`)];
  expect(check(directory)).toEqual(refused('secrets/'));
  rmSync(join(directory, 'secrets'), { recursive: true });
  expect(check(directory)).toEqual(refused('\\.env'));
  writeFileSync(join(directory, '.env'), earlier);
  expect(check(directory)).toEqual(refused('\\.env'));
});

test('a second run changes nothing, and says so', async ({ directory }) => {
  await setup(directory);
  const before = filesOf(directory);
  const { code, stderr } = await setup(directory);
  expect([code, stderr]).toEqual([1, expect.stringContaining('exist and stay as they are')]);
  // The volume of the database has the old passwords: without this the next start would fail.
  expect(stderr).toContain('docker compose down --volumes && rm -r .env secrets && npm run setup');
  expect(filesOf(directory)).toEqual(before);
});

test('an .env alone is no vault: nothing is made of it', async ({ directory }) => {
  writeFileSync(join(directory, '.env'), 'PORT=8081\n');
  const { code, stderr } = await setup(directory);
  expect([code, stderr]).toEqual([1, expect.stringContaining('put these files back')]);
  expect(readdirSync(directory)).toEqual(['.env']);
});

test('a password comes back from the address that has it, and the address from the password', async ({ directory }) => {
  await setup(directory);
  const before = filesOf(directory);
  rmSync(join(directory, 'secrets/owner_password'));
  rmSync(join(directory, 'secrets/server_database_url'));
  expect((await setup(directory)).code).toBe(0);
  expect(filesOf(directory)).toEqual(before);
});

test('a root key that is gone is not replaced by another', async ({ directory }) => {
  await setup(directory);
  rmSync(join(directory, 'secrets/master_key'));
  const before = filesOf(directory);
  const { code, stderr } = await setup(directory);
  expect([code, stderr]).toEqual([1, expect.stringContaining('secrets/master_key')]);
  expect(stderr).toContain('docker compose down --volumes && rm -r .env secrets && npm run setup');
  expect(filesOf(directory)).toEqual(before);
});

test('passwords that are gone are not replaced by others', async ({ directory }) => {
  await setup(directory);
  rmSync(join(directory, '.env'));
  const { code, stderr } = await setup(directory);
  expect([code, stderr]).toEqual([1, expect.stringContaining('Put .env back')]);
  expect(stderr).toContain('docker compose down --volumes && rm -r secrets && npm run setup');
  expect(readdirSync(directory)).toEqual(['secrets']);
});

test.runIf(process.geteuid?.() === 0)(
  'run by root it gives the files to the owner of the directory',
  async ({ directory }) => {
    chownSync(directory, 1234, 1235);
    expect((await setup(directory)).code).toBe(0);
    const owners = ['.env', 'secrets', ...readdirSync(join(directory, 'secrets')).map((name) => `secrets/${name}`)].map(
      (path) => statSync(join(directory, path)),
    );
    expect(owners.map(({ uid, gid }) => `${uid}:${gid}`)).toEqual(owners.map(() => '1234:1235'));
  },
);

test('it prints the commands of the guide word for word', async ({ directory }) => {
  const guide = readFileSync(join(root, 'docs/guides/start.md'), 'utf8');
  const block = /^```console\nnpm ci && npm run setup\n([\s\S]*?)^```$/m.exec(guide)?.[1];
  expect(block).toContain('docker compose up');
  expect((await setup(directory)).stdout).toContain(`\n\n${block}`);
});
