// Paths that a token has not: an error that names place and path, in all four places where expressions are evaluated and at
// creation. `default`, and the setting `absent_paths` of the tenant, make them null.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OK, type SharedProxyFixture, receiving, useProxyFixture } from './support/proxy.ts';
import { codeOf, makeReactor, react, tokenOf } from './support/reactors.ts';
import type { Answer, TestTenant } from './support/server.ts';

let fixture: SharedProxyFixture;
let revealing: TestTenant;
let lenient: TestTenant;
beforeAll(async () => {
  fixture = await useProxyFixture();
  fixture.destination.script = receiving(fixture.destination, OK);
  const rule = { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read', 'token:use'] };
  revealing = await fixture.server.newKey(fixture.server.tenant, { rules: [rule] });
  lenient = await fixture.server.newTenant();
  const { status } = await fixture.server.request('PUT', '/tenants/self', {
    key: lenient.api_key,
    json: { name: 'Lenient', settings: { absent_paths: 'null' } },
  });
  expect(status).toBe(200);
});
afterAll(() => fixture.close());

const CARD = { number: '4242424242424242', expiration_month: 12 };

/** Evaluates one expression. @returns its value, or the sentences of the refusal by their places. */
type Door = (expression: string, of?: TestTenant) => Promise<{ value: unknown } | { errors: unknown }>;

const outcomeOf = ({ status, body, text }: Answer, value: (body: any) => unknown) => {
  if (status === 200) return { value: value(body) };
  expect(status, text).toBe(400);
  return { errors: (body.proxy_error ?? body).errors };
};

const doors: [name: string, place: string, door: Door][] = [
  [
    'POST /detokenize',
    'a[0].b',
    async (expression, { api_key: key } = revealing) =>
      outcomeOf(
        await fixture.server.request('POST', '/detokenize', { key, json: { a: [{ b: expression }] } }),
        (body) => body.a[0].b,
      ),
  ],
  [
    '/proxy',
    'body.a[0].b',
    async (expression, { api_key: key } = revealing) =>
      outcomeOf(
        await fixture.forward('POST', '/proxy', { key, json: { a: [{ b: expression }] } }),
        () => JSON.parse(fixture.last().body.toString()).a[0].b,
      ),
  ],
  [
    'the args of a reactor',
    'args.a[0].b',
    async (expression, { api_key } = fixture.server.tenant) => {
      const reactor = await makeReactor(fixture.server, { code: codeOf('return { raw: args.a[0].b };'), key: api_key });
      const answer = await react(fixture.server, reactor, { a: [{ b: expression }] }, { key: api_key });
      return outcomeOf(answer, (body) => body.raw);
    },
  ],
  [
    'svc.detokenize',
    'a[0].b',
    async (expression, tenant = fixture.server.tenant) => {
      const application = tenant === lenient ? lenient : revealing;
      // Split, so that the args of the invocation hold no expression.
      const code = codeOf(`const args2 = { a: [{ b: args.b.join('{' + '{') }] };
        try { return { raw: { value: (await svc.detokenize(args2)).a[0].b } }; }
        catch (error) { return { raw: { message: error.message } }; }`);
      const made = await makeReactor(fixture.server, { code, application, key: tenant.api_key });
      const b = expression.split('{{');
      const answer = await react(fixture.server, made, { b }, { key: tenant.api_key });
      expect(answer.status, answer.text).toBe(200);
      const { raw } = answer.body;
      if ('value' in raw) return { value: raw.value };
      const [, place, sentence] = /occurred\. (\S+) (.*?)\.?$/.exec(raw.message) ?? [];
      return { errors: { [place ?? '']: [sentence] } };
    },
  ],
];

const NO_CODE = 'The token has no security code, or it has expired';

describe.each(doors)('%s', (_, place, door) => {
  const refused = (sentence: RegExp | string) => ({
    errors: { [place]: [typeof sentence === 'string' ? sentence : expect.stringMatching(sentence)] },
  });

  test('refuses what a type does not know, with the nearest name', async () => {
    const card = await tokenOf(fixture.server, CARD, { type: 'card' });
    for (const path of ['$.nmber', "$['nmber']"])
      expect(await door(`{{ ${card} | json: "${path}" | last4 }}`)).toEqual(
        refused('the type card has no `$.nmber`; did you mean `$.number`?'),
      );
    expect(await door(`{{ ${card} | json: '$.colour' }}`)).toEqual(
      refused(/^the type card has no `\$\.colour`; known are `number`, `expiration_month`, /),
    );
    expect(await door(`n={{ token: ${card} | json: '$.data.nmber' }}`)).toEqual(
      refused('the type card has no `$.data.nmber`; did you mean `$.data.number`?'),
    );
  });

  test('refuses what a generic value lacks, without the names that it has', async () => {
    const id = await tokenOf(fixture.server, { card: { secretName: 1 }, list: [] });
    for (const path of ['$.card.secretNme', '$.list[0]', '$.card.secretName.x', '$..other'])
      expect(await door(`{{ ${id} | json: '${path}' }}`)).toEqual(
        refused(new RegExp(`^the (token|value) has no value at \`${path.replaceAll(/[$.[\]]/g, '\\$&')}\`$`)),
      );
  });

  test('gives null for an optional attribute that a card lacks', async () => {
    const card = await tokenOf(fixture.server, CARD, { type: 'card' });
    expect(await door(`{{ ${card} | json: '$.expiration_year' }}`)).toEqual({ value: null });
    expect(await door(`{{ ${card} | json: '$' | json: '$.expiration_year' | default: 2030 }}`)).toEqual({
      value: 2030,
    });
  });

  test('says that a card has no security code', async () => {
    const card = await tokenOf(fixture.server, CARD, { type: 'card' });
    const answer = await door(`{{ ${card} | json: '$.cvc' }}`);
    expect(answer).toEqual(refused(new RegExp(`^${NO_CODE}: .*default: nil.*CVC_TTL`)));
    expect(await door(`{{ ${card} | json: '$.cvc' | default: nil }}`)).toEqual({ value: null });
  });

  test('gives what `default` says, and null to a tenant that allows absent paths', async () => {
    const id = await tokenOf(fixture.server, { present: false, empty: '' });
    expect(await door(`{{ ${id} | json: '$.none' | upcase | default: nil }}`)).toEqual({ value: null });
    expect(await door(`{{ ${id} | json: '$.none' | default: 'x' }}`)).toEqual({ value: 'x' });
    expect(await door(`{{ ${id} | json: '$.present' | default: true }}`)).toEqual({ value: false });
    expect(await door(`{{ ${id} | json: '$.empty' | default: 'x' }}`)).toEqual({ value: '' });
    const card = await tokenOf(fixture.server, CARD, { type: 'card' }, lenient.api_key);
    for (const path of ['$.nmber', '$.cvc'])
      expect(await door(`{{ ${card} | json: '${path}' }}`, lenient)).toEqual({ value: null });
    expect(await door(`a{{ ${card} | json: '$..nmber' }}`, lenient)).toEqual({ value: 'a' });
  });
});

describe('a value that the caller may not see', () => {
  test('is null, and so is every part of it', async () => {
    const rule = { priority: 1, container: '/', transform: 'redact', permissions: ['token:read'] };
    const { api_key: key } = await fixture.server.newKey(fixture.server.tenant, { rules: [rule] });
    const card = await tokenOf(fixture.server, CARD, { type: 'card' });
    const expressions = [`{{ ${card} | json: '$.number' }}`, `{{ token: ${card} | json: '$.data.nmber' }}`];
    const { body } = await fixture.server.request('POST', '/detokenize', { key, json: expressions });
    expect(body).toEqual([null, null]);
  });
});

describe('at creation', () => {
  const create = (request: object, key = fixture.server.tenant.api_key) =>
    fixture.server.request('POST', '/tokens', { key, json: request });

  const card = { type: 'card', data: CARD };
  const generic = { type: 'token', data: { a: { b: 'v' } } };
  const expected = 'the type card has no `data.nmber`; did you mean `data.number`?';

  test.each<[object, string, string]>([
    [{ ...card, mask: '{{ data.nmber | last4 }}' }, 'mask', expected],
    [{ ...card, mask: { a: ['n: {{ data.nmber }}'] } }, 'mask', expected],
    [
      { ...card, mask: "{{ data | json: '$.nmber' }}" },
      'mask',
      'the type card has no `$.nmber`; did you mean `$.number`?',
    ],
    [{ ...card, fingerprint_expression: '{{ data.number }}{{ data.nmber }}' }, 'fingerprint_expression', expected],
    [{ ...card, search_indexes: ['{{ data.number }}', '{{ data.nmber }}'] }, 'search_indexes[1]', expected],
    [{ ...card, mask: { c: '{{ data.cvc }}' } }, 'mask', 'must not refer to the security code'],
    [{ ...generic, mask: { b: '{{ data.a.c }}' } }, 'mask', 'the data has no value at `data.a.c`'],
    [
      { ...generic, fingerprint_expression: '{{ data.a.b }}{{ metadata.x }}' },
      'fingerprint_expression',
      'the metadata has no value at `metadata.x`',
    ],
    [
      { ...generic, search_indexes: ['{{ data.a.b }}', '{{ data.c }}'] },
      'search_indexes[1]',
      'the data has no value at `data.c`',
    ],
  ])('%j is refused at %s', async (request, place, sentence) => {
    const answer = await create(request);
    expect(answer.status, answer.text).toBe(400);
    expect(answer.body.errors).toEqual({ [place]: [sentence] });
    const inTree = await fixture.server.tokenize({ x: [request] });
    expect(inTree.body.errors).toEqual({ [`x[0].${place}`]: [sentence] });
  });

  test('an optional attribute may lack, and `default` and the setting of the tenant take the rest', async () => {
    const mask = { year: '{{ data.expiration_year }}', number: '{{ data.nmber | default: nil }}' };
    expect((await create({ ...card, mask })).body.data).toEqual({ number: null });
    const typo = { ...card, mask: { number: '{{ data.nmber }}', month: '{{ data.expiration_month }}' } };
    const made = await create(typo, lenient.api_key);
    expect(made.body.data).toEqual({ month: 12 });
  });

  test('a stored mask with such a path stays valid until it or the data changes', async () => {
    const key = lenient.api_key;
    const { id } = (await create({ ...generic, mask: { x: '{{ data.none }}' } }, key)).body;
    const settings = async (absent_paths: string): Promise<void> => {
      const json = { name: 'Lenient', settings: { absent_paths } };
      expect((await fixture.server.request('PUT', '/tenants/self', { key, json })).status).toBe(200);
    };
    const patch = (json: object) => fixture.server.request('PATCH', `/tokens/${id}`, { key, json });
    await settings('error');
    try {
      expect((await fixture.server.request('GET', `/tokens/${id}`, { key })).body.data).toEqual({});
      expect((await patch({ metadata: { a: 'b' } })).status).toBe(200);
      const answer = await patch({ data: 'other' });
      expect([answer.status, Object.keys(answer.body.errors ?? {})]).toEqual([400, ['mask']]);
    } finally {
      await settings('null');
    }
  });
});

test('the setting takes null and error only', async () => {
  const json = { name: 'x', settings: { absent_paths: 'maybe' } };
  const answer = await fixture.server.request('PUT', '/tenants/self', { key: lenient.api_key, json });
  expect(answer.body.errors).toEqual({ 'settings.absent_paths': ['must be the text null or the text error'] });
});
