// Hosts that an application or a proxy may send to: what a list of them may say, and whether one list is within another.
// Pure; whether a host may be reached at all, and which one a request names, egress knows.
import { z } from 'zod';

/** As many as a person still reads over; the operator's own list has no such bound. */
export const ALLOWED_HOSTS_MAX = 50;
/** RFC 1035 section 2.3.4, with the two characters of a wildcard. */
const PATTERN_LENGTH_MAX = 255;

/** The form of a host name or wildcard, as the OpenAPI document shows it. */
const form = /^(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;

/** The labels of a host name as egress takes them. A last one of digits would make an address of it. */
const label = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?';
const pattern = new RegExp(`^(?:\\*\\.)?(?:${label}\\.)*(?!\\d+$)${label}$`);

const error =
  'must be a host name such as api.example.com, or *.example.com for those below it, without scheme, port and path';
/** Told once, whatever of it is wrong. */
const hostError = { error, abort: true };
const listError = `must be a list of 1 to ${ALLOWED_HOSTS_MAX} host names`;

/** For descriptions of a list. */
export const HOSTS_IN_DOCUMENTS =
  'Names of hosts without scheme, port and path; `*.example.com` means all hosts below example.com. A name has labels of at most 63 characters and is not an IP address.';

/** A list as it comes from outside; null and absent: not narrowed. An empty one would be read as both. */
export const allowedHostsSchema = z
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
  .max(ALLOWED_HOSTS_MAX, listError)
  .nullish()
  .transform((hosts) => (hosts ? [...new Set(hosts)] : undefined));

/** A list as its column has it; undefined for one that does not narrow. */
export const hostsOf = (column: string[] | null): string[] | undefined =>
  column !== null && column.length > 0 ? column : undefined;

/** `*.example.com` covers what lies below example.com, and not example.com. */
const coversPattern = (outer: string, inner: string): boolean =>
  outer === inner || (outer.startsWith('*.') && inner.replace(/^\*\./, '').endsWith(outer.slice(1)));

/** Whether whoever is held to the one list may hand on the other. Undefined is held to nothing. */
export const coversHosts = (outer: readonly string[] | undefined, inner: readonly string[] | undefined): boolean =>
  outer === undefined ||
  (inner !== undefined && inner.every((host) => outer.some((covering) => coversPattern(covering, host))));
