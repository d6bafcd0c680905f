// Invites a person, accepts the invitation by its link, and browses the pages with a cookie-keeping browser.
import { randomBytes } from 'node:crypto';
import { expect } from 'vitest';
import { base58, invitationSecretDigest } from '../../src/platform/crypto/digest.ts';
import { type Answer, type SharedServer, startServer, type TestServer, type TestTenant } from './server.ts';

export const PASSWORD = 'correct horse battery';

export type Browser = {
  /** Name to value, as the server has set them. */
  cookies: Map<string, string>;
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  /** A form of a page of the server's own. */
  post(path: string, fields?: Record<string, string>, headers?: Record<string, string>): Promise<Answer>;
  /** What the forms of a page of its session bring along. */
  csrf(path?: string): Promise<string>;
  /** Whether the console lets it in. */
  isSignedIn(): Promise<boolean>;
};

/** The name of the cookie where people do not come by TLS. */
export const COOKIE = 'strongroom';

export const cookieHeader = (cookies: ReadonlyMap<string, string>): Record<string, string> =>
  cookies.size === 0 ? {} : { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') };

export const openBrowser = (server: Pick<TestServer, 'request'>): Browser => {
  const cookies = new Map<string, string>();
  const ask = async (method: string, path: string, more: { headers: Record<string, string>; body?: string }) => {
    const headers = { ...cookieHeader(cookies), ...more.headers };
    const answer = await server.request(method, path, { ...more, key: null, headers });
    for (const line of answer.headers.getSetCookie()) {
      const [pair = ''] = line.split(';');
      const at = pair.indexOf('=');
      if (/max-age=0/i.test(line)) cookies.delete(pair.slice(0, at));
      else cookies.set(pair.slice(0, at), pair.slice(at + 1));
    }
    return answer;
  };
  const browser: Browser = {
    cookies,
    get: (path, headers = {}) => ask('GET', path, { headers }),
    post: (path, fields = {}, headers = {}) =>
      ask('POST', path, {
        headers: {
          'content-type': 'application/x-www-form-urlencoded',
          'sec-fetch-site': 'same-origin',
          ...headers,
        },
        body: new URLSearchParams(fields).toString(),
      }),
    csrf: async (path = '/console/people') => {
      const { text } = await browser.get(path);
      const [, csrf = ''] = /name="csrf" value="([^"]+)"/.exec(text) ?? [];
      expect(csrf, text).not.toBe('');
      return csrf;
    },
    isSignedIn: async () => {
      const { status, headers } = await browser.get('/console');
      expect(status).toBe(303);
      return headers.get('location') === '/console/home';
    },
  };
  return browser;
};

/** Gives an invitation a link that the test knows, in place of the one in the mail. */
export const takeLink = async (
  server: SharedServer,
  invitation_id: string,
): Promise<{ secret: string; path: string }> => {
  const secret = base58(randomBytes(40)).slice(0, 32);
  const digest = invitationSecretDigest(server.ctx.pepper, secret);
  const changed = await server.sql(
    'UPDATE invitation_secrets SET digest = $2 WHERE invitation_id = $1 RETURNING tenant_id',
    [invitation_id, digest],
  );
  expect(changed).toHaveLength(1);
  await server.sign(changed[0].tenant_id);
  return { secret, path: `/join/${secret}` };
};

export type Invited = { id: string; secret: string; path: string };

export const invite = async (
  server: SharedServer,
  email: string,
  tenant: TestTenant = server.tenant,
): Promise<Invited> => {
  const { status, body, text } = await server.request('POST', '/tenants/self/invitations', {
    json: { email },
    key: tenant.api_key,
  });
  expect(status, text).toBe(201);
  return { id: body.id, ...(await takeLink(server, body.id)) };
};

export type Joined = { browser: Browser; email: string; member_id: string; user_id: string; secret: string };

/** Another server of the same vault, which hashes passwords at the cost of production. */
export const startAtFullCost = ({ databaseUrl }: TestServer): Promise<TestServer> =>
  startServer({ DATABASE_URL: databaseUrl }, { passwordCost: undefined });

let count = 0;

/** Somebody new, who has accepted and is signed in. */
export const join = async (
  server: SharedServer,
  options: { email?: string; tenant?: TestTenant; password?: string; first_name?: string } = {},
): Promise<Joined> => {
  const { email = `person-${(count += 1)}@example.com`, tenant = server.tenant } = options;
  const { password = PASSWORD, first_name = 'Ada' } = options;
  const { path } = await invite(server, email, tenant);
  const browser = openBrowser(server);
  const answer = await browser.post(path, { first_name, last_name: 'Lovelace', password });
  expect(answer.status, answer.text).toBe(303);
  const [row] = await server.sql(
    'SELECT id, user_id FROM members WHERE tenant_id = $1 ORDER BY created_at DESC, id DESC LIMIT 1',
    [tenant.tenant_id],
  );
  return { browser, email, member_id: row.id, user_id: row.user_id, secret: browser.cookies.get(COOKIE) ?? '' };
};

/** Somebody who is a member already signs in. */
export const signIn = async (server: SharedServer, email: string, password = PASSWORD): Promise<Browser> => {
  const browser = openBrowser(server);
  const answer = await browser.post('/console/sign-in', { email, password });
  expect(answer.status, answer.text).toBe(303);
  return browser;
};
