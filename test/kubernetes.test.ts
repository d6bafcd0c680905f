// The Kubernetes manifests follow Kubernetes' schemas and the restricted profile, as they are and as kustomize renders them.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { isPublicAddress } from '../src/platform/egress/address.ts';
import { version } from '../src/platform/version.ts';
import { root } from './support/process.ts';
import { isInstalled } from './support/programs.ts';
import { STOP_MS, STOP_WORKERS_MS } from '../src/platform/times.ts';

const KUBERNETES = join(root, 'deploy/kubernetes');
const OVERLAY = join(KUBERNETES, 'overlays/example');

const { kinds, $defs } = JSON.parse(
  readFileSync(join(import.meta.dirname, 'fixtures/kubernetes/schemas.json'), 'utf8'),
) as { kinds: Record<string, string>; $defs: Record<string, object> };

/** @returns the problems of an object by Kubernetes' schema of its kind. */
const problemsOf = (object: any): unknown[] => {
  const name = kinds[object.kind];
  if (name === undefined) return [`there is no schema of ${object.kind}`];
  const schema = z.fromJSONSchema({ $ref: `#/$defs/${name}`, $defs } as never);
  return schema.safeParse(object).error?.issues ?? [];
};

const parse = (text: string): any[] =>
  parseAllDocuments(text).map((document) => {
    expect('errors' in document ? document.errors : []).toEqual([]);
    return (document as { toJS(): unknown }).toJS();
  });

const files = readdirSync(KUBERNETES, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.yaml') && !file.endsWith('kustomization.yaml'))
  .toSorted();
const written = files.flatMap((file) => parse(readFileSync(join(KUBERNETES, file), 'utf8')));

test('a wrong field, a wrong type and a missing field are problems', () => {
  const find = (): any => structuredClone(written.find(({ kind }) => kind === 'Deployment'));
  const misspelled = find();
  misspelled.spec.template.spec.containers[0].readinessProb = {};
  const wrong = find();
  wrong.spec.replicas = 'two';
  const missing = find();
  delete missing.spec.selector;
  for (const object of [misspelled, wrong, missing]) expect(problemsOf(object)).not.toEqual([]);
});

/** What holds for the manifests as they are written and as they are rendered. */
const checkAll = (objects: any[]): void => {
  const byKind = (kind: string): any[] => objects.filter((object) => object.kind === kind);
  for (const object of objects) expect(problemsOf(object), `${object.kind} ${object.metadata?.name}`).toEqual([]);
  expect(objects.map(({ kind }) => kind)).toEqual(
    expect.arrayContaining(['Deployment', 'Ingress', 'Job', 'NetworkPolicy', 'PodDisruptionBudget', 'Service']),
  );
  // Secrets are named, and made elsewhere.
  expect(byKind('Secret')).toEqual([]);

  const [deployment] = byKind('Deployment');
  const [job] = byKind('Job');
  for (const { spec } of [deployment.spec.template, job.spec.template]) {
    // The restricted profile of the Pod Security Standards, and a root that nothing writes to.
    expect(spec.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
    expect([spec.hostNetwork, spec.hostPID, spec.hostIPC]).toEqual([undefined, undefined, undefined]);
    expect(spec.automountServiceAccountToken).toBe(false);
    for (const { securityContext, resources, env, image } of spec.containers) {
      expect(securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
      expect(resources.limits.memory).toBeDefined();
      // No secret is in the environment.
      expect(env.every(({ name, value }: any) => name.endsWith('_FILE') && value.startsWith('/run/secrets/'))).toBe(
        true,
      );
      expect(image).toMatch(/(^|\/)strongroom(:|@|$)/);
    }
    for (const volume of spec.volumes)
      expect(Object.keys(volume).some((key) => ['secret', 'projected', 'emptyDir'].includes(key))).toBe(true);
  }
  const ownerSecrets = JSON.stringify(job).match(/strongroom-owner/g);
  expect(ownerSecrets).toHaveLength(1);
  expect(JSON.stringify(deployment)).not.toContain('strongroom-owner');

  const { spec, metadata } = deployment.spec.template;
  const [server] = spec.containers;
  expect(deployment.spec.replicas).toBeGreaterThan(1);
  expect(server.readinessProbe.httpGet).toEqual({ path: '/readyz', port: 'http' });
  expect(server.livenessProbe.httpGet).toEqual({ path: '/healthz', port: 'http' });
  expect(server.startupProbe.httpGet).toEqual({ path: '/healthz', port: 'http' });
  // With DRAIN_SECONDS of the base: docs/operations/processes.md.
  expect(spec.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(10 + (STOP_MS + STOP_WORKERS_MS) / 1000);

  const isOfServer = (labels: Record<string, string>): boolean =>
    Object.entries(labels).every(([name, value]) => metadata.labels[name] === value);
  const [budget] = byKind('PodDisruptionBudget');
  const [service] = byKind('Service');
  expect(isOfServer(budget.spec.selector.matchLabels) && isOfServer(service.spec.selector)).toBe(true);
  expect(service.spec.ports.map(({ targetPort }: any) => targetPort)).toEqual(['http']);

  const policies = byKind('NetworkPolicy');
  const find = (name: string): any => policies.find((policy) => policy.metadata.name === name);
  expect(isOfServer(find('strongroom').spec.podSelector.matchLabels)).toBe(true);
  for (const { spec: each } of policies) expect(each.policyTypes.toSorted()).toEqual(['Egress', 'Ingress']);
  expect(find('strongroom-migrate').spec.ingress ?? []).toEqual([]);
  const blocks = find('strongroom').spec.egress.flatMap(({ to }: any) =>
    to.flatMap(({ ipBlock }: any) => ipBlock ?? []),
  );
  const wide = blocks.find(({ cidr }: any) => cidr === '0.0.0.0/0');
  // The network and the server exclude the same: an address in an excluded range is not public for the server either.
  for (const range of wide.except) expect(isPublicAddress(range.split('/')[0]), range).toBe(false);
  expect(wide.except).toEqual(
    expect.arrayContaining(['10.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.168.0.0/16']),
  );
};

test('the manifests as they are written', () => checkAll(written));

test('the compose file of production names this version', () => {
  const compose = readFileSync(join(root, 'deploy/compose/docker-compose.yml'), 'utf8');
  expect(compose.match(/strongroom:[0-9.]+/g)).toEqual([`strongroom:${version}`]);
});

test('the base names this version, and every file of it', () => {
  const [base] = parse(readFileSync(join(KUBERNETES, 'base/kustomization.yaml'), 'utf8'));
  expect(base.images).toEqual([{ name: 'strongroom', newTag: version }]);
  const beside = readdirSync(join(KUBERNETES, 'base')).filter((file) => file !== 'kustomization.yaml');
  expect(base.resources.toSorted()).toEqual(beside.toSorted());
});

describe.skipIf(!isInstalled('kustomize'))('as kustomize renders the example', () => {
  test('it has namespace, image and configuration, and the checks hold', () => {
    const objects = parse(execFileSync('kustomize', ['build', OVERLAY], { encoding: 'utf8' }));
    checkAll(objects);
    for (const { kind, metadata } of objects)
      expect(kind === 'Namespace' ? metadata.name : metadata.namespace, kind).toBe('vault');
    const config = objects.find(({ kind }) => kind === 'ConfigMap');
    expect(config.data).toMatchObject({ MIGRATE_ON_START: 'false', PUBLIC_URL: 'https://vault.example.com' });
    const deployment = objects.find(({ kind }) => kind === 'Deployment');
    const [server] = deployment.spec.template.spec.containers;
    expect(server.envFrom).toEqual([{ configMapRef: { name: config.metadata.name } }]);
    expect(server.image).toBe(`registry.example.com/strongroom:${version}`);
    for (const { metadata, spec } of objects.filter(({ kind }) => kind === 'NetworkPolicy'))
      expect(spec.egress[1].to, metadata.name).toEqual([{ ipBlock: { cidr: '10.20.30.40/32' } }]);
  });
});
