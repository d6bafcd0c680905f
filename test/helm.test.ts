// The Helm chart renders what the kustomize example renders, and takes no secret and no name that it does not know.
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { withChartNames } from '../src/cli/docs-tables.ts';
import { fileVariables } from '../src/platform/config/config.ts';
import { version } from '../src/platform/base/version.ts';
import { checkManifests, parseManifests } from './support/kubernetes.ts';
import { root } from './support/process.ts';
import { isInstalled } from './support/programs.ts';

const CHART = join(root, 'deploy/helm');
const EXAMPLE = join(CHART, 'example-values.yaml');

const read = (file: string): string => readFileSync(join(CHART, file), 'utf8');
const schemaText = read('values.schema.json');
const schema = JSON.parse(schemaText);

/** As helm merges the files of values. */
const merge = (under: any, over: any): any =>
  typeof under === 'object' && typeof over === 'object' && !Array.isArray(over)
    ? Object.fromEntries(
        [...new Set([...Object.keys(under), ...Object.keys(over)])].map((name) => [
          name,
          name in over ? (name in under ? merge(under[name], over[name]) : over[name]) : under[name],
        ]),
      )
    : over;

/** A change of the example, and whether the schema accepts it. */
const isAccepted = (change: object): boolean => {
  const values = merge(merge(parse(read('values.yaml')), parse(read('example-values.yaml'))), change);
  return z.fromJSONSchema(schema).safeParse(values).success;
};

test('the chart has the version of the release', () => {
  expect(parse(read('Chart.yaml'))).toMatchObject({ version, appVersion: version });
});

test('the schema has the variables and secrets of this version, apart from each other', () => {
  expect(withChartNames(schemaText)).toBe(schemaText);
  const { variablesKnown, secretKeysKnown } = schema.definitions;
  expect(variablesKnown.enum).toEqual(expect.arrayContaining(['PUBLIC_URL', 'SANDBOX_MEMORY_TOTAL_MB']));
  for (const name of fileVariables) {
    expect(variablesKnown.enum).not.toContain(name);
    expect(secretKeysKnown.enum).toContain(name.toLowerCase());
  }
  for (const name of ['STRONGROOM_DEV_KEY', 'TEST_ENDPOINTS', 'NODE_ENV'])
    expect(variablesKnown.enum).not.toContain(name);
});

test('every part of the schema with named properties refuses others', () => {
  const open: string[] = [];
  const look = (part: any, path: string): void => {
    if (typeof part !== 'object' || part === null) return;
    if (part.type === 'object' && part.properties && part.additionalProperties !== false) open.push(path);
    for (const [name, inner] of Object.entries(part)) look(inner, `${path}/${name}`);
  };
  look(schema, '');
  expect(open).toEqual([]);
});

/** A change as helm's options have it: the path of each value. */
const pathsOf = (change: object, above = ''): [path: string, value: unknown][] =>
  Object.entries(change).flatMap(([name, value]) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? pathsOf(value, `${above}${name}.`)
      : [[`${above}${name}`, value] as [string, unknown]],
  );

/** Changes of the example that are refused. */
const refused = {
  'a secret among the values': { masterKey: 'a' },
  'a secret among the variables': { config: { MASTER_KEY: 'a' } },
  'a misspelt variable': { config: { PUBLIC_ULR: 'https://vault.example.com' } },
  'endpoints for tests': { config: { TEST_ENDPOINTS: 'on' } },
  'a misspelt value below': { image: { tagg: '1' } },
  'a secret without the database': { secretKeys: ['master_key'] },
  'an unknown secret': { secretKeys: ['master_key', 'database_url', 'password'] },
  'no limit of memory': { resources: { limits: { memory: null } } },
  'ingress from everywhere': { networkPolicy: { ingressFrom: [] } },
};

test('the example is accepted, and the schema alone refuses the rest', () => {
  expect(isAccepted({})).toBe(true);
  for (const [name, change] of Object.entries(refused)) expect(isAccepted(change), name).toBe(false);
});

describe.skipIf(!isInstalled('helm'))('as helm renders it', () => {
  const helm = (command: string, ...args: string[]) =>
    spawnSync('helm', [command, ...args, '--kube-version', '1.34.0'], { encoding: 'utf8' });
  const render = (...args: string[]): any[] => {
    const { status, stdout, stderr } = helm(
      'template',
      'strongroom',
      CHART,
      '--namespace',
      'vault',
      '-f',
      EXAMPLE,
      ...args,
    );
    expect([status, stderr]).toEqual([0, '']);
    return parseManifests(stdout).filter((object) => object !== null);
  };
  const find = (objects: any[], kind: string): any => objects.find((object) => object.kind === kind);

  test('the checks of the manifests hold, and helm has no complaint', () => {
    checkManifests(render());
    expect(helm('lint', CHART, '--strict', '-f', EXAMPLE).stdout).toContain('1 chart(s) linted, 0 chart(s) failed');
  });

  test.each(Object.entries(refused))('%s is refused', (_, change) => {
    const sets = pathsOf(change).flatMap(([path, value]) => ['--set-json', `${path}=${JSON.stringify(value)}`]);
    const { status, stderr } = helm('template', 'strongroom', CHART, '-f', EXAMPLE, ...sets);
    expect(status).toBe(1);
    expect(stderr).toContain("values don't meet the specifications of the schema(s)");
  });

  test('without the names of its secrets and its image it says which are missing', () => {
    const { status, stderr } = helm('template', 'strongroom', CHART);
    expect(status).toBe(1);
    for (const sentence of ['(root): existingSecret', 'migration: existingSecret', 'image: repository'])
      expect(stderr).toContain(`${sentence} is required`);
  });

  test('an ingress without hosts would serve every host, and is refused', () => {
    const { status, stderr } = helm('template', 'strongroom', CHART, '-f', EXAMPLE, '--set-json', 'ingress.hosts=[]');
    expect([status, stderr]).toEqual([1, expect.stringContaining('ingress.hosts: name a host')]);
  });

  test('a value that is set to null opens nothing', () => {
    for (const name of ['networkPolicy.ingressFrom', 'networkPolicy.databaseTo', 'networkPolicy', 'secretKeys']) {
      const { status } = helm('template', 'strongroom', CHART, '-f', EXAMPLE, '--set-json', `${name}=null`);
      expect(status, name).toBe(1);
    }
  });

  test('another image gets another job; another configuration gets new pods and the same job', () => {
    const before = render();
    const job = (objects: any[]): string => find(objects, 'Job').metadata.name;
    const checksum = (objects: any[]): string =>
      find(objects, 'Deployment').spec.template.metadata.annotations['checksum/config'];
    const digest = render('--set', `image.digest=sha256:${'a'.repeat(64)}`);
    expect(job(digest)).not.toBe(job(before));
    expect(find(digest, 'Job').spec.template.spec.containers[0].image).toMatch(/strongroom@sha256:a{64}$/);
    const configured = render('--set', 'config.BODY_BYTES_MAX=2000000');
    expect(find(configured, 'ConfigMap').data.BODY_BYTES_MAX).toBe('2000000');
    expect([job(configured), checksum(configured) === checksum(before)]).toEqual([job(before), false]);
  });

  test('further secrets are files of the servers, and the migration has the root key alone', () => {
    const objects = render('--set', 'secretKeys={master_key,database_url,smtp_url}');
    const env = (kind: string): string[] =>
      find(objects, kind).spec.template.spec.containers[0].env.map(({ name }: { name: string }) => name);
    expect(env('Deployment')).toEqual(['MASTER_KEY_FILE', 'DATABASE_URL_FILE', 'SMTP_URL_FILE']);
    expect(env('Job')).toEqual(['MASTER_KEY_FILE', 'DATABASE_URL_FILE']);
    checkManifests(objects);
  });

  test('two releases in one namespace have no pods in common', () => {
    const { stdout } = helm('template', 'second', CHART, '--namespace', 'vault', '-f', EXAMPLE);
    const [one, two] = [render(), parseManifests(stdout)].map((objects) => find(objects, 'Deployment'));
    expect(two.metadata.name).toBe('second-strongroom');
    const { matchLabels } = one.spec.selector;
    const labels = two.spec.template.metadata.labels;
    expect(Object.entries(matchLabels).every(([name, value]) => labels[name] === value)).toBe(false);
  });

  describe.skipIf(!isInstalled('kustomize'))('beside the kustomize example', () => {
    /** What only one of the two writes: labels of Helm, the hash in a name, the checksum in place of such a hash. */
    const strip = (value: any): any => {
      if (Array.isArray(value)) return value.map(strip);
      if (typeof value !== 'object' || value === null)
        return typeof value === 'string' ? value.replace(/^(strongroom(?:-migrate)?)-[0-9a-z]{10}$/, '$1') : value;
      return Object.fromEntries(
        Object.entries(value)
          .filter(
            ([name]) =>
              !/^(?:app\.kubernetes\.io\/(?:instance|managed-by|part-of)|helm\.sh\/chart|checksum\/config)$/.test(name),
          )
          .map(([name, inner]) => [name, strip(inner)] as const)
          .filter(([name, inner]) => name !== 'labels' || Object.keys(inner).length > 0),
      );
    };
    const byName = (objects: any[]): Record<string, unknown> =>
      Object.fromEntries(objects.map((object) => [`${object.kind} ${strip(object.metadata.name)}`, strip(object)]));

    test('both render the same objects', () => {
      const overlay = join(root, 'deploy/kubernetes/overlays/example');
      const kustomize = byName(parseManifests(execFileSync('kustomize', ['build', overlay], { encoding: 'utf8' })));
      // helm install --create-namespace makes it, without labels.
      delete kustomize['Namespace vault'];
      expect(byName(render())).toEqual(kustomize);
      expect(Object.keys(kustomize).length).toBe(9);
    });
  });
});
