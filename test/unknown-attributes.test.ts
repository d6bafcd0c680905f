// Every operation refuses unknown attributes of its body, at every level, and unknown query parameters.
import { beforeAll, describe, expect, test } from 'vitest';
import { examplesOf, nameOf, type Operation, operations, PARENT_ID, UNKNOWN_ID } from './support/operations.ts';
import { type Answer, type SharedServer, useServer } from './support/server.ts';

/** The known names follow where they are few. */
const UNKNOWN = expect.stringMatching(/^is not known here(?:; known (?:is|are) [`\w, .]+)?$/);

let server: SharedServer;

beforeAll(async () => {
  server = await useServer();
  const parent = await server.request('POST', '/tokens', { json: { id: PARENT_ID, data: 'x' } });
  expect(parent.status).toBe(201);
});

const SHOP = 'https://shop.example.com';

/** A session for the security code of a card takes three requests, with its own key. */
const openCodeSession = async () => {
  const card = { type: 'card', data: { number: '4242424242424242' } };
  const { id: token_id } = (await server.request('POST', '/tokens', { json: card })).body;
  const json = { token_id, types: ['cvc'], allowed_origins: [SHOP] };
  const { id, session_key } = (await server.request('POST', '/sessions', { json })).body;
  return { path: `/sessions/${id}/cvc`, key: session_key };
};

const send = async (operation: Operation, type: string, body: unknown, query = ''): Promise<Answer> => {
  const { method } = operation;
  const { path, key } = operation.path.endsWith('/cvc') ? await openCodeSession() : { ...operation, key: undefined };
  return server.request(method, path + query, {
    headers: { 'content-type': type, ...(key !== undefined && { origin: SHOP }) },
    ...(key !== undefined && { key }),
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
};

/** What stands below these is the caller's own. */
const freeNames = ['data', 'metadata', 'args', 'settings', 'mask'];

/** Places of all objects whose attributes the operation knows. In a body of /tokenize that is token requests. */
const placesOf = (value: unknown, isTokenize: boolean, path: (string | number)[] = []): (string | number)[][] => {
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((item, at) => placesOf(item, isTokenize, [...path, at]));
  const isOurs = !isTokenize || 'type' in value;
  const below = Object.entries(value).flatMap(([name, part]) => {
    const isMap = name === 'configuration' && !Array.isArray(part);
    return isMap || freeNames.includes(name) ? [] : placesOf(part, isTokenize, [...path, name]);
  });
  return isOurs ? [path, ...below] : below;
};

const withAt = (value: any, path: (string | number)[], name: string): unknown => {
  const copy = structuredClone(value);
  path.reduce((at, step) => at[step], copy)[name] = 'never shown';
  return copy;
};

const spell = (path: (string | number)[]): string =>
  path.map((step, at) => (typeof step === 'number' ? `[${step}]` : at === 0 ? step : `.${step}`)).join('');

describe('an unknown attribute', () => {
  // Whatever the body of /detokenize has is the caller's own.
  const withBodies = operations.filter(({ body, path }) => body && path !== '/detokenize');

  test('is looked for in every operation with a body', () => expect(withBodies.length).toBeGreaterThanOrEqual(15));

  test.each(withBodies.map((operation) => [nameOf(operation), operation] as const))(
    'of %s is a 400 that names it, at every level',
    async (_name, operation) => {
      const { type, values } = examplesOf(operation);
      expect(values.length).toBeGreaterThan(0);
      for (const value of values)
        for (const place of placesOf(value, operation.path === '/tokenize')) {
          const answer = await send(operation, type, withAt(value, place, 'not_an_attribute'));
          const path = spell([...place, 'not_an_attribute']);
          expect([answer.status, answer.body.errors], answer.text).toEqual([400, { [path]: [UNKNOWN] }]);
          expect(answer.text).not.toContain('never shown');
        }
    },
  );

  test.each(withBodies.map((operation) => [nameOf(operation), operation] as const))(
    'of %s is reported with the nearest known name',
    async (_name, operation) => {
      const { type, values } = examplesOf(operation);
      const [place = []] = placesOf(values[0], operation.path === '/tokenize');
      const holder = place.reduce((at: any, step) => at[step], values[0]);
      const [known] = Object.keys(holder) as [string];
      const answer = await send(operation, type, withAt(values[0], place, `${known}s`));
      const path = spell([...place, `${known}s`]);
      expect(answer.body.errors, answer.text).toEqual({ [path]: [`is not known here; did you mean \`${known}\`?`] });
    },
  );

  test.each(
    operations
      .filter(({ body, method }) => !body && method !== 'GET')
      .map((operation) => [nameOf(operation), operation] as const),
  )('of %s, which has no body, is a 400 that names it', async (_name, operation) => {
    const answer = await send(operation, 'application/json', { not_an_attribute: 1 });
    expect([answer.status, answer.body?.errors], answer.text).toEqual([400, { not_an_attribute: [UNKNOWN] }]);
  });

  test('of a condition of an access rule is named with its place', async () => {
    const conditions = [{ attribute: 'id', operator: 'equals', value: 'x', values: [] }];
    const rules = [{ priority: 1, conditions, transform: 'mask', permissions: ['token:read'] }];
    const answer = await server.request('POST', '/applications', { json: { name: 'A', rules } });
    expect([answer.status, Object.keys(answer.body.errors)]).toEqual([400, ['rules[0].conditions[0].values']]);
  });

  test('is reported together with all other errors', async () => {
    const answer = await server.request('POST', '/proxies', { json: { names: 'x', destination: 1 } });
    expect(Object.keys(answer.body.errors).sort()).toEqual(['destination', 'destination_url', 'name', 'names']);
    const token = await server.request('POST', '/tokens', { json: { type: 'card', data: { number: '1' }, cvv: 1 } });
    expect(Object.keys(token.body.errors).sort()).toEqual(['cvv', 'data.number']);
  });

  test('is not looked for in data, metadata, configuration, args and settings', async () => {
    const data = { not_an_attribute: { nor_this: 1 } };
    const made = await server.request('POST', '/tokens', { json: { data, metadata: { not_an_attribute: 'x' } } });
    expect(made.status, made.text).toBe(201);
    const proxy = await server.request('POST', '/proxies', {
      json: { name: 'P', destination_url: 'https://example.com', configuration: { not_an_attribute: 'x' } },
    });
    expect(proxy.status, proxy.text).toBe(201);
    const tenant = await server.newTenant();
    const settings = await server.request('PUT', '/tenants/self', {
      key: tenant.api_key,
      json: { name: 'T', settings: { not_an_attribute: 'x' } },
    });
    expect(settings.status, settings.text).toBe(200);
  });

  test('of what is no token request is structure, which /tokenize keeps', async () => {
    const answer = await server.tokenize({ typ: 'card', data: { number: 'x' }, not_an_attribute: 'y' });
    expect(answer.status).toBe(200);
    expect(Object.keys(answer.body)).toEqual(['typ', 'data', 'not_an_attribute']);
  });

  test('with a name of any length is named in a short answer', async () => {
    const answer = await server.request('POST', '/tokens', { json: { data: 'x', ['n'.repeat(100_000)]: 1 } });
    expect(answer.status).toBe(400);
    expect(answer.text.length).toBeLessThan(2_000);
    const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`name_${at}`, 1]));
    const invitation = await server.request('POST', '/tenants/self/invitations', { json: many });
    expect([invitation.status, invitation.text.length < 20_000]).toEqual([400, true]);
  });
});

/** Sentences of zod, for one of each of its issues. */
const LIBRARY = /Invalid|expected|received|Too (?:small|big)|Unrecognized|undefined/;

const expectOurWords = (errors: Record<string, string[]> = {}): void => {
  for (const sentence of Object.values(errors).flat()) expect(sentence).not.toMatch(LIBRARY);
};

/** Paths to all values of a body, without what is the caller's own. */
const membersOf = (value: unknown, path: (string | number)[] = []): (string | number)[][] => {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, part]) => {
    const place = [...path, Array.isArray(value) ? Number(name) : name];
    return [place, ...(freeNames.includes(name) ? [] : membersOf(part, place))];
  });
};

const replacedAt = (value: unknown, path: (string | number)[], part: unknown): unknown => {
  const copy = structuredClone(value);
  const holder = path.slice(0, -1).reduce((at: any, step) => at[step], copy);
  holder[path.at(-1) as string] = part;
  return copy;
};

describe('a member of a wrong type', () => {
  // The body of these is the caller's own. A patch needs a token that exists.
  const withBodies = operations
    .filter(({ body, path }) => body && !/^\/(?:de)?tokenize$|\/react$/.test(path))
    .map((operation) => ({
      ...operation,
      path: operation.path.replace(`/tokens/${UNKNOWN_ID}`, `/tokens/${PARENT_ID}`),
    }));

  test.each(withBodies.map((operation) => [nameOf(operation), operation] as const))(
    'of %s is refused in words of ours, at every level',
    async (_name, operation) => {
      const { type, values } = examplesOf(operation);
      let refused = 0;
      for (const value of values)
        for (const place of membersOf(value))
          for (const wrong of [null, 7.5, true, [{}], { not_an_attribute: [] }, '\u0000']) {
            const { status, body } = await send(operation, type, replacedAt(value, place, wrong));
            if (status !== 400) continue;
            refused += 1;
            expectOurWords(body.errors);
          }
      expect(refused).toBeGreaterThan(0);
    },
  );

  test('says what it must be', async () => {
    const rules = [{ priority: 'x', container: '/', transform: 'mask', permissions: ['token:read'] }, {}];
    const { body } = await server.request('POST', '/applications', { json: { name: 'A', rules } });
    expect(body.errors['rules[0].priority'][0]).not.toMatch(LIBRARY);
    expect(body.errors['rules[1].priority'][0]).not.toMatch(LIBRARY);
  });
});

describe('an unknown query parameter', () => {
  test.each([
    ['page_size', /did you mean `size`/],
    ['since', /known are .*`start_date`/],
    ['created_after', /known are .*`start_date`/],
  ])('%s of the log shows what is meant', async (name, sentence) => {
    const { body } = await server.request('GET', `/logs?${name}=1`);
    expect(body.errors[name]).toEqual([expect.stringMatching(sentence)]);
  });

  test.each(operations.map((operation) => [nameOf(operation), operation] as const))(
    'of %s is a 400 that names it',
    async (_name, operation) => {
      const { type, values } = examplesOf(operation);
      const [body] = operation.path === '/detokenize' ? [{ a: 'b' }] : values;
      const answer = await send(operation, type, body, '?not_a_parameter=never+shown');
      expect([answer.status, answer.body?.errors], answer.text).toEqual([400, { not_a_parameter: [UNKNOWN] }]);
      expect(answer.text).not.toContain('never');
    },
  );

  const withQueries = operations.flatMap((operation) => {
    const names = operation.parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name);
    const plain = names.filter((name) => /^\w+$/.test(name));
    return plain.map((name) => [name, nameOf(operation), operation] as const);
  });

  test.each(withQueries)('%s of %s is refused in words of ours', async (name, _operation, operation) => {
    for (const text of ['', 'x', '-1', '1.5', '9'.repeat(30), '%00', '%ED%A0%80', 'x'.repeat(10_000)])
      for (const query of [`?${name}=${text}`, `?${name}=${text}&${name}=${text}`, `?${name}[]=${text}`]) {
        const { status, body } = await send(operation, 'application/json', undefined, query);
        if (status === 400) expectOurWords(body.errors);
      }
  });

  test.each(withQueries)('gets %s as the nearest name of %s', async (name, _operation, operation) => {
    const answer = await send(operation, 'application/json', undefined, `?${name}s=x`);
    expect(answer.body.errors, answer.text).toEqual({ [`${name}s`]: [`is not known here; did you mean \`${name}\`?`] });
  });

  test('of the proxy and of the console is none of the API', async () => {
    const forwarded = await server.request('GET', '/proxy?not_a_parameter=1', {
      headers: { 'svc-proxy-url': 'https://destination.invalid' },
    });
    expect(forwarded.text).not.toContain('not_a_parameter');
    const page = await server.request('GET', '/console/sign-in?not_a_parameter=1', { key: null });
    expect(page.status).not.toBe(400);
  });
});
