// The command line for developers: profiles, tokens, logs, runs, completion, and how a failure is said.
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { useCli } from './support/developer-cli.ts';
import { freePort, root } from './support/process.ts';
import { UNKNOWN_ID } from './support/resource.ts';
import { type SharedServer, useServer } from './support/server.ts';

let server: SharedServer;
beforeAll(async () => {
  server = await useServer();
});
const { directory, run, json } = useCli(() => ({ base_url: server.base_url, api_key: server.tenant.api_key }));

const home = join(directory, '.config/strongroom');
const file = join(home, 'profiles.json');
/** Without the variables of the vault. */
const env = { STRONGROOM_URL: undefined, STRONGROOM_API_KEY: undefined };
beforeEach(() => rmSync(home, { recursive: true, force: true }));

const login = (...words: string[]) =>
  run(['login', '--url', server.base_url, ...words], { env, stdin: `${server.tenant.api_key}\n` });

test('a key from standard input is stored for its owner alone, and commands use it', async () => {
  const { code, out, err } = await login();
  expect([code, out]).toEqual([0, '']);
  expect(err).toContain('profile default');
  expect(err).not.toContain(server.tenant.api_key);
  expect([statSync(file).mode & 0o777, statSync(home).mode & 0o777]).toEqual([0o600, 0o700]);
  const [token] = await json(['token', 'create', '--type', 'token'], { env, stdin: 'of Ada\n' });
  expect(await json(['token', 'get', token.id], { env })).toMatchObject([{ id: token.id, data: 'of Ada' }]);
});

test('a key that is typed at a terminal is not shown, and may be corrected', async () => {
  const { api_key } = server.tenant;
  const typed = `x\u007f${api_key}\r`;
  const { code, out, err } = await run(['login', '--url', server.base_url], { env, typed });
  expect(code).toBe(0);
  expect(out + err).not.toContain(api_key.slice(-10));
  expect(JSON.parse(readFileSync(file, 'utf8')).profiles.default.key).toBe(api_key);
  expect((await run(['login', '--url', server.base_url], { env, typed: 'svc\u0003' })).code).toBe(130);
});

test('a key that the vault refuses is not stored, unless the vault is not asked', async () => {
  const words = ['login', '--url', server.base_url];
  const refused = await run(words, { env, stdin: 'svc_live_wrong' });
  expect(refused).toMatchObject({ code: 4, err: expect.stringMatching(/^Nothing was stored\. GET \S+: 401 .*\n$/) });
  expect(() => statSync(file)).toThrow('ENOENT');
  expect((await run([...words, '--no-check'], { env, stdin: 'svc_live_wrong' })).code).toBe(0);
});

test('a profile file that others may use is refused with the chmod that mends it', async () => {
  await login();
  for (const mode of [0o640, 0o604, 0o620, 0o601, 0o666]) {
    chmodSync(file, mode);
    for (const words of [['token', 'get', 'x'], ['login', '--url', server.base_url], ['profile', 'list'], ['logout']]) {
      const { code, err } = await run(words, { env, stdin: 'svc_live_key' });
      expect([code, err]).toEqual([3, expect.stringContaining(`(mode ${mode.toString(8)}). Run: chmod 600 ${file}\n`)]);
    }
  }
  execFileSync('chmod', ['600', file]);
  chmodSync(home, 0o770);
  expect(await run(['profile', 'list'], { env })).toMatchObject({ code: 3, err: expect.stringContaining('chmod 700') });
  chmodSync(home, 0o700);
  expect((await run(['token', 'search', 'type:card'], { env })).code).toBe(0);
});

test('a damaged profile file is one line, without the key that it may have', async () => {
  mkdirSync(home, { recursive: true });
  for (const text of ['', '{', '[]', 'null', '{"profiles":1}', '{"profiles":{"a":{"url":1,"key":"svc_secret"}}}']) {
    writeFileSync(file, text, { mode: 0o600 });
    const { code, err } = await run(['token', 'get', 'x'], { env });
    expect([code, err.split('\n').length], text).toEqual([3, 2]);
    expect(err).not.toContain('svc_secret');
  }
});

test('the chosen vault: --profile, then the variables, then the last profile', async () => {
  const other = await server.newTenant();
  const login = (name: string, key: string) =>
    run(['login', '--url', server.base_url, '--profile', name], { env, stdin: key });
  await login('one', server.tenant.api_key);
  expect((await login('two', other.api_key)).err).toContain('Back to one: strongroom profile use one');
  const [token] = await json(['token', 'create', '--type', 'token'], { env, stdin: 'x' });
  const get = (words: string[], of: Record<string, string | undefined>) =>
    run(['token', 'get', token.id, ...words], { env: { ...env, ...of } });
  expect((await get([], {})).code).toBe(0);
  expect((await get(['--profile', 'one'], {})).code).toBe(5);
  expect((await get([], { STRONGROOM_PROFILE: 'one' })).code).toBe(5);
  expect((await get([], { STRONGROOM_URL: server.base_url, STRONGROOM_API_KEY: server.tenant.api_key })).code).toBe(5);
  expect((await get([], { STRONGROOM_API_KEY: other.api_key })).err).toContain('STRONGROOM_URL is not');
  const elsewhere = { STRONGROOM_URL: 'https://other.example.com' };
  expect((await get([], elsewhere)).err).toContain('the profile two has another address');
  expect((await get(['--profile', 'two'], elsewhere)).code).toBe(0);
  expect((await get(['--profile', 'tow'], {})).err).toBe('There is no profile tow. Did you mean two?\n');
  await run(['profile', 'use', 'one'], { env });
  expect((await get([], {})).code).toBe(5);
  const [one, two] = await json(['profile', 'list'], { env });
  expect([one.current, two.current, one.key]).toEqual([true, false, undefined]);
  await run(['logout', '--profile', 'one'], { env });
  expect(readFileSync(file, 'utf8')).not.toContain(server.tenant.api_key);
  expect((await get([], {})).err).toMatch(/^No vault is chosen\. /);
});

test('a key goes over http to this machine only', async () => {
  for (const url of [
    'http://vault.example.com',
    'http://10.0.0.1',
    'http://127.0.0.1.example.com',
    'ftp://x',
    'x',
    'https://a:b@c',
  ]) {
    const { code, err } = await run(['token', 'get', 'x'], { env: { STRONGROOM_URL: url } });
    expect([code, err.split('\n').length], url).toEqual([2, 2]);
  }
});

test('tokens: made from a file or standard input, found, deleted', async () => {
  const card = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2040 } };
  writeFileSync(join(directory, 'card.json'), JSON.stringify(card));
  const metadata = ['--metadata', 'customer=c=99', '--metadata', 'shop=zwölf'];
  const [made] = await json(['token', 'create', 'card.json', ...metadata, '--container', '/pci/high/']);
  expect(made).toMatchObject({ metadata: { customer: 'c=99', shop: 'zwölf' }, containers: ['/pci/high/'] });
  const [plain] = await json(['token', 'create', '--type', 'card'], { stdin: JSON.stringify(card.data) });
  const found = await json(['token', 'search', 'type:card', '--limit', '1']);
  expect(found.map(({ id }) => id)).toEqual([plain.id]);
  const { out } = await run(['token', 'search', '--limit', '2']);
  expect(out.split('\n').map((line) => line.split('  ')[0])).toEqual(['ID', plain.id, made.id, '']);
  expect((await run(['token', 'delete', made.id, plain.id])).out).toBe(
    `Deleted "${made.id}".\nDeleted "${plain.id}".\n`,
  );
  expect(await json(['token', 'search', 'type:card'])).toEqual([]);
});

test('a failure is one line on stderr that names the place, with its exit code', async () => {
  const number = '4242424242424241';
  const cases: [string[], number, RegExp, string?][] = [
    [['token', 'create', '--type', 'card'], 1, /data\.number must have a valid check digit/, `{"number":"${number}"}`],
    [['token', 'create'], 2, /must be JSON/, '{'],
    [['token', 'create'], 2, /JSON object with type and data/, '["x"]'],
    [['token', 'create', 'missing.json'], 3, /missing\.json cannot be read: ENOENT/],
    [['token', 'create', '.'], 3, /cannot be read: EISDIR/],
    [['token', 'create', '--type', 'token'], 2, /is empty/, ''],
    [['token', 'create', '--type', 'token'], 3, /longer than 1048576 bytes/, 'x'.repeat(1_048_577)],
    [['token', 'get', 'no-such-token'], 5, /404 not_found/],
    [['token', 'get', '..'], 2, /must be an id/],
    [['token', 'get'], 2, /^Missing required argument 'id'\. Help: strongroom token get --help$/],
    [['token', 'get', 'a', 'b'], 2, /too many arguments/i],
    [['token', 'gett', 'a'], 2, /Did you mean get\?/],
    [['tokens'], 2, /Did you mean token\?/],
    [['token', 'list'], 2, /^Unknown command 'list'\. strongroom token search lists the tokens/],
    [['logs', 'list'], 2, / strongroom logs tail lists the newest/],
    [['token', 'frobnicate'], 2, / strongroom token has the commands create, get, search, delete\.$/],
    [['frobnicate'], 2, / strongroom has the commands login, /],
    [
      ['--profile', 'x', 'token', 'search'],
      2,
      /'--profile'\. Options stand after the name of a command\. Help: strongroom --help$/,
    ],
    [['token', 'get', 'a', '--jsn'], 2, /Did you mean --json\?/],
    [['token', 'search', 'type:card', '--limit', '1e3'], 2, /whole number from 1/],
    [['logs', 'tail', '--disclosure', 'reveal'], 2, /none, masked, revealed, used/],
    [['token', 'search', 'nonsense'], 1, /query/],
  ];
  for (const [words, code, line, stdin] of cases) {
    const result = await run(words, { stdin: stdin ?? '' });
    expect([result.code, result.out, result.err.trimEnd().split('\n').length], `${words} ${result.err}`).toEqual([
      code,
      '',
      1,
    ]);
    expect(result.err.trimEnd()).toMatch(line);
    expect(result.err).not.toContain(number);
  }
  const bytes = await run(['token', 'create', '--type', 'token'], { stdin: new Uint8Array([0xff, 0xfe]) });
  expect(bytes).toMatchObject({ code: 3, err: 'Standard input is not text in UTF-8.\n' });
  const key = (await server.newKey(server.tenant, { permissions: ['token:create'] })).api_key;
  const refused = await run(['token', 'get', 'x'], { env: { STRONGROOM_API_KEY: key } });
  expect(refused).toMatchObject({ code: 4, err: expect.stringContaining('The permission token:read is needed') });
});

test('a vault that does not answer is exit code 7', async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  for (const words of [
    ['token', 'delete', 'x'],
    ['login', '--url', url],
  ]) {
    const { code, err } = await run(words, { env: { STRONGROOM_URL: url } });
    expect([code, err]).toEqual([7, expect.stringMatching(new RegExp(`ECONNREFUSED.* \\(${url}\\)\n$`))]);
  }
});

test('logs tail prints the newest last, and follows without a gap or a repetition', async () => {
  const own = await server.newTenant();
  const env = { STRONGROOM_API_KEY: own.api_key };
  const make = async (text: string): Promise<string> =>
    (await json(['token', 'create', '--type', 'token'], { env, stdin: text }))[0].id;
  const first = await make('a');
  await json(['token', 'get', first], { env });
  const revealed = await json(['logs', 'tail', '--disclosure', 'revealed'], { env });
  expect(revealed.map(({ entity_id, operation }) => [entity_id, operation])).toEqual([[first, 'read']]);
  expect((await run(['logs', 'tail', '--entity', first], { env })).out.split('\n')).toHaveLength(3);
  const made: string[] = [];
  const sleep = async (): Promise<void> => {
    if (made.length === 3) throw new Error('The person has seen enough.');
    made.push(await make(`b${made.length}`));
  };
  const words = ['logs', 'tail', '--follow', '--operation', 'create', '-n', '1'];
  const followed = await json(words, { env, sleep });
  expect(followed.map(({ entity_id }) => entity_id)).toEqual([first, ...made]);
});

test('forwards are listed, shown and replayed', async () => {
  // Nothing answers there: each request fails before it is sent.
  const headers = { 'svc-proxy-url': 'https://away.invalid', 'svc-idempotency-key': 'order' };
  const sent = await server.request('POST', '/proxy/charges', { json: { a: 1 }, headers });
  const id = sent.headers.get('svc-forward-id') as string;
  expect(await json(['forwards', 'list', '--state', 'failed'])).toMatchObject([
    { id, destination_host: 'away.invalid' },
  ]);
  expect(await json(['forwards', 'show', id])).toMatchObject([{ id, state: 'failed' }]);
  expect((await run(['forwards', 'show', id, '--bodies'])).out).toContain('/charges');
  const replay = () => json(['forwards', 'replay', id, '--idempotency-key', 'again', '--accept-risk']);
  const [first] = await replay();
  expect(first).toMatchObject({ state: 'failed', replay_of: id });
  expect(await replay()).toMatchObject([{ id: first.id, attempts: 2 }]);
  expect((await run(['forwards', 'show', UNKNOWN_ID])).code).toBe(5);
  expect((await run(['forwards', 'list', '--state', 'gone'])).code).toBe(2);
});

test('runs are listed and shown', async () => {
  const code = 'module.exports = async () => { throw new TypeError("no"); };';
  const reactor = await server.request('POST', '/reactors', { json: { name: 'Throws', code, configuration: {} } });
  await server.request('POST', `/reactors/${reactor.body.id}/react`, { json: {} });
  const list = () => json(['runs', 'list', '--outcome', 'crashed', '--resource', reactor.body.id]);
  await expect.poll(async () => (await list()).length).toBe(1);
  const [{ id }] = await list();
  expect(await json(['runs', 'show', id])).toMatchObject([{ id, error: 'TypeError', line: 1 }]);
  expect((await run(['runs', 'list'])).out).toMatch(/reactor +Throws +crashed/);
  expect((await run(['runs', 'show', id])).out).toMatch(/^of +Throws\n/);
  expect(await json(['runs', 'list', '--resource', 'Throws'])).toMatchObject([{ id }]);
  expect((await run(['runs', 'list', '--resource', 'Throw'])).err).toContain('Did you mean "Throws"?');
});

test('names and values cannot steer the terminal', async () => {
  const text = 'a\u001b[2Jb\u202ec\rd';
  const [{ id }] = await json(['token', 'create', '--type', 'token'], { stdin: text });
  const { out } = await run(['token', 'get', id]);
  expect(out).toContain('a\\u001b[2Jb\\u202ec\\u000dd');
  expect((await json(['token', 'get', id]))[0].data).toBe(text);
});

test('completion in bash offers commands and options, after their words', async () => {
  const { out } = await run(['completion', 'bash']);
  const complete = (...words: string[]): string[] =>
    execFileSync(
      'bash',
      [
        '-c',
        `${out}\nCOMP_WORDS=(strongroom "$@"); COMP_CWORD=$#; _strongroom; printf '%s\\n' "\${COMPREPLY[@]}"`,
        'x',
        ...words,
      ],
      { encoding: 'utf8' },
    )
      .trim()
      .split('\n');
  expect(complete('to')).toEqual(['token']);
  expect(complete('token', '')).toEqual(expect.arrayContaining(['create', 'get', 'search', 'delete']));
  expect(complete('--json', 'logs', 'tail', '--dis')).toEqual(['--disclosure']);
  expect(complete('logs', 'tail', '--disclosure', 'm')).toEqual(['masked']);
  expect(complete('runs', 'list', '--outcome', 'c')).toEqual(['crashed', 'cancelled']);
  for (const shell of ['zsh', 'fish']) expect((await run(['completion', shell])).out).toContain('disclosure');
  expect((await run(['completion', 'tcsh'])).code).toBe(2);
});

test('every command has --json, a help, and no option for a key', async () => {
  const { out } = await run(['completion', 'fish']);
  const conditions = [...new Set(out.match(/= '.*'/g))].map((text) => text.slice(3, -1).split(' '));
  expect(conditions.length).toBeGreaterThan(10);
  for (const words of conditions.filter(([first]) => first !== '')) {
    const help = await run([...words, '--help']);
    expect([help.code, help.err], words.join(' ')).toEqual([0, '']);
    if (!/^Commands:/m.test(help.out)) expect(help.out).toContain('--json');
    expect(help.out).not.toMatch(/--(?:api-)?key\b/);
  }
});

test('as a program it starts from its bin, and says its version and a wrong word', () => {
  const bin = join(root, 'packages/cli/bin/strongroom.js');
  const spawn = (...words: string[]) => execFileSync(bin, words, { encoding: 'utf8', stdio: 'pipe', cwd: directory });
  expect(spawn('--version')).toBe('0.1.0\n');
  expect(() => spawn('tken')).toThrow(
    expect.objectContaining({ status: 2, stderr: expect.stringContaining('token?') }),
  );
});

test('as it is built it needs the packages that it names, and no others', () => {
  const folder = join(root, 'packages/cli');
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const texts = readdirSync(join(folder, 'dist')).map((name) => readFileSync(join(folder, 'dist', name), 'utf8'));
  const imported = texts.flatMap((text) => [
    ...[...text.matchAll(/^(?:import|export|\}) ?.*?from "([^."][^"]*)";$/gm)].map(([, name]) => name as string),
    ...[...text.matchAll(/import\("([^."][^"]*)"\)/g)].map(([, name]) => name as string),
  ]);
  const packages = [...new Set(imported)].filter((name) => !/^(?:node:)?(?:fs|os|path|url|module|crypto)$/.test(name));
  expect(packages.toSorted()).toEqual(Object.keys(dependencies).toSorted());
});

test('json reads fields of JSON and quotes text for scripts, and keeps digits', async () => {
  const stdin = '{"a":{"b.c":[1,{"id":"x"},12345678901234567890]},"text":"Ada\\n","none":null}';
  const get = async (...words: string[]) => (await run(['json', ...words], { env, stdin })).out;
  expect(await get('get', 'text')).toBe('Ada\n\n');
  expect(await get('get', 'text', '--json')).toBe('"Ada\\n"\n');
  expect(await get('get', 'a.b.c.1.id')).toBe('x\n');
  expect(await get('get', 'a.b.c.2')).toBe('12345678901234567890\n');
  expect(await get('get', 'a.b.c.length')).toBe('3\n');
  expect(await get('get', 'none')).toBe('null\n');
  expect(await get('get', 'a.z', '--default', '')).toBe('\n');
  expect(JSON.parse(await get('pick', 'text', 'a.b.c.1.id'))).toEqual({ text: 'Ada\n', id: 'x' });
  expect(await run(['json', 'quote', '-'], { env, stdin: 'say "it"\n' })).toMatchObject({ out: '"say \\"it\\"\\n"\n' });
});

test('json says in one line what is missing, without a value', async () => {
  const stdin = '{"card":{"id":"secret"},"note":"secret"}';
  const refused: [words: string[], code: number, line: string][] = [
    [['get', 'card.number'], 5, 'The JSON has no number of card.number. There are id.\n'],
    [['get', 'note.length'], 5, 'The JSON has no length of note.length.\n'],
    [['pick', 'note', 'constructor'], 5, 'The JSON has no constructor. There are card, note.\n'],
    [['pick', 'note', 'card.note'], 5, 'The JSON has no note of card.note. There are id.\n'],
    [['get', 'x', '--file', 'nothing'], 3, 'The file nothing cannot be read: ENOENT.\n'],
  ];
  for (const [words, code, err] of refused)
    expect(await run(['json', ...words], { env, stdin })).toEqual({ code, out: '', err });
  for (const [given, err] of [
    ['', 'There is no input.'],
    ['<html>secret', 'The input is not JSON.'],
  ] as const) {
    const result = await run(['json', 'get', 'id'], { env, stdin: given });
    expect([result.code, result.err]).toEqual([3, `${err} See what the command before it printed.\n`]);
  }
  const twice = await run(['json', 'pick', 'card.id', 'card.id'], { env, stdin });
  expect([twice.code, twice.err]).toEqual([2, 'Two fields have the name id: take one of them, or get each alone.\n']);
});
