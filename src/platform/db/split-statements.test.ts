// An SQL script is split at the semicolons that end statements, and at no other.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { splitStatements } from './split-statements.ts';

test.each<[string, string, string[]]>([
  ['statements with and without a last semicolon', 'SELECT 1; SELECT 2', ['SELECT 1', 'SELECT 2']],
  ['a string with a semicolon and a quote', `SELECT 'a;''b;'; SELECT 2;`, [`SELECT 'a;''b;'`, 'SELECT 2']],
  ['a string with a backslash, which ends it', `SELECT 'a\\'; SELECT 2`, [`SELECT 'a\\'`, 'SELECT 2']],
  ['an escape string, where a backslash does not', `SELECT E'a\\';b'; SELECT 2`, [`SELECT E'a\\';b'`, 'SELECT 2']],
  ['a word that ends in e before a string', `SELECT date'a\\'; SELECT 2`, [`SELECT date'a\\'`, 'SELECT 2']],
  ['a name with a semicolon', 'SELECT 1 AS "a;""b"; SELECT 2', ['SELECT 1 AS "a;""b"', 'SELECT 2']],
  ['comments', '-- a; b\n/* c; d */;\nSELECT 1; -- e;\n', ['SELECT 1']],
  ['a comment within a statement', 'SELECT -- it; is\n1; SELECT 2', ['SELECT -- it; is\n1', 'SELECT 2']],
  ['a body in dollars', 'DO $$ BEGIN; END $$; SELECT 2', ['DO $$ BEGIN; END $$', 'SELECT 2']],
  ['a body with a tag', 'DO $x$ SELECT $$a;$$; $x$; SELECT 2', ['DO $x$ SELECT $$a;$$; $x$', 'SELECT 2']],
  ['a name with dollars', 'SELECT a$$b; SELECT 2$$c', ['SELECT a$$b', 'SELECT 2$$c']],
  ['nothing', ' -- nothing\n ; ;', []],
])('%s', (_, script, statements) => expect(splitStatements(script)).toEqual(statements));

test('every migration is split into statements that begin with a command', () => {
  const migrations = join(import.meta.dirname, '../../../prisma/migrations');
  const names = readdirSync(migrations, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  for (const { name } of names)
    for (const statement of splitStatements(readFileSync(join(migrations, name, 'migration.sql'), 'utf8')))
      expect(statement.replaceAll(/^\s*(?:--[^\n]*\n\s*)*/g, ''), name).toMatch(
        /^(?:CREATE|ALTER|DROP|INSERT|UPDATE|DELETE|SELECT|GRANT|REVOKE|DO|COMMENT|SET|WITH)\b/,
      );
});
