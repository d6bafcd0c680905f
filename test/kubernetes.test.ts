// The Kubernetes manifests follow Kubernetes' schemas and the restricted profile, as they are and as kustomize renders them.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { version } from '../src/platform/base/version.ts';
import { checkManifests, parseManifests, problemsOf } from './support/kubernetes.ts';
import { root } from './support/process.ts';
import { isInstalled } from './support/programs.ts';

const KUBERNETES = join(root, 'deploy/kubernetes');
const OVERLAY = join(KUBERNETES, 'overlays/example');

const files = readdirSync(KUBERNETES, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.yaml') && !file.endsWith('kustomization.yaml'))
  .toSorted();
const written = files.flatMap((file) => parseManifests(readFileSync(join(KUBERNETES, file), 'utf8')));

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

test('the manifests as they are written', () => checkManifests(written));

test('the compose file of production names this version', () => {
  const compose = readFileSync(join(root, 'deploy/compose/docker-compose.yml'), 'utf8');
  expect(compose.match(/strongroom:[0-9.]+/g)).toEqual([`strongroom:${version}`]);
});

test('the base names this version, and every file of it', () => {
  const [base] = parseManifests(readFileSync(join(KUBERNETES, 'base/kustomization.yaml'), 'utf8'));
  expect(base.images).toEqual([{ name: 'strongroom', newTag: version }]);
  const beside = readdirSync(join(KUBERNETES, 'base')).filter((file) => file !== 'kustomization.yaml');
  expect(base.resources.toSorted()).toEqual(beside.toSorted());
});

describe.skipIf(!isInstalled('kustomize'))('as kustomize renders the example', () => {
  test('it has namespace, image and configuration, and the checks hold', () => {
    const objects = parseManifests(execFileSync('kustomize', ['build', OVERLAY], { encoding: 'utf8' }));
    checkManifests(objects);
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
