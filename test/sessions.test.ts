// Sessions of members: how long they last, how they end, what they let do, and what they do not: the API takes no cookie, and
// no destination of the proxy ever sees one.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildApp } from '../src/app.ts';
import { createChanges } from '../src/platform/base/cache.ts';
import { type Context, createContext } from '../src/modules.ts';
import { createSessionFinder, endSession, startSession } from '../src/modules/people/sessions.ts';
import { sweep } from '../src/modules/tokens/sweep.ts';
import { COOKIE, cookieHeader, join, type Joined, openBrowser } from './support/people.ts';
import { delay, makeProxy, type ProxyFixture, receiving, startProxyFixture, valuesOf } from './support/proxy.ts';
import type { TestServer } from './support/server.ts';

let fixture: ProxyFixture;
let server: TestServer;
beforeAll(async () => {
  fixture = await startProxyFixture();
  server = fixture.server;
});
afterAll(() => fixture.close());

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** Moves the clock of the server and back again. */
const after = async <T>(ms: number, look: () => Promise<T>): Promise<T> => {
  server.clock.offsetMs += ms;
  try {
    return await look();
  } finally {
    server.clock.offsetMs -= ms;
  }
};

/** Looks while the clock of the server stands. */
const at = async <T>(ms: number, look: () => Promise<T>): Promise<T> => {
  server.clock.stoppedAtMs = ms;
  try {
    return await look();
  } finally {
    server.clock.stoppedAtMs = undefined;
  }
};

/** When a member's one session was used last, and when it ends at the latest. */
const timesOf = async ({ member_id }: Pick<Joined, 'member_id'>): Promise<{ seenMs: number; expiresMs: number }> => {
  const rows = await server.sql('SELECT seen_at, expires_at FROM sessions WHERE member_id = $1', [member_id]);
  expect(rows).toHaveLength(1);
  return { seenMs: rows[0].seen_at.getTime(), expiresMs: rows[0].expires_at.getTime() };
};

/** What another process of the same vault thinks of a cookie. */
const openNeighbour = async (): Promise<{
  ctx: Context;
  isSignedIn(secret: string): Promise<boolean>;
  close(): Promise<void>;
}> => {
  const ctx = await createContext(server.ctx.config, 'server', { logDestination: { write: () => true } });
  const app = await buildApp(ctx);
  return {
    ctx,
    isSignedIn: async (secret) => {
      const { headers } = await app.inject({ url: '/console', headers: { cookie: `${COOKIE}=${secret}` } });
      return headers.location === '/console/home';
    },
    close: async () => {
      await app.close();
      await ctx.close();
    },
  };
};

/** Waits for the notice that ends it in another process. */
const ends = (isStill: () => Promise<boolean>) => expect.poll(isStill, { timeout: 10_000, interval: 10 }).toBe(false);

/** Somebody who has shown their password. */
const proven = async ({ member_id, user_id }: Pick<Joined, 'member_id' | 'user_id'>) => {
  const [{ password_hash }] = await server.sql('SELECT password_hash FROM users WHERE id = $1', [user_id]);
  return { tenant_id: server.tenant.tenant_id, member_id, user_id, password_hash };
};

describe('a session that nobody uses', () => {
  test('ends after 15 minutes, and not a second before', async () => {
    // Looking keeps a session from idling: there is one for each look.
    const [early, late] = [await join(server), await join(server)];
    const endOf = async (of: Joined) => (await timesOf(of)).seenMs + 15 * MINUTE_MS;
    expect(await at((await endOf(early)) - 1, () => early.browser.isSignedIn())).toBe(true);
    expect(await at(await endOf(late), () => late.browser.isSignedIn())).toBe(false);
  });

  test('goes on for 15 minutes more from each use', async () => {
    const { browser } = await join(server);
    for (const minutes of [14, 28, 42]) expect(await after(minutes * MINUTE_MS, () => browser.isSignedIn())).toBe(true);
    expect(await after(57 * MINUTE_MS + 1_000, () => browser.isSignedIn())).toBe(false);
  });
});

test('a session that is used all day ends after 12 hours, and not a second before', async () => {
  const joined = await join(server);
  const { browser } = joined;
  const { seenMs, expiresMs } = await timesOf(joined);
  expect(expiresMs - seenMs).toBe(12 * HOUR_MS);
  for (let ms = seenMs + 14 * MINUTE_MS; ms < expiresMs; ms += 14 * MINUTE_MS)
    expect(await at(ms, () => browser.isSignedIn())).toBe(true);
  expect(await at(expiresMs - 1, () => browser.isSignedIn())).toBe(true);
  expect(await at(expiresMs, () => browser.isSignedIn())).toBe(false);
});

test('a change of tenant gives no more time than the session had: no password was shown', async () => {
  const { browser } = await join(server);
  for (let ms = 14 * MINUTE_MS; ms < 11 * HOUR_MS; ms += 14 * MINUTE_MS) await after(ms, () => browser.isSignedIn());
  await after(11 * HOUR_MS, async () => {
    const before = browser.cookies.get(COOKIE);
    const csrf = await browser.csrf();
    const moved = await browser.post('/console/tenant', { csrf, tenant_id: server.tenant.tenant_id });
    expect([moved.status, moved.headers.get('location')]).toEqual([303, '/console']);
    expect(browser.cookies.get(COOKIE)).not.toBe(before);
  });
  for (const minutes of [14, 28, 42, 56, 59])
    expect(await after(11 * HOUR_MS + minutes * MINUTE_MS, () => browser.isSignedIn())).toBe(true);
  expect(await after(12 * HOUR_MS + 1_000, () => browser.isSignedIn())).toBe(false);
});

test('many looks within a minute are written down once', async () => {
  const { browser, member_id } = await join(server);
  const seenAt = async () =>
    (await server.sql('SELECT seen_at FROM sessions WHERE member_id = $1', [member_id]))[0].seen_at.getTime();
  const before = await seenAt();
  for (let look = 0; look < 5; look += 1) await browser.isSignedIn();
  expect(await seenAt()).toBe(before);
  await after(61_000, () => Promise.all(Array.from({ length: 5 }, () => browser.isSignedIn())));
  expect((await seenAt()) - before).toBeGreaterThanOrEqual(61_000);
});

test('what has ended is swept away, and so are counts of attempts', async () => {
  const { member_id } = await join(server);
  await openBrowser(server).post('/console/sign-in', { email: 'nobody@example.com', password: 'x' });
  const left = async () => [
    (await server.sql('SELECT FROM sessions WHERE member_id = $1', [member_id])).length,
    (await server.sql('SELECT FROM attempts')).length > 0,
  ];
  await sweep(server.ctx);
  expect(await left()).toEqual([1, true]);
  // Places that accounts are known at are kept for 90 days.
  await after(91 * 24 * HOUR_MS, () => sweep(server.ctx));
  expect(await left()).toEqual([0, false]);
});

test('a member has twenty sessions at most: one more ends the oldest', async () => {
  const { browser, member_id, user_id } = await join(server);
  const member = await proven({ member_id, user_id });
  for (let more = 0; more < 20; more += 1) {
    server.clock.offsetMs += 1;
    await startSession(server.ctx, member);
  }
  server.ctx.changes.announce('anything');
  expect(await browser.isSignedIn()).toBe(false);
  expect(await server.sql('SELECT FROM sessions WHERE member_id = $1', [member_id])).toHaveLength(20);
});

describe('the open tab of a member who is removed', () => {
  test('shows nothing from then on, in this process at once and in another on notice', async () => {
    const neighbour = await openNeighbour();
    try {
      const { browser, member_id, secret } = await join(server);
      expect(await browser.isSignedIn()).toBe(true);
      expect(await neighbour.isSignedIn(secret)).toBe(true);
      expect((await server.request('DELETE', `/tenants/self/members/${member_id}`)).status).toBe(204);
      expect(await browser.isSignedIn()).toBe(false);
      await ends(() => neighbour.isSignedIn(secret));
      expect(await neighbour.isSignedIn(secret)).toBe(false);
    } finally {
      await neighbour.close();
    }
  });

  test('shows nothing a second later where the process has missed the notice', async () => {
    let clockMs = 1_000;
    const sessions = createSessionFinder({ ...server.ctx, changes: createChanges(), monotonicMs: () => clockMs });
    const { secret, member_id } = await join(server);
    expect(await sessions.find(secret)).toBeDefined();
    await server.sql('DELETE FROM sessions WHERE member_id = $1', [member_id]);
    expect(await sessions.find(secret)).toBeDefined();
    clockMs += 1_001;
    // The cache reads its clock once a millisecond at most.
    await delay(5);
    expect(await sessions.find(secret)).toBeUndefined();
  });

  test('does no deed any more: signing out, and a form that was open', async () => {
    const { browser, member_id } = await join(server);
    const csrf = await browser.csrf();
    await server.request('DELETE', `/tenants/self/members/${member_id}`);
    const answer = await browser.post('/console/tenant', { csrf, tenant_id: server.tenant.tenant_id });
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/console/sign-in']);
  });

  test('no session begins for somebody who is being removed', async () => {
    const { member_id, user_id } = await join(server);
    const member = await proven({ member_id, user_id });
    await server.request('DELETE', `/tenants/self/members/${member_id}`);
    await expect(startSession(server.ctx, member)).rejects.toMatchObject({ code: 'not_found' });
    expect(await server.sql('SELECT FROM sessions WHERE member_id = $1', [member_id])).toEqual([]);
  });
});

test('signing out ends the session in another process too', async () => {
  const neighbour = await openNeighbour();
  try {
    const { browser, secret } = await join(server);
    expect(await neighbour.isSignedIn(secret)).toBe(true);
    await browser.post('/console/sign-out', { csrf: await browser.csrf() });
    await ends(() => neighbour.isSignedIn(secret));
  } finally {
    await neighbour.close();
  }
});

test('a tenant that is deleted takes its sessions along, in every process', async () => {
  const neighbour = await openNeighbour();
  try {
    const tenant = await server.newTenant({ name: 'Short-lived' });
    const { browser, secret } = await join(server, { tenant });
    expect(await browser.isSignedIn()).toBe(true);
    expect(await neighbour.isSignedIn(secret)).toBe(true);
    expect((await server.request('DELETE', '/tenants/self', { key: tenant.api_key })).status).toBe(204);
    expect(await browser.isSignedIn()).toBe(false);
    await ends(() => neighbour.isSignedIn(secret));
  } finally {
    await neighbour.close();
  }
});

describe('the API', () => {
  test.each([
    ['GET', '/tokens'],
    ['GET', '/logs'],
    ['GET', '/tenants/self'],
    ['DELETE', '/tenants/self'],
    ['POST', '/tokenize'],
  ])('knows nobody by a cookie: %s %s', async (method, path) => {
    const { browser } = await join(server);
    const headers = { ...cookieHeader(browser.cookies), 'sec-fetch-site': 'same-origin' };
    const answer = await server.request(method, path, { key: null, headers, ...(method === 'POST' && { json: 'x' }) });
    expect(answer.status).toBe(401);
  });

  test.each([
    ['nothing', {}],
    ['one that was made up', { cookie: `${COOKIE}=${'a'.repeat(43)}` }],
    ['one of another length', { cookie: `${COOKIE}=x` }],
    ['an empty one', { cookie: `${COOKIE}=` }],
    ['a header with nothing in it', { cookie: '' }],
    ['a long header', { cookie: `${'a=b; '.repeat(2_000)}` }],
    ['the API key in its place', { 'svc-api-key': 'x' }],
  ])('and the console nobody by %s', async (_what, headers) => {
    const answer = await openBrowser(server).get('/console', headers);
    expect(answer.headers.get('location')).toMatch(/^\/console\/sign-in/);
  });
});

describe('the proxy', () => {
  const echoed = async (cookie: string): Promise<string[]> => {
    const answer = await fixture.forward('GET', '/proxy/', { headers: { cookie } });
    expect(answer.status, answer.text).toBe(200);
    return fixture
      .last()
      .headers.filter(([name]) => name.toLowerCase() === 'cookie')
      .map(([, value]) => value);
  };

  test.each([
    ['alone', 'strongroom=SECRET', []],
    ['first', 'strongroom=SECRET; a=b', ['a=b']],
    ['last', 'a=b; strongroom=SECRET', ['a=b']],
    ['in the middle, with blanks', 'a=b ;  strongroom = SECRET ;c="d e"', ['a=b ;c="d e"']],
    ['twice', 'strongroom=SECRET; a=b; strongroom=SECRET', ['a=b']],
    ['without a value', 'strongroom; a=b', ['a=b']],
    ['not at all', 'a=b;  c=d', ['a=b;  c=d']],
    [
      'but as a part of other names',
      'xstrongroom=1; strongroomx=2; a=strongroom',
      ['xstrongroom=1; strongroomx=2; a=strongroom'],
    ],
  ])('hands our cookie to no destination, and every other as it is: %s', async (_what, cookie, left) => {
    const seen = await echoed(cookie);
    expect(seen).toEqual(left);
    expect(seen.join()).not.toContain('SECRET');
  });

  test('lets no destination set it, and every other as it is', async () => {
    const { script } = fixture.destination;
    fixture.destination.script = receiving(
      fixture.destination,
      [
        'HTTP/1.1 200 OK',
        'Set-Cookie: strongroom=planted; Path=/',
        'Set-Cookie:  StrongRoom =planted',
        'Set-Cookie: =strongroom=planted',
        'Set-Cookie: theirs=1; Path=/',
        'Content-Length: 0',
        '',
        '',
      ].join('\r\n'),
    );
    try {
      const answer = await fixture.ask(fixture.head('GET /proxy/'));
      expect(valuesOf(answer, 'set-cookie')).toEqual(['theirs=1; Path=/']);
    } finally {
      fixture.destination.script = script;
    }
  });

  test("has no eye for it in a transform's code either", async () => {
    const { key } = await makeProxy(fixture, {
      request_transform: {
        code: 'module.exports = async ({ args }) => ({ headers: { ...args.headers, "x-seen": String(args.headers.cookie) }, body: args.body });',
      },
    });
    const cookie = `${COOKIE}=SECRET; a=b`;
    const answer = await server.request('GET', '/proxy/', { headers: { 'svc-proxy-key': key, cookie } });
    expect(answer.status, answer.text).toBe(200);
    expect(fixture.last().headers).toContainEqual(['x-seen', 'a=b']);
  });
});

test('an end that was not there, and a secret that is none, end nothing', async () => {
  const { browser } = await join(server);
  for (const secret of ['', 'x', 'a'.repeat(43), '\0'.repeat(43)]) await endSession(server.ctx, secret);
  expect(await browser.isSignedIn()).toBe(true);
});
