// Refuses requests that would send an API key of a vault to a destination, in whatever place the caller put it.
// Clients confuse the vault's key with the destination's, above all where the destination takes `Authorization` or `X-Api-Key`.
import { holdsApiKey } from '../access/api-keys.ts';
import { invalidField } from '../../platform/base/errors.ts';
import { formatPath } from '../../platform/json/json.ts';
import type { Headers } from '../../platform/egress/headers.ts';
import { decodePercent } from './bodies/percent.ts';

const SENTENCE =
  'must not hold an API key of a vault, nor the key of this proxy: it would be sent to the destination. The keys of this vault belong into SVC-API-KEY and SVC-PROXY-KEY, the key of another one into the configuration of a stored proxy';

/** Long enough for a key in Base64, of either alphabet. */
const base64Run = /[A-Za-z0-9+/_-]{40,}/g;

const jsonEscape = /\\u00([0-7][0-9a-f])/gi;

/** More encodings around each other are no mistake. */
const PERCENT_TIMES = 4;

/** A text as it is, and as receivers may decode it: percent-encoded several times, in escapes of JSON, or in Base64 as Basic has it. */
const readings = (text: string): string[] => {
  const found = [text];
  for (let times = 0; times < PERCENT_TIMES && found.at(-1)?.includes('%'); times += 1)
    found.push(decodePercent(found.at(-1) as string, true));
  const decoded = found.at(-1) as string;
  if (decoded.includes('\\u00'))
    found.push(decoded.replace(jsonEscape, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))));
  for (const [run] of decoded.matchAll(base64Run)) found.push(Buffer.from(run, 'base64').toString('latin1'));
  return found;
};

/**
 * Whether a text holds an API key of any vault, or one of the given keys. The one rule for all that is sent to a destination, in a
 * caller's request or in a stored proxy.
 * @param proxyKeys have no form of their own, so the ones that the request itself uses are looked for.
 */
export const holdsOwnKey = (text: string, proxyKeys: readonly string[] = []): boolean =>
  text.length > 0 &&
  readings(text).some((reading) => holdsApiKey(reading) || proxyKeys.some((key) => reading.includes(key)));

/** For a destination that is stored. */
export const NO_API_KEY =
  'must not hold an API key of a vault: each request would send it to the destination. A request transform can add one from the configuration';

/** What of a caller's request goes to the destination, before values are inserted. */
type Sent = {
  path: string;
  query: string;
  headers: Headers;
  namedUrl: string | undefined;
  /** The keys of stored proxies by which the request was made. */
  proxyKeys: readonly string[];
};

/**
 * @param namedUrl the destination, if the caller names it.
 * @throws invalidInput. The error holds no key, also where a name has it.
 */
export const refuseOwnKeys = ({ path, query, headers, namedUrl, proxyKeys }: Sent): void => {
  const holdsKey = (text: string): boolean => holdsOwnKey(text, proxyKeys);
  if (namedUrl !== undefined && holdsKey(namedUrl)) throw invalidField('SVC-PROXY-URL', SENTENCE);
  if (holdsKey(path)) throw invalidField('path', SENTENCE);
  if (holdsKey(query)) throw invalidField('query', SENTENCE);
  for (const [name, value] of headers)
    if (holdsKey(value) || holdsKey(name))
      throw invalidField(holdsKey(name) ? 'headers' : formatPath(['headers', name]), SENTENCE);
};
