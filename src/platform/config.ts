// Reads and validates the environment variables: the only file that does so. Reports all problems at once, with their fixes.
import { readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import { z } from 'zod';
import { type ApplicationLimits, BURST_MAX, DAILY_TOKENS_MAX, REQUESTS_PER_SECOND_MAX } from './application-limits.ts';
import {
  type KeyProvidersConfig,
  keyProvidersOf,
  PROVIDER_NAMES,
  type ProviderName,
} from './crypto/provider-config.ts';
import { canonicalHost, isHostName } from './host-names.ts';
import { memoryTotalMbLeast } from './sandbox/protocol/sandbox.ts';
import { editDistance } from './unknown-names.ts';

const HOUR_MS = 3_600_000;

/** Security codes are sensitive authentication data (PCI DSS): stored for an hour by default, and never for more than a day. */
const CVC_TTL_DEFAULT = '1h';
const CVC_TTL_MAX_MS = 24 * HOUR_MS;

const onOrOff = z
  .enum(['true', 'false', '1', '0', 'on', 'off'])
  .transform((text) => text === 'true' || text === '1' || text === 'on');

const flag = (value: boolean) => onOrOff.default(value);

const wholeNumberFrom = (least: number, most: number) =>
  z.coerce.number(`must be a whole number from ${least} to ${most}`).int().min(least).max(most);

const wholeNumber = (least: number, most: number, value: number) => wholeNumberFrom(least, most).default(value);

const MINUTE_MS = 60_000;

/** PCI DSS 8.2.8: a session ends after 15 minutes without use. */
const SESSION_IDLE_DEFAULT = '15m';
/** The last use of a session is written once a minute: a shorter time would end sessions in use. */
const SESSION_IDLE_MIN_MS = 2 * MINUTE_MS;
/** A working day, after which every session ends. */
const SESSION_IDLE_MAX_MS = 12 * HOUR_MS;

/** PCI DSS 8.3.4: after too many failures an account stays locked for 30 minutes. */
const SIGN_IN_LOCKOUT_DEFAULT = '30m';
const SIGN_IN_LOCKOUT_MAX_MS = 24 * HOUR_MS;

const durationUnitsMs: Record<string, number> = { s: 1000, m: 60_000, h: HOUR_MS };

const duration = z
  .string()
  .regex(/^\d{1,6}[smh]?$/, 'must be a number of seconds, or like 90s, 15m or 1h')
  .transform((text) => Number.parseInt(text, 10) * (durationUnitsMs[text.at(-1) ?? 's'] ?? 1000));

/** 32 bytes: 64 hex digits, or 43 characters of base64 or base64url whose last one has no unused bits set. */
const ROOT_KEY_FORMS = [
  ['hex', /^[0-9a-fA-F]{64}$/],
  ['base64', /^[0-9A-Za-z+/]{42}[AEIMQUYcgkosw048]=?$/],
  ['base64url', /^[0-9A-Za-z_-]{42}[AEIMQUYcgkosw048]=?$/],
] as const;

/** Parses a root key; undefined unless the text is exactly 32 bytes. Buffer.from() alone would ignore invalid characters. */
export const parseRootKey = (text: string): Buffer | undefined => {
  const written = text.trim();
  const [encoding] = ROOT_KEY_FORMS.find(([, form]) => form.test(written)) ?? [];
  return encoding && Buffer.from(written, encoding);
};

const rootKey = z.string().transform((text, problems) => {
  const key = parseRootKey(text);
  if (key) return key;
  problems.addIssue(
    'must be 32 random bytes in base64. Make one, and store it in your secret manager first: head -c 32 /dev/urandom | base64',
  );
  return z.NEVER;
});

const rootKeys = z.string().transform((text, problems) => {
  const keys = text.split(',').map(parseRootKey);
  if (keys.every((key) => key !== undefined)) return keys;
  problems.addIssue('must be root keys of 32 bytes in base64, comma-separated');
  return z.NEVER;
});

const words = z.string().transform((text) =>
  text
    .split(',')
    .map((word) => word.trim())
    .filter(Boolean),
);

const providerNames = words.transform((names, problems) => {
  const known = PROVIDER_NAMES.filter((name) => names.includes(name));
  if (names.length > 0 && known.length === names.length) return names as ProviderName[];
  problems.addIssue(`must be one of ${PROVIDER_NAMES.join(', ')}, or several, comma-separated`);
  return z.NEVER;
});

/** Part of a path: names of the transit engine have no other characters. */
const transitName = /^[A-Za-z0-9._-]{1,128}$/;
const transitMount = /^[A-Za-z0-9._-]{1,128}(?:\/[A-Za-z0-9._-]{1,128}){0,4}$/;
/** An alias is refused: it could later lead to a key that opens nothing. */
const kmsKeyArn = /^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key\/[A-Za-z0-9-]{1,128}$/;

const privateHosts = words.transform((entries, problems) =>
  entries.flatMap((entry) => {
    const [, host = '', port = ''] = /^([A-Za-z0-9.-]{1,253}):(\d{1,5})$/.exec(entry) ?? [];
    if (host !== '' && Number(port) > 0 && Number(port) < 65_536)
      return [{ host: host.toLowerCase(), port: Number(port) }];
    problems.addIssue('must be names with a port, such as `payments.internal:8443`, comma-separated');
    return [];
  }),
);

/** Host names without scheme, port or path. Others are refused: they would match no host and protect nothing. */
const hosts = words.transform((entries, problems) => {
  if (entries.length > 0 && entries.every((entry) => isHostName(entry.replace(/^\*\./, '')))) return entries;
  problems.addIssue(
    'must be host names without scheme, port or path, such as `api.example.com` or `*.example.com`, comma-separated',
  );
  return z.NEVER;
});

const ports = words.transform((entries, problems) => {
  const numbers = entries.map(Number);
  if (numbers.every((port) => Number.isInteger(port) && port > 0 && port < 65_536)) return numbers;
  problems.addIssue('must be ports, such as `443,8443`, comma-separated');
  return z.NEVER;
});

/** Decodes a percent-encoded part of a URL; undefined if it is not UTF-8. */
const percentDecoded = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
};

const isSmtpUrl = (text: string): boolean => {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, search, hash, pathname, username, password } = new URL(text);
  return (
    /^smtps?:$/.test(protocol) &&
    /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])$/.test(hostname) &&
    search + hash === '' &&
    ['', '/'].includes(pathname) &&
    // A user needs a password and the other way round.
    (username === '') === (password === '') &&
    [username, password].every((part) => percentDecoded(part) !== undefined)
  );
};

/** An address alone, or after a name: bare words, or anything in quotes (RFC 5322 section 3.4). */
const MAIL_FROM_FORM = /^(?:(?:"((?:[^"\\\p{Cc}]|\\[^\p{Cc}])*)"|([^"<>,;:\\\p{Cc}]*))\s*<([^<>]*)>|([^<>]*))$/u;
const MAIL_FROM_ADDRESS = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9.-]{1,253}$/;

const mailFrom = z.string().transform((text, problems) => {
  const [, quoted, bare = '', bracketed, alone] = MAIL_FROM_FORM.exec(text.trim()) ?? [];
  const address = bracketed ?? alone ?? '';
  const name = (quoted?.replace(/\\(.)/gu, '$1') ?? bare).trim();
  if (MAIL_FROM_ADDRESS.test(address)) return { name, address };
  problems.addIssue(
    'must be one address, such as vault@example.com or Strongroom <vault@example.com>; a name with a comma in quotes',
  );
  return z.NEVER;
});

const isOrigin = (text: string): boolean =>
  URL.canParse(text) && /^https?:\/\/[^/?#@\s]+\/?$/i.test(text) && /^https?:$/.test(new URL(text).protocol);

/** Whether traffic to an origin cannot be read on the way: by TLS, or because it stays on this machine. */
const isPrivateOnTheWay = (origin: string): boolean => {
  const { protocol, hostname } = new URL(origin);
  return protocol === 'https:' || ['localhost', '127.0.0.1', '[::1]'].includes(hostname);
};

/** `50`, or `50:200` with the burst. */
const rateLimit = z.string().transform((text, problems) => {
  const [, rate = '', burst = rate] = /^(\d{1,6})(?::(\d{1,6}))?$/.exec(text) ?? [];
  const limit = { requests_per_second: Number(rate), burst: Number(burst) };
  const isRate = limit.requests_per_second >= 1 && limit.requests_per_second <= REQUESTS_PER_SECOND_MAX;
  if (isRate && limit.burst >= 1 && limit.burst <= BURST_MAX) return limit;
  problems.addIssue(
    `must be requests per second from 1 to ${REQUESTS_PER_SECOND_MAX}, such as 50, or with a burst up to ${BURST_MAX}, such as 50:200`,
  );
  return z.NEVER;
});

const dailyTokens = z.coerce
  .number(`must be a whole number from 0 to ${DAILY_TOKENS_MAX}`)
  .int()
  .min(0)
  .max(DAILY_TOKENS_MAX)
  .optional();

/** More than a machine has cores that a vault could use; each worker takes memory and connections. */
const WORKERS_MAX = 64;
/** A process needs a transaction beside a statement. */
const DATABASE_POOL_MIN = 2;

const workerCount = z.string().transform((text, problems) => {
  if (text === 'auto') return Math.min(availableParallelism(), WORKERS_MAX);
  const count = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= WORKERS_MAX) return count;
  problems.addIssue(`must be a whole number from 1 to ${WORKERS_MAX}, or auto`);
  return z.NEVER;
});

/** Load balancers that check every second or two leave a server out after two failed checks. */
const DRAIN_SECONDS_PRODUCTION = 5;
/** Five minutes: process supervisors kill a process that takes longer to stop. */
const DRAIN_SECONDS_MAX = 300;

const DAY_MS = 24 * HOUR_MS;
/** Longer than backups are kept: most rules ask for a year at most. Thirteen months are 396 days at most. */
const ERASURES_KEPT_DAYS = 396;
/** Ten years, for backups that are kept as long. */
const ERASURES_KEPT_DAYS_MAX = 3_660;
/** A token that can be guessed protects nothing: 16 random characters have 95 bits. The characters are those of RFC 6750. */
const METRICS_TOKEN_FORM = /^[A-Za-z0-9._~+/-]{16,200}=*$/;

/** PCI DSS 10.5.1 asks for twelve months, three of them at hand: thirteen whole ones leave a month to archive them. */
const LOG_RETENTION_MONTHS = 13;
/** Ten years: each month is a partition, which every list of the log plans for. */
const LOG_RETENTION_MONTHS_MAX = 120;
/** A proportion of requests. */
const RATIO_FORM = /^(?:0|1|0?\.\d{1,6}|1\.0{1,6})$/;

const isHttpUrl = (text: string): boolean => {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, search, hash } = new URL(text);
  return /^https?:$/.test(protocol) && username + password + search + hash === '';
};

/** `name=value` pairs with percent-encoded values, comma-separated, as the variables of OpenTelemetry have them. */
const pairs = (nameForm: RegExp, valueForm: RegExp) =>
  words.transform((entries, problems) => {
    const found = entries.map((entry) => {
      const [name = '', ...rest] = entry.split('=');
      return [name.trim(), percentDecoded(rest.join('=').trim())] as const;
    });
    const isValid = found.every(([name, value]) => nameForm.test(name) && value !== undefined && valueForm.test(value));
    if (isValid) return Object.fromEntries(found) as Record<string, string>;
    problems.addIssue('must be like name=value,name=value with percent-encoded values');
    return z.NEVER;
  });

const isPostgresUrl = (text: string) => URL.canParse(text) && /^postgres(ql)?:$/.test(new URL(text).protocol);

/** libpq takes several addresses, `host1,host2` or `host=host1,host2`. The driver takes one. */
const hasSeveralHosts = (text: string): boolean => {
  const [, authority = '', query = ''] = /^postgres(?:ql)?:\/\/([^/?#]*)[^?#]*\??([^#]*)/.exec(text) ?? [];
  const hosts = authority.slice(authority.lastIndexOf('@') + 1);
  const parameters = new URLSearchParams(query);
  return [hosts, parameters.get('host') ?? '', parameters.get('port') ?? ''].some((part) => /,|%2c/i.test(part));
};

/** Every variable the server knows, with the sentence that the README prints about it. */
export const environmentSchema = z.object({
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
  DATABASE_URL: z
    .string()
    .refine((text) => !hasSeveralHosts(text), {
      abort: true,
      message:
        'must name one host. For a cluster name a proxy or a moving address that leads to its primary, such as HAProxy: see docs/operations/high-availability.md',
    })
    .refine(isPostgresUrl, 'must be a postgresql:// address')
    .optional()
    .describe('PostgreSQL 15 or newer, one host. Not set: an embedded PostgreSQL 18 in DATA_DIR.'),
  WORKERS: workerCount
    .prefault('1')
    .describe('Processes that serve, on one port; `auto` takes as many as there are cores for this server.'),
  DATABASE_POOL_MAX: wholeNumber(DATABASE_POOL_MIN, 200, 10).describe('Connections to the database, of all workers.'),
  MIGRATE_ON_START: flag(true).describe(
    'Applies pending migrations before listening. `false`: a start with pending ones fails.',
  ),
  MASTER_KEY: rootKey
    .optional()
    .describe('Root key: 32 random bytes in base64. Needed in production; a development server makes its own.'),
  MASTER_KEY_PROVIDER: providerNames
    .prefault('local')
    .describe(
      'What holds the root key: `local` (MASTER_KEY), `vault-transit` or `aws-kms`. Further ones after a comma open what they wrapped.',
    ),
  MASTER_KEY_PREVIOUS: rootKeys
    .optional()
    .describe(
      'Earlier root keys, comma-separated. They open what they wrapped, until `strongroom keys rotate-root` has wrapped all of it under MASTER_KEY.',
    ),
  VAULT_ADDR: z
    .string()
    .refine((url) => URL.canParse(url) && /^https?:$/.test(new URL(url).protocol), 'must be an https:// address')
    .optional()
    .describe('Address of HashiCorp Vault or OpenBao, for `vault-transit`.'),
  VAULT_NAMESPACE: z.string().min(1).optional().describe('Its namespace. Not set: the root namespace.'),
  VAULT_CACERT: z
    .string()
    .min(1)
    .optional()
    .describe("File with its certificate authorities in PEM, in place of the system's."),
  VAULT_TOKEN: z.string().min(1).optional().describe('A token that may encrypt and decrypt with the key.'),
  VAULT_TOKEN_FILE: z
    .string()
    .min(1)
    .optional()
    .describe('File with such a token, read for each call: an agent of Vault can renew it.'),
  VAULT_ROLE_ID: z.string().min(1).optional().describe('Role of AppRole, in place of a token.'),
  VAULT_SECRET_ID: z.string().min(1).optional().describe('Secret of the role.'),
  VAULT_TRANSIT_MOUNT: z
    .string()
    .regex(transitMount, 'must be a path without slashes at its ends')
    .default('transit')
    .describe('Where the transit engine is mounted.'),
  VAULT_TRANSIT_KEY: words
    .refine((names) => names.length > 0 && names.every((name) => transitName.test(name)), 'must be names of keys')
    .optional()
    .describe('Name of the transit key. Earlier ones after a comma open what they wrapped.'),
  AWS_KMS_KEY: words
    .refine(
      (names) => names.length > 0 && names.every((name) => kmsKeyArn.test(name)),
      'must be ARNs of keys, not aliases',
    )
    .optional()
    .describe('ARN of the symmetric key of AWS KMS, for `aws-kms`. Earlier ones after a comma open what they wrapped.'),
  AWS_KMS_ENDPOINT: z
    .string()
    .refine((url) => URL.canParse(url) && /^https?:$/.test(new URL(url).protocol), 'must be an https:// address')
    .optional()
    .describe('Endpoint of AWS KMS. Not set: that of the region in the ARN.'),
  DRAIN_SECONDS: z.coerce
    .number(`must be a whole number from 0 to ${DRAIN_SECONDS_MAX}`)
    .int()
    .min(0)
    .max(DRAIN_SECONDS_MAX)
    .optional()
    .describe(
      'How long a server serves on after SIGTERM while `/readyz` answers 503, in seconds. Not set: 5 in production, 0 in development.',
    ),
  CVC_TTL: duration
    .refine((ttlMs) => ttlMs <= CVC_TTL_MAX_MS, 'must be at most 24h')
    .prefault(CVC_TTL_DEFAULT)
    .describe('How long a card security code lives, 24h at most; then it is gone for good.'),
  ERASURES_KEPT_DAYS: wholeNumber(1, ERASURES_KEPT_DAYS_MAX, ERASURES_KEPT_DAYS).describe(
    'How long the vault remembers what was deleted, in days. Longer than you keep backups, so that a restore can delete it again.',
  ),
  BODY_BYTES_MAX: wholeNumber(1024, 64 * 1024 * 1024, 1024 * 1024).describe('Largest request body, in bytes.'),
  PROXY_BODY_MAX: wholeNumber(1024, 1024 * 1024 * 1024, 32 * 1024 * 1024).describe(
    'Largest body of a request to the proxy, in bytes.',
  ),
  WRITE_BATCHES: wholeNumber(1, 32, 2).describe('Write batches under way at once, per worker.'),
  RATE_LIMIT: z.enum(['on', 'off']).default('on').describe('`off` lifts the limit on failed authentications.'),
  RATE_LIMIT_DEFAULT: rateLimit
    .optional()
    .describe(
      'Requests per second of an application that names no `rate_limit`, such as `50`, or `50:200` with its burst. Not set: no limit.',
    ),
  DAILY_REVEALS_DEFAULT: dailyTokens.describe(
    'Distinct tokens per day that an application may reveal if it names no `daily_reveals`. Not set: no limit.',
  ),
  DAILY_USES_DEFAULT: dailyTokens.describe(
    'Distinct tokens per day that an application may use if it names no `daily_uses`. Not set: no limit.',
  ),
  TRUSTED_PROXIES: words
    .optional()
    .describe('Networks whose X-Forwarded-For is believed, such as `10.0.0.0/8`, comma-separated.'),
  BOOTSTRAP_API_KEY_FILE: z
    .string()
    .min(1)
    .optional()
    .describe('A file with a ready-made API key: an empty vault bootstraps itself with it at start.'),
  SANDBOX_JAIL: z
    .enum(['auto', 'bwrap', 'landlock', 'none'])
    .default('auto')
    .describe(
      "What walls in tenants' code: `bwrap` (bubblewrap, and in it Landlock and seccomp) or `landlock` (Landlock and seccomp); `auto` takes the first that works here. A start without the wall that is asked for fails.",
    ),
  SANDBOX_ALLOW_WEAK: z
    .enum(['0', '1'])
    .default('0')
    .describe("`1` runs tenants' code in production without a wall: code that escapes V8 can then read the root key."),
  SANDBOX_ISOLATION: z
    .enum(['context', 'isolate'])
    .default('context')
    .describe(
      'What each run of code has of its own: a context, or a whole V8 isolate, which costs about five times the CPU time.',
    ),
  SANDBOX_MEMORY_TOTAL_MB: wholeNumberFrom(1, 1024 * 1024)
    .optional()
    .describe(
      'Memory of all processes for the code of tenants together, of all workers, in MB: room for two of them at least for each worker. One tenant has half of it at most. Not set: a quarter of the memory of the machine or container.',
    ),
  SANDBOX_WALL_MS: wholeNumber(100, 300_000, 30_000).describe('Longest run of code, in ms.'),
  SANDBOX_CPU_MS: wholeNumber(50, 60_000, 5000).describe('Most CPU time of a run, in ms.'),
  SANDBOX_MEMORY_MB: wholeNumber(16, 1024, 128).describe("Memory of code's isolate, in MB."),
  PROXY_ALLOWED_HOSTS: hosts
    .optional()
    .describe(
      "Hosts that the proxy and code's `fetch` may reach, such as `api.example.com` or `*.example.com`, comma-separated. Not set: any public one.",
    ),
  PROXY_PORTS: ports.optional().describe('Ports they may reach, comma-separated. Not set: any that browsers may.'),
  EGRESS_PRIVATE_HOSTS: privateHosts
    .optional()
    .describe(
      'Hosts with their ports that may have private addresses, such as `payments.internal:8443`, comma-separated.',
    ),
  PUBLIC_HOSTS: hosts
    .optional()
    .describe('The public names of this server, which it never calls itself, comma-separated.'),
  PUBLIC_URL: z
    .string()
    .refine(isOrigin, 'must be an origin, such as https://vault.example.com')
    .optional()
    .describe(
      'Where people reach this server: links in mails begin with it. In development: the address it listens on.',
    ),
  CONSOLE_HOST: z
    .string()
    .refine(isHostName, 'must be a host name without scheme, port or path, such as `console.example.com`')
    .optional()
    .describe(
      'A host of its own for the pages of people: only they are served there, and only there. Not set: they share a host with the API and the proxy.',
    ),
  FIELDS_ORIGIN: z
    .string()
    .refine(isOrigin, 'must be an origin, such as https://fields.example.com')
    .optional()
    .describe(
      'An origin of its own for the frames of the fields library and the pages of sessions: only they, and the two routes that create tokens, are served on its host. Not set: they share a host with the API.',
    ),
  CONSOLE: flag(true).describe('`off` leaves out sign-in and `/console`.'),
  DOCS: flag(true).describe('`off` leaves out the start page `/`, `/docs` and `/openapi.json`.'),
  SESSION_IDLE: duration
    .refine((ms) => ms >= SESSION_IDLE_MIN_MS && ms <= SESSION_IDLE_MAX_MS, 'must be from 2m to 12h')
    .prefault(SESSION_IDLE_DEFAULT)
    .describe('A console session that is not used for this long ends, from 2m to 12h.'),
  REQUIRE_SECOND_FACTOR: onOrOff
    .optional()
    .describe(
      'Whether members sign in with a second factor, where the setting `require_second_factor` of their tenant does not say it. Not set: `on` in production, `off` in development.',
    ),
  SIGN_IN_LOCKOUT: duration
    .refine((ms) => ms >= MINUTE_MS && ms <= SIGN_IN_LOCKOUT_MAX_MS, 'must be from 1m to 24h')
    .prefault(SIGN_IN_LOCKOUT_DEFAULT)
    .describe(
      'How long failed sign-ins count, and lock an account for the address that they came from, from 1m to 24h.',
    ),
  SMTP_URL: z
    .string()
    .refine(
      isSmtpUrl,
      'must be like smtp://user:password@host:587, or smtps:// for TLS from the first byte; user and password percent-encoded',
    )
    .optional()
    .describe('The mail server. Not set: a development server writes mails to DATA_DIR/outbox, another sends none.'),
  SMTP_TLS: z
    .enum(['required', 'off'])
    .default('required')
    .describe('`off` sends mails, and the links in them, to an smtp:// server in the clear.'),
  MAIL_FROM: mailFrom
    .optional()
    .describe('Sender of mails, such as `Strongroom <vault@example.com>`. Needed with SMTP_URL.'),
  LOG_LEVEL: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'silent'])
    .default('info')
    .describe('Least level logged.'),
  LOG_RETENTION_MONTHS: wholeNumber(1, LOG_RETENTION_MONTHS_MAX, LOG_RETENTION_MONTHS).describe(
    'Whole months that the audit log stays in the database. `strongroom logs archive` moves older ones into files.',
  ),
  LOG_STREAM: z
    .string()
    .refine(isAbsolute, 'must be the absolute path of a file')
    .optional()
    .describe(
      'A file to which the rows of the audit log are streamed as lines of JSON, such as `/var/log/strongroom/audit.jsonl`. Not set: none.',
    ),
  METRICS_PORT: wholeNumberFrom(0, 65_535)
    .optional()
    .describe('Port of its own for `GET /metrics`; 0 takes a free one. Not set: none.'),
  METRICS_HOST: z.string().min(1).default('127.0.0.1').describe('Address that METRICS_PORT listens on.'),
  METRICS_TOKEN: z
    .string()
    .regex(METRICS_TOKEN_FORM, 'must be 16 to 200 letters, digits or `._~+/-`. Make one: openssl rand -hex 24')
    .optional()
    .describe(
      'Bearer token that `GET /metrics` asks for. Without METRICS_PORT it opens `/metrics` on PORT. Not set: no `/metrics` there.',
    ),
  OTEL_EXPORTER_OTLP_ENDPOINT: z
    .string()
    .refine(isHttpUrl, 'must be like http://127.0.0.1:4318, without user, password and query')
    .optional()
    .describe(
      'Collector that gets traces by OTLP over HTTP; `/v1/traces` is appended. Not set: requests are not traced.',
    ),
  OTEL_EXPORTER_OTLP_HEADERS: pairs(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/, /^[\x20-\x7e]{1,4096}$/)
    .optional()
    .describe('Headers for the collector, such as `authorization=Bearer%20TOKEN`, comma-separated.'),
  OTEL_EXPORTER_OTLP_PROTOCOL: z
    .literal(
      'http/json',
      'must be http/json or not set: collectors take it where they take http/protobuf, on port 4318',
    )
    .optional()
    .describe('Only `http/json`.'),
  OTEL_SERVICE_NAME: z.string().min(1).max(255).default('strongroom').describe('Name of this service in traces.'),
  OTEL_RESOURCE_ATTRIBUTES: pairs(/^[\x21-\x7e]{1,255}$/, /^[^\p{Cc}]{1,255}$/u)
    .optional()
    .describe('Attributes of this server in traces, such as `deployment.environment.name=live`, comma-separated.'),
  OTEL_TRACES_SAMPLER: z
    .enum([
      'always_on',
      'always_off',
      'traceidratio',
      'parentbased_always_on',
      'parentbased_always_off',
      'parentbased_traceidratio',
    ])
    .default('always_on')
    .describe(
      'Which requests are traced: all, none, or the share OTEL_TRACES_SAMPLER_ARG. With `parentbased_` the `traceparent` of a client decides first: only behind a gateway of yours that sets it.',
    ),
  OTEL_TRACES_SAMPLER_ARG: z
    .string()
    .regex(RATIO_FORM, 'must be a number from 0 to 1, such as 0.01')
    .default('1')
    .describe('Share of requests that are traced, from 0 to 1, with a sampler `traceidratio`.'),
  TRACEPARENT_HOSTS: hosts
    .optional()
    .describe(
      'Destinations that get a `traceparent`, such as `api.example.com` or `*.example.com`, comma-separated. Not set: none.',
    ),
  LOG_FORMAT: z.enum(['auto', 'json']).default('auto').describe('`json` never prints the start block of a terminal.'),
});

/** Variables that may come from a file instead, named with `_FILE`: secrets that a deployment mounts. */
const fileVariables = [
  'MASTER_KEY',
  'MASTER_KEY_PREVIOUS',
  'DATABASE_URL',
  'SMTP_URL',
  'METRICS_TOKEN',
  'VAULT_SECRET_ID',
  'OTEL_EXPORTER_OTLP_HEADERS',
] as const;

/** Variables of earlier versions: a start with one of them fails, since its limit would no longer hold. */
const removedVariables: Record<string, string> = {
  SANDBOX_EXECUTORS_MAX: 'is gone: executors are limited by their memory. Set SANDBOX_MEMORY_TOTAL_MB, 300 for each.',
};

/** Prefixes that only variables of Strongroom have. */
const OWN_PREFIXES = /^(?:SANDBOX|EGRESS)_/;
/** Shorter names are too similar to those of other programs, such as PGHOST to HOST. */
const SLIP_LENGTH_MIN = 6;
/** From this length on, two differences still count as a typing error. */
const LONG_NAME_LENGTH = 9;

/**
 * Finds variables that look like misspelled ones of Strongroom. They have no effect and do not stop the start.
 * @returns a sentence for each, without its value.
 */
export const findMisspelledVariables = (environment: Record<string, string | undefined> = process.env): string[] => {
  const known = [...Object.keys(environmentSchema.shape), ...fileVariables.map((name) => `${name}_FILE`)];
  return Object.keys(environment).flatMap((name) => {
    if (known.includes(name) || name.length < SLIP_LENGTH_MIN) return [];
    const differencesMax = name.length < LONG_NAME_LENGTH ? 1 : 2;
    const meant = known.find((each) => editDistance(name, each) <= differencesMax);
    if (meant === undefined && !OWN_PREFIXES.test(name)) return [];
    return [
      `${name} is no variable of Strongroom and has no effect${meant === undefined ? '' : `: did you mean ${meant}?`}`,
    ];
  });
};

/** How mails are delivered. */
export type MailConfig = { from: { name: string; address: string } } & (
  | {
      kind: 'smtp';
      host: string;
      port: number;
      /** TLS from the first byte. */
      secure: boolean;
      /** Requires STARTTLS. If neither is set, mails are sent without TLS. */
      requireTls: boolean;
      user: string | undefined;
      password: string | undefined;
    }
  | { kind: 'files'; directory: string }
);

/** How requests are traced. */
export type TracingConfig = {
  /** Where spans are sent. */
  url: string;
  headers: Record<string, string>;
  serviceName: string;
  resourceAttributes: Record<string, string>;
  /** The share of requests that are traced. */
  ratio: number;
  /** Whether the `traceparent` of a client decides, if there is one. */
  followsParent: boolean;
  /** Destinations that get a `traceparent`. */
  traceparentHosts: readonly string[];
};

export type Config = {
  mode: 'development' | 'production';
  host: string;
  port: number;
  dataDir: string;
  databaseUrl: string | undefined;
  /** Number of serving processes. */
  workers: number;
  databasePoolMax: number;
  migrateOnStart: boolean;
  drainMs: number;
  /** Of the provider `local`. Undefined in development: the context generates one in `dataDir`. */
  rootKey: Buffer | undefined;
  /** They unwrap, and wrap until a rotation begins. */
  previousRootKeys: Buffer[];
  keyProviders: KeyProvidersConfig;
  cvcTtlMs: number;
  erasuresKeptMs: number;
  bodyBytesMax: number;
  proxyBodyBytesMax: number;
  writeBatches: number;
  /** Whether failed authentications and sign-ins are limited. */
  rateLimit: boolean;
  /** For applications without limits of their own. */
  limitDefaults: ApplicationLimits;
  trustedProxies: string[] | undefined;
  bootstrapApiKeyFile: string | undefined;
  sandbox: {
    wallKind: 'auto' | 'bwrap' | 'landlock' | 'none';
    /** Whether code may run without isolation by the system. */
    allowWeak: boolean;
    isolation: 'context' | 'isolate';
    /** Of all executors together, on this machine. */
    memoryTotalMb: number;
    wallMs: number;
    cpuMs: number;
    memoryMb: number;
  };
  egress: {
    allowedHosts: string[] | undefined;
    privateHosts: { host: string; port: number }[];
    ports: number[] | undefined;
    ownHosts: string[];
  };
  /** An origin without a slash at its end. Undefined in development: the address that the server listens on. */
  publicUrl: string | undefined;
  /** The host that serves only the console and the pages of members, as a URL's hostname. Undefined: every host serves all. */
  consoleHost: string | undefined;
  /** The origin that serves only frames and pages that collect data. Undefined: every host except the console's does. */
  fieldsOrigin: string | undefined;
  /** Whether members can sign in. */
  console: boolean;
  /** Whether the start page, the reference and the OpenAPI document are served. */
  docs: boolean;
  sessionIdleMs: number;
  signInLockoutMs: number;
  /** Of tenants whose settings do not say it. */
  requireSecondFactor: boolean;
  /** Undefined: no mail is sent. */
  mail: MailConfig | undefined;
  /** Metrics are served on `port`, or on that of the API where there is a token alone, or not at all. */
  metrics: { host: string; port: number | undefined; token: string | undefined };
  /** Whole months of the audit log in the database. */
  logRetentionMonths: number;
  /** The file that the audit log is streamed to. */
  logStream: string | undefined;
  /** Undefined: requests are not traced. */
  tracing: TracingConfig | undefined;
  logLevel: string;
  logFormat: 'auto' | 'json';
  /** All variables that are set, with file contents resolved. Workers build their configuration from them. */
  variables: Record<string, string>;
};

/** The environment is not valid. The message lists each problem with its fix on a line, without values. */
export class ConfigError extends Error {
  readonly problems: string[];
  constructor(problems: string[]) {
    super(`The configuration is not usable:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

/** The share of the memory of the machine, or of the container if it has less. */
const SANDBOX_MEMORY_SHARE = 0.25;

const defaultMemoryTotalMb = (memoryMb: number): number => {
  // constrainedMemory() is 0 or huge if there is no limit.
  const bytes = Math.min(totalmem(), process.constrainedMemory() || Infinity);
  const share = Math.floor((bytes / 1024 / 1024) * SANDBOX_MEMORY_SHARE);
  return Math.max(share, memoryTotalMbLeast(memoryMb));
};

const isLoopback = (host: string) => host === 'localhost' || host === '::1' || host.startsWith('127.');

const MAIL_FROM_DEVELOPMENT = { name: 'Strongroom', address: 'strongroom@localhost' };

const mailOf = (values: z.infer<typeof environmentSchema>, mode: Config['mode']): MailConfig | undefined => {
  const from = values.MAIL_FROM ?? MAIL_FROM_DEVELOPMENT;
  if (values.SMTP_URL === undefined)
    return mode === 'development'
      ? { kind: 'files', directory: join(resolve(values.DATA_DIR), 'outbox'), from }
      : undefined;
  const { protocol, hostname, port, username, password } = new URL(values.SMTP_URL);
  const secure = protocol === 'smtps:';
  return {
    kind: 'smtp',
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? (secure ? 465 : 587) : Number(port),
    secure,
    requireTls: !secure && values.SMTP_TLS === 'required',
    user: username === '' ? undefined : percentDecoded(username),
    password: password === '' ? undefined : percentDecoded(password),
    from,
  };
};

const ratioOf = ({
  OTEL_TRACES_SAMPLER: sampler,
  OTEL_TRACES_SAMPLER_ARG: share,
}: z.infer<typeof environmentSchema>) =>
  sampler.endsWith('traceidratio') ? Number(share) : Number(sampler.endsWith('always_on'));

const tracingOf = (values: z.infer<typeof environmentSchema>): TracingConfig | undefined =>
  values.OTEL_EXPORTER_OTLP_ENDPOINT === undefined
    ? undefined
    : {
        url: `${values.OTEL_EXPORTER_OTLP_ENDPOINT.replace(/\/+$/, '')}/v1/traces`,
        headers: values.OTEL_EXPORTER_OTLP_HEADERS ?? {},
        serviceName: values.OTEL_SERVICE_NAME,
        resourceAttributes: values.OTEL_RESOURCE_ATTRIBUTES ?? {},
        ratio: ratioOf(values),
        followsParent: values.OTEL_TRACES_SAMPLER.startsWith('parentbased_'),
        traceparentHosts: values.TRACEPARENT_HOSTS ?? [],
      };

const hostOfUrl = (url: string): string => canonicalHost(new URL(url).hostname);

/** Users type cards there: it needs TLS, and no other part of the vault may be on the same host. */
const fieldsOriginProblems = (
  { FIELDS_ORIGIN, PUBLIC_URL }: z.infer<typeof environmentSchema>,
  consoleHost: string | undefined,
): string[] => {
  if (FIELDS_ORIGIN === undefined) return [];
  const problems: string[] = [];
  if (!isPrivateOnTheWay(FIELDS_ORIGIN))
    problems.push('FIELDS_ORIGIN: must begin with https:// in production, since people type cards there.');
  if (hostOfUrl(FIELDS_ORIGIN) === consoleHost)
    problems.push('FIELDS_ORIGIN: must not have the host of CONSOLE_HOST: no page of the console is served there.');
  if (PUBLIC_URL !== undefined && hostOfUrl(FIELDS_ORIGIN) === hostOfUrl(PUBLIC_URL))
    problems.push('FIELDS_ORIGIN: must not have the host of PUBLIC_URL: the API and the proxy are not served there.');
  return problems;
};

/**
 * Parses an environment into a Config.
 * @param environment variables by name, such as `process.env`; empty strings count as not set.
 * @throws ConfigError with all problems at once.
 */
export const loadConfig = (environment: Record<string, string | undefined> = process.env): Config => {
  const problems: string[] = [];
  const variables: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) if (value) variables[name] = value;
  for (const name of fileVariables) {
    const path = variables[`${name}_FILE`];
    if (!path) continue;
    try {
      variables[name] = readFileSync(path, 'utf8').trim();
      delete variables[`${name}_FILE`];
    } catch {
      problems.push(`${name}_FILE: the file ${path} cannot be read. Mount it, or set ${name}.`);
    }
  }
  for (const [name, sentence] of Object.entries(removedVariables))
    if (Object.hasOwn(variables, name)) problems.push(`${name}: ${sentence}`);
  const parsed = environmentSchema.safeParse(variables);
  if (!parsed.success) {
    for (const issue of parsed.error.issues) problems.push(`${issue.path.join('.')}: ${issue.message}`);
    throw new ConfigError(problems);
  }
  const values = parsed.data;
  const mode = values.NODE_ENV === 'production' ? 'production' : 'development';
  const keyProviders = keyProvidersOf(values, problems);
  if (mode === 'production' && keyProviders.names.includes('local') && !values.MASTER_KEY)
    problems.push(
      'MASTER_KEY: needed in production. Make one, store it in your secret manager first, then set it: export MASTER_KEY=$(head -c 32 /dev/urandom | base64)',
    );
  if (mode === 'production' && !values.DATABASE_URL)
    problems.push(
      'DATABASE_URL: needed in production. Set it to a PostgreSQL 15 or newer: export DATABASE_URL=postgresql://user:password@host:5432/strongroom',
    );
  if (mode === 'production' && values.PUBLIC_URL && !isPrivateOnTheWay(values.PUBLIC_URL))
    problems.push('PUBLIC_URL: must begin with https:// in production, since people sign in there.');
  if (mode === 'production' && values.SMTP_URL && !values.MAIL_FROM)
    problems.push('MAIL_FROM: needed with SMTP_URL. Set the sender: export MAIL_FROM="Strongroom <vault@example.com>"');
  if (mode === 'production' && values.SMTP_URL && !values.PUBLIC_URL)
    problems.push(
      'PUBLIC_URL: needed with SMTP_URL, for the links in mails: export PUBLIC_URL=https://vault.example.com',
    );
  if (mode === 'development' && !isLoopback(values.HOST) && !values.ALLOW_DEV_ON_NETWORK)
    problems.push(
      'HOST: a development server listens on loopback only. Set NODE_ENV=production, or ALLOW_DEV_ON_NETWORK=1 if the network is yours.',
    );
  const memoryLeastMb = memoryTotalMbLeast(values.SANDBOX_MEMORY_MB);
  if ((values.SANDBOX_MEMORY_TOTAL_MB ?? memoryLeastMb) < memoryLeastMb)
    problems.push(
      `SANDBOX_MEMORY_TOTAL_MB: must be at least ${memoryLeastMb}, for two executors. Raise it, or lower SANDBOX_MEMORY_MB.`,
    );
  const consoleHost = values.CONSOLE_HOST && canonicalHost(values.CONSOLE_HOST);
  if (consoleHost && values.PUBLIC_URL && consoleHost === canonicalHost(new URL(values.PUBLIC_URL).hostname))
    problems.push('CONSOLE_HOST: must not be the host of PUBLIC_URL: no other route is served there.');
  if (mode === 'production') problems.push(...fieldsOriginProblems(values, consoleHost));
  if (values.METRICS_PORT !== undefined && values.METRICS_PORT !== 0 && values.METRICS_PORT === values.PORT)
    problems.push(
      `METRICS_PORT: must not be PORT. Take another, such as METRICS_PORT=9464, or serve both on PORT with METRICS_TOKEN alone.`,
    );
  if (problems.length > 0) throw new ConfigError(problems);
  return {
    mode,
    host: values.HOST,
    port: values.PORT,
    dataDir: resolve(values.DATA_DIR),
    databaseUrl: values.DATABASE_URL,
    workers: values.WORKERS,
    databasePoolMax: values.DATABASE_POOL_MAX,
    migrateOnStart: values.MIGRATE_ON_START,
    drainMs: (values.DRAIN_SECONDS ?? (mode === 'production' ? DRAIN_SECONDS_PRODUCTION : 0)) * 1000,
    rootKey: values.MASTER_KEY,
    previousRootKeys: values.MASTER_KEY_PREVIOUS ?? [],
    keyProviders,
    cvcTtlMs: values.CVC_TTL,
    erasuresKeptMs: values.ERASURES_KEPT_DAYS * DAY_MS,
    bodyBytesMax: values.BODY_BYTES_MAX,
    proxyBodyBytesMax: values.PROXY_BODY_MAX,
    writeBatches: values.WRITE_BATCHES,
    rateLimit: values.RATE_LIMIT === 'on',
    limitDefaults: {
      rate_limit: values.RATE_LIMIT_DEFAULT,
      daily_reveals: values.DAILY_REVEALS_DEFAULT,
      daily_uses: values.DAILY_USES_DEFAULT,
    },
    trustedProxies: values.TRUSTED_PROXIES,
    bootstrapApiKeyFile: values.BOOTSTRAP_API_KEY_FILE,
    sandbox: {
      wallKind: values.SANDBOX_JAIL,
      allowWeak: mode === 'development' || values.SANDBOX_ALLOW_WEAK === '1',
      isolation: values.SANDBOX_ISOLATION,
      memoryTotalMb: values.SANDBOX_MEMORY_TOTAL_MB ?? defaultMemoryTotalMb(values.SANDBOX_MEMORY_MB),
      wallMs: values.SANDBOX_WALL_MS,
      cpuMs: values.SANDBOX_CPU_MS,
      memoryMb: values.SANDBOX_MEMORY_MB,
    },
    egress: {
      allowedHosts: values.PROXY_ALLOWED_HOSTS,
      privateHosts: values.EGRESS_PRIVATE_HOSTS ?? [],
      ports: values.PROXY_PORTS,
      ownHosts: [
        ...(values.PUBLIC_HOSTS ?? []),
        ...(values.PUBLIC_URL === undefined ? [] : [new URL(values.PUBLIC_URL).hostname]),
        ...(consoleHost === undefined ? [] : [consoleHost]),
        ...(values.FIELDS_ORIGIN === undefined ? [] : [new URL(values.FIELDS_ORIGIN).hostname]),
      ],
    },
    publicUrl: values.PUBLIC_URL && new URL(values.PUBLIC_URL).origin,
    consoleHost,
    fieldsOrigin: values.FIELDS_ORIGIN && new URL(values.FIELDS_ORIGIN).origin,
    console: values.CONSOLE,
    docs: values.DOCS,
    sessionIdleMs: values.SESSION_IDLE,
    signInLockoutMs: values.SIGN_IN_LOCKOUT,
    requireSecondFactor: values.REQUIRE_SECOND_FACTOR ?? mode === 'production',
    mail: mailOf(values, mode),
    metrics: { host: values.METRICS_HOST, port: values.METRICS_PORT, token: values.METRICS_TOKEN },
    logRetentionMonths: values.LOG_RETENTION_MONTHS,
    logStream: values.LOG_STREAM,
    tracing: tracingOf(values),
    logLevel: values.LOG_LEVEL,
    logFormat: values.LOG_FORMAT,
    variables,
  };
};

/** Variables that a process needs before it gets its configuration by message. */
const STARTING_VARIABLES =
  /^(?:PATH|HOME|USER|TZ|LANG|LC_\w+|TMPDIR|LD_LIBRARY_PATH|NODE_(?:COMPILE_CACHE|EXTRA_CA_CERTS|OPTIONS|USE_SYSTEM_CA)|SSL_CERT_\w+|OPENSSL_\w+)$/;

/** Variables withheld from workers, since /proc shows the environment of a process. */
export const withheldVariables = (): Record<string, undefined> =>
  Object.fromEntries(
    Object.keys(process.env)
      .filter((name) => !STARTING_VARIABLES.test(name))
      .map((name) => [name, undefined]),
  );

/** Sets variables that packages read, such as PGSSLMODE. Strongroom's own variables are in the configuration only. */
export const adoptVariables = (variables: Record<string, string>): void => {
  for (const [name, value] of Object.entries(variables))
    if (!Object.hasOwn(environmentSchema.shape, name)) process.env[name] = value;
};

/** A worker's share of a limit that is for the whole server. */
export const shareOf = ({ workers }: Pick<Config, 'workers'>, most: number, least = 1): number =>
  Math.max(least, Math.floor(most / workers));

/** The configuration of one worker: limits for the whole machine or database are divided among the workers. */
export const configOfWorker = (config: Config): Config => ({
  ...config,
  databasePoolMax: shareOf(config, config.databasePoolMax, DATABASE_POOL_MIN),
  sandbox: {
    ...config.sandbox,
    memoryTotalMb: shareOf(config, config.sandbox.memoryTotalMb, memoryTotalMbLeast(config.sandbox.memoryMb)),
  },
});

/** The origin of the console and of links in mails. @param base_url where this server listens. */
export const consoleUrlOf = (
  { publicUrl, consoleHost }: Pick<Config, 'publicUrl' | 'consoleHost'>,
  base_url: string,
): string => {
  const url = new URL(publicUrl ?? base_url);
  if (consoleHost !== undefined) url.hostname = consoleHost;
  return url.origin;
};

/** A start warning: other content on the same host could attack pages of the console. */
export const CONSOLE_SHARES_HOST =
  'the console and the proxy share one host. Give the console a host name of its own: set CONSOLE_HOST';

export const sharesConsoleHost = ({ mode, console, consoleHost }: Config): boolean =>
  mode === 'production' && console && consoleHost === undefined;

/** A start warning: other content on the host of the frames could read what users type. */
export const FIELDS_SHARE_HOST =
  'the frames that collect cards share a host with the console or the proxy. Give them an origin of their own: set FIELDS_ORIGIN';

export const sharesFieldsHost = ({ mode, fieldsOrigin, publicUrl, consoleHost }: Config): boolean => {
  if (fieldsOrigin === undefined) return mode === 'production';
  const host = hostOfUrl(fieldsOrigin);
  return host === consoleHost || (publicUrl !== undefined && host === hostOfUrl(publicUrl));
};
