// Checks what a start needs, one line each, with the fix where a check fails. Leaves the database as it is.
import { loadConfig } from '../config.ts';
import { createInspection, failureText } from '../context.ts';
import { StartError } from '../errors.ts';

/** @returns whether everything holds. Starts nothing that it does not stop. */
export const doctor = async (out: { write(text: string): unknown }): Promise<boolean> => {
  let ok = true;
  const check = async <T>(
    name: string,
    run: () => Promise<T> | T,
    tell: (result: T) => string,
  ): Promise<T | undefined> => {
    try {
      const result = await run();
      out.write(`✔ ${name}: ${tell(result)}\n`);
      return result;
    } catch (error) {
      ok = false;
      out.write(`✘ ${name}: ${failureText(error)}\n`);
      return undefined;
    }
  };

  await check(
    'Node',
    () => process.versions.node,
    (version) => version,
  );
  const config = await check(
    'configuration',
    () => loadConfig(),
    (loaded) => loaded.mode,
  );
  if (!config) return false;
  const found = await check(
    'database',
    () => createInspection({ ...config, logLevel: 'silent' }),
    ({ isEmbedded }) => (isEmbedded ? `embedded, in ${config.dataDir}` : 'DATABASE_URL answers'),
  );
  if (!found) return false;
  try {
    await check(
      'root key',
      () => found.checkRootKey(),
      (state) => (state === 'opens' ? 'opens the vault' : 'there is no vault yet that could need another'),
    );
    await check(
      'migrations',
      async () => {
        const { pending, total } = await found.findPendingMigrations();
        if (pending.length === 0) return total;
        throw new StartError(`${pending.length} of ${total} pending (${pending.join(', ')}): npm run migrate`);
      },
      (total) => `${total}, up to date`,
    );
    await check(
      'tenants',
      () => found.hasTenants(),
      (there) => (there ? 'initialized' : 'none yet: npm run -s strongroom -- bootstrap --tenant-name NAME'),
    );
  } finally {
    await found.close();
  }
  return ok;
};
