// Says where the requests of a stored proxy have their amount, for bounds with an allowance
// (docs/decisions/0133-allowances.md).
import { z } from 'zod';
import { type AmountUnit, amountUnits, type Charge, currencyForm, toMinorUnits } from '../access/allowance.ts';
import { optional } from '../../platform/base/optional.ts';
import { type DigestKey, pinDigest } from '../../platform/crypto/digest.ts';
import { sortedJson } from '../../platform/crypto/seal.ts';
import { stepsOfPath } from '../tokens/expressions/json-path.ts';
import type { CodeRule } from './code-rule.ts';
import { isUtf8 } from 'node:buffer';
import type { Headers } from '../../platform/egress/headers.ts';
import { type Json, valueAt } from '../../platform/json/json.ts';
import { JsonSyntaxError, parseInSlices } from '../../platform/json/json-parser.ts';
import type { Slices } from '../../platform/json/slices.ts';
import { bodyKindOf } from './bodies/body-kind.ts';
import { bufferOf } from './message.ts';

const PATH_LENGTH_MAX = 200;

const PATH_NEEDED = 'must be a JSONPath that names one place, such as $.amount';

const UNIT_NEEDED = 'must be minor, such as cents, or major';

/** One place, not the root: several amounts cannot be compared with one. */
const path = z
  .string(PATH_NEEDED)
  .max(PATH_LENGTH_MAX, PATH_NEEDED)
  .refine((text) => (stepsOfPath(text) ?? []).length > 0, PATH_NEEDED);

const texts = {
  value: {
    description: 'The place of the amount in the body of a request: a JSONPath, or of a form `$.NAME`.',
    example: '$.amount',
  },
  currency: { description: 'The place of the currency.', example: '$.currency' },
  unit: { description: '`minor`: the amount is in cents or the like. `major`: in units of the currency.' },
  merchant: { description: 'The place of the merchant. Left out: none.', example: '$.merchantAccount' },
};

/** In a request. */
export const amountRuleGiven = z
  .object(
    {
      value: path.meta(texts.value),
      currency: path.meta(texts.currency),
      unit: z.enum(amountUnits, UNIT_NEEDED).meta({ ...texts.unit, example: 'minor' }),
      merchant: optional(path).meta(texts.merchant),
    },
    'must be an object with value, currency and unit',
  )
  .meta({ id: 'AmountRuleRequest', description: 'Where a request has its amount.' });

export type AmountRule = { value: string; currency: string; unit: AmountUnit; merchant?: string | undefined };

/** In a response. */
export const amountRuleShown = z
  .object({
    value: z.string().meta(texts.value),
    currency: z.string().meta(texts.currency),
    unit: z.string().meta({ ...texts.unit, 'x-extensible-enum': [...amountUnits], example: 'minor' }),
    merchant: z.string().optional().meta(texts.merchant),
  })
  .meta({ id: 'AmountRule', description: 'Where a request has its amount.' });

/**
 * What a bound with an allowance pins beside the proxy: another place would hold another amount, and answers that keep the security
 * code give a use back.
 */
export const pinOfAmount = (
  key: DigestKey,
  { id, amount, cvc }: { id: string; amount: AmountRule | undefined; cvc: CodeRule | undefined },
): string => {
  const kept = cvc?.until === 'answered' ? ['cvc', sortedJson(cvc)] : [];
  return pinDigest(key, 'proxy', id, ['amount', sortedJson(amount ?? null), ...kept]);
};

// Reads the amount, currency and merchant of a request as it leaves, for bounds with an allowance. Whatever a receiver could read as
// another amount is refused.

/** A charge has some kilobytes. */
const CHARGE_BYTES_MAX = 262_144;

/** The request says its amount in another way than the rule, or in two. The sentence has nothing of it. */
class UnclearCharge extends Error {}

const refuse = (sentence: string): never => {
  throw new UnclearCharge(sentence);
};

const BODY_NEEDED = `the request must have a body of JSON or a form, in UTF-8, of at most ${CHARGE_BYTES_MAX / 1024} KB`;
const ONE_OF_EACH = 'the request must have one amount, currency and merchant where its proxy says, under one spelling';
const NOT_ELSEWHERE = 'the query must have none of the names of the amount, currency and merchant';
const AMOUNT_NEEDED =
  'the request must have an amount as a plain decimal number, with no more decimals than its currency has';
const CURRENCY_NEEDED = 'the request must have a currency of three letters';
const ONE_KIND_OF_BODY = 'the body must not be JSON for one reader, and a form for another';
const NOT_OF_VALUES = 'amount, currency and merchant must stand in the request as they are, and not as expressions';
const JSON_NEEDED = 'the body must be JSON, as its Content-Type says';
const EXACT_NEEDED = 'the JSON must have no name twice, only exact numbers, and no more than 64 levels';
const TEXT_NEEDED = 'the request must have its merchant as text';

type Steps = readonly (string | number)[];

/** Headers by which a receiver takes a request for another one. */
const overrides = /^x-(?:http-)?(?:content-type-override|method-override|http-method)$|^x-http-method$/i;

/**
 * One form for all names that some reader takes for one: capitals (Go folds K and the long s too, Java the dotless i), characters of compatibility,
 * `paymentAmount` and `payment_amount` (the JSON of protobuf), blanks and dots (PHP), and what follows NUL.
 */
const fold = (name: string): string =>
  (name.normalize('NFKC').split('\0', 1)[0] as string)
    .toUpperCase()
    .toLowerCase()
    .normalize('NFKC')
    .replace(/[^\p{L}\p{N}]/gu, '');

// --- Names of forms ---

const decodeOr = (text: string, otherwise: () => string): string => {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return otherwise();
  }
};

const decode = (text: string): string => decodeOr(text, () => refuse('the request must have valid percent-encoding'));

const nameOf = (pair: string): string => pair.split('=', 1)[0] as string;

/** `a[b]` is a name within `a`. */
const foldOuter = (name: string): string => fold(name.split('[', 1)[0] as string);

/** Some readers end a pair at a semicolon too. */
const namesIn = (text: string): string[] => text.split(/[&;]/).map((pair) => foldOuter(decode(nameOf(pair))));

/** The names that a form could have for a path. */
const formNamesOf = (path: Steps): readonly string[] => [fold(String(path[0])), fold(path.join(''))];

// --- JSON ---

/** A receiver may read any body as a form. The text before the first `&` is the beginning of the JSON. */
const refuseForm = (text: string, paths: readonly Steps[]): void => {
  const names = new Set(
    text
      .split('&')
      .slice(1)
      .map((pair) => foldOuter(decodeOr(nameOf(pair), () => nameOf(pair)))),
  );
  if (paths.some((path) => formNamesOf(path).some((name) => names.has(name)))) refuse(ONE_KIND_OF_BODY);
};

/** Refuses a name beside those of the path that a reader could take for it. */
const refuseTwins = (root: Json, steps: Steps): void => {
  let value: Json | undefined = root;
  for (const step of steps) {
    if (typeof step === 'string' && typeof value === 'object' && value !== null && !Array.isArray(value)) {
      const wanted = fold(step);
      if (Object.keys(value).filter((name) => fold(name) === wanted).length > 1) refuse(ONE_OF_EACH);
    }
    value = valueAt(value, [step]);
  }
};

function* readJson(body: Buffer, paths: readonly Steps[]): Slices<(steps: Steps) => Json | undefined> {
  const text = body.toString('utf8');
  refuseForm(text, paths);
  const parsed = yield* parseInSlices(text, { stopsAtDepth: true });
  // A name that is there twice, a number that a double does not hold, or one that a reader may drop.
  if (Object.keys(parsed.findings).length > 0) refuse(EXACT_NEEDED);
  return (steps) => {
    refuseTwins(parsed.value, steps);
    return valueAt(parsed.value, steps);
  };
}

// --- Forms ---

type Pair = { name: string; value: string };

const readForm = (body: Buffer): ((steps: Steps) => Json | undefined) => {
  const text = body.toString('utf8');
  // A receiver may read JSON whatever the type says, and ignore what follows it.
  if (/^\s*[{[]/.test(text)) refuse(ONE_KIND_OF_BODY);
  const names = namesIn(text);
  // A reader may take the rest for text in the charset that it says.
  if (names.includes('charset')) refuse('the form must not have a field that says its charset');
  const pairs = text.split('&').map((pair): Pair => {
    const [name = '', ...values] = pair.split('=');
    return { name: decode(name), value: decode(values.join('=')) };
  });
  return ([step, ...others]) => {
    if (typeof step !== 'string' || others.length > 0) return undefined;
    const wanted = foldOuter(step);
    const found = pairs.filter(({ name }) => name === step);
    const [only] = found;
    if (found.length > 1 || names.filter((name) => name === wanted).length > 1) refuse(ONE_OF_EACH);
    return only?.value;
  };
};

// --- Requests ---

/** A request as it leaves. `search` is its query with the question mark. */
type LeavingRequest = { headers: Headers; body: Uint8Array | undefined; search: string };

/** Readers join query and body, and differ about which comes first. */
const refuseInQuery = (search: string, paths: readonly Steps[]): void => {
  if (search === '') return;
  const names = namesIn(search.slice(1));
  for (const path of paths) {
    const folded = formNamesOf(path);
    if (names.some((name) => name !== '' && folded.includes(name))) refuse(NOT_ELSEWHERE);
  }
};

function* readBody(
  headers: Headers,
  body: Buffer,
  paths: readonly Steps[],
): Slices<(steps: Steps) => Json | undefined> {
  const types = headers.filter(([name]) => name.toLowerCase() === 'content-type');
  const isOverridden = headers.some(([name]) => overrides.test(name));
  const kind = bodyKindOf(headers);
  const isBounded = body.byteLength > 0 && body.byteLength <= CHARGE_BYTES_MAX;
  if (types.length !== 1 || isOverridden || !isBounded || !isUtf8(body)) return refuse(BODY_NEEDED);
  // A byte order mark ends JSON for some readers, and is skipped by others.
  if (!('charset' in kind) || kind.charset !== 'utf8' || kind.utf16 !== undefined || body[0] === 0xef)
    return refuse(BODY_NEEDED);
  if (kind.kind === 'json') return yield* readJson(body, paths);
  return kind.kind === 'form' ? readForm(body) : refuse(BODY_NEEDED);
}

type Read = Omit<Charge, 'isShown'>;

function* read({ headers, body, search }: LeavingRequest, rule: AmountRule): Slices<Read> {
  const [value, currency, merchant] = [rule.value, rule.currency, rule.merchant].map(
    (path) => path && stepsOfPath(path),
  );
  if (!value || !currency) return refuse(ONE_OF_EACH);
  const paths = [value, currency, ...(merchant ? [merchant] : [])];
  refuseInQuery(search, paths);
  const at = yield* readBody(headers, bufferOf(body), paths);
  const [given, letters, found] = [at(value), at(currency), merchant && at(merchant)];
  if ([given, letters, found].some((each) => typeof each === 'string' && each.includes('{{'))) refuse(NOT_OF_VALUES);
  if (typeof letters !== 'string' || !currencyForm.test(letters)) return refuse(CURRENCY_NEEDED);
  const isNumber = typeof given === 'number' || typeof given === 'string';
  const amount = isNumber ? toMinorUnits(given, rule.unit, letters.toLowerCase()) : undefined;
  if (amount === undefined) return refuse(AMOUNT_NEEDED);
  if (merchant && (typeof found !== 'string' || found === '')) return refuse(TEXT_NEEDED);
  return { amount, currency: letters.toLowerCase(), merchant: found as string | undefined };
}

/** @returns the charge of a request, or the sentence that says why it has none. */
function* tryToRead(request: LeavingRequest, rule: AmountRule): Slices<Read | string> {
  try {
    return yield* read(request, rule);
  } catch (error) {
    if (error instanceof UnclearCharge) return error.message;
    if (error instanceof JsonSyntaxError) return JSON_NEEDED;
    throw error;
  }
}

const isSame = (one: Read, other: Read | string): boolean =>
  typeof other === 'object' &&
  one.amount === other.amount &&
  one.currency === other.currency &&
  one.merchant === other.merchant;

/** A bound with an allowance lets no proxy through that has no rule. */
type Charging = { amount: AmountRule | undefined; request_transform: string | undefined };

/**
 * The charge of a request as it leaves. A refusal tells whether an amount is above a limit: an amount that is made of a value would
 * tell digits of it.
 * @param given the request as it came, with its expressions.
 * @returns the charge, or the sentence of a refusal.
 */
export function* readCharge(
  leaving: LeavingRequest,
  given: LeavingRequest,
  proxy: Charging | undefined,
): Slices<Charge | string> {
  const rule = proxy?.amount;
  if (!rule) return ONE_OF_EACH;
  const charge = yield* tryToRead(leaving, rule);
  if (typeof charge === 'string') return charge;
  const before = yield* tryToRead(given, rule);
  const isShown = isSame(charge, before);
  const isCoded = proxy.request_transform !== undefined;
  if (isShown || (isCoded && before !== NOT_OF_VALUES)) return { ...charge, isShown };
  return typeof before === 'string' ? before : NOT_OF_VALUES;
}
