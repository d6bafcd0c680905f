// Variables of the database.
import { z } from 'zod';
import { flag, wholeNumber } from './forms.ts';

/** A process needs a transaction beside a statement. */
export const DATABASE_POOL_MIN = 2;
/** Longer than backups are kept: most rules ask for a year at most. Thirteen months are 396 days at most. */
const ERASURES_KEPT_DAYS = 396;
/** Ten years, for backups that are kept as long. */
const ERASURES_KEPT_DAYS_MAX = 3_660;

const isPostgresUrl = (text: string) => URL.canParse(text) && /^postgres(ql)?:$/.test(new URL(text).protocol);

/** libpq takes several addresses, `host1,host2` or `host=host1,host2`. The driver takes one. */
const hasSeveralHosts = (text: string): boolean => {
  const [, authority = '', query = ''] = /^postgres(?:ql)?:\/\/([^/?#]*)[^?#]*\??([^#]*)/.exec(text) ?? [];
  const hosts = authority.slice(authority.lastIndexOf('@') + 1);
  const parameters = new URLSearchParams(query);
  return [hosts, parameters.get('host') ?? '', parameters.get('port') ?? ''].some((part) => /,|%2c/i.test(part));
};

export const databaseVariables = {
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
  DATABASE_POOL_MAX: wholeNumber(DATABASE_POOL_MIN, 200, 10).describe(
    'Connections to the database, of all workers. A heavy worker has a quarter as many more.',
  ),
  MIGRATE_ON_START: flag(true).describe(
    'Applies pending migrations before listening. `false`: a start with pending ones fails.',
  ),
  WRITE_BATCHES: wholeNumber(1, 32, 2).describe('Write batches under way at once, per worker.'),
  ERASURES_KEPT_DAYS: wholeNumber(1, ERASURES_KEPT_DAYS_MAX, ERASURES_KEPT_DAYS).describe(
    'How long the vault remembers what was deleted, in days. Longer than you keep backups, so that a restore can delete it again.',
  ),
};
