// What a backup keeps of the schema.
import { expect, test } from 'vitest';
import { KEPT_TABLES, LEFT_TABLES } from '../src/platform/db/backup/tables.ts';
import { useServer } from './support/server.ts';

test('each table of the schema is in the backup, or left out with a reason', async () => {
  const server = await useServer();
  const tables = await server.sql(`SELECT relname::text AS name FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1`);
  expect(tables.map(({ name }) => name)).toEqual([...KEPT_TABLES, ...Object.keys(LEFT_TABLES)].toSorted());
});
