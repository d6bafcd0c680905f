// Headers that hold a digest of the body. None may describe another body than the one that is sent.
import type { Headers } from '../../platform/egress/headers.ts';
import { invalidField } from '../../platform/base/errors.ts';
import { formatPath } from '../../platform/json/json.ts';

/** RFC 9530, RFC 3230, RFC 1864, and headers of cloud services, by lower-case name. */
const digestNames: ReadonlySet<string> = new Set([
  'content-digest',
  'content-md5',
  'digest',
  'repr-digest',
  'x-amz-content-sha256',
  'x-content-sha256',
  'x-goog-content-sha256',
  'x-goog-hash',
  'x-ms-blob-content-md5',
  'x-ms-content-crc64',
  'x-ms-content-sha256',
]);

const amazonChecksum = /^x-amz-checksum-(?!(?:algorithm|mode|type)$)/;

/** In place of a digest, Amazon's header may have a word such as UNSIGNED-PAYLOAD. */
const isDigest = (name: string, value: string): boolean =>
  (digestNames.has(name) && (name !== 'x-amz-content-sha256' || /^[0-9a-f]{64}$/i.test(value.trim()))) ||
  amazonChecksum.test(name);

/** Headers about exact bytes: digests, signatures and the version of the content. */
const ofBytes = new Set(['etag', 'signature', 'signature-input']);

/** The headers that do not describe the bytes of the body. */
export const withoutByteHeaders = (headers: Headers): Headers =>
  headers.filter(([name, value]) => !ofBytes.has(name.toLowerCase()) && !isDigest(name.toLowerCase(), value));

const keyOf = ([name, value]: Headers[number]): string => `${name.toLowerCase()}:${value.trim()}`;

/** The digests of `sent` that are the same as in `came`, whose body was another. A digest that code or an expression set is left out. */
export const staleDigests = (came: Headers, sent: Headers): Headers => {
  const before = new Set(came.filter(([name, value]) => isDigest(name.toLowerCase(), value)).map(keyOf));
  return before.size === 0 ? [] : sent.filter((line) => before.has(keyOf(line)));
};

const STALE =
  'must not be there: the body that it describes is changed by values of tokens or by a transform. Leave it out, or let the request transform set it';

/** @param place of what has the headers. @throws invalidInput. */
export const refuseStaleDigests = (came: Headers, sent: Headers, place: readonly (string | number)[] = []): void => {
  const [stale] = staleDigests(came, sent);
  if (stale) throw invalidField(formatPath([...place, 'headers', stale[0]]), STALE);
};
