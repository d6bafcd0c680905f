// Variables of the server itself: where it listens, how it is reached, how many processes it has.
import { totalmem } from 'node:os';
import { z } from 'zod';
import { flag, isOrigin, hosts, wholeNumber, words } from './forms.ts';

/** More than a machine has cores that a vault could use; each worker takes memory and connections. */
const WORKERS_MAX = 64;

/** Memory of a worker and of the supervisor. The executors of tenants' code need theirs besides. */
const WORKER_MB = 700;
const SUPERVISOR_MB = 150;
/** Memory of two workers and their supervisor, rounded. */
const TWO_WORKERS_MB = 1_600;
const CORES_OF_TWO_WORKERS = 2;

const MEBIBYTE = 1024 * 1024;

/** The memory of the machine, or of the container if it has less. constrainedMemory() is 0 or huge if there is no limit. */
export const findMemoryMb = (): number =>
  Math.floor(Math.min(totalmem(), process.constrainedMemory() || Infinity) / MEBIBYTE);

/**
 * How many workers `auto` starts: two where the machine has the cores and the memory, so that one tenant's long work on one of
 * them leaves the other to the rest. More workers write smaller batches, so more are started by number only.
 */
export const countWorkers = (cores: number, memoryMb: number, executorsMb: number): number =>
  cores >= CORES_OF_TWO_WORKERS && memoryMb - executorsMb >= TWO_WORKERS_MB ? 2 : 1;

/** Whether `auto` starts a heavy worker: where it has a core and memory beside the others. */
export const hasRoomForHeavy = (cores: number, memoryMb: number, executorsMb: number, workers: number): boolean =>
  cores >= CORES_OF_TWO_WORKERS && memoryMb - executorsMb >= SUPERVISOR_MB + (workers + 1) * WORKER_MB;

const workerCount = z.string().transform((text, problems) => {
  if (text === 'auto') return text;
  const count = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= WORKERS_MAX) return count;
  problems.addIssue(`must be a whole number from 1 to ${WORKERS_MAX}, or auto`);
  return z.NEVER;
});

/** Load balancers that check every second or two leave a server out after two failed checks. */
export const DRAIN_SECONDS_PRODUCTION = 5;
/** Five minutes: process supervisors kill a process that takes longer to stop. */
const DRAIN_SECONDS_MAX = 300;

/** Beginnings of headers that other standards and programs name. A prefix of the API must not take them away from destinations. */
const TAKEN_PREFIXES: ReadonlySet<string> = new Set(
  'ACCEPT ACCESS AGE ALT AMZ AUTHORIZATION CACHE CDN CF CONTENT CROSS DIGEST ETAG FORWARDED HTTP HTTP2 IDEMPOTENCY IF KEEP LAST LINK MAX ORIGIN PRIORITY PROXY RANGE RATELIMIT REFERRER REPLAY RETRY SEC SERVER SERVICE SET STRICT SURROGATE TIMING TRANSFER UPGRADE USER WARNING WWW X'.split(
    ' ',
  ),
);

/** Each costs every request a look at the names of its headers. */
const PREFIXES_MAX = 4;

/** SVC is always there: the console, the frames and the SDKs of the vault use it. */
const headerPrefixes = words.transform((prefixes, problems) => {
  const isPrefix = (text: string): boolean => /^[A-Z][A-Z0-9]{1,9}$/.test(text) && !TAKEN_PREFIXES.has(text);
  if (prefixes.includes('SVC') && prefixes.length <= PREFIXES_MAX && prefixes.every(isPrefix))
    return [...new Set(prefixes)].filter((prefix) => prefix !== 'SVC');
  problems.addIssue(
    `must be SVC and at most ${PREFIXES_MAX - 1} further prefixes of 2 to 10 capital letters and digits, such as SVC,BT, and no beginning of other headers, such as X`,
  );
  return z.NEVER;
});

export const serverVariables = {
  NODE_ENV: z
    .enum(['development', 'production', 'test'])
    .default('development')
    .describe('`production` switches every development convenience off. The image sets it.'),
  HOST: z.string().min(1).default('127.0.0.1').describe('Address to listen on.'),
  PORT: wholeNumber(0, 65_535, 8080).describe('Port to listen on; 0 takes a free one.'),
  ALLOW_DEV_ON_NETWORK: flag(false).describe('Lets a development server listen beyond loopback.'),
  DATA_DIR: z
    .string()
    .min(1)
    .default('./data')
    .describe('Where a development server keeps its database, its keys and its first API key.'),
  WORKERS: workerCount
    .optional()
    .describe(
      'Processes that serve, on one port. `auto` takes two where this server has two cores and 1.6 GB beside `SANDBOX_MEMORY_TOTAL_MB`, else one. Not set: `auto` in production, 1 in development.',
    ),
  HEAVY_WORKER: z
    .enum(['auto', 'on', 'off'])
    .default('auto')
    .describe(
      'Whether a process of its own serves a tenant with heavy work while other tenants send requests. It starts when a tenant needs it. `auto`: where this server has two cores, and 700 MB of memory more than its other processes need.',
    ),
  DRAIN_SECONDS: z.coerce
    .number(`must be a whole number from 0 to ${DRAIN_SECONDS_MAX}`)
    .int()
    .min(0)
    .max(DRAIN_SECONDS_MAX)
    .optional()
    .describe(
      'How long a server serves on after SIGTERM while `/readyz` answers 503, in seconds. Not set: 5 in production, 0 in development.',
    ),
  API_HEADER_PREFIXES: headerPrefixes
    .default([])
    .describe(
      'Prefixes of the headers of the API and of `svc-proxy-key`, comma-separated: `SVC,BT` also serves clients that send `BT-API-KEY`. Headers with these prefixes never reach a destination. Not set: `SVC` alone.',
    ),
  BODY_BYTES_MAX: wholeNumber(1024, 64 * 1024 * 1024, 1024 * 1024).describe('Largest request body, in bytes.'),
  PROXY_BODY_MAX: wholeNumber(1024, 1024 * 1024 * 1024, 32 * 1024 * 1024).describe(
    'Largest body of a request to the proxy, in bytes.',
  ),
  TRUSTED_PROXIES: words
    .optional()
    .describe('Networks whose X-Forwarded-For is believed, such as `10.0.0.0/8`, comma-separated.'),
  PUBLIC_URL: z
    .string()
    .refine(isOrigin, 'must be an origin, such as https://vault.example.com')
    .optional()
    .describe(
      'Where people reach this server: links in mails, pages of sessions and single sign-on begin with it, and passkeys belong to its host. In development: the address it listens on.',
    ),
  PUBLIC_HOSTS: hosts
    .optional()
    .describe('The public names of this server, which it never calls itself, comma-separated.'),
  DOCS: flag(true).describe(
    '`off` leaves out the start page `/`, `/docs`, `/guides`, `/llms.txt` and `/openapi.json`.',
  ),
  STRONGROOM_DEV_KEY: z
    .string()
    .min(1)
    .optional()
    .describe(
      'A ready-made API key, `svc_test_...`, with all permissions in the tenant of a development server: for scripts that know it beforehand. A start in production with it fails.',
    ),
  STRONGROOM_COMMAND: z
    .string()
    .min(1)
    .optional()
    .describe(
      'What stands before a command in advice. The images and compose set it: where it is set, no command writes a file that would go with the container.',
    ),
  BOOTSTRAP_API_KEY_FILE: z
    .string()
    .min(1)
    .optional()
    .describe('A file with a ready-made API key: an empty vault bootstraps itself with it at start.'),
};
