// Whether an upgrade is over: no process of an earlier version uses the database, and rows have the new forms.
import type { Changes } from '../changes.ts';
import { ANY_PROCESS, isOlder } from './application-names.ts';
import type { Database } from './database.ts';

/** Old processes are gone for long when an operator ends an upgrade: nobody waits for this. */
const READ_EVERY_MS = 5_000;

/** After this time, every process that can reach the database knows that the upgrade is over. */
export const CONTRACT_NOTICED_MS = READ_EVERY_MS + 1_000;

const FIND = `
SELECT contracted_at IS NOT NULL AS is_done, new_forms_at IS NOT NULL AS has_new_forms FROM instance WHERE id = 1`;
const END = 'UPDATE instance SET contracted_at = coalesce(contracted_at, now()) WHERE id = 1 RETURNING id';
const RECORD_NEW_FORMS = 'UPDATE instance SET new_forms_at = coalesce(new_forms_at, now()) WHERE id = 1 RETURNING id';
/** A server is connected all the time; the list of sessions tells all roles the names of all connections. */
const CONNECTIONS = `
SELECT application_name AS name, count(*)::int AS count FROM pg_stat_activity
WHERE datname = current_database() AND application_name ~ '${ANY_PROCESS}' GROUP BY application_name`;

export type Contract = {
  /**
   * Whether processes write the new forms of rows. Until then processes of the earlier version may serve beside this one, and they
   * read the old forms only. Once true, always true.
   */
  isDone(): boolean;
  /** Whether all rows have the new forms: rows that should have one and do not are refused. Once true, always true. */
  hasNewForms(): boolean;
  /** Reads it from the database. @throws unavailable. */
  refresh(): Promise<void>;
  close(): void;
};

/** @returns whether the upgrade is over, and whether all rows have the new forms. @throws unavailable. */
export const findContract = async ({
  statements,
}: Pick<Database, 'statements'>): Promise<{ is_done: boolean; has_new_forms: boolean }> => {
  const [row] = await statements.query('find-contract', FIND, []);
  return row ?? { is_done: false, has_new_forms: false };
};

/** @param changes tells when notices may have been missed. */
export const openContract = async (
  { statements }: Pick<Database, 'statements'>,
  changes: Pick<Changes, 'on'>,
): Promise<Contract> => {
  let isDone = false;
  let hasNewForms = false;
  const refresh = async (): Promise<void> => {
    if (hasNewForms) return;
    const found = await findContract({ statements });
    isDone ||= found.is_done;
    hasNewForms ||= found.has_new_forms;
    if (hasNewForms) clearInterval(timer);
  };
  // A database that is away is noticed elsewhere; this asks again.
  const refreshLater = (): void => void refresh().catch(() => undefined);
  const timer = setInterval(refreshLater, READ_EVERY_MS);
  timer.unref();
  changes.on((change) => change === 'anything' && refreshLater());
  await refresh();
  return { isDone: () => isDone, hasNewForms: () => hasNewForms, refresh, close: () => clearInterval(timer) };
};

/** Declares the upgrade over. @throws unavailable. */
export const endUpgrade = async ({ statements }: Pick<Database, 'statements'>): Promise<void> => {
  await statements.query('end-upgrade', END, []);
};

/** Records that all rows have the new forms. @throws unavailable. */
export const recordNewForms = async ({ statements }: Pick<Database, 'statements'>): Promise<void> => {
  await statements.query('record-new-forms', RECORD_NEW_FORMS, []);
};

/** @returns how many connections processes of earlier versions have. @throws unavailable. */
export const countOlderConnections = async ({ statements }: Pick<Database, 'statements'>): Promise<number> => {
  const found = (await statements.query('list-connections', CONNECTIONS, [])) as { name: string; count: number }[];
  return found.filter(({ name }) => isOlder(name)).reduce((sum, { count }) => sum + count, 0);
};
