// Refuses requests that would send an API key of a vault to a destination, in whatever place the caller put it.
// Clients confuse the vault's key with the destination's, above all where the destination takes `Authorization` or `X-Api-Key`.
import { holdsApiKey } from '../access/api-keys.ts';
import { invalidField } from '../../platform/errors.ts';
import { formatPath } from '../../platform/json/json.ts';
import type { Headers } from '../../platform/egress/headers.ts';
import { decodePercent } from './bodies/percent.ts';

const SENTENCE =
  'must not hold an API key of a vault: it would be sent to the destination. The key of this vault belongs into SVC-API-KEY, the key of another one into the configuration of a stored proxy';

/** A text as it is, and as receivers may decode it: percent-encoded, also twice, or the credentials of Basic. */
const readings = (text: string): string[] => {
  const once = decodePercent(text, true);
  const basic = /^\s*basic\s+(\S+)/i.exec(text)?.[1];
  return [text, once, decodePercent(once, true), ...(basic ? [Buffer.from(basic, 'base64').toString('latin1')] : [])];
};

const holdsKey = (text: string): boolean => text.length > 0 && readings(text).some(holdsApiKey);

/** What of a caller's request goes to the destination, before values are inserted. */
type Sent = { path: string; query: string; headers: Headers; namedUrl: string | undefined };

/**
 * @param namedUrl the destination, if the caller names it.
 * @throws invalidInput. The error holds no key, also where a name has it.
 */
export const refuseOwnKeys = ({ path, query, headers, namedUrl }: Sent): void => {
  if (namedUrl !== undefined && holdsKey(namedUrl)) throw invalidField('SVC-PROXY-URL', SENTENCE);
  if (holdsKey(path)) throw invalidField('path', SENTENCE);
  if (holdsKey(query)) throw invalidField('query', SENTENCE);
  for (const [name, value] of headers)
    if (holdsKey(value) || holdsKey(name))
      throw invalidField(holdsKey(name) ? 'headers' : formatPath(['headers', name]), SENTENCE);
};
