// The fields library in Chromium, on a page of another origin with a strict policy: what people type, and what the page learns.
import { describe, expect, test } from 'vitest';
import { CVC, NAME, NUMBER, shareFieldsFixture } from './support/fields-fixture.ts';
import { isInstalled } from './support/programs.ts';
import type { PageOptions } from './support/shop.ts';

describe.skipIf(!isInstalled('chromium'))('the fields library, in Chromium', () => {
  const { fixture, newSession, open, openReady, revealed, typeCard, valueIn, stateOf } = shareFieldsFixture();

  test('a card becomes a token, and no value reaches the page, a URL, a log or a store', async () => {
    const session = await newSession();
    const visit = await openReady({ session });
    await typeCard(visit);
    expect(await stateOf(visit)).toMatchObject({ complete: true, valid: true, brand: 'visa', errors: {} });
    const [token, again] = await visit.run<any[]>(
      `Promise.all([tokenize({ metadata: { order: '4711' } }), tokenize({ metadata: { order: '4711' } })])`,
    );
    expect(token).toEqual({
      id: expect.any(String),
      type: 'card',
      mask: { number: 'XXXXXXXXXXXX2832', expiration_month: 12, expiration_year: 2030 },
      brand: 'visa',
    });
    expect(again).toEqual(token);
    expect((await fixture.server.request('GET', `/sessions/${session.id}`)).body.tokens).toEqual([token.id]);
    expect(await revealed(token.id)).toMatchObject({ number: NUMBER, cvc: CVC, cardholder_name: NAME });
    for (const field of ['number', 'expiry', 'cvc', 'name']) expect(await valueIn(visit, field)).toBe('');

    const heard = await visit.run<string[]>('heard');
    const kept = await visit.run<string>(
      `JSON.stringify([heard, events, document.documentElement.outerHTML, { ...localStorage }, { ...sessionStorage },
        performance.getEntries(), document.cookie, Object.keys(window).map(String)])`,
    );
    // No part of four digits but the last one, which the mask shows.
    const parts = Array.from({ length: 12 }, (_, at) => NUMBER.slice(at, at + 4));
    for (const part of [...parts, NUMBER, NAME]) expect(heard.join('\n')).not.toContain(part);
    for (const secret of [NUMBER, '4916 3385', NAME]) expect(kept).not.toContain(secret);
    // The brand is known from the first digit: a message for each digit would tell how many there are.
    const ofNumber = heard.filter((text) => text.includes('"brand":"visa"') && text.includes('"state"'));
    expect(ofNumber.length).toBeLessThan(6);

    const sent = visit.requests.filter(({ body }) => body !== '');
    expect(sent.map(({ method, url }) => `${method} ${new URL(url).pathname}`)).toEqual(['POST /tokens']);
    for (const secret of [session.session_key, NUMBER, NAME.split(' ')[0] as string])
      expect(visit.requests.filter(({ url }) => url.includes(secret))).toEqual([]);
    expect(kept.replaceAll(/window\.place = .*/g, '').includes(session.session_key)).toBe(false);
    const log = fixture.server.logLines.join('');
    for (const secret of [NUMBER, NAME, session.session_key]) expect(log).not.toContain(secret);
    expect(await visit.context.cookies()).toEqual([]);
    expect((await visit.context.storageState()).origins).toEqual([]);
    // The page has a strict policy: no line says that it, or that of a frame, was broken.
    expect(visit.console.filter((line) => !/autofill/i.test(line))).toEqual([]);
  });

  test('fields have names and descriptions, and Tab goes through them in order', async () => {
    const visit = await openReady();
    const { page } = visit;
    const titles = await page.locator('iframe').evaluateAll((all) => all.map((each) => each.getAttribute('title')));
    expect(titles).toEqual(['Card number', 'Expiry date', 'Security code', 'Name on card']);
    await typeCard(visit);
    const focused = `[document.activeElement.title, document.activeElement.id, document.activeElement.ariaLabel]`;
    await page.keyboard.press('Tab');
    await visit.until(`${focused}.includes('pay')`);
    for (const expected of ['Name on card', 'Security code', 'Expiry date', 'Card number', 'Before']) {
      await page.keyboard.press('Shift+Tab');
      await visit.until(`${focused}.includes('${expected}')`);
    }

    const number = visit.frame('number').getByRole('textbox', { name: 'Card number' });
    const attributes = await number.evaluate((input) =>
      ['autocomplete', 'inputmode', 'aria-invalid', 'aria-describedby'].map((name) => input.getAttribute(name)),
    );
    expect(attributes).toEqual(['cc-number', 'numeric', 'false', 'message']);
    await number.fill('4242');
    await number.press('Enter');
    expect(await visit.events('submit')).toHaveLength(1);
    await number.press('Tab');
    await visit.frame('number').getByRole('alert').getByText('The card number is too short.').waitFor();
    expect(await number.getAttribute('aria-invalid')).toBe('true');
    expect(await stateOf(visit)).toMatchObject({ valid: false, errors: { number: 'incomplete' } });
    expect(await visit.run('tokenize()')).toEqual({ code: 'invalid_fields', errors: { number: 'incomplete' } });
    await visit.until(`${focused}.includes('Card number')`);
  });

  test('a frame takes one message, of its page and of an origin of the session', async () => {
    const session = await newSession();
    const framed = `${fixture.server.base_url}/fields/${fixture.shop.version}/frame/${session.id}/number`;
    const script = `
      const frame = document.createElement('iframe');
      frame.src = '${framed}';
      window.answers = [];
      const hello = (more) => ({ strongroom: 'fields', mount: 'm', type: 'card', look: { labels: {} }, ...more });
      const send = (name, from, message, ...ports) => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = ({ data }) => answers.push(name + ' ' + data.kind);
        from.postMessage.call(frame.contentWindow, message, '*', ports.length ? [] : [port2]);
      };
      window.send = send; window.hello = hello; window.frame = frame;
      document.body.append(frame);`;
    const visit = await open({ session, script, policy: "default-src * 'unsafe-inline' 'unsafe-eval'" });
    await visit.page.frameLocator('iframe').locator('script').waitFor({ state: 'attached' });
    await visit.run('document.readyState === "complete" || new Promise((done) => addEventListener("load", done))');
    // Another window of the same page, by its own script.
    await visit.run(`(() => {
      const other = document.createElement('iframe');
      document.body.append(other);
      other.contentWindow.eval(\`
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = ({ data }) => parent.answers.push('other window ' + data.kind);
        parent.frame.contentWindow.postMessage(parent.hello(), '*', [port2]);\`);
    })()`);
    await visit.run(`send('no hello', window, { strongroom: 'other' })`);
    await visit.run(`send('no look', window, hello({ look: undefined }))`);
    await visit.run(`send('no port', window, hello(), 'none')`);
    await visit.run(`send('first', window, hello())`);
    await visit.until(`answers.includes('first ready')`);
    await visit.run(`send('second', window, hello())`);
    await visit.frame('number').locator('input').fill('4242');
    await visit.until(`answers.filter((each) => each === 'first state').length > 1`);
    expect((await visit.run<string[]>('answers')).filter((each) => !each.startsWith('first '))).toEqual([]);
  });

  test('a page that the session does not list frames nothing, and no script of it is heard', async () => {
    const session = await newSession();
    const host = 'shop.localhost';
    const prepare: PageOptions['prepare'] = (context) => context.clock.install();
    const visit = await open({ session, host, prepare });
    // The frame without its policy, as an old browser would load it: the script checks the origin itself.
    const lax = await open({
      session,
      host,
      prepare: async (context) => {
        await context.clock.install();
        await context.route('**/frame/**', async (route) => {
          const response = await route.fetch();
          await route.fulfill({ response, headers: { 'content-type': 'text/html; charset=utf-8' } });
        });
      },
    });
    for (const { page, until, events, console: lines } of [visit, lax]) {
      await until(`document.readyState === 'complete'`);
      await page.clock.fastForward(10_000);
      await until(`events.filter(({ name }) => name === 'error').length === 4`);
      expect((await events('error')).map(({ code }) => code)).toEqual(Array(4).fill('frame_missing'));
      expect(await events('ready')).toEqual([]);
      if (page === visit.page) expect(lines.join('\n')).toContain('frame-ancestors');
    }
    expect(await lax.frame('number').locator('input').count()).toBe(0);
  });

  test('a session that is used up or over gives its own error', async () => {
    const visit = await openReady({ session: await newSession({ max_tokens: 1 }) });
    await typeCard(visit);
    expect(await visit.run('tokenize()')).toMatchObject({ type: 'card' });
    await typeCard(visit);
    expect(await visit.run('tokenize()')).toMatchObject({ code: 'session_refused' });
    const session = await newSession({ expires_in: '1m' });
    const late = await openReady({ session });
    await typeCard(late);
    fixture.server.clock.offsetMs = 60_000;
    expect(await late.run('tokenize()')).toMatchObject({ code: 'session_expired' });
    const later = await openReady({ session });
    await later.until(`events.some(({ name }) => name === 'error')`);
    expect(await later.events('error')).toMatchObject([{ code: 'session_expired' }]);
  });

  test('a script that is not the one of the digest does not run', async () => {
    const visit = await open({ integrity: `sha384-${'A'.repeat(64)}` });
    expect(await visit.run('typeof StrongroomFields')).toBe('undefined');
    expect(visit.console.join('\n')).toContain('integrity');
  });

  test('the page for redirects works without script, and leads back', async () => {
    const json = { allowed_origins: [fixture.shop.origin], types: ['card'], return_url: `${fixture.shop.origin}/paid` };
    const { id, collect_url } = (await fixture.server.request('POST', '/sessions', { json })).body;
    const context = await fixture.chromium.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(collect_url);
    await page.getByLabel('Card number').fill(NUMBER);
    await page.getByLabel('Expiry date').fill('12/30');
    await page.getByLabel('Security code').fill(CVC);
    await page.getByRole('button').click();
    await page.waitForURL(`${fixture.shop.origin}/paid?session=${id}`);
    await context.close();
    expect((await fixture.server.request('GET', `/sessions/${id}`)).body.tokens).toHaveLength(1);
  });
});
