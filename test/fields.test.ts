// The fields library in Chromium, on a page of another origin with a strict policy: what people type, and what the page learns.
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { chromiumPath, launchChromium } from './support/chromium.ts';
import { startServer, type TestServer } from './support/server.ts';
import { type PageOptions, type Shop, startShop, type Visit } from './support/shop.ts';

const NUMBER = '4916338506082832';
const CVC = '739';

describe.skipIf(chromiumPath === undefined)('the fields library, in Chromium', () => {
  let server: TestServer;
  let shop: Shop;
  let chromium: Browser;
  const visits: Visit[] = [];

  beforeAll(async () => {
    server = await startServer();
    shop = await startShop(server);
    chromium = await launchChromium();
  });
  afterEach(async () => {
    await Promise.all(visits.splice(0).map((visit) => visit.close()));
  });
  afterAll(async () => {
    await chromium?.close();
    await shop?.close();
    await server?.close();
  });

  const newSession = async (more: object = {}): Promise<PageOptions['session']> => {
    const json = { allowed_origins: [shop.origin], types: ['card', 'bank', 'social_security_number'], ...more };
    return (await server.request('POST', '/sessions', { json })).body;
  };

  /** The data of a token, to a caller that may see it. */
  const revealed = async (id: string): Promise<any> => {
    const rule = { priority: 1, container: '/', transform: 'reveal', permissions: ['token:use', 'token:read'] };
    const { api_key } = await server.newKey(server.tenant, { rules: [rule] });
    return (await server.request('POST', '/detokenize', { key: api_key, json: { data: `{{ ${id} }}` } })).body.data;
  };

  const open = async (more: Partial<PageOptions> = {}): Promise<Visit> => {
    const visit = await shop.open(chromium, { session: await newSession(), ...more });
    visits.push(visit);
    return visit;
  };

  /** Waits for the frames, and types a card as a person does: from field to field by Tab. */
  const typeCard = async (visit: Visit): Promise<void> => {
    await visit.run(
      `new Promise((done) => events.some(({ name }) => name === 'ready') ? done() : form.on('ready', done))`,
    );
    await visit.page.getByLabel('Before').focus();
    for (const text of [NUMBER, '1230', CVC, 'Ada Lovelace']) {
      await visit.page.keyboard.press('Tab');
      await visit.page.keyboard.type(text);
    }
  };

  test('a card becomes a token, and the page learns its mask', async () => {
    const visit = await open();
    await typeCard(visit);
    const token = await visit.run<any>(`tokenize({ metadata: { order: '4711' } })`);
    expect(token).toEqual({
      id: expect.any(String),
      type: 'card',
      mask: { number: 'XXXXXXXXXXXX2832', expiration_month: 12, expiration_year: 2030 },
      brand: 'visa',
    });
    expect(await revealed(token.id)).toMatchObject({ number: NUMBER, cvc: CVC, cardholder_name: 'Ada Lovelace' });
  });
});

test.runIf(chromiumPath === undefined)('no Chromium is here: the fields library is skipped', ({ skip }) => {
  skip('install chromium, or name one in CHROMIUM');
});
