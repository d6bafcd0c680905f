// Where expressions stand in a forwarded request: in segments of its path, values of its query and headers, and its body.
// Finds them all before any is opened, and puts values in by the rules of their places.
import { fieldValue, type Headers } from '../egress/headers.ts';
import { badRequest } from '../errors.ts';
import type { CodedTexts } from '../vault/coded-texts.ts';
import { createReferences, type Expansion, type References } from '../vault/expansion.ts';
import { formatPath } from '../vault/json.ts';
import { runAtOnce, type Slices } from '../vault/json-parser.ts';
import { openBody } from './body.ts';
import type { BodyKind } from './body-kind.ts';
import { splitForm } from './form-text.ts';
import { percentOpening } from './opening.ts';
import { encodePercentAt, splitPercent } from './percent.ts';
import { type Encode, type Pieces, refuseValue, writePieces } from './pieces.ts';
import { splitHeaderValue } from './place-rules.ts';

export type RequestPlaces = {
  path: string;
  query: string;
  headers: Headers;
  body: { kind: BodyKind; bytes: Buffer } | undefined;
};

export type FoundExpressions = {
  references: References;
  /** Whether any stand in the body. */
  isInBody: boolean;
  /**
   * A place without an expression is byte for byte as it came.
   * @throws invalidInput at the place of a value that does not fit it; payloadTooLarge.
   */
  expand(expansion: Expansion): Expanded;
};

/** What goes out. */
type Expanded = { path: string; query: string; headers: Headers; body: Uint8Array | undefined };

/**
 * Pauses after each slice of a large body.
 * @param coded what the tenant's code marked, of a request that it makes.
 * @param mayUse whether the request may use tokens at all: if not, it is refused at the first that it refers to.
 * @throws forbidden; invalidInput at the place of what opens like an expression and is none; payloadTooLarge.
 */
export function* findInSlices(
  { path, query, headers, body }: RequestPlaces,
  coded?: CodedTexts,
  mayUse = true,
): Slices<FoundExpressions> {
  const references: References = { ...createReferences(undefined, coded), mayUse };
  const pathPieces = splitPath(path, references);
  const queryPieces = yield* splitForm(query, ['query'], encodePercentAt('utf8'), references);
  const headerPieces = headers.map(([name, value]): [string, Pieces] => [name, splitHeader(name, value, references)]);
  const writeBody = body && (yield* openBody(body.kind, body.bytes, ['body'], references));
  if (coded?.isComplete() === false) throw badRequest(NOT_LOOKED_AT);
  return {
    references,
    isInBody: writeBody !== undefined,
    expand: (expansion) => {
      const opened: Expanded = {
        path: writePieces(pathPieces, expansion),
        query: writePieces(queryPieces, expansion),
        headers: headerPieces.map(([name, pieces]) => [name, writePieces(pieces, expansion)]),
        body: writeBody ? writeBody(expansion) : body?.bytes,
      };
      if (coded && textsOf(opened).some(coded.isIn)) throw badRequest(NOT_LOOKED_AT);
      return opened;
    },
  };
}

/** Without pauses, for requests that are known to be small. */
export const findExpressions = (places: RequestPlaces, coded?: CodedTexts): FoundExpressions =>
  runAtOnce(findInSlices(places, coded));

const NOT_LOOKED_AT = 'What svc.expression and svc.literal make must stand where the proxy looks for expressions.';

/** A mark is ASCII, which every charset that is read here leaves as it is. */
const textsOf = ({ path, query, headers, body }: Expanded): string[] => [
  path,
  query,
  ...headers.flat(),
  ...(body ? [Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('latin1')] : []),
];

const splitPath = (path: string, references: References): Pieces => {
  if (!percentOpening.pattern.test(path)) return [path];
  const place = 'path';
  const encode = encodePercentAt('utf8')(place);
  return path
    .split('/')
    .flatMap((segment, index) => [
      ...(index === 0 ? [] : ['/']),
      ...splitPercent(segment, { place, plusIsSpace: false, encode }, references),
    ]);
};

const splitHeader = (name: string, value: string, references: References): Pieces => {
  if (!value.includes('{{')) return [value];
  const place = formatPath(['headers', name]);
  return splitHeaderValue([name, value], place, references, encodeHeaderAt(place));
};

const encodeHeaderAt =
  (place: string): Encode =>
  (value) => {
    if (!fieldValue.test(value)) throw refuseValue(place, 'must put in characters that a header can hold');
    return value;
  };
