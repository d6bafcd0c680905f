// Mails: sent at least once despite failures, to one address, over TLS, without markup from a tenant's name.
import {
  claimMails,
  MAILS_PER_ADDRESS_MAX,
  MAILS_PER_MAILBOX_MAX,
  MAILS_PER_TENANT_MAX,
} from '../src/platform/mail/mail-outbox.ts';
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Overrides } from '../src/context.ts';
import { loadConfig } from '../src/platform/config/config.ts';
import type { MailConfig } from '../src/platform/config/mail.ts';
import { type Context, createContext } from '../src/modules.ts';
import { createLog } from '../src/platform/base/log.ts';
import { createMailer, type Mailer, type MailTimeouts } from '../src/platform/mail/mailer.ts';
import { sendDueMails, startMailing } from '../src/modules/people/send-mails.ts';
import { sweep } from '../src/modules/tokens/sweep.ts';
import { certificateFor, selfSignedCertificateFor, testCa } from './support/certificates.ts';
import { callCommand } from './support/command.ts';
import { freePort } from './support/process.ts';
import { startServer, TEST_ROOT_KEY, type TestServer } from './support/server.ts';
import { startSmtp, type TestSmtp } from './support/smtp.ts';

const BASE_URL = 'https://vault.example.com';
const HOUR_MS = 3_600_000;
const LINK_MS = 72 * HOUR_MS;
const SECRET = 'q7rT0aZ4mB9xK2cV5nL8pQ1wE3yU6iO7';

/** What a link of ours looks like, the part that is secret last. */
const LINK = /https:\/\/vault\.example\.com\/join\/([0-9A-Za-z]{32})(?![0-9A-Za-z])/;

let smtp: TestSmtp;
let server: TestServer;
let unanswered: Awaited<ReturnType<typeof beginUnanswered>>;

const startBoth = async (mailTimeouts: Partial<MailTimeouts> = {}) => {
  const own = await startSmtp();
  const MAIL_FROM = 'Strongroom <vault@example.com>';
  return { smtp: own, server: await startServer({ SMTP_URL: own.url, MAIL_FROM }, { ca: own.ca, mailTimeouts }) };
};

/** What a mail server has to greet passes while other tests run. */
const beginUnanswered = async () => {
  const own = await startBoth({ greetingMs: 3_000 });
  own.smtp.behave('silent');
  await invited('ada@example.org', own.server.tenant, own.server);
  let isGivenUp = false;
  const sending = send(own.server.ctx).finally(() => (isGivenUp = true));
  await invited('bob@example.org', own.server.tenant, own.server);
  return { ...own, sending, wasWaitedFor: !isGivenUp };
};

beforeAll(async () => {
  [{ smtp, server }, unanswered] = await Promise.all([startBoth(), beginUnanswered()]);
});
afterEach(async () => {
  smtp.behave('take');
  smtp.mails.length = 0;
  smtp.recipients.length = 0;
  server.logLines.length = 0;
  for (const table of ['mail_outbox', 'invitations', 'invitation_secrets']) await server.sql(`DELETE FROM ${table}`);
});
afterAll(async () => {
  await unanswered?.server.close();
  await unanswered?.smtp.close();
  await server?.close();
  await smtp?.close();
});

const pass = (ms: number): void => void (server.clock.offsetMs += ms);

const invite = (email: string, tenant: { api_key: string } = server.tenant, to: TestServer = server) =>
  to.request('POST', '/tenants/self/invitations', { key: tenant.api_key, json: { email } });

const invited = async (email: string, tenant?: { api_key: string }, to?: TestServer): Promise<string> => {
  const { status, body } = await invite(email, tenant, to);
  expect(status).toBe(201);
  return body.id;
};

const send = (ctx: Context = server.ctx) => sendDueMails(ctx, BASE_URL);

/** Another process on the same vault. */
const withAnother = async <T>(work: (ctx: Context) => Promise<T>): Promise<T> => {
  const ctx = await createContext(server.ctx.config, 'command', {
    now: server.ctx.now,
    ca: smtp.ca,
    logDestination: { write: (line: string) => void server.logLines.push(line) },
  });
  try {
    return await work(ctx);
  } finally {
    await ctx.close();
  }
};

const waiting = async (): Promise<number> =>
  (await server.sql('SELECT count(*)::int AS count FROM mail_outbox WHERE sealed IS NOT NULL'))[0].count;

describe('a mail of an invitation', () => {
  test('reaches its one address, with its link, in text and in HTML', async () => {
    const { status, body: invitation } = await invite('ada@example.org');
    expect(status).toBe(201);
    expect(await send()).toBe(1);
    expect(smtp.mails).toHaveLength(1);
    const [mail] = smtp.mails;
    expect(mail?.from).toBe('vault@example.com');
    expect(mail?.to).toEqual(['ada@example.org']);
    expect(mail?.parsed.from).toMatchObject({ name: 'Strongroom', address: 'vault@example.com' });
    expect(mail?.subject).toBe('Join "Test" in Strongroom');
    const [link = ''] = LINK.exec(mail?.text ?? '') ?? [];
    expect(mail?.text.split('\n'), 'alone in its line').toContain(link);
    expect(mail?.raw.split('\r\n'), 'in the source too').toContain(link);
    expect(mail?.html).toContain(`<a href="${link}">`);
    expect(link).not.toBe('');
    expect(Date.parse(invitation.expires_at) - Date.parse(invitation.created_at)).toBe(LINK_MS);
    expect(mail?.text).toContain(`until ${invitation.expires_at.slice(0, 10)}`);
    expect(mail?.raw).toMatch(/^Auto-Submitted: auto-generated\r?$/im);
    expect(mail?.parsed.attachments).toEqual([]);
  });

  test('loads nothing from anywhere', async () => {
    await invited('ada@example.org');
    await send();
    const { html = '', text = '' } = smtp.mails[0] ?? {};
    const [link] = LINK.exec(text) ?? [];
    expect(html.match(/https?:\/\/[^"<]+/g)).toEqual([link, link]);
    expect(html).not.toMatch(/src=|url\(|<link|<script|<img/i);
  });

  test('is sent once, and says nothing any more afterwards', async () => {
    await invited('ada@example.org');
    expect([await send(), await send()]).toEqual([1, 0]);
    pass(24 * HOUR_MS);
    expect(await send()).toBe(0);
    expect(smtp.mails).toHaveLength(1);
    expect(await server.sql('SELECT sealed FROM mail_outbox')).toEqual([{ sealed: null }]);
  });

  test('has the name that its tenant has when it is sent', async () => {
    const tenant = await server.newTenant({ name: 'Before' });
    await invited('ada@example.org', tenant);
    await server.request('PUT', '/tenants/self', { key: tenant.api_key, json: { name: 'After' } });
    await send();
    expect(smtp.mails[0]?.subject).toBe('Join "After" in Strongroom');
  });

  test.for([
    ['a header', 'Acme\r\nBcc: eve@example.net\r\n\r\n<b>own body</b>'],
    ['a line', 'Acme\u2028\u0085To accept, open https://evil.example\u0000'],
    ['markup', '"><script>alert(1)</script><img src=https://evil.example/x>&amp;\''],
    ['the direction of text', 'Acme \u202Egnp.exe\u2066'],
    ['an encoded word', '=?utf-8?q?=0d=0aBcc:_eve@example.net?='],
    ['half a character', '\uD83D Acme'],
    ['the one link', 'Acme: https://evil.example/phish www.evil.example evil\u3002example/x mailto:eve@evil.example'],
  ])('has a name that cannot break %s', async ([, name]) => {
    const tenant = await server.newTenant();
    await server.sql('UPDATE tenants SET name = $2 WHERE id = $1', [
      tenant.tenant_id,
      name?.toWellFormed().replaceAll('\0', '\u0001'),
    ]);
    await invited('ada@example.org', tenant);
    await send();
    const [mail] = smtp.mails;
    expect(mail?.to).toEqual(['ada@example.org']);
    expect(smtp.recipients).toEqual(['ada@example.org']);
    const headers = mail?.parsed.headers.map(({ key }) => key) ?? [];
    expect(headers.filter((key) => ['bcc', 'to', 'subject', 'from'].includes(key)).toSorted()).toEqual([
      'from',
      'subject',
      'to',
    ]);
    expect(mail?.subject).toMatch(/^Join ".*" in Strongroom$/);
    // What mail programs make a link of, beside our own.
    const linkable = /[a-z]:\S|\w[.\u3002]\w/i;
    expect(mail?.subject).not.toMatch(linkable);
    expect(mail?.text.replace(LINK, '')).not.toMatch(linkable);
    expect(mail?.subject).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u);
    const paragraphs = mail?.text.trimEnd().split('\n\n') ?? [];
    expect(paragraphs).toHaveLength(5);
    expect(paragraphs[0]).toMatch(/^You are invited to[^\p{Zl}\p{Zp}\p{Bidi_Control}]+data\.$/u);
    expect(paragraphs[2]).toMatch(LINK);
    expect(mail?.html).not.toMatch(/<script|<img|<b>/i);
    expect(mail?.html.match(/<[a-z]+/g)).toEqual([
      '<html',
      '<head',
      '<meta',
      '<title',
      '<body',
      '<p',
      '<p',
      '<p',
      '<a',
      '<p',
      '<p',
    ]);
  });

  test('has a long name of its tenant cut, between characters', async () => {
    const tenant = await server.newTenant();
    await server.sql('UPDATE tenants SET name = $2 WHERE id = $1', [tenant.tenant_id, '🏦'.repeat(200)]);
    await invited('ada@example.org', tenant);
    await send();
    expect(smtp.mails[0]?.subject).toBe(`Join "${'🏦'.repeat(59)}…" in Strongroom`);
  });
});

describe('until its link is dead, a mail is tried again', () => {
  test.for(['later', 'never', 'gone'] as const)('after a server that answers: %s', async (mode) => {
    smtp.behave(mode);
    await invited('ada@example.org');
    expect(await send()).toBe(0);
    smtp.behave('take');
    expect(await send(), 'not at once').toBe(0);
    pass(10_000);
    expect(await send()).toBe(1);
    expect(smtp.mails).toHaveLength(1);
  });

  test('after a server that was down', async () => {
    const port = await freePort();
    await withServer({ SMTP_URL: `smtp://localhost:${port}` }, async (down) => {
      await invited('ada@example.org', down.tenant, down);
      expect(await send(down.ctx)).toBe(0);
      const up = await startSmtp({ port });
      try {
        down.clock.offsetMs += 10_000;
        expect(await send(down.ctx)).toBe(1);
        expect(up.mails).toHaveLength(1);
      } finally {
        await up.close();
      }
    });
  });

  test('ever more rarely: after 10 seconds, 20, 40, and in the end every 15 minutes', async () => {
    smtp.behave('never');
    await invited('ada@example.org');
    const waits: number[] = [];
    // The clock stands while a mail is tried: a wait is counted from the end of that.
    let nowMs = server.ctx.now().getTime();
    try {
      for (let round = 0; round < 9; round += 1) {
        server.clock.stoppedAtMs = nowMs;
        await send();
        const [{ due_at }] = await server.sql('SELECT due_at FROM mail_outbox');
        waits.push((due_at.getTime() - nowMs) / 1000);
        nowMs = due_at.getTime();
      }
    } finally {
      server.clock.stoppedAtMs = undefined;
    }
    expect(waits).toEqual([10, 20, 40, 80, 160, 320, 640, 900, 900]);
    expect(smtp.recipients).toHaveLength(9);
  });

  test('and no longer, nor is it kept then', async () => {
    smtp.behave('never');
    await invited('ada@example.org');
    await send();
    smtp.behave('take');
    pass(LINK_MS);
    expect(await send()).toBe(0);
    await sweep(server.ctx);
    expect(await server.sql('SELECT id FROM mail_outbox')).toEqual([]);
    expect(smtp.mails).toEqual([]);
  });

  test('by another process, where the one that wrote it died', async () => {
    await invited('ada@example.org');
    expect(await withAnother(send)).toBe(1);
    expect(smtp.mails).toHaveLength(1);
  });

  test('by another process, where the one that claimed it died', async () => {
    await invited('ada@example.org');
    expect(await claimMails(server.ctx.db, server.ctx.now(), 120_000, 8)).toHaveLength(1);
    expect(await withAnother(send), 'it may still be under way').toBe(0);
    pass(120_000);
    expect(await withAnother(send)).toBe(1);
  });

  test('where the server took it, and that was not heard: under one Message-ID', async () => {
    smtp.behave('deaf');
    await invited('ada@example.org');
    await withAnother(async (ctx) => {
      const sending = send(ctx);
      await expect.poll(() => smtp.mails.length, { timeout: 5000 }).toBe(1);
      ctx.mailer?.close();
      expect(await sending).toBe(0);
    });
    smtp.behave('take');
    pass(10_000);
    expect(await send()).toBe(1);
    expect(new Set(smtp.mails.map(({ parsed }) => parsed.messageId)).size).toBe(1);
    expect(smtp.mails).toHaveLength(2);
  });

  test('but not one that was changed in the database, which keeps no other from going', async () => {
    await invited('ada@example.org');
    await server.sql('UPDATE mail_outbox SET sealed = $1', [Buffer.alloc(100, 1)]);
    await invited('bob@example.org');
    expect(await send()).toBe(1);
    expect(smtp.recipients).toEqual(['bob@example.org']);
    const alarms = server.logLines.filter((line) => line.includes('"alarm"'));
    expect(alarms).toEqual([expect.stringContaining('"alarm":"tampered","table":"mail_outbox"')]);
    expect(await waiting()).toBe(0);
  });
});

/** A vault of its own. */
const withServer = async (environment: Record<string, string>, work: (server: TestServer) => Promise<void>) => {
  const other = await startServer(environment, { ca: [testCa] });
  try {
    await work(other);
  } finally {
    await other.close();
  }
};

describe('several processes', () => {
  test('send each of many mails once', async () => {
    for (let index = 0; index < 40; index += 1) await invited(`member-${index}@example.org`);
    const sent = await withAnother((ctx) => Promise.all([send(), send(ctx), send(), send(ctx)]));
    expect(sent.reduce((sum, each) => sum + each)).toBe(40);
    expect(new Set(smtp.recipients).size).toBe(40);
    expect(smtp.mails).toHaveLength(40);
  });
});

describe('a mail does not wait for another', () => {
  test('a mail server that does not greet is given up, and delays no answer', async () => {
    expect(unanswered.wasWaitedFor).toBe(true);
    expect(await unanswered.sending).toBe(0);
    expect(unanswered.server.logLines.join('')).toContain('"code":"TIMEOUT"');
  });

  test('a start of the server sends on its own, and a stop cuts what is under way', { timeout: 20_000 }, async () => {
    await withAnother(async (ctx) => {
      const stop = startMailing(ctx, BASE_URL, { pollMs: 50, stopMs: 500 });
      await invited('ada@example.org');
      await expect.poll(() => smtp.mails.length, { timeout: 5000 }).toBe(1);
      smtp.behave('silent');
      const connections = smtp.connections();
      await invited('bob@example.org');
      await expect.poll(() => smtp.connections(), { timeout: 5000 }).toBeGreaterThan(connections);
      await stop();
    });
    smtp.behave('take');
    pass(10_000);
    expect(await send()).toBe(1);
    expect(smtp.recipients).toContain('bob@example.org');
  });

  test('a server that is down is not asked for each of many mails', async () => {
    smtp.behave('gone');
    for (let index = 0; index < 30; index += 1) await invited(`member-${index}@example.org`);
    const connections = smtp.connections();
    expect(await send()).toBe(0);
    expect(smtp.connections() - connections).toBeLessThanOrEqual(8);
  });
});

describe('mails in an hour', () => {
  test('of one tenant to one address are ten, however many are asked for at once', async () => {
    const asked = Array.from({ length: 30 }, () => invite('ada@example.org'));
    const answers = await Promise.all(asked);
    expect(answers.map(({ status }) => status).toSorted()).toEqual([...Array(10).fill(201), ...Array(20).fill(429)]);
    expect(await waiting()).toBe(MAILS_PER_ADDRESS_MAX);
    expect(await server.sql('SELECT id FROM invitations')).toHaveLength(MAILS_PER_ADDRESS_MAX);
    const refused = answers.find(({ status }) => status === 429);
    const retryAfterSeconds = Number(refused?.headers.get('retry-after'));
    expect(retryAfterSeconds).toBeGreaterThan(3500);
    expect(retryAfterSeconds).toBeLessThanOrEqual(3600);
    expect((await invite('Ada@EXAMPLE.org')).status, 'the same mailbox').toBe(429);
    await invited('bob@example.org');
    pass((retryAfterSeconds + 1) * 1000);
    await invited('ada@example.org');
  });

  test('of one tenant neither block those of another to the same address, nor tell of them', async () => {
    const other = await server.newTenant();
    for (let count = 0; count < MAILS_PER_ADDRESS_MAX; count += 1) await invited('ada@example.org');
    expect((await invite('ada@example.org')).status).toBe(429);
    for (let count = 0; count < MAILS_PER_ADDRESS_MAX; count += 1) await invited('ada@example.org', other);
    expect((await invite('ada@example.org', other)).status).toBe(429);
    expect(await send()).toBe(2 * MAILS_PER_ADDRESS_MAX);
  });

  test('of all tenants to one address are thirty: more are taken, and go out later', async () => {
    const tenants = await Promise.all(Array.from({ length: 4 }, () => server.newTenant()));
    await Promise.all(
      tenants.flatMap((tenant) => Array.from({ length: 10 }, () => invited('ada@example.org', tenant))),
    );
    expect(await send()).toBe(MAILS_PER_MAILBOX_MAX);
    pass(HOUR_MS - 60_000);
    expect(await send()).toBe(0);
    pass(61_000);
    expect(await send()).toBe(10);
  });

  test('are counted where they are sent, sent again, dropped, or swept over', async () => {
    const id = await invited('ada@example.org');
    for (let count = 1; count < MAILS_PER_ADDRESS_MAX - 1; count += 1)
      expect((await server.request('POST', `/tenants/self/invitations/${id}/resend`)).status).toBe(200);
    await send();
    const dropped = await invited('ada@example.org');
    expect((await server.request('DELETE', `/tenants/self/invitations/${dropped}`)).status).toBe(204);
    await sweep(server.ctx);
    expect((await invite('ada@example.org')).status).toBe(429);
    expect((await server.request('POST', `/tenants/self/invitations/${id}/resend`)).status).toBe(429);
  });

  test('of one tenant are two hundred, however many are asked for at once', async () => {
    const tenant = await server.newTenant();
    await server.sql(
      `INSERT INTO mail_outbox (tenant_id, id, invitation_id, address_digest, due_at, expires_at, created_at)
      SELECT $1, gen_random_uuid(), gen_random_uuid(), decode(md5(n::text), 'hex'), $2, $2, $2 FROM generate_series(1, $3) AS n`,
      [tenant.tenant_id, server.ctx.now(), MAILS_PER_TENANT_MAX - 2],
    );
    const asked = Array.from({ length: 12 }, (_, index) => invite(`m${index}@example.org`, tenant));
    const statuses = (await Promise.all(asked)).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([201, 201, ...Array(10).fill(429)]);
    expect((await invite('someone@example.org')).status, 'another tenant').toBe(201);
  });
});

describe('a mail is not sent any more', () => {
  test('once its invitation is deleted, with others of its invitation alone', async () => {
    const gone = await invited('ada@example.org');
    await invited('bob@example.org');
    expect((await server.request('DELETE', `/tenants/self/invitations/${gone}`)).status).toBe(204);
    expect(await send()).toBe(1);
    expect(smtp.recipients).toEqual(['bob@example.org']);
  });

  test('once its link is an older one', async () => {
    const id = await invited('ada@example.org');
    expect((await server.request('POST', `/tenants/self/invitations/${id}/resend`)).status).toBe(200);
    expect(await send()).toBe(1);
    expect(smtp.mails).toHaveLength(1);
  });

  test('once its tenant is deleted', async () => {
    const tenant = await server.newTenant();
    await invited('ada@example.org', tenant);
    expect((await server.request('DELETE', '/tenants/self', { key: tenant.api_key })).status).toBe(204);
    expect(await send()).toBe(0);
    expect(smtp.recipients).toEqual([]);
  });

  test('and after an hour it is forgotten', async () => {
    await invited('ada@example.org');
    await send();
    pass(HOUR_MS - 10_000);
    await sweep(server.ctx);
    expect(await server.sql('SELECT id FROM mail_outbox')).toHaveLength(1);
    pass(11_000);
    await invited('bob@example.org');
    await sweep(server.ctx);
    expect(await waiting(), 'what waits stays').toBe(1);
    expect(await server.sql('SELECT id FROM mail_outbox')).toHaveLength(1);
  });
});

describe('no log and no row', () => {
  test.for(['take', 'never', 'later'] as const)('has an address or a link in the clear: %s', async (mode) => {
    smtp.behave(mode);
    await invited('ada.lovelace@example.org');
    const rows = async () =>
      JSON.stringify(await server.sql(`SELECT *, encode(sealed, 'escape') AS bytes FROM mail_outbox`));
    const texts = [await rows()];
    await send();
    texts.push(await rows(), server.logLines.join(''));
    if (mode !== 'take') {
      expect(texts.at(-1)).toContain('"code":"REFUSED"');
      smtp.behave('take');
      pass(10_000);
      await send();
      texts.push(await rows(), server.logLines.join(''));
    }
    const [, secret = 'none'] = LINK.exec(smtp.mails[0]?.text ?? '') ?? [];
    expect(secret).not.toBe('none');
    for (const text of texts) for (const word of ['lovelace', secret]) expect(text).not.toContain(word);
  });
});

/** A mail server of its own. */
const withSmtp = async (options: Parameters<typeof startSmtp>[0], work: (smtp: TestSmtp) => Promise<void>) => {
  const own = await startSmtp(options);
  try {
    await work(own);
  } finally {
    await own.close();
  }
};

describe('over SMTP', () => {
  const mailerTo = (url: string, environment: Record<string, string> = {}, ca: string[] = [testCa]): Mailer => {
    const { mail } = loadConfig({ SMTP_URL: url, MAIL_FROM: 'vault@example.com', ...environment });
    return createMailer(mail as MailConfig, { ca, log: createLog('silent'), now: () => new Date() });
  };

  const mail = {
    id: 'a3f1c1de-0000-4000-8000-000000000001',
    to: 'ada@example.org',
    subject: 'S',
    text: 'T',
    html: '<p>H</p>',
  };

  test.for([
    ['"a, b@x.example; c"@example.org', '"a, b@x.example; c"@example.org'],
    ['"evil@example.net"@example.org', '"evil@example.net"@example.org'],
    ["o'hara+tag@example.org", "o'hara+tag@example.org"],
    ['ada@xn--bcher-kva.example', 'ada@xn--bcher-kva.example'],
    ['ada@bücher.example', 'ada@xn--bcher-kva.example'],
  ] as const)('a mail to %s goes to that recipient, and exactly one', async ([to, recipient]) => {
    // Not every server takes each of them; what counts is what it is asked.
    await server.ctx.mailer?.send({ ...mail, to }).catch(() => undefined);
    expect(smtp.recipients).toEqual([recipient]);
  });

  test.for([
    'ada@example.org\r\nRCPT TO:<eve@example.net>',
    'ada@example.org>\r\nBcc: eve@example.net',
    'a<eve@example.net>@example.org',
    'ada@example.org, eve@example.net',
    'List: ada@example.org, eve@example.net;',
  ])('a mail to %j never goes to anybody else', async (to) => {
    await server.ctx.mailer?.send({ ...mail, to }).catch(() => undefined);
    expect(smtp.recipients).not.toContain('eve@example.net');
    expect(smtp.recipients.length).toBeLessThanOrEqual(1);
    for (const { raw } of smtp.mails) expect(raw).not.toMatch(/^bcc:/im);
  });

  test('mails go by STARTTLS, signed in as SMTP_URL says', () =>
    withSmtp({ login: { user: 'vault@example.com', password: 'p:/@ss %wörd' } }, async (own) => {
      const mailer = mailerTo(own.url);
      await mailer.check();
      expect(own.mails).toEqual([]);
      await mailer.send(mail);
      expect(own.mails[0]?.user).toBe('vault@example.com');
      expect(own.mails[0]?.tls).toMatch(/^TLSv1\.[23]$/);
      const wrong = mailerTo(own.url.replace('wo', 'wa').replace('%20', '%21'));
      await expect(wrong.check()).rejects.toMatchObject({ code: 'AUTH', reply: 535 });
      await expect(wrong.send(mail)).rejects.toMatchObject({ code: 'AUTH', reply: 535 });
    }));

  test('mails go by TLS from the first byte to smtps://', () =>
    withSmtp({ tls: 'first' }, async (own) => {
      await mailerTo(own.url).check();
      await mailerTo(own.url).send(mail);
      expect(own.mails[0]?.tls).toMatch(/^TLSv1\.[23]$/);
    }));

  test('nothing is sent in the clear unless SMTP_TLS=off says so', () =>
    withSmtp({ tls: 'none' }, async (own) => {
      await expect(mailerTo(own.url).check()).rejects.toMatchObject({ code: 'NO_TLS' });
      await expect(mailerTo(own.url).send(mail)).rejects.toMatchObject({ code: 'NO_TLS' });
      expect(own.recipients).toEqual([]);
      await mailerTo(own.url, { SMTP_TLS: 'off' }).send(mail);
      expect(own.mails[0]?.tls).toBeUndefined();
    }));

  test.for([
    ['of an authority that is not trusted', selfSignedCertificateFor('localhost')],
    ['for another name', certificateFor('mail.example.com')],
  ] as const)('nothing is sent to a certificate %s, by STARTTLS or smtps://', async ([, certificate]) => {
    for (const tls of ['starttls', 'first'] as const)
      await withSmtp({ tls, certificate }, async (own) => {
        await expect(mailerTo(own.url).send(mail)).rejects.toMatchObject({ code: 'TLS' });
        await expect(mailerTo(own.url).check()).rejects.toMatchObject({ code: 'TLS' });
        expect(own.recipients).toEqual([]);
      });
  });

  test('nothing is sent by TLS 1.1', () =>
    withSmtp({ maxVersion: 'TLSv1.1' }, async (own) => {
      await expect(mailerTo(own.url).send(mail)).rejects.toMatchObject({ code: 'TLS' });
      expect(own.recipients).toEqual([]);
    }));

  test.for([
    ['CONNECT', 'smtp://localhost:1'],
    ['NAME', 'smtp://mail.invalid:587'],
  ])('a server that is not there is told as %s, with what to do', async ([code, url]) => {
    await expect(mailerTo(url as string).check()).rejects.toMatchObject({
      code,
      message: expect.stringContaining('SMTP_URL'),
    });
  });
});

describe('doctor', () => {
  let directory: string;
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'strongroom-doctor-'));
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  const doctor = async (
    environment: Record<string, string>,
    overrides: Overrides = { ca: [testCa] },
  ): Promise<{ code: number; line: string | undefined }> => {
    const env = { DATA_DIR: directory, DATABASE_URL: server.databaseUrl, MASTER_KEY: TEST_ROOT_KEY, ...environment };
    const { code, stdout } = await callCommand(['doctor'], { env, overrides });
    return { code, line: stdout.split('\n').find((each) => each.slice(2).startsWith('mail: ')) };
  };

  test('connects to the mail server, signs in, and sends nothing', () =>
    withSmtp({ login: { user: 'ada', password: 'right' } }, async (own) => {
      expect(await doctor({ SMTP_URL: own.url })).toEqual({
        code: 0,
        line: `✔ mail: localhost:${own.port} takes mails`,
      });
      expect(own.connections()).toBe(1);
      expect([own.recipients, own.mails]).toEqual([[], []]);
      const refused = await doctor({ SMTP_URL: own.url.replace('right', 'wrong') });
      expect(refused.code).toBe(1);
      expect(refused.line).toMatch(/^✘ mail: The mail server refuses user and password\. Check both in SMTP_URL/);
      expect(refused.line).not.toContain('wrong');
    }));

  test('names the problem and the fix', { timeout: 60_000 }, async () => {
    expect(await doctor({ SMTP_URL: 'smtp://localhost:1' })).toEqual({
      code: 1,
      line: expect.stringMatching(/^✘ mail: The mail server cannot be reached\. Check .* SMTP_URL/),
    });
    await withSmtp({ tls: 'none' }, async (own) => {
      expect((await doctor({ SMTP_URL: own.url })).line).toMatch(/^✘ mail: .* offers no TLS\. .*SMTP_TLS=off/);
      expect((await doctor({ SMTP_URL: own.url, SMTP_TLS: 'off' })).line).toMatch(/^✔ mail: /);
    });
    await withSmtp({}, async (own) => {
      const { line } = await doctor({ SMTP_URL: own.url }, {});
      expect(line).toMatch(/^✘ mail: No secure connection .*NODE_EXTRA_CA_CERTS/);
    });
  });

  test('makes no outbox, and says where it would be', async () => {
    const outbox = join(directory, 'outbox');
    expect((await doctor({})).line).toBe(`✔ mail: written to ${outbox}`);
    expect(existsSync(outbox)).toBe(false);
    writeFileSync(outbox, 'a file');
    expect(await doctor({})).toEqual({ code: 1, line: expect.stringMatching(/^✘ mail: .* cannot be written/) });
    rmSync(outbox);
  });
});

describe('without a mail server, a development server', () => {
  test('writes mails into files that only its owner reads, and names the file in the log', async () => {
    const directory = join(mkdtempSync(join(tmpdir(), 'strongroom-outbox-')), 'outbox');
    const lines: string[] = [];
    const log = createLog('info', { write: (line: string) => void lines.push(line) });
    const now = () => new Date('2026-01-02T03:04:05.678Z');
    const mailer = createMailer(
      { kind: 'files', directory, from: { name: 'S', address: 's@localhost' } },
      { log, now },
    );
    await mailer.check();
    await mailer.send({
      id: 'a3f1c1de-0000-4000-8000-000000000001',
      to: 'ada@example.org',
      subject: 'S',
      text: `x ${SECRET}`,
      html: '',
    });
    const [name = ''] = readdirSync(directory);
    expect(name).toBe('20260102T030405678Z-a3f1c1de-0000-4000-8000-000000000001.eml');
    const path = join(directory, name);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
    expect((await PostalMime.parse(readFileSync(path))).to).toMatchObject([{ address: 'ada@example.org' }]);
    expect(lines.join('')).toContain(JSON.stringify(path));
    expect(lines.join('')).not.toContain(SECRET);
    rmSync(join(directory, '..'), { recursive: true, force: true });
  });

  test('keeps so many of them, the newest', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'strongroom-outbox-'));
    let nowMs = Date.parse('2026-01-02T03:04:05.678Z');
    const mailer = createMailer(
      { kind: 'files', directory, from: { name: 'S', address: 's@localhost' } },
      { log: createLog('silent'), now: () => new Date(nowMs) },
    );
    const id = (index: number) => `a3f1c1de-0000-4000-8000-${String(index).padStart(12, '0')}`;
    // The later ones have the lower ids: the time alone tells which is newer.
    const sendNext = async (index: number): Promise<void> => {
      await mailer.send({ id: id(index), to: 'a@b.example', subject: 'S', text: 'x', html: '' });
      nowMs += 1;
    };
    await sendNext(509);
    // Copies under the names that mails of the following milliseconds have.
    const [first = ''] = readdirSync(directory);
    for (let index = 508; index >= 5; index -= 1, nowMs += 1) {
      const name = `${new Date(nowMs).toISOString().replace(/[-:.]/g, '')}-${id(index)}.eml`;
      copyFileSync(join(directory, first), join(directory, name));
    }
    for (let index = 4; index >= 0; index -= 1) await sendNext(index);
    const names = readdirSync(directory);
    expect(names).toHaveLength(500);
    expect(names.some((name) => name.includes(id(0)))).toBe(true);
    expect(names.some((name) => name.includes(id(509)))).toBe(false);
    rmSync(directory, { recursive: true, force: true });
  });
});
