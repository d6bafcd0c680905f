// Forms of the fields library in Chromium: what is typed, pasted and filled in, errors, several forms, and React.
import { build } from 'esbuild';
import { describe, expect, test } from 'vitest';
import { CVC, NAME, NUMBER, shareFieldsFixture } from '../support/fields-fixture.ts';
import { isInstalled } from '../support/programs.ts';

describe.skipIf(!isInstalled('chromium'))('the fields library, in Chromium', () => {
  const { fixture, newSession, open, openReady, revealed, typeCard, valueIn, stateOf } = shareFieldsFixture();

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
    expect((await fixture.server.request('GET', `/sessions/${session.id}`)).body.tokens).toEqual([id]);
  });
});
