// Importing tokens by the command line, beside a running server: what is stored, what the files say, and bad input.
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Encrypter } from 'age-encryption';
import { createMessage, encrypt, generateKey } from 'openpgp';
import { expect, test } from 'vitest';
import { asCards, cardNumber } from './support/card-numbers.ts';
import { createMove } from './support/move.ts';
import { root } from './support/process.ts';

const { cards, command, faultsOf, get, linesOf, makeKey, newNumber, path, read } = createMove();

const encrypted = async (text: string, recipient: string): Promise<Uint8Array> => {
  const encrypter = new Encrypter();
  encrypter.addRecipient(recipient);
  return encrypter.encrypt(text);
};

test('creates tokens as a create does, under the ids of the source, logged for the operator', async () => {
  const { rows, csv } = cards(3);
  writeFileSync(path('in.csv'), csv);
  const { code, stdout, stderr } = await command('import', path('in.csv'), ...asCards);
  expect([code, stderr, stdout]).toEqual([0, '', 'Rows: 3. Created: 3. Already stored: 0. Refused: 0.\n']);
  const [{ id, number }] = rows as [{ id: string; number: string }];
  const { body } = await get(`/tokens/${id}`);
  expect(body).toMatchObject({
    id,
    type: 'card',
    data: { number: `XXXXXXXXXXXX${number.slice(-4)}`, expiration_month: 9, expiration_year: 2031 },
    containers: ['/pci/high/'],
    fingerprint: expect.stringMatching(/./),
  });
  expect(body).not.toHaveProperty('created_by');
  const logs = await get(`/logs?entity_id=${id}&operation=create`);
  expect(logs.body.data).toEqual([expect.objectContaining({ actor_type: 'operator', message: 'Token created' })]);
  expect(linesOf('in.csv.result')).toEqual([
    'card_id,pan,month,year,note',
    ...rows.map((row) => `${row.id},${row.id},,,"a, b"`),
  ]);
  expect(statSync(path('in.csv.result')).mode & 0o777).toBe(0o600);
  expect(read('in.csv.result.faults')).toBe('');
  expect(existsSync(path('in.csv.result.state'))).toBe(false);
});

test('a second run writes nothing twice, and a file that exists is not overwritten', async () => {
  const { csv } = cards(2);
  writeFileSync(path('in.csv'), csv);
  expect((await command('import', path('in.csv'), ...asCards)).code).toBe(0);
  const again = await command('import', path('in.csv'), ...asCards);
  expect([again.code, again.stdout]).toEqual([2, '']);
  expect(again.stderr).toContain('in.csv.result exists, and is not overwritten.');
  const other = await command('import', path('in.csv'), ...asCards, '--result', path('other'), '--json');
  expect(JSON.parse(other.stdout)).toEqual({ rows: 2, created: 0, existing: 2, faults: 0, dry_run: false });
  expect(read('other')).toBe(read('in.csv.result'));
});

test('broken lines and doubled ids are refused by row, with reasons that have no value', async () => {
  const { rows, csv } = cards(2);
  const [first, second] = rows as [{ id: string; number: string }, { id: string; number: string }];
  const extra = [
    `${first.id},${first.number},9,2031,equal`, // 4: the same again
    `${first.id},${cardNumber(900_001)},9,2031,other`, // 5: the id with another value
    `short,${second.number}`, // 6
    `badcheck,4242424242424241,9,2031,x`, // 7
    `badmonth,${second.number},13,2031,x`, // 8
    `${second.number},${second.number},9,2031,x`, // 9: a card number as id
    `,${second.number},9,2031,x`, // 10
    `odd/id,${cardNumber(900_002)},9,2031,x`, // 11
  ];
  writeFileSync(path('in.csv'), `${csv}${extra.join('\n')}\n`);
  const { code, stdout } = await command('import', path('in.csv'), ...asCards, '--json');
  expect(faultsOf('in.csv.result.faults')).toEqual([
    { row: 5, reason: 'its id belongs to another token' },
    { row: 6, reason: 'it has 2 columns, the header has 5' },
    { row: 7, reason: 'data.number: must have a valid check digit' },
    { row: 8, reason: 'data.expiration_month: must be from 1 to 12' },
    { row: 9, reason: 'its id has the form of a card number' },
    { row: 10, reason: 'it has no id in card_id' },
  ]);
  expect([code, JSON.parse(stdout)]).toEqual([1, { rows: 10, created: 3, existing: 1, faults: 6, dry_run: false }]);
  // A token cannot have the id odd/id: it gets a UUID, the same in each run.
  const derived = linesOf('in.csv.result').at(-1)?.split(',')[1] as string;
  expect(derived).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/);
  expect((await get(`/tokens/${derived}`)).status).toBe(200);
  expect(read('in.csv.result.faults')).not.toContain(second.number);
});

test('broken quotes end it with the line, and no later line is taken for a row', async () => {
  const { rows, csv } = cards(2);
  writeFileSync(
    path('in.csv'),
    `${csv}a "b" c,${cardNumber(900_003)},9,2031,x\nlater,${cardNumber(900_004)},9,2031,x\n`,
  );
  const { code, stderr } = await command('import', path('in.csv'), ...asCards);
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^Line 4 is no CSV \(INVALID_OPENING_QUOTE\)/)]);
  expect(linesOf('in.csv.result')).toHaveLength(3);
  expect((await get(`/tokens/${rows[1]?.id}`)).status).toBe(200);
  expect((await get('/tokens/later')).status).toBe(404);
});

test('wrong options and files end with 2 before anything is written', async () => {
  const { csv } = cards(1);
  writeFileSync(path('in.csv'), csv);
  writeFileSync(path('empty.csv'), '');
  const nowhere = '00000000-0000-4000-8000-000000000000';
  const mapped = (map: string, ...more: string[]) => [
    'import',
    path('in.csv'),
    '--format',
    'csv',
    '--id',
    'card_id',
    '--map',
    map,
    ...more,
  ];
  const wrong: [string[], string][] = [
    [['import', path('in.csv')], 'The option --format is needed.'],
    [['import', path('in.csv'), '--format', 'xml'], 'The option --format must be one of'],
    [['import', path('in.csv'), '--colour', 'red'], '--colour'],
    [['import', path('in.csv'), '--format', 'csv', '--map', 'number=pan'], 'needs the option --id'],
    [['import', path('in.csv'), '--format', 'csv', '--id', 'pan', '--map', 'number=pan'], 'must not be a value too'],
    [
      ['import', path('in.csv'), '--format', 'csv', '--id', 'card_id', '--map', 'number=nope'],
      'The file has no column nope.',
    ],
    [
      mapped('number=pan,exp_month=month'),
      'The option --map: exp_month is not known here; did you mean `expiration_month`?',
    ],
    [mapped('pan=pan'), 'pan is not known here; known are `number`, `expiration_month`, `expiration_year`, `cvc`'],
    [mapped('data=pan'), 'data of the type card is an object'],
    [mapped('number=pan,number=month'), 'names number twice'],
    [mapped('number=pan,expiration=month,expiration_year=year'), 'must name either expiration, or'],
    [mapped('number=pan', '--type', 'card_number'), 'number is not known here; known are `data`'],
    [mapped('number=pan', '--type', 'credit_card'), 'The option --type must be one of token, card,'],
    [mapped('number=pan', '--number-format', 'free'), 'The option --number-format must be strict or loose.'],
    [['import', path('none.csv'), ...asCards], 'none.csv cannot be read (ENOENT)'],
    [['import', path('empty.csv'), ...asCards], 'must begin with a line of column names'],
    [['import', path('in.csv'), ...asCards, '--tenant', nowhere], `There is no tenant ${nowhere}.`],
    [['import', path('in.csv'), ...asCards, '--decrypt', path('none')], 'cannot be read (ENOENT)'],
    [['export', path('out.age'), '--to', 'age1nonsense'], 'must be the public key of an age recipient'],
    [['export', path('in.csv'), '--to', (await makeKey('key')).recipient], 'in.csv exists'],
  ];
  for (const [args, sentence] of wrong) {
    const { code, stdout, stderr } = await command(...args);
    expect([args.slice(2), code, stdout]).toEqual([args.slice(2), 2, '']);
    expect(stderr).toContain(sentence);
    expect(existsSync(path('in.csv.result'))).toBe(false);
  }
});

test('numbers with blanks and dashes, and one column for month and year', async () => {
  const number = newNumber();
  const spaced = number.replace(/(....)(?=.)/g, '$1 ');
  const rows = ['09/31', '9/2031', '2031-09', '09 / 31', '13/31', '0931'].map(
    (exp, at) => `loose_${at},${spaced},${exp}`,
  );
  writeFileSync(path('in.csv'), `card_id,pan,exp\n${rows.join('\n')}\ndashed,${spaced.replaceAll(' ', '-')},09/31\n`);
  const options = ['--format', 'csv', '--id', 'card_id', '--map', 'number=pan,expiration=exp'];
  const strict = await command('import', path('in.csv'), ...options, '--dry-run', '--json');
  expect(JSON.parse(strict.stdout)).toMatchObject({ rows: 7, created: 0, faults: 7 });
  const LOOSE = '--number-format loose takes blanks and dashes';
  expect(faultsOf('in.csv.result.dry-run.faults')[0]).toMatchObject({
    reason: expect.stringMatching(new RegExp(`^data.number: .*; ${LOOSE}$`)),
  });
  const asTwo = [...options.slice(0, 4), '--map', 'number=pan,expiration_month=exp,expiration_year=exp'];
  await command('import', path('in.csv'), ...asTwo, '--dry-run');
  expect(faultsOf('in.csv.result.dry-run.faults')[0]).toMatchObject({
    reason: expect.stringContaining(`; ${LOOSE}; --map expiration=exp takes month and year of one column`),
  });
  const { code, stdout } = await command('import', path('in.csv'), ...options, '--number-format', 'loose', '--json');
  expect([code, JSON.parse(stdout)]).toMatchObject([1, { rows: 7, created: 5, faults: 2 }]);
  expect(faultsOf('in.csv.result.faults')).toEqual([
    { row: 6, reason: 'data.expiration_month: must be from 1 to 12' },
    { row: 7, reason: 'data.expiration: must be a month such as 09/31 or 09/2031' },
  ]);
  for (const id of ['loose_0', 'loose_1', 'loose_2', 'loose_3', 'dashed'])
    expect((await get(`/tokens/${id}`)).body.data).toEqual({
      number: `XXXXXXXXXXXX${number.slice(-4)}`,
      expiration_month: 9,
      expiration_year: 2031,
    });
  expect(linesOf('in.csv.result')[1]).toBe('loose_0,loose_0,');
});

test('a container that may be misspelt has a warning, once, and in a dry run too', async () => {
  const rows = [1, 2].map((at) => `of-container-${at},v,/import-misspelt/`);
  writeFileSync(path('in.csv'), `id,v,box\n${rows.join('\n')}\n`);
  const options = ['--format', 'csv', '--id', 'id', '--type', 'token', '--map', 'data=v,container=box'];
  const warning = 'Warning: The container /import-misspelt/ held no token before, and no access rule names it.';
  for (const more of [['--dry-run'], []])
    expect((await command('import', path('in.csv'), ...options, ...more)).stderr.trim()).toBe(warning);
});

test('a dry run says the same and creates nothing', async () => {
  const { rows, csv } = cards(2);
  writeFileSync(path('in.csv'), `${csv}bad,1,9,2031,x\n`);
  const { code, stdout } = await command('import', path('in.csv'), ...asCards, '--dry-run');
  expect([code, stdout]).toEqual([1, expect.stringMatching(/^Nothing was written\. Rows: 3\. Would create: 2\./)]);
  expect(faultsOf('in.csv.result.dry-run.faults')).toHaveLength(1);
  expect(existsSync(path('in.csv.result'))).toBe(false);
  expect((await get(`/tokens/${rows[0]?.id}`)).status).toBe(404);
});

test('a file encrypted with age is decrypted as it is read, not with a wrong key or when cut off', async () => {
  const { recipient } = await makeKey('key');
  await makeKey('wrong');
  const { csv } = cards(2_000);
  const sealed = await encrypted(csv, recipient);
  writeFileSync(path('in.age'), sealed);
  const wrong = await command('import', path('in.age'), ...asCards, '--decrypt', path('wrong'));
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringMatching(/No identity in .* opens .*in\.age/)]);
  expect(existsSync(path('in.age.result'))).toBe(false);
  writeFileSync(path('cut.age'), sealed.subarray(0, -100));
  const cut = await command('import', path('cut.age'), ...asCards, '--decrypt', path('key'));
  expect([cut.code, cut.stderr]).toEqual([1, expect.stringContaining('cut.age cannot be read to its end')]);
  const whole = await command('import', path('in.age'), ...asCards, '--decrypt', path('key'), '--json');
  expect(JSON.parse(whole.stdout)).toMatchObject({ rows: 2_000, faults: 0 });
});

test('a file of GnuPG is decrypted with a locked key and its passphrase', async () => {
  // GnuPG 2.2.40 made the key and the file: three cards, compressed, with a checksum at the end.
  const made = (name: string): string => join(root, 'test/fixtures/openpgp', name);
  writeFileSync(path('right'), 'secret\n');
  writeFileSync(path('wrong'), 'Secret\n');
  const run = (...args: string[]) =>
    command('import', made('cards.csv.asc'), ...asCards, '--result', path('out'), '--decrypt', ...args);
  const unlocked = await run(made('key.asc'), '--passphrase-file', path('wrong'));
  expect([unlocked.code, unlocked.stderr]).toEqual([2, expect.stringMatching(/passphrase does not unlock .*key\.asc/)]);
  const silent = await run(made('key.asc'));
  expect([silent.code, silent.stderr]).toEqual([2, expect.stringContaining('by --passphrase-file FILE')]);
  expect(existsSync(path('out'))).toBe(false);
  const { code, stdout } = await run(made('key.asc'), '--passphrase-file', path('right'), '--json');
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { rows: 3, created: 3 }]);
  expect((await get('/tokens/gpg_2')).body).toMatchObject({ data: { number: 'XXXXXXXXXXXX1027' } });
});

test('a file of OpenPGP that was changed or cut off is refused before its first row', async () => {
  const keyOf = async (name: string) => {
    const { privateKey } = await generateKey({ userIDs: [{ name }], format: 'object' });
    writeFileSync(path(name), privateKey.armor());
    return privateKey.toPublic();
  };
  const encryptionKeys = await keyOf('key');
  await keyOf('other');
  const { rows, csv } = cards(2_000);
  const sealed = await encrypt({ message: await createMessage({ text: csv }), encryptionKeys, format: 'binary' });
  // A change in the middle changes a few bytes of plaintext there: without the checksum, the row would be taken.
  const changed = Uint8Array.from(sealed);
  changed[sealed.length >> 1] = (sealed[sealed.length >> 1] as number) ^ 1;
  const bad: [string, Uint8Array, string, string][] = [
    ['changed', changed, 'key', 'was changed or cut off'],
    ['cut', sealed.subarray(0, -100), 'key', 'was changed or cut off'],
    ['foreign', sealed, 'other', 'No key in'],
    ['none', Buffer.from(csv), 'key', 'is not a file that was encrypted with OpenPGP'],
  ];
  for (const [name, bytes, key, sentence] of bad) {
    writeFileSync(path(name), bytes);
    const { code, stderr } = await command('import', path(name), ...asCards, '--decrypt', path(key));
    expect([name, code, stderr]).toEqual([name, 2, expect.stringContaining(sentence)]);
    expect(existsSync(path(`${name}.result`))).toBe(false);
  }
  expect((await get(`/tokens/${rows[0]?.id}`)).status).toBe(404);
  writeFileSync(path('whole'), sealed);
  const whole = await command('import', path('whole'), ...asCards, '--decrypt', path('key'), '--json');
  expect(JSON.parse(whole.stdout)).toMatchObject({ rows: 2_000, created: 2_000 });
});

test.for([
  {
    format: 'jsonl',
    input: (n: string) =>
      `{"id":"jsonl_1","type":"card_number","data":"${n}"}\n{"id":"jsonl_2","data":1,"data":2}\nnot json\n{"id":"jsonl_3","type":"token","data":5,"colour":"red"}\n`,
    id: 'jsonl_1',
    result: { id: 'jsonl_1', type: 'card_number', data: 'jsonl_1' },
    faults: [2, 3, 4],
  },
  {
    format: 'stripe',
    input: (n: string) =>
      `{"customers":[{"id":"cus_1","email":"a@example.com","cards":[{"id":"card_json1","number":"${n}","exp_month":9,"exp_year":2031,"name":"Ada [}"},{"id":"card_json2","exp_month":9}]}]}`,
    id: 'card_json1',
    result: { id: 'cus_1', card: { id: 'card_json1', number: 'card_json1', exp_month: null } },
    faults: [2],
  },
  {
    format: 'spreedly',
    input: (n: string) =>
      `{"payment_methods":[{"token":"SpReEdLy","number":"${n}","month":9,"year":2031,"full_name":"Ada"}]}`,
    id: 'SpReEdLy',
    result: { token: 'SpReEdLy', number: 'SpReEdLy', full_name: null },
    faults: [],
  },
  {
    format: 'basis-theory',
    input: (n: string) =>
      `{"id":"c06d0789-0a38-40be-b7cc-c28a718f76f1","tenant_id":"x","type":"card","data":{"number":"${n}"},"fingerprint":"AAA","created_at":"2024-01-01T00:00:00Z"}\n`,
    id: 'c06d0789-0a38-40be-b7cc-c28a718f76f1',
    result: { data: 'c06d0789-0a38-40be-b7cc-c28a718f76f1', type: 'card' },
    faults: [],
  },
])('reads $format', async ({ format, input, id, result, faults }) => {
  const number = newNumber();
  writeFileSync(path('in'), input(number));
  const { stdout } = await command('import', path('in'), '--format', format, '--json');
  expect(JSON.parse(stdout)).toMatchObject({ created: 1, faults: faults.length });
  expect(JSON.parse(linesOf('in.result')[0] as string)).toMatchObject(result);
  expect(read('in.result')).not.toContain(number);
  expect(faultsOf('in.result.faults')).toEqual(faults.map((row) => expect.objectContaining({ row })));
  expect((await get(`/tokens/${id}`)).status).toBe(200);
});

test("reads Stripe's CSV, whose columns are in upper case", async () => {
  const number = newNumber();
  const header = 'DESCRIPTION,ID,CARD.EXP_MONTH,CARD.EXP_YEAR,CARD.ID,CARD.NAME,CARD.NUMBER';
  writeFileSync(path('in'), `\uFEFF${header}\r\nx,cus_9,9,2031,card_csv9,Ada,${number}\r\n`);
  expect((await command('import', path('in'), '--format', 'stripe')).code).toBe(0);
  expect(linesOf('in.result')).toEqual([header, 'x,cus_9,,,card_csv9,,card_csv9']);
  expect((await get('/tokens/card_csv9')).body).toMatchObject({ metadata: { stripe_customer: 'cus_9' } });
});
