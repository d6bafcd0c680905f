// POST /detokenize over HTTP: results of expressions, their limits, refusals, and that the log is written first.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isDistributed } from './support/database.ts';
import { watchMemory } from './support/memory.ts';
import { holdRow } from './support/held-rows.ts';
import { type Answer, startServer, type TestServer, type TestTenant } from './support/server.ts';
import { withoutDrawn } from './support/text.ts';

let server: TestServer;
let revealing: TestTenant;
beforeAll(async () => {
  server = await startServer();
  revealing = await ruled({ container: '/', transform: 'reveal' });
});
afterAll(() => server.close());

const card = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '737' };
const masked = { number: 'XXXXXXXXXXXX4242', expiration_month: 12, expiration_year: 2030 };

/** A key that reads by these rules only, the first one first. */
const ruled = (...rules: { container: string; transform: string }[]): Promise<TestTenant> =>
  server.newKey(server.tenant, {
    rules: rules.map((rule, index) => ({ ...rule, priority: index + 1, permissions: ['token:read'] })),
  });

const detokenize = (body: unknown, key?: string) =>
  server.request('POST', '/detokenize', { json: body, ...(key === undefined ? {} : { key }) });

const tokenOf = async (data: unknown, more: object = {}, key?: string): Promise<string> => {
  const answer = await server.request('POST', '/tokens', {
    json: { type: 'token', data, ...more },
    ...(key === undefined ? {} : { key }),
  });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
};

const countReads = async (): Promise<number> =>
  (await server.sql(`SELECT count(*)::int AS count FROM audit_log WHERE operation = 'read' AND outcome = 'success'`))[0]
    .count;

/** A refusal that shows nothing and logs no reading. */
const expectRefused = async (body: unknown, status: number, key?: string): Promise<Answer> => {
  const before = await countReads();
  const answer = await detokenize(body, key);
  expect(answer.status, answer.text).toBe(status);
  expect(answer.headers.get('content-type')).toContain('application/problem+json');
  expect(await countReads()).toBe(before);
  return answer;
};

describe('the same JSON comes out', () => {
  test('a text that is one expression becomes the value with its type', async () => {
    const values = ['text', '', 5, -0.5, true, false, { a: [1, null, 'x'] }, [], ['one', 2]];
    const ids: string[] = [];
    for (const value of values) ids.push(await tokenOf(value));
    const answer = await detokenize(ids.map((id) => `{{ ${id} }}`));
    expect(answer.status, answer.text).toBe(200);
    expect(answer.body).toEqual(values);
  });

  test('a bare text comes back as a JSON text', async () => {
    const answer = await detokenize(`{{${await tokenOf('hello')}}}`);
    expect(answer.headers.get('content-type')).toContain('application/json');
    expect(answer.text).toBe('"hello"');
  });

  test('what is no expression, and every key, is left as it is', async () => {
    const id = await tokenOf('value');
    const body = { b: [1, null, true, 'plain { } text'], a: {}, [`{{ ${id} }}`]: `{{ ${id} }}`, n: 0.1, toString: 'x' };
    const answer = await detokenize(body);
    expect(answer.status).toBe(200);
    expect(answer.text).toBe(JSON.stringify({ ...body, [`{{ ${id} }}`]: 'value' }));
  });

  test.each([null, 5, true, 'plain', [], {}])('%j comes back as it is, and reads nothing', async (body) => {
    const before = await countReads();
    const answer = await detokenize(body);
    expect([answer.status, answer.text]).toEqual([200, JSON.stringify(body)]);
    expect(await countReads()).toBe(before);
  });

  test('64 levels are walked to the bottom, 65 are refused', async () => {
    const nest = (depth: number, value: unknown): unknown => (depth === 0 ? value : [nest(depth - 1, value)]);
    const id = await tokenOf('deep');
    expect((await detokenize(nest(64, `{{ ${id} }}`))).body).toEqual(nest(64, 'deep'));
    await expectRefused(nest(65, `{{ ${id} }}`), 400);
  });

  test('no body, and what is not JSON, is refused', async () => {
    expect((await server.request('POST', '/detokenize')).status).toBe(400);
    expect(
      (await server.request('POST', '/detokenize', { body: '{', headers: { 'content-type': 'application/json' } }))
        .status,
    ).toBe(400);
    expect(
      (await server.request('POST', '/detokenize', { body: 'x', headers: { 'content-type': 'text/plain' } })).status,
    ).toBe(415);
  });
});

describe('an expression', () => {
  test('within other text is put in as text: structure as compact JSON, numbers as their digits', async () => {
    const [name, number, thing] = [await tokenOf('Ada'), await tokenOf(5), await tokenOf({ a: [1, 'x'] })];
    const { body } = await detokenize([`Dear {{ ${name} }}, {{${number}}}!`, `${' '}{{${number}}}`, `{{ ${thing} }}.`]);
    expect(body).toEqual(['Dear Ada, 5!', ' 5', '{"a":[1,"x"]}.']);
  });

  test('runs its filters over the value', async () => {
    const [name, id, thing] = [await tokenOf('Ada'), await tokenOf('123-45-6789'), await tokenOf({ a: { b: [1, 2] } })];
    const { body, text } = await detokenize([
      `{{ ${name} | upcase }}`,
      `{{${id}|last4}}`,
      `{{ ${id} | reveal_last: 4 }}`,
      `{{ ${thing} | json: '$.a.b[1]' }}`,
      `{{ ${thing} | json: '$.none' | default: nil }}`,
      `{{ ${thing} | json: '$.a' | stringify }}`,
      `{{ ${id} | last4 | to_number }}`,
    ]);
    expect(body, text).toEqual(['ADA', '6789', 'XXX-XX-6789', 2, null, '{"b":[1,2]}', 6789]);
  });

  test('of the form token: sees the whole record, another of the same token its data', async () => {
    const id = await tokenOf('Ada', { metadata: { x: 'note' } });
    const { body, text } = await detokenize([
      `{{ ${id} }}`,
      `{{ token: ${id} | json: '$.metadata.x' }}`,
      `{{ token: ${id} | json: '$.data' }}`,
      `{{token: ${id} | json: '$.expires_at'}}`,
      `{{ token: ${id} }}`,
    ]);
    expect(body.slice(0, 4), text).toEqual(['Ada', 'note', 'Ada', null]);
    expect(body[4]).toMatchObject({
      id,
      type: 'token',
      data: 'Ada',
      metadata: { x: 'note' },
      tenant_id: server.tenant.tenant_id,
    });
    // The same as a read, attribute by attribute.
    expect(body[4]).toEqual((await server.request('GET', `/tokens/${id}`)).body);
  });

  test('refers to ids that their creators chose', async () => {
    const id = await tokenOf('chosen', { id: "o'neil.order-7 x" });
    expect((await detokenize([`{{ ${id} }}`, `{{ token: ${id} | json: '$.data' }}`])).body).toEqual([
      'chosen',
      'chosen',
    ]);
  });

  test('is evaluated once: what a value holds is no expression', async () => {
    const secret = await tokenOf('secret');
    const bait = await tokenOf(`{{ ${secret} }} and {{ no-such-token }} {{`);
    const nested = await tokenOf({ a: `{{ ${secret} }}` });
    const { body } = await detokenize([`{{ ${bait} }}`, `x{{ ${bait} }}`, `{{ ${nested} }}`]);
    expect(body).toEqual([
      `{{ ${secret} }} and {{ no-such-token }} {{`,
      `x{{ ${secret} }} and {{ no-such-token }} {{`,
      { a: `{{ ${secret} }}` },
    ]);
  });

  test.each([
    '{{',
    '{{ }}',
    '{{{ID}}}',
    '{{ID',
    '{{ ID }',
    '{{ {{ ID }} }}',
    '{{\nID\n}}',
    '{{ ID\u200b }}',
    '{{ ID | }}',
    '{{ ID | no_such_filter }}',
    '{{ ID | json }}',
    "{{ ID | json: '$' ",
    '{{ ID | alias_preserve_format }}',
    '{{ a/b }}',
    `{{ ${'x'.repeat(401)} }}`,
    '{'.repeat(500_000),
    '{{x'.repeat(100_000),
  ])('that is none refuses the request: %.40s', async (template) => {
    const id = await tokenOf('secret value');
    const answer = await expectRefused([`{{ ${id} }}`, template.replaceAll('ID', id)], 400);
    expect(answer.text).not.toContain('secret value');
    expect(answer.text.length).toBeLessThan(1000);
  });

  test('that writes a path after an id, or a wrong filter, gets the right form', async () => {
    const id = await tokenOf({ number: 5 });
    expect((await detokenize(`{{ ${id}.number }}`)).body.detail).toBe(
      `Failed to detokenize some tokens: ${id}.number. For a part of a value use \`{{ ${id} | json: '$.number' }}\`.`,
    );
    const refusal = async (text: string) =>
      Object.values<string[]>((await detokenize({ a: text })).body.errors)[0]?.[0];
    expect(await refusal(`{{ ${id}[0] }}`)).toContain("`{{ id | json: '$.name' }}`");
    expect(await refusal(`{{ ${id} | lst4 }}`)).toBe('must use known filters only; did you mean `last4`?');
    expect(await refusal(`{{ ${id} | no_such_filter }}`)).toMatch(
      /^must use known filters only: json, default, last4, /,
    );
  });

  test('with more than one value at its path is refused, and the refusal repeats nothing', async () => {
    const id = await tokenOf({ list: ['secret one', 'secret two'] });
    const answer = await detokenize(`{{ ${id} | json: '$.list[*]' }}`);
    expect(answer.status).toBe(400);
    expect(answer.text).not.toContain('secret');
  });
});

describe('how much is shown', () => {
  const shown = async (id: string, key?: string) =>
    (await detokenize([`{{ ${id} }}`, `{{ token: ${id} | json: '$.data' }}`, `n: {{ ${id} | json: '$.number' }}`], key))
      .body;

  test('a plain permission gets a card masked, a reveal rule gets it whole with its code', async () => {
    const id = await tokenOf(card, { type: 'card' });
    expect(await shown(id)).toEqual([masked, masked, 'n: XXXXXXXXXXXX4242']);
    expect(await shown(id, revealing.api_key)).toEqual([card, card, 'n: 4242424242424242']);
  });

  test('a security code is gone from its TTL on', async () => {
    const id = await tokenOf(card, { type: 'card' });
    const { cvc: _, ...rest } = card;
    server.clock.offsetMs = 3_600_000;
    try {
      expect(await shown(id, revealing.api_key)).toEqual([rest, rest, 'n: 4242424242424242']);
      const { body } = await detokenize(`{{ ${id} | json: '$.cvc' }}`, revealing.api_key);
      expect(Object.values(body.errors)).toEqual([
        [expect.stringMatching(/^The token has no security code, or it has expired: .*default: nil.*CVC_TTL/)],
      ]);
    } finally {
      server.clock.offsetMs = 0;
    }
  });

  test('a redact rule gets nothing, a mask rule nothing of a token without a mask', async () => {
    const [id, plain] = [await tokenOf(card, { type: 'card' }), await tokenOf('secret value')];
    const redacting = await ruled({ container: '/', transform: 'redact' });
    const masking = await ruled({ container: '/', transform: 'mask' });
    expect(await shown(id, redacting.api_key)).toEqual([null, null, 'n: ']);
    expect(await shown(plain, redacting.api_key)).toEqual([null, null, 'n: ']);
    expect(await shown(id, masking.api_key)).toEqual([masked, masked, 'n: XXXXXXXXXXXX4242']);
    expect(await shown(plain, masking.api_key)).toEqual([null, null, 'n: ']);
    for (const { api_key } of [redacting, masking])
      for (const answer of [
        await detokenize(`{{ token: ${plain} }}`, api_key),
        await detokenize(`{{ token: ${id} }}`, api_key),
      ])
        expect(withoutDrawn(answer.text)).not.toMatch(/secret value|4242424242424242|cvc/);
  });

  test('is decided for each token of a request by its own rule', async () => {
    const [id, plain] = [await tokenOf(card, { type: 'card' }), await tokenOf('Ada')];
    const mixed = await ruled({ container: '/pci/', transform: 'redact' }, { container: '/', transform: 'reveal' });
    expect((await detokenize([`{{ ${id} }}`, `{{ ${plain} }}`], mixed.api_key)).body).toEqual([null, 'Ada']);
  });

  test('a mask of its creator is what a plain permission gets', async () => {
    const id = await tokenOf('Ada Lovelace', { mask: '{{ data | slice: 0, 3 }}' });
    expect((await detokenize(`{{ ${id} }}`)).body).toBe('Ada');
    expect((await detokenize(`{{ ${id} }}`, revealing.api_key)).body).toBe('Ada Lovelace');
  });
});

describe('what is refused', () => {
  test('unknown, expired, deleted and foreign tokens are named alike, and nothing is shown', async () => {
    const known = await tokenOf('secret value');
    const other = await server.newTenant();
    const foreign = await tokenOf('theirs', {}, other.api_key);
    const expiring = await tokenOf('x', { expires_at: new Date(Date.now() + 60_000).toISOString() });
    const deleted = await tokenOf('x');
    await server.request('DELETE', `/tokens/${deleted}`);
    server.clock.offsetMs = 60_000;
    try {
      for (const gone of ['no-such-token', foreign, expiring, deleted])
        for (const expression of [`{{ ${gone} }}`, `{{ token: ${gone} | json: '$.data' }}`]) {
          const answer = await expectRefused([`{{ ${known} }}`, expression], 400);
          expect(answer.body).toMatchObject({
            title: 'Bad Request',
            detail: `Failed to detokenize some tokens: ${gone}`,
          });
          expect(answer.text).not.toContain('secret value');
        }
      const all = await expectRefused(
        [foreign, known, 'no-such-token', expiring].map((id) => `{{ ${id} }}`),
        400,
      );
      expect(all.body.detail).toBe(`Failed to detokenize some tokens: ${foreign}, no-such-token, ${expiring}`);
    } finally {
      server.clock.offsetMs = 0;
    }
  });

  test('a token that the caller may not read refuses the whole request', async () => {
    const [id, plain] = [await tokenOf(card, { type: 'card' }), await tokenOf('secret value')];
    const generalOnly = await ruled({ container: '/general/', transform: 'reveal' });
    const answer = await expectRefused([`{{ ${plain} }}`, `{{ ${id} }}`], 403, generalOnly.api_key);
    expect(answer.body.detail).toContain('token:read');
    expect(answer.text).not.toContain('secret value');
    for (const permissions of [['token:use'], ['token:search', 'token:create']] as const) {
      const { api_key } = await server.newKey(server.tenant, { permissions: [...permissions] });
      await expectRefused(`{{ ${plain} }}`, 403, api_key);
    }
    expect((await server.request('POST', '/detokenize', { json: 'x', key: null })).status).toBe(401);
  });

  test('100 tokens are answered, 101 refused; 1,000 expressions are answered, 1,001 refused', async () => {
    const ids = (await server.tokenize(Array.from({ length: 101 }, (_, index) => `v${index}`))).body as string[];
    const hundred = await detokenize(ids.slice(0, 100).map((id) => `{{ ${id} }}`));
    expect(hundred.body).toEqual(Array.from({ length: 100 }, (_, index) => `v${index}`));
    await expectRefused(
      ids.map((id) => `{{ ${id} }}`),
      400,
    );
    await expectRefused(ids.map((id) => `{{${id}}}`).join(''), 400);
    const expression = `{{ ${ids[0]} }}`;
    expect((await detokenize(Array.from({ length: 1000 }, () => expression))).body).toHaveLength(1000);
    expect((await detokenize(expression.repeat(1000))).body).toBe('v0'.repeat(1000));
    await expectRefused(
      Array.from({ length: 1001 }, () => expression),
      400,
    );
    await expectRefused([expression.repeat(500), expression.repeat(501)], 400);
  });

  test('values that would expand beyond 10 MB are 413', async () => {
    const large = await tokenOf('x'.repeat(900_000));
    // A fraction of the 900 MB that are asked for.
    const memory = watchMemory({ megabytes: 400 });
    for (const body of [
      Array.from({ length: 1000 }, () => `{{ ${large} }}`),
      `{{ ${large} }}`.repeat(1000),
      Array.from({ length: 1000 }, () => `{{ token: ${large} }}`),
      Array.from({ length: 200 }, () => `{{ ${large} | to_base64 | to_base64 }}`),
      `{{ ${large} | replace: 'x', '${'y'.repeat(400)}' }}`,
    ]) {
      const answer = await detokenize(body);
      expect([400, 413]).toContain(answer.status);
      expect(answer.text.length).toBeLessThan(1000);
    }
    expect((await detokenize(Array.from({ length: 12 }, () => `{{ ${large} }}`))).status).toBe(413);
    expect((await detokenize(Array.from({ length: 10 }, () => `{{ ${large} }}`))).body).toHaveLength(10);
    memory.end();
  });
});

describe('the log', () => {
  test('has a read of every token that is shown, once a request, and none of values', async () => {
    const [plain, id] = [await tokenOf('secret value'), await tokenOf(card, { type: 'card' })];
    await detokenize([`{{ ${plain} }}`, `{{ ${plain} | upcase }}`, `{{ token: ${id} }}`], revealing.api_key);
    for (const [entity_id, entity_type] of [
      [plain, 'token'],
      [id, 'card'],
    ]) {
      const { body, text } = await server.request('GET', `/logs?entity_id=${entity_id}`);
      expect(body.data).toMatchObject([
        {
          operation: 'read',
          entity_type,
          message: 'Token revealed',
          disclosure: 'revealed',
          actor_id: revealing.application_id,
          actor_type: 'application',
        },
        { operation: 'create' },
      ]);
      expect(text).not.toContain('secret value');
    }
    expect(server.logLines.join('')).not.toMatch(/secret value|4242424242424242/);
  });

  const AT_ONCE = 'CREATE TRIGGER refuse_log BEFORE INSERT ON audit_log';
  /** When what was found is with the server already. */
  const AT_COMMIT = 'CREATE CONSTRAINT TRIGGER refuse_log AFTER INSERT ON audit_log INITIALLY DEFERRED';

  /** Makes every insert into the log fail, for as long as the work takes. */
  const withoutLog = async (sqlstate: string, trigger: string, work: () => Promise<void>): Promise<void> => {
    await server.sql(`CREATE FUNCTION refuse_log() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '${sqlstate}'; END $$`);
    await server.sql(`${trigger} FOR EACH ROW EXECUTE FUNCTION refuse_log()`);
    try {
      await work();
    } finally {
      await server.sql('DROP FUNCTION refuse_log CASCADE');
    }
  };

  test('is committed before anything is shown: without it the answer is 503 and holds no value', async () => {
    const plain = await tokenOf('secret value', { search_indexes: ['{{ data }}'] });
    const parent = await tokenOf('parent');
    expect((await server.request('POST', `/tokens/${parent}/children/${plain}`)).status).toBe(204);
    const readAll = () =>
      Promise.all([
        detokenize(`{{ ${plain} }}`),
        detokenize(`{{ ${plain} }}`, revealing.api_key),
        server.request('GET', `/tokens/${plain}`),
        server.request('GET', `/tokens?id=${plain}`),
        server.request('GET', `/tokens/${parent}/children`),
        server.request('POST', '/tokens/search', { json: { query: 'data:"secret value"' } }),
      ]);
    for (const answer of await readAll())
      expect([answer.status, answer.text]).toEqual([200, expect.stringContaining('secret value')]);

    const expectNothing = async () => {
      for (const answer of await readAll()) {
        expect(answer.status, answer.text).toBe(503);
        expect(answer.headers.get('retry-after')).not.toBeNull();
        expect(answer.text).not.toContain('secret value');
      }
    };
    // A full disk, an unexpected error, a revoked privilege, and a missing table.
    if (!isDistributed) {
      await withoutLog('53100', AT_ONCE, expectNothing);
      await withoutLog('P0001', AT_ONCE, expectNothing);
      await withoutLog('53100', AT_COMMIT, expectNothing);
      await withoutLog('P0001', AT_COMMIT, expectNothing);
    }
    await server.sql('REVOKE INSERT ON audit_log FROM CURRENT_USER');
    try {
      await expectNothing();
    } finally {
      await server.sql('GRANT INSERT ON audit_log TO CURRENT_USER');
    }
    await server.sql('ALTER TABLE audit_log RENAME TO audit_log_away');
    try {
      await expectNothing();
    } finally {
      await server.sql('ALTER TABLE audit_log_away RENAME TO audit_log');
    }
    for (const answer of await readAll()) expect(answer.status).toBe(200);
  });

  test.skipIf(isDistributed)(
    'is committed before anything leaves: while its commit waits, so does every answer',
    async () => {
      const [one, two] = [await tokenOf('secret value'), await tokenOf('secret value')];
      await server.sql(`CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM FROM tenants WHERE id = NEW.tenant_id FOR SHARE; RETURN NULL; END $$`);
      await server.sql(`CREATE CONSTRAINT TRIGGER wait_at_commit AFTER INSERT ON audit_log INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION wait_at_commit()`);
      const row = await holdRow(server, 'SELECT FROM tenants WHERE id = $1 FOR UPDATE', [server.tenant.tenant_id]);
      let answered = 0;
      const answers = [
        server.request('GET', `/tokens/${one}`),
        detokenize(`{{ ${one} }}`),
        detokenize([`{{ ${one} }}`, `{{ ${two} }}`]),
      ].map(async (answer) => {
        await answer;
        answered += 1;
        return answer;
      });
      try {
        // Rows of several requests are written together.
        await row.waiting(1);
        // By now all three tokens have been found and opened.
        await new Promise((resolve) => setTimeout(resolve, 100));
        expect(answered).toBe(0);
      } finally {
        await row.letGo();
        await Promise.all(answers);
        await server.sql('DROP FUNCTION wait_at_commit CASCADE');
      }
      for (const answer of await Promise.all(answers))
        expect([answer.status, answer.text]).toEqual([200, expect.stringContaining('secret value')]);
    },
  );

  test.skipIf(isDistributed).each([
    ['at once', AT_ONCE],
    ['at the commit', AT_COMMIT],
  ])('is part of every operation: if it cannot be written, nothing is done, %s', async (_, trigger) => {
    const [one, two, three] = [await tokenOf('one'), await tokenOf('two'), await tokenOf('three')];
    await server.request('POST', `/tokens/${one}/children/${two}`);
    const snapshot = async () => [
      await server.sql('SELECT tenant_id, id, sealed, modified_at FROM tokens ORDER BY tenant_id, id'),
      await server.sql('SELECT parent_id, child_id FROM token_associations ORDER BY 1, 2'),
      await server.sql('SELECT sum(change) AS sum FROM token_counts'),
    ];
    const before = await snapshot();
    const patch = { body: '{"data":"other"}', headers: { 'content-type': 'application/merge-patch+json' } };
    const headers = { 'svc-idempotency-key': randomUUID() };
    await withoutLog('53100', trigger, async () => {
      for (const answer of [
        await server.tokenize(['x', { type: 'card', data: card }]),
        await server.request('POST', '/tokens', { json: { data: 'x' } }),
        await server.request('POST', '/tokens', { json: { data: 'x' }, headers }),
        await server.request('POST', '/tokens', { json: { data: 'x', deduplicate_token: true } }),
        await server.request('POST', `/tokens/${one}/children`, { json: { data: 'x' } }),
        await server.request('POST', `/tokens/${one}/children/${three}`),
        await server.request('DELETE', `/tokens/${one}/children/${two}`),
        await server.request('PATCH', `/tokens/${one}`, patch),
        await server.request('DELETE', `/tokens/${one}`),
      ])
        expect(answer.status, answer.text).toBe(503);
    });
    expect(await snapshot()).toEqual(before);
    // The key of the failed request is free again.
    expect((await server.request('POST', '/tokens', { json: { data: 'x' }, headers })).status).toBe(201);
  });
});
