// Which files may see rows of all tenants within the work of one tenant. A file that this does not list fails it.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');

const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts') && !path.startsWith('generated'))
  .map((path) => ({ path, text: readFileSync(join(root, 'src', path), 'utf8') }));

const using = (pattern: RegExp): string[] =>
  sources.flatMap(({ path, text }) => (pattern.test(text) ? [path] : [])).sort();

test('all tenants are named by few files', () => {
  expect(using(/ALL_TENANTS|'strongroom\.tenants'/)).toEqual([
    'platform/db/backup/session.ts',
    'platform/db/database.ts',
    'platform/db/named-tenants.ts',
    'platform/db/statements.ts',
    'platform/maintenance/migrate.ts',
  ]);
  // What a person, an address or the first tenant has to do with other tenants.
  expect(using(/\bforPerson\(|\bamongAllTenants\(/)).toEqual([
    'modules/access/rows/tenants.ts',
    'modules/people/passwords.ts',
    'modules/people/rows/members.ts',
    'modules/people/rows/sessions.ts',
    'modules/people/second-factor.ts',
    // Sessions of a user are signed again in all tenants.
    'platform/db/signing.ts',
    'platform/mail/mail-outbox.ts',
  ]);
});
