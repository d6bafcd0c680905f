// The fields library in Chromium, on a page of another origin with a strict policy: what people type, and what the page learns.
import { build } from 'esbuild';
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { launchChromium } from './support/chromium.ts';
import { isInstalled } from './support/programs.ts';
import { type SharedServer, useServer } from './support/server.ts';
import { type PageOptions, type Shop, startShop, type Visit } from './support/shop.ts';

const NUMBER = '4916338506082832';
const CVC = '739';
const NAME = 'Grace Hopper Canary';

describe.skipIf(!isInstalled('chromium'))('the fields library, in Chromium', () => {
  let server: SharedServer;
  let shop: Shop;
  let chromium: Browser;
  const visits: Visit[] = [];

  beforeAll(async () => {
    server = await useServer();
    shop = await startShop(server);
    chromium = await launchChromium();
  });
  afterEach(async () => {
    server.clock.offsetMs = 0;
    await Promise.all(visits.splice(0).map((visit) => visit.close()));
  });
  afterAll(async () => {
    await chromium?.close();
    await shop?.close();
  });

  const newSession = async (more: object = {}): Promise<PageOptions['session']> => {
    const json = { allowed_origins: [shop.origin], types: ['card', 'bank', 'social_security_number'], ...more };
    const { id, session_key } = (await server.request('POST', '/sessions', { json })).body;
    return { id, session_key };
  };

  const open = async (more: Partial<PageOptions> = {}): Promise<Visit> => {
    const visit = await shop.open(chromium, { session: await newSession(), ...more });
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
    const { api_key } = await server.newKey(server.tenant, { rules: [rule] });
    return (await server.request('POST', '/detokenize', { key: api_key, json: { data: `{{ ${id} }}` } })).body.data;
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
    expect((await server.request('GET', `/sessions/${session.id}`)).body.tokens).toEqual([token.id]);
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
    const log = server.logLines.join('');
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

  test('digits are grouped while typed and pasted, and the caret stays', async () => {
    const visit = await openReady();
    const number = visit.frame('number').locator('input');
    const { keyboard } = visit.page;
    const state = () => number.evaluate((input: any) => `${input.value}@${input.selectionStart}`);
    const press = async (...keys: string[]) => {
      for (const key of keys) await keyboard.press(key);
      return state();
    };
    await number.focus();
    await keyboard.type('424255556666');
    expect(await state()).toBe('4242 5555 6666@14');
    expect(await press(...Array<string>(9).fill('ArrowLeft'), '1')).toBe('4242 1555 5666 6@6');
    expect(await press('Backspace')).toBe('4242 5555 6666@4');
    expect(await press('Backspace')).toBe('4245 5556 666@3');
    expect(await press('ArrowRight', 'Delete')).toBe('4245 5566 66@4');
    expect(await press('Control+a', 'Delete')).toBe('@0');
    await keyboard.insertText('4000-0000 0000-0000 006');
    expect(await state()).toBe('4000 0000 0000 0000 006@23');
    expect((await stateOf(visit)).fields.number).toMatchObject({ complete: true, brand: 'visa' });
    const expiry = visit.frame('expiry').locator('input');
    await expiry.focus();
    await keyboard.type('430');
    expect(await expiry.inputValue()).toBe('04/30');
    for (let count = 0; count < 3; count += 1) await keyboard.press('Backspace');
    expect(await expiry.inputValue()).toBe('04');
  });

  test('autofill sets several inputs, and the security code has the length of the brand', async () => {
    const visit = await openReady();
    const fill = (field: string, value: string) =>
      visit.frame(field).evaluate(
        `{ const input = document.querySelector('input'); input.value = '${value}';
           for (const name of ['input', 'change']) input.dispatchEvent(new Event(name, { bubbles: true })); }`,
      );
    const fillAll = (values: Record<string, string>) =>
      Promise.all(Object.entries(values).map(([field, value]) => fill(field, value)));
    await fillAll({ number: '378282246310005', expiry: '12/2030', cvc: '123', name: NAME });
    await visit.until('state.fields.name?.complete');
    expect(await stateOf(visit)).toMatchObject({ complete: false, brand: 'amex' });
    await fill('cvc', '1234');
    await visit.until('state.complete');
    await fill('number', '5555555555554444');
    await visit.until(`state.brand === 'mastercard' && !state.complete`);
    await fillAll({ cvc: '123', expiry: '2030-12' });
    await visit.until('state.complete');
    expect(await valueIn(visit, 'expiry')).toBe('12/2030');
  });

  test('a frame takes one message, of its page and of an origin of the session', async () => {
    const session = await newSession();
    const framed = `${server.base_url}/fields/${shop.version}/frame/${session.id}/number`;
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

  test('a frame that is blocked or removed gives an error within ten seconds', async () => {
    const blocked = await open({
      prepare: async (context) => {
        await context.clock.install();
        await context.route('**/cvc', (route) => route.abort('blockedbyclient'));
      },
    });
    await blocked.until(`document.readyState === 'complete'`);
    await blocked.page.clock.fastForward(10_000);
    await blocked.until(`events.some(({ name }) => name === 'error')`);
    expect(await blocked.events('error')).toMatchObject([{ code: 'frame_missing', field: 'cvc' }]);
    expect(await blocked.run('tokenize()')).toMatchObject({ code: 'frame_missing' });

    const removed = await openReady();
    await typeCard(removed);
    await removed.run(`document.querySelector('#expiry iframe').remove()`);
    await removed.until(`events.some(({ name }) => name === 'error')`);
    expect(await removed.events('error')).toMatchObject([{ code: 'frame_missing', field: 'expiry' }]);
    expect(await removed.run('tokenize()')).toMatchObject({ code: 'frame_missing' });
  });

  test('a network error and an error of the vault lose nothing that was typed', async () => {
    const visit = await openReady();
    await typeCard(visit);
    const expectKept = async (code: string) => {
      expect(await visit.run('tokenize()')).toMatchObject({ code });
      expect((await visit.events('error')).at(-1)).toMatchObject({ code });
      expect(await valueIn(visit, 'number')).toBe('4916 3385 0608 2832');
      expect(await valueIn(visit, 'cvc')).toBe(CVC);
    };
    await visit.context.setOffline(true);
    await expectKept('network');
    await visit.context.setOffline(false);
    for (const [status, code] of [
      [503, 'server'],
      [429, 'rate_limited'],
      [400, 'refused'],
    ] as const) {
      await visit.context.route('**/tokens', (route) => route.fulfill({ status, body: '{}' }));
      await expectKept(code);
      await visit.context.unroute('**/tokens');
    }
    expect(await visit.run('tokenize()')).toMatchObject({ type: 'card' });
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
    server.clock.offsetMs = 60_000;
    expect(await late.run('tokenize()')).toMatchObject({ code: 'session_expired' });
    const later = await openReady({ session });
    await later.until(`events.some(({ name }) => name === 'error')`);
    expect(await later.events('error')).toMatchObject([{ code: 'session_expired' }]);
  });

  test('a form is cleared, focused, updated, unmounted and mounted again', async () => {
    const visit = await openReady();
    await typeCard(visit);
    await visit.run('form.clear()');
    await visit.until('state.empty');
    await visit.run(`form.update({ locale: 'de', labels: { number: 'Kartennummer', 'number.required': 'Bitte angeben.' },
      style: { base: { color: 'rgb(1, 2, 3)', backgroundColor: 'url(https://evil.example/x)', position: 'fixed',
        borderColor: 'red } body { display: none', padding: 'calc(1px + 2px)' } } })`);
    const number = visit.frame('number').getByRole('textbox', { name: 'Kartennummer' });
    await number.waitFor();
    expect(
      await number.evaluate((input: any) => {
        const { color, backgroundColor, position, padding, borderTopColor } = (globalThis as any).getComputedStyle(
          input,
        );
        return {
          color,
          backgroundColor,
          position,
          padding,
          borderTopColor,
          lang: input.ownerDocument.documentElement.lang,
        };
      }),
    ).toEqual({
      color: 'rgb(1, 2, 3)',
      backgroundColor: 'rgb(255, 255, 255)',
      position: 'static',
      padding: '3px',
      borderTopColor: 'rgb(118, 118, 118)',
      lang: 'de',
    });
    const countRefused = () => visit.console.filter((line) => line.includes('is not supported, or its value')).length;
    await expect.poll(countRefused, { timeout: 10_000 }).toBe(12);
    // A browser that is busy with the focus of another frame may drop this one, or the keys that follow.
    const typeFocused = async (): Promise<string> => {
      await visit.page.getByLabel('Before').focus();
      await visit.run('form.focus("cvc")');
      await visit.until('state.fields.cvc.focused');
      await visit.frame('cvc').locator('input').selectText();
      await visit.page.keyboard.type(CVC);
      return valueIn(visit, 'cvc');
    };
    await expect.poll(typeFocused, { timeout: 30_000, interval: 500 }).toBe(CVC);
    expect(await visit.run('tokenize()')).toMatchObject({ code: 'invalid_fields', errors: { number: 'required' } });
    await visit.frame('number').getByText('Bitte angeben.').waitFor();

    await visit.run('form.unmount()');
    expect(await visit.page.locator('iframe').count()).toBe(0);
    expect(await visit.run('tokenize()')).toMatchObject({ code: 'unmounted' });
    await visit.run(
      `events.length = 0; form.mount({ number: '#number', expiry: '#expiry', cvc: '#cvc', name: '#name' })`,
    );
    await visit.ready();
    await typeCard(visit);
    expect(await visit.run('tokenize()')).toMatchObject({ type: 'card', brand: 'visa' });
  });

  test('bank accounts and single values become tokens', async () => {
    const bank = await openReady({
      script: `window.form = fields.bank(); follow(form);
        form.mount({ account_number: '#number', routing_number: '#value' });`,
    });
    await bank.frame('account_number').locator('input').fill('000-123456789');
    await bank.frame('routing_number').locator('input').fill('110000000');
    const account = await bank.run<any>('tokenize()');
    expect(await revealed(account.id)).toEqual({ account_number: '000123456789', routing_number: '110000000' });
    const text = await openReady({
      script: `window.form = fields.text('social_security_number'); follow(form);
        form.mount({ value: '#value' }, { labels: { value: 'Social security number' }, hideLabels: true });`,
    });
    await text.frame('value').getByRole('textbox', { name: 'Social security number' }).fill('123-45-6789');
    const { id } = await text.run<any>('tokenize()');
    expect(await revealed(id)).toBe('123-45-6789');
  });

  test('two forms of a page keep their values apart', async () => {
    const script = `
      window.form = fields.card(); follow(form); form.mount({ number: '#number', cvc: '#cvc' });
      window.other = fields.card(); follow(other); other.mount({ number: '#expiry', cvc: '#name' });`;
    const visit = await open({ script });
    await visit.until(`events.filter(({ name }) => name === 'ready').length === 2`);
    const inputIn = (place: string) => visit.page.frameLocator(`${place} iframe`).locator('input');
    await inputIn('#number').fill(NUMBER);
    await inputIn('#cvc').fill(CVC);
    expect(await visit.run('other.tokenize().catch(({ code, errors }) => ({ code, errors }))')).toEqual({
      code: 'invalid_fields',
      errors: { number: 'required', cvc: 'required' },
    });
    await inputIn('#expiry').fill('378282246310005');
    await inputIn('#name').fill('1234');
    const { id } = await visit.run<any>('tokenize()');
    expect(await revealed(id)).toEqual({ number: NUMBER, cvc: CVC });
    expect(await inputIn('#name').inputValue()).toBe('1234');
  });

  test('a frame of another origin that is named as the fields are does not stop them', async () => {
    const script = `
      const other = document.createElement('iframe');
      other.sandbox = '';
      other.srcdoc = '<iframe name="strongroomFields"></iframe>';
      other.addEventListener('load', () => {
        window.form = fields.card();
        follow(form);
        form.mount({ number: '#number', expiry: '#expiry', cvc: '#cvc', name: '#name' });
      });
      document.body.append(other);`;
    const visit = await openReady({ script });
    await typeCard(visit);
    expect(await visit.run('tokenize()')).toMatchObject({ type: 'card', brand: 'visa' });
  });

  test('a script that is not the one of the digest does not run', async () => {
    const visit = await open({ integrity: `sha384-${'A'.repeat(64)}` });
    expect(await visit.run('typeof StrongroomFields')).toBe('undefined');
    expect(visit.console.join('\n')).toContain('integrity');
  });

  test('React components mount, follow the state, and mount again for another session', async () => {
    const contents = `
      import { createElement as h, StrictMode, useState } from 'react';
      import { createRoot } from 'react-dom/client';
      import { useCard } from '@strongroom/fields-react';
      const Checkout = () => {
        const [hint, setHint] = useState('a');
        const [given, setPlace] = useState(place);
        const card = useCard(given, { labels: { number: 'Number ' + hint } });
        Object.assign(window, { form: card, state: card.state, isReady: card.isReady, setHint, setPlace });
        // A form that cannot be typed in yet is not complete, and has had no error.
        if (!card.isReady && (card.state?.complete || card.error)) window.isOutdated = true;
        const { isReady, state, error } = card;
        (window.rendered ??= []).push({ session: given.session.id, heard: { isReady, state: state ?? null, error: error ?? null } });
        return h('main', null, ...['number', 'expiry', 'cvc', 'name'].map((name) => h('div', { key: name, ref: card.ref(name) })));
      };
      createRoot(document.querySelector('#value')).render(h(StrictMode, null, h(Checkout)));`;
    const bundled = await build({
      stdin: { contents, resolveDir: import.meta.dirname },
      bundle: true,
      write: false,
      define: { 'process.env.NODE_ENV': '"development"' },
    });
    const visit = await open({ bundle: bundled.outputFiles[0]?.text ?? '' });
    await visit.until('window.isReady');
    expect(await visit.page.locator('iframe').count()).toBe(4);
    await typeCard(visit);
    await visit.until('state.complete');
    await visit.run(`setHint('b')`);
    await visit.frame('number').getByRole('textbox', { name: 'Number b' }).waitFor();
    expect(await valueIn(visit, 'number')).toBe('4916 3385 0608 2832');
    expect(await visit.run('tokenize()')).toMatchObject({ type: 'card', brand: 'visa' });

    await typeCard(visit);
    await visit.until('state.complete');
    const session = await newSession();
    await visit.run(`setPlace({ ...place, session: ${JSON.stringify(session)} })`);
    await visit.until(`document.querySelector('iframe').src.includes('${session.id}') && window.isReady`);
    expect(await visit.run('window.isOutdated ?? false')).toBe(false);
    // The first render of the other session has nothing of what the form before it said.
    expect(await visit.run(`rendered.find(({ session }) => session === '${session.id}').heard`)).toEqual({
      isReady: false,
      state: null,
      error: null,
    });
    await typeCard(visit);
    const { id } = await visit.run<any>('tokenize()');
    expect((await server.request('GET', `/sessions/${session.id}`)).body.tokens).toEqual([id]);
  });

  test('the page for redirects works without script, and leads back', async () => {
    const json = { allowed_origins: [shop.origin], types: ['card'], return_url: `${shop.origin}/paid` };
    const { id, collect_url } = (await server.request('POST', '/sessions', { json })).body;
    const context = await chromium.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(collect_url);
    await page.getByLabel('Card number').fill(NUMBER);
    await page.getByLabel('Expiry date').fill('12/30');
    await page.getByLabel('Security code').fill(CVC);
    await page.getByRole('button').click();
    await page.waitForURL(`${shop.origin}/paid?session=${id}`);
    await context.close();
    expect((await server.request('GET', `/sessions/${id}`)).body.tokens).toHaveLength(1);
  });
});
