// Amounts in every spelling: what the vault takes for an amount is what each reader of JSON takes for it.
import { expect, test } from 'vitest';
import { toMinorUnits } from '../access/allowance.ts';
import { runAtOnce } from '../../platform/json/slices.ts';
import { createRandom, type Random } from '../../../test/support/random.ts';
import { readCharge } from './amount-rule.ts';

const RUNS = 10_000;

const charge = (body: string, unit: 'minor' | 'major', type = 'application/json') => {
  const request = { headers: [['content-type', type] as [string, string]], body: Buffer.from(body), search: '' };
  const amount = { value: '$.amount', currency: '$.currency', unit };
  return runAtOnce(readCharge(request, request, { amount, request_transform: undefined }));
};

/** A decimal as digits and a power of ten, by arithmetic on text alone. */
type Decimal = { digits: string; power: number };

const minorOf = ({ digits, power }: Decimal, decimals: number): bigint | undefined => {
  const shifted = power + decimals;
  const padded = digits.padStart(Math.max(digits.length, 1 - shifted), '0');
  const cut = shifted >= 0 ? padded.length : padded.length + shifted;
  return /^0*$/.test(padded.slice(cut)) ? BigInt(padded.slice(0, cut) + '0'.repeat(Math.max(0, shifted))) : undefined;
};

/** A number of JSON, with its value. */
const randomNumber = (random: Random): [text: string, value: Decimal] => {
  const digits = String(1 + random(99_999));
  switch (random(4)) {
    case 0:
      return [digits, { digits, power: 0 }];
    case 1: {
      const places = 1 + random(4);
      const padded = digits.padStart(places + 1, '0');
      return [`${padded.slice(0, -places)}.${padded.slice(-places)}`, { digits, power: -places }];
    }
    case 2: {
      const power = random(9) - 4;
      const sign = power < 0 ? '-' : ['', '+'][random(2)];
      return [`${digits}${'eE'[random(2)]}${sign}${Math.abs(power)}`, { digits, power }];
    }
    default:
      return [`${digits}.${'0'.repeat(1 + random(3))}`, { digits, power: 0 }];
  }
};

test(`${RUNS} random numbers of JSON are the amounts that they say, or none`, () => {
  const random = createRandom(1);
  let amounts = 0;
  for (let at = 0; at < RUNS; at += 1) {
    const [text, value] = randomNumber(random);
    const [unit, currency, decimals] = (
      [
        ['minor', 'usd', 0],
        ['major', 'usd', 2],
        ['major', 'jpy', 0],
        ['major', 'kwd', 3],
      ] as const
    )[random(4)] as ['minor' | 'major', string, number];
    const found = charge(`{"amount":${text},"currency":"${currency}"}`, unit);
    const wanted = minorOf(value, decimals);
    const amount = typeof found === 'string' ? undefined : found.amount;
    expect(amount, `${text} ${unit} ${currency}`).toBe(wanted);
    if (wanted !== undefined) amounts += 1;
  }
  expect(amounts).toBeGreaterThan(RUNS / 3);
});

test(`${RUNS} random texts are amounts only as plain decimals`, () => {
  const random = createRandom(2);
  const characters = [
    '0',
    '1',
    '5',
    '9',
    '.',
    ',',
    '-',
    '+',
    'e',
    ' ',
    '_',
    '\u0665',
    '\uff15',
    '\u00b2',
    'x',
    '\n',
    "'",
  ];
  let amounts = 0;
  for (let at = 0; at < RUNS; at += 1) {
    const text = Array.from({ length: 1 + random(4) }, () => characters[random(characters.length)] as string).join('');
    for (const unit of ['minor', 'major'] as const) {
      const form = unit === 'minor' ? /^(?:0|[1-9]\d*)$/ : /^(?:0|[1-9]\d*)(?:\.\d{1,2})?$/;
      const [whole = '', fraction = ''] = text.split('.');
      const decimals = unit === 'minor' ? 0 : 2;
      const wanted = form.test(text) ? BigInt(whole + fraction.padEnd(decimals, '0')) : undefined;
      expect(toMinorUnits(text, unit, 'usd'), JSON.stringify(text)).toBe(wanted);
      const found = charge(
        `amount=${encodeURIComponent(text)}&currency=USD`,
        unit,
        'application/x-www-form-urlencoded',
      );
      expect(typeof found === 'string' ? undefined : found.amount).toBe(wanted);
      if (wanted !== undefined) amounts += 1;
    }
  }
  expect(amounts).toBeGreaterThan(RUNS / 20);
});

test.each([
  ['1e400', undefined],
  ['1e30', 10n ** 30n],
  ['9007199254740993', undefined],
  ['123456789012345678901234567890', undefined],
  ['2000.0000000000000001', undefined],
  ['0', 0n],
  ['-0', 0n],
  ['1e-1', undefined],
  ['0.1e1', 1n],
])('the number %s', (text, wanted) => {
  const found = charge(`{"amount":${text},"currency":"usd"}`, 'minor');
  expect(typeof found === 'string' ? undefined : found.amount).toBe(wanted);
});
