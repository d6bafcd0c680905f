// The security code of a stored card in Chromium: one frame of the vault, on a page of another origin with a strict policy.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { describe, expect, test } from 'vitest';
import { shareFieldsFixture } from './support/fields-fixture.ts';
import { root } from './support/process.ts';
import { isInstalled } from './support/programs.ts';
import type { PageOptions, Visit } from './support/shop.ts';

const NUMBER = '4916338506082832';
const AMEX = '378282246310005';
const CVC = '7391';

/** @param options of `securityCode`, as the page writes them. */
const mountCode = (options = '') => `
  window.form = fields.securityCode(${options});
  follow(form);
  window.save = () => form.save().catch(({ code, errors }) => ({ code, errors }));
  form.mount({ cvc: '#cvc' });`;

describe.skipIf(!isInstalled('chromium'))('the security code again, in Chromium', () => {
  const { fixture, newSession, open, openReady, revealed, stateOf, valueIn } = shareFieldsFixture();

  const makeCard = async (number: string): Promise<string> => {
    const data = { number, expiration_month: 12, expiration_year: 2040 };
    return (await fixture.server.request('POST', '/tokens', { json: { type: 'card', data } })).body.id;
  };

  const sessionFor = (token_id: string, more: object = {}) => newSession({ types: ['cvc'], token_id, ...more });

  const openCode = (session: PageOptions['session'], options?: string): Promise<Visit> =>
    openReady({ session, script: mountCode(options) });

  const type = async (visit: Visit, text: string): Promise<void> => {
    await visit.frame('cvc').locator('input').focus();
    await visit.page.keyboard.type(text);
  };

  test('goes from the frame to the vault, and the page reads nothing of it', async () => {
    const id = await makeCard(AMEX);
    const session = await sessionFor(id);
    const visit = await openCode(session);
    await type(visit, CVC);
    expect(await stateOf(visit)).toMatchObject({ complete: true, valid: true, errors: {} });
    const [saved, again] = await visit.run<any[]>('Promise.all([save(), save()])');
    expect(saved).toEqual({ id, cvc_expires_at: expect.stringMatching(/^\d{4}-.*Z$/) });
    expect(again).toEqual(saved);
    expect(await revealed(id)).toMatchObject({ number: AMEX, cvc: CVC });
    expect(await valueIn(visit, 'cvc')).toBe('');

    const sent = visit.requests.filter(({ body }) => body !== '');
    expect(sent.map(({ method, url }) => `${method} ${url}`)).toEqual([
      `POST ${fixture.server.base_url}/sessions/${session.id}/cvc`,
    ]);
    const holding = visit.requests.filter(({ url, body }) => `${url.replaceAll(session.id, '')} ${body}`.includes(CVC));
    expect(holding).toEqual(sent);
    const read = await visit.run<string>(
      `JSON.stringify([heard, events, document.documentElement.outerHTML, { ...localStorage }, { ...sessionStorage },
        document.cookie])`,
    );
    const withoutIds = read.replaceAll(
      /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|svc_sess_\w+|http:\/\/[\w.]+:\d+/g,
      '',
    );
    expect(withoutIds).not.toContain(CVC);
    expect(fixture.server.logLines.filter((line) => line.includes(`"${CVC}"`))).toEqual([]);
    expect(visit.console.filter((line) => !/autofill/i.test(line))).toEqual([]);
  });

  test('has the length that the vault knows, whatever brand the page names', async () => {
    const visit = await openCode(await sessionFor(await makeCard(AMEX)), `{ brand: 'visa' }`);
    const input = visit.frame('cvc').getByRole('textbox', { name: 'Security code' });
    expect(await input.getAttribute('autocomplete')).toBe('cc-csc');
    await type(visit, '739');
    expect(await stateOf(visit)).toMatchObject({ complete: false, brand: 'visa' });
    expect(await visit.run('save()')).toEqual({ code: 'invalid_fields', errors: { cvc: 'incomplete' } });
    await visit.frame('cvc').getByRole('alert').getByText('The security code is too short.').waitFor();
    await type(visit, '1');
    expect(await stateOf(visit)).toMatchObject({ complete: true });

    const other = await openCode(await sessionFor(await makeCard(NUMBER)), `{ brand: 'amex' }`);
    await type(other, '739');
    expect(await stateOf(other)).toMatchObject({ complete: true });
    await type(other, '1');
    expect(await stateOf(other)).toMatchObject({ complete: false });
    expect([visit, other].flatMap(({ requests }) => requests.filter(({ method }) => method === 'POST'))).toEqual([]);
  });

  test('says why it was not saved, and keeps what was typed', async () => {
    const id = await makeCard(NUMBER);
    const visit = await openCode(await sessionFor(id, { max_tokens: 1 }));
    await type(visit, '739');
    expect(await visit.run('save()')).toMatchObject({ id });
    await type(visit, '740');
    expect(await visit.run('save()')).toMatchObject({ code: 'session_refused' });
    expect(await valueIn(visit, 'cvc')).toBe('740');
    expect(await revealed(id)).toMatchObject({ cvc: '739' });

    const late = await sessionFor(id, { expires_in: '1m' });
    fixture.server.clock.offsetMs = 61_000;
    const expired = await open({ session: late, script: mountCode() });
    await expired.until(`events.some(({ name }) => name === 'error')`);
    expect(await expired.events('error')).toMatchObject([{ code: 'session_expired' }]);
  });

  test('leaves under the key of the session of its frame only', async () => {
    const [id, other] = [await makeCard(NUMBER), await makeCard(NUMBER)];
    const [own, foreign] = [await sessionFor(id), await sessionFor(other)];
    const visit = await openCode({ id: own.id, session_key: foreign.session_key });
    await type(visit, '739');
    expect(await visit.run('save()')).toMatchObject({ code: 'session_refused' });
    expect(visit.requests.filter(({ method }) => method === 'POST')).toEqual([]);
  });

  test('is no card: a form of a card under its session stores nothing', async () => {
    const session = await sessionFor(await makeCard(NUMBER));
    const visit = await openReady({ session });
    await visit.frame('number').locator('input').fill(NUMBER);
    await visit.frame('expiry').locator('input').fill('12/40');
    await visit.frame('cvc').locator('input').fill('739');
    await visit.frame('name').locator('input').fill('Grace Hopper');
    expect(await visit.run('tokenize()')).toMatchObject({ code: 'session_refused' });
  });

  test('has a hook for React', async () => {
    const contents = `
      import { createElement as h, StrictMode } from 'react';
      import { createRoot } from 'react-dom/client';
      import { useSecurityCode } from '@strongroom/fields-react';
      const Pay = () => {
        const code = useSecurityCode(place, { brand: 'visa', labels: { cvc: 'Code' } });
        Object.assign(window, { code, state: code.state, isReady: code.isReady });
        return h('div', { ref: code.ref('cvc') });
      };
      createRoot(document.querySelector('#value')).render(h(StrictMode, null, h(Pay)));`;
    const source = (name: string) => join(root, 'packages', name, 'src', `${name}.ts`);
    const { version } = JSON.parse(readFileSync(join(root, 'packages/fields/package.json'), 'utf8'));
    const bundled = await build({
      stdin: { contents, resolveDir: import.meta.dirname },
      bundle: true,
      write: false,
      // The sources, and not what an earlier build left.
      alias: { '@strongroom/fields': source('fields'), '@strongroom/fields-react': source('fields-react') },
      define: { 'process.env.NODE_ENV': '"development"', FIELDS_VERSION: JSON.stringify(version) },
    });
    const id = await makeCard(NUMBER);
    const visit = await open({ session: await sessionFor(id), bundle: bundled.outputFiles[0]?.text ?? '' });
    await visit.until('window.isReady');
    expect(await visit.page.locator('iframe').count()).toBe(1);
    await type(visit, '739');
    await visit.until('state.complete');
    expect(await visit.run(`[state.brand, 'tokenize' in code]`)).toEqual(['visa', false]);
    expect(await visit.run('code.save()')).toMatchObject({ id });
    expect(await revealed(id)).toMatchObject({ cvc: '739' });
  });
});
