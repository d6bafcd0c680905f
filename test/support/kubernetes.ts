// Checks of Kubernetes manifests, however they were written or rendered: Kubernetes' schemas, the restricted profile, our own rules.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { isPublicAddress } from '../../src/platform/egress/address.ts';
import { STOP_MS, STOP_WORKERS_MS } from '../../src/platform/base/times.ts';

const { kinds, $defs } = JSON.parse(
  readFileSync(join(import.meta.dirname, '../fixtures/kubernetes/schemas.json'), 'utf8'),
) as { kinds: Record<string, string>; $defs: Record<string, object> };

/** @returns the problems of an object by Kubernetes' schema of its kind. */
export const problemsOf = (object: any): unknown[] => {
  const name = kinds[object.kind];
  if (name === undefined) return [`there is no schema of ${object.kind}`];
  const schema = z.fromJSONSchema({ $ref: `#/$defs/${name}`, $defs } as never);
  return schema.safeParse(object).error?.issues ?? [];
};

/** The objects of a file, or of what a renderer wrote. */
export const parseManifests = (text: string): any[] =>
  parseAllDocuments(text).map((document) => {
    expect('errors' in document ? document.errors : []).toEqual([]);
    return (document as { toJS(): unknown }).toJS();
  });

/** What holds for the manifests as they are written and as they are rendered. */
export const checkManifests = (objects: any[]): void => {
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
