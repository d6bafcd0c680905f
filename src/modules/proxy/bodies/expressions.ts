// Finds expressions in the path, query, headers and body of a forwarded request, and writes values in their place.
// All are found before a token is opened.
import { fieldValue, type Headers } from '../../../platform/egress/headers.ts';
import { badRequest } from '../../../platform/base/errors.ts';
import {
  type CodedTexts,
  createReferences,
  type Expansion,
  type References,
} from '../../tokens/expressions/expansion.ts';
import { type BoundPlace, boundPlaces } from '../../access/bounds.ts';
import { formatPath } from '../../../platform/json/json.ts';
import { runAtOnce, type Slices } from '../../../platform/json/slices.ts';
import { prepareBody } from './body.ts';
import type { BodyKind } from './body-kind.ts';
import { splitForm } from './form-text.ts';
import { percentStart } from './expression-start.ts';
import { encodePercentAt, splitPercent } from './percent.ts';
import { cutText, type Encode, hasSlots, type TextParts, refuseValue, writeParts } from './text-parts.ts';
import { splitHeaderValue } from './place-rules.ts';
import { documentChecks, splitChecked } from './documents.ts';

export type RequestPlaces = {
  path: string;
  query: string;
  headers: Headers;
  body: { kind: BodyKind; bytes: Buffer } | undefined;
};

export type FoundExpressions = {
  references: References;
  placesOf(token_id: string): BoundPlace[];
  /** Whether the body has expressions. */
  isInBody: boolean;
  /**
   * Writes the request with values. Text without expressions stays byte for byte.
   * @throws invalidInput at the place of a value that does not fit it; payloadTooLarge.
   */
  expand(expansion: Expansion): Expanded;
};

type Expanded = { path: string; query: string; headers: Headers; body: Uint8Array | undefined };

/**
 * Pauses after each slice of a large body.
 * @param coded the marks of a tenant's code, if code makes the request.
 * @param mayUse whether the caller may use tokens at all. If not, the first reference is refused.
 * @throws forbidden; invalidInput at the place of an invalid expression; payloadTooLarge.
 */
export function* findInSlices(
  { path, query, headers, body }: RequestPlaces,
  coded?: CodedTexts,
  mayUse = true,
): Slices<FoundExpressions> {
  const placed = { at: 'path' as BoundPlace, ids: new Map(boundPlaces.map((place) => [place, new Set<string>()])) };
  const references: References = { ...createReferences(undefined, coded), mayUse, placed };
  const pathParts = splitPath(path, references);
  placed.at = 'query';
  const queryParts = yield* splitForm(query, ['query'], encodePercentAt('utf8'), references);
  placed.at = 'header';
  const headerParts = headers.map(([name, value]): [string, TextParts] => [name, splitHeader(name, value, references)]);
  placed.at = 'body';
  const writeBody = body && (yield* prepareBody(body.kind, body.bytes, ['body'], references));
  if (coded?.isComplete() === false) throw badRequest(MARK_NOT_SEARCHED);
  return {
    references,
    placesOf: (id) => boundPlaces.filter((place) => placed.ids.get(place)?.has(id)),
    isInBody: writeBody !== undefined,
    expand: (expansion) => {
      const expanded: Expanded = {
        path: writeParts(pathParts, expansion),
        query: writeParts(queryParts, expansion),
        headers: headerParts.map(([name, parts]) => [name, writeParts(parts, expansion)]),
        body: writeBody ? writeBody(expansion) : body?.bytes,
      };
      if (coded && textsOf(expanded).some(coded.isIn)) throw badRequest(MARK_NOT_SEARCHED);
      return expanded;
    },
  };
}

/** All text of the request is data. @throws badRequest for a mark of code. */
export const findNothing = ({ path, query, headers, body }: RequestPlaces, coded?: CodedTexts): FoundExpressions => {
  if (coded?.isComplete() === false) throw badRequest(MARK_NOT_SEARCHED);
  return {
    references: createReferences(undefined, coded),
    placesOf: () => [],
    isInBody: false,
    expand: () => ({ path, query, headers, body: body?.bytes }),
  };
};

/** Without pauses, for small requests. */
export const findExpressions = (places: RequestPlaces, coded?: CodedTexts): FoundExpressions =>
  runAtOnce(findInSlices(places, coded));

const MARK_NOT_SEARCHED = 'What svc.expression and svc.literal make must stand where the proxy looks for expressions.';

/** Texts to search for marks: the body as latin1, because marks are ASCII in every supported charset. */
const textsOf = ({ path, query, headers, body }: Expanded): string[] => [
  path,
  query,
  ...headers.flat(),
  ...(body ? [Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('latin1')] : []),
];

const splitPath = (path: string, references: References): TextParts => {
  if (!percentStart.pattern.test(path)) return [path];
  const place = 'path';
  const encode = encodePercentAt('utf8')(place);
  return path
    .split('/')
    .flatMap((segment, index) => [
      ...(index === 0 ? [] : ['/']),
      ...asSegment(splitPercent(segment, { place, plusIsSpace: false, encode }, references), place),
    ]);
};

/** A segment of values alone must not be empty: `/customers/{{ id }}` would be the path of all customers. */
const asSegment = (parts: TextParts, place: string): TextParts => {
  if (!hasSlots(parts) || parts.some((part) => typeof part === 'string' && part !== '')) return parts;
  const write = (expansion: Expansion): string => {
    const segment = writeParts(parts, expansion);
    if (segment === '') throw refuseValue(place, 'must not have a segment that is empty with its values');
    return segment;
  };
  return [{ place, write }];
};

/** Headers that say how the body is read: it was searched by what they say. */
const ofReading = /^content-(?:type|encoding|transfer-encoding)$/i;

const splitHeader = (name: string, value: string, references: References): TextParts => {
  if (!value.includes('{{')) return [value];
  const place = formatPath(['headers', name]);
  if (ofReading.test(name) && cutText(value, place, references).some(({ isExpression }) => isExpression))
    throw refuseValue(place, 'must have no expressions: the header says how the body is searched for them');
  // A semicolon ends a cookie, whatever it is in.
  const isCookie = name.toLowerCase() === 'cookie';
  const checks = isCookie ? undefined : runAtOnce(documentChecks(value, undefined, place, references));
  if (checks) return splitChecked(value, place, references, encodeHeaderAt(place), checks);
  return splitHeaderValue([name, value], place, references, encodeHeaderAt(place));
};

const encodeHeaderAt =
  (place: string): Encode =>
  (value) => {
    if (!fieldValue.test(value)) throw refuseValue(place, 'must insert only characters that a header can hold');
    return value;
  };
