// Attacks on pages, sessions, invitations and the console. Each test was an attack that worked.
import { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Browser, type ConsoleServer, startConsole, textOf } from './support/console.ts';
import { invite, join, openBrowser } from './support/people.ts';
import { receiving, type SharedProxyFixture, useProxyFixture, valuesOf } from './support/proxy.ts';
import { makeReactor } from './support/reactors.ts';
import type { Answer } from './support/server.ts';
import { seeingAllTenants } from './support/database.ts';

let server: ConsoleServer;
let fixture: SharedProxyFixture;
let member: Browser;
beforeAll(async () => {
  [server, fixture] = await Promise.all([startConsole(), useProxyFixture()]);
  member = await server.signIn();
});
afterAll(() => Promise.all([server.close(), fixture.close()]));

test.each(['isPrototypeOf.mark', 'hasOwnProperty.mark', 'toString.mark.more'])(
  'a parameter that is called %s changes nothing but the args that its page suggests',
  async (name) => {
    const [inherited = ''] = name.split('.');
    const { id } = await makeReactor(server, {
      code: 'module.exports = async () => ({});',
      request_parameters: [{ name, type: 'string' }],
    });
    const { status, text } = await member.get(`/console/reactors/${id}`);
    expect(status, text).toBe(200);
    expect(Object.hasOwn(Object.prototype[inherited as 'toString'], 'mark')).toBe(false);
    expect(textOf(text)).toContain(`"${inherited}": {`);
  },
);

test('texts in a URL do not appear on pages', async () => {
  const made = await server.tokenize({ type: 'token', data: 'x' });
  for (const name of ['constructor', 'toString', '__proto__']) {
    const { status, text } = await member.get(`/console/tokens/${made.body.id}?done=${name}`);
    expect(status, text).toBe(200);
    expect(text).not.toContain('class="notice');
  }
});

describe('the proxy, asked by a browser that any page may send there,', () => {
  const headersOf = {
    'Alt-Svc': 'h3="evil.example:443"',
    'Clear-Site-Data': '"cookies", "storage"',
    NEL: '{"report_to":"evil","max_age":2592000,"success_fraction":1}',
    'Report-To': '{"group":"evil","max_age":2592000,"endpoints":[{"url":"https://evil.example"}]}',
    'Reporting-Endpoints': 'evil="https://evil.example"',
    'Set-Cookie': 'many=cookies; Secure; SameSite=None',
    'Strict-Transport-Security': 'max-age=31536000; includeSubDomains',
  };
  const lines = Object.entries({ ...headersOf, 'X-Own': 'stays', 'Content-Length': '2' });
  const asked = async (headers: Record<string, string>) => {
    const { script } = fixture.destination;
    const head = lines.map((line) => line.join(': ')).join('\r\n');
    fixture.destination.script = receiving(fixture.destination, `HTTP/1.1 200 OK\r\n${head}\r\n\r\nok`);
    const answer = await fixture.forward('GET', '/proxy/', { headers });
    fixture.destination.script = script;
    return answer;
  };

  test('lets no destination speak for all of our origin', async () => {
    const { status, headers } = await asked({
      'sec-fetch-site': 'cross-site',
      'sec-fetch-mode': 'cors',
      'sec-fetch-dest': 'empty',
    });
    expect(status).toBe(200);
    expect(headers.get('x-own')).toBe('stays');
    for (const name of Object.keys(headersOf)) expect([name, headers.get(name)]).toEqual([name, null]);
  });

  test('and leaves a program all that the destination said', async () => {
    const head = lines.map((line) => line.join(': ')).join('\r\n');
    fixture.destination.script = receiving(fixture.destination, `HTTP/1.1 200 OK\r\n${head}\r\n\r\nok`);
    const answer = await fixture.ask(fixture.head('GET /proxy/'));
    for (const [name, value] of Object.entries(headersOf))
      expect(valuesOf(answer, name.toLowerCase())).toEqual([value]);
  });

  test.each(['script', 'serviceworker', 'worker', 'style', 'image'])('gives it no %s', async (purpose) => {
    const before = fixture.destination.received.length;
    for (const mode of ['cors', 'same-origin'])
      expect((await asked({ 'sec-fetch-mode': mode, 'sec-fetch-dest': purpose })).status).toBe(403);
    expect(fixture.destination.received).toHaveLength(before);
  });
});

/** Starts requests that wait in order for locked rows, runs `meanwhile`, and then releases the lock. */
const holding = async (
  rows: string,
  requests: (() => Promise<Answer>)[],
  meanwhile: () => Promise<unknown> = async () => undefined,
): Promise<Answer[]> => {
  const pool = new Pool({ connectionString: server.databaseUrl, ...seeingAllTenants, max: 2 });
  const holder = await pool.connect();
  const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  try {
    await holder.query('BEGIN');
    await holder.query(`SELECT FROM ${rows} FOR UPDATE`);
    const answers: Promise<Answer>[] = [];
    for (const send of requests) {
      answers.push(send());
      await expect.poll(async () => (await pool.query(waiting)).rowCount, { timeout: 10_000 }).toBe(answers.length);
    }
    await meanwhile();
    await holder.query('COMMIT');
    return await Promise.all(answers);
  } finally {
    holder.release(true);
    await pool.end();
  }
};

test('a link that dies under the hand of who guesses a password forgives no guess', async () => {
  const { email } = await join(server);
  const wrong = () => openBrowser(server).post('/console/sign-in', { email, password: 'not the password' });
  const { id, path } = await invite(server, email, await server.newTenant());
  for (let times = 0; times < 9; times += 1) expect((await wrong()).status).toBe(422);
  const typed = { first_name: 'Eve', last_name: '', password: 'not the password' };
  const [dead] = await holding('attempts', [() => openBrowser(server).post(path, typed)], () =>
    server.sql('DELETE FROM invitation_secrets WHERE invitation_id = $1', [id]),
  );
  expect(dead?.status).toBe(410);
  expect((await wrong()).status).toBe(429);
});

test('a member who is removed leaves no invitation behind that was under way meanwhile', async () => {
  const leaving = await server.signIn();
  await leaving.get('/console/people');
  const [removed, invited] = await holding('tenants', [
    () => server.request('DELETE', `/tenants/self/members/${leaving.member_id}`),
    () => leaving.post('/console/people/invitations', { email: 'back-door@example.com' }),
  ]);
  expect(removed?.status, removed?.text).toBe(204);
  expect(invited?.status, invited?.text).toBe(401);
  expect(await server.sql('SELECT id FROM invitations WHERE created_by = $1', [leaving.user_id])).toEqual([]);
});
