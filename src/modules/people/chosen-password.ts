// Checks a password that a person chooses: its length, common passwords, repetition, and words of its context.
import { isAllowedLength } from '../../platform/crypto/password.ts';

/** What an attacker knows about the user, and tries first. */
type PasswordContext = {
  email: string;
  names: readonly string[];
  tenant_names: readonly string[];
};

const PRODUCT_NAME = 'Strongroom';

/** Shorter words are part of too many others: a person called Al may use "always". */
const CONTEXT_WORD_LENGTH_MIN = 4;

/** A password that repeats a piece of this length is as weak as the piece. */
const REPEATED_LENGTH_MAX = 6;

/** Runs such as `aaa`, `1234` or `fedc` add almost nothing. Without them, 8 characters: the minimum of NIST SP 800-63B. */
const OUTSIDE_RUNS_MIN = 8;

const sentences = {
  length: 'Choose 12 to 128 characters.',
  common: 'This password is on a list of common passwords, or is one with digits or signs around it. Choose another.',
  repeated: 'This password repeats a few characters, or is mostly runs such as 1234 or aaa. Choose another.',
  product: 'The password must not contain the name of this product.',
  address: 'The password must not contain your e-mail address or its part before the @.',
  name: 'The password must not contain your name.',
  tenant: 'The password must not contain the name of a tenant that you belong to.',
} as const;

/** For a new password that is the current one (PCI DSS 8.3.7). */
export const UNCHANGED_PASSWORD = 'This is your current password. Choose another.';

const folded = (text: string): string => text.normalize('NFKC').toLowerCase();

/** Separates words. */
const NO_WORD = /[^\p{L}\p{M}\p{N}]+/gu;

/** Letters and digits only, so that signs between them hide no word. */
const squashed = (text: string): string => folded(text).replace(NO_WORD, '');

let list: Promise<ReadonlySet<string>> | undefined;

/** Loaded when the first password is chosen: it takes 50 ms and 5 MB, and most processes never need it. */
const commonPasswords = (): Promise<ReadonlySet<string>> =>
  (list ??= import('@zxcvbn-ts/language-common').then(
    ({ dictionary }) => new Set(dictionary['passwords-common'].map((each) => each.toLowerCase())),
  ));

/** The shortest piece that a text repeats; the whole text if it repeats none. */
const repeatedPiece = (text: string): string => text.slice(0, (text + text).indexOf(text, 1));

/** Counts characters outside runs: three or more in a row that are equal, ascending or descending. */
const countOutsideRuns = (text: string): number => {
  const codes = Array.from(text, (character) => character.codePointAt(0) ?? Number.NaN);
  const stepTo = (index: number): number => (codes[index] ?? Number.NaN) - (codes[index - 1] ?? Number.NaN);
  const endsRun = (index: number): boolean => Math.abs(stepTo(index)) <= 1 && stepTo(index) === stepTo(index - 1);
  return codes.filter((_, index) => !endsRun(index) && !endsRun(index + 1) && !endsRun(index + 2)).length;
};

const isCommon = async (text: string): Promise<boolean> => {
  const common = await commonPasswords();
  const core = text.replace(/^[^\p{L}]+|[^\p{L}]+$/gu, '');
  return [text, core, repeatedPiece(text), repeatedPiece(core)].some((each) => each !== '' && common.has(each));
};

const contextProblem = (password: string, { email, names, tenant_names }: PasswordContext): string | undefined => {
  const text = squashed(password);
  const contains = (word: string): boolean => {
    const sought = squashed(word);
    return Array.from(sought).length >= CONTEXT_WORD_LENGTH_MIN && text.includes(sought);
  };
  if (contains(PRODUCT_NAME)) return sentences.product;
  if ([email, email.slice(0, Math.max(email.lastIndexOf('@'), 0))].some(contains)) return sentences.address;
  if (names.some(contains)) return sentences.name;
  // People shorten the name of a company, so its parts count too.
  const isTenantNamed = tenant_names.some((name) => [name, ...name.split(NO_WORD)].some(contains));
  return isTenantNamed ? sentences.tenant : undefined;
};

/**
 * The rule that a chosen password breaks, as a sentence for the person; undefined for none.
 * NIST SP 800-63B section 5.1.1.2 names these checks: common passwords, repeated characters, and words of the context.
 */
export const chosenPasswordProblem = async (
  password: string,
  context: PasswordContext,
): Promise<string | undefined> => {
  // First, so that the steps below see no more than 128 characters.
  if (!isAllowedLength(password)) return sentences.length;
  const text = folded(password);
  if (repeatedPiece(text).length <= REPEATED_LENGTH_MAX || countOutsideRuns(text) < OUTSIDE_RUNS_MIN)
    return sentences.repeated;
  if (await isCommon(text)) return sentences.common;
  return contextProblem(password, context);
};
