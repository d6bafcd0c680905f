// The key provider pkcs11 on a real SoftHSM2: what it refuses at the start, how it recovers, and a vault that moves to it.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { KeyProvider } from '../../src/platform/crypto/key-provider.ts';
import { type Pkcs11Config, pkcs11Providers } from '../../src/platform/crypto/pkcs11/client.ts';
import { KOFFI_VERSION, refusalOfFlags } from '../../src/platform/crypto/pkcs11/token.ts';
import { randomBytesFromKernel } from '../../src/platform/crypto/random.ts';
import { callCommand, type CommandResult } from '../support/command.ts';
import { isAlive, root, spawnServer, untilReady, workersOf } from '../support/process.ts';
import {
  createToken,
  hasSoftHsm,
  libraryProcessesOf,
  type SoftHsm,
  TOKEN_LABEL,
  TOKEN_PIN,
} from '../support/softhsm.ts';
import { startServer, TEST_ROOT_KEY } from '../support/server.ts';

const key = Buffer.alloc(32, 0xaa);
const context = ['tenant key', 'test', 'id'];

test('no PIN is tried where one more wrong PIN would lock the token, or it is locked', () => {
  // Flags of CK_TOKEN_INFO: initialized, a wrong PIN since the last login, the final try, locked.
  expect(refusalOfFlags(0x400n)).toBeUndefined();
  expect(refusalOfFlags(0x1_0400n)).toBeUndefined();
  expect(refusalOfFlags(0x3_0400n)).toContain('no PIN was tried');
  expect(refusalOfFlags(0x4_0400n)).toContain('locked');
});

test('a start without the optional package says how to install it', async () => {
  // Beside no node_modules.
  const directory = mkdtempSync(join(tmpdir(), 'strongroom-hsm-'));
  cpSync(join(root, 'src/platform/crypto/pkcs11'), directory, { recursive: true });
  writeFileSync(join(directory, 'package.json'), '{"type":"module"}');
  const { openToken } = await import(join(directory, 'token.ts'));
  const opening = { module: '/nowhere.so', token: TOKEN_LABEL, keys: ['one'], pin: TOKEN_PIN };
  await expect(openToken(opening)).rejects.toMatchObject({
    kind: 'setup',
    message: expect.stringContaining(`npm install koffi@${KOFFI_VERSION}`),
  });
  const { optionalDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  expect(optionalDependencies.koffi).toBe(KOFFI_VERSION);
  rmSync(directory, { recursive: true });
});

describe.skipIf(!hasSoftHsm)('pkcs11', () => {
  let hsm: SoftHsm;
  const opened: KeyProvider[] = [];
  const open = async (more: Partial<Pkcs11Config> = {}): Promise<[KeyProvider, KeyProvider]> => {
    const providers = await pkcs11Providers(hsm.config(more), randomBytesFromKernel);
    opened.push(...providers);
    return providers as [KeyProvider, KeyProvider];
  };
  const causeOf = (failing: Promise<unknown>) => failing.then(String, (error: Error) => String(error.cause));

  beforeAll(() => {
    hsm = createToken(['one', 'two']);
    hsm.makeKey('open', 'aes:32', '--sensitive', '--extractable', '--usage-decrypt');
    hsm.makeKey('plain', 'aes:32', '--usage-decrypt');
    hsm.makeKey('short', 'aes:16');
    hsm.makeKey('twice');
    hsm.makeKey('twice');
  });
  afterEach(() => opened.splice(0).forEach((provider) => provider.close?.()));
  afterAll(() => hsm.close());

  test.each<[string, Partial<Pkcs11Config>]>([
    ['PKCS11_PIN: the token refused the PIN (CKR_PIN_INCORRECT', { pin: '111222' }],
    [`PKCS11_TOKEN: the library shows no token with the label other. It has: ${TOKEN_LABEL}.`, { token: 'other' }],
    ['PKCS11_KEY: the token has no AES key with the label three', { keys: ['one', 'three'] }],
    ['PKCS11_KEY: the token has several AES keys with the label twice', { keys: ['twice'] }],
    ['PKCS11_KEY: the key open can be read out of the token', { keys: ['open'] }],
    ['PKCS11_KEY: the key plain can be read out of the token', { keys: ['plain'] }],
    ['PKCS11_KEY: the key short must be an AES key of 256 bits', { keys: ['short'] }],
    ['PKCS11_MODULE: the library /nowhere.so cannot be loaded', { module: '/nowhere.so' }],
    ['PKCS11_MODULE: the library /etc/passwd cannot be loaded', { module: '/etc/passwd' }],
    [
      'The key provider pkcs11 failed with CKR_GENERAL_ERROR of C_Initialize',
      { environment: { SOFTHSM2_CONF: '/no' } },
    ],
  ])('a start says: %s', async (text, more) => {
    const failed = await open(more).catch((error: Error) => error);
    expect(failed).toMatchObject({ name: 'StartError', message: expect.stringContaining(text) });
    for (const pin of [TOKEN_PIN, '111222']) expect(String(failed)).not.toContain(pin);
  });

  test('a process that crashes or hangs is replaced, and the call is done', async () => {
    const [one] = await open();
    const wrapped = await one.wrap(key, context);
    for (const signal of ['SIGSEGV', 'SIGSTOP'] as const) {
      const [pid] = libraryProcessesOf(process.pid) as [number];
      process.kill(pid, signal);
      expect(await one.unwrap(wrapped, context)).toEqual(key);
      await expect.poll(() => isAlive(pid), { timeout: 20_000 }).toBe(false);
    }
    expect(one.isAvailable?.()).toBe(true);
    one.close?.();
    await expect.poll(() => libraryProcessesOf(process.pid), { timeout: 20_000 }).toEqual([]);
  });

  test('a token that is away makes calls fail, and calls work when it is back', async () => {
    const [one] = await open();
    const wrapped = await one.wrap(key, context);
    hsm.unplug();
    process.kill(libraryProcessesOf(process.pid)[0] as number, 'SIGKILL');
    expect(await causeOf(one.unwrap(wrapped, context))).toContain('KeyServiceFault: ');
    expect(one.isAvailable?.()).toBe(false);
    hsm.plugIn();
    await expect.poll(() => one.unwrap(wrapped, context).catch(String), { timeout: 10_000 }).toEqual(key);
  });

  test('a PIN that is refused is not tried again by this process', async () => {
    const [one] = await open();
    hsm.changePin(TOKEN_PIN, '444555');
    process.kill(libraryProcessesOf(process.pid)[0] as number, 'SIGKILL');
    const failed = await causeOf(one.wrap(key, context));
    hsm.changePin('444555', TOKEN_PIN);
    expect(failed).toContain('refused the PIN');
    // It would succeed now.
    expect(await causeOf(one.wrap(key, context))).toContain('refused the PIN');
    expect(failed).not.toContain(TOKEN_PIN);
  });

  test('another key with the label of an earlier one is another root key', async () => {
    hsm.makeKey('replaced');
    const [first] = await open({ keys: ['replaced'] });
    const wrapped = await first.wrap(key, context);
    hsm.deleteKey('replaced');
    hsm.makeKey('replaced');
    const [second] = await open({ keys: ['replaced'] });
    expect(second.describe()).not.toEqual(first.describe());
    await expect(second.unwrap(wrapped, context)).rejects.toThrow('a root key that is not at hand');
    for (const pid of libraryProcessesOf(process.pid)) process.kill(pid, 'SIGKILL');
    expect(await causeOf(first.unwrap(wrapped, context))).toContain('has another key with the label replaced');
  });

  test('rotations by commands move a vault from a local key to an HSM, and to its next key', async () => {
    const local = await startServer();
    const made = await local.tokenize({ type: 'token', data: 'kept' });
    const { databaseUrl: url } = local;
    const command = (args: string[], variables: Record<string, string>): Promise<CommandResult> =>
      callCommand(args, { env: { NODE_ENV: 'test', DATABASE_URL: url, ...variables } });
    const both = { ...hsm.variables('one'), MASTER_KEY_PROVIDER: 'pkcs11,local', MASTER_KEY: TEST_ROOT_KEY };
    const rotated = await command(['keys', 'rotate-root'], both);
    expect([rotated.code, rotated.stdout]).toEqual([0, expect.stringMatching(/^Wrapped under pkcs11 [0-9a-f]{32}: /)]);

    const next = await command(['keys', 'rotate-root'], hsm.variables('two,one'));
    expect([next.code, next.stdout]).toEqual([0, expect.stringMatching(/^Wrapped under pkcs11 [0-9a-f]{32}: /)]);
    const [wrong, earlier] = await Promise.all([
      command(['tenants', 'list'], { ...hsm.variables('two'), PKCS11_PIN: '111222' }),
      command(['tenants', 'list'], hsm.variables('one')),
    ]);
    expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining('PKCS11_PIN: the token refused the PIN')]);
    expect([earlier.code, earlier.stderr]).toEqual([
      1,
      expect.stringMatching(/were wrapped under pkcs11 [0-9a-f]{32},/),
    ]);

    const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-hsm-'));
    const pinFile = join(dataDir, 'pin');
    writeFileSync(pinFile, `${TOKEN_PIN}\n`);
    const { PKCS11_PIN: _, ...variables } = hsm.variables('two');
    const server = await spawnServer(dataDir, {
      NODE_ENV: 'test',
      DATABASE_URL: url,
      WORKERS: '2',
      PKCS11_PIN_FILE: pinFile,
      ...variables,
    });
    await untilReady(server);
    const response = await fetch(`${server.base_url}/tokens/${made.body.id}`, {
      headers: { 'svc-api-key': local.tenant.api_key },
    });
    expect(await response.json()).toMatchObject({ data: 'kept' });
    // The second worker starts after the first serves.
    const findLibraries = () => [server.child.pid as number, ...workersOf(server)].flatMap(libraryProcessesOf);
    await expect.poll(findLibraries, { timeout: 30_000 }).toHaveLength(3);
    const libraries = findLibraries();
    await expect.poll(() => server.output(), { timeout: 30_000 }).toContain('"msg":"listening"');
    // A worker that starts with a PIN that is no longer right tries it once, and no other worker does.
    hsm.changePin(TOKEN_PIN, '444555');
    process.kill(workersOf(server)[0] as number, 'SIGKILL');
    await expect.poll(() => server.output(), { timeout: 60_000 }).toContain('"worker_missing"');
    expect(server.output().match(/PKCS11_PIN: the token refused the PIN/g)).toHaveLength(1);
    expect(workersOf(server)).toHaveLength(1);
    hsm.changePin('444555', TOKEN_PIN);
    expect((await fetch(`${server.base_url}/readyz`)).status).toBe(200);
    // What one worker found holds for all.
    process.kill(workersOf(server)[0] as number, 'SIGKILL');
    await expect.poll(() => server.output().match(/"worker_missing"/g), { timeout: 60_000 }).toHaveLength(2);
    expect(workersOf(server)).toEqual([]);
    server.child.kill('SIGTERM');
    await server.exited;
    await expect.poll(() => libraries.filter(isAlive), { timeout: 20_000 }).toEqual([]);
    expect(server.output()).not.toContain(TOKEN_PIN);
    rmSync(dataDir, { recursive: true });
    await local.close();
  });
});
