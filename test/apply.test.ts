// strongroom apply and config pull: a vault from a file, its plan, and everything that a file must not do.
import { chmodSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { useCli } from './support/developer-cli.ts';
import { type SharedServer, type TestTenant, useServer } from './support/server.ts';

let server: SharedServer;
let tenant: TestTenant;
beforeAll(async () => {
  server = await useServer();
});
beforeEach(async () => {
  tenant = await server.newTenant();
});
const { directory, run, json } = useCli(() => ({ base_url: server.base_url, api_key: tenant.api_key }));

const write = (text: string | Uint8Array, name = 'vault.yaml'): string => {
  writeFileSync(join(directory, name), text);
  return name;
};
const api = (method: string, path: string, body?: unknown) =>
  server.request(method, path, { key: tenant.api_key, json: body });

const code = 'module.exports = async (req) => ({ raw: { shop: req.configuration.SHOP } });\n';

const whole = `version: 1
tenant:
  settings: { deduplicate_token: "true" }
applications:
  - name: Checkout
    permissions: [token:create, token:use]
    daily_uses: 5000
    allowed_hosts: [API.example.com]
  - name: Support
    rules:
      - { description: Cards, priority: 1, container: /PCI/, transform: mask, permissions: [token:read] }
      - description: Orders
        priority: 2
        conditions: [{ attribute: id, operator: starts_with, value: order- }]
        transform: reveal
        permissions: [token:search, token:read]
formulas:
  - name: Charge
    description: Charges a card
    code_file: charge.js
    configuration: [{ name: SHOP, type: string }]
    request_parameters: [{ name: amount, type: number, optional: true }]
reactors:
  - name: Charge Köln 🎉
    formula: Charge
    application: Checkout
    configuration: { SHOP: { $env: SHOP_KEY } }
  - name: Own
    code: |
      module.exports = async () => ({ raw: 1 });
proxies:
  - name: Charges
    destination_url: https://api.example.com/v1
    application: Checkout
    request_transform: { code_file: charge.js }
    response_transform: { type: mask, expression: "[0-9]{12}" }
    configuration: { SHOP: köln, LIMIT: 3, ON: true }
    timeout_seconds: 10
webhooks:
  - name: Orders
    url: https://hooks.example.com/a
    events: [token.deleted, token.created]
    container: /PCI/
  - { name: All, url: https://hooks.example.com/b, events: ["*"] }
`;
const env = { SHOP_KEY: 'sk_secret_value' };

const NOTHING = 'Nothing to do: the vault is as the file says.\n';

const applyWhole = async (): Promise<void> => {
  write(code, 'charge.js');
  const { code: exit, err } = await run(['apply', write(whole)], { env });
  expect([exit, err]).toEqual([0, expect.stringContaining('strongroom api-keys add "Checkout"')]);
};

test('a file makes a vault, and applied again it says nothing to do', async () => {
  write(code, 'charge.js');
  const plan = await run(['apply', write(whole), '--plan'], { env });
  expect(plan).toMatchObject({ code: 0, err: '' });
  expect(plan.out).toContain('To make: 8. To change: 1. To remove: 0.');
  expect(plan.out).not.toContain('sk_secret');
  expect((await api('GET', '/proxies')).body.data).toEqual([]);
  await applyWhole();
  expect(await run(['apply', 'vault.yaml'], { env })).toEqual({ code: 0, out: NOTHING, err: '' });
  const { body } = await api('GET', '/reactors?name=Charge*');
  expect(body.data).toMatchObject([{ configuration: { SHOP: 'sk_secret_value' }, application: { name: 'Checkout' } }]);
  const checkout = (await api('GET', '/applications?name=Checkout')).body.data[0];
  expect((await api('GET', `/applications/${checkout.id}/keys`)).body.data).toEqual([]);
});

test('what widens access stands first, and in words', async () => {
  await applyWhole();
  const wider = whole
    .replace('token:create, token:use', 'token:create, token:use, log:read')
    .replace('daily_uses: 5000', 'daily_uses: 9000')
    .replace('[API.example.com]', 'null')
    .replace('transform: mask, permissions', 'transform: reveal, permissions')
    .replace('    timeout_seconds: 10', '    require_auth: false')
    .replace('destination_url: https://api.example.com/v1', 'destination_url: https://other.example.com/v1')
    .replace('response_transform: { type: mask, expression: "[0-9]{12}" }', 'response_transform: null')
    .replace('  - name: Own\n', '  - name: Own\n    application: Support\n');
  const { out } = await run(['apply', write(wider), '--plan'], { env });
  const [first, ...lines] = out.split('\n');
  expect(first).toBe('Widens access:');
  expect(lines.slice(0, lines.indexOf('Changed:'))).toEqual([
    '  ! application "Checkout" may now read the log',
    '  ! application "Checkout" may now send to any host',
    '  ! application "Checkout" may now get 9000 uses of tokens a day, before 5000',
    '  ! application "Support" may now read the values of tokens below /pci/',
    '  ! reactor "Own" its code has the permissions of "Support"',
    '  ! proxy "Charges" sends requests to other.example.com',
    '  ! proxy "Charges" whoever has its key may use it, without an API key',
    '  ! proxy "Charges" responses are not masked any more',
  ]);
  expect(out).toContain('permissions: +log:read');
  const [{ widens }] = await json(['apply', 'vault.yaml', '--plan'], { env });
  expect(widens).toHaveLength(8);
});

test('what narrows access does not stand under what widens it', async () => {
  await applyWhole();
  const narrower = whole
    .replace('token:create, token:use', 'token:create')
    .replace('daily_uses: 5000', 'daily_uses: 10')
    .replace('transform: reveal\n', 'transform: mask\n')
    .replace('  - name: Own\n', '  - name: Own\n    application: null\n');
  const { out } = await run(['apply', write(narrower)], { env });
  expect(out).not.toContain('Widens');
  expect(out).toContain('permissions: -token:use');
  expect((await run(['apply', 'vault.yaml'], { env })).out).toBe(NOTHING);
});

test('what a file leaves out stays, and null removes it', async () => {
  await applyWhole();
  const file = write(
    'version: 1\napplications: [{ name: Checkout, daily_uses: null }]\nproxies: [{ name: Charges, configuration: { SHOP: ulm }, destination_url: https://api.example.com/v1 }]\n',
  );
  await json(['apply', file]);
  const application = (await api('GET', '/applications?name=Checkout')).body.data[0];
  expect(application).toMatchObject({ permissions: ['token:create', 'token:use'], allowed_hosts: ['api.example.com'] });
  expect(application.daily_uses).toBeUndefined();
  const proxy = (await api('GET', '/proxies?name=Charges')).body.data[0];
  expect(proxy).toMatchObject({ timeout_seconds: 10, configuration: { SHOP: 'ulm' } });
  expect(Object.keys(proxy.configuration)).toEqual(['SHOP']);
  expect((await run(['apply', file])).out).toMatch(/Not in the file, and kept: .*\nNothing to do/);
});

test('only --prune removes: kinds of the file, and not the application of the key', async () => {
  await applyWhole();
  const file = write('version: 1\napplications: []\nproxies: []\n');
  expect((await run(['apply', file])).out).toContain('kept: application');
  expect((await api('GET', '/proxies')).body.data).toHaveLength(1);
  const { code: exit, out } = await run(['apply', file, '--prune']);
  expect(exit).toBe(0);
  expect(out).toContain('  - proxy "Charges"');
  expect((await api('GET', '/proxies')).body.data).toEqual([]);
  expect((await api('GET', '/applications')).body.data.map(({ id }: any) => id)).toEqual([tenant.application_id]);
  expect((await api('GET', '/reactors')).body.data).toHaveLength(2);
  await json(['apply', write('version: 1\nreactors: []\nformulas: []\n'), '--prune']);
  expect((await api('GET', '/reactors')).body.data).toEqual([]);
});

test('a kept plan is refused where the vault or the file has changed since', async () => {
  write(code, 'charge.js');
  write(whole);
  const keep = () => run(['apply', 'vault.yaml', '--plan', '--out', 'plan.json'], { env });
  expect((await keep()).err).toContain('strongroom apply plan.json does it');
  const drifted = { code: 6, out: '', err: expect.stringContaining('nothing was changed. Make a new plan.') };
  write(code.replace('shop', 'Shop'), 'charge.js');
  expect(await run(['apply', 'plan.json'], { env })).toMatchObject(drifted);
  write(code, 'charge.js');
  await api('POST', '/applications', { name: 'Meanwhile', permissions: ['token:read'] });
  expect(await run(['apply', 'plan.json'], { env })).toMatchObject(drifted);
  const other = await server.newTenant();
  await keep();
  expect(await run(['apply', 'plan.json'], { env: { ...env, STRONGROOM_API_KEY: other.api_key } })).toMatchObject(
    drifted,
  );
  expect((await api('GET', '/proxies')).body.data).toEqual([]);
  expect(await run(['apply', 'plan.json'], { env })).toMatchObject({ code: 0 });
  expect(await run(['apply', 'plan.json'], { env })).toMatchObject(drifted);
  const wrongUse: string[][] = [['--prune'], ['--plan']];
  for (const words of wrongUse) expect((await run(['apply', 'plan.json', ...words], { env })).code).toBe(2);
  expect((await run(['apply', 'vault.yaml', '--out', 'plan.json'], { env })).code).toBe(2);
  expect((await run(['apply', 'vault.yaml', '--plan', '--out', 'plan.txt'], { env })).code).toBe(2);
});

test('--prune removes nothing that the file names, and says whose code loses its permissions', async () => {
  await json(['apply', write(bounded())]);
  const file = (more: string) => `version: 1\napplications: []\n${more}`;
  const named = write(file('proxies:\n  - { name: Charges, application: Shop }\n'));
  expect(await run(['apply', named, '--prune'])).toMatchObject({
    code: 3,
    err: 'vault.yaml:4:22: --prune would remove the application "Shop", which is named here: name it in its section too.\n',
  });
  const { out } = await run(['apply', write(file('proxies: [{ name: Charges }]\n')), '--prune', '--plan']);
  expect(out).toContain('  - application "Shop"\n      the proxy "Charges" stays, without its permissions\n');
});

test('the setting of delegated payments has names of proxies in a file', async () => {
  const file = (proxy: string) => `version: 1
tenant: { settings: { delegated_payments: '{"proxies":["${proxy}"]}' } }
proxies: [{ name: Charges, destination_url: https://api.example.com/v1 }]
`;
  await json(['apply', write(file('Charges'))]);
  const proxy = (await api('GET', '/proxies')).body.data[0];
  const { settings } = (await api('GET', '/tenants/self')).body;
  expect(JSON.parse(settings.delegated_payments)).toEqual({ proxies: [proxy.id] });
  for (const name of ['Charges', proxy.id]) expect((await run(['apply', write(file(name))])).out).toBe(NOTHING);
  expect((await run(['apply', write(file('Charge'))])).err).toContain('vault.yaml:2:23: There is no proxy');
  const pulled = (await run(['config', 'pull'])).out;
  expect(pulled).not.toContain(proxy.id);
  const there = { env: { STRONGROOM_API_KEY: (await server.newTenant()).api_key } };
  await run(['apply', write(pulled)], there);
  expect((await run(['apply', 'vault.yaml'], there)).out).toBe(NOTHING);
});

test('pull does not write over a file of a person', async () => {
  const file = write('# mine\nversion: 1\n', 'mine.yaml');
  expect(await run(['config', 'pull', '--out', file])).toMatchObject({
    code: 3,
    err: expect.stringContaining('mine.yaml is there, and config pull has not written it'),
  });
  for (const _ of [1, 2]) expect((await run(['config', 'pull', '--out', 'pulled-twice.yaml'])).code).toBe(0);
});

test('a person at a terminal is asked, and what happens meanwhile is found', async () => {
  const file = write('version: 1\napplications: [{ name: A, permissions: [token:read] }]\n');
  const names = async () => (await api('GET', '/applications?name=A')).body.data.length;
  const stdin = (answer: string) => ({ typed: answer, cooked: true });
  expect(await run(['apply', file], stdin('no\n'))).toMatchObject({
    code: 130,
    err: `Apply to ${server.base_url}? Type yes: Nothing was changed.\n`,
  });
  expect(await names()).toBe(0);
  expect((await run(['apply', file], stdin('yes\n'))).code).toBe(0);
  expect(await names()).toBe(1);
});

test('pull writes a file from which a plan is empty, whatever characters it has', async () => {
  await applyWhole();
  const texts = [
    'a\r\nb\r\n',
    ' lead',
    'trail \n',
    '- x',
    'a: b',
    '#',
    '\u00a0é̀🎉',
    '"\'`',
    '{{ x }}',
    'yes',
    '1',
    '~',
    '|',
    '<<',
    '\ttab',
  ];
  for (const [at, text] of texts.entries())
    await api('POST', '/reactor-formulas', {
      name: `Formula ${at} ${text.replaceAll(/\s/g, '_')}`,
      type: 'private',
      description: text,
      code: `${code}// ${text}`,
    });
  const pulled = await run(['config', 'pull']);
  expect(pulled.code).toBe(0);
  expect(pulled.out).not.toMatch(/svc_|sk_secret|köln|whsec_/);
  expect(pulled.out).toContain(
    '# Left out, and kept by apply: the configuration of the proxy "Charges" (SHOP, LIMIT, ON).',
  );
  write(pulled.out);
  expect(await run(['apply', 'vault.yaml', '--plan', '--prune'])).toEqual({ code: 0, out: NOTHING, err: '' });
  await json(['config', 'pull', '--with-configuration', '--out', 'all.yaml']);
  expect(await run(['apply', 'all.yaml', '--plan', '--prune'])).toEqual({ code: 0, out: NOTHING, err: '' });
  // Into another, empty vault: the same again.
  const other = await server.newTenant();
  const there = { env: { STRONGROOM_API_KEY: other.api_key } };
  expect((await run(['apply', 'all.yaml'], there)).code).toBe(0);
  expect((await run(['apply', 'all.yaml'], there)).out).toBe(NOTHING);
});

test('the application of the key in use changes last, so that the rest is done before', async () => {
  const file = write(`version: 1
applications:
  - { name: First application, permissions: [token:read] }
  - { name: Z, permissions: [token:read] }
proxies: [{ name: P, destination_url: https://a.example.com }]
`);
  const { code: exit, out } = await run(['apply', file]);
  expect(exit).toBe(0);
  expect(out.split('\n').slice(-4, -1)).toEqual([
    'Made the application "Z".',
    'Made the proxy "P".',
    'Changed the application "First application".',
  ]);
});

test('webhooks are made, changed and removed by a file, and no secret is shown', async () => {
  await applyWhole();
  const [made] = (await api('GET', '/webhooks?name=Orders')).body.data;
  expect(made).toMatchObject({ events: ['token.deleted', 'token.created'], container: '/pci/' });
  const changed = whole
    .replace('hooks.example.com/a', 'other.example.com/a')
    .replace('[token.deleted, token.created]', '[token.created, proxy.created]')
    .replace('    container: /PCI/\n', '    container: /pci/high/\n')
    .replace(/ {2}- \{ name: All.*\n/, '');
  const applied = await run(['apply', write(changed), '--prune'], { env });
  expect(applied.code, applied.err).toBe(0);
  expect(applied.out.split('\n').slice(0, 4)).toEqual([
    'Widens access:',
    '  ! webhook "Orders" sends events to other.example.com',
    '  ! webhook "Orders" sends the masks of tokens below /pci/high/',
    '  ! webhook "Orders" sends events of proxy.created',
  ]);
  expect(applied.out + applied.err).not.toContain('whsec_');
  expect((await api('GET', '/webhooks')).body.data).toMatchObject([
    {
      id: made.id,
      url: 'https://other.example.com/a',
      events: ['token.created', 'proxy.created'],
      container: '/pci/high/',
    },
  ]);
  const secret = write(
    'version: 1\nwebhooks: [{ name: A, url: https://a.example.com, events: ["*"], secret: whsec_x }]\n',
  );
  const refused = await run(['apply', secret]);
  expect([refused.code, refused.err]).toEqual([3, expect.stringContaining('webhooks[0].secret cannot be in a file')]);
  const bare = write('version: 1\nwebhooks: [{ name: A, events: ["*"] }]\n');
  expect((await run(['apply', bare])).err).toContain('A webhook needs url and events.');
  const unknown = write('version: 1\nwebhooks: [{ name: A, url: https://a.example.com, events: [token.create] }]\n');
  expect((await run(['apply', unknown])).err).toContain('did you mean token.created?');
});

test('codes, amounts, guards and repetitions of a proxy are applied, pulled and removed', async () => {
  const cvc =
    '{ until: answered, keep: { statuses: [503, 429], when: { path: $.decline, equals: [soft, 1, true, null] } } }';
  const file = (more: string) =>
    write(`version: 1\nproxies: [{ name: P, destination_url: "https://a.example.com", ${more} }]\n`);
  const all = `idempotency_header: Idempotency-Key, echo_guard: mask, cvc: ${cvc}, amount: { value: $.amount, currency: $.currency, unit: minor }`;
  const shown = async () => (await api('GET', '/proxies')).body.data[0];
  await json(['apply', file(all)]);
  expect(await shown()).toMatchObject({
    idempotency_header: 'Idempotency-Key',
    echo_guard: 'mask',
    cvc: {
      until: 'answered',
      keep: { statuses: [503, 429], when: { path: '$.decline', equals: ['soft', 1, true, null] } },
    },
    amount: { value: '$.amount', currency: '$.currency', unit: 'minor' },
  });
  expect((await run(['apply', 'vault.yaml'])).out).toBe(NOTHING);
  const pulled = write((await run(['config', 'pull'])).out, 'pulled.yaml');
  expect((await run(['apply', pulled, '--plan', '--prune'])).out).toBe(NOTHING);
  const other = { env: { STRONGROOM_API_KEY: (await server.newTenant()).api_key } };
  await run(['apply', pulled], other);
  expect((await run(['apply', pulled], other)).out).toBe(NOTHING);

  const gone = await run(['apply', file('idempotency_header: null, echo_guard: null, cvc: null, amount: null')]);
  expect(gone.out.split('\n').slice(0, 3)).toEqual([
    'Widens access:',
    '  ! proxy "P" security codes live on after other answers',
    '  ! proxy "P" responses may have values that were sent',
  ]);
  expect(Object.keys(await shown())).not.toContain('idempotency_header');
  expect((await run(['apply', file('cvc: { until: ttl }')])).out).toBe(NOTHING);
  const wrong = await run(['apply', file('idempotency_header: Authorization')]);
  expect([wrong.code, wrong.err]).toEqual([1, expect.stringContaining('idempotency_header')]);
  const typo = await run(['apply', file('cvc: { untl: answered }')]);
  expect([typo.code, typo.err]).toEqual([3, expect.stringContaining('did you mean until')]);
});

test('a bound of a rule is the same in any spelling, and another amount is not', async () => {
  const made = await api('POST', '/proxies', {
    name: 'P',
    destination_url: 'https://a.example.com',
    amount: { value: '$.amount', currency: '$.currency', unit: 'minor' },
  });
  const file = (bound: string) =>
    write(`version: 1
applications:
  - name: Agent
    rules:
      - priority: 1
        container: /
        transform: reveal
        permissions: [token:use]
        bound_to: ${bound}
`);
  const bound = (amount: number, currency: string) =>
    `{ hosts: [B.example.com, a.example.com], proxies: [${made.body.id.toUpperCase()}], places: [query, body], until: "2031-01-01T01:00:00+01:00", max_uses: 3, allowance: { max_amount: ${amount}, currency: ${currency}, max_total: null } }`;
  await json(['apply', file(bound(100, 'EUR'))]);
  const { rules } = (await api('GET', '/applications?name=Agent')).body.data[0];
  expect(rules[0].bound_to).toEqual({
    hosts: ['a.example.com', 'b.example.com'],
    proxies: [made.body.id],
    places: ['body', 'query'],
    until: '2031-01-01T00:00:00.000Z',
    max_uses: 3,
    allowance: { max_amount: 100, currency: 'eur' },
  });
  for (const currency of ['EUR', 'eur', 'Eur'])
    expect((await run(['apply', file(bound(100, currency))])).out).toBe(NOTHING);
  const pulled = write((await run(['config', 'pull'])).out, 'pulled.yaml');
  expect((await run(['apply', pulled, '--plan', '--prune'])).out).toBe(NOTHING);
  for (const [amount, currency] of [
    [200, 'eur'],
    [100, 'usd'],
  ] as const)
    expect((await run(['apply', file(bound(amount, currency)), '--plan'])).out).toContain('To change: 1.');
});

const bounded = (use = 'max_uses: 3') => `version: 1
applications:
  - name: Shop
    rules:
      - description: charges
        priority: 1
        container: /pci/
        transform: reveal
        permissions: [token:use]
        bound_to: { proxies: [Charges], reactors: [Last digits], ${use} }
      - { description: rest, priority: 2, container: /, transform: mask, permissions: [token:read] }
reactors:
  - { name: Last digits, code: "module.exports = async () => ({ raw: 1 })", application: Shop }
proxies:
  - name: Charges
    destination_url: https://api.example.com/v1
    application: Shop
    request_transform: { code: "module.exports = async ({ args }) => args" }
`;

describe('names in bounds of rules', () => {
  test('a rule and a proxy of one file may name each other, and a pulled file has names', async () => {
    const plan = await run(['apply', write(bounded()), '--plan']);
    expect(plan.out).toContain(
      'only through the proxies Charges, only in the reactors Last digits, at most 3 times each',
    );
    const made = await run(['apply', 'vault.yaml']);
    expect([made.code, made.err]).toEqual([0, expect.stringContaining('has no key yet')]);
    expect(made.out.match(/^(?:Made|Changed) .*/gm)).toEqual([
      'Made the application "Shop".',
      'Made the reactor "Last digits".',
      'Made the proxy "Charges".',
    ]);
    expect(await run(['apply', 'vault.yaml'])).toEqual({ code: 0, out: NOTHING, err: '' });
    const proxy = (await api('GET', '/proxies')).body.data[0];
    const { rules } = (await api('GET', '/applications?name=Shop')).body.data[0];
    expect(rules[0].bound_to).toMatchObject({ proxies: [proxy.id], max_uses: 3 });
    expect((await run(['apply', write(bounded().replace('[Charges]', `[${proxy.id}]`))])).out).toBe(NOTHING);

    const pulled = (await run(['config', 'pull'])).out;
    expect(pulled).not.toContain(proxy.id);
    write(pulled, 'pulled.yaml');
    expect((await run(['apply', 'pulled.yaml', '--plan', '--prune'])).out).toBe(NOTHING);
    const there = { env: { STRONGROOM_API_KEY: (await server.newTenant()).api_key } };
    expect((await run(['apply', 'pulled.yaml'], there)).code).toBe(0);
    expect((await run(['apply', 'pulled.yaml'], there)).out).toBe(NOTHING);
  });

  test('a rule that names what is not made yet refuses every use', async () => {
    const broken = bounded().replace('https://api.example.com/v1', 'https://127.0.0.1/v1');
    expect((await run(['apply', write(broken)])).code).not.toBe(0);
    const { rules } = (await api('GET', '/applications?name=Shop')).body.data[0];
    expect(rules.map((rule: any) => rule.bound_to)).toEqual([{ until: '1970-01-01T00:00:00.000Z' }, undefined]);
    expect((await run(['apply', write(bounded())])).code).toBe(0);
    expect((await run(['apply', 'vault.yaml'])).out).toBe(NOTHING);
  });

  test('a wrong name has its line, and the nearest one', async () => {
    const { code: exit, err } = await run(['apply', write(bounded().replace('[Charges]', '[Charge]'))]);
    expect([exit, err]).toEqual([
      3,
      'vault.yaml:10:31: There is no proxy with the name "Charge". Did you mean "Charges"?\n',
    ]);
    expect((await api('GET', '/applications')).body.data).toHaveLength(1);
  });

  test('a narrower bound is no widening, a wider one is', async () => {
    await json(['apply', write(bounded())]);
    const widens = async (file: string) => {
      const [{ widens: found }] = await json(['apply', write(file), '--plan']);
      return found.length;
    };
    expect(await widens(bounded('max_uses: 2'))).toBe(0);
    expect(await widens(bounded('max_uses: 3, places: [body]'))).toBe(0);
    expect(await widens(bounded().replace(', reactors: [Last digits]', ''))).toBe(0);
    expect(await widens(bounded('max_uses: 4'))).toBe(1);
    expect(await widens(bounded('places: [body]'))).toBe(1);
    expect(await widens(bounded().replace('proxies: [Charges], ', ''))).toBe(0);
    expect(await widens(bounded().replace('proxies: [Charges]', 'hosts: [api.example.com]'))).toBe(1);
  });
});

describe('rules that are suspended', () => {
  const other = (file: string) => file.replace('({ args }) => args', '({ args }) => ({ ...args })');
  const suspended = async () => {
    const { id } = (await api('GET', '/applications?name=Shop')).body.data[0];
    return (await api('GET', `/applications/${id}`)).body.suspended_rules;
  };
  const changeProxy = async () => {
    const { id, name, destination_url } = (await api('GET', '/proxies?name=Charges')).body.data[0];
    const request_transform = { code: 'module.exports = async ({ args }) => ({ ...args })' };
    await api('PATCH', `/proxies/${id}`, { name, destination_url, request_transform });
  };

  test('a plan says in words which rules it confirms, whatever else changes', async () => {
    await json(['apply', write(bounded())]);
    await changeProxy();
    expect(await suspended()).toMatchObject([{ rule: 0 }]);
    const says =
      /^ {2}! application "Shop" its rule "charges" takes the proxy ".*" as it is now: it has changed since/m;
    const [rights] = bounded().split('reactors:\n  -');
    const without = 'version: 1\napplications: [{ name: Shop, daily_uses: 10 }]\n';
    for (const file of [rights as string, without])
      expect((await run(['apply', write(file), '--plan'])).out).toMatch(says);
    expect((await run(['apply', write('version: 1\napplications: [{ name: Shop }]\n'), '--plan'])).out).toBe(NOTHING);
    expect(await suspended()).toMatchObject([{ rule: 0 }]);
    expect((await run(['applications', 'show', 'Shop'])).out).toContain('suspended_rules');
    const { out } = await run(['apply', write(rights as string)]);
    expect(out).toContain('rules: saved again');
    expect(await suspended()).toBeUndefined();
    expect((await run(['apply', 'vault.yaml'])).out).toContain(NOTHING);
  });

  test('a file that changes a proxy confirms its own rules, in the plan and in one run', async () => {
    await json(['apply', write(bounded())]);
    const { code: exit, out } = await run(['apply', write(other(bounded()))]);
    expect(exit).toBe(0);
    expect(out).toContain('its rule "charges" takes the proxy "Charges" as this plan makes it');
    expect(out.split('\n').slice(-3, -1)).toEqual(['Changed the proxy "Charges".', 'Changed the application "Shop".']);
    expect(await suspended()).toBeUndefined();
    expect((await run(['apply', 'vault.yaml'])).out).toBe(NOTHING);
  });

  test('a file without the rules says that it suspends them', async () => {
    await json(['apply', write(bounded())]);
    const [, proxies] = other(bounded()).split('proxies:\n  -');
    const { out } = await run(['apply', write(`version: 1\nproxies:\n  -${proxies}`)]);
    expect(out).toContain('suspends the rule "charges" of the application "Shop" until its rules are saved');
    expect(await suspended()).toMatchObject([{ rule: 0 }]);
  });

  test('a change of rules is shown rule by rule', async () => {
    await json(['apply', write(bounded())]);
    const changed = bounded('max_uses: 2').replace('description: rest, priority: 2', 'priority: 4');
    const { out } = await run(['apply', write(changed), '--plan']);
    expect(out).toMatch(/rules: rule 1 "charges" bound_to \{.*"max_uses":2.*; \+rule 4; -rule 2 "rest"\n/);
  });
});

test('other code that has permissions stands under what widens access', async () => {
  await applyWhole();
  write(code.replace('shop', 'Shop'), 'charge.js');
  const { out } = await run(['apply', 'vault.yaml', '--plan'], { env });
  expect(out).toMatch(
    /^Widens access:\n {2}! proxy "Charges" its code changes, and has the permissions of "Checkout"\n/,
  );
});

test('a pulled file with values of configurations is for its owner alone', async () => {
  write('', 'secret.yaml');
  chmodSync(join(directory, 'secret.yaml'), 0o644);
  await json(['config', 'pull', '--with-configuration', '--out', 'secret.yaml']);
  expect(statSync(join(directory, 'secret.yaml')).mode & 0o777).toBe(0o600);
});

test('code is not taken through a link that leads out of the folder', async () => {
  symlinkSync('/etc/hostname', join(directory, 'link.js'));
  const { code: exit, err } = await run(['apply', write('version: 1\nreactors: [{ name: R, code_file: link.js }]\n')]);
  expect([exit, err]).toEqual([3, expect.stringContaining('must be below the folder')]);
});

test('CRLF in a file is a line end of YAML, and code of a file keeps its own', async () => {
  write('module.exports = async () => ({ raw: 1 });\r\n', 'crlf.js');
  const file = write('\ufeffversion: 1\r\nreactors:\r\n  - name: A\r\n    code_file: crlf.js\r\n');
  expect((await run(['apply', file])).code).toBe(0);
  expect((await api('GET', '/reactors')).body.data[0].code).toBe('module.exports = async () => ({ raw: 1 });\r\n');
  expect((await run(['apply', file])).out).toBe(NOTHING);
});

test('a failure in the middle says how far it came, and the rest is done the next time', async () => {
  const text = (body: string) =>
    `version: 1\napplications: [{ name: A, permissions: [token:read] }]\nreactors: [{ name: R, code: "${body}" }]\n`;
  const { code: exit, err } = await run(['apply', write(text('module.exports = ('))]);
  expect([exit, err]).toEqual([
    1,
    expect.stringMatching(/^vault\.yaml:\d+:\d+: To make the reactor "R" failed: .*422.* 1 of 2 steps are done;/),
  ]);
  expect((await run(['apply', write(text('module.exports = async () => ({})'))])).out).toContain('To make: 1.');
});

test('a key without a permission changes nothing, and gives no more than it has', async () => {
  const file = write('version: 1\napplications: [{ name: A, permissions: [token:read] }]\nproxies: []\n');
  const as = async (...permissions: any[]) => ({
    env: { STRONGROOM_API_KEY: (await server.newKey(tenant, { permissions })).api_key },
  });
  expect(await run(['apply', file], await as('application:create'))).toMatchObject({
    code: 4,
    out: '',
    err: expect.stringContaining('application:read'),
  });
  const creator = await as('application:create', 'application:read', 'proxy:read');
  const refused = await run(['apply', file], creator);
  expect(refused).toMatchObject({ code: 4, err: expect.stringContaining('Nothing was changed.') });
});

test('another tenant is never seen, and a reference to its records is an error', async () => {
  await applyWhole();
  const other = await server.newTenant();
  const there = { env: { ...env, STRONGROOM_API_KEY: other.api_key } };
  const file = write(
    'version: 1\nproxies: [{ name: P, destination_url: https://a.example.com, application: Checkout }]\n',
  );
  expect(await run(['apply', file], there)).toMatchObject({
    code: 3,
    err: 'vault.yaml:2:62: There is no application with the name "Checkout".\n',
  });
  expect((await run(['apply', write(whole), '--plan'], there)).out).toContain('To make: 8.');
});

test('two records of one name in the vault are an error for apply and pull', async () => {
  for (const _ of [1, 2]) await api('POST', '/applications', { name: 'Twin', permissions: ['token:read'] });
  const file = write('version: 1\napplications: [{ name: Twin, permissions: [token:read] }]\n');
  for (const words of [
    ['apply', file],
    ['config', 'pull'],
  ])
    expect(await run(words)).toMatchObject({ code: 1, out: '', err: expect.stringContaining('"Twin"') });
});

describe('files that are wrong change nothing, and each line names its place', () => {
  const app = (text: string) => `version: 1\napplications:\n  - name: A\n    ${text}\n`;
  const deep = `version: 1\ntenant: ${'['.repeat(20_000)}${']'.repeat(20_000)}\n`;
  const bomb = `version: 1\na: &a [x, x]\n${[...'bcdefgh'].map((name, at) => `${name}: &${name} [${`*${'abcdefgh'[at]}, `.repeat(9)}]`).join('\n')}\n`;
  const key = `svc_live_${'a'.repeat(16)}_${'b'.repeat(43)}`;
  const cases: [name: string, text: string | Uint8Array, line: RegExp][] = [
    [
      'an attribute with a typing error',
      app('permisions: [token:read]'),
      /^vault\.yaml:4:5: applications\[0\]\.permisions is not known here; did you mean permissions\?$/,
    ],
    [
      'a permission with a typing error',
      app('permissions: [token:raed]'),
      /^vault\.yaml:4:19: applications\[0\]\.permissions\[0\] .*did you mean token:read/,
    ],
    [
      'a section with a typing error',
      'version: 1\naplications: []\n',
      /^vault\.yaml:2:1: aplications is not known here; did you mean applications\?$/,
    ],
    [
      'a transform that is none',
      app('rules: [{ priority: 1, container: /, transform: revael, permissions: [token:read] }]'),
      /did you mean reveal/,
    ],
    [
      'a container without slashes',
      app('rules: [{ priority: 1, container: pci, transform: mask, permissions: [token:read] }]'),
      /container must have the form of \/pci\/high\//,
    ],
    [
      'a rule without its priority',
      app('rules: [{ container: /, transform: mask, permissions: [token:read] }]'),
      /rules\[0\] needs priority/,
    ],
    ['a text where a number is wanted', app('daily_uses: many'), /daily_uses must be a whole number/],
    [
      'a number where a text is wanted',
      'version: 1\napplications:\n  - name: 12\n',
      /^vault\.yaml:3:11: applications\[0\]\.name must be a text: write it in quotes/,
    ],
    ['a number that no double holds', app('daily_uses: 1e999'), /daily_uses must be/],
    ['a number that is too large', app('daily_uses: 9007199254740993'), /daily_uses must be/],
    ['not a number', app('daily_uses: .nan'), /daily_uses must be/],
    ['null where a value is needed', 'version: 1\napplications:\n  - name: ~\n', /name must be a text/],
    ['an empty name', 'version: 1\napplications:\n  - name: ""\n', /name must not be empty/],
    [
      'a record without a name',
      'version: 1\napplications:\n  - permissions: []\n',
      /^vault\.yaml:3:5: applications\[0\] needs name/,
    ],
    ['an object where a list is wanted', 'version: 1\napplications: { A: 1 }\n', /applications must be a list/],
    ['a list where an object is wanted', '- version: 1\n', /The file must be an object/],
    ['a text as the file', 'hello\n', /The file must be an object/],
    ['no version', 'applications: []\n', /needs version/],
    ['a version that is not known', 'version: 2\n', /^vault\.yaml:1:10: version must be 1\./],
    ['an empty file', '', /The file is empty/],
    ['comments alone', '# nothing\n', /The file is empty/],
    ['two documents', 'version: 1\n---\nversion: 1\n', /one document/],
    [
      'a name that is there twice',
      'version: 1\napplications: []\napplications: []\n',
      /^vault\.yaml:3:1: This name is there twice/,
    ],
    [
      'two records of one name',
      'version: 1\napplications: [{ name: A }, { name: A }]\n',
      /^vault\.yaml:2:31: A second application has the name "A"/,
    ],
    [
      'an alias',
      'version: 1\napplications: [{ name: &a A }, { name: *a }]\n',
      /Anchors are not read[\s\S]*Aliases are not read/,
    ],
    ['a bomb of aliases', bomb, /Aliases are not read/],
    ['a merge key', 'version: 1\napplications: [{ <<: { name: A } }]\n', /<< is not known here/],
    ['a tag', 'version: 1\napplications: [{ name: !!str A }]\n', /Tags are not read|is not YAML/],
    ['a tag of JavaScript', 'version: 1\napplications: [{ name: !!js/function "x" }]\n', /Tags are not read/],
    ['a tag of its own', 'version: 1\napplications: !own [{ name: A }]\n', /Tags are not read/],
    [
      'a bracket that is not closed',
      'version: 1\napplications: [{ name: A\n',
      /^vault\.yaml:\d+:\d+: This is not YAML/,
    ],
    ['a tab as indentation', 'version: 1\napplications:\n\t- name: A\n', /This is not YAML/],
    ['a file that is nested deep', deep, /nested too deep|must be/],
    ['an id', app('id: 6c0f5b0e-94a1-4c6e-8a63-1d2f7c1b9e30'), /id cannot be in a file/],
    ['a key', app(`key: ${key}`), /key cannot be in a file/],
    [
      'an API key in another place',
      `version: 1\nproxies: [{ name: P, destination_url: "https://a.example.com", configuration: { K: ${key} } }]\n`,
      /has an API key/,
    ],
    [
      'a client certificate',
      'version: 1\nproxies: [{ name: P, destination_url: "https://a.example.com", client_certificate: { certificate: x, private_key: y } }]\n',
      /private key/,
    ],
    ['a reactor without code', 'version: 1\nreactors: [{ name: R }]\n', /needs formula, or code/],
    [
      'a reactor with formula and code',
      'version: 1\nreactors: [{ name: R, formula: F, code: x }]\n',
      /either formula, or code/,
    ],
    [
      'code that is not there',
      'version: 1\nreactors:\n  - name: R\n    code_file: none.js\n',
      /^vault\.yaml:4:5: The file .*none\.js cannot be read: ENOENT/,
    ],
    [
      'code of another folder',
      'version: 1\nreactors:\n  - name: R\n    code_file: ../../etc/passwd\n',
      /must be below the folder/,
    ],
    [
      'code of an absolute path',
      'version: 1\nreactors:\n  - name: R\n    code_file: /etc/passwd\n',
      /must be below the folder/,
    ],
    [
      'a variable that is not set',
      'version: 1\nreactors: [{ name: R, code: x, configuration: { K: { $env: NOT_SET } } }]\n',
      /needs the variable NOT_SET/,
    ],
    [
      'a configuration that is an object',
      'version: 1\nreactors: [{ name: R, code: x, configuration: { K: { a: 1 } } }]\n',
      /K\.a is not known here/,
    ],
    [
      'a reference to nothing',
      'version: 1\napplications: [{ name: Checkout, permissions: [token:read] }]\nreactors: [{ name: R, code: x, application: Chekout }]\n',
      /^vault\.yaml:3:32: There is no application with the name "Chekout"\. Did you mean "Checkout"\?$/,
    ],
    [
      'a setting with another word',
      'version: 1\ntenant: { settings: { absent_paths: nul } }\n',
      /absent_paths must be one of the known words; did you mean null\?/,
    ],
    [
      'an unquoted boolean in a setting',
      'version: 1\ntenant: { settings: { deduplicate_token: true } }\n',
      /must be a text: write it in quotes/,
    ],
    [
      'a setting with a typing error',
      'version: 1\ntenant: { settings: { require_second_facto: "true" } }\n',
      /^vault\.yaml:2:23: settings\.require_second_facto is no setting of the vault; did you mean require_second_factor\?$/,
    ],
    ['a name of __proto__', 'version: 1\n__proto__: {}\n', /__proto__ is not known here/],
    ['bytes that are not UTF-8', new Uint8Array([0x76, 0xff, 0xfe]), /not text in UTF-8/],
    ['a file that is too long', `version: 1\n# ${'x'.repeat(1_048_576)}\n`, /longer than 1048576 bytes/],
    [
      'very many names',
      `version: 1\n${Array.from({ length: 100_000 }, (_, at) => `n${at}:\n`).join('')}`,
      /n0 is not known here[\s\S]*more\./,
    ],
    ['names that differ in how they are written', 'version: 1\n"applications": []\napplications: []\n', /twice/],
    ['too many records', `version: 1\napplications:\n${'  - { name: A }\n'.repeat(1001)}`, /at most 1000 elements/],
    ['control characters in a name', 'version: 1\n"\\e[2J": 1\n', /\\u001b\[2J is not known here/],
  ];
  test.each(cases)('%s', async (_, text, line) => {
    const { code: exit, out, err } = await run(['apply', write(text)]);
    expect([exit, out], err).toEqual([3, '']);
    expect(err.trimEnd()).toMatch(line);
    expect(err).not.toContain(key);
    // oxlint-disable-next-line no-control-regex
    expect(err).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/);
    expect(err.split('\n').length).toBeLessThan(13);
    expect((await api('GET', '/applications')).body.data).toHaveLength(1);
  });

  test('a device that has no end', async () => {
    expect(await run(['apply', '/dev/zero'])).toMatchObject({ code: 3, err: expect.stringContaining('longer than') });
  });

  test('a file that is not there', async () => {
    rmSync(join(directory, 'vault.yaml'), { force: true });
    expect(await run(['apply', 'vault.yaml'])).toMatchObject({
      code: 3,
      err: 'The file vault.yaml cannot be read: ENOENT.\n',
    });
  });

  test('the type of an application and the formula of a reactor cannot change', async () => {
    await applyWhole();
    for (const [from, to] of [
      ['    daily_uses: 5000', '    type: management'],
      ['    formula: Charge', '    code: "module.exports = 1"'],
    ] as const)
      expect(await run(['apply', write(whole.replace(from, to))], { env })).toMatchObject({
        code: 3,
        out: '',
        err: expect.stringMatching(/^vault\.yaml:\d+:5: The .* cannot change/),
      });
  });
});

test('a plan says what other rights would have done in the last days, or why it cannot', async () => {
  await applyWhole();
  const { id } = (await api('GET', '/applications?name=Checkout')).body.data[0];
  const { key } = (await api('POST', `/applications/${id}/keys`, {})).body;
  for (const data of ['a', 'b'])
    expect((await server.request('POST', '/tokens', { key, json: { type: 'token', data } })).status).toBe(201);
  write('version: 1\napplications: [{ name: Checkout, permissions: [token:use] }]\n', 'less.yaml');
  const plan = await run(['apply', 'less.yaml', '--plan']);
  expect(plan.out).toMatch(
    /application "Checkout": of \d+ decisions 2 would be refused, 0 allowed, 0 would show more, 0 less\n$/,
  );
  const record = await json(['apply', 'less.yaml', '--plan']);
  expect(JSON.stringify(record)).toContain('"newly_refused":{"count":2');
  const { api_key } = await server.newKey(tenant, {
    permissions: ['application:read', 'application:update', 'token:create', 'token:use'],
  });
  const refused = await run(['apply', 'less.yaml', '--plan'], { env: { STRONGROOM_API_KEY: api_key } });
  expect(refused.out).toContain('application "Checkout": not tried: ');
  expect(refused.code).toBe(0);
});
