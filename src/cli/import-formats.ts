// The formats of an import: how a row of each becomes a token request, and a row of the result file.
import type { Json } from '../platform/json/json.ts';
import { isMetadataKey } from '../modules/tokens/token-request.ts';
import { findTokenType, genericTokenType, tokenTypeNames } from '../modules/tokens/token-types.ts';
import { unknownName } from '../platform/base/unknown-names.ts';
import { UsageError } from './command.ts';

/** The values of a row by column. In JSON, `card.number` also names `number` within `card`. */
export type Columns = Record<string, Json>;

/**
 * Targets of the values of columns: `data`, `data.NAME`, `metadata.KEY`, `container` or `expires_at`. The target
 * `data.expiration` is both month and year of a card, of a column such as `09/31`.
 */
export type Mapping = {
  type: string;
  targets: readonly { target: string; column: string; isOptional?: boolean }[];
};

export type ImportFormat = {
  /** `document`: CSV, or one JSON document with an array of objects. */
  layout: 'csv' | 'lines' | 'document';
  /** The column with the id of the source. */
  id: string;
  /** Undefined: each row is a token record with `type` and `data`. */
  mapping: Mapping | undefined;
  /** The attributes that a token request takes of a record; undefined for all. */
  attributes?: readonly string[];
  /** Whether blanks and dashes are taken out of numbers. */
  areNumbersLoose?: boolean;
  /** Whether the first and the last line are no rows, as in an export of Strongroom. */
  hasFrame?: boolean;
};

export const formatNames = ['csv', 'jsonl', 'stripe', 'basis-theory', 'spreedly', 'strongroom'] as const;

export type FormatName = (typeof formatNames)[number];

/** What a create accepts of a record that another vault returned. The rest, such as its fingerprint, is made here. */
const recordAttributes = [
  'type',
  'data',
  'mask',
  'metadata',
  'containers',
  'search_indexes',
  'fingerprint_expression',
  'expires_at',
  'bound_to',
];

const optional = (target: string, column: string) => ({ target, column, isOptional: true });

const records: ImportFormat = { layout: 'lines', id: 'id', mapping: undefined, attributes: recordAttributes };

/** https://docs.stripe.com/get-started/data-migrations/export-file-formats */
const stripe: ImportFormat = {
  layout: 'document',
  id: 'card.id',
  mapping: {
    type: 'card',
    targets: [
      { target: 'data.number', column: 'card.number' },
      { target: 'data.expiration_month', column: 'card.exp_month' },
      { target: 'data.expiration_year', column: 'card.exp_year' },
      optional('data.cardholder_name', 'card.name'),
      optional('metadata.stripe_customer', 'id'),
    ],
  },
};

/** The names of the payment method in https://docs.spreedly.com/reference/api/v1/payment_methods/ */
const spreedly: ImportFormat = {
  layout: 'document',
  id: 'token',
  mapping: {
    type: 'card',
    targets: [
      { target: 'data.number', column: 'number' },
      { target: 'data.expiration_month', column: 'month' },
      { target: 'data.expiration_year', column: 'year' },
      optional('data.cvc', 'verification_value'),
      optional('data.cardholder_name', 'full_name'),
    ],
  },
};

const METADATA = 'metadata.';
const EXPIRATION = 'data.expiration';

/** @throws UsageError for a target that tokens of the type do not have: its values would be refused or lost in each row. */
const checkTargets = ({ type: name, targets }: Mapping): void => {
  const type = findTokenType(name);
  if (!type) throw new UsageError(`The option --type must be one of ${tokenTypeNames.join(', ')}.`);
  const seen = new Set<string>();
  for (const { target } of targets) {
    const of = target.replace(/^data\./, '');
    if (seen.has(target)) throw new UsageError(`The option --map names ${of} twice.`);
    seen.add(target);
    if (target.startsWith(METADATA) && !isMetadataKey(target.slice(METADATA.length)))
      throw new UsageError(`The option --map: ${target} has a key that metadata cannot have.`);
    const isOfData = target.startsWith('data.');
    if (!isOfData || type === genericTokenType || (name === 'card' && target === EXPIRATION)) continue;
    const known = [...(type.names.length === 0 ? ['data'] : type.names), ...(name === 'card' ? ['expiration'] : [])];
    if (!type.names.includes(of))
      throw new UsageError(
        `The option --map: ${of} ${unknownName(of, [...known, 'container', 'expires_at', 'metadata.KEY'])}`,
      );
  }
  if (seen.has(EXPIRATION) && (seen.has('data.expiration_month') || seen.has('data.expiration_year')))
    throw new UsageError('The option --map must name either expiration, or expiration_month and expiration_year.');
};

const QUOTED = String.raw`"(?:[^"\\]|\\.)*"`;
const pairPattern = new RegExp(`((?:[^",=]|${QUOTED})+)=((?:[^",]|${QUOTED})+)(?:,(?=.)|$)`, 'sy');
const quotedEnd = new RegExp(`^(|metadata\\.)(${QUOTED})$`, 's');

/** A column, or `metadata.` and a key, may stand between quotation marks: it may have commas and equals signs then. */
const unquote = (text: string): string => {
  const [, before = '', quoted] = quotedEnd.exec(text) ?? [];
  return quoted === undefined ? text : `${before}${quoted.slice(1, -1).replaceAll(/\\(.)/gs, '$1')}`;
};

/** The pairs of a list, `TARGET=COLUMN,...`. @throws UsageError for another text. */
const parsePairs = (text: string): [name: string, column: string][] => {
  const pairs: [name: string, column: string][] = [];
  pairPattern.lastIndex = 0;
  for (let read = 0; read < text.length; read = pairPattern.lastIndex) {
    const [, name = '', column = ''] = (pairPattern.exec(text) ?? []).map((part) => part.trim());
    if (name === '' || column === '')
      throw new UsageError('The option --map must be a list such as number=card_number,expiration_month=month');
    pairs.push([unquote(name), unquote(column)]);
  }
  return pairs;
};

/** @throws UsageError for a list that is none, and for targets that tokens of the type do not have. */
const parseMap = (text: string, type: string): Mapping => {
  const targets = parsePairs(text).map(([name, column]) => {
    const isPlain = ['data', 'container', 'expires_at'].includes(name) || name.startsWith(METADATA);
    return { target: isPlain || name.startsWith('data.') ? name : `data.${name}`, column };
  });
  checkTargets({ type, targets });
  return { type, targets };
};

export type ImportChoices = { id?: string; map?: string; type?: string; 'number-format'?: string };

/** @throws UsageError for options that do not fit together. */
export const formatOf = (name: string, options: ImportChoices): ImportFormat => {
  const mapping = options.map === undefined ? undefined : parseMap(options.map, options.type ?? 'card');
  if (options.type !== undefined && mapping === undefined) throw new UsageError('The option --type needs --map.');
  const numbers = options['number-format'] ?? 'strict';
  if (!['strict', 'loose'].includes(numbers))
    throw new UsageError('The option --number-format must be strict or loose.');
  const own = { ...(options.id !== undefined && { id: options.id }), ...(mapping && { mapping }) };
  const formats: Record<FormatName, () => ImportFormat> = {
    csv: () => {
      if (options.id === undefined) throw new UsageError('The format csv needs the option --id.');
      if (!mapping) throw new UsageError('The format csv needs the option --map.');
      if (
        (findTokenType(mapping.type)?.names.length ?? 0) > 0 &&
        mapping.targets.some(({ target }) => target === 'data')
      )
        throw new UsageError(`The option --map: data of the type ${mapping.type} is an object. Name its attributes.`);
      return { layout: 'csv', id: options.id, mapping };
    },
    jsonl: () => ({ layout: 'lines', id: 'id', mapping: undefined, ...own }),
    stripe: () => ({ ...stripe, ...own }),
    spreedly: () => ({ ...spreedly, ...own }),
    'basis-theory': () => ({ ...records, ...own }),
    strongroom: () => ({ ...records, ...own, hasFrame: true }),
  };
  const isFormat = (text: string): text is FormatName => Object.hasOwn(formats, text);
  if (!isFormat(name)) throw new UsageError(`The option --format must be one of ${formatNames.join(', ')}.`);
  const format = formats[name]();
  if (format.mapping?.targets.some(({ target, column }) => target.startsWith('data') && column === format.id))
    throw new UsageError(
      'The column of --id must not be a value too: ids of tokens are stored and logged in plain text.',
    );
  if (format.mapping && !format.mapping.targets.some(({ target }) => target.startsWith('data')))
    throw new UsageError('The option --map must name a column for data.');
  return { ...format, areNumbersLoose: numbers === 'loose' };
};

/**
 * The format with the columns as the header of a file writes them: presets match in any case.
 * @throws UsageError for a column that the header does not have.
 */
export const withHeader = (format: ImportFormat, header: readonly string[]): ImportFormat => {
  const find = (column: string): string | undefined =>
    header.includes(column) ? column : header.find((each) => each.toLowerCase() === column.toLowerCase());
  const get = (column: string): string => {
    const found = find(column);
    if (found === undefined) throw new UsageError(`The file has no column ${column}. It has: ${header.join(', ')}`);
    return found;
  };
  const { mapping } = format;
  if (!mapping) return format;
  const targets = mapping.targets.flatMap(({ column, ...rest }) =>
    rest.isOptional && find(column) === undefined ? [] : [{ ...rest, column: get(column) }],
  );
  return { ...format, id: get(format.id), mapping: { ...mapping, targets } };
};

/** The object that holds a column, and its name there. */
const placeOf = (columns: Columns, column: string): { holder: Columns; name: string } | undefined => {
  if (Object.hasOwn(columns, column)) return { holder: columns, name: column };
  const [first = '', ...rest] = column.split('.');
  const inner = Object.hasOwn(columns, first) ? columns[first] : undefined;
  if (rest.length === 0 || typeof inner !== 'object' || inner === null || Array.isArray(inner)) return undefined;
  return placeOf(inner, rest.join('.'));
};

/** The value of a column; undefined where it is absent, null or empty. */
const valueOf = (columns: Columns, column: string): Json | undefined => {
  const place = placeOf(columns, column);
  const value = place && place.holder[place.name];
  return value === null || value === '' ? undefined : value;
};

/** @returns undefined for a row without an id. */
export const idOf = ({ id }: ImportFormat, columns: Columns): string | undefined => {
  const value = valueOf(columns, id);
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
};

/** Files of text have digits where a card has integers. */
const integers = ['data.expiration_month', 'data.expiration_year'];

const converted = (target: string, value: Json): Json =>
  integers.includes(target) && typeof value === 'string' && /^[0-9]{1,4}$/.test(value) ? Number(value) : value;

/** Month and year of `09/31`, `9/2031`, `09-31` or `2031-09`. Years of two digits are of this century. */
const parseExpiration = (value: Json): { expiration_month: number; expiration_year: number } | undefined => {
  const text = typeof value === 'string' ? value.trim() : '';
  const [, isoYear, isoMonth] = /^([0-9]{4})-([0-9]{2})$/.exec(text) ?? [];
  const [, month = isoMonth, year = isoYear] = /^([0-9]{1,2}) ?[-/] ?([0-9]{2}|[0-9]{4})$/.exec(text) ?? [];
  if (month === undefined || year === undefined) return undefined;
  return { expiration_month: Number(month), expiration_year: Number(year.length === 2 ? `20${year}` : year) };
};

/** The attributes of data, and the types of a single value, that have digits only. */
const digitAttributes = ['number', 'routing_number', 'account_number'];
const digitTypes = ['card_number', 'us_bank_account_number', 'us_bank_routing_number'];

const withoutSeparators = (value: Json | undefined): Json | undefined =>
  typeof value === 'string' ? value.replace(/[ -]/g, '') : value;

/** The request with numbers as the vault takes them: `4242 4242 4242 4242` becomes 16 digits. */
const withBareNumbers = (request: Record<string, Json>): Record<string, Json> => {
  const { type, data } = request;
  if (digitTypes.includes(String(type))) return { ...request, data: withoutSeparators(data) ?? null };
  if (!['card', 'bank'].includes(String(type)) || typeof data !== 'object' || data === null || Array.isArray(data))
    return request;
  const bare = digitAttributes.flatMap((name) =>
    Object.hasOwn(data, name) ? [[name, withoutSeparators(data[name])] as const] : [],
  );
  return { ...request, data: { ...data, ...Object.fromEntries(bare) } as Json };
};

/** What the operator may write in place of options by which the values of a row are refused. Empty for nothing. */
export const hintsOf = ({ areNumbersLoose, mapping }: ImportFormat, columns: Columns): string => {
  const texts = (mapping?.targets ?? []).map(({ target, column }) => ({
    target,
    column,
    text: String(valueOf(columns, column) ?? ''),
  }));
  const isSpaced = ({ target, text }: { target: string; text: string }): boolean =>
    digitAttributes.includes(target.replace(/^data\./, '')) && /^[0-9]+(?:[ -][0-9]+)+$/.test(text);
  const both = texts.find(({ target, text }) => integers.includes(target) && parseExpiration(text) !== undefined);
  return [
    ...(!areNumbersLoose && texts.some(isSpaced) ? ['--number-format loose takes blanks and dashes'] : []),
    ...(both ? [`--map expiration=${both.column} takes month and year of one column`] : []),
  ]
    .map((hint) => `; ${hint}`)
    .join('');
};

export type ParsedRow = { request: Record<string, Json> } | { reason: string };

/** The token request of a row, without its id, or the reason where a value cannot be read for its target. */
export const parseRow = (format: ImportFormat, columns: Columns): ParsedRow => {
  const { mapping, attributes, id } = format;
  const read = (request: Record<string, Json>): ParsedRow => ({
    request: format.areNumbersLoose ? withBareNumbers(request) : request,
  });
  if (!mapping) {
    const names = attributes ?? Object.keys(columns).filter((name) => name !== id);
    return read(
      Object.fromEntries(names.flatMap((name) => (columns[name] === undefined ? [] : [[name, columns[name] as Json]]))),
    );
  }
  const request: Record<string, Json> = { type: mapping.type };
  for (const { target, column } of mapping.targets) {
    const value = valueOf(columns, column);
    if (value === undefined) continue;
    const [top = '', ...rest] = target.split('.');
    const key = rest.join('.');
    if (target === 'container') request['containers'] = [value];
    else if (key === '') request[top] = value;
    else if (target === EXPIRATION && mapping.type === 'card') {
      const parts = parseExpiration(value);
      if (!parts) return { reason: 'data.expiration: must be a month such as 09/31 or 09/2031' };
      request[top] = { ...(request[top] as Columns | undefined), ...parts };
    } else request[top] = { ...(request[top] as Columns | undefined), [key]: converted(target, value) };
  }
  return read(request);
};

/** The row for the result file: the id of the token stands for the first value, and the other values are removed. */
export const resultOf = ({ mapping, layout }: ImportFormat, columns: Columns, token_id: string): Columns => {
  if (!mapping) return { ...columns, data: token_id };
  const result = structuredClone(columns);
  const values = mapping.targets.filter(({ target }) => target.startsWith('data'));
  for (const [index, { column }] of values.entries()) {
    const place = placeOf(result, column);
    if (place) place.holder[place.name] = index === 0 ? token_id : layout === 'csv' ? '' : null;
  }
  return result;
};
