// Exporting tokens by the command line: what the file has, what it leaves out, and that a program of 60 lines decrypts it.
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Decrypter } from 'age-encryption';
import { expect, test } from 'vitest';
import { asCards } from './support/card-numbers.ts';
import { createMove } from './support/move.ts';
import { root } from './support/process.ts';

const { cards, command, get, makeKey, newNumber, path, smallFiles, tenantId } = createMove();

/** Enough tokens for several pages, and for several chunks of age. */
const TOKENS = 1_200;

test('imports the tokens that the tests below export', async () => {
  writeFileSync(path('in.csv'), cards(TOKENS).csv);
  expect((await command('import', path('in.csv'), ...asCards)).code).toBe(0);
});

const exportTo = async (name: string, recipient: string) => {
  const ended = await command('export', path(name), '--to', recipient, '--json');
  expect([ended.code, ended.stderr]).toEqual([0, '']);
  return JSON.parse(ended.stdout) as { tokens: number; sha256: string };
};
const plainOf = async (name: string, identity: string): Promise<string> => {
  const decrypter = new Decrypter();
  decrypter.addIdentity(identity);
  return decrypter.decrypt(readFileSync(path(name)), 'text');
};

test('has every token but no security code, writes a log row, and imports into another tenant', async () => {
  const { identity, recipient } = await makeKey('key');
  const number = newNumber();
  writeFileSync(
    path('in'),
    `{"id":"whole","type":"card","data":{"number":"${number}","cvc":"987"},"metadata":{"order":"4711"},"containers":["/pci/low/"],"expires_at":"2099-01-01T00:00:00Z"}\n`,
  );
  expect((await command('import', path('in'), '--format', 'jsonl')).code).toBe(0);
  const { tokens } = await exportTo('out.age', recipient);
  const lines = (await plainOf('out.age', identity))
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines[0]).toMatchObject({
    manifest: { format: 'strongroom-export', format_version: 1, left_out: ['security codes', 'expired tokens'] },
  });
  expect(lines.at(-1)).toMatchObject({ end: { tokens, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) } });
  expect(lines).toHaveLength(tokens + 2);
  expect(lines.find(({ id }) => id === 'whole')).toMatchObject({
    type: 'card',
    data: { number },
    mask: { number: '{{ data.number | reveal_last: 4 }}' },
    metadata: { order: '4711' },
    containers: ['/pci/low/'],
    fingerprint: expect.stringMatching(/./),
    expires_at: '2099-01-01T00:00:00.000Z',
    created_at: expect.stringMatching(/Z$/),
  });
  expect(JSON.stringify(lines.find(({ id }) => id === 'whole'))).not.toMatch(/"cvc"|"987"/);
  const tenant_id = tenantId();
  const logs = await get(`/logs?entity_id=${tenant_id}&operation=read`);
  expect(logs.body.data).toContainEqual(
    expect.objectContaining({ message: 'Tokens exported', actor_type: 'operator', disclosure: 'revealed' }),
  );
  const other = JSON.parse((await command('tenants', 'create', '--name', 'Other', '--json')).stdout) as {
    tenant_id: string;
  };
  const args = ['--format', 'strongroom', '--decrypt', path('key'), '--tenant', other.tenant_id, '--json'];
  const moved = await command('import', path('out.age'), ...args);
  expect([moved.code, JSON.parse(moved.stdout)]).toMatchObject([0, { created: tokens, faults: 0 }]);
});

test('is decrypted and checked by the program of the guide', async (context) => {
  if (spawnSync('python3', ['-c', 'import cryptography']).status !== 0) {
    console.warn('SKIPPED: python3 with the package cryptography is missing, so decrypt-export.py is not tested.');
    return context.skip();
  }
  const { identity, recipient } = await makeKey('key');
  const tenant_id = tenantId();
  const run = (file: string) =>
    promisify(execFile)('python3', [join(root, 'docs', 'operations', 'decrypt-export.py'), path('key'), path(file)], {
      maxBuffer: 1 << 28,
    });
  const ended = await command('export', path('out.age'), '--to', recipient, '--tenant', tenant_id);
  expect([ended.code, ended.stderr]).toEqual([0, '']);
  expect((await run('out.age')).stdout).toBe(await plainOf('out.age', identity));
  writeFileSync(path('cut.age'), readFileSync(path('out.age')).subarray(0, -20));
  await expect(run('cut.age')).rejects.toThrow();
  writeFileSync(path('cut.age'), readFileSync(path('out.age')).subarray(0, 40));
  await expect(run('cut.age')).rejects.toMatchObject({ stderr: expect.stringContaining('ends within its header') });
  await makeKey('key');
  await expect(run('out.age')).rejects.toMatchObject({ stderr: expect.stringContaining('No key') });
});

test('a full disk ends it, and leaves no file', async () => {
  const { recipient } = await makeKey('key');
  const tenant_id = tenantId();
  const words = [process.execPath, join(root, 'src/cli/main.ts'), 'export', path('out.age'), '--to', recipient];
  const full = spawnSync('bash', ['--norc', '-c', 'ulimit -f 32; exec "$@"', 'bash', ...words, '--tenant', tenant_id], {
    env: smallFiles(),
    encoding: 'utf8',
  });
  expect([full.status, full.stderr]).toEqual([
    1,
    expect.stringMatching(/out\.age\.partial cannot be written: .*\(EFBIG\)/),
  ]);
  expect([existsSync(path('out.age')), existsSync(path('out.age.partial'))]).toEqual([false, false]);
});
