// A key of metadata that a create accepts can be searched, filtered, shown, changed, exported and imported.
import { writeFileSync, readFileSync } from 'node:fs';
import { Decrypter } from 'age-encryption';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createMove } from './support/move.ts';

const { command, linesOf, makeKey, path, request, tenantId } = createMove();

/** Keys of other systems, and generated ones. */
const keys = [
  'order id',
  'shop:order',
  'größe',
  '顧客',
  '@type',
  'a.',
  '-a',
  '"quoted"',
  'back\\slash',
  'a,b=c',
  'constructor',
  '{{ data }}',
  'metadata.x',
  'می\u200cخواهم',
  '😀',
  'x'.repeat(150),
  ...fc
    .sample(fc.string({ unit: 'binary', minLength: 1, maxLength: 40 }), { numRuns: 200, seed: 97 })
    .filter((key) => key === key.trim() && !/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(key)),
];
const quote = (text: string): string => `"${text.replaceAll(/["\\]/g, '\\$&')}"`;

test('keys of every kind are searched, filtered, shown and exported', async () => {
  expect(keys.length).toBeGreaterThan(60);
  const made = new Map<string, string>();
  for (const key of keys) {
    const { status, body } = await request('POST', '/tokens', { data: 'x', metadata: { [key]: 'value' } });
    expect([status, body.metadata], JSON.stringify(key)).toEqual([201, { [key]: 'value' }]);
    made.set(body.id, key);
    const read = await request('GET', `/tokens/${body.id}`);
    expect(read.body.metadata).toEqual({ [key]: 'value' });
    const filter = new URLSearchParams({ [`metadata.${key}`]: 'VALUE' }).toString();
    const filtered = await request('GET', `/tokens?${filter}`);
    expect(filtered.body.data.map(({ id }: { id: string }) => id)).toEqual([body.id]);
    const query = `metadata.${quote(key)}:value`;
    const found = await request('POST', '/tokens/search', { query });
    expect(
      found.body.data?.map(({ id }: { id: string }) => id),
      found.text,
    ).toEqual([body.id]);
  }
  const { identity, recipient } = await makeKey('key');
  expect((await command('export', path('out.age'), '--to', recipient)).code).toBe(0);
  const decrypter = new Decrypter();
  decrypter.addIdentity(identity);
  const lines = (await decrypter.decrypt(readFileSync(path('out.age')), 'text')).trimEnd().split('\n');
  const exported = lines.map((line) => JSON.parse(line)).filter(({ id }) => made.has(id));
  expect(exported.map(({ metadata }) => metadata)).toHaveLength(made.size);
  for (const { id, metadata } of exported) expect(metadata).toEqual({ [made.get(id) as string]: 'value' });
});

test('letters of any script need no quotation marks in a search, and the refusal names them', async () => {
  const { body } = await request('POST', '/tokens', { data: 'x', metadata: { größe_7: 'XL' } });
  const found = await request('POST', '/tokens/search', { query: 'metadata.größe_7:xl' });
  expect(found.body.data).toMatchObject([{ id: body.id }]);
  const refused = await request('POST', '/tokens/search', { query: 'metadata.order id:x' });
  expect([refused.status, refused.body.errors]).toEqual([
    400,
    { query: [expect.stringContaining('between quotation marks: metadata."order id":x')] },
  ]);
});

test('`import --map` names such keys and columns between quotation marks', async () => {
  writeFileSync(path('in.csv'), 'id,name,"a,b=c","order ""x"""\nimported-1,Ada,1,2\n');
  const map = String.raw`data=name,metadata."a,b=c"="a,b=c",metadata."order \"x\""="order \"x\""`;
  const options = ['--format', 'csv', '--id', 'id', '--type', 'token', '--map', map, '--tenant', tenantId()];
  const ended = await command('import', path('in.csv'), ...options);
  expect([ended.code, ended.stderr]).toEqual([0, '']);
  const { body } = await request('GET', '/tokens/imported-1');
  expect(body.metadata).toEqual({ 'a,b=c': '1', 'order "x"': '2' });
  for (const wrong of ['data=name,', 'data=name,metadata.="x"', 'data', 'data=name,metadata." x"=name']) {
    const refused = await command(
      'import',
      path('in.csv'),
      '--format',
      'csv',
      '--id',
      'id',
      '--type',
      'token',
      '--map',
      wrong,
    );
    expect([wrong, refused.code]).toEqual([wrong, 2]);
  }
  expect(linesOf('in.csv')).toHaveLength(2);
});
