// POST /access/simulate decides what an application did again, and agrees with doing it again after the change.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type SharedReactorServer, tokenOf, useReactorServer } from './support/reactors.ts';
import { makeApplication } from './support/stored-proxies.ts';

let fixture: SharedReactorServer;
beforeAll(async () => {
  fixture = await useReactorServer();
});
afterAll(() => fixture.close());

const simulate = (json: object, key?: string) =>
  fixture.server.request('POST', '/access/simulate', { json, ...(key !== undefined && { key }) });

const numbersFrom = (seed: number) => {
  let state = seed;
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
};

const CONTAINERS = ['/general/', '/general/high/', '/pci/high/'];

describe('over what was recorded', () => {
  test('each number is that of doing it again, for 12 changes of 20 requests', async () => {
    const { server, url } = fixture;
    const next = numbersFrom(17);
    const one = <T>(values: readonly T[]): T => values[next(values.length)] as T;
    const tokens: string[] = [];
    for (let index = 0; index < 9; index += 1) {
      const mask = index % 2 === 0 ? { mask: 'mask' } : {};
      tokens.push(await tokenOf(server, `VALUE-${index}`, { containers: [one(CONTAINERS)], ...mask }));
    }
    const rightsOf = () => ({
      permissions: one([['token:read'], ['token:use'], ['token:read', 'token:use'], ['log:read']]),
      rules: Array.from({ length: next(3) }, () => ({
        priority: 1 + next(3),
        transform: one(['redact', 'mask', 'reveal']),
        permissions: one([['token:read'], ['token:use'], ['token:read', 'token:use']]),
        container: one(['/', ...CONTAINERS]),
      })),
      ...(next(2) === 0 && { allowed_hosts: [one(['upstream.test', 'other.upstream.test'])] }),
    });
    const degrees = ['refused', 'nothing', 'masked', 'value'];
    const seen = { refused: 0, more: 0, less: 0 };
    for (let change = 0; change < 12; change += 1) {
      const application = await makeApplication(server, { ...rightsOf(), name: 'Before' });
      const asked = Array.from({ length: 20 }, () => ({ id: one(tokens), isRead: next(2) === 0 }));
      const doAll = async (): Promise<string[]> => {
        const done: string[] = [];
        for (const { id, isRead } of asked) {
          const { key } = application;
          if (isRead) {
            const { status, body } = await server.request('GET', `/tokens/${id}`, { key });
            const shown = body.data === undefined ? 'nothing' : body.data === 'mask' ? 'masked' : 'value';
            done.push(status === 200 ? shown : 'refused');
            continue;
          }
          const headers = { 'svc-proxy-url': url };
          const sent = await server.request('POST', '/proxy', { key, headers, json: { x: `{{ ${id} }}` } });
          const { x } = sent.status === 200 ? JSON.parse(fixture.upstream.received.at(-1)?.body.toString() ?? '') : {};
          const given = x === null || x === undefined ? 'nothing' : x === 'mask' ? 'masked' : 'value';
          done.push(sent.status === 200 ? given : 'refused');
        }
        return done;
      };
      const before = await doAll();
      const { allowed_hosts, ...rights } = rightsOf();
      const wanted = { ...rights, ...(allowed_hosts && { allowed_hosts }) };
      const { status, body, text } = await simulate({ application_id: application.id, days: 1, ...wanted });
      expect(status, text).toBe(200);
      const held = (await server.request('GET', `/applications/${application.id}`)).body;
      const json = { name: 'After', allowed_hosts: held.allowed_hosts, ...wanted };
      expect((await server.request('PUT', `/applications/${application.id}`, { json })).status).toBe(200);
      const after = await doAll();
      const count = (isSo: (was: number, is: number) => boolean) =>
        asked.filter((_, index) => {
          const [was, is] = [before[index], after[index]].map((each) => degrees.indexOf(each as string));
          return isSo(was as number, is as number);
        }).length;
      expect(body.newly_refused.count).toBe(count((was, is) => was > 0 && is === 0));
      expect(body.shows_more.count).toBe(count((was, is) => was > 0 && is > was));
      expect(body.shows_less.count).toBe(count((was, is) => is > 0 && is < was));
      expect(body.unknown).toBe(0);
      expect(text).not.toMatch(/VALUE|fingerprint/);
      seen.refused += body.newly_refused.count;
      seen.more += body.shows_more.count;
      seen.less += body.shows_less.count;
    }
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(0);
  });
});

describe('a simulation', () => {
  test('names a token that is gone as unknown, and changes nothing', async () => {
    const { server } = fixture;
    const { id, key } = await makeApplication(server, { permissions: ['token:read', 'token:delete'] });
    const [gone, stays] = [await tokenOf(server, 'x', { mask: 'm' }), await tokenOf(server, 'y', { mask: 'm' })];
    for (const token of [gone, stays]) await server.request('GET', `/tokens/${token}`, { key });
    expect((await server.request('DELETE', `/tokens/${gone}`)).status).toBe(204);
    const before = (await server.request('GET', `/applications/${id}`)).body;
    const { body } = await simulate({ application_id: id, days: 1, permissions: ['log:read'], rules: [] });
    expect([body.examined, body.unknown, body.newly_refused.count]).toEqual([2, 1, 1]);
    expect(body.newly_refused.samples).toMatchObject([
      { permission: 'token:read', entity_id: stays, was: 'masked', would_be: 'refused' },
    ]);
    const { last_used_at: _, ...left } = (await server.request('GET', `/applications/${id}`)).body;
    const { last_used_at: __, ...was } = before;
    expect(left).toEqual(was);
  });

  test('refuses what a save would refuse: rights that the caller does not hold', async () => {
    const { server } = fixture;
    const weak = await server.newKey(server.tenant, { permissions: ['access:read', 'application:read', 'log:read'] });
    const { id } = await makeApplication(server, { permissions: ['log:read'] });
    const json = { application_id: id, days: 1 };
    expect((await simulate(json, weak.api_key)).status).toBe(200);
    const refused = await simulate({ ...json, permissions: ['token:read'] }, weak.api_key);
    expect([refused.status, refused.body.detail]).toEqual([
      422,
      'A save would refuse this: The permission token:read is needed for this.',
    ]);
    const unread = await server.newKey(server.tenant, { permissions: ['access:read'] });
    expect((await simulate(json, unread.api_key)).status).toBe(403);
    const foreign = await server.newTenant();
    expect((await simulate(json, foreign.api_key)).status).toBe(404);
  });

  test.each([
    ['no days', {}, 'days'],
    ['31 days', { days: 31 }, 'days'],
    ['a rule that is none', { days: 1, rules: [{ priority: 0 }] }, 'rules[0].priority'],
    ['a host with a path', { days: 1, allowed_hosts: ['a.example.com/x'] }, 'allowed_hosts[0]'],
  ])('with %s is a 400 at its place', async (_, json, place) => {
    const { status, body } = await simulate({ application_id: crypto.randomUUID(), ...json });
    expect([status, Object.keys(body.errors)]).toEqual([400, expect.arrayContaining([place])]);
  });
});
