// The destination of `npm run echo`: a development server reaches it without a restart, and trusts its certificate only.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { echoFileIn, LOCAL_HINT } from '../src/platform/config/dev-destination.ts';
import { selfSignedCertificateFor } from './support/certificates.ts';
import { startServer, type TestServer } from './support/server.ts';
import { startUpstream, type Upstream } from './support/upstream.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-local-'));
const certificate = selfSignedCertificateFor('localhost');
let server: TestServer;
let upstream: Upstream;

beforeAll(async () => {
  server = await startServer({ DATA_DIR: dataDir });
  upstream = await startUpstream({ tls: certificate });
});
afterAll(async () => {
  await server.close();
  await upstream.close();
  rmSync(dataDir, { recursive: true, force: true });
});

const ask = () =>
  server.request('POST', '/proxy/charges', {
    headers: { 'svc-proxy-url': `https://localhost:${upstream.port}`, 'content-type': 'application/json' },
    json: { amount: 1250 },
  });

test('a local destination is refused, then reached with its own certificate only', async () => {
  const refused = await ask();
  expect([refused.status, refused.body.proxy_error.errors]).toEqual([
    400,
    { 'SVC-PROXY-URL': [`The destination must be named by a full host name. ${LOCAL_HINT}`] },
  ]);

  const write = (cert: string) =>
    writeFileSync(echoFileIn(dataDir), JSON.stringify({ port: upstream.port, certificate: cert }));
  write(selfSignedCertificateFor('localhost').cert);
  const untrusted = await ask();
  expect([untrusted.status, untrusted.body.proxy_error.detail]).toEqual([
    502,
    `No secure connection to the destination could be made. ${LOCAL_HINT}`,
  ]);
  expect(upstream.received).toEqual([]);

  write(certificate.cert);
  expect((await ask()).status).toBe(200);
  expect(upstream.received.map(({ url }) => url)).toEqual(['/charges']);
});
