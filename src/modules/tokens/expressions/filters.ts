// The registry of filters: their names, how many arguments they take, and their functions.
// Filters take linear time. They use keys and random numbers of the environment only.
import { Absent, type Known } from './absent.ts';
import { alias, aliasCard, anyCharacter, sameClass } from './alias-filters.ts';
import { ExpressionError } from './expression-error.ts';
import {
  type Apply,
  badArgument,
  Digest,
  type ExpressionEnvironment,
  type FilterCall,
  stringify,
  text,
  textArgument,
} from './filter-call.ts';
import type { Json } from '../../../platform/json/json.ts';
import { json } from './json-path.ts';
import { nearestName } from '../../../platform/base/unknown-names.ts';
import { cardBin, cardExpiry, cardMask, reveal, revealLast } from './mask-filters.ts';
import { type Meter, spend, WORK } from './meter.ts';
import { quoteCsv, quoteJson, quoteYaml } from './quote-filters.ts';
import {
  encode,
  first,
  glue,
  hmac,
  last,
  lastCharacters,
  pad,
  remove,
  replace,
  size,
  slice,
  split,
  toBoolean,
  toNumber,
  toText,
} from './text-filters.ts';

type Filter = { least: number; most: number; apply: Apply };

const filter = (least: number, most: number, apply: Apply): Filter => ({ least, most, apply });

/** A Map, so that no name reaches a prototype. The numbers are the least and the most arguments. */
const filters = new Map<string, Filter>([
  ['json', filter(1, 1, json)],
  // Only applied to a value, which it does not change. Unlike Liquid's, it keeps false and empty text.
  ['default', filter(1, 1, (value) => value)],
  ['last4', filter(0, 0, (value, call) => lastCharacters(text(value, call), 4))],
  ['reveal', filter(0, 4, reveal)],
  ['reveal_last', filter(1, 2, revealLast)],
  ['card_mask', filter(0, 4, cardMask)],
  ['card_exp', filter(1, 1, cardExpiry)],
  ['card_bin', filter(0, 1, cardBin)],
  ['pad_left', filter(1, 2, pad('left'))],
  ['pad_right', filter(1, 2, pad('right'))],
  ['stringify', filter(0, 0, stringify)],
  ['json_stringify', filter(0, 0, stringify)],
  ['to_string', filter(0, 0, toText)],
  ['to_number', filter(0, 0, toNumber)],
  ['to_boolean', filter(0, 0, toBoolean)],
  ['quote_json', filter(0, 0, quoteJson)],
  ['quote_yaml', filter(0, 0, quoteYaml)],
  ['quote_csv', filter(0, 0, quoteCsv)],
  ['to_base64', filter(0, 0, encode('base64'))],
  ['to_base16', filter(0, 0, encode('hex'))],
  ['hmac', filter(2, 2, hmac)],
  ['split', filter(1, 1, split)],
  ['first', filter(0, 0, first)],
  ['last', filter(0, 0, last)],
  ['upcase', filter(0, 0, (value, call) => text(value, call).toUpperCase())],
  ['downcase', filter(0, 0, (value, call) => text(value, call).toLowerCase())],
  ['remove', filter(1, 1, remove)],
  ['replace', filter(1, 2, replace)],
  ['slice', filter(1, 2, slice)],
  ['append', filter(1, 1, (value, call) => glue(text(value, call), textArgument(call, 0)))],
  ['prepend', filter(1, 1, (value, call) => glue(textArgument(call, 0), text(value, call)))],
  ['strip', filter(0, 0, (value, call) => text(value, call).trim())],
  ['size', filter(0, 0, size)],
  ['alias_preserve_format', filter(0, 2, alias(sameClass))],
  ['alias_preserve_length', filter(0, 2, alias(anyCharacter))],
  ['alias_card', filter(0, 2, aliasCard)],
]);

export const filterNames: readonly string[] = [...filters.keys()];

/** Alias filters return random values. They are allowed in ids only, because other expressions must be repeatable. */
export const isAliasFilter = (name: string): boolean => name.startsWith('alias_');

const unknownFilter = (name: string): ExpressionError => {
  const nearest = nearestName(name, filterNames);
  const more = nearest === undefined ? `: ${filterNames.join(', ')}` : `; did you mean \`${nearest}\`?`;
  return new ExpressionError('unknown_filter', `must use known filters only${more}`);
};

/** @throws ExpressionError for an unknown filter or a wrong number of arguments. */
export const checkFilter = ({ name, args }: FilterCall): void => {
  const known = filters.get(name);
  if (!known) throw unknownFilter(name);
  const { least, most } = known;
  if (args.length < least || args.length > most)
    throw badArgument({ name }, least === most ? `${least} arguments` : `${least} to ${most} arguments`);
};

/**
 * Applies filters that `checkFilter` accepted. Null passes through them, except `json`, which finds nothing in it, and `default`.
 * @param value undefined for one that the caller may not see: it passes through `json` too.
 * @param known the objects within the value whose names are known by their type.
 * @throws ExpressionError.
 */
export const applyFilters = (
  value: Json | Absent | undefined,
  calls: readonly FilterCall[],
  environment: ExpressionEnvironment,
  meter: Meter,
  known: readonly Known[] = [],
): Json | Absent | undefined => {
  let current: Json | Digest | Absent | undefined = value;
  for (const { name, args } of calls) {
    if (name === 'default' && (current === null || current === undefined || current instanceof Absent)) {
      current = args[0] ?? null;
      continue;
    }
    if (current === undefined || current instanceof Absent || (current === null && name !== 'json')) continue;
    spend(meter, WORK.filter);
    if (current instanceof Digest && name === 'to_base64') current = Buffer.from(current.hex, 'hex').toString('base64');
    else if (current instanceof Digest && name === 'to_base16') current = current.hex;
    else {
      const input: Json = current instanceof Digest ? current.hex : current;
      current = (filters.get(name) as Filter).apply(input, { name, args, environment, meter, known });
    }
  }
  return current instanceof Digest ? current.hex : current;
};
