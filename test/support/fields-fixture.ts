// What tests of the fields library in Chromium share: a shop on another origin, visits of its page, and a card that is typed.
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll } from 'vitest';
import { launchChromium } from './chromium.ts';
import { type SharedServer, useServer } from './server.ts';
import { type PageOptions, type Shop, startShop, type Visit } from './shop.ts';

export const NUMBER = '4916338506082832';
export const CVC = '739';
export const NAME = 'Grace Hopper Canary';

export type FieldsFixture = { server: SharedServer; shop: Shop; chromium: Browser };

/** For a `describe` of one file: opens the shop and the browser before its tests, and closes each visit after its test. */
export const shareFieldsFixture = () => {
  const fixture = {} as FieldsFixture;
  const visits: Visit[] = [];

  beforeAll(async () => {
    fixture.server = await useServer();
    fixture.shop = await startShop(fixture.server);
    fixture.chromium = await launchChromium();
  });
  afterEach(async () => {
    fixture.server.clock.offsetMs = 0;
    await Promise.all(visits.splice(0).map((visit) => visit.close()));
  });
  afterAll(async () => {
    await fixture.chromium?.close();
    await fixture.shop?.close();
  });

  const newSession = async (more: object = {}): Promise<PageOptions['session']> => {
    const json = { allowed_origins: [fixture.shop.origin], types: ['card', 'bank', 'social_security_number'], ...more };
    const { id, session_key } = (await fixture.server.request('POST', '/sessions', { json })).body;
    return { id, session_key };
  };

  const open = async (more: Partial<PageOptions> = {}): Promise<Visit> => {
    const visit = await fixture.shop.open(fixture.chromium, { session: await newSession(), ...more });
    visits.push(visit);
    return visit;
  };

  const openReady = async (more: Partial<PageOptions> = {}): Promise<Visit> => {
    const visit = await open(more);
    await visit.ready();
    return visit;
  };

  /** The data of a token, to a caller that may see it. */
  const revealed = async (id: string): Promise<any> => {
    const rule = { priority: 1, container: '/', transform: 'reveal', permissions: ['token:use', 'token:read'] };
    const { api_key } = await fixture.server.newKey(fixture.server.tenant, { rules: [rule] });
    return (await fixture.server.request('POST', '/detokenize', { key: api_key, json: { data: `{{ ${id} }}` } })).body
      .data;
  };

  /** Types a card as a person does: from field to field by Tab. */
  const typeCard = async ({ page, until }: Visit): Promise<void> => {
    await page.getByLabel('Before').focus();
    for (const [field, text] of Object.entries({ number: NUMBER, expiry: '1230', cvc: CVC, name: NAME })) {
      await page.keyboard.press('Tab');
      // The browser gives a frame of another process the focus a moment later.
      await until(`state?.fields.${field}?.focused`);
      await page.keyboard.type(text);
    }
  };

  const valueIn = (visit: Visit, field: string): Promise<string> => visit.frame(field).locator('input').inputValue();
  const stateOf = async (visit: Visit): Promise<any> => (await visit.events('change')).at(-1);

  return { fixture, newSession, open, openReady, revealed, typeCard, valueIn, stateOf };
};
