// Signs the rows of earlier versions: every tenant and user as they are. A tenant that is signed already stays as it is.
import { LEAST_ID } from '../crypto/ids.ts';
import { notFound } from '../errors.ts';
import type { Database } from './database.ts';
import type { HeadTable } from './signed-rows.ts';
import { createSigning } from './signing.ts';

/** Ids that are read at once. */
const SLICE = 1_000;
const findUnsigned = (table: HeadTable): string =>
  `SELECT id FROM ${table} WHERE mac IS NULL AND id > $1::uuid ORDER BY id LIMIT ${SLICE}`;

const HAS_UNSIGNED = `
(SELECT id FROM users WHERE mac IS NULL LIMIT 1) UNION ALL (SELECT id FROM tenants WHERE mac IS NULL LIMIT 1)`;

/**
 * Signs one tenant or user with all that belongs to it, as it is.
 * @param isSignedKept whether one that is signed already stays as it is. @throws notFound where it is gone.
 */
export const signHead = (
  { signedRows, statements }: Database,
  table: HeadTable,
  id: string,
  { isSignedKept }: { isSignedKept: boolean },
): Promise<void> =>
  statements.transaction(async (query) => {
    const signing = createSigning(signedRows, id, query);
    const isSigned = await signing.takeAsItIs(table, id);
    if (isSigned && isSignedKept) return;
    await signing.write();
  });

/** Whether a tenant or user has no MAC. */
export const hasUnsigned = async ({ statements }: Pick<Database, 'statements'>): Promise<boolean> =>
  (await statements.query('has-unsigned', HAS_UNSIGNED, [])).length > 0;

/** @returns how many were signed. Can be stopped, and run again. */
export const signUnsigned = async (db: Database, table: HeadTable): Promise<number> => {
  let signed = 0;
  for (let after = LEAST_ID; ;) {
    const found = (await db.statements.query(`find-unsigned-${table}`, findUnsigned(table), [after])) as {
      id: string;
    }[];
    for (const { id } of found) {
      await signHead(db, table, id, { isSignedKept: true }).catch((error: unknown) => {
        // Deleted meanwhile.
        if ((error as { code?: string }).code !== notFound('').code) throw error;
      });
      signed += 1;
    }
    const last = found.at(-1);
    if (!last) return signed;
    after = last.id;
  }
};
