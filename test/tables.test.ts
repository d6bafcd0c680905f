// The declaration of the tables against the database.
import { expect, test } from 'vitest';
import { EXPIRING_TABLES, OTHER_SEALED_TABLES, SEALED_TABLES, TABLES } from '../src/platform/base/tables.ts';
import { useServer } from './support/server.ts';

test('each table of the database is declared', async () => {
  const server = await useServer();
  const tables = await server.sql(`SELECT relname::text AS name FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1`);
  expect(tables.map(({ name }) => name)).toEqual(Object.keys(TABLES).toSorted());
});

test('each with a sealed column says what happens to it in a rotation', async () => {
  const server = await useServer();
  const rows = await server.sql(`SELECT table_name::text AS name FROM information_schema.columns
    WHERE table_schema = 'public' AND column_name = 'sealed'
    AND NOT (SELECT relispartition FROM pg_class WHERE oid = format('public.%I', table_name)::regclass)`);
  const known = [...SEALED_TABLES.map(({ name }) => name), ...EXPIRING_TABLES, ...Object.keys(OTHER_SEALED_TABLES)];
  expect(rows.map(({ name }) => name).toSorted()).toEqual(known.toSorted());
});
