// Destinations against vectors, and that the checked host is the one that is connected to.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { array, assert, constantFrom, property } from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type AllowLists,
  checkDestination,
  type EgressPolicy,
  isPrivateHost,
  NOT_PUBLIC,
  portOf,
} from './destination.ts';
import { loadConfig } from '../config/config.ts';
import { echoFileIn, LOCAL_HINT } from '../config/dev-destination.ts';
import { EgressFault } from '../base/egress-fault.ts';

const sentences = {
  address: 'The destination must be named by a host name, not by an address.',
  credentials: 'The destination must not hold credentials.',
  invalid_host: 'The host name of the destination is not valid.',
  invalid_url: 'The destination is not a valid URL.',
  not_full: 'The destination must be named by a full host name.',
  not_https: 'The destination must be an https URL.',
  port: 'The port of the destination is not allowed.',
  own: 'The destination must not be this service.',
  host: 'The host of the destination is not allowed.',
  too_long: 'The URL of the destination is too long.',
};

type Refusal = keyof typeof sentences;
type Case =
  | { kind: 'destination'; url: string; outcome: 'allowed'; expect: string }
  | { kind: 'destination'; url: string; outcome: Refusal };

const cases = (
  JSON.parse(readFileSync(new URL('../../../test/vectors/addresses.json', import.meta.url), 'utf8')) as (
    | Case
    | { kind: 'address' }
  )[]
).filter((each) => each.kind === 'destination');

const open: EgressPolicy = { allowedHosts: undefined, privateHosts: [], ports: undefined, ownHosts: [] };

/** The host that would be connected to, or why none. */
const judge = (url: string, policy: Partial<EgressPolicy> = {}, allowLists?: AllowLists): string => {
  try {
    return checkDestination({ ...open, ...policy }, url, allowLists).hostname;
  } catch (error) {
    expect(error).toBeInstanceOf(EgressFault);
    expect((error as EgressFault).code).toBe('DESTINATION_REFUSED');
    return (error as EgressFault).message;
  }
};

describe('a destination is an https URL with a full host name', () => {
  test.each(cases)('$url: $outcome', (each) => {
    if (each.outcome === 'allowed') expect(judge(each.url)).toBe(each.expect);
    else {
      expect(Object.keys(sentences)).toContain(each.outcome);
      expect(judge(each.url)).toBe(sentences[each.outcome]);
    }
  });
});

test('the checked host is the one that is connected to, for every spelling', () => {
  const words =
    'https: http: / // \\ @ : . .. ? # % %2e %2f %40 %00 [ ] good.test evil.test 127.0.0.1 2130706433 ::1 0x7f 1 443 22 a xn-- - _ *';
  const odd = ['\t', '\n', ' ', '\u200d', '\u3002', '\uff11', '\u2460', '\u00df', '\u0130', '\ud800'];
  const part = constantFrom(...words.split(' '), ...odd);
  const url = array(part, { maxLength: 10 }).map((parts) => `https://${parts.join('')}`);
  let allowed = 0;
  assert(
    property(url, (text) => {
      let checked: URL;
      try {
        checked = checkDestination(open, text);
      } catch (error) {
        return error instanceof EgressFault && error.code === 'DESTINATION_REFUSED';
      }
      allowed += 1;
      const again = new URL(checked.href);
      const host = again.hostname;
      return (
        again.protocol === 'https:' &&
        host === checked.hostname &&
        checkDestination(open, checked.href).href === checked.href &&
        `${again.username}${again.password}` === '' &&
        isIP(host) === 0 &&
        /^[a-z0-9_-]+(\.[a-z0-9_-]+)+$/.test(host)
      );
    }),
    { numRuns: 100_000 },
  );
  expect(allowed).toBeGreaterThan(2_500);
});

test('only hosts of the list are named, where there is one', () => {
  const allowedHosts = ['api.test', '*.partner.test', 'B\u00fccher.test.'];
  for (const host of ['api.test', 'a.partner.test', 'a.b.partner.test', 'xn--bcher-kva.test']) {
    expect(judge(`https://${host}/`, { allowedHosts })).toBe(host);
    expect(judge(`https://${host}/`, {}, [allowedHosts])).toBe(host);
  }
  for (const host of ['partner.test', 'evilpartner.test', 'a.api.test', 'api.test.evil.test', 'xapi.test']) {
    expect(judge(`https://${host}/`, { allowedHosts })).toBe(sentences.host);
    expect(judge(`https://${host}/`, {}, [allowedHosts])).toBe(sentences.host);
  }
  expect(judge('https://API.test./', { allowedHosts })).toBe('api.test');
  expect(judge('https://api.test/', { allowedHosts: [] })).toBe(sentences.host);
});

test('a list of a proxy narrows the list of the operator and never widens it', () => {
  const operator = { allowedHosts: ['api.test', 'b.test'] };
  expect(judge('https://api.test/', operator, [['api.test']])).toBe('api.test');
  expect(judge('https://b.test/', operator, [['api.test']])).toBe(sentences.host);
  expect(judge('https://c.test/', operator, [['c.test']])).toBe(sentences.host);
});

test('a host must be on each list there is: of the operator, the proxy and the application', () => {
  const proxy = ['api.test', 'a.test'];
  const application = ['api.test', 'b.test'];
  expect(judge('https://api.test/', {}, [proxy, application])).toBe('api.test');
  expect(judge('https://api.test/', { allowedHosts: ['b.test'] }, [proxy, application])).toBe(sentences.host);
  expect(judge('https://api.test/', { allowedHosts: ['api.test'] }, [proxy, application])).toBe('api.test');
  for (const host of ['a.test', 'b.test', 'c.test']) {
    expect(judge(`https://${host}/`, {}, [proxy, application])).toBe(sentences.host);
    expect(judge(`https://${host}/`, {}, [application, proxy])).toBe(sentences.host);
  }
  expect(judge('https://api.test/', {}, [proxy, []])).toBe(sentences.host);
  expect(judge('https://api.test/', {}, [])).toBe('api.test');
});

test('this service is no destination, even where a list allows it', () => {
  const policy = { ownHosts: ['vault.test', '*.vault.test'], allowedHosts: ['*.test', 'vault.test'] };
  for (const host of ['vault.test', 'VAULT.test.', 'a.vault.test', 'va%75lt.test']) {
    expect(judge(`https://${host}/`, policy)).toBe(sentences.own);
  }
  expect(judge('https://myvault.test/', policy)).toBe('myvault.test');
});

test('ports outside the list of the operator are refused, and blocked ones also within it', () => {
  const policy = { ports: [443, 8443, 22] };
  expect(judge('https://a.test/', policy)).toBe('a.test');
  expect(judge('https://a.test:8443/', policy)).toBe('a.test');
  expect(judge('https://a.test:8444/', policy)).toBe(sentences.port);
  expect(judge('https://a.test:22/', policy)).toBe(sentences.port);
  expect(judge('https://a.test/', { ports: [8443] })).toBe(sentences.port);
});

test('a name without a dot is one of the operator, at its port alone', () => {
  const policy = { privateHosts: [{ host: 'Payments', port: 8443 }] };
  expect(judge('https://payments:8443/', policy)).toBe('payments');
  expect(judge('https://payments/', policy)).toBe(sentences.not_full);
  expect(judge('https://other:8443/', policy)).toBe(sentences.not_full);
  const whole: EgressPolicy = { ...open, ...policy };
  expect(isPrivateHost(whole, new URL('https://payments:8443/'))).toBe(true);
  expect(isPrivateHost(whole, new URL('https://payments/'))).toBe(false);
  expect(isPrivateHost(whole, new URL('https://a.payments:8443/'))).toBe(false);
});

test('a name that public DNS does not have is one of the operator, at its port alone', () => {
  const policy = { privateHosts: [{ host: 'payments.internal', port: 8443 }] };
  for (const end of ['localhost', 'local', 'internal', 'lan', 'home', 'home.arpa', 'intranet', 'corp']) {
    for (const host of [`a.${end}`, `A.b.${end.toUpperCase()}.`, `payments.${end}`])
      expect(judge(`https://${host}/`, policy), host).toBe(NOT_PUBLIC);
    expect(judge(`https://${end}.example.com/`)).toBe(`${end}.example.com`);
    expect(judge(`https://a.my${end}/`)).toBe(`a.my${end}`);
  }
  expect(judge('https://payments.internal:8443/', policy)).toBe('payments.internal');
});

test('every other rule holds for a host of the operator', () => {
  const policy = {
    privateHosts: [
      { host: 'payments', port: 22 },
      { host: '127.0.0.1', port: 443 },
    ],
  };
  expect(judge('http://payments:22/', policy)).toBe(sentences.not_https);
  expect(judge('https://payments:22/', policy)).toBe(sentences.port);
  expect(judge('https://127.0.0.1/', policy)).toBe(sentences.address);
  const own = { privateHosts: [{ host: 'payments', port: 443 }], ownHosts: ['payments'] };
  expect(judge('https://payments/', own)).toBe(sentences.own);
});

test('lengths end where they are said to: URL, host and label', () => {
  const start = 'https://a.test/';
  expect(judge(start.padEnd(32_768, 'x'))).toBe('a.test');
  expect(judge(start.padEnd(32_769, 'x'))).toBe(sentences.too_long);
  const label = 'a'.repeat(63);
  expect(judge(`https://${label}.test/`)).toBe(`${label}.test`);
  expect(judge(`https://${label}a.test/`)).toBe(sentences.invalid_host);
  const host = `${label}.${label}.${label}.${'a'.repeat(61)}`;
  expect(host).toHaveLength(253);
  expect(judge(`https://${host}/`)).toBe(host);
  expect(judge(`https://${host}./`)).toBe(host);
  expect(judge(`https://${host}a/`)).toBe(sentences.invalid_host);
});

test('the port is that of https where none is written', () => {
  expect(portOf(new URL('https://a.test/'))).toBe(443);
  expect(portOf(new URL('https://a.test:8443/'))).toBe(8443);
});

describe('a server of the developer', () => {
  const local = [
    'https://localhost:9443/',
    'http://localhost/',
    'http://127.0.0.1/',
    'https://127.0.0.1/',
    'https://[::1]/',
    'https://shop.localhost/',
    'https://mock.internal:8443/',
  ];
  const elsewhere = ['http://api.example.com/', 'https://api.example.com:22/', 'https://user@api.example.com/'];

  test('is refused with the variables that open it, in development only', () => {
    const development = { echoFile: undefined };
    for (const url of local) {
      expect(judge(url, { development }), url).toBe(`${judge(url)} ${LOCAL_HINT}`);
      expect(judge(url), url).not.toContain('EGRESS_PRIVATE_HOSTS');
    }
    for (const url of elsewhere) expect(judge(url, { development }), url).toBe(judge(url));
  });

  test('that echoes is allowed at its port, as soon as its file is there, on loopback only', () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-echo-'));
    const policyOf = (more: Record<string, string>): EgressPolicy =>
      loadConfig({ NODE_ENV: 'development', DATA_DIR: dataDir, ...more }).egress;
    const production = {
      NODE_ENV: 'production',
      DATABASE_URL: 'postgresql://db/x',
      MASTER_KEY: Buffer.alloc(32).toString('base64'),
    };
    const policies = {
      loopback: policyOf({}),
      network: policyOf({ HOST: '0.0.0.0', ALLOW_DEV_ON_NETWORK: '1' }),
      production: policyOf(production),
      productionOnLoopback: policyOf({ ...production, HOST: '127.0.0.1' }),
    };
    const allowed = (url: string) =>
      Object.entries(policies).flatMap(([name, policy]) => (judge(url, policy) === 'localhost' ? [name] : []));
    expect(allowed('https://localhost:8443/')).toEqual([]);
    writeFileSync(echoFileIn(dataDir), JSON.stringify({ port: 8443, certificate: 'x' }));
    expect(allowed('https://localhost:8443/')).toEqual(['loopback']);
    expect(allowed('https://localhost:8444/')).toEqual([]);
    writeFileSync(echoFileIn(dataDir), 'no JSON');
    expect(allowed('https://localhost:8443/')).toEqual([]);
    expect(policies.production.development).toBeUndefined();
    rmSync(dataDir, { recursive: true });
  });
});
