// `npm run demo`: a vault, a shop whose page collects a card in frames of the vault, and a processor that the shop charges
// through the vault's proxy. Everything listens on loopback. DEMO_PORT and DATA_DIR name other places.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as pause } from 'node:timers/promises';
import { testCa } from '../test/support/certificates.ts';
import { startProcessor } from './processor.ts';
import { startShop } from './shop.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const START_MS = 90_000;
const { DEMO_PORT = '3000' } = process.env;
const dataDir = resolve(process.env['DATA_DIR'] ?? join(root, 'data', 'demo'));

const freePort = async (): Promise<number> => {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
};

/** A development server of its own, which may reach the processor and trusts its certificate. */
const startVault = async (chargeUrl: string): Promise<{ child: ChildProcess; url: string; apiKey: string }> => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const ca = join(dataDir, 'processor-ca.pem');
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  writeFileSync(ca, testCa);
  const child = spawn('sh', ['bin/start.sh'], {
    cwd: root,
    env: {
      ...process.env,
      NODE_ENV: 'development',
      HOST: '127.0.0.1',
      PORT: String(port),
      DATA_DIR: dataDir,
      LOG_LEVEL: 'warn',
      EGRESS_PRIVATE_HOSTS: new URL(chargeUrl).host,
      NODE_EXTRA_CA_CERTS: ca,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  for (const deadline = Date.now() + START_MS; ; await pause(100)) {
    const isReady = await fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) break;
    if (child.exitCode !== null) throw new Error(`the vault ended with exit code ${child.exitCode}`);
    if (Date.now() > deadline) throw new Error(`the vault was not ready after ${START_MS / 1000} seconds`);
  }
  const { api_key } = JSON.parse(readFileSync(join(dataDir, 'dev-credentials.json'), 'utf8'));
  return { child, url, apiKey: api_key };
};

/** The shop's key: sessions, and the use of tokens in the proxy. It reads masks, and no value. */
const createShopKey = async (url: string, apiKey: string): Promise<string> => {
  const response = await fetch(`${url}/applications`, {
    method: 'POST',
    headers: { 'svc-api-key': apiKey, 'content-type': 'application/json' },
    body: JSON.stringify({
      name: 'Demo shop',
      type: 'private',
      permissions: ['session:create', 'session:read', 'token:create', 'token:read', 'token:update', 'token:use'],
    }),
  });
  const made = (await response.json()) as { key: string };
  if (!response.ok) throw new Error(`the shop got no key: ${JSON.stringify(made)}`);
  return made.key;
};

const processor = await startProcessor(0);
console.log(`Starting a vault in ${dataDir} ...`);
const vault = await startVault(processor.chargeUrl);
const stop = (): void => {
  vault.child.kill('SIGTERM');
};
process.once('SIGINT', stop);
process.once('SIGTERM', stop);
vault.child.once('exit', (code) => process.exit(code ?? 1));
try {
  const shop = await startShop({
    port: Number(DEMO_PORT),
    vaultUrl: vault.url,
    apiKey: await createShopKey(vault.url, vault.apiKey),
    chargeUrl: processor.chargeUrl,
    processorPageUrl: processor.pageUrl,
  });
  console.log(`
  The shop:  ${shop.url}
  Pay with 4242 4242 4242 4242, any date ahead and any code. Load the page again: the card on file needs a code only.

  The vault:    ${vault.url}, with the guides at ${vault.url}/guides
  Its key:      ${vault.apiKey}
  The console:  ${vault.url}/console. To join, in a second terminal:
                DATA_DIR=${dataDir} npm run -s strongroom -- admin owner invite --email you@example.com
  What you see there is what the shop did. All is kept in ${dataDir}. Ctrl-C stops it.
`);
} catch (error) {
  const { code, message } = error as NodeJS.ErrnoException;
  console.error(
    code === 'EADDRINUSE'
      ? `Port ${DEMO_PORT} is in use. Take another one: DEMO_PORT=3001 npm run demo`
      : `The demo did not start: ${message}`,
  );
  stop();
}
