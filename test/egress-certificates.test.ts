// Client certificates: presented only to destinations that ask for one, only by their tenant, and never logged.
import { generateKeyPairSync } from 'node:crypto';
import type { SecureVersion } from 'node:tls';
import { inspect } from 'node:util';
import { afterEach, describe, expect, test } from 'vitest';
import type { ClientCertificate } from '../src/platform/egress/client.ts';
import { EgressFault } from '../src/platform/base/egress-fault.ts';
import { type Certificate, certificateFor, selfSignedCertificateFor, testCa } from './support/certificates.ts';
import { closeAll, delay, faultCode, open, until } from './support/egress.ts';
import type { UpstreamOptions } from './support/upstream.ts';

afterEach(closeAll);

const asClient = ({ cert, key }: Certificate): ClientCertificate => ({ certificate: cert, private_key: key });

const one = certificateFor('one.test');
const two = certificateFor('two.test');
const body = Buffer.from('secret');

/** Refuses clients without a certificate of the test's own authority. */
const demanding = (version?: SecureVersion): UpstreamOptions => ({
  tls: {
    requestCert: true,
    rejectUnauthorized: true,
    ca: testCa,
    ...(version !== undefined && { minVersion: version, maxVersion: version }),
  },
});

/** Requests a certificate, and accepts clients without one. */
const asking: UpstreamOptions = { tls: { requestCert: true, rejectUnauthorized: false, ca: testCa } };

describe.each<SecureVersion>(['TLSv1.2', 'TLSv1.3'])('a destination that demands a certificate, by %s,', (version) => {
  test('gets the one of the request', async () => {
    const { up, exchange } = await open(demanding(version));
    expect((await exchange({ method: 'POST', body, clientCertificate: asClient(one) })).status).toBe(200);
    expect(up.received[0]).toMatchObject({ client: 'DNS:one.test', servername: 'upstream.test' });
  });

  test.each([
    ['none', undefined],
    ['one of an authority that it does not know', asClient(selfSignedCertificateFor('one.test'))],
  ])('and gets %s, ends it, unread and not asked again', async (_, clientCertificate) => {
    const { up, exchange } = await open(demanding(version));
    // By TLS 1.3 we hear of it after the handshake, as an alert or as a connection that is gone.
    expect(['TLS', 'RESET']).toContain(await faultCode(exchange({ method: 'POST', body, clientCertificate })));
    await until(() => up.openCount() === 0);
    await delay(50);
    expect(up.received).toEqual([]);
    expect(up.connectionCount()).toBe(1);
  });
});

test('a connection with a certificate serves no request with another, none, or of another tenant', async () => {
  const { up, exchange } = await open(asking);
  for (let round = 0; round < 2; round += 1) {
    await exchange({ clientCertificate: asClient(one) });
    await exchange();
    await exchange({ clientCertificate: asClient(two) });
    await exchange({ clientCertificate: { certificate: one.cert, private_key: one.key } });
    await exchange({ tenant_id: 'tenant-b', clientCertificate: asClient(one) });
    // Renewed with the same key, as it were.
    await exchange({ clientCertificate: { certificate: one.cert + testCa, private_key: one.key } });
  }
  const clients = ['DNS:one.test', undefined, 'DNS:two.test', 'DNS:one.test', 'DNS:one.test', 'DNS:one.test'];
  expect(up.received.map(({ client }) => client)).toEqual([...clients, ...clients]);
  expect(up.received.map(({ connection }) => connection)).toEqual([1, 2, 3, 1, 4, 5, 1, 2, 3, 1, 4, 5]);
});

test('a certificate without its key opens nothing, not even a connection that the key has opened', async () => {
  const { up, exchange } = await open(asking);
  await exchange({ clientCertificate: asClient(one) });
  const borrowed = { certificate: one.cert, private_key: two.key };
  expect(await faultCode(exchange({ clientCertificate: borrowed }))).toBe('TLS');
  expect(up.received).toHaveLength(1);
});

test('a request that waits for a connection gets none with another certificate', async () => {
  const { up, request, exchange } = await open(asking, {
    tenantLimits: { connections: { ofTenantMax: 1, ofTenantLeast: 1 } },
  });
  const held = await request({ clientCertificate: asClient(one) });
  const waiting = [exchange({ clientCertificate: asClient(two) }), exchange()];
  await delay(20);
  for await (const piece of held.body) expect(piece.byteLength).toBeGreaterThan(0);
  await Promise.all(waiting);
  expect(up.received.map(({ client }) => client)).toEqual(['DNS:one.test', 'DNS:two.test', undefined]);
  expect(up.connectionCount()).toBe(3);
});

test('a destination that asks for no certificate is shown none', async () => {
  const { up, exchange } = await open();
  expect((await exchange({ clientCertificate: asClient(one) })).status).toBe(200);
  expect(up.received[0]?.client).toBe(undefined);
});

describe('a request with a client certificate', () => {
  test('does not trust the authority of its own certificate', async () => {
    const untrusted = selfSignedCertificateFor('upstream.test');
    const { up, exchange } = await open({ tls: untrusted });
    const chain = { certificate: one.cert + untrusted.cert, private_key: one.key };
    expect(await faultCode(exchange({ method: 'POST', body, clientCertificate: chain }))).toBe('TLS');
    expect(up.received).toEqual([]);
  });

  test('speaks TLS 1.2 or newer like everybody else', async () => {
    const old = { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
    const { exchange } = await open({ tls: old });
    expect(await faultCode(exchange({ method: 'POST', body, clientCertificate: asClient(one) }))).toBe('TLS');
  });

  const locked = generateKeyPairSync('ec', {
    namedCurve: 'prime256v1',
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' },
  }).privateKey;

  test.each([
    ['an empty certificate', '', one.key],
    ['an empty key', one.cert, ''],
    ['two empty texts', '', ''],
    ['a certificate that is none', 'canary', one.key],
    ['a key that is none', one.cert, 'canary'],
    ['a key cut short', one.cert, one.key.slice(0, 100)],
    ['a key of another certificate', one.cert, two.key],
    ['a key in place of the certificate', one.key, one.key],
    ['a locked key', one.cert, locked],
    [
      'a chain that ends in junk',
      `${one.cert}-----BEGIN CERTIFICATE-----\ncanary\n-----END CERTIFICATE-----\n`,
      one.key,
    ],
  ])('with %s sends nothing, and no text of it is in the error', async (_, certificate, private_key) => {
    const { up, exchange } = await open(asking);
    const error: unknown = await exchange({ clientCertificate: { certificate, private_key } }).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(EgressFault);
    expect(error).toMatchObject({ code: 'TLS', message: 'The client certificate or its key cannot be used.' });
    const said = inspect(error, { depth: null, showHidden: true });
    for (const line of `${certificate}\n${private_key}`.split('\n')) if (line !== '') expect(said).not.toContain(line);
    expect(up.connectionCount()).toBe(0);
  });
});
