// What each field accepts: how typed text is written, what is wrong with it, and which data of a token it is.
import type { FieldName, FieldProblem } from '../src/protocol.ts';
import { brandOf, type BrandRules, passesLuhn } from './brands.ts';

export type Kind = {
  autocomplete: string;
  inputmode: 'numeric' | 'text';
  /** Text as it is written in the input. Idempotent. */
  format(text: string): string;
  /** Undefined where the text is complete and right. @param brand of the card. */
  problemOf(text: string, brand: Pick<BrandRules, 'cvc'> | undefined): FieldProblem | undefined;
  /** Only where there is no problem. */
  dataOf(text: string): unknown;
};

const digitsOf = (text: string): string => text.replace(/\D/g, '');

/** Longer numbers are typing errors; they are kept, so that the person sees them. */
const NUMBER_LENGTH_MAX = 24;
const numberLengths = { least: 12, most: 19 };

const formatNumber = (text: string): string => {
  const digits = digitsOf(text).slice(0, NUMBER_LENGTH_MAX);
  const { groups } = brandOf(digits) ?? { groups: [4] };
  let written = '';
  for (let at = 0, group = 0; at < digits.length; group += 1) {
    const size = groups[Math.min(group, groups.length - 1)] as number;
    written += `${at > 0 ? ' ' : ''}${digits.slice(at, at + size)}`;
    at += size;
  }
  return written;
};

const problemOfNumber = (text: string): FieldProblem | undefined => {
  const digits = digitsOf(text);
  const { lengths } = brandOf(digits) ?? {};
  const { least, most } = numberLengths;
  if (digits.length < (lengths?.[0] ?? least)) return 'incomplete';
  const fits = lengths ? lengths.includes(digits.length) : digits.length <= most;
  if (fits && passesLuhn(digits)) return undefined;
  return digits.length < (lengths?.at(-1) ?? most) && !fits ? 'incomplete' : 'invalid';
};

/** Month and year in digits: of `1230`, `12/30`, `12 / 2030`, `12-2030`, and of `2030-12`, as browsers fill in a month. */
const expiryParts = (text: string): { month: string; year: string; isSplit: boolean } => {
  const [, isoYear, isoMonth] = /^\s*(\d{4})-(\d{1,2})\s*$/.exec(text) ?? [];
  if (isoYear !== undefined && isoMonth !== undefined) return { month: isoMonth, year: isoYear, isSplit: true };
  const [, before = '', , after = ''] = /^\D*(\d*)(\D*)(.*)$/s.exec(text) ?? [];
  if (before.length <= 2 && /\d\D/.test(text))
    return { month: before, year: digitsOf(after).slice(0, 4), isSplit: true };
  // No month begins with more than 1.
  const digits = (/^[2-9]/.test(before) ? `0${before}` : before) + digitsOf(after);
  return { month: digits.slice(0, 2), year: digits.slice(2, 6), isSplit: digits.length > 2 };
};

const formatExpiry = (text: string): string => {
  const { month, year, isSplit } = expiryParts(text);
  return isSplit ? `${month.padStart(2, '0')}/${year}` : month;
};

const expiryOf = (text: string): { month: number; year: number } => {
  const { month, year } = expiryParts(text);
  return { month: Number(month), year: Number(year.length === 2 ? `20${year}` : year) };
};

/** No card is valid for so long; a year of this kind is a typing error. */
const YEARS_AHEAD_MAX = 50;

const problemOfExpiry = (text: string): FieldProblem | undefined => {
  const parts = expiryParts(text);
  const { month, year } = expiryOf(text);
  if (parts.month.length === 2 && (month < 1 || month > 12)) return 'invalid';
  if (parts.month.length < 2 || ![2, 4].includes(parts.year.length)) return 'incomplete';
  const now = new Date();
  if (year * 12 + month - 1 < now.getFullYear() * 12 + now.getMonth()) return 'past';
  return year > now.getFullYear() + YEARS_AHEAD_MAX ? 'invalid' : undefined;
};

const problemOfCvc = (text: string, brand: Pick<BrandRules, 'cvc'> | undefined): FieldProblem | undefined => {
  if (text.length < (brand?.cvc ?? 3)) return 'incomplete';
  return text.length > (brand?.cvc ?? 4) ? 'invalid' : undefined;
};

/** Weights 3, 7, 1 over nine digits sum to a multiple of ten. */
const passesAba = (digits: string): boolean =>
  [...digits].reduce((sum, digit, at) => sum + Number(digit) * ([3, 7, 1][at % 3] as number), 0) % 10 === 0;

const problemOfRouting = (text: string): FieldProblem | undefined => {
  if (text.length < 9) return 'incomplete';
  return text.length === 9 && passesAba(text) ? undefined : 'invalid';
};

const unwritten = (text: string): string => text;

/** What a person may type too much is cut here: the vault takes no more. */
const CVC_LENGTH_MAX = 4;
const ROUTING_LENGTH_MAX = 9;
const ACCOUNT_LENGTH_MAX = 17;

const number: Kind = {
  autocomplete: 'cc-number',
  inputmode: 'numeric',
  format: formatNumber,
  problemOf: problemOfNumber,
  dataOf: digitsOf,
};

const digitsKind = (most: number, problemOf: Kind['problemOf'], autocomplete = 'off'): Kind => ({
  autocomplete,
  inputmode: 'numeric',
  format: (text) => digitsOf(text).slice(0, most),
  problemOf,
  dataOf: unwritten,
});

const textKind = (pattern: RegExp, autocomplete = 'off', inputmode: Kind['inputmode'] = 'text'): Kind => ({
  autocomplete,
  inputmode,
  format: unwritten,
  problemOf: (text) => (pattern.test(text.trim()) ? undefined : 'invalid'),
  dataOf: (text) => text.trim(),
});

const routing = digitsKind(ROUTING_LENGTH_MAX, problemOfRouting);
const account = digitsKind(ACCOUNT_LENGTH_MAX, () => undefined);

const kinds: Partial<Record<FieldName, Kind>> = {
  number,
  expiry: {
    autocomplete: 'cc-exp',
    inputmode: 'numeric',
    format: formatExpiry,
    problemOf: problemOfExpiry,
    dataOf: expiryOf,
  },
  cvc: digitsKind(CVC_LENGTH_MAX, problemOfCvc, 'cc-csc'),
  // A name has no number of a card in it.
  name: textKind(/^(?!.*\d(?:[ -]?\d){11}).{1,200}$/, 'cc-name'),
  routing_number: routing,
  account_number: account,
};

/** Kinds of the field `value`, by the type of the token. Other types take any text. */
const kindsOfTypes: Record<string, Kind> = {
  card_number: number,
  us_bank_routing_number: routing,
  us_bank_account_number: digitsKind(ACCOUNT_LENGTH_MAX, (text) => (text.length < 3 ? 'incomplete' : undefined)),
  social_security_number: textKind(/^\d{3}-?\d{2}-?\d{4}$/, 'off', 'numeric'),
  employer_id_number: textKind(/^\d{2}-?\d{7}$/, 'off', 'numeric'),
};

export const kindOf = (field: FieldName, type: string): Kind => kinds[field] ?? kindsOfTypes[type] ?? textKind(/^.+$/s);
