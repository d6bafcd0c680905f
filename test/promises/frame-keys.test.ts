// What a person types into frames leaves only under the key of the session that the frames belong to, whatever a page script does.
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { launchChromium } from '../support/chromium.ts';
import { isInstalled } from '../support/programs.ts';
import { type SharedServer, type TestTenant, useServer } from '../support/server.ts';
import { type Shop, startShop, type Visit } from '../support/shop.ts';

const NUMBER = '4000056655665556';
const CARD = { type: 'card', data: { number: NUMBER, expiration_month: 12, expiration_year: 2035, cvc: '987' } };

let server: SharedServer;
let shop: Shop;
let attacker: TestTenant;
/** The vault by a name that a session may list: an origin with an address in place of a name is refused. */
let vault: string;

beforeAll(async () => {
  server = await useServer();
  vault = server.base_url.replace('127.0.0.1', 'localhost');
  shop = await startShop({ base_url: vault });
  attacker = await server.newTenant();
});
afterAll(() => shop?.close());

type Key = { name: string; key: string; session?: string };

const newSession = async (api_key: string): Promise<{ id: string; session_key: string }> => {
  const json = { allowed_origins: [shop.origin, vault], types: ['card', 'bank', 'token'], max_tokens: 100 };
  const made = await server.request('POST', '/sessions', { key: api_key, json });
  expect(made.status).toBe(201);
  return made.body;
};

/** Keys that a script of the page may have, each of which lists the origin of the vault. */
const foreignKeys = async (): Promise<Key[]> => {
  const [ofOther, ofSame] = [await newSession(attacker.api_key), await newSession(server.tenant.api_key)];
  const json = { name: 'P', type: 'public', permissions: ['token:create'], allowed_origins: [shop.origin, vault] };
  const open = (await server.request('POST', '/applications', { key: attacker.api_key, json })).body;
  return [
    { name: 'a session of another tenant', key: ofOther.session_key, session: ofOther.id },
    { name: 'another session of the tenant', key: ofSame.session_key, session: ofSame.id },
    { name: 'a public application of another tenant', key: open.key },
    { name: 'a private application of another tenant', key: attacker.api_key },
  ];
};

const countTokens = async (): Promise<number> =>
  (
    await server.sql('SELECT count(*)::int AS n FROM tokens WHERE tenant_id = ANY($1)', [
      [server.tenant.tenant_id, attacker.tenant_id],
    ])
  )[0].n;

const create = async (path: string, key: string, headers: Record<string, string>): Promise<number> =>
  (
    await fetch(vault + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'svc-api-key': key, ...headers },
      body: JSON.stringify(CARD),
    })
  ).status;

test.each(['/tokens', '/tokenize'])('POST %s of a frame takes the key of its session, and no other', async (path) => {
  const session = await newSession(server.tenant.api_key);
  const own = { name: 'its session', key: session.session_key, session: session.id };
  const made = path === '/tokens' ? 201 : 200;
  for (const { name, key, session: ofKey } of [own, ...(await foreignKeys())])
    for (const origin of [vault, shop.origin, undefined])
      for (const named of [undefined, session.id, session.id.toUpperCase(), `${session.id}, ${ofKey}`, '']) {
        const isPublic = !name.includes('private');
        const isOfFrame = named !== undefined && named === ofKey;
        const isFromPage = named === undefined && origin === shop.origin;
        const expected = isOfFrame ? origin !== undefined : isFromPage || (!isPublic && named === undefined);
        const headers = { ...(origin && { origin }), ...(named !== undefined && { 'svc-fields-session': named }) };
        const status = await create(path, key, headers);
        expect([name, origin, named, status]).toEqual([name, origin, named, expected ? made : 403]);
      }
});

test('a page of another origin cannot say that it is a frame', async () => {
  const headers = { origin: shop.origin, 'access-control-request-method': 'POST' };
  const preflight = await server.request('OPTIONS', '/tokens', { key: null, headers });
  expect(preflight.headers.get('access-control-allow-headers')).not.toContain('svc-fields-session');
});

describe.skipIf(!isInstalled('chromium'))('in Chromium', () => {
  let chromium: Browser;
  const visits: Visit[] = [];

  beforeAll(async () => {
    chromium = await launchChromium();
  });
  afterEach(async () => void (await Promise.all(visits.splice(0).map((visit) => visit.close()))));
  afterAll(() => chromium?.close());

  /** The page of a merchant, whose second script has learnt the id of the mount. */
  const openShop = async (session: { id: string; session_key: string }): Promise<Visit> => {
    const script = `
      const draw = crypto.randomUUID.bind(crypto);
      crypto.randomUUID = () => (window.mountId = draw());
      window.form = fields.card();
      follow(form);
      form.mount({ number: '#number', expiry: '#expiry', cvc: '#cvc' });
      /** Adds a frame, and sends it a hello, then one that it takes: what the first one led to. */
      window.attack = async (src, hello, taken, asked) => {
        const frame = document.createElement('iframe');
        frame.src = src;
        await new Promise((done) => { frame.addEventListener('load', done); document.body.append(frame); });
        const result = await new Promise((done) => {
          const send = (message, listen) => {
            const { port1, port2 } = new MessageChannel();
            port1.onmessage = ({ data }) => listen(data, port1);
            frame.contentWindow.postMessage(
              { strongroom: 'fields', mount: mountId, look: { labels: {} }, ...message }, '*', [port2]);
          };
          send(hello, (data, port) => {
            if (data.kind === 'ready') port.postMessage({ kind: 'tokenize', fields: asked });
            if (data.kind === 'failed') done(data.code);
            if (data.kind === 'token') done('token');
          });
          send({ type: taken }, ({ kind }) => kind === 'ready' && done('ignored'));
        });
        frame.remove();
        return result;
      };`;
    const visit = await shop.open(chromium, { session, script });
    visits.push(visit);
    await visit.ready();
    for (const [field, text] of Object.entries({ number: NUMBER, expiry: '1235', cvc: '987' }))
      await visit.frame(field).locator('input').fill(text);
    await visit.until('state?.complete');
    return visit;
  };

  const names = ['number', 'expiry', 'cvc', 'name', 'account_number', 'routing_number', 'value'];
  const typeTakenBy = (field: string): string =>
    ['account_number', 'routing_number'].includes(field) ? 'bank' : field === 'value' ? 'token' : 'card';

  const attack = (visit: Visit, path: string, hello: object, asked: string[]): Promise<string> => {
    const field = path.split('/').at(-1) as string;
    const parts = [`${vault}/fields/${shop.version}/frame/${path}`, hello, typeTakenBy(field), asked];
    return visit.run<string>(`attack(${parts.map((each) => JSON.stringify(each)).join(', ')})`);
  };

  test('a script that adds frames gets no value, and the form of the merchant works as before', async () => {
    const session = await newSession(server.tenant.api_key);
    const visit = await openShop(session);
    const before = await countTokens();
    const card = ['number', 'expiry', 'cvc'];
    for (const { name, key, session: other } of await foreignKeys()) {
      for (const field of names)
        for (const type of ['card', 'bank', 'token']) {
          const asked = [...new Set([field, ...card])];
          const result = await attack(visit, `${session.id}/${field}`, { type, session_key: key }, asked);
          const expected = type === typeTakenBy(field) ? 'session_refused' : 'ignored';
          expect([name, field, type, result]).toEqual([name, field, type, expected]);
        }
      // A frame of the session of the key, beside the fields of the merchant.
      if (other !== undefined)
        expect(await attack(visit, `${other}/number`, { type: 'card', session_key: key }, card)).toBe('frame_missing');
    }
    // The script has the merchant's key, and so creates what it likes; but no form takes the values of another one.
    for (const [field, type] of names.map((each) => [each, typeTakenBy(each)] as const)) {
      const asked = [...new Set([field, ...card])];
      const result = await attack(visit, `${session.id}/${field}`, { type, session_key: session.session_key }, asked);
      expect([field, result]).toEqual([field, 'frame_missing']);
    }
    expect(visit.requests.filter(({ method }) => method !== 'GET')).toEqual([]);
    expect(await countTokens()).toBe(before);

    const token = await visit.run<any>('tokenize()');
    expect(token).toMatchObject({ type: 'card', mask: { number: `XXXXXXXXXXXX${NUMBER.slice(-4)}` } });
    expect((await server.request('GET', `/sessions/${session.id}`)).body.tokens).toEqual([token.id]);
  });

  test('the vault refuses the key of another session from its own documents', async () => {
    const session = await newSession(server.tenant.api_key);
    const visit = await openShop(session);
    const send = (key: string, named: string | undefined): Promise<number> =>
      visit.frame('number').evaluate(async (init) => (await fetch('/tokens', init)).status, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'svc-api-key': key,
          ...(named && { 'svc-fields-session': named }),
        },
        body: JSON.stringify(CARD),
      });
    for (const { name, key } of await foreignKeys()) {
      expect([name, await send(key, session.id)]).toEqual([name, 403]);
      if (!name.includes('private')) expect([name, await send(key, undefined)]).toEqual([name, 403]);
    }
    expect(await send(session.session_key, undefined)).toBe(403);
    expect(await send(session.session_key, session.id)).toBe(201);
  });

  test('a page that mixes two of its sessions is told so, and keeps what was typed', async () => {
    const [one, other] = [await newSession(server.tenant.api_key), await newSession(server.tenant.api_key)];
    const visit = await openShop({ id: one.id, session_key: other.session_key });
    expect(await visit.run('tokenize()')).toMatchObject({ code: 'session_refused' });
    expect(await visit.frame('cvc').locator('input').inputValue()).toBe('987');
  });
});
