// Validates the host allowlist of an application or a proxy, and compares two lists: does one cover the other?
// `destination.ts` applies the lists to requests.
import { z } from 'zod';

/** A person can still review so many. The operator's own list has no limit. */
export const ALLOWED_HOSTS_MAX = 50;
/** RFC 1035 section 2.3.4, with the two characters of a wildcard. */
const PATTERN_LENGTH_MAX = 255;

/** The form of a host name or wildcard, as the OpenAPI document shows it. */
const form = /^(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;

/** The labels of a host name. A last label of digits is refused: URL parsers read it as an IP address. */
const label = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?';
const pattern = new RegExp(`^(?:\\*\\.)?(?:${label}\\.)*(?!\\d+$)${label}$`);

const error =
  'must be a host name such as api.example.com, or *.example.com for those below it, without scheme, port and path';
/** One message for every error; `abort` stops further checks. */
const hostError = { error, abort: true };

/** For descriptions of a list. */
export const HOSTS_IN_DOCUMENTS =
  'Names of hosts without scheme, port and path; `*.example.com` means all hosts below example.com. A name has labels of at most 63 characters and is not an IP address.';

/** An empty list is refused: it could mean all or none. */
export const hostListOf = (most: number) => {
  const listError = `must be a list of 1 to ${most} host names`;
  return z
    .array(
      z
        .string(error)
        .max(PATTERN_LENGTH_MAX, hostError)
        .regex(form, hostError)
        .toLowerCase()
        .refine((host) => pattern.test(host), hostError),
      listError,
    )
    .min(1, listError)
    .max(most, listError)
    .transform((hosts) => [...new Set(hosts)]);
};

export const hostList = hostListOf(ALLOWED_HOSTS_MAX);

/** A list in a request. Null or absent: every host is allowed. */
export const allowedHostsSchema = hostList.nullish().transform((hosts) => hosts ?? undefined);

/** A list from its database column; undefined if it allows every host. */
export const hostsOf = (column: string[] | null): string[] | undefined =>
  column !== null && column.length > 0 ? column : undefined;

/** `*.example.com` covers the subdomains of example.com, not example.com itself. */
const coversPattern = (outer: string, inner: string): boolean =>
  outer === inner || (outer.startsWith('*.') && inner.replace(/^\*\./, '').endsWith(outer.slice(1)));

/** Whether a caller limited to the outer list may grant the inner one. Undefined allows every host. */
export const coversHosts = (outer: readonly string[] | undefined, inner: readonly string[] | undefined): boolean =>
  outer === undefined ||
  (inner !== undefined && inner.every((host) => outer.some((covering) => coversPattern(covering, host))));
