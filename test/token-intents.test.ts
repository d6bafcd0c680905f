// Token intents: what no answer tells of them, how long they live, and how one becomes a token, once.
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { exportTokens } from '../src/modules/tokens/export-tokens.ts';
import { type Answer, type SharedServer, type TestTenant, useServer } from './support/server.ts';

let server: SharedServer;
let tenant: TestTenant;

beforeAll(async () => {
  server = await useServer();
});
beforeEach(async () => {
  tenant = await server.newTenant();
});
afterEach(() => {
  server.clock.offsetMs = 0;
});

const send = (method: string, path: string, json?: unknown, key = tenant.api_key, headers = {}): Promise<Answer> =>
  server.request(method, path, { key, headers, ...(json !== undefined && { json }) });

const CARD = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '123' };
const HOUR_MS = 3_600_000;

const newIntent = async (data: unknown = CARD, type = 'card'): Promise<any> => {
  const { status, body, text } = await send('POST', '/token-intents', { type, data });
  expect(status, text).toBe(201);
  return body;
};

const convert = (token_intent_id: unknown, more = {}, key = tenant.api_key): Promise<Answer> =>
  send('POST', '/tokens', { token_intent_id, ...more }, key);

const fieldsOf = ({ status, body }: Answer) => [status, Object.keys(body?.errors ?? {})];

const cvcOf = (id: string): Promise<Answer> => send('POST', '/detokenize', `{{ ${id} | json: '$.cvc' }}`, reader);

let reader: string;
beforeEach(async () => {
  const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read', 'token:search'] }];
  reader = (await server.newKey(tenant, { permissions: [], rules })).api_key;
});

describe('a token intent', () => {
  test('has no fingerprint in any answer, and no deduplication and no search finds it', async () => {
    const { id, ...intent } = await newIntent();
    expect(Object.keys(intent).toSorted()).toEqual([
      'card',
      'created_at',
      'created_by',
      'expires_at',
      'tenant_id',
      'type',
    ]);
    const kept = (await send('POST', '/tokens', { type: 'card', data: CARD, deduplicate_token: true })).body;
    expect([kept.id !== id, kept._extras]).toEqual([true, { deduplicated: false }]);
    for (const key of [tenant.api_key, reader]) {
      const answers = [
        (await send('GET', `/token-intents/${id}`, undefined, key)).body,
        (await send('GET', `/tokens/${id}`, undefined, key)).body,
        (await send('GET', `/tokens?id=${id}`, undefined, key)).body.data[0],
      ];
      for (const answer of answers) expect([answer.id, answer.fingerprint]).toEqual([id, undefined]);
    }
    const found = await send('POST', '/tokens/search', { query: `fingerprint:${kept.fingerprint}` }, reader);
    expect(found.body.data.map((token: { id: string }) => token.id)).toEqual([kept.id]);
  });

  test('lives for a day, and its security code as long as that of any card', async () => {
    const { id, expires_at } = await newIntent();
    expect(Math.round((Date.parse(expires_at) - Date.now()) / HOUR_MS)).toBe(24);
    expect((await cvcOf(id)).body).toBe('123');
    server.clock.offsetMs = server.ctx.config.cvcTtlMs + 60_000;
    expect([(await cvcOf(id)).status, (await send('GET', `/token-intents/${id}`)).status]).toEqual([400, 200]);
    server.clock.offsetMs = 24 * HOUR_MS + 60_000;
    expect([(await send('GET', `/token-intents/${id}`)).status, (await convert(id)).status]).toEqual([404, 404]);
  });

  test('of a public key tells what the page typed, and no more', async () => {
    const json = {
      name: 'P',
      type: 'public',
      permissions: ['token:create'],
      allowed_origins: ['https://shop.example'],
    };
    const { key } = (await send('POST', '/applications', json)).body;
    const headers = { origin: 'https://shop.example' };
    const made = await send('POST', '/token-intents', { type: 'card', data: CARD }, key, headers);
    expect([made.status, made.headers.get('access-control-allow-origin')]).toEqual([201, 'https://shop.example']);
    const { id, expires_at, ...rest } = made.body;
    expect(rest).toEqual({
      type: 'card',
      card: { brand: 'visa', last4: '4242', expiration_month: 12, expiration_year: 2030 },
    });
    expect((await send('GET', `/token-intents/${id}`, undefined, key, headers)).status).toBe(403);
    expect(fieldsOf(await send('POST', '/tokens', { token_intent_id: id }, key, headers))).toEqual([
      400,
      ['token_intent_id'],
    ]);
    expect((await convert(id)).status).toBe(201);
    expect(expires_at).toBeDefined();
  });

  test('cannot be changed, its ids cannot be chosen, and no export has it', async () => {
    const { id } = await newIntent('x', 'token');
    expect((await send('PATCH', `/tokens/${id}`, { expires_at: null })).status).toBe(422);
    expect(fieldsOf(await send('POST', '/tokens', { id: 'intent-mine', data: 'x' }))).toEqual([400, ['id']]);
    const { id: kept } = (await send('POST', '/tokens', { data: 'x' })).body;
    const ids: string[] = [];
    await exportTokens(server.ctx, tenant.tenant_id, async (page) => void ids.push(...page.map((each) => each.id)));
    expect(ids).toEqual([kept]);
  });

  test.each([
    [{ type: 'card' }, ['data']],
    [{ type: 'none', data: 'x' }, ['type']],
    [{ data: 'x' }, ['type']],
    [{ type: 'card', data: { ...CARD, number: '4242424242424243' } }, ['data.number']],
    [{ type: 'token', data: 'x', encrypted: 'y' }, ['encrypted']],
    [{ type: 'token', data: 'x', metadata: {} }, ['metadata']],
  ])('%j is a 400 that names the place', async (json, places) => {
    expect(fieldsOf(await send('POST', '/token-intents', json))).toEqual([400, places]);
  });
});

describe('a creation from an intent', () => {
  test('makes a token as any, without the security code, and ends the intent', async () => {
    const { id } = await newIntent();
    const { status, body } = await convert(id, { id: 'order-1', metadata: { order: '1' }, type: 'card' });
    const plain = (await send('POST', '/tokens', { type: 'card', data: CARD })).body;
    expect([status, body.id, body.metadata, body.fingerprint]).toEqual([
      201,
      'order-1',
      { order: '1' },
      plain.fingerprint,
    ]);
    expect(body.expires_at).toBeUndefined();
    expect((await cvcOf('order-1')).status).toBe(400);
    expect((await convert(id)).status).toBe(404);
    const left = await server.sql('SELECT id FROM tokens WHERE tenant_id = $1 AND id = $2', [tenant.tenant_id, id]);
    const codes = await server.sql('SELECT 1 AS one FROM token_cvcs WHERE tenant_id = $1 AND id = $2', [
      tenant.tenant_id,
      id,
    ]);
    expect([left, codes]).toEqual([[], []]);
    const log = await server.sql(
      "SELECT operation, message FROM audit_log WHERE tenant_id = $1 AND entity_ids = ARRAY[$2] AND operation = 'delete'",
      [tenant.tenant_id, id],
    );
    expect(log).toEqual([{ operation: 'delete', message: 'Token intent used' }]);
  });

  test('of several at once is one', async () => {
    const { id } = await newIntent('once', 'token');
    const statuses = (await Promise.all(Array.from({ length: 10 }, () => convert(id)))).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([201, ...Array.from({ length: 9 }, () => 404)]);
    const { body } = await send('GET', '/tokens');
    expect(body.pagination.total_items).toBe(1);
  });

  test('that fails leaves the intent as it is', async () => {
    const { id } = await newIntent('x', 'token');
    await send('POST', '/tokens', { id: 'taken', data: 'y' });
    expect([(await convert(id, { id: 'taken' })).status, (await convert(id)).status]).toEqual([409, 201]);
  });

  test('returns an equal token where it deduplicates, and ends the intent', async () => {
    const first = (await send('POST', '/tokens', { type: 'card', data: CARD })).body;
    const { id } = await newIntent();
    const { body } = await convert(id, { deduplicate_token: true });
    expect([body.id, body._extras, (await convert(id)).status]).toEqual([first.id, { deduplicated: true }, 404]);
  });

  test('shows the caller no more than it saw: not by a container, and not by an id', async () => {
    const permissions = ['token:create', 'token:read'];
    const rules = [
      { priority: 1, container: '/general/', transform: 'reveal', permissions },
      {
        priority: 2,
        conditions: [{ attribute: 'id', operator: 'starts_with', value: 'mine-' }],
        transform: 'reveal',
        permissions,
      },
      { priority: 3, container: '/pci/', transform: 'mask', permissions },
    ];
    const { api_key } = await server.newKey(tenant, { permissions: [], rules });
    const { id } = await newIntent();
    expect((await convert(id, { containers: ['/general/high/'] }, api_key)).status).toBe(403);
    expect((await convert(id, { id: 'mine-1' }, api_key)).status).toBe(403);
    expect((await convert(id, {}, api_key)).status).toBe(201);
  });

  test.each([
    [{ data: 'x' }, ['data']],
    [{ mask: '{{ data.number }}' }, ['mask']],
    [
      { search_indexes: ['{{ data.number }}'], fingerprint_expression: '{{ data }}' },
      ['search_indexes', 'fingerprint_expression'],
    ],
    [{ id: '{{ data.number | alias_preserve_format }}' }, ['id']],
    [{ type: 'token' }, ['type']],
    [{ encrypted: 'x' }, ['encrypted']],
    [{ unknown: 'x' }, ['unknown']],
  ])('takes no %j', async (more, places) => {
    const { id } = await newIntent();
    expect(fieldsOf(await convert(id, more))).toEqual([400, places]);
    expect((await send('GET', `/token-intents/${id}`)).status).toBe(200);
  });

  test('of what is no intent is a 404, of another tenant too, and elsewhere a 400', async () => {
    const other = await server.newTenant();
    const theirs = await send('POST', '/token-intents', { type: 'token', data: 'x' }, other.api_key);
    const { id: token } = (await send('POST', '/tokens', { data: 'x' })).body;
    for (const id of [theirs.body.id, token, 'intent-none']) expect((await convert(id)).status, id).toBe(404);
    expect(fieldsOf(await convert(3))).toEqual([400, ['token_intent_id']]);
    expect((await send('DELETE', `/token-intents/${token}`)).status).toBe(404);
    const { id } = await newIntent('x', 'token');
    expect(fieldsOf(await send('POST', '/tokenize', [{ type: 'token', data: 'x', token_intent_id: id }]))).toEqual([
      400,
      ['[0].token_intent_id'],
    ]);
  });
});

describe('the details of a card', () => {
  const details = { brand: 'visa', last4: '4242', expiration_month: 12, expiration_year: 2030 };
  const keyOf = async (transform: string) => {
    const rules = [{ priority: 1, container: '/', transform, permissions: ['token:read'] }];
    return (await server.newKey(tenant, { permissions: [], rules })).api_key;
  };

  test('are for who sees the mask, the first digits for who sees the value', async () => {
    const { id, card } = (await send('POST', '/tokens', { type: 'card', data: CARD })).body;
    expect(card).toEqual(details);
    const read = async (key: string) => (await send('GET', `/tokens/${id}`, undefined, key)).body.card;
    expect(await read(await keyOf('mask'))).toEqual(details);
    expect(await read(await keyOf('reveal'))).toEqual({ ...details, bin: '42424242' });
    expect(await read(await keyOf('redact'))).toBeUndefined();
  });

  test('are not there beside a mask of its own, which may hide them', async () => {
    const json = { type: 'card', data: CARD, mask: '{{ data.expiration_year }}' };
    const { id, card } = (await send('POST', '/tokens', json)).body;
    expect([card, (await send('GET', `/tokens/${id}`)).body.card]).toEqual([undefined, undefined]);
    expect((await send('GET', `/tokens/${id}`, undefined, await keyOf('reveal'))).body.card.bin).toBe('42424242');
  });

  test.each([
    ['378282246310005', 'american-express', '378282'],
    ['5555555555554444', 'mastercard', '55555555'],
    ['2223003122003222', 'mastercard', '22230031'],
    ['6011111111111117', 'discover', '60111111'],
    ['30569309025904', 'diners-club', '305693'],
    ['3530111333300000', 'jcb', '35301113'],
    ['6200000000000005', 'unionpay', '62000000'],
    ['9999999999999995', undefined, '99999999'],
  ])('of %s name the brand %s', async (number, brand, bin) => {
    const { id, card } = (await send('POST', '/tokens', { type: 'card', data: { number } })).body;
    expect(card).toEqual({ ...(brand !== undefined && { brand }), last4: number.slice(-4) });
    expect((await send('GET', `/tokens/${id}`, undefined, reader)).body.card.bin).toBe(bin);
  });

  test('are ignored where a client sends the record back', async () => {
    const { id, card } = (await send('POST', '/tokens', { type: 'card', data: CARD })).body;
    expect((await send('PATCH', `/tokens/${id}`, { card, metadata: { a: 'b' } })).status).toBe(200);
  });
});
