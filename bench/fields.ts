// The figures of the fields library in Chromium: what it weighs, how soon a card can be typed, and what the frames add to the
// time of a create.
import { gzipSync } from 'node:zlib';
import { chromiumPath, launchChromium } from '../test/support/chromium.ts';
import { startShop } from '../test/support/shop.ts';
import { remove, startServer } from './servers.ts';
import { headersOf, median, round } from './turns.ts';

const TURNS = 20;
const CARD = {
  number: '4242424242424242',
  expiration_month: 12,
  expiration_year: 2030,
  cvc: '123',
  cardholder_name: 'Ada',
};

/** Measures in the page's clock, from the call to the event or the answer. */
const SCRIPT = `
  window.form = fields.card();
  follow(form);
  const began = performance.now();
  form.on('ready', () => { window.readyMs = performance.now() - began; });
  form.mount({ number: '#number', expiry: '#expiry', cvc: '#cvc', name: '#name' });
  window.pay = async () => {
    const clicked = performance.now();
    await form.tokenize();
    return performance.now() - clicked;
  };`;

export const fields = async () => {
  if (chromiumPath === undefined) return { skipped: 'no Chromium is here' };
  const server = await startServer();
  const { base_url, api_key } = server.credentials;
  const shop = await startShop({ base_url });
  const chromium = await launchChromium();
  try {
    const weigh = async (name: string): Promise<number> =>
      gzipSync(await (await fetch(`${base_url}/fields/${shop.version}/${name}`)).text()).byteLength;
    const post = async (path: string, key: string, body: unknown): Promise<any> => {
      const headers = { ...headersOf(key), origin: shop.origin };
      const response = await fetch(base_url + path, { method: 'POST', headers, body: JSON.stringify(body) });
      if (!response.ok) throw new Error(`${path}: ${response.status}`);
      return response.json();
    };
    const newSession = () => post('/sessions', api_key, { allowed_origins: [shop.origin], types: ['card'] });

    const ready: number[] = [];
    const clicks: number[] = [];
    const creates: number[] = [];
    // The first turn warms browser and server.
    for (let turn = 0; turn <= TURNS; turn += 1) {
      const session = await newSession();
      const visit = await shop.open(chromium, { session, script: SCRIPT });
      await visit.ready();
      const typed = { number: CARD.number, expiry: '12/30', cvc: CARD.cvc, name: CARD.cardholder_name };
      for (const [field, text] of Object.entries(typed)) await visit.frame(field).locator('input').fill(text);
      const click = await visit.run<number>('pay()');
      const began = performance.now();
      await post('/tokens', session.session_key, { type: 'card', data: CARD });
      const create = performance.now() - began;
      if (turn > 0) {
        ready.push(await visit.run<number>('readyMs'));
        clicks.push(click);
        creates.push(create);
      }
      await visit.close();
    }
    return {
      loader_gzip_bytes: await weigh('fields.js'),
      frame_gzip_bytes: (await weigh('frame.js')) + (await weigh('frame.css')),
      ready_p50_ms: round(median(ready)),
      ready_at_most: 300,
      tokenize_p50_ms: round(median(clicks)),
      api_p50_ms: round(median(creates)),
      added_ms: round(median(clicks) - median(creates)),
      added_at_most: 20,
    };
  } finally {
    await chromium.close();
    await shop.close();
    await server.stop();
    remove(server.dataDir);
  }
};
