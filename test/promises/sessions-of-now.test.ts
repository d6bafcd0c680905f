// A session for browsers ends with the API key that created it, and has the rights that its creator has now.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type SharedServer, useServer } from '../support/server.ts';

const SHOP = 'https://shop.example.com';
const CARD = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };
const TYPED = 'number=4242424242424242&expiry=12%2F30&cvc=123';
const RIGHTS = ['session:create', 'token:create'];

let server: SharedServer;
beforeAll(async () => {
  server = await useServer();
});

type Session = { id: string; session_key: string; collect_url: string };
type Maker = { id: string; key: string };

const newMaker = async (): Promise<Maker> => {
  const json = { name: 'Maker', type: 'private', permissions: RIGHTS };
  return (await server.request('POST', '/applications', { json })).body;
};

const askSession = (key: string, headers: Record<string, string> = {}): Promise<Answer> => {
  const json = { allowed_origins: [SHOP], types: ['card'], return_url: `${SHOP}/paid`, max_tokens: 100 };
  return server.request('POST', '/sessions', { key, json, headers });
};

/** A session whose key a page has, and one whose page the vault has. */
type Sessions = { used: Session; paged: Session };

const newSessions = async (key: string): Promise<Sessions> => {
  const [used, paged] = [await askSession(key), await askSession(key)];
  expect([used.status, paged.status]).toEqual([201, 201]);
  return { used: used.body, paged: paged.body };
};

const create = async ({ session_key: key }: Session, path = '/tokens'): Promise<number> =>
  (await server.request('POST', path, { key, json: CARD, headers: { origin: SHOP } })).status;

const showPage = ({ collect_url }: Session) => server.request('GET', new URL(collect_url).pathname, { key: null });

const sendPage = async ({ collect_url }: Session): Promise<number> => {
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  return (await server.request('POST', new URL(collect_url).pathname, { key: null, body: TYPED, headers })).status;
};

const showFrame = async ({ id }: Session): Promise<number> => {
  const { current } = (await server.request('GET', '/fields/integrity.json', { key: null })).body;
  return (await server.request('GET', `/fields/${current}/frame/${id}/number`, { key: null })).status;
};

const tryAll = async ({ used, paged }: Sessions): Promise<number[]> => [
  await create(used),
  await create(used, '/tokenize'),
  await showFrame(used),
  (await showPage(paged)).status,
];

const expectAlive = async (sessions: Sessions): Promise<void> =>
  expect(await tryAll(sessions)).toEqual([201, 200, 200, 200]);

const expectEnded = async (sessions: Sessions): Promise<void> => {
  expect(await tryAll(sessions)).toEqual([401, 401, 404, 410]);
  expect(await sendPage(sessions.paged)).toBe(410);
};

const changeMaker = async ({ id }: Maker, rights: object): Promise<void> => {
  const changed = await server.request('PUT', `/applications/${id}`, { json: { name: 'Maker', ...rights } });
  expect(changed.status, changed.text).toBe(200);
};

describe('a session ends with its key', () => {
  test('when the key is revoked, replaced or deleted, and not with another key', async () => {
    const maker = await newMaker();
    const second = (await server.request('POST', `/applications/${maker.id}/keys`, { json: { name: 'Second' } })).body;
    const [ofFirst, ofSecond] = [await newSessions(maker.key), await newSessions(second.key)];
    await expectAlive(ofFirst);
    await expectAlive(ofSecond);
    const [, , publicId] = maker.key.split('_');
    expect((await server.request('DELETE', `/applications/${maker.id}/keys/${publicId}`)).status).toBe(204);
    await expectEnded(ofFirst);
    await expectAlive(ofSecond);
    const { key } = (await server.request('POST', `/applications/${maker.id}/regenerate`)).body;
    await expectEnded(ofSecond);
    const third = await newSessions(key);
    await expectAlive(third);
    await server.request('DELETE', `/applications/${maker.id}`);
    await expectEnded(third);
  });

  test('when the end of the key comes', async () => {
    const maker = await newMaker();
    const [, , publicId] = maker.key.split('_');
    const sessions = await newSessions(maker.key);
    await expectAlive(sessions);
    const json = { name: 'Ends', expires_at: new Date(Date.now() + 1_000).toISOString() };
    expect((await server.request('PUT', `/applications/${maker.id}/keys/${publicId}`, { json })).status).toBe(200);
    await expect.poll(() => create(sessions.used), { timeout: 20_000 }).toBe(401);
    const { paged } = sessions;
    expect([(await showPage(paged)).status, await sendPage(paged)]).toEqual([410, 410]);
  });

  test('and cannot be given to another key in the database', async () => {
    const [maker, other] = [await newMaker(), await newMaker()];
    const sessions = await newSessions(maker.key);
    const ids = [sessions.used.id, sessions.paged.id];
    const otherKey = other.key.split('_')[2];
    const change = (columns: string, ...values: unknown[]) =>
      server.sql(`UPDATE collect_sessions SET ${columns} WHERE id = ANY($1)`, [ids, ...values]);
    await change('key_id = $2', otherKey);
    await expectEnded(sessions);
    await change('key_id = $2, created_by = $3', otherKey, other.id);
    await expectEnded(sessions);
    await change('mac = $2', Buffer.alloc(32));
    await expectEnded(sessions);
    for (const column of ['key_id', 'mac']) await expect(change(`${column} = NULL`)).rejects.toThrow(`"${column}"`);
  });
});

test('a page ends with the first token of its session, and the session goes on without an alarm', async () => {
  const maker = await newMaker();
  const { used, paged } = await newSessions(maker.key);
  expect(await sendPage(paged)).toBe(303);
  expect([(await showPage(paged)).status, await sendPage(paged), await create(paged)]).toEqual([410, 410, 201]);
  expect([await create(used), (await showPage(used)).status, await sendPage(used)]).toEqual([201, 410, 410]);
  expect(server.logLines.filter((line) => line.includes(paged.id) && line.includes('alarm'))).toEqual([]);
});

const rule = (container: string) => ({ priority: 1, container, transform: 'mask', permissions: ['token:create'] });

test.each([
  ['the loss of token:create', { permissions: ['session:create'] }],
  ['the loss of session:create', { permissions: ['token:create'] }],
  ['a change of the container', { permissions: ['session:create'], rules: [rule('/general/')] }],
])('a session creates nothing after %s of its creator', async (_, rights) => {
  const maker = await newMaker();
  const sessions = await newSessions(maker.key);
  await expectAlive(sessions);
  await changeMaker(maker, rights);
  const { used, paged } = sessions;
  expect([await create(used), await create(used, '/tokenize'), await sendPage(paged)]).toEqual([403, 403, 410]);
  await changeMaker(maker, { permissions: ['session:create'], rules: [rule('/pci/')] });
  await expectAlive(sessions);
  expect(await sendPage(paged)).toBe(303);
});

test.each([
  ['token:create', { permissions: ['session:create'] }, 403],
  ['the container', { permissions: ['session:create'], rules: [rule('/general/')] }, 403],
  ['session:create', { permissions: ['token:create'] }, 403],
])('a replay gives no session key to a caller that has lost %s', async (_, rights, status) => {
  const maker = await newMaker();
  const headers = { 'svc-idempotency-key': 'page-1' };
  const first = await askSession(maker.key, headers);
  expect(first.status).toBe(201);
  await changeMaker(maker, rights);
  const refused = await askSession(maker.key, headers);
  expect([refused.status, refused.text.includes('svc_sess_')]).toEqual([status, false]);
  await changeMaker(maker, { permissions: RIGHTS });
  const again = await askSession(maker.key, headers);
  expect([again.status, again.body.session_key]).toEqual([201, first.body.session_key]);
});

test('a replay shows no key that was deleted, was replaced or has ended since', async () => {
  const maker = await newMaker();
  const send = (path: string, json: object, key: string) =>
    server.request('POST', path, { json, headers: { 'svc-idempotency-key': key } });
  const application = { name: 'Kept', type: 'private', permissions: RIGHTS };
  const created = () => send('/applications', application, 'kept-1');
  const added = () => send(`/applications/${maker.id}/keys`, { name: 'Second' }, 'kept-2');
  const regenerated = () => send(`/applications/${maker.id}/regenerate`, {}, 'kept-3');
  const session = () => askSession(maker.key, { 'svc-idempotency-key': 'kept-4' });
  const shown = async (answer: Answer): Promise<unknown[]> => [answer.status < 300, answer.text.includes('svc_')];
  const { id } = (await created()).body;
  const { id: key_id } = (await added()).body;
  const asked = (await session()).body;
  for (const ask of [created, added, session]) expect(await shown(await ask())).toEqual([true, true]);
  await server.request('DELETE', `/applications/${id}`);
  await server.request('DELETE', `/applications/${maker.id}/keys/${key_id}`);
  await server.sql('DELETE FROM collect_sessions WHERE id = $1', [asked.id]);
  for (const ask of [created, added, session])
    expect([(await ask()).status, (await ask()).text.includes('svc_')]).toEqual([409, false]);
  expect(await shown(await regenerated())).toEqual([true, true]);
  expect(await shown(await regenerated())).toEqual([true, true]);
  await server.request('POST', `/applications/${maker.id}/regenerate`, { json: {} });
  expect((await regenerated()).status).toBe(409);
});

// A replay cannot repeat a decision that was not recorded: it would give the answer after the right is gone.
test('a decision that is not recorded only refuses', () => {
  /** They throw, and show nothing. */
  const refusing = ['changeToken', 'seesValue', 'degreeOf', 'isSeen', 'dropForbidden'];
  /** For pages, reviews and simulations, whose answers are not kept. */
  const unkept = ['showLastFour', 'reachOf'];
  const deciding = ['wouldDecide', 'decide', 'getTransformOfNew', 'decideAgain'];
  const modules = join(import.meta.dirname, '../../src/modules');
  const found: string[] = [];
  for (const path of readdirSync(modules, { recursive: true, encoding: 'utf8' })) {
    if (!path.endsWith('.ts') || path.endsWith('.test.ts')) continue;
    for (const text of readFileSync(join(modules, path), 'utf8').split(/^(?=(?:export )?const )/m)) {
      const [, name = ''] = /^(?:export )?const (\w+)/.exec(text) ?? [];
      const body = text.slice(text.indexOf('=')).replaceAll(/^\s*(?:\/\/|\*|\/\*).*$/gm, '');
      if (!body.includes('wouldDecide(')) continue;
      found.push(name);
      expect([
        path,
        name,
        deciding.concat(refusing, unkept).includes(name) || /\bnoteDecision\w*\(/.test(body),
      ]).toEqual([path, name, true]);
    }
  }
  expect(found).toEqual(expect.arrayContaining(['decide', 'decideAgain', 'seesFingerprint', 'recordOfEqual']));
});
