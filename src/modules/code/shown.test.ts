// What pages show of a result: never the digits of a card.
import { describe, expect, test } from 'vitest';
import { maskedText, shownText, shownValue } from './shown.ts';

describe('What is shown of a result', () => {
  test.each([
    ['4242424242424242', 'XXXXXXXXXXXX4242'],
    ['card 4242 4242 4242 4242.', 'card XXXX XXXX XXXX 4242.'],
    ['4242-4242-4242-4242', 'XXXX-XXXX-XXXX-4242'],
    ['378282246310005 and 4111111111111111', 'XXXXXXXXXXX0005 and XXXXXXXXXXXX1111'],
    ['order 123456789012', 'order 123456789012'],
  ])('%s is shown as %s', (text, shown) => {
    expect(maskedText(text)).toBe(shown);
  });

  test('an id is shown whole, and a card beside it is not', () => {
    const id = '12345678-1234-4234-8234-123456789012';
    expect(maskedText(`${id} 4242424242424242`)).toBe(`${id} XXXXXXXXXXXX4242`);
    expect(maskedText(`4242424242424242 ${id}`)).toBe(`XXXXXXXXXXXX4242 ${id}`);
  });

  test('a number, a text and a name are masked wherever they stand in a value', () => {
    const { text } = shownValue({ a: [4242424242424242], b: { c: '4242424242424242' }, '4242424242424242': true });
    expect(text).not.toContain('42424242');
    expect(text.match(/XXXXXXXXXXXX4242/g)).toHaveLength(3);
  });

  test('a security code is masked by its name, and by nothing else', () => {
    const { text } = shownValue({
      cvc: '737',
      card: { CVV2: 737, security_code: '737' },
      cvc_result: 'M',
      amount: 737,
    });
    expect(JSON.parse(text)).toEqual({
      cvc: 'XXX',
      card: { CVV2: 'XXX', security_code: 'XXX' },
      cvc_result: 'M',
      amount: 737,
    });
  });

  test('is cut behind what can be read, never in the middle of digits that would be masked', () => {
    const { text, isCut } = shownText(`${'x'.repeat(49_990)}4242424242424242`);
    expect(isCut).toBe(true);
    expect(text).toHaveLength(50_000);
    expect(text.endsWith('XXXXXXXXXX')).toBe(true);
  });

  test('nothing is shown of nothing', () => {
    expect(shownValue(undefined)).toEqual({ text: '', isCut: false });
  });
});
