// Rotation of the root key and of data keys: nothing is lost, servers serve throughout, and old keys open nothing afterwards.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { rotateRootKey } from '../../src/cli/vault-keys.ts';
import { findProviderOf, saveSettings } from '../../src/modules/people/sso/provider.ts';
import { operator } from '../../src/platform/db/audit-record.ts';
import { KEY_ACTIVE_AFTER_MS, KEY_SETTLED_AFTER_MS } from '../../src/platform/crypto/keyring.ts';
import { haveOneRootKey } from '../../src/platform/crypto/key-provider.ts';
import { createResealRows, type Passes, resealAll } from '../../src/platform/keys/reseal.ts';
import { createRotationRows, rotateRoot } from '../../src/platform/keys/rotate-root.ts';
import { keyHeaderOf } from '../../src/platform/crypto/seal.ts';
import { SEALED_TABLES } from '../../src/platform/base/tables.ts';
import { sweep } from '../../src/modules/tokens/sweep.ts';
import { callToEnd } from '../support/backups.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { invite, join } from '../support/people.ts';
import { createDelivering } from '../../src/modules/webhooks/deliver.ts';
import { askForReset } from '../support/password-resets.ts';
import { codeOf, makeReactor, react } from '../support/reactors.ts';
import { startServer, TEST_ROOT_KEY, type TestServer } from '../support/server.ts';
import { makeProxy } from '../support/stored-proxies.ts';

const NEW_KEY = Buffer.alloc(32, 8).toString('base64');
const both = { MASTER_KEY: NEW_KEY, MASTER_KEY_PREVIOUS: TEST_ROOT_KEY };
const card = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '737' };
const reveals = [
  { description: 'All', priority: 1, container: '/', transform: 'reveal', permissions: ['token:read', 'token:create'] },
];

let database: TestDatabase;
/** A server that knows the old root key only, and one that knows both. */
let old: TestServer;
let server: TestServer;

beforeAll(async () => {
  database = await createDatabase();
  old = await startServer({}, {}, { database: { ...database, drop: async () => undefined } });
  server = await startServer(both, {}, { database: { ...database, drop: async () => undefined } });
});
afterAll(async () => {
  await server.close();
  await old.close();
  await database.drop();
});

const cli = (args: string[], environment: Record<string, string> = both) =>
  callToEnd(args, { NODE_ENV: 'test', DATABASE_URL: database.url, ...environment }, '/tmp');

const newCard = async (of = server): Promise<{ id: string; key: string }> => {
  const { api_key: key } = await of.newKey(of.tenant, { rules: reveals });
  const answer = await of.request('POST', '/tokens', { json: { type: 'card', data: card }, key });
  expect(answer.status, answer.text).toBe(201);
  return { id: answer.body.id, key };
};

const cardAt = async (at: TestServer, { id, key }: { id: string; key: string }) =>
  (await at.request('GET', `/tokens/${id}`, { key })).body?.data;

describe('the root key', () => {
  test('stays until it is rotated: a server with the old key opens what one with both wraps', async () => {
    const made = await newCard();
    expect(await cardAt(old, made)).toEqual(card);
    expect(server.logLines.join('')).toContain('keys rotate-root');
  });

  test('is rotated under load, also after a kill, and then the old key opens nothing', async () => {
    const cards = [await newCard(), await newCard(old)];
    // As many keys as several slices have.
    for (let count = 0; count < 120; count += 1) {
      const tenant_id = randomUUID();
      const made = (await server.ctx.keyring.newTenantKeys(tenant_id, ['data', 'digest'])).rows;
      for (const { id, purpose, wrapped } of made)
        await server.sql('INSERT INTO tenant_keys VALUES ($1, $2, $3, $4, now())', [tenant_id, id, purpose, wrapped]);
    }

    let isOver = false;
    const failures: unknown[] = [];
    const load = (async () => {
      for (let count = 0; !isOver; count += 1) {
        // Each time without cached keys.
        server.ctx.keyring.forgetTenants();
        const shown = await cardAt(server, cards[count % 2] as (typeof cards)[number]);
        if (shown?.number !== card.number || shown?.cvc !== card.cvc) failures.push(shown);
        if (count % 5 === 0) await server.newTenant();
      }
    })();
    // A run that ends after the first slice.
    const stopped = rotateRoot({
      provider: server.ctx.provider,
      environment: 'test',
      rows: createRotationRows(server.ctx.db),
      goOn: async (done) => {
        if (done > 0) throw new Error('killed');
      },
    });
    await expect(stopped).rejects.toThrow('killed');

    // Two at once: one waits for the other, if they meet.
    const [one, two] = await Promise.all([
      cli(['keys', 'rotate-root', '--json']),
      cli(['keys', 'rotate-root', '--json']),
    ]);
    isOver = true;
    await load;
    expect([one.code, two.code], one.stderr + two.stderr).toEqual([0, 0]);
    const rotated = [one, two].map(({ stdout }) => JSON.parse(stdout).rotated);
    expect(Math.min(...rotated)).toBe(0);
    expect(Math.max(...rotated)).toBeGreaterThan(100);
    expect(failures).toEqual([]);

    const [{ wrapped_pepper }] = await server.sql('SELECT wrapped_pepper FROM instance');
    const wrapped = await server.sql('SELECT wrapped FROM tenant_keys UNION ALL SELECT wrapped FROM ephemeral_keys');
    expect(wrapped.every((row) => haveOneRootKey(row.wrapped, wrapped_pepper))).toBe(true);

    // The old key opens nothing: the running server has no cache to fall back on, and no other starts.
    old.ctx.keyring.forgetTenants();
    expect((await old.request('GET', `/tokens/${cards[0]?.id}`, { key: cards[0]?.key as string })).status).toBe(500);
    const refused = await cli(['tenants', 'list'], { MASTER_KEY: TEST_ROOT_KEY });
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('MASTER_KEY is not the one')]);
    // The new key alone opens everything, security codes too.
    const alone = await startServer(
      { MASTER_KEY: NEW_KEY },
      {},
      { database: { ...database, drop: async () => undefined } },
    );
    for (const made of cards) expect(await cardAt(alone, made)).toEqual(card);
    expect(await cardAt(alone, await newCard(alone))).toEqual(card);
    await alone.close();
  });

  test('is rotated although a key does not open: it is named and left alone', async () => {
    const tenant_id = randomUUID();
    const id = randomUUID();
    const { rows } = await server.ctx.keyring.newTenantKeys(tenant_id, ['data']);
    const damaged = Buffer.from(rows[0]?.wrapped as Uint8Array);
    // The id of another root key.
    damaged[1] = (damaged[1] as number) ^ 1;
    await server.sql(`INSERT INTO tenant_keys VALUES ($1, $2, 'data', $3, now())`, [tenant_id, id, damaged]);
    const result = await rotateRootKey(server.ctx, () => undefined);
    expect(result).toMatchObject({ rotated: 0, broken: [{ tenant_id, id }] });
    expect(await server.sql(`SELECT name FROM leases WHERE name = 'rotate-root'`)).toEqual([]);
    await server.sql('DELETE FROM tenant_keys WHERE id = $1', [id]);
  });
});

describe('a data key', () => {
  const passes: Passes = new Map();
  const reseal = async () => {
    // What a process has cached ends in time, which this test does not wait for.
    server.ctx.keyring.forgetTenants();
    await resealAll(server.ctx, passes, { goOn: async () => true });
    server.ctx.keyring.forgetTenants();
  };
  const keysOf = () =>
    server.sql(`SELECT id FROM tenant_keys WHERE tenant_id = $1 AND purpose <> 'digest' ORDER BY created_at`, [
      server.tenant.tenant_id,
    ]) as Promise<{ id: string }[]>;
  /** Ages are by the clock of the database, which a test cannot change. */
  const makeOlder = (ms: number, tenant_id = server.tenant.tenant_id) =>
    server.sql(`UPDATE tenant_keys SET created_at = created_at - $2::float8 * interval '1 ms' WHERE tenant_id = $1`, [
      tenant_id,
      ms,
    ]);
  const masks = (): Promise<unknown> =>
    server.sql(`SELECT id, masked FROM tokens WHERE tenant_id = $1 AND type = 'token' ORDER BY id`, [
      server.tenant.tenant_id,
    ]);
  /** The tables with a value under another key than this one. */
  const tablesWithout = async (id: string): Promise<string[]> => {
    const found: string[] = [];
    for (const { name } of SEALED_TABLES) {
      const text = `SELECT count(*)::int AS count, count(*) FILTER (WHERE substring(sealed for 17) <> $2)::int AS other
        FROM ${name} WHERE tenant_id = $1 AND sealed IS NOT NULL`;
      const [{ count, other }] = await server.sql(text, [server.tenant.tenant_id, keyHeaderOf(id)]);
      expect(count, name).toBeGreaterThan(0);
      if (other > 0) found.push(name);
    }
    return found;
  };

  test('is replaced: rows are sealed again, a concurrent change wins, the old key is deleted', async () => {
    const { api_key: key } = await server.newKey(server.tenant, { rules: reveals });
    for (const mask of [null, '{{ data | reveal_last: 4 }}'])
      expect((await server.tokenize({ data: 'masked or not', type: 'token', mask })).status).toBe(200);
    const made: string[] = [];
    for (let count = 0; count < 5; count += 1)
      made.push((await server.tokenize({ data: `value ${count}`, type: 'token' })).body.id);
    const reactor = await makeReactor(server, {
      code: codeOf('return { raw: 7 };'),
      configuration: { a: 1 },
      contract: [{ name: 'a', type: 'number' }],
    });
    const proxy = await makeProxy(server, { destination_url: 'https://example.com/in' });
    const webhook = { name: 'Rotated', url: 'https://example.com/events', events: ['token.created'] };
    const { id: webhook_id } = (await server.request('POST', '/webhooks', { json: webhook })).body;
    expect((await server.request('POST', `/webhooks/${webhook_id}/ping`)).status).toBe(200);
    // The body of an event is sealed with the first attempt, which this host does not take.
    const delivering = createDelivering(server.ctx);
    delivering.soon();
    await delivering.settle();
    await delivering.stop();
    const draft = { request_transform: { code: codeOf('return args;') } };
    expect((await server.request('PUT', `/proxies/${proxy.id}/draft`, { json: draft })).status).toBe(200);
    const version = `/reactors/${reactor.id}/versions/1`;
    const person = await join(server);
    await invite(server, 'invited@example.com');
    await askForReset(server, person.email);
    const mails = `SELECT DISTINCT kind FROM mail_outbox WHERE sealed IS NOT NULL ORDER BY kind`;
    expect(await server.sql(mails)).toEqual([{ kind: 'invitation' }, { kind: 'password_reset' }]);
    const settings = {
      issuer: 'https://login.example.com',
      client_id: 'vault',
      client_secret: 'secret',
      default_role: '',
      trusts_second_factor: false,
      allows_passwords: true,
    };
    await saveSettings(server.ctx, { ...server.tenant, actor: operator, hasSignedInBySso: false }, settings);
    await server.request('POST', '/tokens', { json: { data: 'x' }, headers: { 'svc-idempotency-key': 'once' } });
    const [{ id: first }] = (await keysOf()) as [{ id: string }];

    const { tenant_id } = server.tenant;
    const rotated = await cli(['keys', 'rotate-tenant', '--tenant', tenant_id]);
    expect([rotated.code, rotated.stdout], rotated.stderr).toEqual([0, expect.stringContaining('New data keys: 1')]);
    const again = await cli(['keys', 'rotate-tenant', '--tenant', tenant_id]);
    expect([again.code, again.stdout]).toEqual([1, expect.stringContaining('newer than half an hour')]);
    const [, second] = (await keysOf()) as [unknown, { id: string }];
    // The clock of a host says nothing about the age of a key.
    server.clock.offsetMs += 3_600_000;
    await reseal();
    server.clock.offsetMs -= 3_600_000;
    expect(await tablesWithout(first)).toEqual([]);
    const before = await masks();
    expect(before).toContainEqual({ id: expect.anything(), masked: true });
    expect(before).toContainEqual({ id: expect.anything(), masked: false });

    await makeOlder(KEY_ACTIVE_AFTER_MS + 60_000);
    const patched = made.map((id, index) =>
      server.request('PATCH', `/tokens/${id}`, {
        json: { data: `changed ${index}` },
        headers: { 'content-type': 'application/merge-patch+json' },
      }),
    );
    const [answers] = await Promise.all([Promise.all(patched), reseal()]);
    expect(answers.map(({ status }) => status)).toEqual(made.map(() => 200));
    await reseal();
    expect(await tablesWithout(second.id)).toEqual([]);
    expect(await masks()).toEqual(before);
    expect(await createResealRows(server.ctx.db).deleteKey(tenant_id, first, second.id)).toBe(false);
    for (const [index, id] of made.entries())
      expect((await server.request('GET', `/tokens/${id}`, { key })).body.data).toBe(`changed ${index}`);
    expect((await react(server, reactor.id)).body).toMatchObject({ raw: 7 });
    expect((await server.request('GET', `/proxies/${proxy.id}`)).body.destination_url).toBe('https://example.com/in');
    expect((await server.request('GET', `/proxies/${proxy.id}/draft`)).body).toMatchObject(draft);
    expect((await server.request('GET', version)).body.code).toBe(codeOf('return { raw: 7 };'));
    const { text } = await server.request('GET', '/tenants/self/members');
    expect(text).toContain(person.email);
    expect((await server.request('GET', '/tenants/self/invitations')).text).toContain('invited@example.com');
    const provider = await findProviderOf(server.ctx, tenant_id);
    expect(provider?.settings).toEqual({ ...settings, default_role: null });
    expect(await keysOf()).toHaveLength(2);

    const listed = await cli(['keys', 'list', '--encryption', '--tenant', tenant_id, '--json']);
    const lines = listed.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.find(({ id }) => id === first)).toMatchObject({ purpose: 'data', rows: 0 });
    expect(lines.find(({ id }) => id === second.id).rows).toBeGreaterThan(8);
    expect(lines.filter(({ kind }) => kind === 'root')).toEqual([
      expect.objectContaining({ current: true, keys: expect.any(Number) }),
      expect.objectContaining({ current: false, keys: 0 }),
    ]);

    // A kept answer is under the old key for a day: the key stays until it has expired.
    await makeOlder(KEY_SETTLED_AFTER_MS);
    await reseal();
    expect(await keysOf()).toHaveLength(2);
    server.clock.offsetMs += 24 * 3_600_000;
    await sweep(server.ctx);
    await reseal();
    expect(await keysOf()).toEqual([second]);
    expect((await server.request('GET', `/tokens/${made[0]}`, { key })).body.data).toBe('changed 0');
  });

  test('stays where a value does not open: one alarm for a pass, and the next pass is hours later', async () => {
    // The first tenant of all has damaged keys: it does not keep the others from being re-sealed.
    const damaged = '00000000-0000-4000-8000-000000000001';
    for (const id of [randomUUID(), randomUUID()])
      await server.sql(`INSERT INTO tenant_keys VALUES ($1, $2, 'data', '\\x01', now() - interval '1 hour')`, [
        damaged,
        id,
      ]);
    const { tenant_id, api_key } = await server.newTenant();
    const tokens = [1, 2].map((data) => server.tokenize({ data, type: 'token' }, api_key));
    const [{ body: changed }] = (await Promise.all(tokens)) as [{ body: { id: string } }, unknown];
    await server.sql(`UPDATE tokens SET sealed = set_byte(sealed, 40, 255 - get_byte(sealed, 40)) WHERE id = $1`, [
      changed.id,
    ]);
    await cli(['keys', 'rotate-tenant', '--tenant', tenant_id]);
    await makeOlder(KEY_SETTLED_AFTER_MS, tenant_id);
    const alarms = () => server.logLines.filter((line) => line.includes('seal_broken') && line.includes(tenant_id));
    for (let count = 0; count < 2; count += 1) await reseal();
    expect(alarms().map((line) => JSON.parse(line))).toMatchObject([
      { record: 'token', record_id: changed.id, values: 1 },
    ]);
    expect(server.logLines.filter((line) => line.includes(damaged))).toHaveLength(1);
    const left = await server.sql(
      `SELECT count(DISTINCT substring(sealed for 17))::int AS keys,
        (SELECT count(*)::int FROM tenant_keys WHERE tenant_id = $1 AND purpose <> 'digest') AS data_keys
        FROM tokens WHERE tenant_id = $1`,
      [tenant_id],
    );
    expect(left).toEqual([{ keys: 2, data_keys: 2 }]);
    expect(passes.get(tenant_id)?.outcome).toBe('broken');
    await server.sql('DELETE FROM tenant_keys WHERE tenant_id = $1', [damaged]);
  });
});
