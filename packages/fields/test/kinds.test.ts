// What each field accepts and how it writes it: brands, lengths, check digits, dates.
import { describe, expect, test } from 'vitest';
import { brandOf } from '../frame/brands.ts';
import { kindOf } from '../frame/kinds.ts';

const number = kindOf('number', 'card');
const expiry = kindOf('expiry', 'card');
const cvc = kindOf('cvc', 'card');

/** Numbers that brands and networks publish for tests, or with a check digit of ours. */
const cards: [string, string, string][] = [
  ['visa', '4242424242424242', '4242 4242 4242 4242'],
  ['visa', '4222222222222', '4222 2222 2222 2'],
  ['visa', '4000000000000000006', '4000 0000 0000 0000 006'],
  ['mastercard', '5555555555554444', '5555 5555 5555 4444'],
  ['mastercard', '2223003122003222', '2223 0031 2200 3222'],
  ['mastercard', '2720990000000007', '2720 9900 0000 0007'],
  ['amex', '378282246310005', '3782 822463 10005'],
  ['discover', '6011111111111117', '6011 1111 1111 1117'],
  ['jcb', '3530111333300000', '3530 1113 3330 0000'],
  ['diners', '30569309025904', '3056 930902 5904'],
  ['unionpay', '6200000000000005', '6200 0000 0000 0005'],
  ['unionpay', '6205500000000000004', '6205 5000 0000 0000 004'],
  ['maestro', '6759649826438453', '6759 6498 2643 8453'],
  ['maestro', '501800000009', '5018 0000 0009'],
  ['rupay', '6521527438234561', ''],
  ['mir', '2200000000000004', '2200 0000 0000 0004'],
  ['elo', '6362970000457013', '6362 9700 0045 7013'],
];

/** With the last digit that ISO/IEC 7812-1 wants. */
const checked = (digits: string): string => {
  const stem = digits.slice(0, -1);
  return Array.from({ length: 10 }, (_, digit) => `${stem}${digit}`).find(
    (each) => number.problemOf(each, undefined) === undefined,
  ) as string;
};

describe.each(cards)('%s %s', (brand, digits, written) => {
  const whole = checked(digits);

  test('is recognised, written in groups, and complete', () => {
    expect(brandOf(whole)?.name).toBe(brand);
    if (written !== '') expect(number.format(digits)).toBe(written);
    expect(number.format(number.format(whole))).toBe(number.format(whole));
    expect(number.problemOf(number.format(whole), undefined)).toBeUndefined();
    expect(number.dataOf(number.format(whole))).toBe(whole);
  });

  test('is invalid with another check digit, and incomplete without it', () => {
    const wrong = whole.slice(0, -1) + ((Number(whole.at(-1)) + 1) % 10);
    expect(number.problemOf(wrong, undefined)).toBe('invalid');
    if (!brandOf(whole)?.lengths.includes(whole.length - 1))
      expect(number.problemOf(whole.slice(0, -1), undefined)).toBe('incomplete');
  });
});

test('published numbers pass as they are', () => {
  for (const [, digits] of cards.filter(([, , written]) => written !== ''))
    expect([digits, number.problemOf(digits, undefined)]).toEqual([digits, undefined]);
});

test('spaces, dashes and other characters of pasted numbers are left out', () => {
  expect(number.format(' 4242-4242\u00a04242–4242 ')).toBe('4242 4242 4242 4242');
  expect(number.format('4000000000000000006')).toBe('4000 0000 0000 0000 006');
});

test('a number that is too long stays visible, and is invalid', () => {
  expect(number.problemOf('42424242424242424242', undefined)).toBe('invalid');
  expect(number.problemOf('378282246310005 0', undefined)).toBe('invalid');
  expect(number.format('1'.repeat(30))).toHaveLength(24 + 5);
});

test.each([
  ['1', '1'],
  ['12', '12'],
  ['123', '12/3'],
  ['1230', '12/30'],
  ['4', '04'],
  ['430', '04/30'],
  ['4/', '04/'],
  ['4/30', '04/30'],
  ['12/', '12/'],
  ['12/30', '12/30'],
  ['12 / 30', '12/30'],
  ['12-30', '12/30'],
  ['12/2030', '12/2030'],
  ['122030', '12/2030'],
  ['2030-12', '12/2030'],
  ['2030-02', '02/2030'],
  ['ab', ''],
])('the expiry %s is written %s', (typed, written) => {
  expect(expiry.format(typed)).toBe(written);
  expect(expiry.format(written)).toBe(written);
});

test('the expiry is a month that is not over', () => {
  const now = new Date();
  const month = `${now.getMonth() + 1}`.padStart(2, '0');
  const last = new Date(now.getFullYear(), now.getMonth() - 1, 1);
  const lastMonth = `${last.getMonth() + 1}`.padStart(2, '0');
  const problemOf = (text: string) => expiry.problemOf(text, undefined);
  expect(problemOf(`${month}/${now.getFullYear()}`)).toBeUndefined();
  expect(problemOf(`${month}/${now.getFullYear() % 100}`)).toBeUndefined();
  expect(problemOf(`${lastMonth}/${last.getFullYear()}`)).toBe('past');
  expect(problemOf(`12/${now.getFullYear() + 51}`)).toBe('invalid');
  expect(['', '1', '12', '12/', '12/3', '12/203'].map(problemOf)).toEqual(Array(6).fill('incomplete'));
  expect(['00/30', '13', '13/30'].map(problemOf)).toEqual(Array(3).fill('invalid'));
  expect(expiry.dataOf('02/2031')).toEqual({ month: 2, year: 2031 });
  expect(expiry.dataOf('02/31')).toEqual({ month: 2, year: 2031 });
});

test('the security code has the length of the brand', () => {
  const amex = brandOf('37');
  const visa = brandOf('4');
  expect(['12', '123', '1234'].map((text) => cvc.problemOf(text, undefined))).toEqual([
    'incomplete',
    undefined,
    undefined,
  ]);
  expect(['12', '123', '1234'].map((text) => cvc.problemOf(text, visa))).toEqual(['incomplete', undefined, 'invalid']);
  expect(['123', '1234'].map((text) => cvc.problemOf(text, amex))).toEqual(['incomplete', undefined]);
  expect(cvc.format('12 34 5')).toBe('1234');
});

test('a name is no card number', () => {
  const name = kindOf('name', 'card');
  expect(name.problemOf('Ada Lovelace 2nd', undefined)).toBeUndefined();
  for (const typed of ['4242424242424242', '4242 4242 4242 4242', 'x 4242-4242-4242-4242', 'a'.repeat(201)])
    expect([typed, name.problemOf(typed, undefined)]).toEqual([typed, 'invalid']);
});

test('other values are checked as the vault does', () => {
  const routing = kindOf('routing_number', 'bank');
  expect(['110000000', '110000001', '11'].map((text) => routing.problemOf(text, undefined))).toEqual([
    undefined,
    'invalid',
    'incomplete',
  ]);
  const ssn = kindOf('value', 'social_security_number');
  expect(['123-45-6789', '123456789', '123'].map((text) => ssn.problemOf(text, undefined))).toEqual([
    undefined,
    undefined,
    'invalid',
  ]);
  expect(kindOf('value', 'card_number')).toBe(number);
  expect(kindOf('value', 'token').problemOf('anything\nat all', undefined)).toBeUndefined();
});
