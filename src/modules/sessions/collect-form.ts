// The form of the page for redirects: the fields of each kind of data, and what a person may type in them.
import { CODE_TYPE } from './sessions.ts';
import type { Json } from '../../platform/json/json.ts';

export type Field = {
  name: string;
  label: string;
  hint?: string;
  autocomplete: string;
  inputmode: 'numeric' | 'text';
};

const fieldsOfCard: readonly Field[] = [
  { name: 'number', label: 'Card number', autocomplete: 'cc-number', inputmode: 'numeric' },
  { name: 'expiry', label: 'Expiry date', hint: 'MM/YY', autocomplete: 'cc-exp', inputmode: 'numeric' },
  { name: 'cvc', label: 'Security code', hint: '3 or 4 digits', autocomplete: 'cc-csc', inputmode: 'numeric' },
];

const fieldsOfBank: readonly Field[] = [
  { name: 'routing_number', label: 'Routing number', autocomplete: 'off', inputmode: 'numeric' },
  { name: 'account_number', label: 'Account number', autocomplete: 'off', inputmode: 'numeric' },
];

const labels: Record<string, string> = {
  card_number: 'Card number',
  us_bank_account_number: 'Account number',
  us_bank_routing_number: 'Routing number',
  social_security_number: 'Social security number',
  employer_id_number: 'Employer identification number',
};

/** @param type the name of a token type, or that of a session for one card. */
export const fieldsOf = (type: string): readonly Field[] => {
  if (type === CODE_TYPE) return fieldsOfCard.filter(({ name }) => name === 'cvc');
  if (type === 'card') return fieldsOfCard;
  if (type === 'bank') return fieldsOfBank;
  return [{ name: 'value', label: labels[type] ?? 'Value', autocomplete: 'off', inputmode: 'text' }];
};

/** Digits as people type them, in groups. Other texts stay as they are, and are refused by the type. */
const digitsOf = (typed: string): string => typed.replace(/[\s-]/g, '');

/** `MM/YY` or `MM/YYYY`. Two digits are years of this century. */
const expiryOf = (typed: string): { expiration_month: number; expiration_year: number } | undefined => {
  const [, month, year] = /^\s*(\d{1,2})\s*[/ -]?\s*(\d{2}|\d{4})\s*$/.exec(typed) ?? [];
  if (month === undefined || year === undefined || Number(month) < 1 || Number(month) > 12) return undefined;
  return { expiration_month: Number(month), expiration_year: Number(year.length === 2 ? `20${year}` : year) };
};

export type Typed = Record<string, string>;

/** What was typed: the data of a token, or a problem beside each field that is not right. */
export type Read = { data: Json } | { problems: Record<string, string> };

const INVALID: Record<string, string> = {
  number: 'Check the card number.',
  expiry: 'Check the expiry date.',
  cvc: 'Check the security code.',
  routing_number: 'Check the routing number.',
  account_number: 'Check the account number.',
  value: 'Check the value.',
};

const problemsAt = (names: Iterable<string>): Read => ({
  problems: Object.fromEntries([...new Set(names)].map((name) => [name, INVALID[name] ?? 'Check this.'])),
});

/** The security code of one card. @param length of the code, where the brand of the card is known. */
export const readCode = (typed: Typed, length: number | undefined): Read => {
  const code = digitsOf(typed['cvc'] ?? '');
  const isRight = /^[0-9]{3,4}$/.test(code) && (length === undefined || code.length === length);
  return isRight ? { data: code } : problemsAt(['cvc']);
};

/** @param now cards of past months are refused. @param check the rules of the token type: the attributes that are wrong. */
export const readForm = (type: string, typed: Typed, now: Date, check: (data: Json) => readonly string[]): Read => {
  const one = (name: string): string => typed[name] ?? '';
  if (type === 'card') {
    const expiry = expiryOf(one('expiry'));
    const data = { number: digitsOf(one('number')), ...expiry, cvc: one('cvc').trim() };
    const isPast =
      expiry !== undefined &&
      expiry.expiration_year * 12 + expiry.expiration_month < now.getUTCFullYear() * 12 + now.getUTCMonth() + 1;
    const wrong = check(data).map((name) => (name.startsWith('expiration') ? 'expiry' : name));
    if (!expiry || isPast) wrong.push('expiry');
    return wrong.length > 0 ? problemsAt(wrong) : { data };
  }
  const data =
    type === 'bank'
      ? { routing_number: digitsOf(one('routing_number')), account_number: digitsOf(one('account_number')) }
      : one('value').trim();
  const wrong = data === '' ? ['value'] : check(data);
  return wrong.length > 0 ? problemsAt(wrong.map((name) => (name === '' ? 'value' : name))) : { data };
};
