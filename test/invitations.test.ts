// Invitations over HTTP, with a real mail server: create, resend, list, delete, and the expiry of links.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { permissions } from '../src/modules/access/permissions.ts';
import { findInvitationBeforeCaller } from '../src/modules/people/acceptance.ts';
import { INVITATION_TTL_MS, PEOPLE_MAX } from '../src/modules/people/invitations.ts';
import { sendDueMails } from '../src/modules/people/send-mails.ts';
import { sweep } from '../src/modules/tokens/sweep.ts';
import { type Answer, startServer, TEST_ROOT_KEY, type TestServer, type TestTenant } from './support/server.ts';
import { startSmtp, type TestSmtp } from './support/smtp.ts';

const PATH = '/tenants/self/invitations';
const BASE_URL = 'https://vault.example.com';
const HOUR_MS = 3_600_000;

let smtp: TestSmtp;
let server: TestServer;
let tenant: TestTenant;

beforeAll(async () => {
  smtp = await startSmtp();
  server = await startServer({ SMTP_URL: smtp.url, MAIL_FROM: 'Strongroom <vault@example.com>' }, { ca: smtp.ca });
});
afterAll(async () => {
  await server.close();
  await smtp.close();
});

// A tenant for each test: its mails, and its people, are counted. What others left to be sent is none of its.
beforeEach(async () => {
  await sendDueMails(server.ctx, BASE_URL);
  tenant = await server.newTenant({ name: 'Shop' });
});

const send = (method: string, path: string, json?: unknown, key = tenant.api_key, headers = {}): Promise<Answer> =>
  server.request(method, path, { key, headers, ...(json === undefined ? {} : { json }) });

let addresses = 0;
const newAddress = (): string => `invited-${(addresses += 1)}@example.com`;

const invite = async (email = newAddress(), key = tenant.api_key): Promise<Answer['body']> => {
  const answer = await send('POST', PATH, { email }, key);
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

/** Sends what is due. @returns the secret of the last link that an address got. */
const secretFor = async (email: string): Promise<string> => {
  await sendDueMails(server.ctx, BASE_URL);
  const mail = smtp.mails.findLast(({ to }) => to.includes(email));
  const [, secret] = /https:\/\/vault\.example\.com\/join\/([0-9A-Za-z]{32})\b/.exec(mail?.text ?? '') ?? [];
  if (secret === undefined) throw new Error('no link came');
  return secret;
};

const isAlive = async (secret: string): Promise<boolean> =>
  (await findInvitationBeforeCaller(server.ctx, secret)) !== undefined;

const statusOf = async (id: string): Promise<string> => (await send('GET', `${PATH}/${id}`)).body.status;

/** What the database has of a tenant's invitations. */
const rows = async () => {
  const count = async (table: string): Promise<number> =>
    (await server.sql(`SELECT count(*)::int AS count FROM ${table} WHERE tenant_id = $1`, [tenant.tenant_id]))[0].count;
  return {
    invitations: await count('invitations'),
    secrets: await count('invitation_secrets'),
    mails: await count('mail_outbox'),
  };
};

/** Time passes for a while, and comes back. */
const at = async <T>(offsetMs: number, work: () => Promise<T>): Promise<T> => {
  const before = server.clock.offsetMs;
  server.clock.offsetMs += offsetMs;
  try {
    return await work();
  } finally {
    server.clock.offsetMs = before;
  }
};

test('sending again needs the right to change invitations too', async () => {
  const { id } = await invite();
  const others = permissions.filter((each) => each !== 'tenant:invitation:update');
  const { api_key } = await server.newKey(tenant, { permissions: others });
  const before = await rows();
  const answer = await send('POST', `${PATH}/${id}/resend`, undefined, api_key);
  expect(answer.status).toBe(403);
  expect(answer.body.detail).toContain('tenant:invitation:update');
  expect(await rows()).toEqual(before);
});

describe('inviting', () => {
  test('sends one mail, with a link that is good for 72 hours', async () => {
    const email = newAddress();
    const asked = server.ctx.now().getTime();
    const body = await invite(email);
    expect(Date.parse(body.expires_at) - Date.parse(body.created_at)).toBe(72 * HOUR_MS);
    expect(Date.parse(body.created_at)).toBeGreaterThanOrEqual(asked);
    const before = smtp.mails.length;
    const secret = await secretFor(email);
    expect(smtp.mails.slice(before).map(({ to }) => to)).toEqual([[email]]);
    expect(await findInvitationBeforeCaller(server.ctx, secret)).toEqual({
      tenant_id: tenant.tenant_id,
      invitation_id: body.id,
      tenant_name: 'Shop',
      email,
      role: 'ADMIN',
      isKnownUser: false,
    });
  });

  test('keeps the secret of a link, and the address, out of the answer and the database', async () => {
    const email = newAddress();
    const made = await send('POST', PATH, { email });
    const secret = await secretFor(email);
    expect(made.text).not.toContain(secret);
    for (const table of ['invitations', 'invitation_secrets', 'mail_outbox', 'audit_log']) {
      const [{ text }] = await server.sql(`SELECT coalesce(json_agg(t)::text, '') AS text FROM ${table} t`);
      const hex = (value: string) => Buffer.from(value).toString('hex');
      for (const value of [secret, email, hex(secret), hex(email)]) expect(text).not.toContain(value);
    }
  });

  const bad: [name: string, body: unknown, field: string][] = [
    ['none', undefined, 'body'],
    ['no object', 'ada@example.com', 'body'],
    ['no address', {}, 'email'],
    ['null', { email: null }, 'email'],
    ['a list of addresses', { email: ['ada@example.com'] }, 'email'],
    ['an empty address', { email: '' }, 'email'],
    ['two addresses', { email: 'ada@example.com,bob@example.com' }, 'email'],
    ['two @', { email: 'ada@bob@example.com' }, 'email'],
    ['a display name', { email: 'Ada <ada@example.com>' }, 'email'],
    ['CRLF and another header', { email: 'ada@example.com\r\nBcc: eve@example.com' }, 'email'],
    ['CRLF in quotes', { email: '"ada\r\nBcc: eve@example.com"@example.com' }, 'email'],
    ['NUL', { email: 'ada\0@example.com' }, 'email'],
    ['characters beyond ASCII before the @', { email: 'böb@example.com' }, 'email'],
    ['a local part of 65', { email: `${'a'.repeat(65)}@example.com` }, 'email'],
    ['a megabyte', { email: `${'a'.repeat(900_000)}@example.com` }, 'email'],
  ];
  test.each(bad)(
    'refuses a body with %s by the name of the field, and never repeats it',
    async (_name, body, field) => {
      const answer = await send('POST', PATH, body);
      expect(answer.status).toBe(400);
      expect(Object.keys(answer.body.errors)).toEqual([field]);
      // The trace id is drawn, and may look like anything.
      expect(answer.text.replace(answer.body.trace_id, '')).not.toMatch(/bob|bcc|aaa/i);
      expect(await rows()).toEqual({ invitations: 0, secrets: 0, mails: 0 });
    },
  );

  test('says that the part before the @ must be ASCII', async () => {
    const { body } = await send('POST', PATH, { email: 'größe@bücher.example' });
    expect(body.errors).toEqual({
      email: ['must have only ASCII characters before the @: not all mail servers take others'],
    });
  });

  test.each([
    ['"ada, bob@example.org"@example.com', '"ada, bob@example.org"@example.com'],
    ['user%0abcc@example.com', 'user%0abcc@example.com'],
    ['ada@bücher.example', 'ada@xn--bcher-kva.example'],
  ])('an address like %s is one recipient, and shown as it was given', async (email, recipient) => {
    const before = smtp.recipients.length;
    expect((await invite(email)).email).toBe(email);
    await sendDueMails(server.ctx, BASE_URL);
    expect(smtp.recipients.slice(before)).toEqual([recipient]);
  });

  test('an address may be invited several times; each link is good', async () => {
    const email = newAddress();
    const first = await invite(email);
    const secret = await secretFor(email);
    const second = await invite(email);
    const other = await secretFor(email);
    expect(first.id).not.toBe(second.id);
    expect(other).not.toBe(secret);
    expect(await isAlive(secret)).toBe(true);
    expect(await isAlive(other)).toBe(true);
  });

  test('is done once under an idempotency key, with one mail', async () => {
    const headers = { 'idempotency-key': 'once' };
    const body = { email: newAddress() };
    const first = await send('POST', PATH, body, tenant.api_key, headers);
    const again = await send('POST', PATH, body, tenant.api_key, headers);
    expect(again.text).toBe(first.text);
    expect(await rows()).toEqual({ invitations: 1, secrets: 1, mails: 1 });
  });

  test('a mail server that is down delays no answer: the mail goes out later', async () => {
    smtp.behave('gone');
    const email = newAddress();
    const { id } = await invite(email);
    await sendDueMails(server.ctx, BASE_URL);
    smtp.behave('take');
    expect(await statusOf(id)).toBe('PENDING');
    await at(HOUR_MS, async () => expect(await isAlive(await secretFor(email))).toBe(true));
  });

  test('in a vault that sends no mail is a 503 that says so, and leaves nothing', async () => {
    const mailless = await startServer({ NODE_ENV: 'production', MASTER_KEY: TEST_ROOT_KEY });
    try {
      const answer = await mailless.request('POST', PATH, { json: { email: 'ada@example.com' } });
      expect(answer.status).toBe(503);
      expect(answer.body.detail).toContain('SMTP_URL');
      expect(answer.headers.get('retry-after')).toBe('3600');
      expect(await mailless.sql('SELECT FROM invitations')).toEqual([]);
    } finally {
      await mailless.close();
    }
  });
});

describe('limits', () => {
  test('the eleventh mail of a tenant to one address in an hour is a 429, and leaves nothing', async () => {
    const email = newAddress();
    for (let index = 0; index < 5; index += 1) {
      await invite(email);
      await invite(email.toUpperCase());
    }
    const secret = await secretFor(email);
    const [{ id }] = (await send('GET', PATH)).body.data;
    const before = await rows();
    for (const answer of [await send('POST', PATH, { email }), await send('POST', `${PATH}/${id}/resend`)]) {
      expect(answer.status).toBe(429);
      const wait = Number(answer.headers.get('retry-after'));
      expect(wait).toBeGreaterThan(3000);
      expect(wait).toBeLessThanOrEqual(3600);
      expect(answer.text).not.toContain('invited-');
    }
    expect(await rows()).toEqual(before);
    // A link is not ended by one that was not made.
    expect(await isAlive(secret)).toBe(true);
    expect((await send('POST', PATH, { email: newAddress() })).status).toBe(201);
    await at(HOUR_MS + 1000, async () => expect((await send('POST', PATH, { email })).status).toBe(201));
  });

  test('of many at once to one address no more than ten pass', async () => {
    const email = newAddress();
    const answers = await Promise.all(Array.from({ length: 40 }, () => send('POST', PATH, { email })));
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 201)).toHaveLength(10);
    expect(statuses.filter((status) => status === 429)).toHaveLength(30);
    expect(await rows()).toEqual({ invitations: 10, secrets: 10, mails: 10 });
  });

  test('a tenant has so many members and invitations, and not one more', async () => {
    await server.sql(
      `INSERT INTO invitations (tenant_id, id, role, address_digest, sealed, expires_at, created_at)
       SELECT $1, gen_random_uuid(), 'ADMIN', '\\x00', '\\x00', now(), now() FROM generate_series(1, $2)`,
      [tenant.tenant_id, PEOPLE_MAX - 11],
    );
    await server.sql(
      `INSERT INTO members (tenant_id, id, user_id, role, address_digest, sealed, created_at)
       SELECT $1, gen_random_uuid(), gen_random_uuid(), 'ADMIN', '\\x00', '\\x00', now() FROM generate_series(1, 10)`,
      [tenant.tenant_id],
    );
    const both = await Promise.all([1, 2].map(() => send('POST', PATH, { email: newAddress() })));
    expect(both.map(({ status }) => status).toSorted()).toEqual([201, 409]);
    expect(both.find(({ status }) => status === 409)?.body.detail).toContain(String(PEOPLE_MAX));
  });
});

describe('the list', () => {
  test('can be filtered by status, which is read off the clock', async () => {
    const old = await invite();
    await at(HOUR_MS, async () => {
      const young = await invite();
      const ids = async (query: string): Promise<string[]> => {
        const { body } = await send('GET', `${PATH}${query}`);
        expect(body.pagination.total_items).toBe(body.data.length);
        return body.data.map(({ id }: { id: string }) => id);
      };
      expect(await ids('?status=PENDING')).toEqual([young.id, old.id]);
      expect(await ids('?status=EXPIRED')).toEqual([]);
      await at(INVITATION_TTL_MS - HOUR_MS, async () => {
        expect(await ids('?status=PENDING')).toEqual([young.id]);
        expect(await ids('?status=EXPIRED')).toEqual([old.id]);
        expect(await ids('')).toEqual([young.id, old.id]);
        expect(await statusOf(old.id)).toBe('EXPIRED');
      });
    });
  });

  test.each([
    ['status=ACCEPTED', 'status'],
    ['status=pending', 'status'],
    ['status=', 'status'],
    ['status=PENDING&status=EXPIRED', 'status'],
  ])('refuses %s by the name of the parameter', async (query, field) => {
    const answer = await send('GET', `${PATH}?${query}`);
    expect(answer.status).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual([field]);
  });
});

describe('sending again', () => {
  test('makes another link for 72 hours from then, and ends every earlier one', async () => {
    const email = newAddress();
    const made = await invite(email);
    const links = [await secretFor(email)];
    await at(HOUR_MS, async () => {
      for (let round = 0; round < 2; round += 1) {
        const answer = await send('POST', `${PATH}/${made.id}/resend`);
        expect(answer.status, answer.text).toBe(200);
        expect(answer.headers.get('location')).toBeNull();
        const { expires_at, modified_at, modified_by, ...rest } = answer.body;
        const { expires_at: _, ...before } = made;
        expect(rest).toEqual(before);
        expect(modified_by).toBe(tenant.application_id);
        expect(Date.parse(expires_at) - Date.parse(modified_at)).toBe(INVITATION_TTL_MS);
        expect(Date.parse(expires_at)).toBeGreaterThan(Date.parse(made.expires_at));
        expect((await send('GET', `${PATH}/${made.id}`)).body).toEqual(answer.body);
        links.push(await secretFor(email));
      }
      expect(await Promise.all(links.map(isAlive))).toEqual([false, false, true]);
    });
    expect(await rows()).toMatchObject({ invitations: 1, secrets: 1 });
    const logs = await server.sql(
      `SELECT message FROM audit_log WHERE tenant_id = $1 AND operation = 'update' AND entity_ids = ARRAY[$2]`,
      [tenant.tenant_id, made.id],
    );
    expect(logs.map(({ message }) => message)).toEqual(['Tenant invitation updated', 'Tenant invitation updated']);
  });

  test('revives an expired invitation, and none of its old links', async () => {
    const email = newAddress();
    const { id } = await invite(email);
    const old = await secretFor(email);
    await at(INVITATION_TTL_MS, async () => {
      await sweep(server.ctx);
      expect(await statusOf(id)).toBe('EXPIRED');
      expect((await send('POST', `${PATH}/${id}/resend`)).body.status).toBe('PENDING');
      expect(await statusOf(id)).toBe('PENDING');
      expect(await isAlive(await secretFor(email))).toBe(true);
      expect(await isAlive(old)).toBe(false);
    });
  });

  test('before the first mail went out sends the newest link alone', async () => {
    const email = newAddress();
    const { id } = await invite(email);
    await send('POST', `${PATH}/${id}/resend`);
    const before = smtp.mails.length;
    expect(await isAlive(await secretFor(email))).toBe(true);
    expect(smtp.mails.length - before).toBe(1);
  });

  test('is done once under an idempotency key', async () => {
    const { id } = await invite();
    const headers = { 'idempotency-key': 'again' };
    const first = await send('POST', `${PATH}/${id}/resend`, undefined, tenant.api_key, headers);
    const again = await send('POST', `${PATH}/${id}/resend`, undefined, tenant.api_key, headers);
    expect(again.headers.get('svc-idempotent-replayed')).toBe('true');
    expect(again.text).toBe(first.text);
    expect((await rows()).mails).toBe(2);
  });

  test('of many at once leaves one link', async () => {
    const email = newAddress();
    const { id } = await invite(email);
    const answers = await Promise.all(Array.from({ length: 9 }, () => send('POST', `${PATH}/${id}/resend`)));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 9 }, () => 200));
    expect(await rows()).toEqual({ invitations: 1, secrets: 1, mails: 10 });
    expect(await isAlive(await secretFor(email))).toBe(true);
  });
});

describe('an invitation', () => {
  test('that is deleted is gone, with its link and the mail that was not sent', async () => {
    const email = newAddress();
    const { id } = await invite(email);
    const secret = await secretFor(email);
    await send('POST', `${PATH}/${id}/resend`);
    const before = smtp.mails.length;
    expect((await send('DELETE', `${PATH}/${id}`)).status).toBe(204);
    await sendDueMails(server.ctx, BASE_URL);
    expect(smtp.mails).toHaveLength(before);
    expect(await isAlive(secret)).toBe(false);
    expect(await rows()).toMatchObject({ invitations: 0, secrets: 0 });
  });

  test('is good until the second in which it expires', async () => {
    const email = newAddress();
    const { id } = await invite(email);
    const secret = await secretFor(email);
    const endMs = Date.parse((await send('GET', `${PATH}/${id}`)).body.expires_at);
    try {
      server.clock.stoppedAtMs = endMs - 1;
      expect(await isAlive(secret)).toBe(true);
      server.clock.stoppedAtMs = endMs;
      expect(await isAlive(secret)).toBe(false);
    } finally {
      server.clock.stoppedAtMs = undefined;
    }
  });

  test('a clock that goes back does not end a link, nor make it good for longer than it says', async () => {
    const email = newAddress();
    const { id, expires_at } = await invite(email);
    const secret = await secretFor(email);
    await at(-HOUR_MS, async () => {
      expect(await isAlive(secret)).toBe(true);
      expect(await statusOf(id)).toBe('PENDING');
      expect((await send('GET', `${PATH}/${id}`)).body.expires_at).toBe(expires_at);
    });
  });

  test.each<[string, (secret: string) => Promise<unknown>]>([
    ['looked at', (secret: string) => isAlive(secret)],
    ['swept', () => sweep(server.ctx)],
  ])('whose link was %s once it had expired stays expired, when the clock goes back', async (_what, look) => {
    const email = newAddress();
    const { id } = await invite(email);
    const secret = await secretFor(email);
    await at(73 * HOUR_MS, () => look(secret));
    expect(await isAlive(secret)).toBe(false);
    expect(await statusOf(id)).toBe('EXPIRED');
    expect((await send('GET', `${PATH}?status=EXPIRED`)).body.data).toHaveLength(1);
    expect((await send('GET', `${PATH}?status=PENDING`)).body.data).toEqual([]);
  });

  test('is found by its whole secret, and by nothing like it', async () => {
    const email = newAddress();
    await invite(email);
    const secret = await secretFor(email);
    const last = secret.endsWith('0') ? '1' : '0';
    for (const text of [
      '',
      secret.slice(0, -1),
      `${secret}0`,
      `${secret.slice(0, -1)}${last}`,
      ` ${secret}`,
      secret.toLowerCase() === secret ? secret.toUpperCase() : secret.toLowerCase(),
      '%',
      '\0',
      '../join',
      'x'.repeat(100_000),
    ])
      expect(await isAlive(text), JSON.stringify(text).slice(0, 50)).toBe(false);
    expect(await isAlive(secret)).toBe(true);
  });
});
